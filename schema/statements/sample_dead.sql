-- Who: with sample_depths. Locks: queues rows. Index: finished_dead_queue, whole; capped by a statement time-out.
with counted as materialized (
    select queue, count(*) as dead from stoker.finished_dead group by queue
),
known as materialized (
    select queue from counted union select queue from stoker.queues
)
insert into stoker.queues (queue, dead)
select k.queue, coalesce(c.dead, 0) from known k left join counted c on c.queue = k.queue
order by k.queue
on conflict (queue) do update set dead = excluded.dead where stoker.queues.dead <> excluded.dead
returning queue
