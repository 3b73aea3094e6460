-- Who: one keeper at a time. Locks: see stoker.attach_day; gives up after 50 ms.
select stoker.attach_day(%(state)s, %(day)s::date)
