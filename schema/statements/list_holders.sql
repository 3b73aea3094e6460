-- Who: a keeper at every renewal: which incarnations hold rows of this host. Locks: none. Index: jobs_held, one probe per incarnation.
with recursive holders as (
    select min(claim_no) as claim_no from stoker.jobs where state = 'running' and host = %(host)s
    union all
    select (select min(j.claim_no) from stoker.jobs j where j.state = 'running' and j.host = %(host)s and j.claim_no > h.claim_no)
    from holders h where h.claim_no is not null
)
select claim_no from holders where claim_no is not null
