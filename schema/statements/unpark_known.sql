-- Who: a keeper at boot: jobs put off because no host knew their name, whose name this host knows. Locks: jobs rows, SKIP LOCKED. Index: jobs_put_off.
with known as materialized (
    select id from stoker.jobs
    where put_off > 0 and state = 'delayed' and name = any (%(names)s)
    order by id
    limit %(limit)s
    for no key update skip locked
)
update stoker.jobs j
set state = 'ready', put_off = 0, run_at = null
where j.id = any (array(select id from known))
returning j.queue
