-- Who: every keeper, each second and after every death: which of its host's queues need a solo worker. Locks: none.
-- Index: jobs_suspect, one probe per queue.
select q.queue
from unnest(%(queues)s::text[]) as q (queue),
     lateral (select from stoker.jobs j where j.queue = q.queue and j.state = 'ready' and j.suspect limit 1) found
