-- Who: a keeper, before it samples the queues. Locks: none.
select exists (select from stoker.queues where sampled_at > clock_timestamp() - make_interval(secs => %(age)s))
