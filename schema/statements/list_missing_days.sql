-- Who: one keeper at a time, every minute: days from today on without a partition, and days that fell into a net. Locks: none.
with today as materialized (
    select (clock_timestamp() at time zone 'UTC')::date as day
),
wanted as (
    select s.state, t.day + n as day from unnest(%(states)s::text[]) as s (state), today t, generate_series(0, %(ahead)s::int) as n
    union
    select f.state, (f.finished_at at time zone 'UTC')::date
    from (
        select 'done' as state, finished_at from stoker.finished_done_default
        union all select 'dead', finished_at from stoker.finished_dead_default
        union all select 'cancelled', finished_at from stoker.finished_cancelled_default
    ) f
)
select state, day::text from wanted
where to_regclass(format('stoker.%%I', 'finished_' || state || '_' || to_char(day, 'YYYYMMDD'))) is null
order by day, state
