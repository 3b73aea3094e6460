-- Who: enqueue_many by COPY. Locks: none.
select pg_notify('stoker_ready', queue) from unnest(%(queues)s::text[]) as queue
