-- Who: a keeper, after it settled what a dead child held by leases. Locks: none of jobs; suspects. Index: jobs_pkey.
-- A run that was locked has the number after its row's: unless somebody else ran the job under that number since, which only makes a
-- difference for what was executing, and then the attempts tell whether this death has been written into the row already.
insert into stoker.suspects (job_id, host, claim_no, run_no, death)
select j.id, %(host)s::bigint, %(claim_no)s::bigint, g.run_no, %(death)s::jsonb
from unnest(%(ids)s::bigint[], %(run_nos)s::bigint[], %(ended)s::bool[]) as g (id, run_no, ended)
join stoker.jobs j on j.id = g.id
where j.id = any (%(ids)s::bigint[])
  and (j.run_no < g.run_no or (j.run_no = g.run_no and not g.ended))
  and not exists (
      select from stoker.attempts a
      where a.job_id = g.id and a.host = %(host)s and a.error ->> 'claim_no' = %(claim_no)s::bigint::text
  )
on conflict do nothing
returning job_id
