-- Who: a keeper: a dead worker's session may live on in a process that the job left behind, and hold row locks. Sent until it is gone. Locks: none.
select pg_terminate_backend(pid) from pg_stat_activity
where pid = %(pid)s and datname = current_database() and application_name = %(name)s
