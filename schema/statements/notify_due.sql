-- Who: enqueue_many by COPY, when some of the jobs wait for a time. Locks: none.
select pg_notify('stoker_due', '')
