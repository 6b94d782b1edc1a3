--
-- add_source, drop_source: what may become a source, and what a source refuses
--
SET client_min_messages = warning;
DROP ROLE IF EXISTS regress_sq_owner, regress_sq_other;
RESET client_min_messages;
CREATE ROLE regress_sq_owner;
CREATE ROLE regress_sq_other;
CREATE SCHEMA api_source;
GRANT ALL ON SCHEMA api_source TO regress_sq_owner, regress_sq_other;
SET search_path = api_source;
\pset null '(null)'

-- a plain table, with nothing else said
CREATE TABLE plain (id int PRIMARY KEY, v text);
SELECT streamq.add_source('plain');
SELECT * FROM streamq.sources;

-- again
SELECT streamq.add_source('plain');
SELECT * FROM streamq.sources;

-- undone
SELECT streamq.drop_source('plain');
SELECT * FROM streamq.sources;
SELECT streamq.drop_source('plain');

-- in a transaction that is rolled back
BEGIN;
SELECT streamq.add_source('plain');
ROLLBACK;
SELECT * FROM streamq.sources;
INSERT INTO plain VALUES (1, 'one');
UPDATE plain SET v = 'uno';

--
-- what cannot be a source
--
\pset format unaligned
\pset tuples_only on
CREATE VIEW a_view AS SELECT * FROM plain;
CREATE MATERIALIZED VIEW a_matview AS SELECT * FROM plain;
CREATE SEQUENCE a_sequence;
CREATE INDEX an_index ON plain (v);
CREATE TYPE a_type AS (a int);
CREATE TEMP TABLE a_temp_table (a int);
CREATE FOREIGN DATA WRAPPER regress_sq_dummy;
CREATE SERVER regress_sq_dummy FOREIGN DATA WRAPPER regress_sq_dummy;
CREATE FOREIGN TABLE a_foreign_table (a int) SERVER regress_sq_dummy;
CREATE TABLE has_foreign_leaf (a int) PARTITION BY LIST (a);
CREATE FOREIGN TABLE foreign_leaf PARTITION OF has_foreign_leaf DEFAULT SERVER regress_sq_dummy;
CREATE TABLE partitioned_index_owner (a int) PARTITION BY LIST (a);
CREATE INDEX a_partitioned_index ON partitioned_index_owner (a);
SELECT r, test.refusal(format('SELECT streamq.add_source(%L)', r))
FROM (VALUES ('a_view'), ('a_matview'), ('a_sequence'), ('an_index'), ('a_type'),
			 ('a_temp_table'), ('a_foreign_table'), ('has_foreign_leaf'), ('a_partitioned_index'),
			 ('pg_class'),
			 ('streamq.commits'), ('nowhere')) AS v (r);
SELECT test.refusal('SELECT streamq.add_source(NULL)');
SELECT test.refusal('SELECT streamq.add_source(0)');
SELECT test.refusal('SELECT streamq.drop_source(NULL)');
SELECT test.refusal('SELECT streamq.drop_source(0)');
SELECT test.refusal('SELECT streamq.drop_source(''a_view'')');
-- a TOAST table, whose name differs from run to run
SELECT regexp_replace(test.refusal(format('SELECT streamq.add_source(%s)', reltoastrelid)), '\d{2,}', 'N', 'g')
FROM pg_class WHERE oid = 'plain'::regclass;

--
-- event time and delay
--
CREATE TABLE times (id int, at timestamptz, local timestamp, day date, n int, t text, gone timestamptz, "At" timestamptz);
ALTER TABLE times DROP COLUMN gone;
SELECT args, test.refusal(format('SELECT streamq.add_source(''times'', %s)', args))
FROM (VALUES ('''nothing'''), ('''gone'''), ('''........pg.dropped.7........'''), ('''n'''), ('''t'''),
			 ('''ctid'''), ('''xmin'''), ('''tableoid'''), (''''''), ('''AT'''),
			 ('NULL, ''1 minute'''), ('''at'', ''-1 second'''), ('''at'', ''1 month -31 days''')) AS v (args);
\pset format aligned
\pset tuples_only off
SELECT streamq.add_source('times', 'at', '10 minutes');
SELECT * FROM streamq.sources;
SELECT streamq.drop_source('times');
SELECT streamq.add_source('times', event_time => 'local', watermark_delay => '0');
SELECT * FROM streamq.sources;
SELECT streamq.drop_source('times');
SELECT streamq.add_source('times', event_time => 'day', watermark_delay => '1 month');
SELECT * FROM streamq.sources;
SELECT streamq.drop_source('times');
SELECT streamq.add_source('times', event_time => 'At');
SELECT * FROM streamq.sources;
SELECT streamq.drop_source('times');
-- a domain over a time is not one of these types
CREATE DOMAIN moment AS timestamptz;
CREATE TABLE domains (m moment);
SELECT streamq.add_source('domains', 'm', '1 hour');
-- the column keeps its role under another name, and cannot go
SELECT streamq.add_source('times', 'at', '10 minutes');
ALTER TABLE times RENAME COLUMN at TO happened_at;
SELECT s.source, a.attname, s.watermark_delay
FROM streamq.sources s JOIN pg_attribute a ON (attrelid, attname) = (source, s.event_time)
ORDER BY s.source::text;
ALTER TABLE times DROP COLUMN happened_at;
SELECT s.source, a.attname, s.watermark_delay
FROM streamq.sources s JOIN pg_attribute a ON (attrelid, attname) = (source, s.event_time)
ORDER BY s.source::text;
DROP TABLE domains, times;
SELECT * FROM streamq.sources;

--
-- only the owner
--
SET ROLE regress_sq_owner;
CREATE TABLE owned (id int PRIMARY KEY);
GRANT ALL ON owned TO regress_sq_other;
RESET ROLE;
SET ROLE regress_sq_other;
SELECT streamq.add_source('owned');
RESET ROLE;
SET ROLE regress_sq_owner;
SELECT streamq.add_source('owned');
RESET ROLE;
SET ROLE regress_sq_other;
SELECT streamq.drop_source('owned');
RESET ROLE;
SELECT * FROM streamq.sources;
-- the owner, or a member of the owner
GRANT regress_sq_owner TO regress_sq_other;
SET ROLE regress_sq_other;
SELECT streamq.drop_source('owned');
SELECT streamq.add_source('owned');
RESET ROLE;
REVOKE regress_sq_owner FROM regress_sq_other;
-- the superuser may as well
SELECT streamq.drop_source('owned');
SELECT streamq.add_source('owned');
DROP TABLE owned;
-- a read-only transaction
\set VERBOSITY terse
BEGIN READ ONLY;
SELECT streamq.add_source('plain');
ROLLBACK;
\set VERBOSITY default

--
-- UPDATE is refused, in each of its forms
--
TRUNCATE plain;
INSERT INTO plain SELECT g, 'v' || g FROM generate_series(1, 5) g;
SELECT streamq.add_source('plain');
UPDATE plain SET v = 'x' WHERE id = 1;
UPDATE plain SET v = 'x' WHERE false;
INSERT INTO plain VALUES (1, 'x') ON CONFLICT (id) DO UPDATE SET v = excluded.v;
INSERT INTO plain VALUES (1, 'x') ON CONFLICT (id) DO NOTHING;
MERGE INTO plain p USING (VALUES (1, 'x')) AS n (id, v) ON p.id = n.id
	WHEN MATCHED THEN UPDATE SET v = n.v WHEN NOT MATCHED THEN INSERT VALUES (n.id, n.v);
MERGE INTO plain p USING (VALUES (1, 'x'), (6, 'v6')) AS n (id, v) ON p.id = n.id
	WHEN MATCHED THEN DO NOTHING WHEN NOT MATCHED THEN INSERT VALUES (n.id, n.v);
WITH u AS (UPDATE plain SET v = 'x' RETURNING 1) SELECT count(*) FROM u;
-- through a view
UPDATE a_view SET v = 'x' WHERE id = 1;
-- also where ordinary triggers don't fire
SET session_replication_role = replica;
UPDATE plain SET v = 'x' WHERE id = 1;
RESET session_replication_role;
-- by a foreign key
CREATE TABLE parent (id int PRIMARY KEY);
INSERT INTO parent SELECT generate_series(1, 3);
CREATE TABLE child (id int, parent int REFERENCES parent ON DELETE SET NULL ON UPDATE CASCADE);
INSERT INTO child VALUES (1, 1), (2, 2);
SELECT streamq.add_source('child');
DELETE FROM parent WHERE id = 1;
UPDATE parent SET id = 10 WHERE id = 2;
DELETE FROM parent WHERE id = 3;
-- through a function that catches the error: nothing is changed
DO $$
BEGIN
	UPDATE plain SET v = 'x';
EXCEPTION WHEN OTHERS THEN
	RAISE NOTICE '%', SQLERRM;
END $$;
SELECT * FROM plain ORDER BY id;
SELECT * FROM child ORDER BY id;
-- the owner cannot turn it off by hand
DO $$
DECLARE
	t record;
BEGIN
	FOR t IN SELECT tgname FROM pg_trigger WHERE tgrelid = 'plain'::regclass LOOP
		RAISE NOTICE 'drop: %', test.refusal(format('DROP TRIGGER %I ON plain', t.tgname));
		RAISE NOTICE 'still there: %', EXISTS (SELECT FROM pg_trigger WHERE tgrelid = 'plain'::regclass AND tgname = t.tgname);
	END LOOP;
END $$;
SELECT streamq.create_query('guarded', 'SELECT id FROM plain');
ALTER TABLE plain DISABLE TRIGGER ALL;
CALL streamq.run('guarded');
SELECT streamq.create_query('unguarded', 'SELECT id FROM plain');
ALTER TABLE plain ENABLE TRIGGER ALL;
CALL streamq.run('guarded');
DO $$
BEGIN
	EXECUTE (SELECT format('ALTER TABLE plain ENABLE ALWAYS TRIGGER %I', tgname) FROM pg_trigger WHERE tgrelid = 'plain'::regclass);
END $$;
CALL streamq.run('guarded');
ALTER TABLE child DISABLE TRIGGER USER;
SELECT streamq.drop_source('child');
ALTER TABLE child ENABLE TRIGGER USER;
SELECT streamq.add_source('child');
UPDATE child SET id = 3;
SET client_min_messages = warning;
SELECT streamq.drop_query('guarded', drop_sink => true);
RESET client_min_messages;
-- locking, DELETE and TRUNCATE are allowed
SELECT id FROM plain WHERE id = 1 FOR UPDATE;
DELETE FROM plain WHERE id = 1;
SELECT count(*) FROM plain;
TRUNCATE plain;
SELECT count(*) FROM plain;
-- the function of the trigger is for sources only
CREATE TABLE not_a_source (a int);
CREATE TRIGGER t BEFORE INSERT ON not_a_source FOR EACH ROW EXECUTE FUNCTION streamq.refuse_update();
INSERT INTO not_a_source VALUES (1);
SELECT test.refusal('SELECT streamq.refuse_update()');
DROP TABLE not_a_source;

--
-- partitioned tables: the root, its partitions, and those to come
--
CREATE TABLE parts (id int, k int, v text) PARTITION BY LIST (k);
CREATE TABLE parts_1 PARTITION OF parts FOR VALUES IN (1);
CREATE TABLE parts_2 PARTITION OF parts FOR VALUES IN (2) PARTITION BY RANGE (id);
CREATE TABLE parts_2_low PARTITION OF parts_2 FOR VALUES FROM (0) TO (100);
SELECT streamq.add_source('parts');
CREATE TABLE parts_2_high PARTITION OF parts_2 FOR VALUES FROM (100) TO (200);
CREATE TABLE parts_3 (id int, k int, v text);
ALTER TABLE parts ATTACH PARTITION parts_3 FOR VALUES IN (3);
INSERT INTO parts VALUES (1, 1), (1, 2), (101, 2), (1, 3);
UPDATE parts SET v = 'x';
UPDATE parts SET k = 3 WHERE k = 1;
UPDATE parts_1 SET v = 'x';
UPDATE parts_2 SET v = 'x';
UPDATE parts_2_low SET v = 'x';
UPDATE parts_2_high SET v = 'x';
UPDATE parts_3 SET v = 'x';
SELECT tableoid::regclass, * FROM parts ORDER BY k, id;
-- a partition that leaves is an ordinary table again
ALTER TABLE parts DETACH PARTITION parts_3;
UPDATE parts_3 SET v = 'x';
ALTER TABLE parts_2 DETACH PARTITION parts_2_high;
UPDATE parts_2_high SET v = 'x';
-- a partition, alone or beside its root
SELECT streamq.add_source('parts_1');
SELECT streamq.add_source('parts_2');
SELECT source FROM streamq.sources ORDER BY source::text;
SELECT streamq.drop_source('parts');
SELECT streamq.add_source('parts_2_low');
UPDATE parts_2_low SET v = 'x';
-- then the root on top of it
SELECT streamq.add_source('parts');
SELECT source FROM streamq.sources ORDER BY source::text;
-- a source that becomes a partition of another source
CREATE TABLE parts_4 (id int, k int, v text);
SELECT streamq.add_source('parts_4');
ALTER TABLE parts ATTACH PARTITION parts_4 FOR VALUES IN (4);
INSERT INTO parts VALUES (1, 4);
UPDATE parts_4 SET v = 'x';
ALTER TABLE parts DETACH PARTITION parts_4;
UPDATE parts_4 SET v = 'x';
SELECT streamq.drop_source('parts_4');
UPDATE parts_4 SET v = 'x';
DROP TABLE parts, parts_3, parts_4, parts_2_high;
SELECT source FROM streamq.sources ORDER BY source::text;

--
-- inheritance: what a plain SELECT reads is what streams, or it is refused
--
CREATE TABLE family (id int);
CREATE TABLE family_child () INHERITS (family);
INSERT INTO family_child VALUES (1);
SELECT streamq.add_source('family');
UPDATE family_child SET id = 2;
UPDATE family SET id = 3;
CREATE TABLE alone (id int);
SELECT streamq.add_source('alone');
SELECT streamq.create_query('alone_q', 'SELECT id FROM alone');
CREATE TABLE alone_child () INHERITS (alone);
INSERT INTO alone VALUES (1);
INSERT INTO alone_child VALUES (2);
SELECT streamq.create_query('alone_q2', 'SELECT id FROM alone');
CALL streamq.run('alone_q');
SELECT streamq.create_query('only_q', 'SELECT id FROM ONLY alone');
CALL streamq.run('only_q');
SELECT * FROM test.compare('only_q');
SELECT streamq.wait('only_q', '0');
SELECT streamq.create_query('only_q2', 'SELECT id FROM ONLY alone', starting_position => 'latest');
SELECT streamq.reset('only_q2', 'latest');
SELECT streamq.drop_query('only_q2', drop_sink => true);
ALTER TABLE alone_child NO INHERIT alone;
CALL streamq.run('alone_q');
SELECT * FROM test.compare('alone_q');
SELECT streamq.drop_query('alone_q', drop_sink => true);
SELECT streamq.drop_query('only_q', drop_sink => true);
DROP TABLE alone_child, alone, family_child, family;

--
-- ALTER TABLE
--
CREATE TABLE altered (id int PRIMARY KEY, s varchar(10), n int);
INSERT INTO altered VALUES (1, 'one', 1);
SELECT streamq.add_source('altered');
-- refused: it would rewrite the table
ALTER TABLE altered ALTER COLUMN n TYPE bigint;
ALTER TABLE altered ADD COLUMN r double precision DEFAULT random();
ALTER TABLE altered ADD COLUMN i bigint GENERATED ALWAYS AS IDENTITY;
ALTER TABLE altered ADD COLUMN g int GENERATED ALWAYS AS (n * 2) STORED;
ALTER TABLE altered SET UNLOGGED;
-- allowed: it doesn't
ALTER TABLE altered ALTER COLUMN s TYPE varchar(20);
ALTER TABLE altered ALTER COLUMN s TYPE text;
ALTER TABLE altered ADD COLUMN c int DEFAULT 7;
ALTER TABLE altered ADD CHECK (n > 0);
ALTER TABLE altered ALTER COLUMN n SET NOT NULL;
ALTER TABLE altered DROP COLUMN s;
ALTER TABLE altered RENAME COLUMN n TO m;
ALTER TABLE altered SET (fillfactor = 90);
CREATE INDEX ON altered (m);
CLUSTER altered USING altered_pkey;
VACUUM FULL altered;
ALTER TABLE altered RENAME TO altered_now;
SELECT source FROM streamq.sources WHERE source = 'altered_now'::regclass;
SELECT * FROM altered_now;
-- partitions
CREATE TABLE aparts (id int, n int) PARTITION BY LIST (id);
CREATE TABLE aparts_1 PARTITION OF aparts FOR VALUES IN (1);
INSERT INTO aparts VALUES (1, 1);
SELECT streamq.add_source('aparts');
ALTER TABLE aparts ALTER COLUMN n TYPE bigint;
ALTER TABLE aparts_1 SET UNLOGGED;
ALTER TABLE aparts ADD COLUMN r double precision DEFAULT random();
ALTER TABLE aparts ADD COLUMN c int DEFAULT 7;
SELECT * FROM aparts;
-- a typed table, through its type
CREATE TYPE event AS (id int, n int);
CREATE TABLE typed OF event;
INSERT INTO typed VALUES (1, 1);
SELECT streamq.add_source('typed');
ALTER TYPE event ALTER ATTRIBUTE n TYPE bigint CASCADE;
-- other tables are nobody's business
CREATE TABLE other (a int);
INSERT INTO other VALUES (1);
ALTER TABLE other ALTER COLUMN a TYPE bigint;
CREATE TABLE others (a int, k int) PARTITION BY LIST (k);
CREATE TABLE others_1 PARTITION OF others DEFAULT;
INSERT INTO others VALUES (1);
ALTER TABLE others ALTER COLUMN a TYPE bigint;
UPDATE other SET a = 2;
UPDATE others SET a = 2;
-- after drop_source everything is allowed again
SELECT streamq.drop_source('altered_now');
ALTER TABLE altered_now ALTER COLUMN m TYPE bigint;
UPDATE altered_now SET m = 2;
SELECT streamq.drop_source('aparts');
ALTER TABLE aparts ALTER COLUMN n TYPE bigint;
UPDATE aparts_1 SET n = 2;
SELECT count(*) FROM pg_trigger t JOIN pg_class c ON c.oid = tgrelid
WHERE relname IN ('altered_now', 'aparts', 'aparts_1');

--
-- a dropped table is forgotten
--
SELECT source FROM streamq.sources ORDER BY source::text;
DROP TABLE plain CASCADE;
SELECT source FROM streamq.sources ORDER BY source::text;
DROP TABLE child;
-- a transaction rolled back brings it back
BEGIN;
DROP TABLE typed;
SELECT source FROM streamq.sources ORDER BY source::text;
ROLLBACK;
SELECT source FROM streamq.sources ORDER BY source::text;
DROP TYPE event CASCADE;
SELECT source FROM streamq.sources ORDER BY source::text;
-- unlogged tables, tables in a schema that goes
CREATE SCHEMA api_source2;
CREATE UNLOGGED TABLE api_source2.t (a int);
SELECT streamq.add_source('api_source2.t');
SET client_min_messages = warning;
DROP SCHEMA api_source2 CASCADE;
SELECT source FROM streamq.sources ORDER BY source::text;

DROP SCHEMA api_source CASCADE;
DROP SERVER regress_sq_dummy CASCADE;
DROP FOREIGN DATA WRAPPER regress_sq_dummy;
DROP ROLE regress_sq_owner, regress_sq_other;
SELECT source FROM streamq.sources ORDER BY source::text;
