-- Who: a worker's desk whose open transaction was lost with its locks: takes back what nobody has run, written or locked since.
-- Locks: those jobs rows by id, SKIP LOCKED. Index: jobs_pkey.
with given as materialized (
    select * from unnest(%(ids)s::bigint[], %(run_nos)s::bigint[]) as g (id, run_no)
),
free as materialized (
    select j.id from stoker.jobs j join given g on j.id = g.id and j.run_no = g.run_no - 1
    where j.state = 'ready' and j.id = any (%(ids)s::bigint[])
    order by j.id
    for no key update of j skip locked
)
update stoker.jobs j
set state = 'running', host = %(host)s, claim_no = %(claim_no)s, run_no = j.run_no + 1, attempt = j.attempt + 1,
    claimed_at = clock_timestamp(), run_at = null
where j.id = any (array(select id from free))
returning j.id
