-- Who: a worker's desk and the keeper. Locks: none. Index: cancels_pkey.
select job_id, reason from stoker.cancels where job_id = any (%(ids)s)
