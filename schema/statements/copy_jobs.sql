-- Who: enqueue_many of many jobs without keys. Locks: none.
copy stoker.jobs (id, pos, queue, name, state, priority, run_at, max_attempts, tenant, payload) from stdin
