-- Who: a keeper whose own former session still holds the lock of its host id. Needs to be the same role. Locks: none.
select pg_terminate_backend(l.pid) from pg_locks l
where l.locktype = 'advisory' and l.granted and l.objsubid = 1 and l.pid <> pg_backend_pid()
  and l.database = (select oid from pg_database where datname = current_database())
  and (l.classid::bigint << 32) | l.objid::bigint = %(id)s
