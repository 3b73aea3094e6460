-- Who: a keeper, after the work it took the lock for.
select pg_advisory_unlock(%(key)s::bigint)
