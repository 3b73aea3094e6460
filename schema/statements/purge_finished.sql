-- Who: one keeper at a time, for states kept less than a day. Locks: those finished rows. Index: finished_id.
-- The clock is read in a sub-select so that whole days are left out of the plan.
with old as materialized (
    select id from stoker.finished
    where state = %(state)s and finished_at < (select clock_timestamp() - make_interval(secs => %(seconds)s))
    limit %(limit)s
),
gone as (
    delete from stoker.finished f
    where f.id = any (array(select id from old)) and f.state = %(state)s
      and f.finished_at < (select clock_timestamp() - make_interval(secs => %(seconds)s))
    returning 1
)
select count(*) from gone
