-- Who: one keeper at a time. Locks: see stoker.detach_day; gives up after 50 ms.
select stoker.detach_day(%(state)s, %(day)s::date)
