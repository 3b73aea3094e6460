-- Jobs that may have killed their process, among others that ran in it: they run again alone, and no ordinary claim takes them.
-- min_code: 2

alter table stoker.jobs add column suspect boolean not null default false;

drop index stoker.jobs_ready;
-- claim_batch, lock_batch
create index jobs_ready on stoker.jobs (queue, priority, pos) where state = 'ready' and not suspect;
-- claim_suspect, find_suspects
create index jobs_suspect on stoker.jobs (queue, priority, pos) where state = 'ready' and suspect;
