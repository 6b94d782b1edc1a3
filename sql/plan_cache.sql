--
-- What is kept between batches, plans above all, never outlives what it was made of.
-- All batches run in this session, one after the other.
--
CREATE SCHEMA plan_cache;
SET search_path = plan_cache;
SET client_min_messages = warning;
\pset null '(null)'

CREATE FUNCTION doubled(v int) RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT v * 2';
CREATE FUNCTION called(v int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS 'BEGIN RETURN v + 1; END';
CREATE DOMAIN positive AS int;
CREATE TABLE src (id int, k int, v int);
CREATE TABLE names (k int PRIMARY KEY, name text, more int);
INSERT INTO names SELECT k, 'name ' || k, k FROM generate_series(0, 9) k;
CREATE VIEW inner_names AS SELECT k, name FROM names;
CREATE VIEW static_names AS SELECT k, name FROM inner_names;
CREATE VIEW stream AS SELECT id, k, v FROM src WHERE v >= 0;
SELECT streamq.add_source('src');
SELECT streamq.create_query('s', $$
	SELECT id, k, doubled(v) AS d, called(v) AS c, v::positive AS p, name
	FROM stream JOIN static_names USING (k) $$);
SELECT streamq.create_query('u', 'SELECT k, count(*) AS n, sum(v) AS v, min(name) AS name FROM stream JOIN static_names USING (k) GROUP BY k',
	output_mode => 'update');
SELECT streamq.create_query('c', 'SELECT k % 2 AS odd, count(*) AS n, array_agg(DISTINCT v ORDER BY v) AS v FROM src GROUP BY 1',
	output_mode => 'complete');

-- some rows more
CREATE SEQUENCE ids;
CREATE PROCEDURE feed(n int DEFAULT 1) LANGUAGE sql AS $$
	INSERT INTO plan_cache.src SELECT i, i % 10, i % 7 FROM (SELECT nextval('plan_cache.ids')::int AS i FROM generate_series(1, n)) x
$$;
-- what a session keeps
CREATE VIEW kept AS SELECT count(*) FILTER (WHERE name = 'streamq prepared query') AS queries,
	count(*) FILTER (WHERE name = 'streamq plan') > 0 AS plans FROM pg_backend_memory_contexts;

CALL feed(10);
CALL test.run_all();
SELECT * FROM kept;
CALL feed();
CALL test.run_all();
SELECT * FROM kept;
SELECT * FROM test.compare_all();

-- functions, inlined and called
CREATE OR REPLACE FUNCTION doubled(v int) RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT v * 200';
CALL feed();
CALL test.run_all();
SELECT * FROM s ORDER BY id DESC LIMIT 1;
CREATE OR REPLACE FUNCTION called(v int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS 'BEGIN RETURN v + 1000; END';
CALL feed();
CALL test.run_all();
SELECT * FROM s ORDER BY id DESC LIMIT 1;
-- not strict, no longer inlined, then inlined again
CREATE OR REPLACE FUNCTION doubled(v int) RETURNS int LANGUAGE sql STRICT SECURITY DEFINER AS 'SELECT v * 3';
CALL feed();
CALL test.run_all();
SELECT * FROM s ORDER BY id DESC LIMIT 1;
CREATE OR REPLACE FUNCTION doubled(v int) RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT v * 2';
CREATE OR REPLACE FUNCTION called(v int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS 'BEGIN RETURN v + 1; END';

-- views: of static tables, behind another view, and of the stream
CREATE OR REPLACE VIEW inner_names AS SELECT k, 'the ' || name AS name FROM names;
CALL feed();
CALL test.run_all();
SELECT * FROM s ORDER BY id DESC LIMIT 1;
CREATE OR REPLACE VIEW static_names AS SELECT k, upper(name) AS name FROM inner_names;
CALL feed();
CALL test.run_all();
SELECT * FROM s ORDER BY id DESC LIMIT 1;
CREATE OR REPLACE VIEW stream AS SELECT id, k, -v AS v FROM src WHERE id % 2 = 1;
CALL feed(2);
CALL test.run_all();
SELECT * FROM s ORDER BY id DESC LIMIT 2;
CREATE OR REPLACE VIEW stream AS SELECT id, k, v FROM src WHERE v >= 0;
CREATE OR REPLACE VIEW static_names AS SELECT k, name FROM inner_names;
CREATE OR REPLACE VIEW inner_names AS SELECT k, name FROM names;
-- a view that begins to read the stream is told from one that does not
CREATE OR REPLACE VIEW inner_names AS SELECT k, v::text AS name FROM src;
CALL feed();
CALL streamq.run('s');
CREATE OR REPLACE VIEW inner_names AS SELECT k, name FROM names;
CALL streamq.run('s');
SELECT count(*), count(DISTINCT id) FROM s;

-- a static table in all its forms
ALTER TABLE names ADD COLUMN first int DEFAULT 7;
CALL feed();
CALL test.run_all();
ALTER TABLE names ALTER COLUMN more TYPE bigint;
CALL feed();
CALL test.run_all();
ALTER TABLE names RENAME COLUMN name TO called;
CALL feed();
CALL test.run_all();
ALTER TABLE names RENAME TO names_now;
CALL feed();
CALL test.run_all();
ALTER TABLE names_now DROP CONSTRAINT names_pkey;
CALL feed();
CALL test.run_all();
CREATE UNIQUE INDEX on_k ON names_now (k);
ANALYZE names_now;
CALL feed();
CALL test.run_all();
DROP INDEX on_k;
CALL feed();
CALL test.run_all();
CREATE TABLE names_child () INHERITS (names_now);
INSERT INTO names_child (k, called) VALUES (8, 'another eight');
UPDATE names_now SET called = 'new ' || called;
VACUUM FULL names_now;
SELECT setval('ids', 10 * (currval('ids') / 10) + 7);
CALL feed();
CALL test.run_all();
SELECT * FROM s WHERE k = 8 ORDER BY id DESC, name LIMIT 2;
DROP TABLE names_child;
CALL feed();
CALL test.run_all();
SELECT * FROM s ORDER BY id DESC LIMIT 1;
-- one with row-level security, as seen by its owner who may see all, and then not
CREATE ROLE plan_cache_owner;
GRANT ALL ON SCHEMA plan_cache TO plan_cache_owner;
GRANT ALL ON ALL TABLES IN SCHEMA plan_cache TO plan_cache_owner;
DO $$
DECLARE
	r regclass;
BEGIN
	FOREACH r IN ARRAY ARRAY['names_now', 's', 'src', 'stream', 'static_names', 'inner_names']::regclass[] LOOP
		EXECUTE format('ALTER TABLE %s OWNER TO plan_cache_owner', r);
	END LOOP;
	EXECUTE (SELECT format('ALTER VIEW %s OWNER TO plan_cache_owner', definition) FROM streamq.queries WHERE name = 's');
END $$;
CALL feed();
CALL streamq.run('s');
SELECT * FROM s ORDER BY id DESC LIMIT 1;
CREATE POLICY a_few ON names_now USING (k < 5);
CALL feed();
CALL streamq.run('s');
SELECT * FROM s ORDER BY id DESC LIMIT 1;
ALTER TABLE names_now ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CALL feed(10);
CALL streamq.run('s');
SELECT count(*), max(k) FROM (SELECT * FROM s ORDER BY id DESC LIMIT 5) x;
ALTER POLICY a_few ON names_now USING (k = 9);
CALL feed(10);
CALL streamq.run('s');
SELECT k FROM s ORDER BY id DESC LIMIT 1;
SET row_security = off;
CALL feed(10);
CALL streamq.run('s');
RESET row_security;
CALL streamq.run('s');
SELECT k FROM s ORDER BY id DESC LIMIT 1;
ALTER ROLE plan_cache_owner BYPASSRLS;
CALL feed(10);
CALL streamq.run('s');
SELECT count(*) FROM (SELECT DISTINCT k FROM (SELECT * FROM s ORDER BY id DESC LIMIT 10) x) y;
ALTER ROLE plan_cache_owner NOBYPASSRLS;
ALTER TABLE names_now DISABLE ROW LEVEL SECURITY;
-- of the source
CREATE POLICY a_few ON src USING (k = 3);
ALTER TABLE src ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CALL feed(10);
CALL streamq.run('s');
SELECT k FROM s ORDER BY id DESC LIMIT 1;
ALTER TABLE src DISABLE ROW LEVEL SECURITY;

-- rights are looked at in each batch
ALTER TABLE s OWNER TO CURRENT_USER;
CALL feed();
CALL streamq.run('s');
GRANT INSERT ON s TO plan_cache_owner;
CALL streamq.run('s');
SELECT max(id) = currval('ids') AS is_there FROM s;
REVOKE INSERT ON s FROM plan_cache_owner;
CALL feed();
CALL streamq.run('s');
CREATE ROLE plan_cache_writer;
GRANT INSERT ON s TO plan_cache_writer;
GRANT plan_cache_writer TO plan_cache_owner;
CALL streamq.run('s');
SELECT max(id) = currval('ids') AS is_there FROM s;
REVOKE plan_cache_writer FROM plan_cache_owner;
CALL feed();
CALL streamq.run('s');
-- in the view's owner's name
GRANT INSERT ON s TO plan_cache_owner;
ALTER TABLE names_now OWNER TO CURRENT_USER;
REVOKE ALL ON names_now FROM plan_cache_owner;
CALL streamq.run('s');
GRANT SELECT ON names_now TO plan_cache_owner;
CALL streamq.run('s');
SELECT max(id) = currval('ids') AS is_there FROM s;
REVOKE EXECUTE ON FUNCTION called(int) FROM PUBLIC;
CALL feed();
CALL streamq.run('s');
GRANT EXECUTE ON FUNCTION called(int) TO PUBLIC;
CALL streamq.run('s');
SELECT max(id) = currval('ids') AS is_there FROM s;

-- the sink: constraints, triggers, rules, defaults, generated columns, types, names
ALTER TABLE s ADD CHECK (d < 10000);
ALTER TABLE s ADD COLUMN noted text DEFAULT 'a default';
CALL feed();
CALL streamq.run('s');
SELECT noted FROM s ORDER BY id DESC LIMIT 1;
ALTER TABLE s ALTER COLUMN noted SET DEFAULT 'another default';
CALL feed();
CALL streamq.run('s');
SELECT noted FROM s ORDER BY id DESC LIMIT 1;
CREATE FUNCTION mark() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN NEW.noted := ''by a trigger''; RETURN NEW; END';
CREATE TRIGGER mark BEFORE INSERT ON s FOR EACH ROW EXECUTE FUNCTION mark();
CALL feed();
CALL streamq.run('s');
SELECT noted FROM s ORDER BY id DESC LIMIT 1;
DROP TRIGGER mark ON s;
CREATE TABLE copied (id int);
GRANT ALL ON copied TO plan_cache_owner;
CREATE RULE copy AS ON INSERT TO s DO ALSO INSERT INTO plan_cache.copied VALUES (NEW.id);
CALL feed();
CALL streamq.run('s');
SELECT noted, s.id = copied.id AS copied FROM s, copied ORDER BY s.id DESC LIMIT 1;
SET session_replication_role = replica;
CALL feed();
CALL streamq.run('s');
RESET session_replication_role;
CALL feed();
CALL streamq.run('s');
SELECT count(*) AS copied FROM copied;
DROP RULE copy ON s;
CALL feed();
CALL streamq.run('s');
SELECT count(*) AS copied FROM copied;
ALTER TABLE s ADD COLUMN twice int GENERATED ALWAYS AS (d * 2) STORED;
CALL feed();
CALL streamq.run('s');
ALTER TABLE s ALTER COLUMN c TYPE text;
CALL feed();
CALL streamq.run('s');
SELECT twice = d * 2 AS twice, pg_typeof(c) FROM s ORDER BY id DESC LIMIT 1;
ALTER TABLE s RENAME COLUMN c TO cc;
CALL feed();
CALL streamq.run('s');
ALTER TABLE s RENAME COLUMN cc TO c;
CALL streamq.run('s');
DELETE FROM s WHERE id = 28;
CREATE UNIQUE INDEX s_id ON s (id);
INSERT INTO src VALUES (currval('ids'), 1, 1);
CALL streamq.run('s');
DROP INDEX s_id;
CALL streamq.run('s');
DELETE FROM s WHERE ctid = (SELECT max(ctid) FROM s);
ALTER TABLE s DROP CONSTRAINT s_d_check, ADD CHECK (id > 0);
ALTER TABLE s ALTER COLUMN p TYPE int;
ALTER DOMAIN positive ADD CHECK (VALUE >= 0);
CREATE OR REPLACE VIEW stream AS SELECT id, k, v FROM src;
INSERT INTO src VALUES (nextval('ids'), 1, -1);
CALL streamq.run('s');
ALTER DOMAIN positive DROP CONSTRAINT positive_check;
CALL streamq.run('s');
SELECT max(id) = currval('ids') AS is_there FROM s;
CREATE OR REPLACE VIEW stream AS SELECT id, k, v FROM src WHERE v >= 0;

-- another owner
DO $$ BEGIN EXECUTE (SELECT format('ALTER VIEW %s OWNER TO CURRENT_USER', definition) FROM streamq.queries WHERE name = 's'); END $$;
CREATE FUNCTION who() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN NEW.noted := CASE WHEN current_user = ''plan_cache_owner'' THEN ''by the owner'' ELSE ''by another one'' END; RETURN NEW; END';
CREATE TRIGGER who BEFORE INSERT ON s FOR EACH ROW EXECUTE FUNCTION who();
CALL feed();
CALL streamq.run('s');
SELECT noted FROM s ORDER BY id DESC LIMIT 1;
DO $$ BEGIN EXECUTE (SELECT format('ALTER VIEW %s OWNER TO plan_cache_owner', definition) FROM streamq.queries WHERE name = 's'); END $$;
CALL feed();
CALL streamq.run('s');
SELECT noted FROM s ORDER BY id DESC LIMIT 1;

-- the query itself
SELECT streamq.alter_query('s', 'SELECT id, k, v AS d, 0 AS c, v AS p, ''altered'' AS name FROM src');
CALL feed();
CALL streamq.run('s');
SELECT d < 7 AS d, c, name FROM s ORDER BY id DESC LIMIT 1;
CALL feed(5);
CALL test.run_all();
TRUNCATE u, c, s;
SELECT streamq.reset('u'), streamq.reset('c'), streamq.reset('s');
CALL test.run_all();
CALL feed(5);
CALL test.run_all();
SELECT * FROM test.compare_all();
SELECT streamq.alter_query('u', 'SELECT k, count(*) AS n, sum(v) AS v, min(name) AS name FROM stream JOIN static_names USING (k) GROUP BY k HAVING count(*) > 1');
CALL feed(5);
CALL test.run_all();
SELECT * FROM test.compare_all();
-- the sink of update mode, its index, and its state
DROP INDEX u_k_idx;
CALL feed(5);
CALL streamq.run('u');
CREATE UNIQUE INDEX other ON u (k);
CALL streamq.run('u');
SELECT * FROM test.compare('u');
ALTER INDEX other RENAME TO still_other;
INSERT INTO src VALUES (nextval('ids'), NULL, 3);
CALL feed(5);
CALL streamq.run('u');
SELECT * FROM test.compare('u');
DO $$
DECLARE
	state text := (SELECT 'streamq_state.q' || query_id FROM streamq.queries WHERE name = 'u');
BEGIN
	EXECUTE format('ALTER TABLE %s ADD COLUMN mine int DEFAULT 7', state);
	EXECUTE format('CREATE INDEX ON %s (mine)', state);
	EXECUTE format('ANALYZE %s', state);
END $$;
CALL feed(5);
CALL streamq.run('u');
SELECT * FROM test.compare('u');

REINDEX TABLE CONCURRENTLY u;
CALL feed(5);
CALL streamq.run('u');
ALTER TABLE u ADD PRIMARY KEY USING INDEX still_other;
CALL feed(5);
CALL streamq.run('u');
CLUSTER u USING still_other;
CALL feed(5);
CALL streamq.run('u');
ALTER TABLE u SET UNLOGGED;
CALL feed(5);
CALL streamq.run('u');
SELECT * FROM test.compare('u');

-- a batch that fails leaves nothing behind that would be used
CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RAISE EXCEPTION ''no''; END';
CREATE TRIGGER fail AFTER INSERT OR UPDATE ON u FOR EACH ROW EXECUTE FUNCTION fail();
CALL feed(5);
CALL streamq.run('u');
CALL streamq.run('u');
DROP TRIGGER fail ON u;
CALL streamq.run('u');
SELECT * FROM test.compare('u');
-- a batch whose own trigger alters what it uses
CREATE FUNCTION alters() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN CREATE OR REPLACE VIEW plan_cache.inner_names AS SELECT k, ''altered '' || called AS name FROM plan_cache.names_now; RETURN NULL; END';
ALTER VIEW inner_names OWNER TO CURRENT_USER;
GRANT SELECT ON inner_names TO plan_cache_owner;
CREATE TRIGGER alters AFTER INSERT OR UPDATE ON u FOR EACH STATEMENT EXECUTE FUNCTION alters();
CALL feed(3);
CALL streamq.run('u');
DROP TRIGGER alters ON u;
CALL feed(3);
CALL streamq.run('u');
SELECT name LIKE 'altered%' AS altered, count(*) FROM u GROUP BY 1 ORDER BY 1;

-- batches of all sizes, and of none
TRUNCATE u, c, s;
SELECT streamq.reset('u'), streamq.reset('c'), streamq.reset('s');
CALL test.run_all();
CALL feed(1);
CALL test.run_all();
CALL feed(100);
CALL test.run_all();
CALL feed(100000);
CALL test.run_all();
CALL feed(1);
CALL test.run_all();
CALL test.run_all();
CALL feed(2000);
CALL test.run_all();
SELECT * FROM test.compare_all();
SELECT streamq.drop_query(name, drop_sink => true) FROM streamq.queries ORDER BY name;
SELECT queries <= 3 AS queries, plans FROM kept;
SELECT streamq.drop_source('src');

-- partitions of source, sink and static table
CREATE TABLE parts (id int, k int) PARTITION BY LIST (k);
CREATE TABLE parts1 PARTITION OF parts FOR VALUES IN (1);
CREATE TABLE statics (k int, name text) PARTITION BY RANGE (k);
CREATE TABLE statics1 PARTITION OF statics FOR VALUES FROM (1) TO (3);
INSERT INTO statics VALUES (1, 'one'), (2, 'two');
CREATE TABLE sinks (id int, k int, name text) PARTITION BY LIST (k);
CREATE TABLE sinks1 PARTITION OF sinks DEFAULT;
SELECT streamq.add_source('parts');
SELECT streamq.create_query('parts', 'SELECT id, k, name FROM parts LEFT JOIN statics USING (k)', sink => 'sinks');
SELECT streamq.create_query('counts', 'SELECT k, count(*) AS n FROM parts GROUP BY k', output_mode => 'update');
INSERT INTO parts VALUES (1, 1);
CALL test.run_all();
CREATE TABLE parts2 PARTITION OF parts FOR VALUES IN (2);
INSERT INTO parts VALUES (2, 1), (3, 2);
CALL test.run_all();
CREATE TABLE parts3 (id int, k int);
INSERT INTO parts3 VALUES (4, 3), (5, 3);
ALTER TABLE parts ATTACH PARTITION parts3 FOR VALUES IN (3);
CREATE TABLE statics3 (k int, name text);
INSERT INTO statics3 VALUES (3, 'three');
ALTER TABLE statics ATTACH PARTITION statics3 FOR VALUES FROM (3) TO (5);
CALL test.run_all();
SELECT * FROM test.compare_all();
-- below a partition
CREATE TABLE parts4 PARTITION OF parts FOR VALUES IN (4, 5) PARTITION BY LIST (k);
CALL test.run_all();
CREATE TABLE parts44 PARTITION OF parts4 FOR VALUES IN (4);
INSERT INTO parts VALUES (6, 4), (7, 1);
CALL test.run_all();
CREATE TABLE parts45 PARTITION OF parts4 FOR VALUES IN (5);
INSERT INTO parts VALUES (8, 5), (9, 4);
CALL test.run_all();
SELECT * FROM test.compare_all();
ALTER TABLE parts DETACH PARTITION parts2;
INSERT INTO parts VALUES (10, 1);
INSERT INTO parts2 VALUES (11, 2);
ALTER TABLE statics DETACH PARTITION statics1;
CALL test.run_all();
SELECT * FROM sinks WHERE id >= 10;
ALTER TABLE parts ATTACH PARTITION parts2 FOR VALUES IN (2);
ALTER TABLE statics ATTACH PARTITION statics1 FOR VALUES FROM (1) TO (3);
CREATE TABLE sinks_of_2 PARTITION OF sinks FOR VALUES IN (6);
ALTER TABLE sinks DETACH PARTITION sinks1;
TRUNCATE sinks1;
ALTER TABLE sinks ATTACH PARTITION sinks1 DEFAULT;
CREATE TABLE parts6 PARTITION OF parts FOR VALUES IN (6);
INSERT INTO parts VALUES (12, 6);
CALL test.run_all();
SELECT tableoid::regclass, * FROM sinks ORDER BY id;
SELECT * FROM test.compare('counts');
SELECT streamq.drop_query('parts'), streamq.drop_query('counts', drop_sink => true);
SELECT streamq.drop_source('parts');

-- the watermark moves on under the plans that are kept
CREATE TABLE events (at timestamptz NOT NULL, k int, v int);
CREATE TABLE dates (day date NOT NULL, v int) PARTITION BY RANGE (day);
CREATE TABLE dates1 PARTITION OF dates FOR VALUES FROM (MINVALUE) TO ('2024-03-01');
CREATE TABLE dates2 PARTITION OF dates FOR VALUES FROM ('2024-03-01') TO (MAXVALUE);
CREATE TABLE late (LIKE events);
SELECT streamq.add_source('events', 'at', '1 hour');
SELECT streamq.add_source('dates', 'day', '3 days');
SELECT streamq.create_query('closing', $$SELECT date_bin('1 hour', at, '2024-01-01') AS hour, count(*) AS n, sum(v) AS v FROM events GROUP BY 1$$);
SELECT streamq.create_query('updating', $$SELECT date_bin('1 hour', at, '2024-01-01') AS hour, k, count(*) AS n, array_agg(v ORDER BY v) AS v FROM events GROUP BY 1, 2$$,
	output_mode => 'update', late_sink => 'late');
SELECT streamq.create_query('days', 'SELECT day, count(*) AS n, sum(v) AS v FROM dates GROUP BY day');
CREATE INDEX ON events (at);
CREATE INDEX ON dates (day);
SELECT streamq.create_query('reading', $$SELECT date_bin('1 hour', at, '2024-01-01') AS hour, count(*) AS n, sum(v) AS v FROM events GROUP BY 1$$);
SELECT streamq.create_query('reading_days', 'SELECT day, count(*) AS n, sum(v) AS v FROM dates GROUP BY day');
SELECT name, strategy FROM streamq.queries ORDER BY name;
DO $$
BEGIN
	FOR i IN 1..60 LOOP
		INSERT INTO plan_cache.events SELECT timestamptz '2024-01-01' + (i * 20 + j) * interval '1 minute', j % 3, i FROM generate_series(1, CASE WHEN i % 10 = 0 THEN 2000 ELSE 20 END) j;
		-- some late ones
		INSERT INTO plan_cache.events VALUES ('2024-01-01 00:30', 1, 1000 + i);
		INSERT INTO plan_cache.dates SELECT date '2024-01-01' + i * 2 + j % 2, i FROM generate_series(1, 20) j;
		COMMIT;
		CALL test.run_all();
		COMMIT;
	END LOOP;
END $$;
CALL test.run_all();
-- of what was not late the plain SELECT is the oracle
SELECT q.name, v.explained_by_late_rows, count(v.difference) FROM streamq.queries q LEFT JOIN LATERAL streamq.verify(q.name) v ON true GROUP BY 1, 2 ORDER BY 1, 2;
SELECT name, sum(late_rows) > 0 AS late, max(state_rows) > 0 AS has_state, sum(trimmed_rows) FROM streamq.commits GROUP BY name ORDER BY name;
SELECT (SELECT count(*) FROM closing) = (SELECT count(*) FROM reading) AS same, count(*) FROM (TABLE closing EXCEPT ALL TABLE reading) x;
SELECT (SELECT count(*) FROM days) = (SELECT count(*) FROM reading_days) AS same, count(*) FROM (TABLE days EXCEPT ALL TABLE reading_days) x;
SELECT streamq.drop_query(name, drop_sink => true) FROM streamq.queries ORDER BY name;

-- ids come again with the extension
DROP EXTENSION streamq CASCADE;
CREATE EXTENSION streamq;
SELECT streamq.add_source('src');
SELECT streamq.create_query('s', 'SELECT id, -v AS minus FROM src WHERE id % 1000 = 0');
CALL streamq.run('s');
SELECT * FROM test.compare_all();
SELECT setval('streamq.queries_query_id_seq', 1, false);
SELECT streamq.drop_query('s', drop_sink => true);
SELECT streamq.create_query('s', 'SELECT id, v AS plus FROM src WHERE id % 1000 = 0');
INSERT INTO src VALUES (1000, 1, 1);
CALL streamq.run('s');
SELECT * FROM test.compare_all();

SELECT streamq.drop_query('s', drop_sink => true);
SELECT streamq.drop_source('src');
DROP SCHEMA plan_cache CASCADE;
DROP ROLE plan_cache_owner, plan_cache_writer;
