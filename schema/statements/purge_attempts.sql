-- Who: one keeper at a time: attempts older than any finished row, of jobs that are not live. Locks: those attempts rows. Index: attempts_ended, jobs_pkey.
with old as materialized (
    select a.job_id, a.run_no from stoker.attempts a
    where a.ended_at < (select clock_timestamp() - make_interval(secs => %(seconds)s))
      and not exists (select from stoker.jobs j where j.id = a.job_id)
    order by a.ended_at
    limit %(limit)s
),
gone as (
    delete from stoker.attempts a using old o where a.job_id = o.job_id and a.run_no = o.run_no returning 1
)
select count(*) from gone
