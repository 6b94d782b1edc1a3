--
-- What stateless queries catch up with.  psql variables: rows, transactions, seed,
-- batch_rows.
--
\set ON_ERROR_STOP on
SET search_path = bench;

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

VACUUM (ANALYZE) loaded_at_once, loaded_in_parts;
