-- Who: jobs ls. Locks: none. Index: jobs_pkey, finished_id, walked backwards.
(
    select id, name, queue, state, attempt, max_attempts, priority, run_at, created_at, claimed_at as started_at, null::timestamptz as finished_at,
           tenant, idempotency_key, run_no, crashes, lost, payload::text, error::text, null as result, suspect
    from stoker.jobs
    where (%(queue)s::text is null or queue = %(queue)s) and (%(name)s::text is null or name = %(name)s)
      and (%(states)s::text[] is null or state = any (%(states)s)) and (%(before)s::bigint is null or id < %(before)s)
    order by id desc limit %(limit)s
)
union all
(
    select id, name, queue, state, attempt, max_attempts, priority, null, created_at, claimed_at, finished_at,
           tenant, idempotency_key, run_no, crashes, lost, payload::text, error::text, result::text, false
    from stoker.finished
    where (%(queue)s::text is null or queue = %(queue)s) and (%(name)s::text is null or name = %(name)s)
      and (%(states)s::text[] is null or state = any (%(states)s)) and (%(before)s::bigint is null or id < %(before)s)
    order by id desc limit %(limit)s
)
order by id desc
limit %(limit)s
