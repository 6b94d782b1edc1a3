--
-- Output mode complete: after each batch the sink holds the whole result, and only
-- rows that differ have been touched
--
CREATE SCHEMA mode_complete;
SET search_path = mode_complete;
SET TimeZone = 'UTC';
SET DateStyle = 'ISO';
\pset null '(null)'
CREATE TYPE mood AS ENUM ('sad', 'ok', 'happy');
CREATE TABLE src (id int GENERATED ALWAYS AS IDENTITY, k int, m mood, v numeric, at timestamptz);
CREATE TABLE d (k int PRIMARY KEY, name text);
CREATE TABLE e (k int, w int);
INSERT INTO d VALUES (0, 'zero'), (1, 'one'), (2, 'two'), (9, 'nine');
INSERT INTO e VALUES (0, 1), (0, 2), (1, 3), (2, NULL), (NULL, 4), (8, 5);
SELECT streamq.add_source('src', 'at', '1 hour');
CREATE PROCEDURE add(seed int) LANGUAGE sql AS $$
	INSERT INTO src (k, m, v, at)
	SELECT nullif(x % 6, 5), ('{sad,ok,happy}'::mood[])[1 + x % 4], ('{1,1.0,2.50,NaN}'::numeric[])[1 + x % 5],
		   timestamptz '2024-01-01' + x * interval '10 minutes'
	FROM (SELECT (g * 7919 + seed * 104729) % 101 AS x FROM generate_series(1, 12) g) y
$$;

-- whatever may be above an aggregation
CREATE PROCEDURE add_queries() LANGUAGE plpgsql AS $$
DECLARE
	queries text[] := ARRAY[
		'all rows', 'SELECT count(*) AS n, sum(v) AS total, min(id) AS first FROM src',
		'ORDER BY', 'SELECT k, count(*) AS n FROM src GROUP BY k ORDER BY 2 DESC, k',
		'LIMIT', 'SELECT k, count(*) AS n FROM src GROUP BY k ORDER BY sum(id) DESC LIMIT 3',
		'OFFSET', 'SELECT k, count(*) AS n FROM src GROUP BY k ORDER BY k NULLS FIRST OFFSET 1',
		'WITH TIES', 'SELECT k, count(*) AS n FROM src GROUP BY k ORDER BY count(*) % 3 FETCH FIRST ROW WITH TIES',
		'DISTINCT', 'SELECT DISTINCT count(*) % 3 AS n FROM src GROUP BY k, m',
		'DISTINCT ON', 'SELECT DISTINCT ON (m) m, k, count(*) AS n FROM src GROUP BY k, m ORDER BY m, count(*) DESC, k',
		'window functions', 'SELECT k, count(*) AS n, rank() OVER w AS place, sum(count(*)) OVER () AS total, lag(k, 2) OVER w AS l
			FROM src GROUP BY k WINDOW w AS (ORDER BY count(*) DESC, k)',
		'set-returning function', 'SELECT k, unnest(array_agg(DISTINCT m ORDER BY m)) AS m, generate_series(1, 2) AS g FROM src GROUP BY k',
		'keys hidden', 'SELECT count(*) AS n FROM src GROUP BY k, m HAVING count(*) > 1',
		'equal rows', 'SELECT m, 1 AS one FROM src GROUP BY k, m',
		'aggregation of an aggregation', 'SELECT n, count(*) AS groups, array_agg(k ORDER BY k) AS ks FROM (SELECT k, count(*) AS n FROM src GROUP BY k) x GROUP BY n',
		'of that again', 'SELECT max(groups) AS most FROM (SELECT n, count(*) AS groups FROM (SELECT k, count(*) AS n FROM src GROUP BY k) x GROUP BY n) y',
		'grouping sets above', 'SELECT k, m, sum(n) AS n, grouping(k, m) AS g FROM (SELECT k, m, count(*) AS n FROM src GROUP BY k, m) x GROUP BY ROLLUP (k, m)',
		'static LEFT JOIN', 'SELECT d.name, n FROM d LEFT JOIN (SELECT k, count(*) AS n FROM src GROUP BY k) x USING (k)',
		'static FULL JOIN', 'SELECT d.name, k, n FROM d FULL JOIN (SELECT k, count(*) AS n FROM src GROUP BY k) x USING (k)',
		'anti join', 'SELECT name FROM d WHERE NOT EXISTS (SELECT FROM e WHERE e.k = d.k) AND k NOT IN (SELECT k FROM (VALUES (7)) v (k))
			UNION ALL SELECT m::text FROM src GROUP BY m',
		'UNION ALL', 'SELECT k, count(*) AS n FROM src GROUP BY k UNION ALL SELECT k, w FROM e',
		'UNION', 'SELECT k, count(*) AS n FROM src GROUP BY k UNION SELECT k, w FROM e',
		'EXCEPT', 'SELECT k FROM d EXCEPT SELECT k FROM src GROUP BY k HAVING count(*) > 5',
		'share of all', 'WITH x AS (SELECT k, count(*) AS n FROM src GROUP BY k) SELECT k, n, round(n / (SELECT sum(n) FROM x), 3) AS share FROM x',
		'self join', 'WITH x AS (SELECT k, m, count(*) AS n FROM src GROUP BY k, m) SELECT a.k, a.m, b.m AS m2, a.n - b.n AS diff FROM x a JOIN x b ON a.k = b.k AND a.m < b.m',
		'recursive, beside', 'WITH RECURSIVE c AS (SELECT 0 AS k UNION ALL SELECT k + 1 FROM c WHERE k < 6)
			SELECT c.k, coalesce(n, 0) AS n FROM c LEFT JOIN (SELECT k, count(*) AS n FROM src GROUP BY k) x USING (k)',
		'correlated above', 'SELECT k, n FROM (SELECT k, count(*) AS n FROM src GROUP BY k) x WHERE n > (SELECT count(*) FROM e WHERE e.k = x.k)',
		'LATERAL above', 'SELECT x.k, w, i FROM (SELECT k, array_agg(id ORDER BY id DESC) AS ids FROM src GROUP BY k) x, LATERAL (SELECT w FROM e WHERE e.k = x.k) y, unnest(ids[1:2]) i',
		'event time', 'SELECT date_trunc(''hour'', at) AS h, count(*) AS n FROM src GROUP BY 1',
		'types without equality', 'SELECT k, json_agg(id ORDER BY id) AS js, point(k, count(*)) AS p, (''<a>'' || sum(id) || ''</a>'')::xml AS x FROM src GROUP BY k'];
BEGIN
	FOR i IN 1 .. array_length(queries, 1) BY 2 LOOP
		PERFORM streamq.create_query(queries[i], queries[i + 1], 'complete', max_rows_per_batch => CASE WHEN i % 5 = 0 THEN 5 END);
	END LOOP;
END $$;
CALL add_queries();
CALL add(1);
CALL test.run_all();
SELECT * FROM test.compare_all();
CALL add(2);
CALL test.run_all();
SELECT * FROM test.compare_all();
CALL add(3);
CALL add(4);
CALL test.run_all();
SELECT * FROM test.compare_all();
-- groups are held for ever, no row is late, watermark or not
INSERT INTO src (k, at) VALUES (1, '2025-01-01');
CALL test.run_all();
INSERT INTO src (k, at) VALUES (1, '1999-01-01'), (2, '-infinity'), (3, 'infinity'), (4, NULL);
CALL test.run_all();
SELECT * FROM test.compare_all();
SELECT DISTINCT ON (name) name, late_rows, output_rows, state_rows, watermark FROM streamq.progress
WHERE name IN ('event time', 'static FULL JOIN', 'all rows') ORDER BY name, batch_id DESC;
SELECT q.name, v.* FROM streamq.queries q, streamq.verify(q.name) v;
-- a static table that has changed shows with the next batch
INSERT INTO d VALUES (3, 'three');
UPDATE d SET name = 'ONE' WHERE k = 1;
SELECT difference, row_data FROM streamq.verify('static LEFT JOIN') ORDER BY row_data::text;
INSERT INTO src (k) VALUES (7);
CALL test.run_all();
SELECT * FROM test.compare_all();
SET client_min_messages = warning;
SELECT count(streamq.drop_query(name, true)) FROM streamq.queries;
RESET client_min_messages;

--
-- only what differs is written
--
CREATE TABLE seen AS SELECT * FROM test.versions('d') LIMIT 0;
CREATE FUNCTION changes(sink regclass) RETURNS TABLE (what text, data text) LANGUAGE plpgsql AS $$
BEGIN
	RETURN QUERY
		SELECT 'written', now.data FROM test.versions(sink) now WHERE now.version NOT IN (SELECT version FROM seen)
		UNION ALL
		SELECT 'gone', s.data FROM seen s WHERE s.version NOT IN (SELECT version FROM test.versions(sink))
		UNION ALL
		SELECT 'kept', now.data FROM test.versions(sink) now WHERE now.version IN (SELECT version FROM seen) ORDER BY 1 DESC, 2;
	TRUNCATE seen;
	INSERT INTO seen SELECT * FROM test.versions(sink);
END $$;
TRUNCATE src;
SELECT streamq.create_query('top', 'SELECT k, max(v) AS most, count(*) FILTER (WHERE v < 0) AS negative FROM src GROUP BY k ORDER BY 2 DESC LIMIT 3', 'complete');
SELECT streamq.create_query('twice', 'SELECT m FROM src GROUP BY k, m', 'complete');
INSERT INTO src (k, m, v) VALUES (1, 'ok', 10), (2, 'ok', 20), (3, 'ok', 30), (4, NULL, 5), (5, NULL, 4);
CALL test.run_all();
SELECT * FROM changes('top');
INSERT INTO src (k, m, v) VALUES (4, 'ok', 15), (1, 'ok', 9), (NULL, NULL, 4);
CALL test.run_all();
SELECT * FROM changes('top');
INSERT INTO src (k, m, v) VALUES (1, 'ok', 9), (2, NULL, -1), (3, 'sad', 31);
CALL test.run_all();
SELECT * FROM changes('top');
SELECT batch_id, output_rows, state_rows FROM streamq.progress WHERE name = 'top' ORDER BY batch_id;
-- of equal rows as many as there should be
SELECT m, count(*) FROM twice GROUP BY m ORDER BY m;
SELECT * FROM test.compare_all();
-- what somebody else has done to the sink is mended with the next batch
TRUNCATE seen;
SELECT count(*) FROM changes('twice');
DELETE FROM twice WHERE m = 'sad';
INSERT INTO twice VALUES ('happy'), ('ok');
SELECT difference, row_data FROM streamq.verify('twice') ORDER BY 1, row_data::text;
INSERT INTO src (k, m, v) VALUES (1, 'ok', 0);
CALL streamq.run('twice');
SELECT data, count(*) FROM changes('twice') WHERE what = 'kept' AND data <> '(ok)' GROUP BY data;
SELECT * FROM test.compare('twice');
-- a unique constraint of the sink that both old and new rows would break
ALTER TABLE top ADD PRIMARY KEY (most);
INSERT INTO src (k, m, v) VALUES (4, 'ok', 21), (2, 'ok', -2);
CALL streamq.run('top');
SELECT * FROM top ORDER BY most;
SELECT * FROM test.compare('top');
-- an error leaves all as it was
TRUNCATE seen;
SELECT count(*) FROM changes('top');
INSERT INTO src (k, m, v) VALUES (2, 'ok', 21);
CALL streamq.run('top');
SELECT DISTINCT what FROM changes('top');
INSERT INTO src (k, m, v) VALUES (2, 'ok', 22);
CALL streamq.run('top');
SELECT * FROM test.compare('top');

--
-- a result without rows, and back
--
SELECT streamq.create_query('none', 'SELECT count(*) AS n FROM src HAVING count(*) % 2 = 0', 'complete', max_rows_per_batch => 1, starting_position => 'latest');
INSERT INTO src (k) VALUES (1);
CALL streamq.run('none');
TABLE none;
INSERT INTO src (k) VALUES (1);
CALL streamq.run('none');
TABLE none;
INSERT INTO src (k) VALUES (1);
CALL streamq.run('none');
TABLE none;
-- a fresh checkpoint: the sink follows with the first batch
INSERT INTO src (k) VALUES (1), (1);
SELECT streamq.reset('none');
CALL streamq.run('none');
SELECT * FROM test.compare('none');

SET client_min_messages = warning;
SELECT count(streamq.drop_query(name)) FROM streamq.queries;
DROP SCHEMA mode_complete CASCADE;
