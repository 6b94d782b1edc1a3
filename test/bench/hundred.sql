--
-- Queries on one source, and as many plain tables.  psql variables: queries.
--
\set ON_ERROR_STOP on
SET search_path = bench;
CREATE TABLE hundred (id bigint NOT NULL, device int NOT NULL, value int NOT NULL)
	WITH (autovacuum_enabled = off);
CREATE TABLE hundred_batch (LIKE hundred) WITH (autovacuum_enabled = off);
SELECT streamq.add_source('hundred');
SELECT format('CREATE TABLE hundred_plain_%s (id bigint, device int, fahrenheit int)'
			  ' WITH (autovacuum_enabled = off)', i),
	   format('CREATE TABLE hundred_sink_%s (id bigint, device int, fahrenheit int)'
			  ' WITH (autovacuum_enabled = off)', i),
	   format('SELECT streamq.create_query(%L, %L, sink => %L)', 'hundred_' || i,
			  'SELECT id, device, value * 9 / 5 + 32 AS fahrenheit FROM bench.hundred WHERE value >= '
			  || i % 1024, 'bench.hundred_sink_' || i)
FROM generate_series(1, :queries) i \gexec
