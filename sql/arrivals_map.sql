--
-- The arrival map: what comes into a table, in whatever way, is known to it, and the
-- batches, which leave out blocks by it, miss nothing
--
SET client_min_messages = warning;
CREATE SCHEMA arrivals_map;
SET search_path = arrivals_map;

-- rows that the map does not know of (invariant MAP-1)
CREATE FUNCTION outside(source regclass, OUT n bigint) LANGUAGE plpgsql AS $$
DECLARE
	leaf regclass;
	more bigint;
BEGIN
	n := 0;
	FOR leaf IN SELECT relid FROM pg_partition_tree(source) WHERE isleaf UNION SELECT oid FROM pg_class WHERE oid = source AND relkind = 'r' LOOP
		EXECUTE format('SELECT count(*) FROM %s t LEFT JOIN streamq.arrivals(%L) a ON a.block = (t.ctid::text::point)[0]
			WHERE (t.xmin::text::xid8 BETWEEN a.least_xid AND a.greatest_xid) IS NOT TRUE', leaf, leaf) INTO more;
		n := n + more;
	END LOOP;
END $$;
-- and how far a sink is from its SELECT
CREATE FUNCTION verdict(query text, source regclass, OUT rows bigint, OUT outside_map bigint, OUT missing bigint, OUT unwanted bigint)
LANGUAGE plpgsql AS $$
BEGIN
	outside_map := outside(source);
	EXECUTE format('SELECT (SELECT count(*) FROM streamq_query.%1$I),
		(SELECT count(*) FROM (TABLE streamq_query.%1$I EXCEPT ALL TABLE %1$I) x),
		(SELECT count(*) FROM (TABLE %1$I EXCEPT ALL TABLE streamq_query.%1$I) x)', query)
	INTO rows, missing, unwanted;
END $$;
-- beyond all leases
CREATE PROCEDURE pass() LANGUAGE plpgsql AS $$
BEGIN
	FOR i IN 1 .. 200 LOOP
		PERFORM pg_current_xact_id();
		COMMIT;
	END LOOP;
END $$;
-- some blocks of rows
CREATE FUNCTION filler(a int, b int, OUT id int, OUT v text) RETURNS SETOF record LANGUAGE sql AS
	$$ SELECT g, repeat('x', 500) FROM generate_series(a, b) g $$;
\set check 'CALL streamq.run(\'q\'); CALL streamq.run(\'q_cut\'); SELECT \'q\' AS query, * FROM verdict(\'q\', \'t\') UNION ALL SELECT \'q_cut\', * FROM verdict(\'q_cut\', \'t\'); CALL pass()'

CREATE TABLE t (id int PRIMARY KEY, v text) WITH (autovacuum_enabled = off);
INSERT INTO t SELECT * FROM filler(1, 40);
ANALYZE t;
SELECT relpages, reltuples FROM pg_class WHERE oid = 't'::regclass;
SELECT streamq.add_source('t');
SELECT streamq.create_query('q', 'SELECT id, v FROM t');
SELECT streamq.create_query('q_cut', 'SELECT id, v FROM t', max_rows_per_batch => 15);
SELECT pg_get_indexdef(indexrelid) FROM pg_index WHERE indrelid = 't'::regclass ORDER BY indexrelid;
-- pg_class says what it said; the map of old rows is rough
SELECT relpages, reltuples FROM pg_class WHERE oid = 't'::regclass;
SELECT block, least_xid, greatest_xid < pg_current_xact_id() AS ended FROM streamq.arrivals('t') ORDER BY 1;
SELECT pending_pages, pending_rows FROM streamq.status WHERE name = 'q';
:check;
SELECT pending_pages, pending_rows FROM streamq.status WHERE name = 'q';

-- ---------------------------------------------------------- ways to come in
-- single rows, several, COPY
INSERT INTO t VALUES (101, 'single');
INSERT INTO t VALUES (102, 'multi'), (103, 'multi');
COPY t FROM STDIN;
104	copy
105	copy
\.
SELECT pending_pages, pending_rows FROM streamq.status WHERE name = 'q';
:check;
INSERT INTO t SELECT * FROM filler(111, 190);
SELECT pending_pages, pending_rows FROM streamq.status WHERE name = 'q';
:check;
SELECT block, least_xid = lag(least_xid) OVER w AS same_least, greatest_xid = lag(greatest_xid) OVER w AS same_greatest
FROM streamq.arrivals('t') WINDOW w AS (ORDER BY block) ORDER BY 1;
-- ON CONFLICT
INSERT INTO t SELECT * FROM filler(185, 230) ON CONFLICT DO NOTHING;
:check;
-- MERGE
MERGE INTO t USING filler(225, 260) s ON t.id = s.id WHEN NOT MATCHED THEN INSERT VALUES (s.id, s.v);
:check;
-- savepoints, nested, some rolled back
BEGIN;
INSERT INTO t SELECT * FROM filler(301, 330);
SAVEPOINT a;
INSERT INTO t SELECT * FROM filler(331, 360);
SAVEPOINT b;
INSERT INTO t SELECT * FROM filler(361, 390);
ROLLBACK TO b;
INSERT INTO t SELECT * FROM filler(361, 370);
RELEASE a;
SAVEPOINT c;
INSERT INTO t SELECT * FROM filler(371, 380);
ROLLBACK TO c;
COMMIT;
:check;
DO $$
BEGIN
	FOR i IN 401 .. 500 LOOP
		BEGIN
			INSERT INTO t SELECT * FROM filler(i, i);
			IF i % 3 = 0 THEN
				RAISE EXCEPTION 'rolled back';
			END IF;
		EXCEPTION WHEN raise_exception THEN
			NULL;
		END;
	END LOOP;
END $$;
:check;
-- an abort leaves nothing in the map
SELECT max(block) FROM streamq.arrivals('t');
BEGIN;
INSERT INTO t SELECT * FROM filler(1001, 1500);
ROLLBACK;
SELECT max(block) FROM streamq.arrivals('t');
:check;
-- rows of before a cursor, a function, a trigger that is deferred
CREATE FUNCTION more() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	INSERT INTO t SELECT * FROM filler(NEW.id + 1, NEW.id + 30);
	RETURN NULL;
END $$;
CREATE TABLE other (id int);
CREATE CONSTRAINT TRIGGER more AFTER INSERT ON other DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION more();
BEGIN;
INSERT INTO other VALUES (600);
COMMIT;
:check;

-- ------------------------------------------------- when the map gets another file
-- TRUNCATE, rolled back, with rows before and after
BEGIN;
INSERT INTO t SELECT * FROM filler(701, 730);
SAVEPOINT a;
TRUNCATE t;
INSERT INTO t SELECT * FROM filler(1, 200);
ROLLBACK TO a;
INSERT INTO t SELECT * FROM filler(731, 760);
COMMIT;
:check;
-- rebuilt in a transaction, rolled back and not
BEGIN;
INSERT INTO t SELECT * FROM filler(801, 830);
SAVEPOINT a;
REINDEX INDEX t_arrivals;
INSERT INTO t SELECT * FROM filler(831, 860);
ROLLBACK TO a;
INSERT INTO t SELECT * FROM filler(861, 890);
COMMIT;
:check;
BEGIN;
INSERT INTO t SELECT * FROM filler(901, 930);
REINDEX TABLE t;
INSERT INTO t SELECT * FROM filler(931, 960);
COMMIT;
:check;
-- CLUSTER after insertions, rolled back and not
BEGIN;
INSERT INTO t SELECT * FROM filler(1001, 1030);
SAVEPOINT a;
CLUSTER t USING t_pkey;
INSERT INTO t SELECT * FROM filler(1031, 1060);
ROLLBACK TO a;
INSERT INTO t SELECT * FROM filler(1061, 1090);
COMMIT;
:check;
BEGIN;
INSERT INTO t SELECT * FROM filler(1101, 1130);
CLUSTER t USING t_pkey;
INSERT INTO t SELECT * FROM filler(1131, 1160);
COMMIT;
:check;
-- dropped and rolled back; dropped and made by hand
BEGIN;
INSERT INTO t SELECT * FROM filler(1201, 1230);
SAVEPOINT a;
DROP INDEX t_arrivals;
INSERT INTO t SELECT * FROM filler(1231, 1260);
ROLLBACK TO a;
INSERT INTO t SELECT * FROM filler(1261, 1290);
COMMIT;
:check;
BEGIN;
INSERT INTO t SELECT * FROM filler(1301, 1330);
DROP INDEX t_arrivals;
INSERT INTO t SELECT * FROM filler(1331, 1360);
CREATE INDEX t_arrivals ON t USING streamq_arrivals ((1));
INSERT INTO t SELECT * FROM filler(1361, 1390);
COMMIT;
:check;
-- another file by another tablespace, rolled back and not
SET allow_in_place_tablespaces = on;
CREATE TABLESPACE regress_arrivals_map LOCATION '';
BEGIN;
INSERT INTO t SELECT * FROM filler(11301, 11330);
ALTER INDEX t_arrivals SET TABLESPACE regress_arrivals_map;
INSERT INTO t SELECT * FROM filler(11331, 11360);
SAVEPOINT a;
ALTER INDEX t_arrivals SET TABLESPACE pg_default;
INSERT INTO t SELECT * FROM filler(11361, 11390);
ROLLBACK TO a;
INSERT INTO t SELECT * FROM filler(11391, 11420);
COMMIT;
:check;
-- outside of transactions
INSERT INTO t SELECT * FROM filler(1401, 1430);
REINDEX INDEX CONCURRENTLY t_arrivals;
INSERT INTO t SELECT * FROM filler(1431, 1460);
:check;
INSERT INTO t SELECT * FROM filler(1501, 1530);
DROP INDEX CONCURRENTLY t_arrivals;
INSERT INTO t SELECT * FROM filler(1531, 1560);
SELECT pending_pages, pending_rows FROM streamq.status WHERE name = 'q';
SELECT * FROM streamq.arrivals('t');
CALL streamq.run('q');
CREATE INDEX CONCURRENTLY t_arrivals ON t USING streamq_arrivals ((1));
INSERT INTO t SELECT * FROM filler(1561, 1590);
:check;
INSERT INTO t SELECT * FROM filler(1601, 1630);
VACUUM t;
VACUUM (FREEZE, ANALYZE) t;
INSERT INTO t SELECT * FROM filler(1631, 1660);
:check;
INSERT INTO t SELECT * FROM filler(1701, 1730);
VACUUM (FULL) t;
SELECT relpages = pg_relation_size('t') / current_setting('block_size')::int AS relpages, reltuples = (SELECT count(*) FROM t) AS reltuples
FROM pg_class WHERE oid = 't'::regclass;
INSERT INTO t SELECT * FROM filler(1731, 1760);
:check;
ANALYZE t;
SELECT relpages = pg_relation_size('t') / current_setting('block_size')::int AS relpages, reltuples = (SELECT count(*) FROM t) AS reltuples
FROM pg_class WHERE oid = 't'::regclass;
-- columns come and go
INSERT INTO t SELECT * FROM filler(1801, 1830);
ALTER TABLE t ADD COLUMN more int DEFAULT 5;
INSERT INTO t SELECT * FROM filler(1831, 1860);
ALTER TABLE t DROP COLUMN more;
ALTER TABLE t ALTER COLUMN v SET STORAGE external;
INSERT INTO t SELECT * FROM filler(1861, 1890);
:check;
-- the end of the table is cut off, and comes again
DELETE FROM t WHERE id > 200;
VACUUM t;
TRUNCATE q, q_cut;
INSERT INTO q SELECT * FROM t;
INSERT INTO q_cut SELECT * FROM t;
INSERT INTO t SELECT * FROM filler(1901, 2000);
:check;
-- TRUNCATE for good, twice, and frozen rows
BEGIN;
TRUNCATE t, q, q_cut;
INSERT INTO t SELECT * FROM filler(1, 30);
TRUNCATE t;
INSERT INTO t SELECT * FROM filler(31, 60);
COMMIT;
:check;
BEGIN;
TRUNCATE t, q, q_cut;
COPY t FROM STDIN (FREEZE);
1	frozen
2	frozen
\.
INSERT INTO t SELECT * FROM filler(31, 60);
COMMIT;
:check;
-- two maps, of which one goes
CREATE INDEX second ON t USING streamq_arrivals (id);
INSERT INTO t SELECT * FROM filler(61, 90);
:check;
DROP INDEX t_arrivals;
INSERT INTO t SELECT * FROM filler(91, 120);
:check;

-- ------------------------------------------------------ it is never scanned
SET enable_seqscan = off;
EXPLAIN (COSTS OFF) SELECT * FROM t WHERE id + 1 = 1;
EXPLAIN (COSTS OFF) SELECT * FROM t WHERE 1 = id % 2 ORDER BY v;
ALTER TABLE t DROP CONSTRAINT t_pkey;
ALTER TABLE t ALTER id DROP NOT NULL;
EXPLAIN (COSTS OFF) SELECT * FROM t WHERE id = 1;
EXPLAIN (COSTS OFF) SELECT max(id) FROM t WHERE id IS NOT NULL;
EXPLAIN (COSTS OFF) SELECT * FROM t a JOIN t b ON a.id = b.id WHERE a.id IN (1, 2);
EXPLAIN (COSTS OFF) SELECT count(*) FROM t WHERE id IS NULL OR id < 0;
EXPLAIN (COSTS OFF) SELECT DISTINCT id FROM t ORDER BY id LIMIT 1;
RESET enable_seqscan;
INSERT INTO t VALUES (0, '') ON CONFLICT (id) DO NOTHING;
INSERT INTO t VALUES (0, '') ON CONFLICT ((1)) DO NOTHING;
CLUSTER t USING second;
ALTER TABLE t REPLICA IDENTITY USING INDEX second;
DROP INDEX second;
SELECT amvalidate(oid) FROM pg_opclass WHERE opcname = 'arrivals_ops';

-- --------------------------------------------------------- what is refused
CREATE TABLE r (id int, v text);
CREATE INDEX ON r USING streamq_arrivals ((1)) WHERE id > 0;
CREATE INDEX ON r USING streamq_arrivals ((1)) WITH (fillfactor = 50);
CREATE INDEX ON r USING streamq_arrivals (v);
CREATE INDEX ON r USING streamq_arrivals (id, (1));
CREATE INDEX ON r USING streamq_arrivals ((1)) INCLUDE (v);
CREATE INDEX ON r USING streamq_arrivals ((1) DESC);
CREATE UNIQUE INDEX ON r USING streamq_arrivals ((1));
ALTER TABLE r ADD EXCLUDE USING streamq_arrivals (id WITH =);
CREATE INDEX r_arrivals ON r USING streamq_arrivals ((1));
ALTER INDEX r_arrivals SET (fillfactor = 50);
SELECT * FROM streamq.arrivals('r');
SELECT * FROM streamq.arrivals('t');
\set VERBOSITY sqlstate
SELECT * FROM streamq.arrivals('r_arrivals');
\set VERBOSITY default
SELECT * FROM streamq.arrivals('streamq.status');
SELECT * FROM streamq.arrivals(NULL);
SELECT * FROM streamq.arrivals(1);
SELECT * FROM streamq.pending('nobody');
SELECT * FROM streamq.pending(NULL);

-- ------------------------------------------------- add_source, drop_source
-- names
CREATE TABLE u (id int);
CREATE TABLE u_arrivals (id int);
SELECT streamq.add_source('u');
CREATE TABLE "Quoted "" Name" (id int);
SELECT streamq.add_source('"Quoted "" Name"');
CREATE TABLE a_name_that_is_as_long_as_a_name_can_be_in_this_database_system (id int);
SELECT streamq.add_source('a_name_that_is_as_long_as_a_name_can_be_in_this_database_system');
SELECT indexrelid::regclass FROM pg_index i JOIN pg_class c ON c.oid = indexrelid JOIN pg_am a ON a.oid = relam
WHERE amname = 'streamq_arrivals' AND relnamespace = 'arrivals_map'::regnamespace ORDER BY indexrelid;
SELECT streamq.drop_source('u'), streamq.drop_source('"Quoted "" Name"'),
	streamq.drop_source('a_name_that_is_as_long_as_a_name_can_be_in_this_database_system');
SELECT indexrelid::regclass FROM pg_index i JOIN pg_class c ON c.oid = indexrelid JOIN pg_am a ON a.oid = relam
WHERE amname = 'streamq_arrivals' AND relnamespace = 'arrivals_map'::regnamespace ORDER BY indexrelid;
-- one that is there already, and does not know of new versions of rows
CREATE TABLE h (id int, v int) WITH (fillfactor = 50);
CREATE INDEX h_map ON h USING streamq_arrivals ((1));
INSERT INTO h SELECT g, 0 FROM generate_series(1, 500) g;
CALL pass();
UPDATE h SET v = 1 WHERE id = 250;
SELECT outside('h');
SELECT streamq.add_source('h');
SELECT outside('h');
SELECT pg_get_indexdef(indexrelid) FROM pg_index WHERE indrelid = 'h'::regclass;
-- the same in a partition that is attached
CREATE TABLE p (id int, k int) PARTITION BY LIST (k);
SELECT streamq.add_source('p');
CREATE TABLE p1 (id int, k int) WITH (fillfactor = 50);
CREATE INDEX p1_map ON p1 USING streamq_arrivals ((1));
INSERT INTO p1 SELECT g, 1 FROM generate_series(1, 500) g;
CALL pass();
UPDATE p1 SET id = 0 WHERE id = 250;
SELECT outside('p1');
ALTER TABLE p ATTACH PARTITION p1 FOR VALUES IN (1);
SELECT outside('p');
-- partitions of all ages, and below them
CREATE TABLE p2 PARTITION OF p FOR VALUES IN (2, 3) PARTITION BY LIST (k);
CREATE TABLE p22 PARTITION OF p2 FOR VALUES IN (2);
SELECT streamq.create_query('qp', 'SELECT id, k FROM p');
INSERT INTO p SELECT g, g % 2 + 1 FROM generate_series(1001, 1500) g;
CALL streamq.run('qp');
SELECT * FROM verdict('qp', 'p');
CALL pass();
BEGIN;
INSERT INTO p SELECT g, g % 2 + 1 FROM generate_series(2001, 2500) g;
CREATE TABLE p3 (id int, k int);
INSERT INTO p3 SELECT g, 3 FROM generate_series(2501, 3000) g;
ALTER TABLE p2 ATTACH PARTITION p3 FOR VALUES IN (3);
INSERT INTO p SELECT g, g % 3 + 1 FROM generate_series(3001, 3500) g;
COMMIT;
CALL streamq.run('qp');
SELECT * FROM verdict('qp', 'p');
CALL pass();
ALTER TABLE p DETACH PARTITION p1;
INSERT INTO p1 SELECT g, 1 FROM generate_series(4001, 4500) g;
UPDATE p1 SET id = 9999 WHERE id = 4500;
CALL pass();
CALL streamq.run('qp');
ALTER TABLE p ATTACH PARTITION p1 FOR VALUES IN (1);
CALL streamq.run('qp');
SELECT * FROM verdict('qp', 'p');
SELECT pending_pages, pending_rows FROM streamq.status WHERE name = 'qp';
-- a source within a source: whichever goes first, the other keeps a map
SELECT streamq.add_source('p2');
SELECT streamq.add_source('p22');
CREATE VIEW maps AS SELECT indrelid::regclass AS source, indexrelid::regclass AS map, indisvalid FROM pg_index JOIN pg_class c ON c.oid = indexrelid JOIN pg_am a ON a.oid = relam
WHERE amname = 'streamq_arrivals' AND indrelid IN ('p'::regclass, 'p1'::regclass, 'p2'::regclass, 'p22'::regclass, 'p3'::regclass);
SELECT source, map, indisvalid FROM maps ORDER BY 1, 2;
SELECT streamq.drop_query('qp');
SELECT streamq.drop_source('p');
SELECT source, map, indisvalid FROM maps ORDER BY 1, 2;
SELECT streamq.add_source('p');
SELECT source, map, indisvalid FROM maps ORDER BY 1, 2;
SELECT streamq.drop_source('p2');
SELECT streamq.drop_source('p22');
SELECT source, map, indisvalid FROM maps ORDER BY 1, 2;
INSERT INTO p SELECT g, g % 3 + 1 FROM generate_series(5001, 5500) g;
SELECT outside('p');
SELECT streamq.drop_source('p');
SELECT source, map, indisvalid FROM maps ORDER BY 1, 2;
-- a partition's source first, then the whole; and the whole goes first
SELECT streamq.add_source('p22');
SELECT streamq.add_source('p');
SELECT source, map, indisvalid FROM maps ORDER BY 1, 2;
SELECT streamq.drop_source('p');
SELECT source, map, indisvalid FROM maps ORDER BY 1, 2;
SELECT streamq.drop_source('p22');
SELECT source, map, indisvalid FROM maps ORDER BY 1, 2;
-- CREATE TABLE LIKE takes the map along, for temporary tables too
CREATE TABLE l (LIKE h INCLUDING ALL);
INSERT INTO l SELECT g, 0 FROM generate_series(1, 1000) g;
SELECT outside('l');
CREATE TEMP TABLE l_temp (LIKE h INCLUDING ALL) ON COMMIT DELETE ROWS;
BEGIN;
INSERT INTO l_temp SELECT g, 0 FROM generate_series(1, 1000) g;
COMMIT;
BEGIN;
INSERT INTO l_temp SELECT g, 0 FROM generate_series(1, 1000) g;
SAVEPOINT a;
TRUNCATE l_temp;
ROLLBACK TO a;
SELECT count(*) FROM l_temp;
COMMIT;
SELECT * FROM streamq.arrivals('l_temp');
CREATE TEMP TABLE l_drop (LIKE h INCLUDING ALL) ON COMMIT PRESERVE ROWS;
INSERT INTO l_drop SELECT g, 0 FROM generate_series(1, 1000) g;
SELECT outside('l_drop');
-- unlogged
CREATE UNLOGGED TABLE unlogged (id int, v text);
SELECT streamq.add_source('unlogged');
SELECT streamq.create_query('q_unlogged', 'SELECT id FROM unlogged');
INSERT INTO unlogged SELECT * FROM filler(1, 100);
CALL streamq.run('q_unlogged');
CALL pass();
INSERT INTO unlogged SELECT * FROM filler(101, 200);
CALL streamq.run('q_unlogged');
SELECT * FROM verdict('q_unlogged', 'unlogged');

-- ------------------------------------------------------------------- rights
CREATE ROLE arrivals_owner;
CREATE ROLE arrivals_other;
CREATE SCHEMA arrivals_closed;
CREATE TABLE arrivals_closed.c (id int);
ALTER TABLE arrivals_closed.c OWNER TO arrivals_owner;
GRANT USAGE ON SCHEMA arrivals_closed, arrivals_map TO arrivals_owner, arrivals_other;
GRANT CREATE ON SCHEMA arrivals_map TO arrivals_owner;
GRANT SELECT ON arrivals_closed.c TO arrivals_other;
SET ROLE arrivals_owner;
CREATE INDEX ON arrivals_closed.c (id);
SELECT streamq.add_source('arrivals_closed.c');
SELECT streamq.create_query('qc', 'SELECT id FROM arrivals_closed.c', sink => 'arrivals_map.qc');
INSERT INTO arrivals_closed.c SELECT generate_series(1, 1000);
SELECT count(*) FROM streamq.arrivals('arrivals_closed.c');
SELECT * FROM streamq.pending('qc');
SET ROLE arrivals_other;
SELECT count(*) FROM streamq.arrivals('arrivals_closed.c');
SELECT * FROM streamq.pending('qc');
SELECT pending_pages, pending_rows FROM streamq.status WHERE name = 'qc';
SET ROLE arrivals_owner;
CALL streamq.run('qc');
SELECT * FROM streamq.pending('qc');
SELECT indexrelid::regclass, relowner::regrole FROM pg_index JOIN pg_class c ON c.oid = indexrelid WHERE indrelid = 'arrivals_closed.c'::regclass;
SELECT streamq.drop_query('qc', true);
SELECT streamq.drop_source('arrivals_closed.c');
SELECT indexrelid::regclass, relowner::regrole FROM pg_index JOIN pg_class c ON c.oid = indexrelid WHERE indrelid = 'arrivals_closed.c'::regclass;
RESET ROLE;
DROP SCHEMA arrivals_closed CASCADE;
REVOKE ALL ON SCHEMA arrivals_map FROM arrivals_owner, arrivals_other;
DROP ROLE arrivals_owner, arrivals_other;

-- a map made anew is looked through once, not each time
CREATE TABLE wide (id int, filler text);
SELECT streamq.add_source('wide');
SELECT streamq.create_query('narrow', 'SELECT id FROM wide');
INSERT INTO wide SELECT g, repeat('x', 1000) FROM generate_series(1, 3000) g;
CALL streamq.run('narrow');
CALL streamq.run('narrow');
REINDEX INDEX wide_arrivals;
CALL streamq.run('narrow');
CALL streamq.run('narrow');
SELECT count(*), count(DISTINCT id) FROM narrow;
SELECT streamq.drop_query('narrow', drop_sink => true);
DROP TABLE wide;

SELECT streamq.drop_query('q_unlogged', true);
SELECT streamq.drop_query('q', true);
SELECT streamq.drop_query('q_cut', true);
DROP SCHEMA arrivals_map CASCADE;
DROP TABLESPACE regress_arrivals_map;
