-- Who: a keeper, before it settles for a dead child. Locks: none; the settlement is fenced by run_no. Index: jobs_held.
select id, run_no, name, attempt, max_attempts, crashes, extract(epoch from clock_timestamp() - claimed_at)::float8
from stoker.jobs
where state = 'running' and host = %(host)s and claim_no = any (%(claim_nos)s::bigint[]) and id > %(after)s
order by id
limit %(limit)s
