-- Who: a keeper, before it samples the queues. Locks: none.
-- A sample reads every live job: one takes 1 to 2 s for a million, so that of a long table is good for longer, up to two minutes.
select exists (
    select from stoker.queues
    where sampled_at > clock_timestamp() - make_interval(secs => greatest(
        %(age)s::float8,
        least(120.0, (select reltuples from pg_class where oid = 'stoker.jobs'::regclass) / 10000)
    ))
)
