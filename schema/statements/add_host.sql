-- Who: a keeper, for a new host id. Locks: its own new row.
insert into stoker.hosts (id, hostname, machine, pid_namespace, lock_path, lock_inode)
values (%(id)s, %(hostname)s, %(machine)s, %(pid_namespace)s, %(lock_path)s, %(lock_inode)s)
returning id
