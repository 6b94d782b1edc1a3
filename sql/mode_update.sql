--
-- Output mode update: groups that change are upserted into the sink by their key,
-- and no other row of it is touched
--
CREATE SCHEMA mode_update;
SET search_path = mode_update;
SET TimeZone = 'UTC';
SET DateStyle = 'ISO';
\pset null '(null)'
CREATE TABLE src (id int GENERATED ALWAYS AS IDENTITY, k text, v numeric, at timestamptz);
CREATE TABLE d (k text PRIMARY KEY, name text);
INSERT INTO d VALUES ('a', 'first'), ('b', 'second'), ('c', 'third');
SELECT streamq.add_source('src', 'at', '1 hour');
CREATE VIEW figures AS
	SELECT name, batch_id, input_rows, late_rows, output_rows, state_rows FROM streamq.progress;
-- what became of the rows of a sink since the last call
CREATE TABLE seen (version text, data text);
CREATE FUNCTION changes(sink regclass) RETURNS TABLE (what text, data text) LANGUAGE plpgsql AS $$
BEGIN
	RETURN QUERY
		SELECT 'written', now.data FROM test.versions(sink) now WHERE NOT EXISTS (SELECT FROM seen s WHERE s.version = now.version)
		UNION ALL
		SELECT 'gone', s.data FROM seen s WHERE NOT EXISTS (SELECT FROM test.versions(sink) now WHERE now.version = s.version)
		UNION ALL
		SELECT 'kept', now.data FROM test.versions(sink) now WHERE EXISTS (SELECT FROM seen s WHERE s.version = now.version)
		ORDER BY 1 DESC, 2;
	TRUNCATE seen;
	INSERT INTO seen SELECT * FROM test.versions(sink);
END $$;

--
-- a sink that is created has a unique index on the keys, in which NULL is a value
--
SELECT streamq.create_query('q', 'SELECT count(*) AS n, k, max(v) AS most FROM src GROUP BY k', 'update');
\d q
INSERT INTO src (k, v) VALUES ('a', 1), ('a', 3.50), (NULL, 2), ('b', 1);
CALL streamq.run('q');
SELECT * FROM changes('q');
-- a group that is not among the rows is left alone
INSERT INTO src (k, v) VALUES ('a', 2), (NULL, 7), ('c', NULL);
CALL streamq.run('q');
SELECT * FROM changes('q');
SELECT * FROM test.compare('q');
-- nor is a row that would be the same again
SELECT streamq.create_query('most', 'SELECT k, max(v) AS most FROM src GROUP BY k', 'update');
CALL test.run('most');
SELECT count(*) FROM changes('most');
INSERT INTO src (k, v) VALUES ('a', 1), ('b', 0), ('c', NULL), (NULL, 9);
CALL streamq.run('most');
SELECT * FROM changes('most');
SELECT * FROM test.compare('most');
-- 2 and 2.0 are different results
SELECT streamq.create_query('sums', 'SELECT k, sum(v) AS total FROM src GROUP BY k', 'update');
CALL test.run('sums');
SELECT count(*) FROM changes('sums');
INSERT INTO src (k, v) VALUES ('a', 0), ('b', 0.0);
CALL test.run('sums', 'most');
SELECT * FROM changes('sums');
SELECT * FROM test.compare('sums');
-- no rows, no batch; rows that WHERE leaves out, a batch that changes nothing
CALL streamq.run('most');
SELECT streamq.create_query('few', 'SELECT k, count(*) AS n FROM src WHERE k > ''b'' GROUP BY k', 'update');
CALL test.run('few');
INSERT INTO src (k) VALUES ('a');
CALL streamq.run('few');
SELECT * FROM figures ORDER BY name, batch_id;
SELECT count(streamq.drop_query(name, true)) FROM streamq.queries;

--
-- HAVING: a row that no longer passes is removed, and comes again
--
SELECT streamq.create_query('q', 'SELECT k, count(*) AS n, sum(v) AS total FROM src GROUP BY k HAVING sum(v) < 10', 'update');
CALL test.run('q');
TRUNCATE seen;
SELECT * FROM changes('q');
INSERT INTO src (k, v) VALUES ('b', 100), (NULL, -10), ('a', 0);
CALL streamq.run('q');
SELECT * FROM changes('q');
INSERT INTO src (k, v) VALUES ('b', -95), ('a', 5), ('e', 1);
CALL streamq.run('q');
SELECT * FROM changes('q');
SELECT * FROM test.compare('q');
-- HAVING that is NULL
INSERT INTO src (k, v) VALUES ('f', NULL);
CALL streamq.run('q');
SELECT * FROM changes('q');
INSERT INTO src (k, v) VALUES ('f', 1), ('e', 'NaN');
CALL streamq.run('q');
SELECT * FROM changes('q');
SELECT * FROM test.compare('q');
SELECT output_rows, state_rows FROM figures ORDER BY batch_id;
SELECT streamq.drop_query('q', true);

--
-- forms of the key
--
SELECT streamq.create_query('all rows', 'SELECT count(*) AS n, sum(v) AS total FROM src', 'update');
SELECT streamq.create_query('all rows, having', 'SELECT count(*) AS n FROM src HAVING count(*) % 2 = 0', 'update');
SELECT streamq.create_query('keys alone', 'SELECT DISTINCT k, v IS NULL AS missing FROM src', 'update');
SELECT streamq.create_query('one key of two twice', 'SELECT round(v, 2) AS v, k AS k1, count(*) AS n, k AS k2 FROM src GROUP BY k, round(v, 2)', 'update');
SELECT streamq.create_query('an expression', 'SELECT upper(k) AS k, upper(k) || count(*) AS n FROM src GROUP BY upper(k)', 'update');
SELECT streamq.create_query('a primary key', 'SELECT d.*, count(*) AS n FROM src JOIN d USING (k) GROUP BY d.k HAVING count(*) < 14', 'update');
SELECT streamq.create_query('constants', 'SELECT ''x'' AS x, k, 1 AS one FROM src GROUP BY 1, 2, 3', 'update');
SELECT streamq.create_query('a WITH query', 'WITH x AS (SELECT k, count(*) AS n FROM src GROUP BY k) SELECT k, n * 2 AS n2 FROM x WHERE n > 4', 'update');
SELECT streamq.create_query('batches of two', 'SELECT k, count(*) AS n, string_agg(v::text, '','' ORDER BY id) AS vs FROM src GROUP BY k', 'update', max_rows_per_batch => 2);
SELECT q.name, array_agg(a.attname ORDER BY x.n) AS key
FROM streamq.queries q JOIN pg_index i ON i.indrelid = q.sink, unnest(i.indkey) WITH ORDINALITY x (attnum, n)
	 JOIN pg_attribute a USING (attnum) WHERE a.attrelid = q.sink GROUP BY 1 ORDER BY 1;
CALL test.run_all();
SELECT * FROM test.compare_all();
INSERT INTO src (k, v) SELECT chr(96 + g % 7), nullif(g % 5, 0) FROM generate_series(1, 20) g;
CALL test.run_all();
SELECT * FROM test.compare_all();
INSERT INTO src (k, v) SELECT nullif(chr(96 + g % 9), 'd'), g FROM generate_series(1, 21) g;
CALL test.run_all();
SELECT * FROM test.compare_all();
SELECT name, bool_and(late_rows = 0), max(state_rows) FROM figures GROUP BY name ORDER BY name;
-- verify and live agree
SELECT q.name, v.* FROM streamq.queries q, streamq.verify(q.name) v;
SELECT * FROM streamq.live('one key of two twice') AS l (v numeric, k1 text, n bigint, k2 text)
EXCEPT ALL TABLE "one key of two twice";

--
-- an error in a batch leaves state and sink as they were; reset begins anew
--
ALTER TABLE "an expression" ADD CHECK (n <> 'Z1');
INSERT INTO src (k) VALUES ('z'), ('y');
CALL streamq.run('an expression');
SELECT count(*) FROM "an expression" WHERE k IN ('Y', 'Z');
SELECT count(*) FROM streamq.state('an expression') AS s (k text, n text) WHERE k IN ('Y', 'Z');
INSERT INTO src (k) VALUES ('z');
CALL streamq.run('an expression');
SELECT * FROM test.compare('an expression');
TRUNCATE seen;
SELECT count(*) FROM changes('"an expression"');
SELECT streamq.reset('an expression');
SELECT count(*) FROM streamq.state('an expression') AS s (k text, n text);
CALL test.run('an expression');
SELECT what, count(*) FROM changes('"an expression"') GROUP BY what;
SELECT * FROM test.compare('an expression');
-- from now on: the groups are those of new rows
ALTER TABLE "an expression" DROP CONSTRAINT "an expression_n_check";
SELECT streamq.reset('an expression', 'latest');
INSERT INTO src (k) VALUES ('z');
CALL streamq.run('an expression');
SELECT * FROM "an expression" WHERE k IN ('Y', 'Z') ORDER BY k;
SET client_min_messages = warning;
SELECT count(streamq.drop_query(name, true)) FROM streamq.queries;
RESET client_min_messages;

--
-- under a watermark the state forgets groups that are final, the sink keeps them
--
TRUNCATE src;
SELECT streamq.create_query('hours', $$SELECT date_trunc('hour', at) AS hour, k, count(*) AS n, array_agg(id ORDER BY id) AS ids FROM src GROUP BY 1, 2$$, 'update');
ALTER TABLE src ALTER id RESTART;
INSERT INTO src (k, at) VALUES ('a', '2024-01-01 10:10'), ('b', '2024-01-01 10:20'), ('a', '2024-01-01 11:40');
CALL streamq.run('hours');
INSERT INTO src (k, at) VALUES ('a', '2024-01-01 10:30'), ('a', '2024-01-01 13:30'), (NULL, NULL);
CALL streamq.run('hours');
SELECT * FROM streamq.state('hours') AS s (hour timestamptz, k text, n bigint, ids int[]) ORDER BY hour;
TRUNCATE seen;
SELECT count(*) FROM changes('hours');
-- the first of these is late, and changes nothing
INSERT INTO src (k, at) VALUES ('a', '2024-01-01 11:59'), ('c', '2024-01-01 12:40'), (NULL, NULL);
CALL streamq.run('hours');
SELECT * FROM changes('hours');
SELECT * FROM figures ORDER BY batch_id;
SELECT * FROM test.compare('hours');

--
-- without aggregation it is the same as append
--
SELECT streamq.create_query('plain', 'SELECT k, id FROM src', 'update');
CALL test.run('plain');
INSERT INTO src (k) VALUES ('a');
CALL streamq.run('plain');
SELECT * FROM test.compare('plain');

SET client_min_messages = warning;
SELECT count(streamq.drop_query(name)) FROM streamq.queries;
DROP SCHEMA mode_update CASCADE;
