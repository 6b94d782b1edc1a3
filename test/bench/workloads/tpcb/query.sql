-- Sums by branch over the history that pgbench's TPC-B writes.
\set source pgbench_history
\set columns 'bid, count(*) AS n, sum(delta) AS total'
\set result 'bid, n, total'
\set condition true
\set grouping 'GROUP BY bid'
\set update on
\set keys bid
\set merge 'ORDER BY bid ON CONFLICT (bid) DO UPDATE SET n = s.n + excluded.n'
\set merge :merge ', total = s.total + excluded.total'
