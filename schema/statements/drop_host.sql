-- Who: a keeper that closes last. Locks: its own hosts row. Index: hosts_pkey, jobs_held.
delete from stoker.hosts h
where h.id = %(id)s and not exists (select from stoker.jobs j where j.state = 'running' and j.host = h.id)
returning h.id
