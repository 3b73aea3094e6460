-- Who: jobs show. Locks: none. Index: attempts_pkey.
select run_no, attempt, outcome, started_at, ended_at, host, error::text from stoker.attempts where job_id = %(id)s order by run_no
