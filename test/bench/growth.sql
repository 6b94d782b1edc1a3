--
-- A source that has been read, and a query that continues.  psql variables: name,
-- loaded, seed.
--
\set ON_ERROR_STOP on
SET search_path = bench;
CREATE TABLE :name (id bigint NOT NULL, device int NOT NULL, value int NOT NULL)
	WITH (autovacuum_enabled = off);
SELECT streamq.add_source(:'name');

-- in parts, so that the WAL does not pile up
SELECT format('INSERT INTO %I SELECT n, bench.device(n, %s), bench.value(n, %s)'
			  ' FROM generate_series(%s, %s::bigint) n', :'name', :seed, :seed, first,
			  least(first + 4999999, :loaded)),
	   'CHECKPOINT'
FROM generate_series(1, :loaded, 5000000) first \gexec

SELECT streamq.create_query(:'name',
	format('SELECT id, device, value * 9 / 5 + 32 AS fahrenheit FROM bench.%I WHERE value >= 512', :'name'),
	sink => format('bench.%I', :'name' || '_sink'), starting_position => 'latest');
ALTER TABLE :name SET (autovacuum_enabled = off);
VACUUM (ANALYZE) :name;
