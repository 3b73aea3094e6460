-- Who: enqueue_many by COPY, which has to know its ids and the database's time beforehand. Locks: none. One row per run of numbers: usually one.
select min(number) as low, max(number) as high, extract(epoch from clock_timestamp())::float8 as now
from (
    select number, number - row_number() over (order by number) as run
    from (select nextval('stoker.job_numbers') as number from generate_series(1, %(count)s)) as taken
) as numbers
group by run
order by low
