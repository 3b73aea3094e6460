-- Who: the desk of a solo worker. Locks: the picked jobs row, SKIP LOCKED. Index: jobs_suspect. As claim_batch, for what that leaves out.
with picked as materialized (
    select id from stoker.jobs
    where queue = %(queue)s and state = 'ready' and suspect and not id = any (array(select job_id from stoker.suspects))
    order by priority, pos
    limit 1
    for no key update skip locked
)
update stoker.jobs j
set state = 'running', host = %(host)s, claim_no = %(claim_no)s, run_no = j.run_no + 1, attempt = j.attempt + 1,
    claimed_at = clock_timestamp(), run_at = null
-- As an array, so that even a plan made for any parameters fetches these rows by their ids.
where j.id = any (array(select id from picked))
returning j.id, j.run_no, j.name, j.payload::text, j.attempt, j.max_attempts, j.priority, j.tenant, j.crashes, j.put_off, j.pos
