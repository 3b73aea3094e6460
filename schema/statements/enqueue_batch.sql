-- Who: enqueue_many, keyed jobs included. Locks: as enqueue_one, per row in the order given. Index: jobs_key.
select e.id, e.created
from unnest(%(names)s::text[], %(payloads)s::text[], %(queues)s::text[], %(priorities)s::int[], %(run_ats)s::timestamptz[], %(delays)s::float8[],
            %(max_attempts)s::int[], %(keys)s::text[], %(tenants)s::text[], %(on_conflicts)s::text[])
         with ordinality as g (name, payload, queue, priority, run_at, delay, max_attempts, key, tenant, on_conflict, ord),
     lateral stoker.enqueue(g.name, g.payload::jsonb, g.queue, g.priority, g.run_at, g.delay, g.max_attempts, g.key, g.tenant, g.on_conflict,
                            %(notify)s) e
order by g.ord
