-- Who: a keeper that holds the rows of these jobs; what is left of jobs that ended goes too. Locks: suspects. Index: jobs_pkey.
with live as materialized (
    select j.id from stoker.jobs j where j.id = any (array(select job_id from stoker.suspects))
),
gone as (
    delete from stoker.suspects s
    where s.job_id = any (%(ids)s::bigint[]) or not s.job_id = any (array(select id from live))
    returning s.job_id, s.host, s.death, s.died_at
)
select job_id, host, death::text from gone where job_id = any (%(ids)s::bigint[]) order by died_at
