-- Who: stoker queues ls. Locks: none. Reads every live job. Index: finished_dead_queue, whole.
with live as (
    select queue,
           count(*) filter (where state = 'ready') as ready,
           count(*) filter (where state = 'delayed') as delayed,
           count(*) filter (where state = 'running') as running,
           count(*) filter (where state = 'suspended') as suspended,
           count(*) filter (where state = 'blocked') as blocked,
           min(greatest(created_at, run_at, claimed_at)) filter (where state = 'ready') as oldest
    from stoker.jobs
    group by queue
),
dead as (
    select queue, count(*) as dead from stoker.finished where state = 'dead' group by queue
)
select queue, coalesce(ready, 0), coalesce(delayed, 0), coalesce(running, 0), coalesce(suspended, 0), coalesce(blocked, 0),
       coalesce(dead, 0), extract(epoch from clock_timestamp() - oldest)::float8
from live full join dead using (queue) full join (select queue from stoker.queues) served using (queue)
order by queue
