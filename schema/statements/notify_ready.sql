-- Who: enqueue_many, and keepers that made jobs ready. Locks: none of a row; its commit takes the lock of all that notify.
select pg_notify('stoker_ready', queue) from unnest(%(queues)s::text[]) as queue
union all
select pg_notify('stoker_due', '') where %(due)s
