-- Who: the library and the CLI. Locks: the job's row, SKIP LOCKED. Index: jobs_pkey.
select result, state from stoker.cancel(%(id)s, %(reason)s, %(notify)s)
