--
-- A source for batches of one row that holds many rows, which the query does not
-- read.  psql variables: rows, seed.
--
\set ON_ERROR_STOP on
SET search_path = bench;

CREATE TABLE one_row_large (LIKE one_row_plain) WITH (autovacuum_enabled = off);
INSERT INTO one_row_large
	SELECT n, device(n, :seed), value(n, :seed) FROM generate_series(1, :rows::bigint) n;
CREATE TABLE one_row_large_sink (LIKE one_row_plain_sink);
SELECT streamq.add_source('one_row_large');
SELECT streamq.create_query('one_row_large',
	'SELECT id, device, value * 9 / 5 + 32 AS fahrenheit FROM bench.one_row_large WHERE value >= 512',
	sink => 'one_row_large_sink', starting_position => 'latest');

VACUUM (ANALYZE) one_row_large;
