-- Who: every single enqueue in a transaction of its own. Locks: as enqueue_one, and none while it notifies. Index: jobs_key.
call stoker.enqueue_alone(%(name)s, %(payload)s::jsonb, %(queue)s, %(priority)s, %(run_at)s, %(delay)s, %(max_attempts)s, %(idempotency_key)s,
                          %(tenant)s, %(on_conflict)s, %(notify)s)
