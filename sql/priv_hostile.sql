--
-- What a hostile or careless role might try with streamq: with objects of the engine,
-- with rights that the engine has and he has not, with arrival maps and settings, and
-- from within a batch.
--
SET client_min_messages = warning;
DROP ROLE IF EXISTS regress_sq_alice, regress_sq_bob;
SET allow_in_place_tablespaces = on;
DROP TABLESPACE IF EXISTS regress_sq_space;
CREATE TABLESPACE regress_sq_space LOCATION '';
CREATE ROLE regress_sq_alice;
CREATE ROLE regress_sq_bob;
CREATE SCHEMA hostile;
GRANT ALL ON SCHEMA hostile TO regress_sq_alice, regress_sq_bob;
CREATE SCHEMA hostile_closed;
GRANT USAGE ON SCHEMA hostile_closed TO regress_sq_alice;
CREATE SCHEMA hostile_elsewhere AUTHORIZATION regress_sq_alice;
SET search_path = hostile;
CREATE FUNCTION state_table(query text) RETURNS text LANGUAGE sql AS $$
	SELECT format('streamq_state.q%s', query_id) FROM streamq.queries WHERE name = query
$$;

--
-- what the engine makes for a role takes his rights: tablespace, types
--
CREATE TABLE hostile_closed.src (k int, v int);
ALTER TABLE hostile_closed.src OWNER TO regress_sq_alice;
SET ROLE regress_sq_alice;
CREATE TABLE sink (k int PRIMARY KEY, n bigint);
SET default_tablespace = 'regress_sq_space';
SELECT streamq.add_source('hostile_closed.src');
RESET default_tablespace;
SELECT streamq.add_source('hostile_closed.src');
SET default_tablespace = 'regress_sq_space';
SELECT streamq.create_query('q', 'SELECT k, count(*) AS n FROM hostile_closed.src GROUP BY k', 'update', 'sink');
RESET ROLE;
GRANT CREATE ON TABLESPACE regress_sq_space TO regress_sq_alice;
SET ROLE regress_sq_alice;
SELECT streamq.create_query('q', 'SELECT k, count(*) AS n FROM hostile_closed.src GROUP BY k', 'update', 'sink');
RESET ROLE;
REVOKE CREATE ON TABLESPACE regress_sq_space FROM regress_sq_alice;
SET ROLE regress_sq_alice;
SELECT streamq.reset('q');
RESET default_tablespace;
SELECT streamq.reset('q');
SELECT count(*) FROM pg_class WHERE reltablespace = (SELECT oid FROM pg_tablespace WHERE spcname = 'regress_sq_space');
SELECT streamq.drop_query('q');
SET ROLE regress_sq_bob;
CREATE TYPE feeling AS ENUM ('good', 'bad');
REVOKE USAGE ON TYPE feeling FROM PUBLIC;
CREATE TABLE feelings (k int, f feeling);
GRANT SELECT ON feelings TO regress_sq_alice;
SELECT streamq.add_source('feelings');
SET ROLE regress_sq_alice;
CREATE TABLE texts (k int PRIMARY KEY, f text);
SELECT streamq.create_query('q', 'SELECT k, f FROM feelings', sink => 'texts');
SELECT streamq.create_query('q', 'SELECT k, max(f)::text AS f FROM feelings GROUP BY k', 'update', 'texts');
SELECT streamq.create_query('q', 'SELECT k, f::text AS f FROM feelings', sink => 'texts');
SELECT streamq.drop_query('q');

--
-- nothing of the engine's is a source or a sink
--
CREATE TABLE src (k int, v int);
SELECT streamq.add_source('src');
SELECT streamq.create_query('mine', 'SELECT k, sum(v) AS n FROM src GROUP BY k', 'update', live_view => 'mine_live');
INSERT INTO src VALUES (1, 1), (2, 2);
CALL test.run('mine');
SELECT split_part(test.refusal(format('SELECT streamq.add_source(%L)', state_table('mine'))), ' ', 1) AS source,
	split_part(test.refusal(format('SELECT streamq.create_query(''q'', ''SELECT k AS k1 FROM hostile.src'', sink => %L)', state_table('mine'))), ' ', 1) AS sink;
SELECT streamq.create_query('q', 'SELECT k FROM src', sink => 'streamq_query.mine');
SELECT streamq.create_query('q', 'SELECT k FROM src', sink => 'streamq.sources');

--
-- a batch that controls its own query
--
CREATE FUNCTION control(command text) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
	EXECUTE command;
	RETURN 'done';
EXCEPTION WHEN OTHERS THEN
	RETURN SQLSTATE || ' ' || SQLERRM;
END $$;
CREATE FUNCTION control_all(query text) RETURNS text LANGUAGE sql VOLATILE AS $$
	SELECT string_agg(c || ': ' || hostile.control(format('SELECT streamq.' || c, query)), E'\n')
	FROM unnest('{stop(%L),reset(%L),drop_query(%L),"alter_query(%L, ''SELECT 1'')","wait(%L)"}'::text[]) c
$$;
SELECT streamq.create_query('controls', 'SELECT k, hostile.control_all(''controls'') AS answer FROM src WHERE k = 1');
CALL test.run('controls');
\pset format unaligned
\pset tuples_only on
SELECT answer FROM controls;
\pset format aligned
\pset tuples_only off
-- another query may be
SELECT streamq.create_query('controls_other', 'SELECT k, hostile.control_all(''controls'') AS answer FROM src WHERE k = 1');
CALL test.run('controls_other');
SELECT name FROM streamq.status WHERE name ~ '^controls';
SELECT answer ~ '^stop.*done' AS stopped, answer ~ 'drop_query[^:]*: done' AS dropped FROM controls_other;
SELECT streamq.drop_query('controls_other', true);

--
-- columns called as in the engine's own statements
--
CREATE TABLE reserved (at timestamptz, k1 int, "streamq place" int);
SELECT streamq.add_source('reserved', 'at', '0');
SELECT streamq.create_query('reserved_names', 'SELECT at, k1, count(*) AS n FROM reserved GROUP BY 1, 2', 'update', late_sink => 'late');
SELECT streamq.create_query('reserved_names', 'SELECT at, k1, "streamq place", count(*) AS n FROM reserved GROUP BY 1, 2, 3', 'update');
ALTER TABLE reserved RENAME COLUMN "streamq place" TO l;
ALTER TABLE reserved ADD a int, ADD s int, ADD d int, ADD q int, ADD r int, ADD t int, ADD x int, ADD e int, ADD i int, ADD v int, ADD h int,
	ADD n int, ADD place int, ADD s1 int, ADD excluded int, ADD delta int, ADD kept int, ADD added int, ADD written int, ADD image int, ADD row_data int;
SELECT streamq.create_query('reserved_names', $$SELECT at, l AS k1, k1 AS l, s AS s1, s1 AS d, d AS s, q AS t, t AS q, x AS excluded, excluded AS x, delta AS kept, kept AS delta,
	sum(a) AS n, sum(n) AS a, max(image) AS written, count(DISTINCT place) AS added, array_agg(v ORDER BY h) AS image, min(row_data) AS r
	FROM reserved s GROUP BY 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12 HAVING count(e) < 100$$, 'update', late_sink => 'late', live_view => 'reserved_live');
SELECT streamq.create_query('reserved_all', $$SELECT l AS k1, k1 AS l, s AS s1, sum(a) AS n, sum(n) AS a, max(image) AS row_data, count(DISTINCT place) AS difference,
	array_agg(v ORDER BY h) AS image FROM reserved d GROUP BY 1, 2, 3$$, 'complete');
INSERT INTO reserved SELECT '2024-01-01', i, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, i FROM generate_series(1, 3) i;
CALL test.run('reserved_names', 'reserved_all');
INSERT INTO reserved SELECT date '2024-01-01' + i % 2, i % 3, 1, i, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, i, 14, 15, 16, 17, 18, 19, 20, i, 22 FROM generate_series(1, 9) i;
CALL test.run('reserved_names', 'reserved_all');
INSERT INTO reserved SELECT '2023-01-01', i, i FROM generate_series(1, 2) i;
CALL test.run('reserved_names', 'reserved_all');
SELECT count(*) FROM reserved_live;
SELECT k1, l FROM late ORDER BY 1;
SELECT name, difference FROM (VALUES ('reserved_names'), ('reserved_all')) q (name), streamq.verify(name);
SELECT count(streamq.drop_query(name, true)) FROM streamq.queries WHERE name ~ '^reserved';

--
-- temporary tables of the session that runs a query
--
CREATE TABLE names (k int, name text);
INSERT INTO names VALUES (1, 'permanent');
CREATE FUNCTION name_of(int) RETURNS text LANGUAGE plpgsql AS 'BEGIN RETURN (SELECT name FROM names WHERE k = $1); END';
CREATE TEMP TABLE names (k int, name text);
INSERT INTO pg_temp.names VALUES (1, 'temporary');
SELECT streamq.create_query('named', 'SELECT k, name_of(k) AS name FROM src WHERE k = 1');
CALL test.run('named');
SELECT * FROM named;
DROP TABLE pg_temp.names;
SELECT streamq.drop_query('named', true);

--
-- a definition that is replaced by a rule, or moved
--
SELECT streamq.create_query('replaced', 'SELECT k, sum(v) AS n FROM src GROUP BY k', 'update');
CREATE FUNCTION replaced_by(text) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
	EXECUTE 'CREATE OR REPLACE RULE "_RETURN" AS ON SELECT TO streamq_query.replaced DO INSTEAD ' || $1;
	RETURN test.refusal('SELECT * FROM streamq.live(''replaced'') AS (k int, n bigint)');
END $$;
SELECT query, replaced_by(query) FROM (VALUES
	(1, 'SELECT k, sum(v) + max(v) + count(*) + count(DISTINCT v) AS n FROM hostile.src GROUP BY k, v'),
	(2, 'SELECT k, sum(v) + count(*) FILTER (WHERE v > 1) AS n FROM hostile.src GROUP BY k'),
	(3, 'SELECT k, max(v)::bigint AS n FROM hostile.src GROUP BY k'),
	(4, 'SELECT k, v::bigint AS n FROM hostile.src'),
	(5, 'SELECT k, k::bigint AS n FROM generate_series(1, 3) k'),
	(6, 'SELECT k, n FROM streamq_query.mine')) v (number, query) ORDER BY number;
CREATE OR REPLACE RULE "_RETURN" AS ON SELECT TO streamq_query.replaced DO INSTEAD SELECT k, n FROM streamq_query.replaced;
CALL streamq.run('replaced');
SELECT streamq.drop_query('replaced', true);
ALTER VIEW streamq_query.mine SET SCHEMA hostile_elsewhere;
ALTER TABLE streamq_query.mine SET SCHEMA hostile_elsewhere;
ALTER VIEW mine_live SET SCHEMA hostile_elsewhere;
ALTER VIEW hostile_elsewhere.mine_live SET SCHEMA hostile;

--
-- state tables whose owner has done something to them: an error, or his own result spoiled
--
CREATE FUNCTION spoilt_by(command text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	result text := '';
BEGIN
	PERFORM streamq.create_query('spoilt', 'SELECT k, sum(v) AS n, avg(v::numeric) AS a, count(DISTINCT v) AS d FROM hostile.src GROUP BY k', 'update');
	EXECUTE replace(command, '%s', state_table('spoilt'));
	result := test.refusal('SELECT * FROM streamq.state(''spoilt'') AS (k int, n bigint, a numeric, d bigint)');
	RAISE EXCEPTION '%', result USING ERRCODE = 'ZZ001';
EXCEPTION WHEN SQLSTATE 'ZZ001' THEN
	RETURN replace(SQLERRM, state_table('mine'), '');
WHEN OTHERS THEN
	RETURN SQLSTATE || ' ' || SQLERRM;
END $$;
SELECT n, regexp_replace(spoilt_by(command), '"?q\d+[_a-z0-9]*"?', 'q...', 'g') AS answer FROM (VALUES
	(1, 'ALTER TABLE %s RENAME COLUMN k1 TO k'), (2, 'ALTER TABLE %s ALTER s1 TYPE text'),
	(3, 'ALTER TABLE %s DROP s2'), (4, 'ALTER TABLE %s RENAME TO q1'), (5, 'ALTER TABLE %s SET SCHEMA hostile'),
	(6, 'DROP TABLE %s'), (7, 'CREATE RULE r AS ON UPDATE TO %s DO INSTEAD NOTIFY x'),
	(8, 'CREATE TABLE hostile.child () INHERITS (%s)'),
	(9, 'INSERT INTO %s (k1, s2) VALUES (1, ''\x00'')'), (10, 'ALTER TABLE %s ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY'))
	v (n, command) ORDER BY n;
-- rewritten, hidden, held back or doubled by a rule: still no more than a spoilt result
SELECT streamq.create_query('rules', 'SELECT k, sum(v) AS n FROM src GROUP BY k', 'complete');
CALL test.run('rules');
DO $$ BEGIN EXECUTE format('CREATE RULE nothing AS ON INSERT TO %s DO INSTEAD NOTHING', state_table('rules')); END $$;
INSERT INTO src VALUES (3, 3);
\set VERBOSITY sqlstate
CALL streamq.run('rules');
\set VERBOSITY default
SELECT streamq.drop_query('rules', true);

--
-- grants and comments of a live view survive other columns
--
CREATE TABLE sums (k int, n bigint, v bigint, m int);
CREATE UNIQUE INDEX ON sums (k) NULLS NOT DISTINCT;
SELECT streamq.create_query('sums', 'SELECT k, sum(v) AS n, count(v) AS v, max(v) AS m FROM src GROUP BY k', 'update', 'sums', live_view => 'sums_live');
GRANT SELECT ON sums_live TO regress_sq_bob WITH GRANT OPTION;
GRANT SELECT (n), UPDATE (m) ON sums_live TO PUBLIC;
COMMENT ON VIEW sums_live IS 'sums up to now';
COMMENT ON COLUMN sums_live.n IS 'the sum';
COMMENT ON COLUMN sums_live.m IS 'the greatest';
CREATE VIEW seen AS
	SELECT replace(relacl::text, 'tm/', 't/') AS relacl, pg_get_userbyid(relowner) AS owner, obj_description(c.oid) AS comment,
		(SELECT string_agg(concat_ws(' ', attname, attacl::text, col_description(c.oid, attnum)), ', ' ORDER BY attnum)
		 FROM pg_attribute WHERE attrelid = c.oid AND attnum > 0) AS columns,
		(SELECT count(*) FROM pg_shdepend WHERE classid = 'pg_class'::regclass AND objid = c.oid) AS shared
	FROM pg_class c WHERE relname = 'sums_live';
\x on
SELECT * FROM seen;
SELECT streamq.alter_query('sums', 'SELECT k, count(v) AS v, sum(v) AS n FROM src GROUP BY k');
SELECT * FROM seen;
RESET ROLE;
ALTER VIEW sums_live OWNER TO regress_sq_bob;
SELECT streamq.alter_query('sums', 'SELECT k, sum(v) AS n FROM src GROUP BY k');
SELECT * FROM seen;
\x off
SET ROLE regress_sq_bob;
SELECT * FROM sums_live;
SET ROLE regress_sq_alice;
SELECT streamq.drop_query('sums', true);

--
-- circles
--
CREATE TABLE a (i int);
CREATE TABLE b (i int) PARTITION BY LIST (i);
CREATE TABLE b1 PARTITION OF b FOR VALUES IN (1);
CREATE TABLE c (i int, at timestamptz);
SELECT streamq.add_source('a'), streamq.add_source('b'), streamq.add_source('c', 'at', '0');
SELECT streamq.create_query('a_b', 'SELECT i FROM a', sink => 'b1');
SELECT streamq.create_query('b_c', 'SELECT i FROM b', sink => 'c');
SELECT streamq.create_query('c_a', 'SELECT i FROM c', sink => 'a');
SELECT streamq.create_query('c_b', 'SELECT i FROM c', sink => 'b');
SELECT streamq.create_query('c_late', 'SELECT at, count(*) AS n FROM c GROUP BY at', sink => 'd', late_sink => 'e');
SELECT streamq.add_source('e');
SELECT streamq.create_query('e_a', 'SELECT i FROM e', sink => 'a');
SELECT streamq.create_query('a_c', 'SELECT i FROM a', sink => 'c');
SELECT count(streamq.drop_query(name)) FROM streamq.queries WHERE name ~ '^[abc]_';

--
-- arrival maps on tables that are no sources
--
CREATE TABLE updated (i int, v int);
CREATE INDEX ON updated USING streamq_arrivals ((1));
INSERT INTO updated VALUES (1, 1);
-- beyond a lease
DO $$ BEGIN FOR i IN 1..200 LOOP PERFORM pg_current_xact_id(); COMMIT; END LOOP; END $$;
SELECT streamq.current_offset() AS before_update \gset
UPDATE updated SET v = 2;
SELECT i, v FROM updated TABLESAMPLE streamq.since(:'before_update', streamq.current_offset());
SELECT streamq.add_source('updated');
SELECT i, v FROM updated TABLESAMPLE streamq.since(:'before_update', streamq.current_offset());
SELECT count(*) FROM pg_index JOIN pg_class c ON c.oid = indexrelid JOIN pg_am am ON am.oid = relam
	WHERE indrelid = 'updated'::regclass AND amname = 'streamq_arrivals';
CREATE TABLE updated_parts (i int, v int) PARTITION BY LIST (i);
CREATE INDEX ON updated_parts USING streamq_arrivals ((1));
CREATE TABLE updated_1 PARTITION OF updated_parts FOR VALUES IN (1);
INSERT INTO updated_parts VALUES (1, 1);
DO $$ BEGIN FOR i IN 1..200 LOOP PERFORM pg_current_xact_id(); COMMIT; END LOOP; END $$;
SELECT streamq.current_offset() AS before_update \gset
UPDATE updated_parts SET v = 2;
SELECT i, v FROM updated_parts TABLESAMPLE streamq.since(:'before_update', streamq.current_offset());
SELECT streamq.add_source('updated_parts');
SELECT i, v FROM updated_parts TABLESAMPLE streamq.since(:'before_update', streamq.current_offset());
-- a map of a partition's own becomes part of that of the source
CREATE TABLE partly (i int, v int) PARTITION BY LIST (i);
CREATE TABLE partly_1 PARTITION OF partly FOR VALUES IN (1);
CREATE INDEX ON partly_1 USING streamq_arrivals ((1));
INSERT INTO partly VALUES (1, 1);
DO $$ BEGIN FOR i IN 1..200 LOOP PERFORM pg_current_xact_id(); COMMIT; END LOOP; END $$;
SELECT streamq.current_offset() AS before_update \gset
UPDATE partly SET v = 2;
SELECT streamq.add_source('partly');
SELECT i, v FROM partly TABLESAMPLE streamq.since(:'before_update', streamq.current_offset());
-- an index expression of the user's is executed as any other
CREATE FUNCTION who(int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN RAISE WARNING 'as %', current_user; RETURN $1; END $$;
CREATE TABLE expressive (i int);
GRANT INSERT ON expressive TO PUBLIC;
CREATE INDEX who_index ON expressive USING streamq_arrivals (who(i));
SET ROLE regress_sq_bob;
INSERT INTO hostile.expressive VALUES (1);
RESET ROLE;
REINDEX INDEX who_index;
-- other kinds of tables
CREATE TEMP TABLE temporary (i int) ON COMMIT DELETE ROWS;
CREATE INDEX ON temporary USING streamq_arrivals ((1));
BEGIN;
INSERT INTO temporary SELECT generate_series(1, 1000);
SAVEPOINT a;
INSERT INTO temporary SELECT generate_series(1, 1000);
ROLLBACK TO a;
COMMIT;
SELECT count(*) FROM streamq.arrivals('temporary');
BEGIN;
CREATE TEMP TABLE shortlived (i int) ON COMMIT DROP;
CREATE INDEX ON shortlived USING streamq_arrivals ((1));
INSERT INTO shortlived VALUES (1);
COMMIT;
CREATE MATERIALIZED VIEW materialized AS SELECT i FROM generate_series(1, 3) i;
CREATE INDEX ON materialized USING streamq_arrivals ((1));
CREATE UNIQUE INDEX ON materialized (i);
REFRESH MATERIALIZED VIEW materialized;
REFRESH MATERIALIZED VIEW CONCURRENTLY materialized;
SELECT count(*) FROM materialized TABLESAMPLE streamq.since('1:1:', streamq.current_offset());
-- of others, and of what is no table
SET ROLE regress_sq_bob;
SELECT streamq.arrivals('hostile.expressive');
SELECT streamq.arrivals('feelings_arrivals');
SELECT streamq.arrivals('streamq.queries');
SELECT streamq.arrivals(1);
SELECT * FROM streamq.pending('mine');
SELECT * FROM streamq.pending('nobody''s');

--
-- settings
--
SET ROLE regress_sq_alice;
CREATE TABLE "it's \ a" (k int, "b\'" text);
INSERT INTO "it's \ a" VALUES (1, 'x\y''z'), (NULL, NULL);
SELECT streamq.add_source('"it''s \ a"');
SET standard_conforming_strings = off;
SET escape_string_warning = off;
SET backslash_quote = on;
SET transform_null_equals = on;
SET quote_all_identifiers = on;
SET row_security = off;
SET default_transaction_isolation = serializable;
SET enable_indexscan = off;
SET enable_bitmapscan = off;
SET plan_cache_mode = force_generic_plan;
SET DateStyle = 'German';
SET IntervalStyle = 'sql_standard';
SET extra_float_digits = -15;
SET search_path = '';
SET client_min_messages = warning;
SELECT streamq.create_query(E'it''s \\ q', E'SELECT "b\\''", ''\\\\'' AS s, count(*) AS n FROM hostile."it''s \\ a" GROUP BY "b\\''"', 'update',
	sink => E'hostile."it''s \\ sink"', live_view => E'hostile."it''s \\ live"');
CALL test.run(E'it''s \\ q');
SELECT * FROM hostile."it's \ live" ORDER BY 1;
SELECT * FROM streamq.verify(E'it''s \\ q');
SELECT count(*) > 0 AS explained FROM streamq.explain(E'it''s \\ q');
SELECT streamq.alter_query(E'it''s \\ q', E'SELECT "b\\''", ''\\\\'' AS s, count(*) AS n FROM hostile."it''s \\ a" WHERE k = NULL GROUP BY "b\\''"');
SELECT streamq.reset(E'it''s \\ q');
SELECT pending_rows FROM streamq.status WHERE name = E'it''s \\ q';
SELECT streamq.drop_query(E'it''s \\ q', true);
RESET standard_conforming_strings;
RESET escape_string_warning;
RESET backslash_quote;
RESET transform_null_equals;
RESET quote_all_identifiers;
RESET row_security;
RESET default_transaction_isolation;
RESET enable_indexscan;
RESET enable_bitmapscan;
RESET plan_cache_mode;
RESET DateStyle;
RESET IntervalStyle;
RESET extra_float_digits;
SET search_path = hostile;
-- what the batch's function makes of its own transaction
CREATE FUNCTION read_only() RETURNS text LANGUAGE sql VOLATILE AS $$ SELECT set_config('transaction_read_only', 'on', true) $$;
SELECT streamq.create_query('read_only', 'SELECT read_only() AS r FROM src');
CALL streamq.run('read_only');
SELECT streamq.drop_query('read_only', true);

RESET ROLE;
SET client_min_messages = warning;
SELECT count(streamq.drop_query(name)) FROM streamq.queries;
DROP SCHEMA hostile, hostile_closed, hostile_elsewhere CASCADE;
DROP OWNED BY regress_sq_alice, regress_sq_bob;
DROP ROLE regress_sq_alice, regress_sq_bob;
DROP TABLESPACE regress_sq_space;
