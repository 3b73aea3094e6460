-- Who: one keeper at a time, every minute: days of which every row is older than its state is kept. Locks: none.
select k.state, d.day::text
from unnest(%(states)s::text[], %(seconds)s::float8[]) as k (state, seconds),
     pg_inherits i join pg_class c on c.oid = i.inhrelid,
     lateral (select to_date(substring(c.relname from '\d{8}$'), 'YYYYMMDD') as day) d
where i.inhparent = to_regclass('stoker.finished_' || k.state) and c.relname ~ '_\d{8}$'
  and ((d.day + 1)::timestamp at time zone 'UTC') <= clock_timestamp() - make_interval(secs => k.seconds)
order by d.day, k.state
