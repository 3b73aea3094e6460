-- Who: every single enqueue within a caller's transaction. Locks: none but its own row, or the one it replaces, SKIP LOCKED; a keyed one waits
-- for an uncommitted insert of the same key. Index: jobs_key.
select id, created from stoker.enqueue(%(name)s, %(payload)s::jsonb, %(queue)s, %(priority)s, %(run_at)s, %(delay)s, %(max_attempts)s,
                                       %(idempotency_key)s, %(tenant)s, %(on_conflict)s, %(notify)s)
