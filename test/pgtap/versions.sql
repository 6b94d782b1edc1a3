-- What newer versions of PostgreSQL than 15 bring: SQL/JSON, any_value(), a serialized
-- state of avg(interval). Each query's sink, and what verify() and explain() say.
\set ECHO none
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS pgtap;
CREATE EXTENSION IF NOT EXISTS streamq;
SELECT current_setting('server_version_num')::int AS version \gset
SELECT * FROM no_plan();

DROP SCHEMA IF EXISTS versions CASCADE;
CREATE SCHEMA versions;
SET search_path = versions, public;
CREATE TABLE src (id int, k int, t text, j jsonb, i interval);
CREATE TABLE queries (version int, name text, query text);
INSERT INTO queries VALUES
	(150000, 'interval', 'SELECT k, avg(i) AS a, sum(i) AS s, sum(DISTINCT i) AS d FROM src GROUP BY k'),
	(160000, 'any value', 'SELECT k, any_value(k + 1) AS a, any_value(DISTINCT k) AS d FROM src GROUP BY k'),
	(160000, 'array', 'SELECT k, JSON_ARRAYAGG(t ORDER BY id RETURNING jsonb) AS a FROM src GROUP BY k HAVING JSON_ARRAYAGG(t RETURNING text) <> '''''),
	(160000, 'array as text', 'SELECT k, JSON_ARRAYAGG(t ORDER BY id NULL ON NULL RETURNING text) AS a FROM src GROUP BY k'),
	(160000, 'object', 'SELECT k, JSON_OBJECTAGG(id: t ABSENT ON NULL WITH UNIQUE KEYS RETURNING jsonb) FILTER (WHERE id % 2 = 0) AS o FROM src GROUP BY k'),
	(160000, 'constructors', 'SELECT k, JSON_OBJECT(''n'': count(*), ''m'': max(id) RETURNING jsonb) AS o, JSON_ARRAY(k, min(id) RETURNING jsonb) AS a FROM src GROUP BY k'),
	(160000, 'around', 'SELECT x.k, x.a, x.a || ''!'' AS b FROM (SELECT k, JSON_ARRAYAGG(id ORDER BY id RETURNING text) AS a FROM src GROUP BY k) x WHERE x.k > 0'),
	(160000, 'no alias', 'SELECT k, count(*) AS c FROM (SELECT k FROM src WHERE t IS NOT JSON) GROUP BY k'),
	(170000, 'queried', 'SELECT JSON_VALUE(j, ''$[0].a'' RETURNING int DEFAULT 0 ON ERROR) AS v, count(*) AS c, bool_or(JSON_EXISTS(j, ''$[0].b'')) AS e FROM src GROUP BY 1'),
	(170000, 'table', 'SELECT jt.a, count(*) AS c, max(jt.y) AS y FROM src, JSON_TABLE(j, ''$[*]'' COLUMNS (a int PATH ''$.a'', NESTED PATH ''$.x[*]'' COLUMNS (y int PATH ''$''))) jt GROUP BY 1');
CREATE FUNCTION differences(sink text, query text) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
	n bigint;
BEGIN
	EXECUTE format('SELECT count(*) FROM ((TABLE %1$I EXCEPT ALL (%2$s)) UNION ALL ((%2$s) EXCEPT ALL TABLE %1$I)) x', sink, query) INTO n;
	RETURN n;
END $$;
CREATE PROCEDURE run_all() LANGUAGE plpgsql AS $$
DECLARE
	query text;
	batches bigint;
	input_rows bigint;
BEGIN
	FOR query IN SELECT name FROM streamq.queries WHERE name ~ '^versions ' LOOP
		CALL streamq.run(query, batches, input_rows);
	END LOOP;
END $$;

SELECT lives_ok($$SELECT streamq.add_source('versions.src')$$, 'a source');
SELECT lives_ok(format('SELECT streamq.create_query(%L, %L, %L)', format('versions %s %s', mode, name), query, mode),
				format('%s, %s', name, mode))
FROM queries, unnest('{update,complete}'::text[]) mode WHERE version <= :version;
INSERT INTO src SELECT n, n % 3, nullif(n, 7) || 't',
	jsonb_build_array(jsonb_build_object('a', n % 2, 'b', n, 'x', jsonb_build_array(1, n))), make_interval(days => n % 5)
FROM generate_series(1, 20) n;
CALL run_all();
INSERT INTO src SELECT n, n % 4, n || 't', jsonb_build_array(jsonb_build_object('a', n % 5)), make_interval(hours => n)
FROM generate_series(21, 50) n;
CALL run_all();

SELECT is(differences(format('versions %s %s', mode, name), query), 0::bigint, format('%s, %s: the sink', name, mode))
FROM queries, unnest('{update,complete}'::text[]) mode WHERE version <= :version;
SELECT is((SELECT count(*) FROM streamq.verify(name)), 0::bigint, format('%s: verify()', name))
FROM streamq.queries WHERE name ~ '^versions ';
SELECT lives_ok(format('SELECT * FROM streamq.explain(%L)', name), format('%s: explain()', name))
FROM streamq.queries WHERE name ~ '^versions ';

SELECT lives_ok(format('SELECT streamq.drop_query(%L, true)', name), format('%s: drop_query()', name))
FROM streamq.queries WHERE name ~ '^versions ';
SELECT * FROM finish();
DROP SCHEMA versions CASCADE;
