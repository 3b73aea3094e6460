-- Who: every keeper, each second and on stoker_cancel: cancel requests and what their jobs are at. Locks: none. Index: cancels_pkey, jobs_pkey.
select c.job_id, c.reason, j.state, j.host
from stoker.cancels c left join stoker.jobs j on j.id = c.job_id
where c.job_id > %(after)s and (%(ids)s::bigint[] is null or c.job_id = any (%(ids)s::bigint[]))
order by c.job_id
limit %(limit)s
