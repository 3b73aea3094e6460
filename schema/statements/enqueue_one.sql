-- Who: every single enqueue. Locks: none but its own row, or the one it replaces; a keyed one waits for a concurrent insert of the same key.
-- Index: jobs_key.
select id, created from stoker.enqueue(%(name)s, %(payload)s::jsonb, %(queue)s, %(priority)s, %(run_at)s, %(delay)s, %(max_attempts)s,
                                       %(idempotency_key)s, %(tenant)s, %(on_conflict)s, %(notify)s)
