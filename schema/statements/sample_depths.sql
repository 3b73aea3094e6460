-- Who: one keeper at a time, every 15 s, or up to two minutes if there are a million jobs. Locks: queues rows. Reads every live job: capped by
-- a statement time-out.
-- Ready since: its due time, its last claim, or its creation, whichever came last.
with counted as materialized (
    select queue, state, count(*) as jobs, min(greatest(created_at, run_at, claimed_at)) filter (where state = 'ready') as oldest
    from stoker.jobs group by queue, state
),
depths as materialized (
    select queue, jsonb_object_agg(state, jobs) as depth, min(oldest) as oldest from counted group by queue
),
known as materialized (
    select queue from depths union select queue from stoker.queues union select unnest(%(queues)s::text[])
)
insert into stoker.queues (queue, depth, oldest, sampled_at)
select k.queue, coalesce(d.depth, '{}'), d.oldest, clock_timestamp() from known k left join depths d on d.queue = k.queue
order by k.queue
on conflict (queue) do update set depth = excluded.depth, oldest = excluded.oldest, sampled_at = excluded.sampled_at
returning queue
