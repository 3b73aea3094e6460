-- Who: enqueue_many of few jobs, or of jobs with keys. Locks: as enqueue_one, rows inserted in the order of the keys: two of these never wait
-- for each other. Index: jobs_key.
select id, created
from stoker.enqueue_many(%(names)s::text[], %(payloads)s::jsonb[], %(queues)s::text[], %(priorities)s::integer[], %(run_ats)s::timestamptz[],
                         %(delays)s::double precision[], %(max_attempts)s::integer[], %(keys)s::text[], %(tenants)s::text[],
                         %(on_conflicts)s::text[], %(notify)s)
