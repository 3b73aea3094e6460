-- Who: a keeper, before work that one keeper of the fleet does at a time. Locks: that advisory lock, until release_singleton.
select pg_try_advisory_lock(%(key)s::bigint)
