-- Who: a worker's desk after it lost a connection: a claim may have been committed without its answer arriving.
-- Locks: its own running rows by id, SKIP LOCKED. Index: jobs_held. A stored cancel request ends the job instead (left to the keeper).
with unheld as materialized (
    select id from stoker.jobs
    where state = 'running' and host = %(host)s and claim_no = %(claim_no)s and not id = any (%(held)s::bigint[])
    order by id
    for no key update skip locked
)
update stoker.jobs j
set state = 'ready', attempt = greatest(j.attempt - 1, 0), host = null, claim_no = null
from unheld
where j.id = unheld.id
returning j.id
