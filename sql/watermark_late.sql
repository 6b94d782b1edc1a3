--
-- Which group is final, and which row late: event times and keys of all forms, times that are
-- missing or infinite, several sources, and the table that receives late rows
--
CREATE SCHEMA watermark_late;
SET search_path = watermark_late;
SET TimeZone = 'UTC';
SET DateStyle = 'ISO';
\pset null '(null)'
CREATE VIEW marks AS
	SELECT name, batch_id, input_rows, late_rows, output_rows, state_rows, batch_watermark, watermark FROM streamq.progress;

--
-- the rules, step by step: date_trunc, with a delay
--
CREATE TABLE e (id int, at timestamptz, k text);
SELECT streamq.add_source('e', 'at', '10 minutes');
SELECT streamq.create_query('append', $$SELECT date_trunc('hour', at) AS h, count(*) AS n FROM e GROUP BY 1$$, late_sink => 'too_late');
SELECT streamq.create_query('update', $$SELECT date_trunc('hour', at) AS h, count(*) AS n FROM e GROUP BY 1$$, 'update');
\d too_late
-- no finite time: no watermark, nothing is late
INSERT INTO e VALUES (1, NULL), (2, 'infinity'), (3, '-infinity');
CALL test.run_all();
SELECT * FROM streamq.state('append') AS s (h timestamptz, n bigint) ORDER BY h;
-- the first watermark: -infinity is final, a group is final when its end is reached
INSERT INTO e VALUES (4, '2024-01-01 10:15'), (5, '2024-01-01 12:09:59.999999'), (6, '2024-01-01 01:00');
CALL test.run_all();
SELECT * FROM append ORDER BY h;
INSERT INTO e VALUES (7, '2024-01-01 12:10');
CALL test.run_all();
SELECT * FROM append ORDER BY h;
SELECT * FROM streamq.state('append') AS s (h timestamptz, n bigint) ORDER BY h;
-- rows of a final group are late; rows that are only old, of an open group, are not
INSERT INTO e VALUES (8, '2024-01-01 11:59:59.999999'), (9, '2024-01-01 12:00'), (10, '-infinity'), (11, NULL), (12, 'infinity'), (13, '2024-01-01 10:59');
CALL test.run_all();
SELECT * FROM too_late ORDER BY id;
-- late is said with the watermark before the batch, whatever the batch brings
INSERT INTO e VALUES (14, '2024-01-01 14:30'), (15, '2024-01-01 12:30');
CALL test.run_all();
INSERT INTO e VALUES (16, '2024-01-01 12:30');
CALL test.run_all();
SELECT * FROM append ORDER BY h;
SELECT * FROM update ORDER BY h;
SELECT * FROM too_late ORDER BY id;
SELECT * FROM marks ORDER BY name, batch_id;
SELECT name, watermark, total_late_rows, state_rows FROM streamq.status ORDER BY name;
-- the plain SELECT without them
SELECT * FROM streamq.verify('append');
SELECT row_data, explained_by_late_rows, difference FROM streamq.verify('update') ORDER BY row_data;
-- rows that WHERE leaves out are not late for the query, but move its watermark
SELECT streamq.create_query('where', $$SELECT date_trunc('hour', at) AS h, count(*) AS n FROM e WHERE k = 'x' GROUP BY 1$$, starting_position => 'latest');
INSERT INTO e VALUES (20, '2024-01-02 10:00', 'y'), (21, '2024-01-02 08:00', 'x');
CALL test.run('where');
INSERT INTO e VALUES (22, '2024-01-02 07:00', 'y'), (23, '2024-01-02 08:30', 'x'), (24, '2024-01-02 09:55', 'x');
CALL test.run('where');
SELECT late_rows, watermark FROM marks WHERE name = 'where' ORDER BY batch_id;
SET client_min_messages = warning;
SELECT count(streamq.drop_query(name, true)) FROM streamq.queries;
RESET client_min_messages;

--
-- columns and keys of all forms: what is final and what late, one row at a time
--
CREATE TABLE kinds (id int GENERATED ALWAYS AS IDENTITY, tz timestamptz, ts timestamp, d date);
CREATE PROCEDURE follow(event_time name, delay interval, key text, VARIADIC times text[]) LANGUAGE plpgsql AS $$
DECLARE
	step text;
BEGIN
	PERFORM streamq.add_source('kinds', event_time, delay);
	PERFORM streamq.create_query('kind', format('SELECT %s AS key, count(*) AS n FROM kinds GROUP BY 1', key), late_sink => 'kind_late');
	TRUNCATE steps, kinds;
	FOREACH step IN ARRAY times LOOP
		EXECUTE format('INSERT INTO kinds (%I) VALUES ($1::%s)', event_time, pg_typeof(NULL::timestamptz)) USING step::timestamptz;
		COMMIT;
		CALL test.run('kind');
		EXECUTE 'INSERT INTO steps SELECT $1, watermark, total_late_rows, total_output_rows, ARRAY(SELECT key::text || ''='' || n FROM kind ORDER BY key) FROM streamq.status' USING step;
	END LOOP;
	PERFORM streamq.drop_query('kind', true), streamq.drop_source('kinds');
	DROP TABLE kind_late;
END $$;
CREATE TABLE steps (at text, watermark timestamptz, late bigint, final bigint, groups text[], n int GENERATED ALWAYS AS IDENTITY);
CREATE VIEW followed AS SELECT at, watermark, late, final, groups FROM steps ORDER BY n;
-- the time itself: a group of one moment is final when the watermark is there
CALL follow('tz', '1 minute', 'tz', '2024-01-01 10:00', '2024-01-01 10:00:59.999999', '2024-01-01 10:01', '2024-01-01 10:00', '2024-01-01 10:00:00.000001');
TABLE followed;
CALL follow('ts', '0', 'ts', '2024-01-01 10:00', '2024-01-01 10:00', '2024-01-01 10:00:00.000001', '2024-01-01 09:00');
TABLE followed;
CALL follow('d', '1 day', 'd', '2024-01-01', '2024-01-02', '2024-01-01', '2024-01-02', '2024-01-03', 'infinity', '-infinity');
TABLE followed;
CALL follow('d', '36 hours', 'd', '2024-01-01', '2024-01-02', '2024-01-01', '2024-01-03', '2024-01-01');
TABLE followed;
-- bins, and the moment at which they end
CALL follow('tz', '0', 'date_bin(''15 minutes'', tz, ''2024-01-01 00:05'')', '2024-01-01 10:04', '2024-01-01 10:05', '2024-01-01 10:04:59', '2024-01-01 10:19:59.999999', '2024-01-01 10:20');
TABLE followed;
CALL follow('ts', '1 minute', 'date_bin(''1 day'', ts, ''2000-01-01 12:00'')', '1969-12-31 11:59', '1969-12-31 12:00', '1969-12-31 12:01', '1969-12-31 11:00', '2024-01-01 12:00');
TABLE followed;
-- local days and months: of the zone in force when the query was created, or of one that is named
SET TimeZone = 'Asia/Tokyo';
CALL follow('tz', '0', 'date_trunc(''day'', tz)', '2024-01-01 23:59', '2024-01-02 00:00', '2024-01-01 23:00');
TABLE followed;
CALL follow('tz', '0', 'tz::date', '2024-01-01 23:59', '2024-01-02 00:00', '2024-01-01 23:00');
TABLE followed;
SET TimeZone = 'UTC';
CALL follow('tz', '0', 'date_trunc(''month'', tz, ''America/New_York'')', '2024-03-01 04:59', '2024-03-01 05:00', '2024-03-10 12:00', '2024-03-01 04:00', '2024-04-01 03:59', '2024-04-01 04:00');
TABLE followed;
-- an hour that comes twice
CALL follow('tz', '0', 'date_trunc(''hour'', tz, ''Europe/Berlin'')', '2024-10-27 00:30', '2024-10-27 01:30', '2024-10-27 00:40', '2024-10-27 02:00');
TABLE followed;
-- a midnight that comes twice: the first hour of the day is before the day's own first moment
CALL follow('tz', '0', 'date_trunc(''day'', tz, ''America/Havana'')', '2023-11-05 03:50', '2023-11-05 04:10', '2023-11-05 05:50', '2023-11-05 04:20', '2023-11-06 05:00');
TABLE followed;
CALL follow('ts', '10 minutes', 'ts::date', '2024-01-01 10:00', '2024-01-02 00:09:59', '2024-01-02 00:10', '2024-01-01 23:00');
TABLE followed;
-- a fixed interval later: the end of a window
CALL follow('tz', '0', 'date_bin(''5 minutes'', tz, ''2000-01-01'') + interval ''5 minutes''', '2024-01-01 10:00', '2024-01-01 10:04:59', '2024-01-01 10:05', '2024-01-01 10:01');
TABLE followed;
CALL follow('ts', '0', 'date_trunc(''day'', ts) - interval ''1 day''', '2024-01-01 10:00', '2024-01-02 00:00', '2024-01-01 10:00');
TABLE followed;
CALL follow('d', '0', 'd + 7', '2024-01-01', '2024-01-02', '2024-01-01');
TABLE followed;
CALL follow('tz', '0', 'date_trunc(''hour'', tz AT TIME ZONE ''UTC'')', '2024-01-01 10:00', '2024-01-01 11:00', '2024-01-01 10:30');
TABLE followed;
-- a delay of months, and one that leads before all time
CALL follow('tz', '1 month', 'tz', '2024-03-31', '2024-02-29', '2024-03-01');
TABLE followed;
CALL follow('tz', '1 day', 'date_trunc(''day'', tz)', '4714-11-24 BC', '4714-11-25 BC', '4714-11-26 BC', '-infinity');
TABLE followed;

--
-- several sources: the least watermark counts, and there is none until each has had a row
--
CREATE TABLE a (id int, at timestamptz);
CREATE TABLE b (at timestamptz, gone int, id int);
ALTER TABLE b DROP COLUMN gone;
CREATE TABLE c (id int, at timestamptz);
SELECT streamq.add_source('a', 'at', '1 minute'), streamq.add_source('b', 'at', '1 hour');
SELECT streamq.add_source('c', 'at', '0');
SELECT streamq.create_query('ab', $$SELECT date_trunc('hour', at) AS h, count(*) AS n, array_agg(id ORDER BY id) AS ids
	FROM (SELECT id, at FROM a UNION ALL SELECT id, at FROM b) x GROUP BY 1$$);
SELECT streamq.create_query('static', $$SELECT date_trunc('hour', a.at) AS h, count(b.id) AS n FROM a LEFT JOIN b USING (id) GROUP BY 1$$, sources => '{a}');
INSERT INTO a VALUES (1, '2024-01-01 10:00'), (2, '2024-01-01 12:00');
CALL test.run_all();
INSERT INTO b (id, at) VALUES (3, '2024-01-01 11:30'), (1, '2024-01-01 09:00');
CALL test.run_all();
SELECT * FROM ab ORDER BY h;
INSERT INTO a VALUES (4, '2024-01-01 09:30'), (5, '2024-01-01 15:00');
INSERT INTO b (id, at) VALUES (6, '2024-01-01 13:00');
CALL test.run_all();
SELECT * FROM ab ORDER BY h;
SELECT * FROM static ORDER BY h;
INSERT INTO b (id, at) VALUES (7, '2024-01-01 10:00');
CALL test.run_all();
SELECT * FROM marks ORDER BY name, batch_id;
SELECT difference, row_data, explained_by_late_rows FROM streamq.verify('ab') ORDER BY 2, 1;
SET client_min_messages = warning;
SELECT count(streamq.drop_query(name, true)) FROM streamq.queries;
RESET client_min_messages;

--
-- late_sink: the source's rows, each once, whatever the query makes of them
--
CREATE TABLE src ("Id" int GENERATED ALWAYS AS IDENTITY, gone int, at timestamptz, tags text[], twice int GENERATED ALWAYS AS (cardinality(tags) * 2) STORED) PARTITION BY RANGE (at);
ALTER TABLE src DROP COLUMN gone;
CREATE TABLE src_old PARTITION OF src FOR VALUES FROM (MINVALUE) TO ('2024-01-01 12:00');
CREATE TABLE src_new (tags text[], at timestamptz, twice int GENERATED ALWAYS AS (cardinality(tags) * 2) STORED, "Id" int NOT NULL);
ALTER TABLE src ATTACH PARTITION src_new DEFAULT;
CREATE TABLE d (tag text, x int);
INSERT INTO d VALUES ('a', 1), ('a', 2), ('b', 3);
SELECT streamq.add_source('src', 'at', '0');
CREATE TABLE late_there (extra text DEFAULT 'late', tags text[], "Id" bigint, at timestamptz, twice int);
SELECT streamq.create_query('joined', 'SELECT s.at, tag, count(*) AS n, sum(x) AS x FROM (SELECT at, unnest(tags) AS tag FROM src) s LEFT JOIN d USING (tag) GROUP BY s.at, tag', late_sink => 'late_joined');
SELECT streamq.create_query('there', 'WITH s AS (SELECT * FROM src WHERE "Id" <> 6) SELECT at, unnest(tags) AS tag, count(*) AS n FROM s GROUP BY 1, 2', 'update', late_sink => 'late_there');
INSERT INTO src (at, tags) VALUES ('2024-01-01 10:00', '{a,b}'), ('2024-01-01 13:00', '{b}');
CALL test.run_all();
INSERT INTO src (at, tags) VALUES ('2024-01-01 10:00', '{a,b,a}'), ('2024-01-01 13:00', '{a,b,a}'), ('2024-01-01 13:00', '{a,b,a}'), ('2024-01-01 12:30', '{c}'), ('2024-01-01 14:00', '{a}'), ('2024-01-01 12:31', '{}');
CALL test.run_all();
SELECT "Id", at, tags FROM late_joined ORDER BY 1;
SELECT * FROM late_there ORDER BY "Id";
SELECT name, total_input_rows, total_late_rows FROM streamq.status ORDER BY name;
SELECT q.name, v.* FROM streamq.queries q, streamq.verify(q.name) v;
-- they are written in the batch's transaction
ALTER TABLE there ADD CHECK (n < 10);
INSERT INTO src (at, tags) SELECT '2024-01-01 15:00', '{a}' FROM generate_series(1, 10);
INSERT INTO src (at, tags) VALUES ('2024-01-01 12:00', '{z}'), ('2024-01-01 16:00', '{z}');
CALL streamq.run('there');
SELECT count(*) FROM late_there;
ALTER TABLE there DROP CONSTRAINT there_n_check;
CALL streamq.run('there');
SELECT * FROM late_there ORDER BY "Id";
SELECT * FROM streamq.verify('there');
-- dropping the table takes CASCADE, and the query along
DROP TABLE late_there;
DROP TABLE late_there CASCADE;
SELECT name FROM streamq.queries;
-- what cannot be
\pset format unaligned
\pset tuples_only on
CREATE FUNCTION refusal(query text, late_sink text, mode text DEFAULT 'append') RETURNS text LANGUAGE sql AS $$
	SELECT test.refusal(format('SELECT streamq.create_query(%L, %L, %L, late_sink => %L)', 'refused', query, mode, late_sink))
$$;
CREATE TABLE other_columns (id int);
CREATE TABLE other_types ("Id" int, at date[], tags text[]);
CREATE TABLE always ("Id" int GENERATED ALWAYS AS IDENTITY, at timestamptz, tags text[]);
CREATE VIEW late_view AS SELECT count(*) AS n FROM d;
CREATE TEMP TABLE late_temp (LIKE late_joined);
SELECT refusal('SELECT at, "Id" FROM src', 'x');
SELECT refusal('SELECT "Id", count(*) FROM src GROUP BY 1', 'x', 'update');
SELECT refusal('SELECT at, count(*) FROM src GROUP BY 1', 'x', 'complete');
SELECT refusal('SELECT at, count(*) FROM (SELECT at FROM a UNION ALL SELECT at FROM c) x GROUP BY 1', 'x');
SELECT refusal('SELECT at, count(*) FROM (SELECT at FROM src UNION ALL SELECT at FROM src) x GROUP BY 1', 'x');
SELECT refusal('WITH x AS (SELECT at FROM src) SELECT at, count(*) FROM (TABLE x UNION ALL TABLE x) y GROUP BY 1', 'x');
SELECT refusal('WITH x AS MATERIALIZED (SELECT at FROM src) SELECT at, count(*) FROM x GROUP BY 1', 'x');
SELECT refusal('SELECT at, count(*) FROM src GROUP BY 1', s)
FROM unnest('{src,src_new,refused,other_columns,other_types,always,late_view,late_temp,streamq.commits,pg_class,a.b.c.d,"",no_such_schema.x}'::text[]) s;
\pset format aligned
\pset tuples_only off

SET client_min_messages = warning;
SELECT count(streamq.drop_query(name)) FROM streamq.queries;
DROP SCHEMA watermark_late CASCADE;
