--
-- Every form that is refused: SQLSTATE, a message that names the construct, a hint.
--
CREATE SCHEMA compile_refuse;
SET search_path = compile_refuse;
CREATE TABLE s (id int, k int, v text, at timestamptz, c text COLLATE "C");
CREATE TABLE s2 (id int, k int, v text);
CREATE TABLE sp (id int, k int) PARTITION BY LIST (k);
CREATE TABLE sp_1 PARTITION OF sp DEFAULT;
SELECT streamq.add_source('s', 'at', '1 minute');
SELECT streamq.add_source('s2');
SELECT streamq.add_source('sp');
SELECT streamq.add_source('sp_1');
CREATE TABLE d (k int PRIMARY KEY, name text);
CREATE TABLE d2 (k int, w int);
CREATE TABLE plain1 (id int);
CREATE TABLE plain2 (id int);
CREATE TEMP TABLE temporary (k int);
CREATE TEMP VIEW temporary_view AS SELECT * FROM d;
CREATE FUNCTION pg_temp.temporary_function(int) RETURNS int LANGUAGE sql AS 'SELECT $1';
CREATE DOMAIN pg_temp.temporary_domain AS text;
CREATE VIEW counting AS SELECT k, count(*) AS n FROM s GROUP BY k;
CREATE VIEW sorted AS SELECT id FROM s ORDER BY id;
CREATE VIEW limited AS SELECT id FROM s LIMIT 1;
CREATE VIEW passing AS SELECT id, k FROM s;
CREATE VIEW joined AS SELECT s.id FROM s JOIN s2 USING (id);
CREATE VIEW constant AS SELECT 1 AS id;
CREATE FUNCTION two() RETURNS SETOF int LANGUAGE sql AS 'VALUES (1), (2)';
INSERT INTO s VALUES (1, 1, 'one', now());

CREATE TABLE cases (n int GENERATED ALWAYS AS IDENTITY, what text, query text);
INSERT INTO cases (what, query) VALUES
-- sorting and limiting
('DISTINCT ON', 'SELECT DISTINCT ON (k) k, id FROM s'),
('window function', 'SELECT id, row_number() OVER () FROM s'),
('window aggregate', 'SELECT id, sum(id) OVER (PARTITION BY k) FROM s'),
('WINDOW clause', 'SELECT id, lag(id) OVER w FROM s WINDOW w AS (ORDER BY id)'),
('ORDER BY', 'SELECT id FROM s ORDER BY id'),
('LIMIT', 'SELECT id FROM s LIMIT 10'),
('LIMIT ALL', 'SELECT id FROM s LIMIT ALL'),
('OFFSET', 'SELECT id FROM s OFFSET 1'),
('OFFSET 0', 'SELECT id FROM s OFFSET 0'),
('FETCH', 'SELECT id FROM s FETCH FIRST ROW ONLY'),
('ORDER BY and FETCH WITH TIES', 'SELECT id FROM s ORDER BY id FETCH FIRST ROW WITH TIES'),
('FOR UPDATE', 'SELECT id FROM s FOR UPDATE'),
('FOR SHARE OF', 'SELECT s.id FROM s JOIN d USING (k) FOR SHARE OF s'),
('FOR KEY SHARE of a static table', 'SELECT s.id FROM s JOIN d USING (k) FOR KEY SHARE OF d'),
-- the same in subqueries, CTEs and views
('window in a subquery', 'SELECT n FROM (SELECT row_number() OVER () AS n FROM s) x'),
('ORDER BY in a subquery', 'SELECT id FROM (SELECT id FROM s ORDER BY id) x'),
('LIMIT in a subquery', 'SELECT id FROM (SELECT id FROM s LIMIT 1) x'),
('OFFSET in a subquery', 'SELECT id FROM (SELECT id FROM s OFFSET 0) x'),
('FOR UPDATE in a subquery', 'SELECT id FROM (SELECT id FROM s FOR UPDATE) x'),
('LIMIT in a CTE', 'WITH x AS (SELECT id FROM s LIMIT 1) SELECT id FROM x'),
('ORDER BY in a view', 'SELECT id FROM sorted'),
('LIMIT in a view', 'SELECT id FROM limited'),
('join in a view', 'SELECT id FROM joined'),
('LIMIT in LATERAL over the stream', 'SELECT d.k, x.id FROM d, LATERAL (SELECT id FROM s WHERE s.k = d.k LIMIT 1) x'),
-- set operations
('INTERSECT', 'SELECT id FROM s INTERSECT SELECT id FROM s2'),
('INTERSECT ALL', 'SELECT id FROM s INTERSECT ALL SELECT k FROM d'),
('EXCEPT', 'SELECT id FROM s EXCEPT SELECT id FROM s2'),
('EXCEPT ALL', 'SELECT id FROM s EXCEPT ALL SELECT k FROM d'),
('UNION of static in UNION ALL', 'SELECT id FROM s UNION ALL (SELECT k FROM d UNION SELECT k FROM d2)'),
('UNION ALL with a static table', 'SELECT id FROM s UNION ALL SELECT k FROM d'),
('UNION ALL with a static table first', 'SELECT k FROM d UNION ALL SELECT id FROM s'),
('UNION ALL with constants', 'SELECT id FROM s UNION ALL SELECT 1'),
('UNION ALL with VALUES', 'SELECT id FROM s UNION ALL VALUES (1), (2)'),
('UNION ALL with a static view', 'SELECT id FROM s UNION ALL SELECT id FROM constant'),
('UNION ALL with a static CTE', 'WITH x AS (SELECT k FROM d) SELECT id FROM s UNION ALL SELECT k FROM x'),
('UNION ALL with a static table in a subquery', 'SELECT id FROM (SELECT id FROM s UNION ALL SELECT k FROM d) x'),
('UNION ALL with a static aggregate', 'SELECT id FROM s UNION ALL SELECT count(*) FROM d'),
('UNION ALL, ORDER BY', 'SELECT id FROM s UNION ALL SELECT id FROM s2 ORDER BY 1'),
('UNION ALL, LIMIT', 'SELECT id FROM s UNION ALL SELECT id FROM s2 LIMIT 1'),
('UNION ALL, ORDER BY and LIMIT in a branch', '(SELECT id FROM s ORDER BY id LIMIT 1) UNION ALL SELECT id FROM s2'),
-- joins
('stream-stream', 'SELECT s.id FROM s JOIN s2 USING (id)'),
('stream-stream by comma', 'SELECT s.id FROM s, s2 WHERE s.id = s2.id'),
('stream-stream, cross', 'SELECT s.id FROM s CROSS JOIN s2'),
('stream-stream, left', 'SELECT s.id FROM s LEFT JOIN s2 USING (id)'),
('stream-stream over a static table', 'SELECT s.id FROM s JOIN d USING (k) JOIN s2 ON s2.k = d.k'),
('self join', 'SELECT a.id FROM s a JOIN s b USING (id)'),
('self join by comma', 'SELECT a.id FROM s a, s b'),
('self join of a CTE', 'WITH x AS (SELECT id FROM s) SELECT a.id FROM x a JOIN x b USING (id)'),
('join with a view over a stream', 'SELECT s2.id FROM s2 JOIN passing USING (id)'),
('join in a branch of UNION ALL', 'SELECT id FROM s UNION ALL SELECT s.id FROM s JOIN s2 USING (id)'),
('join of subqueries', 'SELECT x.id FROM (SELECT id FROM s) x JOIN (SELECT id FROM sp) y USING (id)'),
('LATERAL join', 'SELECT s.id, x.id AS id2 FROM s, LATERAL (SELECT id FROM s2 WHERE s2.k = s.k) x'),
('stream on the nullable side of LEFT JOIN', 'SELECT d.k, s.id FROM d LEFT JOIN s USING (k)'),
('stream on the nullable side of RIGHT JOIN', 'SELECT d.k, s.id FROM s RIGHT JOIN d USING (k)'),
('stream on the nullable side, inside', 'SELECT d.k FROM d JOIN (d2 LEFT JOIN s USING (k)) ON d.k = d2.k'),
('stream on the nullable side, as a subquery', 'SELECT d.k FROM d LEFT JOIN (SELECT k FROM s UNION ALL SELECT k FROM s2) x USING (k)'),
('stream on the nullable side, under a join', 'SELECT d.k FROM d LEFT JOIN (s JOIN d2 USING (k)) ON d.k = s.k'),
('LEFT JOIN LATERAL', 'SELECT d.k FROM d LEFT JOIN LATERAL (SELECT id FROM s WHERE s.k = d.k) x ON true'),
('FULL JOIN', 'SELECT s.id FROM s FULL JOIN d USING (k)'),
('FULL JOIN, static first', 'SELECT s.id FROM d FULL JOIN s USING (k)'),
('preserved, then nullable', 'SELECT d.k FROM d LEFT JOIN (s LEFT JOIN d2 USING (k)) ON d.k = s.k'),
-- a stream where only static tables may be
('EXISTS', 'SELECT id FROM s WHERE EXISTS (SELECT FROM s2 WHERE s2.id = s.id)'),
('EXISTS of the same stream', 'SELECT id FROM s WHERE EXISTS (SELECT FROM s x WHERE x.id = s.k)'),
('NOT EXISTS', 'SELECT id FROM s WHERE NOT EXISTS (SELECT FROM s2 WHERE s2.id = s.id)'),
('IN', 'SELECT id FROM s WHERE id IN (SELECT id FROM s2)'),
('NOT IN', 'SELECT id FROM s WHERE id NOT IN (SELECT id FROM s2)'),
('ANY', 'SELECT id FROM s WHERE id > ANY (SELECT id FROM s2)'),
('scalar subquery', 'SELECT id, (SELECT max(id) FROM s2) FROM s'),
('scalar subquery over a CTE', 'WITH x AS (SELECT id FROM s2) SELECT id, (SELECT max(id) FROM x) FROM s'),
('scalar subquery over a view', 'SELECT id, (SELECT max(id) FROM passing) FROM s2'),
('ARRAY of a subquery', 'SELECT id, ARRAY(SELECT id FROM s2) FROM s'),
('subquery over the stream and a static FROM', 'SELECT k FROM d WHERE EXISTS (SELECT FROM s WHERE s.k = d.k)'),
('subquery over the stream alone', 'SELECT (SELECT max(id) FROM s) AS m'),
('subquery in a join condition', 'SELECT s.id FROM s JOIN d ON d.k = s.k AND EXISTS (SELECT FROM s2 WHERE s2.id = s.id)'),
('subquery in a function''s argument', 'SELECT id, g FROM s, generate_series(1, (SELECT max(id) FROM s2)) g'),
('subquery in VALUES', 'SELECT s.id FROM s JOIN (VALUES ((SELECT max(id) FROM s2))) x (id) USING (id)'),
('subquery inside a static subquery', 'SELECT id FROM s WHERE k IN (SELECT k FROM d WHERE EXISTS (SELECT FROM s2 WHERE s2.k = d.k))'),
('subquery in a static aggregate', 'SELECT s.id FROM s JOIN (SELECT k FROM d2 GROUP BY k HAVING count(*) > (SELECT count(*) FROM s2)) x USING (k)'),
('subquery in LIMIT of a static subquery', 'SELECT s.id FROM s JOIN (SELECT k FROM d LIMIT (SELECT count(*) FROM s2)) x USING (k)'),
('partition of the stream in a subquery', 'SELECT id FROM sp WHERE EXISTS (SELECT FROM sp x WHERE x.id = sp.k)'),
('recursive CTE over the stream', 'WITH RECURSIVE x AS (SELECT id FROM s UNION ALL SELECT id + 1 FROM x WHERE id < 5) SELECT id FROM x'),
('recursive CTE that joins the stream', 'WITH RECURSIVE x AS (SELECT 1 AS id UNION ALL SELECT s.id FROM s JOIN x ON s.k = x.id) SELECT id FROM x'),
('recursive CTE with UNION', 'WITH RECURSIVE x AS (SELECT id FROM s UNION SELECT id + 1 FROM x WHERE id < 5) SELECT id FROM x'),
('stream in a recursive CTE beside a stream', 'WITH RECURSIVE x AS (SELECT id FROM s2 UNION ALL SELECT id + 1 FROM x WHERE id < 5) SELECT s.id FROM s JOIN x USING (id)'),
('data-modifying CTE', 'WITH x AS (INSERT INTO d VALUES (1) RETURNING k) SELECT s.id FROM s'),
('data-modifying CTE that deletes from the stream', 'WITH x AS (DELETE FROM s RETURNING id) SELECT id FROM x'),
('TABLESAMPLE on the stream', 'SELECT id FROM s TABLESAMPLE BERNOULLI (50)'),
('TABLESAMPLE since on the stream', 'SELECT id FROM s TABLESAMPLE streamq.since(''1:1:'', streamq.current_offset())'),
('TABLESAMPLE on a partitioned stream', 'SELECT id FROM sp TABLESAMPLE SYSTEM (50)'),
('subquery in TABLESAMPLE of a static table', 'SELECT s.id FROM s JOIN d TABLESAMPLE BERNOULLI ((SELECT count(*) FROM s2)) USING (k)'),
('subquery in the frame of a static window', 'SELECT s.id FROM s JOIN (SELECT k, sum(w) OVER (ORDER BY w ROWS (SELECT count(*) FROM s2) PRECEDING) AS t FROM d2) x USING (k)'),
('subquery in ORDER BY of a static subquery', 'SELECT s.id FROM s JOIN (SELECT k FROM d2 ORDER BY (SELECT max(id) FROM s2), w LIMIT 1) x USING (k)'),
('subquery in an argument of a static aggregate', 'SELECT s.id FROM s JOIN (SELECT k, sum(w) FILTER (WHERE w < (SELECT max(id) FROM s2)) AS t FROM d2 GROUP BY k) x USING (k)'),
('subquery in XMLTABLE', 'SELECT s.id FROM s, XMLTABLE(''/a'' PASSING (SELECT ''<a/>''::xml FROM s2) COLUMNS b int) x'),
('subquery in VALUES of a static table', 'SELECT s.id FROM s WHERE k IN (VALUES ((SELECT max(id) FROM s2)))'),
('source and its partition', 'SELECT id FROM sp UNION ALL SELECT id FROM sp_1'),
-- tables
('no table', 'SELECT 1 AS one'),
('no stream', 'SELECT a.id FROM plain1 a JOIN plain2 b USING (id)'),
('no stream, subquery', 'SELECT id FROM plain1 WHERE EXISTS (SELECT FROM plain2)'),
('function only', 'SELECT two FROM two()'),
('VALUES in FROM only', 'SELECT * FROM (VALUES (1)) x (a)'),
('catalog only', 'SELECT relname FROM pg_class'),
('view without table', 'SELECT id FROM constant'),
('temporary table', 'SELECT s.id FROM s JOIN temporary USING (k)'),
('temporary table alone', 'SELECT k FROM temporary'),
('temporary view', 'SELECT s.id FROM s JOIN temporary_view USING (k)'),
('temporary function', 'SELECT pg_temp.temporary_function(id) AS id FROM s'),
('temporary type', 'SELECT id::text::pg_temp.temporary_domain AS id FROM s'),
-- not one SELECT
('empty', ''),
('blank', ' -- nothing'),
('semicolon', ';'),
('two statements', 'SELECT id FROM s; SELECT id FROM s'),
('SELECT and DROP', 'SELECT id FROM s; DROP TABLE s'),
('INSERT', 'INSERT INTO d VALUES (1)'),
('UPDATE', 'UPDATE d SET k = 1'),
('DELETE', 'DELETE FROM s RETURNING id'),
('EXPLAIN', 'EXPLAIN SELECT id FROM s'),
('CREATE TABLE AS', 'CREATE TABLE x AS SELECT id FROM s'),
('SELECT INTO', 'SELECT id INTO x FROM s'),
('DECLARE', 'DECLARE c CURSOR FOR SELECT id FROM s'),
('COPY', 'COPY s TO STDOUT'),
('VALUES', 'VALUES (1)'),
('parameter', 'SELECT id FROM s WHERE id > $1'),
('syntax error', 'SELEC id FROM s'),
('unbalanced', 'SELECT (id FROM s'),
('smuggled', 'SELECT id FROM s) x; DROP TABLE compile_refuse.s; --'),
('unknown table', 'SELECT id FROM nowhere'),
('unknown column', 'SELECT nothing FROM s'),
('unknown function', 'SELECT nothing(id) FROM s'),
('ambiguous column', 'SELECT k FROM s, d'),
('type error', 'SELECT id + true FROM s'),
-- columns that cannot be stored
('column twice', 'SELECT id, id FROM s'),
('column without a name, twice', 'SELECT id + 1, id + 2 FROM s'),
('no columns', 'SELECT FROM s'),
('record', 'SELECT ROW(id, k) AS r FROM s'),
('record of a subquery', 'SELECT x FROM (SELECT id FROM s) x'),
('system column''s name', 'SELECT xmin FROM s'),
('two collations', 'SELECT v || '''' COLLATE "C" || (v COLLATE "POSIX") AS x FROM s'),
('no collation', 'SELECT v || c AS x FROM (SELECT v COLLATE "POSIX" AS v, c FROM s) y');

\pset format unaligned
\pset tuples_only on
CREATE FUNCTION answers(INOUT n int, INOUT what text, query text, OUT mode text, OUT place bigint, OUT answer text) RETURNS SETOF record LANGUAGE sql AS $$
	SELECT n, what, m.mode, m.place, test.query_refusal(query, m.mode)
	FROM unnest('{append,update,complete}'::text[]) WITH ORDINALITY m (mode, place)
$$;
CREATE TABLE answers AS SELECT a.* FROM cases c, answers(c.n, c.what, c.query) a;
SELECT what, answer FROM answers WHERE mode = 'append' ORDER BY n;
-- output mode update refuses them alike
SELECT u.what, u.answer FROM answers u JOIN answers a USING (n)
WHERE u.mode = 'update' AND a.mode = 'append' AND u.answer <> a.answer ORDER BY n;
-- and so does complete, which refuses all queries without aggregation
SELECT test.query_refusal('SELECT id FROM s', 'complete');
SELECT test.query_refusal('SELECT id FROM s UNION ALL SELECT id FROM s2', 'complete');
SELECT c.what, c.answer FROM answers c JOIN answers a USING (n)
WHERE c.mode = 'complete' AND a.mode = 'append' AND c.answer NOT IN (a.answer, test.query_refusal('SELECT id FROM s', 'complete')) ORDER BY n;

--
-- aggregations: what is refused depends on the output mode
--
CREATE TABLE s3 (k int, at timestamp, zone text, width interval, origin timestamp, day date);
CREATE TABLE s4 (k int, at timestamptz);
CREATE TABLE d3 (k int, at timestamptz);
CREATE AGGREGATE any_count("any") (sfunc = int8inc_any, stype = bigint, initcond = '0');
SELECT streamq.add_source('s3', 'at', '1 minute'), streamq.add_source('s4', 'at');
CREATE VIEW counting_behind WITH (security_barrier) AS SELECT k, date_trunc('hour', at) AS h, count(*) AS n FROM s GROUP BY 1, 2;
CREATE TABLE aggregations (n int GENERATED ALWAYS AS IDENTITY, what text, query text);
INSERT INTO aggregations (what, query) VALUES
-- no event time among the keys
('GROUP BY', 'SELECT k FROM s GROUP BY k'),
('GROUP BY and aggregate', 'SELECT k, count(*) FROM s GROUP BY k'),
('aggregate', 'SELECT count(*) FROM s'),
('aggregate with FILTER', 'SELECT sum(id) FILTER (WHERE k > 1) FROM s'),
('ordered-set aggregate', 'SELECT percentile_disc(0.5) WITHIN GROUP (ORDER BY id) FROM s'),
('aggregate of an outer column', 'SELECT (SELECT count(s.id) FROM d LIMIT 1) FROM s'),
('HAVING', 'SELECT 1 AS one FROM s HAVING true'),
('HAVING with aggregate', 'SELECT k FROM s GROUP BY k HAVING count(*) > 1'),
('DISTINCT', 'SELECT DISTINCT k FROM s'),
('aggregate in a subquery', 'SELECT n FROM (SELECT count(*) AS n FROM s) x'),
('DISTINCT in a subquery', 'SELECT k FROM (SELECT DISTINCT k FROM s) x'),
('aggregate in a CTE', 'WITH x AS (SELECT count(*) AS n FROM s) SELECT n FROM x'),
('aggregate over a view', 'SELECT count(*) FROM passing'),
('aggregate above a static join', 'SELECT name, count(*) FROM s JOIN d USING (k) GROUP BY name'),
('aggregate over a CTE', 'WITH x AS (SELECT id FROM s) SELECT count(*) FROM x'),
('aggregate in a view', 'SELECT k, n FROM counting'),
('no watermark', 'SELECT k, count(*) FROM s2 GROUP BY k'),
('an event time, no watermark', 'SELECT at, count(*) FROM s4 GROUP BY at'),
('event time in an aggregate only', 'SELECT k, max(at) FROM s GROUP BY k'),
('event time of a static table', 'SELECT d3.at, count(*) FROM s JOIN d3 USING (k) GROUP BY d3.at'),
('event time, and a source without', 'SELECT at, count(*) FROM (SELECT at FROM s UNION ALL SELECT at FROM s4) x GROUP BY at'),
('event times of two types', 'SELECT at, count(*) FROM (SELECT at FROM s UNION ALL SELECT at FROM s3) x GROUP BY at'),
('event time, and another column', 'SELECT at, count(*) FROM (SELECT at FROM s3 UNION ALL SELECT origin FROM s3) x GROUP BY at'),
('event times by two functions', 'SELECT at, count(*) FROM (SELECT date_trunc(''hour'', at) AS at FROM s UNION ALL SELECT at FROM s) x GROUP BY at'),
-- not a monotone function of it
('a part of the time', 'SELECT extract(hour FROM at) AS h, count(*) FROM s GROUP BY 1'),
('time of day', 'SELECT at::time AS t, count(*) FROM s GROUP BY 1'),
('text', 'SELECT to_char(at, ''HH24'') AS h, count(*) FROM s GROUP BY 1'),
('local time', 'SELECT at::timestamp AS t, count(*) FROM s GROUP BY 1'),
('local time of a zone', 'SELECT at AT TIME ZONE ''Europe/Berlin'' AS t, count(*) FROM s GROUP BY 1'),
('time of a zone', 'SELECT at AT TIME ZONE ''Europe/Berlin'' AS t, count(*) FROM s3 GROUP BY 1'),
('days later', 'SELECT at + interval ''1 day'' AS t, count(*) FROM s GROUP BY 1'),
('months later', 'SELECT at + interval ''1 month'' AS t, count(*) FROM s3 GROUP BY 1'),
('later by a column', 'SELECT at + width AS t, count(*) FROM s3 GROUP BY 1'),
('bins of different widths', 'SELECT date_bin(width, at, ''2000-01-01'') AS t, count(*) FROM s3 GROUP BY 1'),
('bins of different origins', 'SELECT date_bin(''1 hour'', at, origin) AS t, count(*) FROM s3 GROUP BY 1'),
('bins from now on', 'SELECT date_bin(''1 hour'', at, now()::timestamp) AS t, count(*) FROM s3 GROUP BY 1'),
('zone of a column', 'SELECT date_trunc(''day'', at AT TIME ZONE ''UTC'', zone) AS t, count(*) FROM s3 GROUP BY 1'),
('two times', 'SELECT greatest(at, origin) AS t, count(*) FROM s3 GROUP BY 1'),
('coalesce', 'SELECT coalesce(at, ''2000-01-01'') AS t, count(*) FROM s3 GROUP BY 1'),
('minus', 'SELECT timestamp ''2000-01-01'' - at AS t, count(*) FROM s3 GROUP BY 1'),
-- grouping sets
('GROUP BY ()', 'SELECT 1 AS one FROM s GROUP BY ()'),
('GROUPING SETS', 'SELECT at, k FROM s GROUP BY GROUPING SETS ((at, k), (at))'),
('ROLLUP', 'SELECT at, k, count(*) FROM s GROUP BY at, ROLLUP (k)'),
('CUBE', 'SELECT at, k, count(*) FROM s GROUP BY CUBE (at, k)'),
('GROUP BY DISTINCT', 'SELECT at, k FROM s GROUP BY DISTINCT ROLLUP (at), ROLLUP (at, k)'),
('UNION', 'SELECT id FROM s UNION SELECT id FROM s2'),
('UNION DISTINCT', 'SELECT id FROM s UNION DISTINCT SELECT id FROM s'),
('UNION below UNION ALL', 'SELECT id FROM s UNION ALL (SELECT id FROM s UNION SELECT id FROM s2)'),
('UNION by the event time', 'SELECT at FROM s UNION SELECT at FROM s'),
('UNION of three', 'SELECT id FROM s UNION SELECT id FROM s2 UNION SELECT k FROM s'),
('UNION and UNION ALL', '(SELECT id FROM s UNION ALL SELECT id FROM s2) UNION SELECT k FROM s'),
('UNION of a stream and a static table', 'SELECT id FROM s UNION SELECT k FROM d'),
-- above the aggregation
('window function over it', 'SELECT at, count(*), rank() OVER (ORDER BY count(*)) FROM s GROUP BY at'),
('DISTINCT over it', 'SELECT DISTINCT at, k, count(*) FROM s GROUP BY at, k'),
('DISTINCT ON over it', 'SELECT DISTINCT ON (at) at, k, count(*) FROM s GROUP BY at, k ORDER BY at, k'),
('ORDER BY', 'SELECT at, count(*) FROM s GROUP BY at ORDER BY at'),
('LIMIT', 'SELECT at, count(*) FROM s GROUP BY at LIMIT 1'),
('OFFSET', 'SELECT at, count(*) FROM s GROUP BY at OFFSET 1'),
('FETCH WITH TIES', 'SELECT at, count(*) FROM s GROUP BY at ORDER BY at FETCH FIRST ROW WITH TIES'),
('key that is not in the result', 'SELECT at, count(*) FROM s GROUP BY at, k'),
('key in an expression only', 'SELECT at, k + 1 AS k1, count(*) FROM s GROUP BY at, k'),
('no key in the result', 'SELECT count(*) FROM s GROUP BY at'),
('set-returning function over it', 'SELECT at, generate_series(1, count(*)) AS g FROM s GROUP BY at'),
('aggregation over it', 'SELECT n, count(*) FROM (SELECT at, count(*) AS n FROM s GROUP BY at) x GROUP BY n'),
('aggregation over it, by the time', 'SELECT h, max(n) FROM (SELECT date_trunc(''hour'', at) AS h, k, count(*) AS n FROM s GROUP BY 1, 2) x GROUP BY h'),
('DISTINCT of a subquery', 'SELECT DISTINCT n FROM (SELECT at, count(*) AS n FROM s GROUP BY at) x'),
('static join over it', 'SELECT x.at, n, name FROM (SELECT at, k, count(*) AS n FROM s GROUP BY 1, 2) x JOIN d USING (k)'),
('static LEFT JOIN, it on the right', 'SELECT x.at, n, name FROM d LEFT JOIN (SELECT at, k, count(*) AS n FROM s GROUP BY 1, 2) x USING (k)'),
('static FULL JOIN', 'SELECT x.at, n, name FROM d FULL JOIN (SELECT at, k, count(*) AS n FROM s GROUP BY 1, 2) x USING (k)'),
('subquery over it', 'SELECT at, n FROM (SELECT at, count(*) AS n FROM s GROUP BY at) x WHERE n > (SELECT count(*) FROM d)'),
('volatile function over it', 'SELECT at, n, random() AS r FROM (SELECT at, count(*) AS n FROM s GROUP BY at) x'),
('view with a security barrier', 'SELECT h, k, n FROM counting_behind WHERE n > 1'),
('UNION ALL with a static table', 'SELECT at, count(*) FROM s GROUP BY at UNION ALL SELECT now(), k FROM d'),
('UNION with a static table', 'SELECT at, count(*) FROM s GROUP BY at UNION SELECT now(), k FROM d'),
('EXCEPT', 'SELECT at, count(*) FROM s GROUP BY at EXCEPT SELECT now(), k FROM d'),
('ORDER BY of a subquery', 'SELECT at, n FROM (SELECT at, count(*) AS n FROM s GROUP BY at ORDER BY at) x'),
('LIMIT of a subquery', 'SELECT at, n FROM (SELECT at, count(*) AS n FROM s GROUP BY at LIMIT 3) x'),
('WITH query used twice', 'WITH x AS (SELECT at, count(*) AS n FROM s GROUP BY at) SELECT a.at, b.n FROM x a JOIN x b USING (at)'),
('LATERAL', 'SELECT x.at, d.k, n FROM d, LATERAL (SELECT at, count(*) AS n FROM s WHERE s.k = d.k GROUP BY at) x'),
('WITH query outside of it', 'WITH y AS MATERIALIZED (SELECT * FROM d) SELECT x.at, x.n, y.k FROM y JOIN (SELECT at, k, count(*) AS n FROM s JOIN y USING (k) GROUP BY at, k) x USING (k)'),
-- beside the aggregation
('plain rows of another stream', 'SELECT id FROM s2 UNION ALL SELECT count(*) FROM s'),
('plain rows of the stream', 'SELECT at, 1::bigint AS n FROM s UNION ALL SELECT at, count(*) FROM s GROUP BY at'),
('another aggregation', 'SELECT at, count(*) FROM s GROUP BY at UNION ALL SELECT date_trunc(''hour'', at), count(*) FROM s GROUP BY 1'),
('join of two aggregations', 'SELECT x.at, x.n, y.n AS m FROM (SELECT at, count(*) AS n FROM s GROUP BY at) x JOIN (SELECT at, count(*) AS n FROM s GROUP BY at) y USING (at)'),
('join of a stream and an aggregation', 'SELECT x.at, x.n, s.id FROM (SELECT at, count(*) AS n FROM s GROUP BY at) x JOIN s USING (at)'),
('scalar subquery', 'SELECT at, count(*), (SELECT max(id) FROM s) AS m FROM s GROUP BY at'),
('subquery in HAVING', 'SELECT at, count(*) FROM s GROUP BY at HAVING count(*) > (SELECT count(*) FROM s2)'),
('subquery in an argument', 'SELECT at, sum((SELECT max(id) FROM s2)) FROM s GROUP BY at'),
('subquery as a key', 'SELECT at, (SELECT max(id) FROM s2) AS m FROM s GROUP BY 1, 2'),
-- below the aggregation
('join of streams below', 'SELECT s.at, count(*) FROM s JOIN s2 USING (id) GROUP BY s.at'),
('LIMIT below', 'SELECT at, count(*) FROM (SELECT at FROM s LIMIT 5) x GROUP BY at'),
('ORDER BY below', 'SELECT at, count(*) FROM (SELECT at FROM s ORDER BY id) x GROUP BY at'),
('DISTINCT ON below', 'SELECT at, count(*) FROM (SELECT DISTINCT ON (k) at FROM s) x GROUP BY at'),
('window function below', 'SELECT at, max(r) FROM (SELECT at, rank() OVER (ORDER BY id) AS r FROM s) x GROUP BY at'),
('UNION below', 'SELECT id, count(*) FROM (SELECT id FROM s UNION SELECT id FROM s2) x GROUP BY id'),
('EXCEPT below', 'SELECT id, count(*) FROM (SELECT id FROM s EXCEPT SELECT k FROM d) x GROUP BY id'),
('UNION ALL with a static table below', 'SELECT id, count(*) FROM (SELECT id FROM s UNION ALL SELECT k FROM d) x GROUP BY id'),
('nullable side below', 'SELECT s.at, count(*) FROM d LEFT JOIN s USING (k) GROUP BY s.at'),
('EXISTS below', 'SELECT at, count(*) FROM s WHERE EXISTS (SELECT FROM s2 WHERE s2.id = s.id) GROUP BY at'),
('recursive CTE below', 'WITH RECURSIVE x AS (SELECT id FROM s UNION ALL SELECT id + 1 FROM x WHERE id < 5) SELECT id, count(*) FROM x GROUP BY id'),
('TABLESAMPLE below', 'SELECT at, count(*) FROM s TABLESAMPLE SYSTEM (50) GROUP BY at'),
('FOR UPDATE below', 'SELECT at, count(*) FROM (SELECT at FROM s FOR UPDATE) x GROUP BY at'),
('volatile function below, inputs kept', 'SELECT k, array_agg(id) AS ids FROM s WHERE random() < 0.5 GROUP BY k'),
('volatile function below, different inputs kept', 'SELECT k, count(DISTINCT id) AS n, count(*) AS c FROM (SELECT k, id + random() AS id FROM s) x GROUP BY k'),
('volatile function below, rows may be late', 'SELECT at, count(*) AS c FROM s WHERE random() < 0.5 GROUP BY at'),
('volatile key', 'SELECT at, random() < 0.5 AS r, count(*) AS c FROM s GROUP BY 1, 2'),
('volatile function in a FILTER', 'SELECT k, string_agg(v, '''') FILTER (WHERE random() < 0.5) AS c FROM s GROUP BY k'),
('volatile function, read once', 'SELECT k, count(*) AS c FROM s WHERE random() < 0.5 GROUP BY k'),
-- what cannot be kept
('record as a key', 'SELECT at, count(*) FROM s GROUP BY at, ROW(id, k)'),
('record in the result', 'SELECT at, ROW(id, k) AS r, count(*) FROM s GROUP BY 1, 2'),
('key without an order', 'SELECT at, xmin AS x, count(*) FROM s GROUP BY 1, 2'),
('33 keys', (SELECT format('SELECT at, %s, count(*) FROM s GROUP BY 33, %s', string_agg(format('id + %s AS c%s', g, g), ', '), string_agg(g::text, ', ')) FROM generate_series(1, 32) g)),
('records in array_agg', 'SELECT at, array_agg(ROW(id, k)) AS a FROM s GROUP BY at'),
('different records', 'SELECT at, count(DISTINCT ROW(id, k)) AS a FROM s GROUP BY at'),
('records that are resumed', 'SELECT at, any_count(ROW(id, k)) AS a FROM s GROUP BY at'),
('records in a count', 'SELECT at, count(ROW(id, k)) AS a FROM s GROUP BY at');
INSERT INTO answers SELECT a.* FROM aggregations g, answers(1000 + g.n, g.what, g.query) a;
SELECT what, string_agg(mode, ', ' ORDER BY place), answer FROM answers
WHERE n > 1000 AND answer <> 'accepted' GROUP BY n, what, answer ORDER BY n, min(place);
-- the others
SELECT mode, string_agg(what, '; ' ORDER BY n) FROM answers WHERE n > 1000 AND answer = 'accepted' GROUP BY place, mode ORDER BY place;

-- whatever is a matter of streaming has SQLSTATE 0A000 and a hint
SELECT what, mode FROM answers WHERE answer LIKE '0A000%' AND answer NOT LIKE E'%\n    hint: %' ORDER BY n;

-- nothing is left behind, nothing has run
\pset tuples_only off
SELECT count(*) FROM streamq.queries;
SELECT relname FROM pg_class WHERE relnamespace IN ('compile_refuse'::regnamespace, 'streamq_query'::regnamespace)
AND relkind IN ('r', 'v', 'm') ORDER BY 1;
SELECT source FROM streamq.sources ORDER BY source::text;
SELECT id, k, v FROM s;
SELECT * FROM d;

-- the position of an error in the text is shown
\set VERBOSITY default
SELECT streamq.create_query('refused', 'SELECT id, nothing FROM s');
SELECT streamq.create_query('refused', 'SELECT id FROM s WHERE');

SET client_min_messages = warning;
DROP SCHEMA compile_refuse CASCADE;
