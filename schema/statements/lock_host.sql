-- Who: a keeper, on its session connection. Locks: the advisory lock of its host id, until the session ends.
select pg_try_advisory_lock(%(id)s::bigint)
