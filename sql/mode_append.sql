--
-- Output mode append: a group comes once, when it is final.  Whether the groups are
-- kept in a table meanwhile, or read from the source when they close (which an index
-- on the event time allows), the rows are the same, batch by batch
--
CREATE SCHEMA mode_append;
SET search_path = mode_append;
SET TimeZone = 'UTC';
SET DateStyle = 'ISO';
\pset null '(null)'
CREATE TABLE plain (id int, k text, tags int[], v numeric, at timestamptz);
CREATE TABLE indexed (LIKE plain);
CREATE INDEX indexed_at ON indexed (at, id);
CREATE TABLE brin (LIKE plain);
CREATE INDEX brin_at ON brin USING brin (at);
CREATE TABLE parts (at timestamptz, tags int[], v numeric, k text, id int) PARTITION BY LIST (k);
CREATE TABLE parts_a PARTITION OF parts FOR VALUES IN ('a');
CREATE TABLE parts_1 PARTITION OF parts DEFAULT;
CREATE INDEX parts_at ON parts (at);
SELECT streamq.add_source(s, 'at', '1 hour') FROM unnest('{plain,indexed,brin,parts}'::regclass[]) s;
CREATE AGGREGATE resumed(int) (sfunc = int4larger, stype = int);
-- what to do, and when a row w of the result is final under the watermark $1
CREATE TABLE todo (name text PRIMARY KEY, query text, final text, max_rows int, sources text[] DEFAULT '{plain,indexed,brin,parts}');
INSERT INTO todo VALUES
('hour', 'SELECT date_trunc(''hour'', at) AS h, k, count(*) AS n, sum(v) AS total, avg(v) AS mean FROM %s s GROUP BY 1, 2', 'w.h < date_trunc(''hour'', $1)'),
('raw', 'SELECT at, array_agg(id ORDER BY id) AS ids FROM %s s GROUP BY at', 'w.at <= $1'),
('bin', 'SELECT date_bin(''25 minutes'', at, ''2024-01-02'') AS b, count(DISTINCT k) AS ks, percentile_cont(0.5) WITHIN GROUP (ORDER BY id) AS mid FROM %s s GROUP BY 1 HAVING count(*) > 1',
	'w.b < date_bin(''25 minutes'', $1, ''2024-01-02'')'),
('day', 'SELECT at::date AS d, k, max(id) AS m FROM %s s WHERE v IS NOT NULL GROUP BY d, k', 'w.d < $1::date'),
('zone', 'SELECT date_trunc(''day'', at, ''Asia/Tokyo'') AS d, count(*) FILTER (WHERE k > ''a'') AS n FROM %s s GROUP BY d', 'w.d < date_trunc(''day'', $1, ''Asia/Tokyo'')'),
('distinct', 'SELECT DISTINCT date_trunc(''hour'', at) AS h, upper(k) AS k FROM %s s', 'w.h < date_trunc(''hour'', $1)'),
('unnest', 'SELECT unnest(tags) AS tag, date_trunc(''hour'', at) AS h, sum(id) AS ids FROM %s s GROUP BY 2, 1', 'w.h < date_trunc(''hour'', $1)'),
('above', 'SELECT h, k || n AS kn, g FROM (SELECT date_trunc(''hour'', at) AS h, k, count(*) AS n FROM (SELECT * FROM %s y WHERE id %% 7 <> 0) s GROUP BY 1, 2) x, generate_series(1, 2) g WHERE n > 1', 'w.h < date_trunc(''hour'', $1)'),
('two times', 'SELECT date_trunc(''day'', at) AS d, date_trunc(''hour'', at) AS h, resumed(id) AS r FROM %s s GROUP BY 1, 2', 'w.d < date_trunc(''day'', $1)'),
('rows to each group', 'SELECT date_trunc(''hour'', at) AS h, generate_series(1, count(*)) AS i, min(id) AS m FROM %s s GROUP BY 1', 'w.h < date_trunc(''hour'', $1)');
-- limited batches would cut the partitions, where rows lie in another order, in other places
INSERT INTO todo SELECT name || ', limited', query, final, 4, '{plain,indexed,brin}' FROM todo WHERE name IN ('hour', 'bin', 'raw');
SELECT streamq.create_query(name || ' of ' || source, format(query, source), late_sink => quote_ident(name || ' late ' || source),
	max_rows_per_batch => max_rows)
FROM todo, unnest(sources) source WHERE name = 'hour' ORDER BY source;
SELECT count(streamq.create_query(name || ' of ' || source, format(query, source), late_sink => quote_ident(name || ' late ' || source),
	max_rows_per_batch => max_rows))
FROM todo, unnest(sources) source WHERE name <> 'hour';
SELECT split_part(name, ' of ', 2) AS source, strategy, strategy_reason, count(*) FROM streamq.queries GROUP BY 1, 2, 3 ORDER BY 1;

-- rows come in some order, some of them late
CREATE PROCEDURE add(seed int, rows int) LANGUAGE plpgsql AS $$
BEGIN
	INSERT INTO plain
	SELECT seed * 100 + g, nullif(substr('abcd', 1 + x % 4, 1), 'd'), ARRAY[x % 2, x % 3], ('{1,2.50,3.0}'::numeric[])[1 + x % 4],
		   CASE WHEN x % 41 = 0 THEN NULL WHEN x % 37 = 0 THEN '-infinity' WHEN x % 39 = 0 THEN 'infinity'
		   ELSE timestamptz '2024-01-01 00:05' + (seed * 3 + g / 4) * interval '20 minutes' - (x % 5) * (x % 7) * interval '10 minutes' END
	FROM (SELECT g, (g * 7919 + seed * 104729) % 101 AS x FROM generate_series(1, rows) g) y;
	INSERT INTO indexed SELECT * FROM plain WHERE id BETWEEN seed * 100 AND seed * 100 + 99;
	INSERT INTO brin SELECT * FROM plain WHERE id BETWEEN seed * 100 AND seed * 100 + 99;
	INSERT INTO parts (id, k, tags, v, at) SELECT * FROM plain WHERE id BETWEEN seed * 100 AND seed * 100 + 99 ORDER BY id;
END $$;
-- of each query: rows of its four sinks, and how many of them are not the same
CREATE FUNCTION compare() RETURNS TABLE (query text, rows bigint, differ bigint, late bigint, late_differ bigint, from_plain bigint)
LANGUAGE plpgsql AS $$
DECLARE
	todo record;
	other text;
	n bigint;
BEGIN
	FOR todo IN SELECT * FROM mode_append.todo ORDER BY name LOOP
		query := todo.name;
		EXECUTE format('SELECT count(*) FROM %I', todo.name || ' of plain') INTO rows;
		EXECUTE format('SELECT count(*) FROM %I', todo.name || ' late plain') INTO late;
		differ := 0;
		late_differ := 0;
		FOREACH other IN ARRAY todo.sources[2:] LOOP
			EXECUTE format('SELECT count(*) FROM ((TABLE %1$I EXCEPT ALL TABLE %2$I) UNION ALL (TABLE %2$I EXCEPT ALL TABLE %1$I)) x',
				todo.name || ' of plain', todo.name || ' of ' || other) INTO n;
			differ := differ + n;
			EXECUTE format('SELECT count(*) FROM ((SELECT id, at FROM %1$I EXCEPT ALL SELECT id, at FROM %2$I) UNION ALL (SELECT id, at FROM %2$I EXCEPT ALL SELECT id, at FROM %1$I)) x',
				todo.name || ' late plain', todo.name || ' late ' || other) INTO n;
			late_differ := late_differ + n;
		END LOOP;
		-- the plain SELECT over the rows that were not late, as far as it is final
		EXECUTE format('WITH want AS (SELECT * FROM (%1$s) w WHERE %2$s)
			SELECT count(*) FROM ((TABLE want EXCEPT ALL TABLE %3$I) UNION ALL (TABLE %3$I EXCEPT ALL TABLE want)) x',
			format(todo.query, format('(SELECT * FROM plain EXCEPT ALL TABLE %I)', todo.name || ' late plain')), todo.final, todo.name || ' of plain')
		INTO from_plain USING (SELECT s.watermark FROM streamq.status s WHERE s.name = todo.name || ' of plain');
		RETURN NEXT;
	END LOOP;
END $$;
-- what the four have done in each batch
CREATE VIEW batches AS
	SELECT name, array_agg(ROW(batch_id, input_rows, late_rows, output_rows, trimmed_rows, watermark, batch_watermark)::text ORDER BY batch_id) AS figures FROM streamq.progress GROUP BY name;

CALL add(1, 10);
CALL test.run_all();
SELECT * FROM compare();
CALL add(2, 25);
CALL test.run_all();
SELECT * FROM compare();
CALL add(3, 40);
CALL add(9, 33);
CALL test.run_all();
SELECT * FROM compare();
INSERT INTO plain (id, at) VALUES (1, '2024-03-01'), (2, '2024-01-01 00:05'), (3, 'infinity'), (4, NULL);
INSERT INTO indexed TABLE plain OFFSET (SELECT count(*) FROM indexed);
INSERT INTO brin TABLE plain OFFSET (SELECT count(*) FROM brin);
INSERT INTO parts (id, k, tags, v, at) TABLE plain OFFSET (SELECT count(*) FROM parts);
CALL test.run_all();
SELECT * FROM compare();
SELECT split_part(name, ' of ', 1) AS query, count(DISTINCT figures) AS different, min(cardinality(figures)) AS batches FROM batches GROUP BY 1 ORDER BY 1;
SELECT q.name, v.* FROM streamq.queries q, streamq.verify(q.name) v;
-- groups in progress: what the state holds, and what live() finds in the source
SELECT * FROM streamq.state('hour of plain') AS s (h timestamptz, k text, n bigint, total numeric, mean numeric) ORDER BY h, k;
SELECT * FROM streamq.live('hour of indexed') AS l (h timestamptz, k text, n bigint, total numeric, mean numeric)
EXCEPT ALL TABLE "hour of indexed" ORDER BY h, k;
SET client_min_messages = warning;
SELECT count(streamq.drop_query(name, true)) FROM streamq.queries;
RESET client_min_messages;

--
-- what is chosen, and why
--
CREATE TABLE d (k text PRIMARY KEY, name text);
CREATE TABLE odd (k text, at timestamptz);
CREATE INDEX ON odd (k, at);
CREATE INDEX ON odd (at) WHERE k > 'a';
CREATE INDEX ON odd ((date(at AT TIME ZONE 'UTC')));
CREATE INDEX ON odd USING hash (at);
CREATE TABLE partly (k text, at timestamptz) PARTITION BY LIST (k);
CREATE TABLE partly_a PARTITION OF partly FOR VALUES IN ('a');
CREATE TABLE partly_1 PARTITION OF partly DEFAULT;
CREATE INDEX partly_at ON ONLY partly (at);
CREATE INDEX ON partly_a (at);
CREATE TABLE unlabelled (k text, at timestamptz);
CREATE INDEX ON unlabelled (at);
SELECT streamq.add_source(s, 'at', '1 hour') FROM unnest('{odd,partly,unlabelled}'::regclass[]) s;
CREATE FUNCTION mine(text) RETURNS text LANGUAGE sql STABLE AS 'SELECT $1';
CREATE VIEW behind AS SELECT at, k FROM indexed WHERE k <> 'z';
CREATE TABLE chosen (n int GENERATED ALWAYS AS IDENTITY, query text);
INSERT INTO chosen (query) VALUES
('SELECT at, count(*) FROM indexed GROUP BY at'),
('SELECT date_trunc(''hour'', at) AS h, k, max(v) FROM behind JOIN (SELECT 2.5 AS v) x ON true GROUP BY 1, 2'),
('SELECT at::date AS d, count(*) FROM partly GROUP BY 1'),
('SELECT at, count(*) FROM odd GROUP BY at'),
('SELECT date_trunc(''month'', at, ''UTC'') AS m, count(*) FROM indexed GROUP BY 1'),
-- midnight may come twice, and the day begin after some of its moments
('SELECT date_trunc(''day'', at, ''America/Havana'') AS d, count(*) FROM indexed GROUP BY 1'),
('SELECT at + interval ''1 hour'' AS t, count(*) FROM indexed GROUP BY 1'),
('SELECT at AT TIME ZONE ''UTC'' AS t, count(*) FROM indexed GROUP BY 1'),
('SELECT at, name, count(*) FROM indexed LEFT JOIN d USING (k) GROUP BY 1, 2'),
('SELECT at, count(*) FROM indexed GROUP BY at HAVING count(*) > (SELECT count(*) FROM d)'),
('SELECT at, count(*) FROM (SELECT at FROM indexed UNION ALL SELECT at FROM indexed) x GROUP BY at'),
('SELECT at, count(*) FROM (SELECT at FROM indexed UNION ALL SELECT at FROM unlabelled) x GROUP BY at'),
('WITH x AS (SELECT at FROM indexed) SELECT at, count(*) FROM x GROUP BY at'),
('WITH x AS MATERIALIZED (SELECT at FROM indexed) SELECT at, count(*) FROM x GROUP BY at'),
('SELECT at, tableoid AS part, count(*) FROM parts GROUP BY 1, 2'),
('SELECT at, count(i) FROM indexed i GROUP BY 1'),
('SELECT at, count(*) FROM indexed WHERE at < now() GROUP BY 1'),
('SELECT at, count(*), current_date AS today FROM indexed GROUP BY 1'),
('SELECT at, count(*) FROM indexed WHERE random() >= 0 GROUP BY 1'),
('SELECT at, mine(k) AS k, count(*) FROM indexed GROUP BY 1, 2'),
('SELECT at, to_char(at, ''Day'') AS day, count(*) FROM indexed GROUP BY 1'),
('SELECT at, upper(k) AS k, percentile_cont(0.5) WITHIN GROUP (ORDER BY id) AS p FROM indexed GROUP BY 1, 2');
CREATE FUNCTION choice(query text, mode text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	answer text;
BEGIN
	PERFORM streamq.create_query('choice', query, mode);
	SELECT concat_ws(': ', strategy, strategy_reason) INTO answer FROM streamq.queries WHERE name = 'choice';
	PERFORM streamq.drop_query('choice', true);
	RETURN answer;
END $$;
\pset format unaligned
\pset tuples_only on
SELECT query, choice(query, 'append') FROM chosen ORDER BY n;
SELECT choice(query, 'update') FROM chosen WHERE n = 1;
SELECT choice(query, 'complete') FROM chosen WHERE n = 1;
-- explain() tells it first
SELECT streamq.create_query('explained', query) FROM chosen WHERE n = 1;
SELECT streamq.explain('explained') LIMIT 3;
SELECT streamq.drop_query('explained', true);
\pset format aligned
\pset tuples_only off

--
-- rows that are deleted before their group is final are missed, and that is said
--
TRUNCATE indexed;
SELECT streamq.create_query('hours', 'SELECT date_trunc(''hour'', at) AS h, count(*) AS n FROM indexed GROUP BY 1');
INSERT INTO indexed (id, at) VALUES (1, '2024-01-01 10:10'), (2, '2024-01-01 10:20'), (3, '2024-01-01 11:30'), (4, '2024-01-01 11:40');
CALL streamq.run('hours');
DELETE FROM indexed WHERE id IN (2, 4);
INSERT INTO indexed (id, at) VALUES (5, '2024-01-01 12:10');
CALL streamq.run('hours');
SELECT * FROM hours ORDER BY h;
INSERT INTO indexed (id, at) VALUES (6, '2024-01-01 14:10');
-- deleted after it was final: nobody misses it
DELETE FROM indexed WHERE id = 1;
CALL streamq.run('hours');
SELECT * FROM hours ORDER BY h;
SELECT batch_id, input_rows, output_rows, trimmed_rows, watermark FROM streamq.progress ORDER BY batch_id;
SELECT total_trimmed_rows FROM streamq.status;
SELECT * FROM streamq.verify('hours') ORDER BY row_data;
-- a query that keeps its groups misses nothing
TRUNCATE plain;
SELECT streamq.create_query('kept hours', 'SELECT date_trunc(''hour'', at) AS h, count(*) AS n FROM plain GROUP BY 1');
INSERT INTO plain (id, at) VALUES (1, '2024-01-01 10:10'), (2, '2024-01-01 10:20');
CALL streamq.run('kept hours');
TRUNCATE plain;
INSERT INTO plain (id, at) VALUES (3, '2024-01-01 14:10');
CALL streamq.run('kept hours');
TABLE "kept hours";

--
-- without the index it goes on, and starts late: rows from before are not taken in
--
DROP INDEX indexed_at;
INSERT INTO indexed (id, at) VALUES (7, '2024-01-01 14:20'), (8, '2024-01-01 16:20');
CALL streamq.run('hours');
SELECT * FROM hours ORDER BY h;
SELECT streamq.reset('hours', 'latest');
INSERT INTO indexed (id, at) VALUES (9, '2024-01-01 16:30'), (10, '2024-01-01 18:30');
CALL streamq.run('hours');
SELECT * FROM hours ORDER BY h;
-- nothing is done without rows, unless a watermark has moved
CALL streamq.run('hours');

SET client_min_messages = warning;
SELECT count(streamq.drop_query(name)) FROM streamq.queries;
DROP SCHEMA mode_append CASCADE;
