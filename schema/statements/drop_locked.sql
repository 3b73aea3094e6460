-- Who: a worker's desk, like finish_locked where finished rows are not kept.
with forgotten as (
    delete from stoker.cancels c where c.job_id = any (%(ids)s::bigint[])
)
delete from stoker.jobs j where j.id = any (%(ids)s::bigint[])
