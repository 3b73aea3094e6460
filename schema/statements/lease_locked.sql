-- Who: a worker's desk: rows that its open transaction has locked become leased ones, under the numbers their runs already have.
-- Locks: none that it does not hold. Index: jobs_pkey.
update stoker.jobs j
set state = 'running', host = %(host)s, claim_no = %(claim_no)s, run_no = j.run_no + 1, attempt = j.attempt + 1,
    claimed_at = transaction_timestamp(), run_at = null
where j.id = any (%(ids)s::bigint[])
