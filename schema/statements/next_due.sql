-- Who: every keeper, to know how long to sleep. Locks: none. Index: jobs_due, two probes.
-- A due row that somebody else holds must not hide the next one.
with clock as materialized (select clock_timestamp() as now)
select coalesce((select min(j.run_at) from stoker.jobs j where j.state = 'delayed') <= c.now, false) as overdue,
       extract(epoch from (select min(j.run_at) from stoker.jobs j
                           where j.state = 'delayed' and j.run_at > c.now and j.run_at < 'infinity') - c.now)::float8 as due_in
from clock c
