-- Who: a keeper that ended its host's lease.
select pg_advisory_unlock(%(id)s::bigint)
