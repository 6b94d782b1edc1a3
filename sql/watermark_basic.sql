--
-- Event time and watermark of stateless queries: reported, never moved back
--
CREATE SCHEMA watermark_basic;
SET search_path = watermark_basic;
SET TimeZone = 'UTC';
SET DateStyle = 'ISO';
\pset null '(null)'
CREATE VIEW marks AS
	SELECT name, batch_id, input_rows, late_rows, max_event_time, watermark FROM streamq.progress;

--
-- timestamptz
--
CREATE TABLE e (id int, at timestamptz, kind text);
SELECT streamq.add_source('e', 'at', '10 minutes');
SELECT streamq.create_query('q', 'SELECT id FROM e WHERE kind = ''wanted''');
-- no rows yet: no watermark
CALL streamq.run('q');
SELECT watermark FROM streamq.status;
-- only rows without a finite time: still none
INSERT INTO e VALUES (1, NULL, 'wanted');
CALL streamq.run('q');
INSERT INTO e VALUES (2, 'infinity', 'wanted'), (3, '-infinity', 'wanted');
CALL streamq.run('q');
INSERT INTO e VALUES (4, '2024-01-01 12:00:00.123456', 'wanted'), (5, '2024-01-01 11:00', 'wanted');
CALL streamq.run('q');
-- rows that WHERE leaves out advance it too
INSERT INTO e VALUES (6, '2024-01-01 13:00', 'unwanted');
CALL streamq.run('q');
-- earlier rows don't move it back, and none of them is lost: there is no state here
INSERT INTO e VALUES (7, '2024-01-01 01:00', 'wanted'), (8, '1969-12-31 23:59', 'wanted');
CALL streamq.run('q');
-- infinity beside a finite time
INSERT INTO e VALUES (9, '2024-01-01 14:00', 'wanted'), (10, 'infinity', 'wanted'), (11, NULL, 'wanted');
CALL streamq.run('q');
-- rows deleted before they were read do not count
BEGIN;
INSERT INTO e VALUES (12, '2030-01-01', 'wanted');
ROLLBACK;
INSERT INTO e VALUES (13, '2031-01-01', 'wanted');
DELETE FROM e WHERE id = 13;
INSERT INTO e VALUES (14, '2024-01-01 14:00', 'wanted');
CALL streamq.run('q');
SELECT * FROM marks ORDER BY batch_id;
SELECT watermark, total_late_rows FROM streamq.status;
SELECT * FROM test.compare('q');
-- the TimeZone of the reader doesn't matter
SET TimeZone = 'Asia/Tokyo';
INSERT INTO e VALUES (15, '2024-01-02 00:00+00', 'wanted');
CALL streamq.run('q');
SET TimeZone = 'UTC';
SELECT watermark FROM streamq.status;
-- a renamed column, a query that starts late, a fresh checkpoint
ALTER TABLE e RENAME COLUMN at TO happened;
INSERT INTO e VALUES (16, '2024-01-02 01:00', 'wanted');
CALL streamq.run('q');
SELECT watermark FROM streamq.status;
SELECT streamq.reset('q', 'latest');
SELECT watermark FROM streamq.status;
INSERT INTO e VALUES (17, '2024-01-01', 'wanted');
CALL streamq.run('q');
SELECT watermark FROM streamq.status;
SELECT streamq.reset('q');
CALL streamq.run('q');
SELECT watermark FROM streamq.status;
SELECT streamq.drop_query('q', true);

--
-- batches within a run: the watermark follows each of them
--
CREATE TABLE steps (id int, at timestamptz);
SELECT streamq.add_source('steps', 'at', '1 hour');
SELECT streamq.create_query('steps_q', 'SELECT id FROM steps', max_rows_per_batch => 1);
INSERT INTO steps VALUES (1, '2024-01-01 10:00');
INSERT INTO steps VALUES (2, '2024-01-01 12:00');
INSERT INTO steps VALUES (3, '2024-01-01 11:00');
INSERT INTO steps VALUES (4, '2024-01-01 13:00');
CALL streamq.run('steps_q');
SELECT * FROM marks ORDER BY batch_id;
-- an error in the batch leaves the watermark where it was
ALTER TABLE steps_q ADD CHECK (id <> 5);
INSERT INTO steps VALUES (5, '2024-01-01 20:00');
CALL streamq.run('steps_q');
SELECT watermark FROM streamq.status;
ALTER TABLE steps_q DROP CONSTRAINT steps_q_id_check;
CALL streamq.run('steps_q');
SELECT watermark FROM streamq.status;
SELECT streamq.drop_query('steps_q', true);

--
-- timestamp, date; with and without a delay
--
CREATE TABLE kinds (id int, at timestamptz, local timestamp, day date);
CREATE PROCEDURE try(event_time name, delay interval) LANGUAGE plpgsql AS $$
BEGIN
	PERFORM streamq.add_source('kinds', event_time, delay);
	PERFORM streamq.create_query('kind ' || event_time, 'SELECT id FROM kinds', sink => 'kinds_sink', starting_position => 'latest');
END $$;
CREATE TABLE kinds_sink (id int);
CALL try('local', '30 minutes');
INSERT INTO kinds VALUES (1, '2024-03-01 01:00+00', '2024-03-01 01:00', '2024-03-01'),
	(2, 'infinity', 'infinity', 'infinity'), (3, NULL, NULL, NULL);
CALL streamq.run('kind local');
SELECT max_event_time, watermark FROM marks;
SELECT streamq.drop_query('kind local');
SELECT streamq.drop_source('kinds');
CALL try('day', '1 month');
INSERT INTO kinds SELECT 4, at, local, day FROM kinds WHERE id = 1;
CALL streamq.run('kind day');
SELECT max_event_time, watermark FROM marks;
SELECT streamq.drop_query('kind day');
SELECT streamq.drop_source('kinds');
-- without a delay there is an event time and no watermark
CALL try('at', NULL);
INSERT INTO kinds SELECT 6, at, local, day FROM kinds WHERE id = 1;
CALL streamq.run('kind at');
SELECT max_event_time, watermark FROM marks;
SELECT streamq.drop_query('kind at');
SELECT streamq.drop_source('kinds');
-- timestamps without zone are taken at UTC, whatever the zone of the session
SET TimeZone = 'Asia/Tokyo';
CALL try('local', '0');
SET TimeZone = 'UTC';
INSERT INTO kinds SELECT 7, at, local, day FROM kinds WHERE id = 1;
CALL streamq.run('kind local');
SELECT max_event_time, watermark FROM marks;
SELECT streamq.drop_query('kind local');
SELECT streamq.drop_source('kinds');
-- the ends of time
CALL try('at', '1 day');
INSERT INTO kinds (id, at) VALUES (8, '4714-11-24 00:00:00+00 BC');
CALL streamq.run('kind at');
SELECT max_event_time, watermark FROM marks;
INSERT INTO kinds (id, at) VALUES (9, '294276-12-31 23:59:59.999999+00');
CALL streamq.run('kind at');
SELECT max_event_time, watermark FROM marks ORDER BY batch_id;
SELECT streamq.drop_query('kind at');
SELECT streamq.drop_source('kinds');

CALL try('day', '1 day');
INSERT INTO kinds (id, day) VALUES (10, '5874897-12-31'), (11, '4714-11-24 BC');
CALL streamq.run('kind day');
SELECT max_event_time, watermark FROM marks ORDER BY batch_id;
INSERT INTO kinds (id, day) VALUES (12, '2024-01-02');
CALL streamq.run('kind day');
SELECT max_event_time, watermark FROM marks ORDER BY batch_id;
SELECT streamq.drop_query('kind day');
SELECT streamq.drop_source('kinds');

--
-- several sources: the least of them; one that is silent holds it back
--
CREATE TABLE a (id int, at timestamptz);
CREATE TABLE b (id int, at timestamp) PARTITION BY LIST (id);
CREATE TABLE b_1 PARTITION OF b FOR VALUES IN (1);
CREATE TABLE b_2 PARTITION OF b DEFAULT;
CREATE TABLE c (id int);
SELECT streamq.add_source('a', 'at', '1 minute');
SELECT streamq.add_source('b', 'at', '1 hour');
SELECT streamq.add_source('c');
SELECT streamq.create_query('ab', 'SELECT id FROM a UNION ALL SELECT id FROM b');
SELECT streamq.create_query('abc', 'SELECT id FROM a UNION ALL SELECT id FROM b UNION ALL SELECT id FROM c');
SELECT streamq.create_query('aa', 'SELECT id FROM a UNION ALL SELECT id FROM a WHERE id < 0');
INSERT INTO a VALUES (1, '2024-01-01 12:00');
CALL streamq.run('ab');
CALL streamq.run('abc');
CALL streamq.run('aa');
INSERT INTO b VALUES (1, '2024-01-01 10:00'), (2, '2024-01-01 11:00');
CALL streamq.run('ab');
CALL streamq.run('abc');
INSERT INTO b VALUES (1, '2024-01-01 20:00'), (3, '2024-01-01 18:00');
CALL streamq.run('ab');
CALL streamq.run('abc');
INSERT INTO a VALUES (2, '2024-01-01 19:30');
INSERT INTO c VALUES (1);
CALL streamq.run('ab');
CALL streamq.run('abc');
CALL streamq.run('aa');
SELECT * FROM marks ORDER BY name, batch_id;
SELECT name, watermark FROM streamq.status ORDER BY name;
-- what is read as a static table doesn't count
SELECT streamq.create_query('a_only', 'SELECT a.id FROM a LEFT JOIN b USING (id)', sources => '{a}');
CALL streamq.run('a_only');
SELECT watermark FROM streamq.status WHERE name = 'a_only';

SET client_min_messages = warning;
SELECT count(streamq.drop_query(name)) FROM streamq.queries;
DROP SCHEMA watermark_basic CASCADE;
