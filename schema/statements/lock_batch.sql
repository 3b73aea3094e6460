-- Who: a worker's desk, for jobs known to be short, in a transaction that stays open while they run: nothing is written for the claim.
-- Locks: the jobs rows it returns, SKIP LOCKED. Index: jobs_ready. Looks behind the mark like claim_batch, and numbers the runs as that would.
select id, run_no + 1, name, payload::text, attempt + 1, max_attempts, priority, tenant, crashes, put_off, pos
from stoker.jobs
where queue = %(queue)s and state = 'ready' and not suspect and (priority, pos) > (%(mark_priority)s::smallint, %(mark_pos)s::bigint)
  and not id = any (array(select job_id from stoker.suspects))
order by priority, pos
limit %(limit)s
for no key update skip locked
