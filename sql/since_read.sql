--
-- streamq.current_offset() and TABLESAMPLE streamq.since(): increments for any client
--
CREATE SCHEMA since_read;
SET search_path = since_read;
CREATE TABLE t (id int, v text);
SELECT streamq.add_source('t');

SELECT streamq.current_offset() AS o0 \gset
INSERT INTO t VALUES (1, 'one'), (2, 'two');
SELECT streamq.current_offset() AS o1 \gset
INSERT INTO t VALUES (3, 'three');
INSERT INTO t VALUES (4, 'four');
SELECT streamq.current_offset() AS o2 \gset
SELECT streamq.current_offset() AS o3 \gset
INSERT INTO t VALUES (5, 'five');
SELECT streamq.current_offset() AS o4 \gset

SELECT id FROM t TABLESAMPLE streamq.since(:'o0', :'o1') ORDER BY id;
SELECT id FROM t TABLESAMPLE streamq.since(:'o1', :'o2') ORDER BY id;
SELECT id FROM t TABLESAMPLE streamq.since(:'o2', :'o3') ORDER BY id;
SELECT id FROM t TABLESAMPLE streamq.since(:'o3', :'o4') ORDER BY id;
SELECT id FROM t TABLESAMPLE streamq.since(:'o0', :'o4') ORDER BY id;
SELECT id FROM t TABLESAMPLE streamq.since(:'o4', :'o4') ORDER BY id;
SELECT id FROM t TABLESAMPLE streamq.since(:'o1', streamq.current_offset()) ORDER BY id;
-- everything, from the first transaction on
SELECT id FROM t TABLESAMPLE streamq.since('1:1:', :'o2') ORDER BY id;
SELECT id FROM t TABLESAMPLE streamq.since('3:3:', :'o4') ORDER BY id;
-- backwards there is nothing
SELECT id FROM t TABLESAMPLE streamq.since(:'o4', :'o1') ORDER BY id;

-- with the rest of a query
SELECT id, upper(v) FROM t TABLESAMPLE streamq.since(:'o0', :'o4') WHERE id % 2 = 1 ORDER BY id;
SELECT count(*), sum(id) FROM t TABLESAMPLE streamq.since(:'o1', :'o4');
-- two increments of one table
SELECT a.id, b.id FROM t a TABLESAMPLE streamq.since(:'o0', :'o1') JOIN t b TABLESAMPLE streamq.since(:'o1', :'o2') ON a.id + 2 = b.id ORDER BY 1;
SELECT a.id FROM t a TABLESAMPLE streamq.since(:'o1', :'o2') LEFT JOIN t b USING (id) ORDER BY 1;
-- scanned again and again, with other offsets each time
SET enable_hashjoin = off;
SET enable_mergejoin = off;
SET enable_material = off;
SET enable_memoize = off;
SELECT x.id, y.id FROM t x, t y TABLESAMPLE streamq.since(:'o1', :'o2') WHERE x.id < y.id ORDER BY 1, 2;
SELECT o.n, x.id FROM (VALUES (1, :'o0'::pg_snapshot, :'o1'::pg_snapshot), (2, :'o1', :'o2'), (3, :'o2', :'o3'), (4, :'o3', :'o4')) o (n, a, b)
	LEFT JOIN LATERAL (SELECT id FROM t TABLESAMPLE streamq.since(o.a, o.b)) x ON true ORDER BY 1, 2;
RESET enable_hashjoin;
RESET enable_mergejoin;
RESET enable_material;
RESET enable_memoize;
-- as parameters of a prepared statement, in a generic plan too
PREPARE increment(pg_snapshot, pg_snapshot) AS SELECT id FROM t TABLESAMPLE streamq.since($1, $2) ORDER BY id;
EXECUTE increment(:'o0', :'o1');
SET plan_cache_mode = force_generic_plan;
EXECUTE increment(:'o1', :'o2');
EXECUTE increment(:'o3', :'o4');
RESET plan_cache_mode;
EXPLAIN (COSTS OFF) SELECT id FROM t TABLESAMPLE streamq.since('5:5:', '9:9:');
-- arguments computed at run time, and row after row of memory used in between
INSERT INTO t SELECT 100, 'same' FROM generate_series(1, 2000);
SELECT streamq.current_offset() AS o4b \gset
SELECT count(*) FROM t TABLESAMPLE streamq.since(('1:1:' || substr(now()::text, 1, 0))::pg_snapshot, streamq.current_offset())
WHERE repeat(chr(97 + id % 7), 10) || repeat(v, 20) || repeat(v, 40) || repeat(v, 80) || repeat(v, 200) > '';
DELETE FROM t WHERE id = 100;
-- in a cursor, in a function
BEGIN;
DECLARE c CURSOR FOR SELECT id FROM t TABLESAMPLE streamq.since(:'o0', :'o4') ORDER BY id;
FETCH 2 FROM c;
FETCH ALL FROM c;
COMMIT;
CREATE FUNCTION increment(a pg_snapshot, b pg_snapshot) RETURNS SETOF int LANGUAGE plpgsql AS $$
BEGIN
	RETURN QUERY SELECT id FROM since_read.t TABLESAMPLE streamq.since(a, b) ORDER BY id;
END $$;
SELECT * FROM increment(:'o1', :'o2');
-- many pages, and not one row twice
INSERT INTO t SELECT g, repeat('x', 200) FROM generate_series(1000, 4999) g;
SELECT streamq.current_offset() AS o5 \gset
INSERT INTO t SELECT g, repeat('x', 200) FROM generate_series(5000, 8999) g;
SELECT streamq.current_offset() AS o6 \gset
SELECT count(*), count(DISTINCT id), min(id), max(id) FROM t TABLESAMPLE streamq.since(:'o4', :'o5');
SELECT count(*), count(DISTINCT id), min(id), max(id) FROM t TABLESAMPLE streamq.since(:'o5', :'o6');
DELETE FROM t WHERE id % 2 = 0 AND id > 1000;
SELECT count(*), count(DISTINCT id), min(id), max(id) FROM t TABLESAMPLE streamq.since(:'o5', :'o6');
VACUUM t;
SELECT count(*), count(DISTINCT id), min(id), max(id) FROM t TABLESAMPLE streamq.since(:'o5', :'o6');
-- neither freezing nor a rewrite of the file changes anything
VACUUM FREEZE t;
SELECT count(*), count(DISTINCT id) FROM t TABLESAMPLE streamq.since(:'o5', :'o6');
VACUUM FULL t;
SELECT count(*), count(DISTINCT id) FROM t TABLESAMPLE streamq.since(:'o5', :'o6');
CREATE INDEX t_id ON t (id DESC);
CLUSTER t USING t_id;
SELECT count(*), count(DISTINCT id) FROM t TABLESAMPLE streamq.since(:'o5', :'o6');
SELECT id FROM t TABLESAMPLE streamq.since(:'o0', :'o4') ORDER BY id;
-- an empty table, a truncated one
TRUNCATE t;
SELECT count(*) FROM t TABLESAMPLE streamq.since(:'o0', :'o6');
SELECT count(*) FROM t TABLESAMPLE streamq.since('1:1:', streamq.current_offset());

--
-- the own transaction: its rows belong to a later increment
--
SELECT streamq.current_offset() AS o0 \gset
BEGIN;
INSERT INTO t VALUES (1, 'kept');
SELECT streamq.current_offset() AS o1 \gset
SELECT count(*) FROM t TABLESAMPLE streamq.since(:'o0', :'o1');
SAVEPOINT a;
INSERT INTO t VALUES (2, 'rolled back');
SELECT streamq.current_offset() AS o2 \gset
SELECT count(*) FROM t TABLESAMPLE streamq.since(:'o1', :'o2');
ROLLBACK TO a;
INSERT INTO t VALUES (3, 'kept, after the rollback');
RELEASE a;
SAVEPOINT b;
INSERT INTO t VALUES (4, 'kept, in a savepoint');
SELECT streamq.current_offset() AS o3 \gset
RELEASE b;
INSERT INTO t VALUES (5, 'kept, last');
SELECT streamq.current_offset() AS o4 \gset
SELECT count(*) FROM t TABLESAMPLE streamq.since(:'o0', :'o4');
COMMIT;
SELECT streamq.current_offset() AS o5 \gset
SELECT 1, id FROM t TABLESAMPLE streamq.since(:'o0', :'o1')
UNION ALL SELECT 2, id FROM t TABLESAMPLE streamq.since(:'o1', :'o2')
UNION ALL SELECT 3, id FROM t TABLESAMPLE streamq.since(:'o2', :'o3')
UNION ALL SELECT 4, id FROM t TABLESAMPLE streamq.since(:'o3', :'o4')
UNION ALL SELECT 5, id FROM t TABLESAMPLE streamq.since(:'o4', :'o5') ORDER BY 1, 2;
-- more than 64 subtransactions, half of them rolled back
BEGIN;
DO $$
BEGIN
	FOR i IN 1..200 LOOP
		BEGIN
			INSERT INTO since_read.t VALUES (10000 + i, 'sub');
			IF i % 2 = 0 THEN
				RAISE EXCEPTION 'no';
			END IF;
		EXCEPTION WHEN raise_exception THEN
			NULL;
		END;
	END LOOP;
END $$;
SELECT streamq.current_offset() AS o6 \gset
SELECT count(*) FROM t TABLESAMPLE streamq.since(:'o5', :'o6');
COMMIT;
SELECT streamq.current_offset() AS o7 \gset
SELECT count(*) FROM t TABLESAMPLE streamq.since(:'o5', :'o6');
SELECT count(*), count(DISTINCT id) FROM t TABLESAMPLE streamq.since(:'o6', :'o7');
-- asking costs no transaction id, and works where nothing may be written
BEGIN READ ONLY;
SELECT streamq.current_offset() IS NOT NULL AS given;
SELECT pg_current_xact_id_if_assigned() IS NULL AS no_xid;
SELECT count(*) FROM t TABLESAMPLE streamq.since(:'o6', streamq.current_offset());
COMMIT;
-- in one snapshot the offset doesn't move
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT streamq.current_offset() AS r1 \gset
INSERT INTO t VALUES (20000, 'own');
SELECT streamq.current_offset() AS r2 \gset
SELECT count(*) FROM t TABLESAMPLE streamq.since(:'r1', :'r2');
COMMIT;
SELECT id FROM t TABLESAMPLE streamq.since(:'r2', streamq.current_offset());
-- what pg_current_snapshot() takes for finished is finished, and the other way round
SELECT pg_snapshot_xmax(streamq.current_offset()) = pg_snapshot_xmax(pg_current_snapshot()) AS same_xmax;

--
-- partitions, each with its own rows
--
CREATE TABLE p (id int, k int) PARTITION BY LIST (k);
CREATE TABLE p1 PARTITION OF p FOR VALUES IN (1);
CREATE TABLE p2 PARTITION OF p FOR VALUES IN (2) PARTITION BY LIST (id);
CREATE TABLE p2d PARTITION OF p2 DEFAULT;
SELECT streamq.add_source('p');
SELECT streamq.current_offset() AS o0 \gset
INSERT INTO p VALUES (1, 1), (2, 2);
SELECT streamq.current_offset() AS o1 \gset
INSERT INTO p VALUES (3, 1), (4, 2);
SELECT streamq.current_offset() AS o2 \gset
SELECT tableoid::regclass, * FROM p TABLESAMPLE streamq.since(:'o0', :'o1') ORDER BY id;
SELECT tableoid::regclass, * FROM p TABLESAMPLE streamq.since(:'o1', :'o2') ORDER BY id;
SELECT id FROM p TABLESAMPLE streamq.since(:'o0', :'o2') WHERE k = 1 ORDER BY id;
SELECT id FROM p2 TABLESAMPLE streamq.since(:'o0', :'o2') ORDER BY id;
-- attached rows are as old as they are: one offset for all partitions misses them
CREATE TABLE p3 (id int, k int);
SELECT streamq.current_offset() AS a0 \gset
INSERT INTO p3 VALUES (5, 3);
SELECT streamq.current_offset() AS o3 \gset
ALTER TABLE p ATTACH PARTITION p3 FOR VALUES IN (3);
SELECT streamq.current_offset() AS o4 \gset
SELECT id FROM p TABLESAMPLE streamq.since(:'o3', :'o4') ORDER BY id;
SELECT id FROM p TABLESAMPLE streamq.since(:'o2', :'o4') ORDER BY id;
EXPLAIN (COSTS OFF) SELECT id FROM p TABLESAMPLE streamq.since('5:5:', '9:9:') WHERE k < 3;

--
-- rows that COPY FREEZE wrote come once
--
SELECT streamq.current_offset() AS o0 \gset
BEGIN;
CREATE TABLE frozen (id int);
COPY frozen FROM STDIN FREEZE;
1
2
\.
COMMIT;
SELECT streamq.current_offset() AS o1 \gset
SELECT count(*) FROM frozen TABLESAMPLE streamq.since(:'o0', :'o1');
SELECT count(*) FROM frozen TABLESAMPLE streamq.since(:'o1', streamq.current_offset());
SELECT count(*) FROM frozen TABLESAMPLE streamq.since('1:1:', :'o0');

--
-- tables that are no sources, materialized views
--
CREATE TABLE ordinary (id int);
SELECT streamq.current_offset() AS o0 \gset
INSERT INTO ordinary VALUES (1);
SELECT id FROM ordinary TABLESAMPLE streamq.since(:'o0', streamq.current_offset());
\set VERBOSITY terse
CREATE VIEW a_view AS SELECT * FROM t;
SELECT * FROM a_view TABLESAMPLE streamq.since(:'o0', streamq.current_offset());

--
-- inside a streaming query, beside the stream: by its own arguments
--
CREATE TABLE beside (id int);
INSERT INTO beside VALUES (1), (2);
SELECT streamq.current_offset() AS b1 \gset
INSERT INTO beside VALUES (3);
SELECT streamq.current_offset() AS b2 \gset
INSERT INTO beside VALUES (4);
CREATE FUNCTION inlined(a pg_snapshot, b pg_snapshot) RETURNS SETOF int LANGUAGE sql STABLE AS
	'SELECT id FROM since_read.beside TABLESAMPLE streamq.since(a, b)';
CREATE FUNCTION called(a pg_snapshot, b pg_snapshot) RETURNS SETOF int LANGUAGE plpgsql STABLE AS
	'BEGIN RETURN QUERY SELECT id FROM since_read.beside TABLESAMPLE streamq.since(a, b); END';
CREATE TABLE stream (id int);
SELECT streamq.add_source('stream');
SELECT count(streamq.create_query(name, format(query, :'b1', :'b2'))) FROM (VALUES
	('by table', 'SELECT s.id, b.id AS other FROM stream s CROSS JOIN beside b TABLESAMPLE streamq.since(%L, %L)'),
	('by subquery', 'SELECT s.id FROM stream s WHERE EXISTS (SELECT FROM beside b TABLESAMPLE streamq.since(%L, %L) WHERE b.id = s.id)'),
	('by inlined function', 'SELECT s.id, f AS other FROM stream s, since_read.inlined(%L, %L) f'),
	('by function', 'SELECT s.id, f AS other FROM stream s, since_read.called(%L, %L) f')) AS x (name, query);
INSERT INTO stream VALUES (3), (5);
CALL streamq.run('by table');
CALL streamq.run('by subquery');
CALL streamq.run('by inlined function');
CALL streamq.run('by function');
INSERT INTO stream VALUES (3), (4);
CALL streamq.run('by table');
CALL streamq.run('by subquery');
CALL streamq.run('by inlined function');
CALL streamq.run('by function');
SELECT q.name, c.* FROM streamq.queries q, test.compare(q.name) c ORDER BY q.query_id;
SELECT * FROM "by table" ORDER BY id;
SELECT count(streamq.drop_query(name)) FROM streamq.queries;

--
-- arguments
--
SELECT id FROM t TABLESAMPLE streamq.since(NULL, :'o1');
SELECT id FROM t TABLESAMPLE streamq.since(:'o1', NULL);
SELECT id FROM t TABLESAMPLE streamq.since(:'o1');
SELECT id FROM t TABLESAMPLE streamq.since();
SELECT id FROM t TABLESAMPLE streamq.since(:'o1', :'o1', :'o1');
SELECT id FROM t TABLESAMPLE streamq.since(1, 2);
SELECT id FROM t TABLESAMPLE streamq.since('1', '2');
SELECT id FROM t TABLESAMPLE streamq.since('5:4:', '9:9:');
SELECT id FROM t TABLESAMPLE streamq.since(:'o0', :'o1') REPEATABLE (1);
SELECT streamq.since(NULL);
-- offsets of the future come from another cluster
SELECT count(*) FROM t TABLESAMPLE streamq.since('4611686018427387905:4611686018427387905:', '4611686018427387906:4611686018427387906:');
SELECT count(*) FROM t TABLESAMPLE streamq.since(:'o1', '4611686018427387905:4611686018427387905:');

SET client_min_messages = warning;
DROP SCHEMA since_read CASCADE;
