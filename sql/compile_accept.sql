--
-- Every form of a stateless query that streams: after several batches the sink
-- holds what the plain SELECT gives.
--
CREATE SCHEMA compile_accept;
SET search_path = compile_accept;
SET TimeZone = 'UTC';
\pset null '(null)'

CREATE TYPE colour AS ENUM ('red', 'green', 'blue');
CREATE TYPE pair AS (a int, b text);
CREATE DOMAIN percent AS int CHECK (VALUE BETWEEN 0 AND 100);

-- the streams
CREATE TABLE s1 (
	gone1 int, id int, k int, v text, tags text[], at timestamptz, amount numeric(12, 2), j jsonb,
	c colour, p pair, pct percent, gone2 text, raw bytea, "Odd ""Name" int, r int4range, js json,
	twice int GENERATED ALWAYS AS (k * 2) STORED, de text COLLATE "C", f float8, u uuid, iv interval, b bool, pt point);
ALTER TABLE s1 DROP COLUMN gone1, DROP COLUMN gone2;
CREATE TABLE s2 (k int, id bigint, v text, at timestamptz);
CREATE TABLE sp (id int, k int, v text) PARTITION BY LIST (k);
CREATE TABLE sp_0 (v text, gone int, k int, id int);
ALTER TABLE sp_0 DROP COLUMN gone;
ALTER TABLE sp ATTACH PARTITION sp_0 FOR VALUES IN (0);
CREATE TABLE sp_1 PARTITION OF sp FOR VALUES IN (1, 2) PARTITION BY RANGE (id);
CREATE TABLE sp_1_a PARTITION OF sp_1 FOR VALUES FROM (0) TO (10);
CREATE TABLE sp_1_b PARTITION OF sp_1 DEFAULT;
CREATE TABLE sp_d PARTITION OF sp DEFAULT;
SELECT streamq.add_source('s1', 'at');
SELECT streamq.add_source('s2');
SELECT streamq.add_source('sp');

-- static tables
CREATE TABLE d (k int PRIMARY KEY, name text, region text);
CREATE TABLE e (k int, w int);
CREATE TABLE tree (id int, parent int);
INSERT INTO d VALUES (0, 'zero', 'north'), (1, 'one', 'south'), (2, 'two', 'north'), (7, 'seven', 'west');
INSERT INTO e VALUES (0, 1), (0, 2), (1, 3), (1, 4), (1, NULL), (NULL, 5), (9, 6);
INSERT INTO tree VALUES (0, NULL), (1, 0), (2, 1), (3, 2), (4, 1);
CREATE TABLE dp (k int, w int) PARTITION BY LIST (k);
CREATE TABLE dp_0 PARTITION OF dp FOR VALUES IN (0);
CREATE TABLE dp_d PARTITION OF dp DEFAULT;
INSERT INTO dp SELECT * FROM e;
CREATE MATERIALIZED VIEW dm AS SELECT k, count(*) AS n FROM e GROUP BY k;
CREATE VIEW dv AS SELECT k, max(w) AS top FROM e GROUP BY k;

-- views over streams
CREATE VIEW v1 AS SELECT id, k, v, upper(v) AS loud FROM s1 WHERE k IS NOT NULL;
CREATE VIEW v2 AS SELECT v1.id, v1.loud, d.name FROM v1 JOIN d USING (k);
CREATE VIEW v3 AS SELECT * FROM v2 UNION ALL SELECT id::int, v, 's2' FROM s2;
CREATE VIEW vb WITH (security_barrier) AS SELECT id, k FROM s1 WHERE k > 0;
CREATE VIEW vi WITH (security_invoker) AS SELECT id, k FROM s1 WHERE k > 0;
CREATE VIEW vrenamed (a, b) AS SELECT id, v FROM s1;

CREATE FUNCTION label(k int) RETURNS text LANGUAGE sql STABLE AS 'SELECT name FROM compile_accept.d WHERE d.k = $1';
CREATE FUNCTION expand(n int) RETURNS TABLE (x int, y text) LANGUAGE sql IMMUTABLE AS 'SELECT g, ''y'' || g FROM generate_series(1, n) g';

CREATE TABLE cases (n int GENERATED ALWAYS AS IDENTITY, name text PRIMARY KEY, query text);
INSERT INTO cases (name, query) VALUES
-- filter and projection
('everything', 'SELECT * FROM s1'),
('table', 'TABLE s2'),
('parentheses', '(SELECT id FROM s1)'),
('semicolon', 'SELECT id FROM s1;'),
('comments', '/* first */ SELECT id -- a number
	FROM s1'),
('filter', 'SELECT id, v FROM s1 WHERE k = 1 AND id > 3 OR v LIKE ''%5'''),
('never', 'SELECT id FROM s1 WHERE false'),
('null filter', 'SELECT id FROM s1 WHERE k IS NULL OR k IS DISTINCT FROM 1'),
('constants', 'SELECT 1 AS one, ''text'' AS t, NULL AS n, true AS b, id FROM s1'),
('expressions', 'SELECT id + 1 AS a, -id AS b, CASE WHEN k = 0 THEN ''zero'' ELSE v END AS c, coalesce(k, -1) AS d,
	greatest(id, k) AS e, nullif(k, 1) AS f, id BETWEEN 2 AND 5 AS g, v || ''!'' AS h, (id, k) < (5, 1) AS i,
	ARRAY[id, k] AS l, id::text AS m, k IN (1, 2) AS n, id = ANY (ARRAY[1, 2, 3]) AS o FROM s1'),
('types', 'SELECT id, at, at::date AS day, date_trunc(''hour'', at) AS hour, at AT TIME ZONE ''Europe/Vienna'' AS local,
	extract(epoch FROM at) AS epoch, amount, amount::int AS rounded, c, c > ''red'' AS better, (p).a AS pa, (p).b AS pb, p, pct, pct + 1 AS more,
	tags[1] AS first, tags, j, j->>''x'' AS x, j @> ''{"x": 1}'' AS has, r, lower(r) AS low, raw, js, f, u, iv, b, NOT b AS nb, pt FROM s1'),
('quoted', 'SELECT "Odd ""Name" AS "An ""Odd"" Name", id AS "id?", k AS "K" FROM s1'),
('generated', 'SELECT id, twice FROM s1 WHERE twice > 1'),
('collations', 'SELECT v COLLATE "C" AS v, de, de < v COLLATE "C" AS less, v COLLATE "POSIX" AS p FROM s1 WHERE v > ''m'' COLLATE "C"'),
('whole row', 'SELECT s1 AS s, s1.id FROM s1'),
('system columns', 'SELECT tableoid::regclass::text AS t, s1.ctid AS position, xmin::text <> '''' AS x, id FROM s1'),
('system columns, partitioned', 'SELECT tableoid::regclass::text AS t, id FROM sp'),
('functions', 'SELECT label(k) AS l, length(v) AS n, current_user::text AS who, md5(v) AS m FROM s1'),
('volatile', 'SELECT id, random() < 2 AS r, clock_timestamp() > ''2000-01-01'' AS t FROM s1 WHERE random() < 2'),
('only', 'SELECT id FROM ONLY s2'),
('alias', 'SELECT a, b, c FROM s2 AS x (a, b, c) WHERE x.a = 1'),
('partitioned', 'SELECT * FROM sp'),
('partitioned, pruned', 'SELECT id, v FROM sp WHERE k = 1'),
-- subqueries in FROM, CTEs, views
('a subquery', 'SELECT x.id FROM (SELECT id, k FROM s1 WHERE k > 0) x WHERE x.id > 2'),
('nested subqueries', 'SELECT id FROM (SELECT * FROM (SELECT id, v FROM s1) x WHERE true) y'),
('cte', 'WITH x AS (SELECT id, k FROM s1) SELECT id FROM x WHERE k = 1'),
('cte, materialized', 'WITH x AS MATERIALIZED (SELECT id, k FROM s1) SELECT id FROM x WHERE k = 1'),
('cte, not materialized', 'WITH x AS NOT MATERIALIZED (SELECT id, k FROM s1) SELECT id FROM x WHERE k = 1'),
('cte over cte', 'WITH x AS (SELECT id, k FROM s1), y AS (SELECT id + 1 AS i FROM x) SELECT i FROM y'),
('cte with names', 'WITH x (a, b) AS (SELECT id, k FROM s1) SELECT a, b FROM x'),
('cte twice', 'WITH x AS (SELECT id, k FROM s1) SELECT id FROM x WHERE k = 1 UNION ALL SELECT id FROM x'),
('cte twice, materialized', 'WITH x AS MATERIALIZED (SELECT id, k FROM s1) SELECT id FROM x WHERE k = 1 UNION ALL SELECT -id FROM x'),
('cte inside', 'SELECT * FROM (WITH x AS (SELECT id FROM s1) SELECT id AS i FROM x) y'),
('cte, static', 'WITH x AS (SELECT k, count(*) AS n FROM e GROUP BY k ORDER BY 2 LIMIT 3) SELECT s1.id, x.n FROM s1 JOIN x USING (k)'),
('cte, static and twice', 'WITH x AS (SELECT k FROM e) SELECT id FROM s1 WHERE k IN (SELECT k FROM x) AND EXISTS (SELECT FROM x)'),
('cte shadows a source', 'WITH s2 AS (SELECT 1 AS k) SELECT s1.id FROM s1 JOIN s2 USING (k)'),
('cte, recursive, static', 'WITH RECURSIVE up AS (SELECT id, id AS top FROM tree WHERE parent = 0
	UNION ALL SELECT t.id, up.top FROM tree t JOIN up ON t.parent = up.id) SELECT s1.id, up.top FROM s1 JOIN up ON up.id = s1.k'),
('cte not used', 'WITH x AS (SELECT 1 / 0) SELECT id FROM s1'),
('cte not used, over a stream', 'WITH x AS (SELECT count(*) FROM s2) SELECT id FROM s1'),
('view', 'SELECT * FROM v1'),
('view over view', 'SELECT id, name FROM v2 WHERE loud <> ''V3'''),
('view with union all', 'SELECT * FROM v3'),
('view with union all, joined', 'SELECT v3.*, e.w FROM v3 LEFT JOIN e ON e.k = v3.id % 3'),
('view, security_barrier', 'SELECT * FROM vb WHERE id > 2'),
('view, security_invoker', 'SELECT * FROM vi WHERE id > 2'),
('view, renamed columns', 'SELECT b, a FROM vrenamed'),
('view, whole row', 'SELECT v1 AS w FROM v1'),
-- joins
('inner', 'SELECT s1.id, d.name FROM s1 JOIN d ON d.k = s1.k'),
('inner, static first', 'SELECT s1.id, d.name FROM d JOIN s1 ON d.k = s1.k'),
('comma', 'SELECT s1.id, d.name FROM s1, d WHERE d.k = s1.k'),
('using', 'SELECT k, id, name FROM s1 JOIN d USING (k)'),
('using, alias', 'SELECT x.k, id, name FROM s1 JOIN d USING (k) AS x'),
('natural', 'SELECT * FROM s2 NATURAL JOIN d'),
('cross', 'SELECT id, name FROM s1 CROSS JOIN d'),
('join alias', 'SELECT x.* FROM (s2 JOIN d USING (k)) AS x (a, b, c)'),
('left', 'SELECT s1.id, d.name FROM s1 LEFT JOIN d ON d.k = s1.k AND s1.id > 3'),
('left, using', 'SELECT k, id, name FROM s1 LEFT JOIN d USING (k)'),
('left, anti', 'SELECT s1.id FROM s1 LEFT JOIN d ON d.k = s1.k WHERE d.k IS NULL'),
('right', 'SELECT s1.id, d.name FROM d RIGHT JOIN s1 ON d.k = s1.k'),
('right, using', 'SELECT k, id, name FROM d RIGHT JOIN s1 USING (k)'),
('left chain', 'SELECT s1.id, d.name, e.w, x.name AS other FROM s1 LEFT JOIN d USING (k) LEFT JOIN e ON e.k = d.k LEFT JOIN d x ON x.k = e.w'),
('right of static left', 'SELECT s1.id, d.name, e.w FROM (d LEFT JOIN e USING (k)) RIGHT JOIN s1 ON s1.k = d.k'),
('left of static full', 'SELECT s1.id, x.name, x.w FROM s1 LEFT JOIN (SELECT d.k, name, w FROM d FULL JOIN e ON d.k = e.k) x ON x.k = s1.k'),
('inner of static right', 'SELECT s1.id, d.name FROM s1 JOIN (e RIGHT JOIN d ON d.k = e.k) ON d.k = s1.k'),
('left of left, nested', 'SELECT s1.id, d.name, e.w FROM s1 LEFT JOIN (d JOIN e ON d.k = e.k) ON d.k = s1.k'),
('join of partitioned', 'SELECT sp.id, dp.w FROM sp JOIN dp ON sp.k = dp.k'),
('join with a materialized view', 'SELECT s1.id, dm.n FROM s1 JOIN dm USING (k)'),
('join with a view', 'SELECT s1.id, dv.top FROM s1 LEFT JOIN dv USING (k)'),
('join with values', 'SELECT s1.id, x.t FROM s1 JOIN (VALUES (0, ''a''), (1, ''b'')) x (k, t) USING (k)'),
('join with the catalog', 'SELECT s1.id, n.nspname::text AS nspname FROM s1 JOIN pg_catalog.pg_namespace n ON nspname = ''pg_catalog'''),
('self join of static', 'SELECT s1.id, a.w AS a, b.w AS b FROM s1 JOIN e a ON a.k = s1.k JOIN e b ON b.k = a.k AND b.w >= a.w'),
('condition on constants', 'SELECT s1.id, d.name FROM s1 JOIN d ON true WHERE d.k = 7'),
-- semi and anti joins
('exists', 'SELECT id FROM s1 WHERE EXISTS (SELECT FROM d WHERE d.k = s1.k)'),
('not exists', 'SELECT id FROM s1 WHERE NOT EXISTS (SELECT 1 FROM d WHERE d.k = s1.k)'),
('in', 'SELECT id FROM s1 WHERE k IN (SELECT k FROM e)'),
('not in', 'SELECT id FROM s1 WHERE k NOT IN (SELECT k FROM e WHERE k IS NOT NULL)'),
('not in, with null', 'SELECT id FROM s1 WHERE k NOT IN (SELECT k FROM e)'),
('in, row', 'SELECT id FROM s1 WHERE (k, id) IN (SELECT k, w FROM e)'),
('any', 'SELECT id FROM s1 WHERE k = ANY (SELECT k FROM d WHERE region = ''north'')'),
('all', 'SELECT id FROM s1 WHERE id > ALL (SELECT w FROM e WHERE w IS NOT NULL)'),
('exists or', 'SELECT id FROM s1 WHERE EXISTS (SELECT FROM d WHERE d.k = s1.k) OR id > 8'),
('exists, uncorrelated', 'SELECT id FROM s1 WHERE EXISTS (SELECT FROM d)'),
('exists over a join', 'SELECT id FROM s1 WHERE EXISTS (SELECT FROM d JOIN e USING (k) WHERE d.k = s1.k AND e.w > 2)'),
('exists in a left join''s condition', 'SELECT s1.id, d.name FROM s1 LEFT JOIN d ON d.k = s1.k AND EXISTS (SELECT FROM e WHERE e.k = d.k)'),
-- scalar subqueries over static tables
('scalar', 'SELECT id, (SELECT name FROM d WHERE d.k = s1.k) AS name FROM s1'),
('scalar, aggregate', 'SELECT id, (SELECT count(*) FROM e WHERE e.k = s1.k) AS n, (SELECT max(w) FROM e) AS top FROM s1'),
('scalar, limit', 'SELECT id, (SELECT w FROM e WHERE e.k = s1.k ORDER BY w DESC NULLS LAST LIMIT 1) AS top FROM s1'),
('scalar in where', 'SELECT id FROM s1 WHERE k < (SELECT max(k) FROM d WHERE region = ''north'')'),
('scalar, nested', 'SELECT id, (SELECT (SELECT max(w) FROM e WHERE e.k = d.k AND e.w < s1.id) FROM d WHERE d.k = s1.k) AS x FROM s1'),
('array of a subquery', 'SELECT id, ARRAY(SELECT w FROM e WHERE e.k = s1.k ORDER BY w) AS ws FROM s1'),
('without FROM', 'SELECT id, (SELECT s1.id + 1) AS next FROM s1'),
-- set-returning functions and LATERAL
('unnest', 'SELECT id, tag FROM s1, unnest(tags) AS tag'),
('unnest, left', 'SELECT id, tag FROM s1 LEFT JOIN unnest(tags) AS tag ON true'),
('unnest, ordinality', 'SELECT id, t.tag, t.n FROM s1, unnest(tags) WITH ORDINALITY AS t (tag, n)'),
('unnest in the select list', 'SELECT id, unnest(tags) AS tag FROM s1'),
('series in the select list', 'SELECT id, generate_series(1, k) AS n, unnest(tags) AS tag FROM s1'),
('series', 'SELECT id, n FROM s1 CROSS JOIN LATERAL generate_series(1, s1.k) AS n'),
('rows from', 'SELECT id, a, n FROM s1, ROWS FROM (unnest(tags), generate_series(1, 2)) AS x (a, n)'),
('own function', 'SELECT id, x, y FROM s1, expand(k)'),
('json', 'SELECT id, key, value FROM s1, jsonb_each(j)'),
('record function', 'SELECT id, r.x FROM s1, jsonb_to_record(j) AS r (x int)'),
('lateral', 'SELECT s1.id, x.w FROM s1, LATERAL (SELECT w FROM e WHERE e.k = s1.k) x'),
('lateral, limit', 'SELECT s1.id, x.w FROM s1 LEFT JOIN LATERAL (SELECT w FROM e WHERE e.k = s1.k ORDER BY w DESC NULLS LAST LIMIT 1) x ON true'),
('lateral, aggregate', 'SELECT s1.id, x.n, x.m FROM s1, LATERAL (SELECT count(*) AS n, max(w) AS m FROM e WHERE e.k = s1.k) x'),
('lateral over a function', 'SELECT s1.id, x.n FROM s1, LATERAL (SELECT count(*) AS n FROM unnest(s1.tags)) x'),
('lateral, values', 'SELECT s1.id, x.a FROM s1, LATERAL (VALUES (s1.id), (s1.k)) x (a)'),
('lateral, select', 'SELECT s1.id, x.a FROM s1, LATERAL (SELECT s1.id * 2 AS a) x'),
('series beside', 'SELECT id, n FROM s1, generate_series(1, 2) n'),
-- UNION ALL of streams
('union all', 'SELECT id, v FROM s1 UNION ALL SELECT id, v FROM s2'),
('union all, same twice', 'SELECT id, v FROM s1 UNION ALL SELECT id, v FROM s1'),
('union all, same thrice', 'SELECT id FROM s1 WHERE k = 0 UNION ALL SELECT id FROM s1 WHERE k = 1 UNION ALL SELECT -id FROM s1'),
('union all, nested', '(SELECT id FROM s1 UNION ALL SELECT id FROM s2) UNION ALL (SELECT id FROM sp UNION ALL SELECT k FROM s1)'),
('union all, coerced', 'SELECT id, k::numeric AS x FROM s1 UNION ALL SELECT id, k FROM s2'),
('union all, partitioned', 'SELECT id, v FROM sp UNION ALL SELECT id, v FROM s1'),
('union all, joined', 'SELECT x.id, d.name FROM (SELECT id, k FROM s1 UNION ALL SELECT id, k FROM sp) x JOIN d USING (k)'),
('union all, preserved', 'SELECT x.id, d.name FROM d RIGHT JOIN (SELECT id, k FROM s1 UNION ALL SELECT id, k FROM sp) x USING (k)'),
('union all of joins', 'SELECT s1.id, d.name FROM s1 JOIN d USING (k) UNION ALL SELECT s2.id, e.w::text FROM s2 LEFT JOIN e USING (k)'),
('union all in a cte', 'WITH x AS (SELECT id, k FROM s1 UNION ALL SELECT id, k FROM s2) SELECT id FROM x WHERE k = 1'),
('union all over views', 'SELECT id FROM v1 UNION ALL SELECT id FROM v2'),
('union all, one branch empty', 'SELECT id FROM s1 UNION ALL SELECT id FROM s2 WHERE false'),
('union all, lateral', 'SELECT id, x FROM s1, LATERAL (SELECT s1.k AS x UNION ALL SELECT s1.id) y'),
-- whatever concerns static tables alone
('static group', 'SELECT s1.id, x.n FROM s1 JOIN (SELECT k, count(*) AS n FROM e GROUP BY k HAVING count(*) > 1) x USING (k)'),
('static distinct', 'SELECT s1.id FROM s1 JOIN (SELECT DISTINCT k FROM e) x USING (k)'),
('static distinct on', 'SELECT s1.id, x.w FROM s1 JOIN (SELECT DISTINCT ON (k) k, w FROM e ORDER BY k, w) x USING (k)'),
('static window', 'SELECT s1.id, x.n FROM s1 JOIN (SELECT k, row_number() OVER (PARTITION BY k ORDER BY w) AS n FROM e) x USING (k)'),
('static limit', 'SELECT s1.id, x.k FROM s1 CROSS JOIN (SELECT k FROM d ORDER BY k LIMIT 2 OFFSET 1) x'),
('static fetch', 'SELECT s1.id, x.k FROM s1 CROSS JOIN (SELECT k FROM e ORDER BY k FETCH FIRST 1 ROW WITH TIES) x'),
('static union', 'SELECT s1.id FROM s1 JOIN (SELECT k FROM d UNION SELECT k FROM e) x USING (k)'),
('static intersect', 'SELECT s1.id FROM s1 WHERE k IN (SELECT k FROM d INTERSECT SELECT k FROM e)'),
('static except', 'SELECT s1.id FROM s1 WHERE k IN (SELECT k FROM d EXCEPT SELECT k FROM e)'),
('static grouping sets', 'SELECT s1.id, x.n FROM s1 JOIN (SELECT k, count(*) AS n FROM e GROUP BY ROLLUP (k)) x USING (k)'),
('static sample', 'SELECT s1.id, x.w FROM s1 JOIN e x TABLESAMPLE BERNOULLI (100) REPEATABLE (1) USING (k)'),
('static recursive', 'SELECT s1.id, (WITH RECURSIVE u AS (SELECT parent FROM tree WHERE tree.id = s1.k UNION ALL
	SELECT t.parent FROM tree t JOIN u ON t.id = u.parent) SELECT count(*) FROM u) AS depth FROM s1'),
('static join in a subquery', 'SELECT s1.id, x.name FROM s1 LEFT JOIN (SELECT d.k, d.name FROM d LEFT JOIN e USING (k) WHERE e.w IS NULL) x USING (k)');

-- each of them once without a limit, and once with batches of three rows
SELECT count(*), count(streamq.create_query(name, query)) FROM (SELECT * FROM cases ORDER BY n) c;
SELECT count(*), count(streamq.create_query(name || ', in threes', query, max_rows_per_batch => 3)) FROM (SELECT * FROM cases ORDER BY n) c;

-- a run of every query, without its output
CREATE VIEW runs AS SELECT format('CALL streamq.run(%L)', name) FROM streamq.queries ORDER BY query_id;

CREATE PROCEDURE load(first int, last int) LANGUAGE sql AS $$
	INSERT INTO compile_accept.s1 (id, k, v, tags, at, amount, j, c, p, pct, raw, "Odd ""Name", r, js, de, f, u, iv, b, pt)
	SELECT i, nullif(i % 5, 4), 'v' || i, CASE i % 3 WHEN 0 THEN '{}' WHEN 1 THEN ARRAY['a', NULL, 't' || i] END::text[],
		   '2024-01-01 12:00+00'::timestamptz + i * interval '7 hours', i / 3.0,
		   jsonb_build_object('x', i, 'y', 'z'), (ARRAY['red', 'green', 'blue'])[i % 3 + 1]::compile_accept.colour, ROW(i, 'p' || i)::compile_accept.pair, i % 101,
		   decode(lpad(to_hex(i), 8, '0'), 'hex'), -i, int4range(i, i + 5), '{"n":1}', chr(97 + i % 26),
		   CASE i % 4 WHEN 0 THEN 'NaN'::float8 WHEN 1 THEN '-Infinity' ELSE i / 7.0 END,
		   md5(i::text)::uuid, make_interval(mins => i), nullif(i % 3, 0) = 1, point(i, -i)
	FROM generate_series(first, last) i;
	INSERT INTO compile_accept.s2 SELECT i % 3, 1000 + i, 'w' || i, '2024-02-01'::timestamptz FROM generate_series(first, last) i WHERE i % 2 = 0;
	INSERT INTO compile_accept.sp (id, k, v) SELECT i, i % 4, 'p' || i FROM generate_series(first, last) i;
$$;

-- nothing there yet
\set ECHO none
\o /dev/null
TABLE runs \gexec
\o
\set ECHO all
SELECT count(*) FROM streamq.commits;

-- one transaction a table
CALL load(1, 7);
\set ECHO none
\o /dev/null
TABLE runs \gexec
\o
\set ECHO all
SELECT q.name, c.* FROM streamq.queries q, test.compare(q.name) c WHERE missing > 0 OR unwanted > 0 ORDER BY q.query_id;

-- several transactions, some of them rolled back, and duplicates
CALL load(8, 8);
CALL load(9, 9);
CALL load(9, 9);
BEGIN;
CALL load(100, 110);
ROLLBACK;
BEGIN;
CALL load(10, 10);
SAVEPOINT a;
CALL load(120, 130);
ROLLBACK TO a;
CALL load(11, 13);
COMMIT;
DELETE FROM s1 WHERE id = 100;
ALTER TABLE s1 ADD COLUMN later int;
ALTER TABLE sp ADD COLUMN later int;
ALTER TYPE colour ADD VALUE 'yellow' BEFORE 'green';
\set ECHO none
\o /dev/null
TABLE runs \gexec
\o
\set ECHO all
SELECT q.name, c.* FROM streamq.queries q, test.compare(q.name) c WHERE missing > 0 OR unwanted > 0 ORDER BY q.query_id;

-- one table alone, new partitions
CREATE TABLE sp_3 PARTITION OF sp_1 FOR VALUES FROM (1000) TO (2000);
INSERT INTO sp VALUES (1500, 1, 'new'), (1501, 2, 'newer');
INSERT INTO s2 VALUES (1, 2000, 'alone', NULL);
\set ECHO none
\o /dev/null
TABLE runs \gexec
\o
\set ECHO all
SELECT q.name, c.* FROM streamq.queries q, test.compare(q.name) c WHERE q.name NOT LIKE '%, in threes' ORDER BY q.query_id;
SELECT q.name, c.* FROM streamq.queries q, test.compare(q.name) c WHERE missing > 0 OR unwanted > 0 ORDER BY q.query_id;

-- no batch was larger than it may
SELECT max(input_rows) FROM streamq.commits WHERE name LIKE '%, in threes';

-- static tables are read as of each batch
SELECT streamq.create_query('as of', 'SELECT s2.id, d.name FROM s2 LEFT JOIN d USING (k)', starting_position => 'latest');
INSERT INTO s2 VALUES (7, 3001);
CALL streamq.run('as of');
UPDATE d SET name = 'SEVEN' WHERE k = 7;
INSERT INTO s2 VALUES (7, 3002);
CALL streamq.run('as of');
DELETE FROM d WHERE k = 7;
INSERT INTO s2 VALUES (7, 3003);
CALL streamq.run('as of');
SELECT * FROM "as of" ORDER BY id;

-- current_timestamp is one moment in a batch
SELECT streamq.create_query('moment', 'SELECT id, now() AS at FROM s2', starting_position => 'latest');
INSERT INTO s2 SELECT 1, g FROM generate_series(4001, 4010) g;
CALL streamq.run('moment');
SELECT count(*), count(DISTINCT at) FROM moment;

-- two streams, one of them read as a static table
SELECT streamq.create_query('one static', 'SELECT s1.id, s2.id AS id2 FROM s1 JOIN s2 USING (k)', sources => '{s1}');
CALL streamq.run('one static');
SELECT * FROM test.compare('one static');
INSERT INTO s2 VALUES (0, 5000);
CALL streamq.run('one static');
-- the same table as a stream and in a view that is read as static: still the stream
SELECT streamq.create_query('hidden', 'SELECT s2.id FROM s2 WHERE EXISTS (SELECT FROM v1 WHERE v1.k = s2.k)');
-- unless it is named
SELECT streamq.create_query('hidden', 'SELECT s2.id FROM s2 WHERE EXISTS (SELECT FROM v1 WHERE v1.k = s2.k)', sources => '{s2}');
CALL streamq.run('hidden');
SELECT * FROM test.compare('hidden');
-- a partition of a source, as a static table
SELECT streamq.create_query('leaf', 'SELECT s1.id FROM s1 JOIN sp_0 ON sp_0.id = s1.id');
CALL streamq.run('leaf');
SELECT * FROM test.compare('leaf');

-- a view that is replaced: the query follows, as long as it streams
CREATE VIEW replaced AS SELECT id FROM s2 WHERE id > 0;
SELECT streamq.create_query('follows', 'SELECT id FROM replaced', starting_position => 'latest');
INSERT INTO s2 (id) VALUES (6001), (-6001);
CALL streamq.run('follows');
CREATE OR REPLACE VIEW replaced AS SELECT -id AS id FROM s2 WHERE id < 0;
INSERT INTO s2 (id) VALUES (6002), (-6002);
CALL streamq.run('follows');
CREATE OR REPLACE VIEW replaced AS SELECT count(*) AS id FROM s2;
INSERT INTO s2 (id) VALUES (6003), (-6003);
CALL streamq.run('follows');
CREATE OR REPLACE VIEW replaced AS SELECT k::bigint AS id FROM d;
CALL streamq.run('follows');
CREATE OR REPLACE VIEW replaced AS SELECT id FROM s2 WHERE id > 0;
CALL streamq.run('follows');
SELECT * FROM follows ORDER BY id;

-- what a batch executes
\pset format unaligned
\pset tuples_only on
SELECT streamq.explain('filter') LIMIT 1;
SELECT streamq.explain('view over view') LIMIT 1;
SELECT streamq.explain('union all, same twice') LIMIT 1;
SELECT streamq.explain('partitioned') LIMIT 1;
SELECT streamq.explain('quoted') LIMIT 1;

SET client_min_messages = warning;
SELECT count(streamq.drop_query(name)) FROM streamq.queries;
DROP SCHEMA compile_accept CASCADE;
