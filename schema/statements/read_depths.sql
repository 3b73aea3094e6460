-- Who: every keeper, every 15 s, for the metrics. Locks: none. Index: queues_pkey.
select queue, depth, greatest(0, extract(epoch from clock_timestamp() - oldest))::float8, dead
from stoker.queues
order by queue
limit %(limit)s
