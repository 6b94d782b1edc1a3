--
-- create_query, drop_query, run, reset, explain, wait: arguments and refusals
--
CREATE SCHEMA api_query;
SET search_path = api_query;
\pset null '(null)'
CREATE TABLE src (id int, v text);
SELECT streamq.add_source('src');
INSERT INTO src SELECT g, 'v' || g FROM generate_series(1, 10) g;

--
-- the ordinary way, with nothing but defaults
--
SELECT streamq.create_query('q', 'SELECT id, v FROM src');
SELECT name, definition, sink, sources, output_mode, starting_position, max_rows_per_batch, active, trigger_interval, failed, retries, last_error
FROM streamq.queries;
SELECT a.attname, format_type(a.atttypid, a.atttypmod) FROM pg_attribute a
WHERE attrelid = 'q'::regclass AND attnum > 0 ORDER BY attnum;
SELECT pg_get_userbyid(relowner) = current_user AS mine FROM pg_class WHERE oid = 'q'::regclass;
SELECT count(*) FROM q;
CALL streamq.run('q');
SELECT * FROM q ORDER BY id;
CALL streamq.run('q');
INSERT INTO src VALUES (11, 'v11'), (12, 'v12');
-- what is passed for the counts does not matter
CALL streamq.run('q', 100, 100);
CALL streamq.run(name => 'q');
SELECT * FROM test.compare('q');
\pset format unaligned
SELECT * FROM streamq.explain('q') LIMIT 1;
SELECT DISTINCT substring(statement FROM '^\s*(\w+ \w+ [\w.]+)') FROM streamq.explain('q') AS e (statement) ORDER BY 1;
\pset format aligned
-- the definition is a view; it follows renames
SELECT replace(pg_get_viewdef('streamq_query.q'::regclass), 'src.', '') AS definition;
ALTER TABLE src RENAME COLUMN v TO value;
ALTER TABLE src RENAME TO source;
INSERT INTO source VALUES (13, 'v13');
CALL streamq.run('q');
SELECT * FROM test.compare('q');
SELECT sources FROM streamq.queries;
ALTER TABLE source RENAME TO src;
ALTER TABLE src RENAME COLUMN value TO v;
-- what it needs cannot go or change its type
ALTER TABLE src DROP COLUMN v;
ALTER TABLE src ALTER COLUMN v TYPE varchar(100);
DROP TABLE src;
SELECT streamq.drop_source('src');
-- drop_query keeps the sink
SELECT streamq.drop_query('q');
SELECT count(*) FROM streamq.queries;
SELECT count(*) FROM streamq.offsets;
SELECT count(*) FROM streamq.commits;
SELECT to_regclass('streamq_query.q');
SELECT count(*) FROM q;
-- a query of that name starts from the beginning, into the same sink
SELECT streamq.create_query('q', 'SELECT id, v FROM src');
CALL streamq.run('q');
SELECT count(*), count(DISTINCT id) FROM q;
-- with the sink
SELECT streamq.drop_query('q', drop_sink => true);
SELECT to_regclass('q');

--
-- refusals
--
CREATE TABLE free (id int, v text);
CREATE TABLE free2 (id int, v text);
\pset format unaligned
\pset tuples_only on
SELECT args, test.refusal('SELECT streamq.create_query(' || args || ')')
FROM (VALUES
	(1, $$NULL, 'SELECT id FROM src'$$),
	(2, $$'q', NULL$$),
	(3, $$'', 'SELECT id FROM src'$$),
	(4, $$repeat('x', 64), 'SELECT id FROM src'$$),
	(5, $$repeat('ü', 32), 'SELECT id FROM src'$$),
	(6, $$'q', 'SELECT id FROM src', output_mode => 'complete'$$),
	(7, $$'q', 'SELECT id FROM src', output_mode => 'sometimes'$$),
	(8, $$'q', 'SELECT id FROM src', output_mode => NULL$$),
	(9, $$'q', 'SELECT id FROM src', starting_position => 'middle'$$),
	(10, $$'q', 'SELECT id FROM src', starting_position => NULL$$),
	(11, $$'q', 'SELECT id FROM src', max_rows_per_batch => 0$$),
	(12, $$'q', 'SELECT id FROM src', max_rows_per_batch => -1$$),
	(13, $$'q', 'SELECT id FROM src', sources => '{}'$$),
	(14, $$'q', 'SELECT id FROM src', sources => '{NULL}'$$),
	(15, $$'q', 'SELECT id FROM src', sources => '{free}'$$),
	(16, $$'q', 'SELECT id FROM free', sources => '{src}'$$),
	(17, $$'q', 'SELECT id FROM src', sources => '{pg_class}'$$),
	(18, $$'q', 'SELECT id FROM src', sources => '{0}'$$),
	(19, $$'q', 'SELECT f.id FROM free f JOIN free2 USING (id)'$$),
	(20, $$'q', 'SELECT 1 AS one'$$),
	(21, $$'q', 'SELECT relname FROM pg_class'$$),
	(22, $$'q', 'SELECT id FROM src', sink => ''$$),
	(23, $$'q', 'SELECT id FROM src', sink => 'no_schema.q'$$),
	(24, $$'q', 'SELECT id FROM src', sink => 'other_database.api_query.q'$$),
	(25, $$'q', 'SELECT id FROM src', sink => 'a b c'$$),
	(26, $$'q', 'SELECT id FROM src', sink => 'src'$$),
	(27, $$'q', 'SELECT id FROM src', sink => 'api_query.src'$$),
	(28, $$'q', 'SELECT nothing FROM src'$$),
	(29, $$'q', 'SELECT id FROM nowhere'$$),
	(30, $$'q', 'SELECT id, id FROM src'$$),
	(31, $$'q', 'SELECT id + 1, id + 2 FROM src'$$),
	(32, $$'q', 'SELECT ctid FROM src'$$),
	(33, $$'src', 'SELECT id FROM src'$$)
	) AS v (n, args)
ORDER BY n;
\pset format aligned
\pset tuples_only off
-- nothing is left of any of them
SELECT count(*) FROM streamq.queries;
SELECT to_regclass('q'), to_regclass('streamq_query.q');
SELECT source FROM streamq.sources;

--
-- names
--
\pset format unaligned
SELECT streamq.create_query(repeat('x', 63), 'SELECT id FROM src');
SELECT streamq.create_query(repeat('ü', 31), 'SELECT id FROM src');
SELECT streamq.create_query('Two Words', 'SELECT id FROM src');
SELECT streamq.create_query('a.b', 'SELECT id FROM src');
SELECT streamq.create_query('quote"d', 'SELECT id FROM src');
SELECT streamq.create_query('it''s', 'SELECT id FROM src');
SELECT streamq.create_query('select', 'SELECT id FROM src');
SELECT streamq.create_query('back\slash%s', 'SELECT id FROM src');
SELECT streamq.create_query(E'new\nline', 'SELECT id FROM src');
SELECT streamq.create_query('; DROP TABLE src; --', 'SELECT id FROM src');
-- the same name again
SELECT streamq.create_query('select', 'SELECT id FROM src');
-- names are case-sensitive, as they are taken literally
SELECT streamq.create_query('Select', 'SELECT id FROM src');
SELECT format('CALL streamq.run(%L)', name) FROM streamq.queries ORDER BY name COLLATE "C" \gexec
SELECT q.name, q.sink, c.* FROM streamq.queries q, test.compare(q.name) c ORDER BY q.name COLLATE "C";
SELECT count(*), count(DISTINCT q.name) FROM streamq.queries q, streamq.explain(q.name);
SELECT name, streamq.drop_query(name, true) FROM streamq.queries ORDER BY name COLLATE "C";
\pset format aligned
SELECT relname FROM pg_class WHERE relnamespace = 'api_query'::regnamespace AND relkind IN ('r', 'v', 'p') ORDER BY 1;
SELECT relname FROM pg_class WHERE relnamespace = 'streamq_query'::regnamespace ORDER BY 1;

--
-- sinks
--
CREATE SCHEMA "other Schema";
-- a table that is not there yet, elsewhere
SELECT streamq.create_query('q1', 'SELECT id, v FROM src', sink => '"other Schema"."A ""sink"""');
-- a table that is there already, for two queries
CREATE TABLE shared (v text, id bigint, extra text DEFAULT 'extra');
SELECT streamq.create_query('q2', 'SELECT id, v FROM src WHERE id <= 5', sink => 'shared');
SELECT streamq.create_query('q3', 'SELECT id, v FROM src WHERE id > 5', sink => 'api_query.shared');
-- found by its name
CREATE TABLE q4 (v text, id int);
SELECT streamq.create_query('q4', 'SELECT id, v FROM src');
-- the sink of one is the source of the next
SELECT streamq.add_source('q4');
SELECT streamq.create_query('q5', 'SELECT id * 10 AS id FROM q4');
CALL streamq.run('q1');
CALL streamq.run('q2');
CALL streamq.run('q3');
CALL streamq.run('q4');
CALL streamq.run('q5');
SELECT * FROM test.compare('q1');
SELECT * FROM shared ORDER BY id;
SELECT * FROM test.compare('q4');
SELECT * FROM test.compare('q5');
-- drop_sink where others use the sink too
SELECT streamq.drop_query('q2', drop_sink => true);
SELECT name FROM streamq.queries ORDER BY name;
SELECT to_regclass('shared');
-- where something depends on it
CREATE VIEW depends AS SELECT * FROM "other Schema"."A ""sink""";
SELECT streamq.drop_query('q1', drop_sink => true);
SELECT name FROM streamq.queries ORDER BY name;
DROP VIEW depends;
SELECT streamq.drop_query('q1', drop_sink => true);
SELECT to_regclass('"other Schema"."A ""sink"""');
-- where it is a source that another query reads
SELECT streamq.drop_query('q4', drop_sink => true);
SELECT name FROM streamq.queries ORDER BY name;
-- where it is a view
CREATE TABLE base (id int, v text);
CREATE VIEW base_view AS SELECT * FROM base;
SELECT streamq.create_query('q6', 'SELECT id, v FROM src', sink => 'base_view');
CALL streamq.run('q6');
SELECT count(*) FROM base;
SELECT streamq.drop_query('q6', drop_sink => true);
SELECT to_regclass('base_view'), to_regclass('base');
-- a sink dropped behind the query's back
CREATE TABLE short_lived (id int);
SELECT streamq.create_query('q7', 'SELECT id FROM src', sink => 'short_lived');
DROP TABLE short_lived;
SELECT name FROM streamq.queries ORDER BY name;
CALL streamq.run('q7');
DROP TABLE IF EXISTS short_lived CASCADE;
SELECT name FROM streamq.queries ORDER BY name;
-- a sink's column dropped or renamed behind the query's back
CREATE TABLE changing (id int, v text);
SELECT streamq.create_query('q8', 'SELECT id, v FROM src', sink => 'changing');
ALTER TABLE changing RENAME COLUMN v TO w;
CALL streamq.run('q8');
ALTER TABLE changing RENAME COLUMN w TO v;
ALTER TABLE changing DROP COLUMN v;
CALL streamq.run('q8');
ALTER TABLE changing ADD COLUMN v text;
CALL streamq.run('q8');
SELECT * FROM test.compare('q8');
-- a sink renamed or moved: the query follows
ALTER TABLE changing RENAME TO changed;
ALTER TABLE changed SET SCHEMA "other Schema";
INSERT INTO src VALUES (14, 'v14');
CALL streamq.run('q8');
SELECT * FROM test.compare('q8');
SELECT name, sink FROM streamq.queries WHERE name = 'q8';
SELECT name, streamq.drop_query(name) FROM streamq.queries ORDER BY name;

--
-- a query over one unregistered table registers it
--
SELECT streamq.create_query('auto', 'SELECT id FROM free');
SELECT source FROM streamq.sources ORDER BY source::text;
SELECT streamq.drop_query('auto', true);
SELECT streamq.drop_source('free');
-- named twice it is a join of a stream with itself
SELECT streamq.create_query('auto', 'SELECT a.id FROM free a JOIN free b USING (id)');
-- through a view
CREATE VIEW free_view AS SELECT id FROM free WHERE id > 0;
SELECT streamq.create_query('auto', 'SELECT id FROM free_view');
SELECT streamq.drop_query('auto', true);
SELECT source FROM streamq.sources ORDER BY source::text;
SELECT streamq.drop_source('free');
-- beside a subquery over the catalog, or a second table
SELECT streamq.create_query('auto', 'SELECT id FROM free WHERE EXISTS (SELECT FROM free2 WHERE free2.id = free.id)');
-- named by sources
SELECT streamq.create_query('auto', 'SELECT free.id FROM free JOIN free2 USING (id)', sources => '{free}');
SELECT source FROM streamq.sources ORDER BY source::text;
SELECT streamq.add_source('free');
SELECT streamq.create_query('auto', 'SELECT free.id FROM free JOIN free2 USING (id)', sources => '{free}');
SELECT sources FROM streamq.queries WHERE name = 'auto';
SELECT streamq.drop_query('auto', true);
-- of two registered tables one can be read as a static one
SELECT streamq.add_source('free2');
SELECT streamq.create_query('auto', 'SELECT free.id FROM free JOIN free2 USING (id)');
SELECT streamq.create_query('auto', 'SELECT free.id FROM free JOIN free2 USING (id)', sources => '{free2}');
SELECT sources FROM streamq.queries WHERE name = 'auto';
SELECT streamq.drop_query('auto', true);
-- refused together with the query that asked for it
SELECT streamq.drop_source('free2');
SELECT streamq.create_query('auto', 'SELECT count(*) FROM free2');
SELECT source FROM streamq.sources ORDER BY source::text;

--
-- starting positions
--
SELECT streamq.create_query('late', 'SELECT id FROM src', starting_position => 'latest');
CALL streamq.run('late');
INSERT INTO src VALUES (15, 'v15');
CALL streamq.run('late');
SELECT * FROM late;
-- batch ids count on, and a fresh checkpoint reads again
SELECT batch_id, input_rows, output_rows, total_input_rows, total_output_rows FROM streamq.commits WHERE name = 'late' ORDER BY 1;
SELECT streamq.reset('late', 'latest');
CALL streamq.run('late');
INSERT INTO src VALUES (16, 'v16');
CALL streamq.run('late');
SELECT * FROM late ORDER BY id;
TRUNCATE late;
SELECT streamq.reset('late');
SELECT batch_id, input_rows FROM streamq.commits WHERE name = 'late' ORDER BY 1;
CALL streamq.run('late');
SELECT * FROM test.compare('late');
SELECT batch_id, input_rows, output_rows, total_input_rows, total_output_rows FROM streamq.commits WHERE name = 'late' ORDER BY 1;
SELECT streamq.reset('late', 'yesterday');
SELECT streamq.reset('late', NULL);
SELECT streamq.reset('nobody');
SELECT streamq.reset(NULL);
-- a reset that is rolled back
BEGIN;
SELECT streamq.reset('late');
ROLLBACK;
CALL streamq.run('late');
SELECT streamq.drop_query('late', true);
-- rows of the creating transaction itself become visible to others with it
BEGIN;
INSERT INTO src VALUES (17, 'v17');
SELECT streamq.create_query('late', 'SELECT id FROM src', starting_position => 'latest');
INSERT INTO src VALUES (18, 'v18');
COMMIT;
CALL streamq.run('late');
SELECT * FROM late ORDER BY id;
SELECT streamq.drop_query('late', true);
-- 'earliest', in the transaction that makes everything
BEGIN;
CREATE TABLE young (id int);
SELECT streamq.add_source('young');
INSERT INTO young VALUES (1);
SELECT streamq.create_query('young_q', 'SELECT id FROM young');
SAVEPOINT s;
INSERT INTO young VALUES (2);
ROLLBACK TO s;
INSERT INTO young VALUES (3);
COMMIT;
CALL streamq.run('young_q');
SELECT * FROM young_q ORDER BY id;
DROP TABLE young CASCADE;
SELECT name FROM streamq.queries;
DROP TABLE young_q;
-- rolled back
BEGIN;
SELECT streamq.create_query('never', 'SELECT id FROM src');
SELECT name FROM streamq.queries;
ROLLBACK;
SELECT name FROM streamq.queries;
SELECT to_regclass('never'), to_regclass('streamq_query.never');

--
-- update behaves as append
--
SELECT streamq.create_query('upd', 'SELECT id FROM src', output_mode => 'update');
CALL streamq.run('upd');
SELECT * FROM test.compare('upd');
SELECT output_mode FROM streamq.queries;
SELECT streamq.drop_query('upd', true);

--
-- run
--
SELECT streamq.create_query('q', 'SELECT id, v FROM src');
CALL streamq.run('nobody');
CALL streamq.run(NULL);
CALL streamq.run('');
-- inside a transaction block
BEGIN;
CALL streamq.run('q');
ROLLBACK;
BEGIN;
SELECT 1 AS one;
CALL streamq.run('q');
COMMIT;
-- in a function, which cannot commit
CREATE FUNCTION call_run() RETURNS void LANGUAGE plpgsql AS $$
DECLARE
	batches bigint;
	input_rows bigint;
BEGIN
	CALL streamq.run('q', batches, input_rows);
END $$;
SELECT call_run();
\pset format unaligned
\pset tuples_only on
SELECT test.refusal($$CALL streamq.run('q')$$);
\pset format aligned
\pset tuples_only off
SELECT count(*) FROM q;
-- in a procedure, or a DO block, which can
SELECT streamq.create_query('nested', 'SELECT id FROM src', max_rows_per_batch => 6);
CREATE PROCEDURE nested_run(INOUT batches bigint DEFAULT 0, INOUT input_rows bigint DEFAULT 0) LANGUAGE plpgsql AS $$
BEGIN
	CALL streamq.run('nested', batches, input_rows);
END $$;
CALL nested_run();
INSERT INTO src VALUES (18, 'v18 again');
DO $$
DECLARE
	batches bigint;
	input_rows bigint;
BEGIN
	CALL streamq.run('nested', batches, input_rows);
	RAISE NOTICE '% batches, % rows, %', batches, input_rows, current_setting('transaction_isolation');
	INSERT INTO src VALUES (18, 'v18 once more');
	COMMIT;
	CALL streamq.run('nested', batches, input_rows);
	RAISE NOTICE '% batches, % rows, %', batches, input_rows, current_setting('transaction_isolation');
	CALL streamq.run('nested', batches, input_rows);
	RAISE NOTICE '% batches, % rows, %', batches, input_rows, current_setting('transaction_isolation');
END $$;
BEGIN;
CALL nested_run();
ROLLBACK;
SELECT * FROM test.compare('nested');
SELECT streamq.drop_query('nested', true);
-- isolation levels of the session do not matter
SET default_transaction_isolation = 'serializable';
CALL streamq.run('q');
SELECT * FROM test.compare('q');
INSERT INTO src VALUES (19, 'v19');
SET default_transaction_isolation = 'repeatable read';
CALL streamq.run('q');
RESET default_transaction_isolation;
SELECT * FROM test.compare('q');
SHOW transaction_isolation;
-- a read-only session
INSERT INTO src VALUES (20, 'v20');
SET default_transaction_read_only = on;
CALL streamq.run('q');
RESET default_transaction_read_only;
CALL streamq.run('q');
SELECT * FROM test.compare('q');
-- settings of the session are as they were
SHOW search_path;
SHOW transaction_isolation;
SHOW transaction_read_only;
-- a prepared CALL, more than once
INSERT INTO src VALUES (21, 'v21');
PREPARE p AS SELECT count(*) FROM q;
EXECUTE p;
CALL streamq.run('q');
EXECUTE p;
DEALLOCATE p;

--
-- settings that were in force at creation are in force in the batches
--
CREATE FUNCTION f(int) RETURNS int LANGUAGE sql AS 'SELECT $1 + 1';
CREATE FUNCTION g(int) RETURNS int LANGUAGE plpgsql AS 'BEGIN RETURN f($1); END';
CREATE TABLE moments (at timestamptz);
SELECT streamq.add_source('moments');
INSERT INTO moments VALUES ('2024-01-01 20:00:00+00');
SET TimeZone = 'Asia/Tokyo';
SELECT streamq.create_query('tz', 'SELECT at::date AS day, date_trunc(''day'', at) AS midnight, g(1) AS two FROM moments');
SET TimeZone = 'UTC';
SET search_path = pg_catalog;
CALL streamq.run('tz');
SHOW TimeZone;
SHOW search_path;
SET search_path = api_query;
SELECT * FROM tz;
RESET TimeZone;
SELECT streamq.drop_query('tz', true);
-- whatever changes how a value is read or written
CREATE TABLE texts (t text, f float8, i interval, b bytea);
SELECT streamq.add_source('texts');
INSERT INTO texts VALUES ('01/02/2024', 0.1, '1 day 2 hours', 'ab');
SET DateStyle = 'ISO, DMY';
SET extra_float_digits = 0;
SET IntervalStyle = 'iso_8601';
SET bytea_output = 'escape';
SELECT streamq.create_query('styles', 'SELECT t::date AS day, (t::date)::text AS t, f::text AS f, i::text AS i, b::text AS b FROM texts');
SET DateStyle = 'Postgres, MDY';
SET extra_float_digits = 3;
SET IntervalStyle = 'sql_standard';
SET bytea_output = 'hex';
CALL streamq.run('styles');
SELECT * FROM styles;
SHOW DateStyle;
RESET extra_float_digits;
RESET IntervalStyle;
RESET bytea_output;
SELECT streamq.drop_query('styles', true);
-- the text that was given is free of the settings that came later
SELECT streamq.create_query('f', 'SELECT f(id) AS id FROM src');
CREATE SCHEMA first;
CREATE FUNCTION first.f(int) RETURNS int LANGUAGE sql AS 'SELECT -1';
CREATE TABLE first.f (id int);
CREATE TABLE first.src (id int);
SET search_path = first, api_query;
CALL streamq.run('f');
SELECT * FROM test.compare('f');
SELECT count(*) FROM first.f;
SET search_path = api_query;
SELECT streamq.drop_query('f', true);
DROP SCHEMA first CASCADE;

--
-- wait, start, stop without the background
--
SELECT streamq.wait('q', '0');
INSERT INTO src VALUES (22, 'v22');
SELECT streamq.wait('q', '0');
SELECT streamq.wait('q', '50 milliseconds');
SELECT streamq.wait('q', '-1 second');
SELECT streamq.wait('nobody');
SELECT streamq.wait(NULL);
CALL streamq.run('q');
SELECT streamq.wait('q', '0');
SELECT streamq.wait('q');
-- rows of the own transaction are not committed yet
BEGIN;
INSERT INTO src VALUES (23, 'v23');
SELECT streamq.wait('q', '0');
COMMIT;
SELECT streamq.wait('q', '0');
SELECT streamq.stop('q');
SELECT streamq.stop('nobody');
SELECT streamq.stop(NULL);
SELECT streamq.start('nobody');
SELECT streamq.start(NULL);
SELECT streamq.start('q', '-1 second');
SELECT streamq.start('q', NULL);
SELECT streamq.explain('nobody');
SELECT streamq.explain(NULL);
SELECT streamq.drop_query('nobody');
SELECT streamq.drop_query(NULL);

--
-- an error in a batch leaves nothing, and the next run goes on
--
CREATE FUNCTION picky(int) RETURNS int LANGUAGE plpgsql AS $$
BEGIN
	IF EXISTS (SELECT FROM api_query.bad WHERE id = $1) THEN
		RAISE EXCEPTION 'row % is not wanted', $1;
	END IF;
	RETURN $1;
END $$;
CREATE TABLE bad (id int);
INSERT INTO bad VALUES (12);
SELECT streamq.create_query('picky', 'SELECT picky(id) AS id FROM src', max_rows_per_batch => 5);
CALL streamq.run('picky');
SELECT name, state, batch_id, total_input_rows, last_error, retries FROM streamq.status WHERE name = 'picky';
SELECT batch_id, input_rows, output_rows FROM streamq.commits WHERE name = 'picky' ORDER BY 1;
SELECT count(*) FROM picky;
CALL streamq.run('picky');
SELECT count(*) FROM picky;
TRUNCATE bad;
CALL streamq.run('picky');
SELECT * FROM test.compare('picky');
SELECT name, state, batch_id, total_input_rows, last_error, retries FROM streamq.status WHERE name = 'picky';
SELECT streamq.drop_query('picky', true);

--
-- DELETE and TRUNCATE of a source between batches
--
CALL streamq.run('q');
DELETE FROM src WHERE id > 15;
INSERT INTO src VALUES (31, 'v31');
CALL streamq.run('q');
TRUNCATE src;
INSERT INTO src VALUES (32, 'v32');
CALL streamq.run('q');
TRUNCATE src;
CALL streamq.run('q');
SELECT id FROM q WHERE id > 18 ORDER BY id;
-- rows that were deleted before they were read are gone
INSERT INTO src VALUES (33, 'v33'), (34, 'v34');
DELETE FROM src WHERE id = 33;
BEGIN;
TRUNCATE src;
INSERT INTO src VALUES (35, 'v35');
ROLLBACK;
BEGIN;
SAVEPOINT s;
TRUNCATE src;
ROLLBACK TO s;
INSERT INTO src VALUES (36, 'v36');
COMMIT;
CALL streamq.run('q');
SELECT id FROM q WHERE id > 18 ORDER BY id;

--
-- the definition is the engine's
--
INSERT INTO src VALUES (41, 'v41');
UPDATE streamq_query.q SET v = 'x';
-- dropped by hand, the query is forgotten
DROP VIEW streamq_query.q;
SELECT count(*) FROM streamq.queries;
SELECT count(*) FROM streamq.offsets;
SELECT count(*) FROM streamq.commits;
CALL streamq.run('q');

-- also where ordinary event triggers don't fire
CREATE TABLE src2 (id int);
INSERT INTO src2 VALUES (1);
SELECT streamq.create_query('q', 'SELECT id FROM src2');
SET session_replication_role = replica;
ALTER TABLE src2 SET UNLOGGED;
DROP TABLE src2 CASCADE;
RESET session_replication_role;
SELECT count(*) FROM streamq.queries;
SELECT source FROM streamq.sources ORDER BY source::text;

SET client_min_messages = warning;
DROP SCHEMA api_query, "other Schema" CASCADE;
SELECT count(*) FROM streamq.sources;
SELECT count(*) FROM streamq.queries;
SELECT relname FROM pg_class WHERE relnamespace = 'streamq_query'::regnamespace;
