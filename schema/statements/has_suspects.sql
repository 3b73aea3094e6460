-- Who: a keeper. Locks: none.
select exists (select from stoker.suspects)
