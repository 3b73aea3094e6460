-- Who: jobs that run inline, in tests of an application. Locks: none. Index: cancels_pkey.
select job_id, reason from stoker.cancels where job_id = any (%(ids)s)
