-- Who: enqueue_many, keyed jobs included. Locks: as enqueue_one, per row in the order of the keys: two of these never wait for each other.
-- Index: jobs_key. Their places in line are in the order given.
with given as materialized (
    select g.*, nextval('stoker.job_numbers') as number
    from unnest(%(names)s::text[], %(payloads)s::text[], %(queues)s::text[], %(priorities)s::int[], %(run_ats)s::timestamptz[], %(delays)s::float8[],
                %(max_attempts)s::int[], %(keys)s::text[], %(tenants)s::text[], %(on_conflicts)s::text[])
             with ordinality as g (name, payload, queue, priority, run_at, delay, max_attempts, key, tenant, on_conflict, ord)
),
sorted as materialized (
    select * from given order by name, coalesce(tenant, ''), key, ord
)
select e.id, e.created
from sorted g,
     lateral stoker.enqueue(g.name, g.payload::jsonb, g.queue, g.priority, g.run_at, g.delay, g.max_attempts, g.key, g.tenant, g.on_conflict,
                            %(notify)s, g.number) e
order by g.ord
