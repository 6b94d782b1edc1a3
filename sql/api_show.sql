--
-- What shows the result of a query: state(), live(), live views, verify()
--
SET client_min_messages = warning;
DROP ROLE IF EXISTS regress_sq_owner, regress_sq_member, regress_sq_guest;
RESET client_min_messages;
CREATE SCHEMA api_show;
SET search_path = api_show;
SET TimeZone = 'UTC';
SET DateStyle = 'ISO';
\pset null '(null)'
CREATE TABLE src (id int, k text, v numeric, f float8, at timestamptz);
CREATE TABLE indexed (LIKE src);
CREATE INDEX indexed_at ON indexed (at);
SELECT streamq.add_source('src', 'at', '1 hour'), streamq.add_source('indexed', 'at', '1 hour');

--
-- state(): the groups that are held, HAVING or not, with their present values
--
SELECT streamq.create_query('counts', 'SELECT k || ''!'' AS key, k, sum(v) AS total, count(DISTINCT id) AS n, array_agg(id ORDER BY id) AS ids FROM src GROUP BY k HAVING sum(v) > 5', 'update', live_view => 'counts_live');
SELECT streamq.create_query('top', 'SELECT k, count(*) AS n, rank() OVER (ORDER BY count(*) DESC) AS r FROM src GROUP BY k ORDER BY 2 DESC, k LIMIT 1', 'complete', live_view => '"Live of top"');
SELECT streamq.create_query('hours', 'SELECT date_trunc(''hour'', at) AS h, k, count(*) AS n, sum(f) AS f FROM src GROUP BY 1, 2', live_view => 'hours_live', late_sink => 'hours_late');
SELECT streamq.create_query('hours indexed', 'SELECT date_trunc(''hour'', at) AS h, k, count(*) AS n FROM indexed GROUP BY 1, 2', live_view => 'indexed_live');
SELECT streamq.create_query('all rows', 'SELECT count(*) AS n FROM (SELECT k, count(*) AS n FROM src GROUP BY k) x WHERE n > 1', 'complete');
SELECT streamq.create_query('plain', 'SELECT id, k FROM src WHERE id <> 3', live_view => 'plain_live');
SELECT * FROM streamq.state('counts') AS s (key text, k text, total numeric, n bigint, ids int[]);
SELECT * FROM hours_live;
INSERT INTO src VALUES (1, 'a', 1.50, 0.1, '2024-01-01 10:10'), (2, 'a', 6, 0.2, '2024-01-01 10:20'), (3, 'b', 1, 0.3, '2024-01-01 12:00'), (4, NULL, 9, NULL, NULL);
INSERT INTO indexed TABLE src;
CALL test.run_all();
SELECT * FROM streamq.state('counts') AS s (key text, k text, total numeric, n bigint, ids int[]) ORDER BY n DESC, k;
SELECT * FROM streamq.state('top') AS s (k text, n bigint, r bigint) ORDER BY n DESC, k;
SELECT * FROM streamq.state('hours') AS s (h timestamptz, k text, n bigint, f float8) ORDER BY h;
SELECT * FROM streamq.state('all rows') AS s (k text, n bigint) ORDER BY k;
-- none is kept
SELECT * FROM streamq.state('hours indexed') AS s (h timestamptz, k text, n bigint);
SELECT * FROM streamq.state('plain') AS s (id int, k text);

--
-- live(): what the SELECT gives over the rows processed so far
--
SELECT * FROM streamq.live('counts') AS l (key text, k text, total numeric, n bigint, ids int[]) ORDER BY n DESC, k;
SELECT * FROM counts_live ORDER BY n DESC, k;
SELECT * FROM "Live of top";
SELECT * FROM plain_live ORDER BY id;
-- final rows and those in progress
SELECT * FROM hours ORDER BY h;
SELECT * FROM hours_live ORDER BY h;
SELECT * FROM indexed_live ORDER BY h;
SELECT * FROM hours_live EXCEPT ALL SELECT * FROM streamq_query.hours;
-- rows that have not been processed are not in it
INSERT INTO src VALUES (5, 'a', 1, 1.5, '2024-01-01 12:10');
INSERT INTO indexed SELECT * FROM src WHERE id = 5;
SELECT * FROM indexed_live WHERE h > '2024-01-01 11:00';
CALL test.run_all();
SELECT * FROM indexed_live WHERE h > '2024-01-01 11:00' ORDER BY k;
SELECT * FROM streamq_query."hours indexed" EXCEPT ALL SELECT * FROM indexed_live;
-- in a SELECT list, with a column list that does not fit
SELECT streamq.live('plain') ORDER BY 1;
SELECT streamq.state('top') ORDER BY 1;
SELECT (streamq.verify('top')).difference;
SELECT * FROM streamq.live('plain');
SELECT * FROM streamq.live('plain') AS l (id int);
SELECT * FROM streamq.live('plain') AS l (id text, k text);
SELECT * FROM streamq.state('top') AS s (k text, n bigint);
SELECT * FROM streamq.live('nobody') AS l (id int);
SELECT * FROM streamq.state(NULL) AS l (id int);
SELECT * FROM streamq.verify(NULL);
SELECT * FROM streamq.verify('nobody');
-- a live view that is there already, or cannot be
SELECT streamq.create_query('x', 'SELECT id FROM src', live_view => 'hours_live');
SELECT streamq.create_query('x', 'SELECT id FROM src', live_view => 'no_such_schema.x');
SELECT streamq.create_query('x', 'SELECT id FROM src', live_view => 'x');
SELECT streamq.create_query('x', 'SELECT id FROM src', live_view => 'too.many.dots.x');
-- it goes with the query, but not with what is built on it
CREATE VIEW on_live AS SELECT count(*) AS n FROM counts_live;
SELECT streamq.drop_query('counts');
DROP VIEW on_live;
SELECT streamq.drop_query('counts', true);
SELECT count(*) FROM counts_live;

--
-- verify(): rows that are missing from the sink, and rows that should not be there
--
SELECT q.name, v.* FROM streamq.queries q, streamq.verify(q.name) v;
INSERT INTO plain VALUES (7, 'new'), (1, 'a');
DELETE FROM plain WHERE id = 2;
UPDATE top SET n = 100;
UPDATE hours SET n = n + 1;
DELETE FROM "hours indexed";
SELECT q.name, v.* FROM streamq.queries q, streamq.verify(q.name) v ORDER BY 1, 3;
-- float sums in another order differ a little; that is no difference
UPDATE hours SET n = n - 1, f = f + 1e-16;
SELECT * FROM streamq.verify('hours');
UPDATE hours SET f = f + 1e-6;
SELECT difference FROM streamq.verify('hours') ORDER BY 1;
UPDATE hours SET f = f - 1e-6;
-- late rows: with a late sink they are left out, without one they may explain a difference
INSERT INTO src VALUES (6, 'a', 0, 1, '2024-01-01 15:00'), (7, 'c', 0, 1, '2024-01-01 12:30');
INSERT INTO indexed SELECT * FROM src WHERE id > 5;
CALL test.run('hours', 'hours indexed');
INSERT INTO src VALUES (8, 'c', 0, 1, '2024-01-01 12:30'), (9, 'd', 0, 1, '2024-01-01 11:00'), (9, 'd', 0, 1, '2024-01-01 11:00');
INSERT INTO indexed SELECT * FROM src WHERE id > 7;
CALL test.run('hours', 'hours indexed');
SELECT id, k, at FROM hours_late ORDER BY id;
SELECT * FROM streamq.verify('hours');
SELECT * FROM streamq.verify('hours indexed') ORDER BY row_data, difference;
-- a late sink that somebody has touched
DELETE FROM hours_late WHERE id = 8;
SELECT * FROM streamq.verify('hours') ORDER BY row_data, difference;
-- keys that are not shown: any row may be explained
SELECT streamq.create_query('hidden', 'SELECT count(*) AS n FROM src GROUP BY at', max_rows_per_batch => 3);
CALL test.run('hidden');
SELECT difference, row_data, explained_by_late_rows, count(*) FROM streamq.verify('hidden') GROUP BY 1, 2, 3 ORDER BY 1, 2;
-- a query that starts late answers for what came since
SELECT streamq.create_query('late start', 'SELECT k, count(*) AS n FROM src GROUP BY k', 'complete', starting_position => 'latest');
INSERT INTO src VALUES (10, 'x', 1, 1, NULL);
CALL test.run('late start');
SELECT * FROM "late start";
SELECT * FROM streamq.verify('late start');
SELECT streamq.reset('late start', 'latest');
SELECT * FROM streamq.verify('late start');
-- rows of the source that are gone
DELETE FROM src WHERE id IN (1, 3);
SELECT * FROM streamq.verify('plain') ORDER BY row_data;
SELECT * FROM streamq.verify('late start');
TRUNCATE src;
SELECT count(*) FROM streamq.verify('hours');
-- in the middle of a backlog, and of a transaction
SELECT streamq.create_query('cut', 'SELECT id % 3 AS k, count(*) AS n FROM src GROUP BY 1', 'update', max_rows_per_batch => 7);
INSERT INTO src SELECT g FROM generate_series(1, 20) g;
ALTER TABLE cut ADD CHECK (n < 5);
CALL streamq.run('cut');
SELECT input_rows, output_rows FROM streamq.progress WHERE name = 'cut' ORDER BY batch_id;
SELECT * FROM streamq.verify('cut');

-- a WITH query over another stream that is not used: nothing is known of its rows
CREATE TABLE unused (id int);
SELECT streamq.add_source('unused');
SELECT streamq.create_query('unused with', 'WITH x AS (SELECT count(*) FROM unused) SELECT id FROM src WHERE id < 3', sources => '{src, unused}');
INSERT INTO unused VALUES (1);
CALL streamq.run('unused with');
SELECT * FROM streamq.verify('unused with');
SELECT streamq.drop_query('unused with', true), streamq.drop_source('unused');

--
-- who may: the owner and who has his rights; live() who may read the sink, which it shows
--
CREATE ROLE regress_sq_owner;
CREATE ROLE regress_sq_member IN ROLE regress_sq_owner;
CREATE ROLE regress_sq_guest;
GRANT ALL ON SCHEMA api_show TO regress_sq_owner;
GRANT USAGE ON SCHEMA api_show TO regress_sq_guest;
SET ROLE regress_sq_owner;
CREATE TABLE mine (k int);
SELECT streamq.add_source('mine');
CREATE FUNCTION who(int) RETURNS text LANGUAGE sql AS 'SELECT current_user::text';
SELECT streamq.create_query('mine_q', 'SELECT k, who(k) AS who, count(*) AS n FROM mine GROUP BY 1, 2', 'update', live_view => 'mine_live');
INSERT INTO mine VALUES (1);
GRANT SELECT ON mine_live, mine_q TO regress_sq_guest;
CALL test.run('mine_q');
SET ROLE regress_sq_member;
SELECT * FROM streamq.state('mine_q') AS s (k int, who text, n bigint);
SELECT * FROM mine_live;
SELECT * FROM streamq.verify('mine_q');
SET ROLE regress_sq_guest;
SELECT * FROM streamq.state('mine_q') AS s (k int, who text, n bigint);
SELECT * FROM streamq.live('mine_q') AS s (k int, who text, n bigint);
SELECT * FROM streamq.verify('mine_q');
SELECT count(*) FROM mine_live;
RESET ROLE;
REVOKE SELECT ON mine_q FROM regress_sq_guest;
SET ROLE regress_sq_guest;
SELECT count(*) FROM mine_live;
RESET ROLE;
-- with the owner's rights, whoever calls
SELECT * FROM streamq.verify('mine_q');

SET client_min_messages = warning;
SELECT count(streamq.drop_query(name)) FROM streamq.queries;
DROP SCHEMA api_show CASCADE;
DROP OWNED BY regress_sq_owner;
DROP ROLE regress_sq_owner, regress_sq_member, regress_sq_guest;
