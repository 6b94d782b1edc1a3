--
-- DROP EXTENSION and what it leaves (comes last: the other tests need the extension)
--
CREATE SCHEMA api_extension;
SET search_path = api_extension;
CREATE TABLE src (id int);
CREATE TABLE parts (id int) PARTITION BY LIST (id);
CREATE TABLE parts_1 PARTITION OF parts DEFAULT;
SELECT streamq.add_source('src');
SELECT streamq.add_source('parts');
INSERT INTO src VALUES (1), (2);
SELECT streamq.create_query('q', 'SELECT id FROM src');
CALL streamq.run('q');
CREATE TABLE events (k int, at timestamptz);
SELECT streamq.add_source('events', 'at', '0');
SELECT streamq.create_query('counts', 'SELECT at, k, count(*) AS n, count(DISTINCT k) AS d, array_agg(k) AS ks FROM events GROUP BY at, k', 'update', live_view => 'counts_live', late_sink => 'counts_late');
INSERT INTO events VALUES (1, '2024-01-01');
CALL streamq.run('counts');

-- not by accident
DROP FUNCTION streamq.add_source(regclass, name, interval);
DROP TABLE streamq.offsets;
DROP SCHEMA streamq CASCADE;
DROP SCHEMA streamq_state CASCADE;
DROP EVENT TRIGGER streamq_sql_drop;
ALTER EXTENSION streamq SET SCHEMA public;
CREATE EXTENSION streamq;
DO $$
BEGIN
	DROP EXTENSION streamq;
EXCEPTION WHEN dependent_objects_still_exist THEN
	RAISE NOTICE '%', SQLERRM;
END $$;
SELECT count(*) FROM streamq.queries;
SELECT count(*) FROM q;

-- with all that hangs on it; tables and sinks stay, and are ordinary tables again
SET client_min_messages = warning;
DROP EXTENSION streamq CASCADE;
RESET client_min_messages;
SELECT nspname FROM pg_namespace WHERE nspname LIKE 'streamq%';
SELECT evtname FROM pg_event_trigger WHERE evtname LIKE 'streamq%';
SELECT count(*) FROM pg_trigger WHERE tgrelid IN ('src'::regclass, 'parts'::regclass, 'parts_1'::regclass);
SELECT relname FROM pg_class WHERE relnamespace = 'api_extension'::regnamespace AND relkind IN ('r', 'v', 'p') ORDER BY 1;
SELECT k, n, d, ks FROM counts;
SELECT * FROM q ORDER BY id;
UPDATE src SET id = id + 10;
ALTER TABLE src ALTER COLUMN id TYPE bigint;
INSERT INTO parts VALUES (1);
UPDATE parts SET id = 2;
DROP TABLE parts;

-- and back, from nothing
CREATE EXTENSION streamq;
SELECT count(*) FROM streamq.sources;
SELECT count(*) FROM streamq.queries;
SELECT streamq.add_source('src');
SELECT streamq.create_query('q', 'SELECT id FROM src');
CALL streamq.run('q');
SELECT * FROM q ORDER BY id;
UPDATE src SET id = 0;
-- schemas that are somebody else's are not taken over
SET client_min_messages = warning;
DROP EXTENSION streamq CASCADE;
CREATE SCHEMA streamq;
CREATE EXTENSION streamq;
DROP SCHEMA streamq;
CREATE SCHEMA streamq_query;
CREATE EXTENSION streamq;
DROP SCHEMA streamq_query;
CREATE SCHEMA streamq_state;
CREATE EXTENSION streamq;
DROP SCHEMA streamq_state;
CREATE EXTENSION streamq;
DROP SCHEMA api_extension CASCADE;
