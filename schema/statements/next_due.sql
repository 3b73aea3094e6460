-- Who: every keeper, to know how long to sleep. Locks: none. Index: jobs_due.
select extract(epoch from min(run_at) - clock_timestamp())::float8 as due_in from stoker.jobs where state = 'delayed'
