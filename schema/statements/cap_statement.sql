-- Who: a keeper's maintenance, first in a transaction: what any statement of it may take, in ms.
select set_config('statement_timeout', %(ms)s::text, true)
