--
-- Tables that are written to: plain, a source, one with a btree index.  psql
-- variables: copy_rows, copy_file, seed.
--
\set ON_ERROR_STOP on
SET search_path = bench;
CREATE TABLE written_plain (id bigint NOT NULL, device int NOT NULL, value int NOT NULL)
	WITH (autovacuum_enabled = off);
CREATE TABLE written_source (LIKE written_plain) WITH (autovacuum_enabled = off);
CREATE TABLE written_index (LIKE written_plain) WITH (autovacuum_enabled = off);
CREATE INDEX ON written_index (id);
CREATE SEQUENCE written_ids;
SELECT streamq.add_source('written_source');
SELECT streamq.create_query('written', 'SELECT id, value FROM bench.written_source WHERE value >= 512',
	sink => 'bench.written_sink');

COPY (SELECT n, bench.device(n, :seed), bench.value(n, :seed) FROM generate_series(1, :copy_rows) n)
	TO :'copy_file';
