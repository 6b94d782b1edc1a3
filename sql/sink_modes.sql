--
-- Sinks of the output modes update and complete, which change and remove rows
--
CREATE SCHEMA sink_modes;
SET search_path = sink_modes;
SET TimeZone = 'UTC';
\pset null '(null)'
CREATE TABLE src (id int GENERATED ALWAYS AS IDENTITY, k int, t text, v numeric);
SELECT streamq.add_source('src');
INSERT INTO src (k, t, v) VALUES (1, 'a', 1.25), (1, 'b', 2), (2, 'a', 3), (NULL, 'a', 4), (1, NULL, 5);
CREATE FUNCTION refusal(query text, sink text, mode text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	answer text := test.refusal(format('SELECT streamq.create_query(%L, %L, %L, %L)', 'refused', query, mode, sink));
BEGIN
	IF answer = 'accepted' THEN
		PERFORM streamq.drop_query('refused');
	END IF;
	RETURN answer;
END $$;
\set by_k 'SELECT k, count(*) AS n, sum(v) AS total FROM src GROUP BY k'
\set by_kt 'SELECT t, k, count(*) AS n, sum(v) AS total FROM src GROUP BY k, t'
\set few_by_kt 'SELECT t, k, count(*) AS n, sum(v) AS total FROM src GROUP BY k, t HAVING count(*) < 4'

--
-- update: a unique index on exactly the key has to be there
--
\pset format unaligned
\pset tuples_only on
CREATE TABLE sink (k int, t text, n bigint, total numeric, note text DEFAULT 'ours');
SELECT refusal(:'by_k', 'sink', 'update');
SELECT refusal(:'by_kt', 'sink', 'update');
CREATE INDEX a1 ON sink (k);
CREATE UNIQUE INDEX a2 ON sink (k) WHERE n > 0;
CREATE UNIQUE INDEX a3 ON sink ((k + 0));
CREATE UNIQUE INDEX a4 ON sink (k, n);
CREATE UNIQUE INDEX a5 ON sink (n) INCLUDE (k);
ALTER TABLE sink ADD UNIQUE (k) DEFERRABLE INITIALLY IMMEDIATE;
ALTER TABLE sink ADD EXCLUDE USING btree (k WITH =);
SELECT refusal(:'by_k', 'sink', 'update');
CREATE UNIQUE INDEX a6 ON sink (t);
SELECT refusal(:'by_kt', 'sink', 'update');
DROP TABLE sink;
-- as the hint says, and others
CREATE TABLE sink (total numeric, note text DEFAULT 'ours', k int, n bigint);
CREATE UNIQUE INDEX ON sink (k) NULLS NOT DISTINCT;
SELECT refusal(:'by_k', 'sink', 'update');
CREATE TABLE sink2 (t text, k int, total numeric, n bigint, UNIQUE (k, t) INCLUDE (n));
SELECT refusal(:'by_kt', 'sink2', 'update');
-- key columns of other types, in which groups could fall together
CREATE TABLE sink3 (k bigint UNIQUE, n text, total numeric(6, 1), twice numeric GENERATED ALWAYS AS (total * 2) STORED);
CREATE TABLE sink4 (k smallint UNIQUE, n bigint, total numeric);
CREATE TABLE sink5 (k text UNIQUE, n bigint, total numeric);
CREATE TABLE sink6 (k int, t varchar(3), n bigint, total numeric, UNIQUE (k, t));
CREATE TABLE sink7 (k int, t text COLLATE "POSIX", n bigint, total numeric, UNIQUE (k, t));
CREATE TABLE sink8 (total numeric(6, 1) UNIQUE, n bigint);
SELECT s, refusal(:'by_k', s, 'update') FROM unnest('{sink3,sink4,sink5}'::text[]) s;
SELECT s, refusal(:'by_kt', s, 'update') FROM unnest('{sink6,sink7}'::text[]) s;
SELECT refusal('SELECT v AS total, count(*) AS n FROM src GROUP BY v', 'sink8', 'update');
-- what is no table, or a stream
CREATE VIEW a_view AS SELECT k, n, total FROM sink;
CREATE MATERIALIZED VIEW a_matview AS SELECT k, n, total FROM sink;
CREATE FOREIGN DATA WRAPPER regress_sq_dummy;
CREATE SERVER regress_sq_dummy FOREIGN DATA WRAPPER regress_sq_dummy;
CREATE FOREIGN TABLE a_foreign (k int, n bigint, total numeric) SERVER regress_sq_dummy;
CREATE TABLE a_stream (k int UNIQUE, n bigint, total numeric);
SELECT streamq.add_source('a_stream');
CREATE TABLE own (k int UNIQUE, n bigint, total numeric, v numeric);
SELECT streamq.add_source('own');
CREATE TEMP TABLE a_temp (k int UNIQUE, n bigint, total numeric);
SELECT s, mode, refusal(:'by_k', s, mode) FROM unnest('{a_view,a_matview,a_foreign,a_stream,a_temp}'::text[]) s, unnest('{update,complete}'::text[]) mode ORDER BY 2 DESC, 1;
SELECT mode, refusal('SELECT k, count(*) AS n, sum(v) AS total FROM own GROUP BY k', 'own', mode) FROM unnest('{update,complete}'::text[]) mode ORDER BY 1 DESC;
-- complete, and update of all rows in one group, replace what is there
INSERT INTO sink (k) VALUES (1);
SELECT refusal(:'by_k', 'sink', 'complete');
SELECT refusal('SELECT count(*) AS n FROM src', 'sink', 'update');
TRUNCATE sink;
SELECT refusal(:'by_k', 'sink', 'complete'), refusal('SELECT count(*) AS n FROM src', 'sink', 'update');
-- a sink of these modes does not become a stream
SELECT streamq.create_query('q', :'by_k', 'update', 'sink');
SELECT test.refusal('SELECT streamq.add_source(''sink'')');
\pset format aligned
\pset tuples_only off

--
-- other columns are left alone; values are compared as the sink holds them
--
INSERT INTO sink (k, n, note) VALUES (1, 77, 'theirs'), (8, 88, 'theirs');
CALL streamq.run('q');
SELECT * FROM sink ORDER BY k;
UPDATE sink SET note = 'marked';
INSERT INTO src (k, v) VALUES (1, 0), (9, 9);
CALL streamq.run('q');
SELECT * FROM sink ORDER BY k;
SELECT streamq.create_query('q3', 'SELECT k, count(*) % 2 AS n, max(v) AS total FROM src GROUP BY k', 'update', 'sink3');
CALL test.run('q3');
CREATE TABLE seen AS SELECT * FROM test.versions('sink3');
INSERT INTO src (k, v) VALUES (1, 1), (1, 1), (2, 3.04), (2, 1);
CALL test.run('q3');
SELECT k, n, total, twice FROM sink3 ORDER BY k;
SELECT count(*) AS written FROM (SELECT version FROM test.versions('sink3') EXCEPT SELECT version FROM seen) x;

--
-- NULL keys where the index takes each NULL for another value
--
SELECT streamq.create_query('q2', 'SELECT t, k, max(id) AS n, sum(v) AS total FROM src GROUP BY k, t HAVING sum(v) < 10', 'update', 'sink2');
CALL test.run('q2');
SELECT * FROM sink2 ORDER BY k, t;
TRUNCATE seen;
INSERT INTO seen SELECT * FROM test.versions('sink2');
INSERT INTO src (k, t, v) VALUES (NULL, 'a', 1), (1, NULL, 10), (NULL, NULL, 0), (2, NULL, 1);
CALL test.run('q2');
SELECT * FROM sink2 ORDER BY k, t;
SELECT data AS kept FROM test.versions('sink2') v WHERE version IN (SELECT version FROM seen) ORDER BY 1;
INSERT INTO src (k, t, v) VALUES (NULL, NULL, 99), (1, NULL, -10), (NULL, 'a', 0);
CALL test.run('q2');
SELECT * FROM test.compare('q2');
-- of these, too, only rows that change are written
CREATE TABLE sink10 (k int UNIQUE, total numeric);
SELECT streamq.create_query('q10', 'SELECT k, max(v) AS total FROM src GROUP BY k', 'update', 'sink10');
CALL test.run('q10');
TRUNCATE seen;
INSERT INTO seen SELECT * FROM test.versions('sink10');
INSERT INTO src (k, v) VALUES (NULL, -1), (1, -1), (9, 99);
CALL test.run('q10');
SELECT data AS written FROM test.versions('sink10') WHERE version NOT IN (SELECT version FROM seen);
SELECT * FROM test.compare('q10');
-- a primary key takes none
CREATE TABLE sink9 (k int PRIMARY KEY, n bigint);
SELECT streamq.create_query('q9', 'SELECT k, count(*) AS n FROM src GROUP BY k', 'update', 'sink9', starting_position => 'latest');
INSERT INTO src (k) VALUES (1), (2);
CALL streamq.run('q9');
INSERT INTO src (k) VALUES (1), (NULL);
CALL streamq.run('q9');
SELECT * FROM sink9 ORDER BY k;

--
-- a partitioned sink, and one with children
--
CREATE TABLE parts (total numeric, k int, t text, n bigint, UNIQUE NULLS NOT DISTINCT (t, k)) PARTITION BY LIST (t);
CREATE TABLE parts_a (n bigint, gone int, k int, t text, total numeric);
ALTER TABLE parts_a DROP COLUMN gone;
ALTER TABLE parts ATTACH PARTITION parts_a FOR VALUES IN ('a');
CREATE TABLE parts_1 PARTITION OF parts DEFAULT;
CREATE TABLE whole (LIKE parts) PARTITION BY RANGE (n);
CREATE TABLE whole_1 PARTITION OF whole FOR VALUES FROM (MINVALUE) TO (3);
CREATE TABLE whole_2 PARTITION OF whole FOR VALUES FROM (3) TO (MAXVALUE);
CREATE TABLE parent (k int, n bigint);
CREATE TABLE child () INHERITS (parent);
SELECT refusal(:'by_k', 'parts', 'update');
SELECT streamq.create_query('parts', :'few_by_kt', 'update', 'parts');
SELECT streamq.create_query('whole', :'by_kt', 'complete', 'whole');
SELECT streamq.create_query('parent', 'SELECT k, count(*) AS n FROM src GROUP BY k', 'complete', 'parent');
CALL test.run('parts', 'whole', 'parent');
INSERT INTO src (k, t, v) VALUES (1, 'a', 1), (1, 'a', 2), (1, 'a', 3), (2, 'b', 1), (1, 'a', 3);
INSERT INTO child SELECT 1, n FROM parent WHERE k = 1;
CALL test.run('parts', 'whole', 'parent');
SELECT count(*) FROM child;
SELECT q.query, c.* FROM unnest('{parts,whole,parent}'::text[]) q (query), test.compare(q.query) c;
SELECT tableoid::regclass, * FROM whole WHERE t = 'a' ORDER BY k;

--
-- complete: rows that stay keep their other columns; types of all kinds
--
CREATE TABLE odd (k bigint, n int, note text DEFAULT 'ours', c char(5), f numeric(6, 1), j json, vc varchar(3));
SELECT streamq.create_query('odd', 'SELECT k, count(*) AS n, ''x'' || k AS c, sum(v) AS f, jsonb_build_object(''k'', k) AS j, k::text AS vc FROM src GROUP BY k', 'complete', 'odd');
CALL test.run('odd');
UPDATE odd SET note = 'marked';
INSERT INTO src (k, v) VALUES (9, 1.26);
CALL test.run('odd');
SELECT * FROM odd ORDER BY k;
SELECT * FROM streamq.verify('odd');
INSERT INTO src (k) VALUES (10000);
CALL streamq.run('odd');
SELECT streamq.drop_query('odd', true);

--
-- triggers: each row written is a row to them
--
CREATE TABLE log (entry text);
CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	INSERT INTO sink_modes.log (entry) VALUES (concat_ws(' ', TG_TABLE_NAME, TG_WHEN, TG_OP, TG_LEVEL, OLD, '->', NEW));
	IF TG_OP = 'INSERT' AND TG_WHEN = 'BEFORE' AND NEW.n = 3 THEN
		RETURN NULL;
	END IF;
	RETURN CASE TG_OP WHEN 'DELETE' THEN OLD ELSE NEW END;
END $$;
CREATE TABLE up (k int, n bigint, UNIQUE NULLS NOT DISTINCT (k));
CREATE TABLE com (k int, n bigint);
CREATE TRIGGER t1 BEFORE INSERT OR UPDATE OR DELETE ON up FOR EACH ROW EXECUTE FUNCTION note();
CREATE TRIGGER t2 AFTER INSERT OR UPDATE OR DELETE ON com FOR EACH ROW EXECUTE FUNCTION note();
TRUNCATE src;
SELECT streamq.create_query('up', 'SELECT k, count(*) AS n FROM src GROUP BY k HAVING count(*) < 4', 'update');
SELECT streamq.create_query('com', 'SELECT k, count(*) AS n FROM src GROUP BY k', 'complete');
INSERT INTO src (k) VALUES (1), (1), (2);
CALL test.run('up', 'com');
SELECT entry FROM log ORDER BY entry;
TRUNCATE log;
INSERT INTO src (k) VALUES (1), (2), (3), (3), (3);
CALL test.run('up', 'com');
SELECT entry FROM log ORDER BY entry;
TRUNCATE log;
INSERT INTO src (k) VALUES (1), (2), (2);
CALL test.run('up', 'com');
SELECT entry FROM log ORDER BY entry;
-- what a trigger keeps out of the sink is missing there
SELECT * FROM test.compare('up');
SELECT * FROM test.compare('com');
-- one that has an error to tell
CREATE FUNCTION no() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'not %', TG_OP; END $$;
CREATE CONSTRAINT TRIGGER t3 AFTER INSERT OR UPDATE OR DELETE ON up DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION no();
INSERT INTO src (k) VALUES (2), (5);
CALL streamq.run('up');
SELECT * FROM up ORDER BY k;
DROP TRIGGER t3 ON up;
CALL streamq.run('up');
SELECT * FROM up ORDER BY k;
DROP TRIGGER t1 ON up;

--
-- changed by somebody between the batches
--
ALTER TABLE up RENAME TO upper;
ALTER TABLE upper ADD COLUMN extra int DEFAULT 5;
ALTER TABLE com SET SCHEMA public;
ALTER TABLE public.com ALTER n TYPE text;
INSERT INTO src (k) VALUES (6);
CALL test.run('up', 'com');
SELECT * FROM upper ORDER BY k;
SELECT * FROM public.com WHERE k = 6;
ALTER TABLE upper DROP CONSTRAINT up_k_key;
INSERT INTO src (k) VALUES (6), (7);
CALL streamq.run('up');
CREATE UNIQUE INDEX upper_k ON upper (k);
CALL streamq.run('up');
ALTER TABLE upper RENAME n TO m;
INSERT INTO src (k) VALUES (6);
CALL streamq.run('up');
ALTER TABLE upper RENAME m TO n;
CALL streamq.run('up');
DELETE FROM upper WHERE k IN (5, 7);
UPDATE upper SET n = 0 WHERE k = 6;
SELECT difference, row_data FROM streamq.verify('up') ORDER BY 2, 1;
-- a row that is gone comes again with its group
INSERT INTO src (k) VALUES (7);
CALL streamq.run('up');
SELECT * FROM upper ORDER BY k;
ALTER TABLE public.com DROP COLUMN n;
INSERT INTO src (k) VALUES (8);
CALL streamq.run('com');
SELECT * FROM streamq.verify('com');
DROP TABLE public.com CASCADE;

SET client_min_messages = warning;
SELECT count(streamq.drop_query(name)) FROM streamq.queries;
DROP SCHEMA sink_modes CASCADE;
DROP SERVER regress_sq_dummy CASCADE;
DROP FOREIGN DATA WRAPPER regress_sq_dummy;
