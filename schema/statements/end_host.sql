-- Who: a keeper that judged another host dead. Locks: that hosts row. Index: hosts_pkey. No row: it moved, or somebody else was first.
delete from stoker.hosts where id = %(id)s and renewals = %(renewals)s
returning id
