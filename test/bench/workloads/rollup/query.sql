-- Sums per minute and key, of 1000 keys, 50 rows a group.
\set source source
\set columns 'date_bin(''1 minute'', at, ''2000-01-01'') AS minute, key'
\set columns :columns ', count(*) AS n, sum(value) AS total, max(value) AS most'
\set result 'minute, key, n, total, most'
\set condition true
\set grouping 'GROUP BY 1, 2'
\set update on
\set keys 'minute, key'
\set merge 'ORDER BY 1, 2 ON CONFLICT (minute, key) DO UPDATE SET n = s.n + excluded.n'
\set merge :merge ', total = s.total + excluded.total, most = greatest(s.most, excluded.most)'
