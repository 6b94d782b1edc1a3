--
-- What the benchmark measures on.  psql variables: rows, transactions, seed,
-- batch_rows.
--
-- The rows of the sources are a function of their number and the seed, so each
-- run has the same ones.
--
\set ON_ERROR_STOP on
CREATE EXTENSION streamq;
CREATE SCHEMA bench;
SET search_path = bench;

-- device from 1 to 1000, value from 0 to 1023
CREATE FUNCTION device(n bigint, seed bigint) RETURNS int
	LANGUAGE sql IMMUTABLE PARALLEL SAFE
	AS 'SELECT (pg_catalog.hashint8extended(n, seed) & 65535)::int % 1000 + 1';
CREATE FUNCTION value(n bigint, seed bigint) RETURNS int
	LANGUAGE sql IMMUTABLE PARALLEL SAFE
	AS 'SELECT (pg_catalog.hashint8extended(n, seed + 1) & 1023)::int';

-- the sources: the same rows, by one transaction and by many
CREATE TABLE loaded_at_once (id bigint NOT NULL, device int NOT NULL, value int NOT NULL)
	WITH (autovacuum_enabled = off);
CREATE TABLE loaded_in_parts (LIKE loaded_at_once) WITH (autovacuum_enabled = off);

CREATE PROCEDURE load(source regclass, rows bigint, transactions bigint, seed bigint)
LANGUAGE plpgsql AS $$
BEGIN
	FOR i IN 0 .. transactions - 1 LOOP
		EXECUTE format('INSERT INTO %s SELECT n, bench.device(n, $3), bench.value(n, $3)'
					   ' FROM generate_series($1, $2) n', source)
		USING rows * i / transactions + 1, rows * (i + 1) / transactions, seed;
		COMMIT;
	END LOOP;
END $$;
CALL load('loaded_at_once', :rows, 1, :seed);
CALL load('loaded_in_parts', :rows, :transactions, :seed);

-- where the plain INSERT and the streaming queries put the same rows
CREATE TABLE plain_sink (id bigint, device int, fahrenheit int) WITH (autovacuum_enabled = off);
CREATE TABLE stream_sink (LIKE plain_sink) WITH (autovacuum_enabled = off);

SELECT streamq.add_source('loaded_at_once');
SELECT streamq.add_source('loaded_in_parts');
SELECT streamq.create_query('loaded_at_once',
	'SELECT id, device, value * 9 / 5 + 32 AS fahrenheit FROM bench.loaded_at_once WHERE value >= 512',
	sink => 'stream_sink');
SELECT streamq.create_query('loaded_at_once_batches',
	'SELECT id, device, value * 9 / 5 + 32 AS fahrenheit FROM bench.loaded_at_once WHERE value >= 512',
	sink => 'stream_sink', max_rows_per_batch => :batch_rows);
SELECT streamq.create_query('loaded_in_parts',
	'SELECT id, device, value * 9 / 5 + 32 AS fahrenheit FROM bench.loaded_in_parts WHERE value >= 512',
	sink => 'stream_sink');
SELECT streamq.create_query('loaded_in_parts_batches',
	'SELECT id, device, value * 9 / 5 + 32 AS fahrenheit FROM bench.loaded_in_parts WHERE value >= 512',
	sink => 'stream_sink', max_rows_per_batch => :batch_rows);

-- batches of one row, each from a small source
CREATE TABLE one_row (LIKE loaded_at_once);
CREATE TABLE one_row_plain (LIKE loaded_at_once);
CREATE TABLE one_row_sink (LIKE plain_sink);
CREATE TABLE one_row_plain_sink (LIKE plain_sink);
SELECT streamq.add_source('one_row');
SELECT streamq.create_query('one_row',
	'SELECT id, device, value * 9 / 5 + 32 AS fahrenheit FROM bench.one_row WHERE value >= 512',
	sink => 'one_row_sink');

-- and from one that holds all the rows, which the query does not read
CREATE TABLE one_row_large (LIKE loaded_at_once) WITH (autovacuum_enabled = off);
INSERT INTO one_row_large SELECT * FROM loaded_at_once;
SELECT streamq.add_source('one_row_large');
SELECT streamq.create_query('one_row_large',
	'SELECT id, device, value * 9 / 5 + 32 AS fahrenheit FROM bench.one_row_large WHERE value >= 512',
	sink => 'one_row_sink', starting_position => 'latest');

VACUUM (ANALYZE) loaded_at_once, loaded_in_parts, one_row_large;
