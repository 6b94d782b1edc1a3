--
-- What is counted by minute and page.  psql variables: rows, transactions, seed,
-- pages.
--
\set ON_ERROR_STOP on
SET search_path = bench;

-- 100 minutes; the last row lies a day ahead and closes all windows but its own
CREATE TABLE clicks (at timestamptz NOT NULL, page text NOT NULL, ms int NOT NULL)
	WITH (autovacuum_enabled = off);
CALL load_clicks('clicks', 1, :rows - 1, :transactions, interval '100 minutes' / :rows, :pages, :seed);
INSERT INTO clicks VALUES ('2026-01-02 00:01+00', 'closing', 0);

-- where the plain INSERT puts its result
CREATE TABLE windows_plain (minute timestamptz, page text, count bigint, avg numeric, max int)
	WITH (autovacuum_enabled = off);

VACUUM (ANALYZE) clicks;
