-- Who: enqueue_many by COPY, which has to know its ids beforehand. Locks: none.
select nextval('stoker.job_numbers') as id from generate_series(1, %(count)s)
