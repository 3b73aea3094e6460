-- Who: the library and the CLI. Locks: none. Index: jobs_pkey, finished_id.
select id, name, queue, state, attempt, max_attempts, priority, run_at, created_at, claimed_at as started_at, null::timestamptz as finished_at,
       tenant, idempotency_key, run_no, crashes, lost, payload::text, error::text, null as result, suspect
from stoker.jobs where id = %(id)s
union all
select id, name, queue, state, attempt, max_attempts, priority, null, created_at, claimed_at, finished_at,
       tenant, idempotency_key, run_no, crashes, lost, payload::text, error::text, result::text, false
from stoker.finished where id = %(id)s
order by finished_at desc nulls first
limit 1
