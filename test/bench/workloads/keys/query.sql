-- Sums by key, of very many keys.
\set source source
\set columns 'key, count(*) AS n, sum(value) AS total, max(value) AS most'
\set result 'key, n, total, most'
\set condition true
\set grouping 'GROUP BY key'
\set update on
\set keys key
\set merge 'ORDER BY key ON CONFLICT (key) DO UPDATE SET n = s.n + excluded.n'
\set merge :merge ', total = s.total + excluded.total, most = greatest(s.most, excluded.most)'
