-- Who: a worker's desk after it lost a connection: a claim may have been committed without its answer arriving.
-- Locks: its own running rows by id, SKIP LOCKED. Index: jobs_held. A stored cancel request ends the job instead (left to the keeper).
-- Looked up apart from being locked in order: a plan made while the table was empty must not walk all jobs in that order.
with claimed as materialized (
    select id from stoker.jobs where state = 'running' and host = %(host)s and claim_no = %(claim_no)s
),
unheld as materialized (
    select id from stoker.jobs
    where id = any (array(select id from claimed)) and not id = any (%(held)s::bigint[])
      and state = 'running' and host = %(host)s and claim_no = %(claim_no)s
    order by id
    for no key update skip locked
)
update stoker.jobs j
set state = 'ready', attempt = greatest(j.attempt - 1, 0), host = null, claim_no = null
where j.id = any (array(select id from unheld))
returning j.id
