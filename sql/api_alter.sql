--
-- alter_query: another SELECT for a query that goes on from its checkpoint
--
CREATE SCHEMA api_alter;
SET search_path = api_alter;
SET TimeZone = 'UTC';
SET DateStyle = 'ISO';
\pset null '(null)'
CREATE TABLE src (id int, k int, m int, v numeric, at timestamptz);
CREATE TABLE src2 (id int, k int, at timestamptz);
CREATE TABLE d (k int PRIMARY KEY, name text, w int);
CREATE TABLE d2 (k int, name text);
INSERT INTO d VALUES (1, 'one', 10), (2, 'two', 20);
CREATE VIEW behind AS SELECT id AS i, k AS kk, m, v, at FROM src;
SELECT streamq.add_source('src', 'at', '1 hour'), streamq.add_source('src2', 'at', '1 hour');
CREATE FUNCTION alter_to(name text, query text) RETURNS text LANGUAGE sql AS $$
	SELECT test.refusal(format('SELECT streamq.alter_query(%L, %L)', name, query))
$$;

--
-- a query without state may become any other one without, over the same sources
--
SELECT streamq.create_query('plain', 'SELECT id, k FROM src');
INSERT INTO src (id, k) VALUES (1, 1), (2, 2);
CALL streamq.run('plain');
SELECT streamq.alter_query('plain', 'SELECT s.id, d.w AS k FROM src s JOIN d USING (k) WHERE id <> 3');
INSERT INTO src (id, k) VALUES (3, 1), (4, 2), (5, 3);
CALL streamq.run('plain');
SELECT * FROM plain ORDER BY id;
-- a column more: the sink has to have it first
SELECT alter_to('plain', 'SELECT id, k, m FROM src');
ALTER TABLE plain ADD COLUMN m int;
SELECT alter_to('plain', 'SELECT m, k, id FROM src');
INSERT INTO src (id, k, m) VALUES (6, 1, 7);
CALL streamq.run('plain');
SELECT * FROM plain ORDER BY id;
-- one less
SELECT alter_to('plain', 'SELECT i AS id FROM behind');
INSERT INTO src (id, k, m) VALUES (7, 1, 7);
CALL streamq.run('plain');
SELECT * FROM plain WHERE id > 5 ORDER BY id;
-- what the old SELECT used is free now; it is rolled back with its transaction
BEGIN;
SELECT streamq.alter_query('plain', 'SELECT id FROM src');
DROP VIEW behind;
ROLLBACK;
DROP VIEW behind;
SELECT replace(pg_get_viewdef('streamq_query.plain'::regclass), 'behind.', '') AS definition;
SELECT relname FROM pg_class WHERE relnamespace = 'streamq_query'::regnamespace ORDER BY 1;
SELECT name, definition, sink, sources FROM streamq.queries;

--
-- an aggregation: the groups go on
--
SELECT streamq.create_query('q', 'SELECT k, m, count(*) AS n, sum(v) AS total, max(id) AS most FROM src GROUP BY k, m', 'update', live_view => 'q_live');
CALL test.run('q');
INSERT INTO src (id, k, m, v) VALUES (11, 1, 1, 1.0), (12, 1, 1, 2.5), (13, 2, 1, 3), (14, NULL, 1, 4);
CALL test.run('q');
SELECT * FROM q WHERE m = 1 ORDER BY k, m;
-- filters, static joins, expressions, the order of keys and columns; an aggregate less
SELECT streamq.alter_query('q', $$SELECT s.m, count(*) * 10 AS n, sum(v) / 2 AS total, s.k FROM src s LEFT JOIN d USING (k) WHERE v > 0 AND d.name IS DISTINCT FROM 'two' GROUP BY s.m, s.k HAVING count(*) < 5$$);
INSERT INTO src (id, k, m, v) VALUES (15, 1, 1, 10), (16, 2, 1, 100), (17, NULL, 1, -1), (18, 7, 7, 7);
CALL streamq.run('q');
SELECT * FROM q WHERE m IN (1, 7) ORDER BY k, m;
SELECT * FROM q_live WHERE m IN (1, 7) ORDER BY k, m;
\d q_live
-- what has been left out cannot come back, and there is nothing new
SELECT alter_to('q', 'SELECT k, m, count(*) AS n, max(id) AS most FROM src GROUP BY k, m');
-- through a subquery, a view, a WITH query: the same keys, the same aggregates
CREATE VIEW other AS SELECT k AS kay, m + 0 AS em0, m AS em, v AS vee FROM src;
SELECT streamq.alter_query('q', 'WITH y AS (SELECT kay, em, count(*) AS n, sum(vee) AS total FROM (SELECT kay, em, vee FROM other WHERE vee <> 3) x GROUP BY em, kay) SELECT kay AS k, em AS m, n, total FROM y WHERE n > 1');
INSERT INTO src (id, k, m, v) VALUES (19, 1, 1, 10), (20, 7, 7, 1), (21, 8, 8, 1);
CALL streamq.run('q');
SELECT * FROM q WHERE m IN (1, 7, 8) ORDER BY k, m;
-- no aggregate at all; and then none comes back
SELECT alter_to('q', 'SELECT DISTINCT k, m FROM src');
INSERT INTO src (id, k, m, v) VALUES (22, 1, 1, 1), (23, 9, 9, 1);
CALL streamq.run('q');
SELECT k, m FROM q WHERE m IN (1, 9) ORDER BY k, m;
SELECT alter_to('q', 'SELECT k, m, count(*) AS n FROM src GROUP BY k, m');

--
-- what would misread the groups
--
\pset format unaligned
\pset tuples_only on
SELECT streamq.create_query('kept', $$SELECT date_trunc('hour', at) AS h, k, count(*) AS n, sum(v) AS total, count(DISTINCT m) AS ms, array_agg(id ORDER BY id) AS ids, max(v) FILTER (WHERE m > 1) AS most FROM src GROUP BY 1, 2$$, 'update', late_sink => 'kept_late');
CREATE TABLE refused (n int GENERATED ALWAYS AS IDENTITY, query text);
INSERT INTO refused (query) VALUES
('SELECT date_trunc(''hour'', at) AS h, count(*) AS n FROM src GROUP BY 1'),
('SELECT date_trunc(''hour'', at) AS h, k, m AS n, count(*) AS total FROM src GROUP BY 1, 2, 3'),
('SELECT date_trunc(''hour'', at) AS h, m AS k, count(*) AS n FROM src GROUP BY 1, 2'),
('SELECT date_trunc(''hour'', at) AS h, k + 1 AS k, count(*) AS n FROM src GROUP BY 1, 2'),
('SELECT date_trunc(''hour'', at) AS h, d.k, count(*) AS n FROM src JOIN d USING (k) GROUP BY 1, 2'),
('SELECT date_trunc(''day'', at) AS h, k, count(*) AS n FROM src GROUP BY 1, 2'),
('SELECT at AS h, k, count(*) AS n FROM src GROUP BY 1, 2'),
('SELECT now() AS h, k, count(*) AS n FROM src GROUP BY 1, 2'),
('SELECT date_trunc(''hour'', at) AS h, k, count(m) AS n FROM src GROUP BY 1, 2'),
('SELECT date_trunc(''hour'', at) AS h, k, count(*) FILTER (WHERE m > 0) AS n FROM src GROUP BY 1, 2'),
('SELECT date_trunc(''hour'', at) AS h, k, max(v) AS most FROM src GROUP BY 1, 2'),
('SELECT date_trunc(''hour'', at) AS h, k, max(v) FILTER (WHERE m > 2) AS most FROM src GROUP BY 1, 2'),
('SELECT date_trunc(''hour'', at) AS h, k, count(DISTINCT k) AS ms FROM src GROUP BY 1, 2'),
('SELECT date_trunc(''hour'', at) AS h, k, array_agg(id ORDER BY id DESC) AS ids FROM src GROUP BY 1, 2'),
('SELECT date_trunc(''hour'', at) AS h, k, sum(v + 1) AS total FROM src GROUP BY 1, 2'),
('SELECT date_trunc(''hour'', at) AS h, k, count(*) AS n FROM src GROUP BY 1, 2 HAVING min(id) > 0'),
('SELECT count(*) AS n FROM src'),
('SELECT at AS h, k FROM src'),
('SELECT date_trunc(''hour'', at) AS h, k, count(*) AS n FROM src2 GROUP BY 1, 2'),
('SELECT date_trunc(''hour'', at) AS h, k, count(*) AS n FROM (SELECT at, k FROM src UNION ALL SELECT at, k FROM src2) x GROUP BY 1, 2'),
-- the late sink cannot follow
('SELECT date_trunc(''hour'', at) AS h, k, count(*) AS n FROM (SELECT at, k FROM src UNION ALL SELECT at, k FROM src) x GROUP BY 1, 2'),
-- refused in any case
('SELECT date_trunc(''hour'', at) AS h, k, count(*) AS n FROM src GROUP BY 1, 2 ORDER BY n'),
('SELECT k, count(*) AS n FROM src GROUP BY date_trunc(''hour'', at), k'),
('SELECT date_trunc(''hour'', at) AS hour, k, count(*) AS n FROM src GROUP BY 1, 2'),
('SELECT date_trunc(''hour'', at) AS h, k, count(*) > 1 AS n FROM src GROUP BY 1, 2'),
('SELECT date_trunc(''hour'', at) AS h, k, nothing FROM src GROUP BY 1, 2'),
('SELECT'), ('DROP TABLE src'), ('SELECT 1 AS h; SELECT 2');
SELECT query, alter_to('kept', query) FROM refused ORDER BY n;
SELECT alter_to('nobody', 'SELECT 1'), alter_to('kept', NULL), alter_to(NULL, 'SELECT 1');
-- without groups there is nothing to misread, but what would need some is refused
CREATE INDEX src_at ON src (at);
SELECT streamq.create_query('unkept', 'SELECT date_trunc(''hour'', at) AS h, count(*) AS n FROM src GROUP BY 1');
SELECT alter_to('unkept', 'SELECT date_trunc(''hour'', at) AS h, sum(v) AS n FROM src WHERE k > 0 GROUP BY 1, m HAVING count(*) > 1');
SELECT alter_to('unkept', 'SELECT date_trunc(''day'', at) AS h, sum(v) AS n FROM src GROUP BY 1');
SELECT alter_to('unkept', 'SELECT date_trunc(''hour'', at) AS h, sum(w) AS n FROM src JOIN d USING (k) GROUP BY 1');
SELECT alter_to('unkept', 'SELECT date_trunc(''hour'', at) AS h, sum(v) AS n FROM (SELECT * FROM src UNION ALL SELECT * FROM src) x GROUP BY 1');
-- a query without state stays one
SELECT alter_to('plain', 'SELECT k, count(*) AS id FROM src GROUP BY k');
SELECT alter_to('plain', 'SELECT id FROM src2');
\pset format aligned
\pset tuples_only off
INSERT INTO src VALUES (31, 1, 1, 1, '2024-01-01 10:00'), (32, 1, 1, 2, '2024-01-01 10:30'), (33, 0, 1, 4, '2024-01-01 10:40'), (34, 1, 1, 1, '2024-01-01 12:00');
CALL streamq.run('unkept');
TABLE unkept;
-- in complete mode a result may be cut, and sorted
SELECT streamq.create_query('top', 'SELECT k, count(*) AS n FROM src GROUP BY k', 'complete');
CALL test.run('top');
SELECT streamq.alter_query('top', 'SELECT k, n FROM (SELECT k, count(*) AS n FROM src GROUP BY k) x ORDER BY n DESC, k LIMIT 2');
SELECT count(*) > 2 AS before FROM top;
INSERT INTO src (id, k) VALUES (41, 1);
CALL streamq.run('top');
SELECT * FROM test.compare('top');
SELECT count(*) AS after FROM top;

--
-- settings are those of its creation; what hangs on the definition; who may, and when
--
CREATE SCHEMA elsewhere;
CREATE TABLE elsewhere.d (LIKE d);
SET search_path = elsewhere;
SET TimeZone = 'Asia/Tokyo';
SELECT streamq.alter_query('plain', 'SELECT id, w AS k, extract(hour FROM at) AS m FROM src JOIN d USING (k) WHERE id > 50');
SET search_path = api_alter;
SET TimeZone = 'UTC';
INSERT INTO src (id, k, at) VALUES (51, 1, '2024-01-01 10:00');
CALL streamq.run('plain');
SELECT * FROM plain WHERE id > 50;
CREATE VIEW over AS SELECT * FROM streamq_query.plain;
SELECT left(alter_to('plain', 'SELECT id FROM src'), 7);
DROP VIEW over;
SELECT streamq.alter_query('plain', 'SELECT id FROM src');
CREATE ROLE regress_sq_alter;
SET ROLE regress_sq_alter;
SELECT streamq.alter_query('plain', 'SELECT id FROM src');
RESET ROLE;
DROP ROLE regress_sq_alter;

SET client_min_messages = warning;
SELECT count(streamq.drop_query(name)) FROM streamq.queries;
DROP SCHEMA api_alter CASCADE;
DROP SCHEMA elsewhere CASCADE;
