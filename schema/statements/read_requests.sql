-- Who: every keeper, each second and on stoker_cancel: cancel requests and what their jobs are at. Locks: none. Index: cancels_pkey, jobs_pkey.
with page as materialized (
    select job_id, reason from stoker.cancels
    where job_id > %(after)s and (%(ids)s::bigint[] is null or job_id = any (%(ids)s::bigint[]))
    order by job_id
    limit %(limit)s
),
asked as materialized (
    select id, state, host from stoker.jobs where id = any (array(select job_id from page))
)
select p.job_id, p.reason, j.state, j.host
from page p left join asked j on j.id = p.job_id
order by p.job_id
