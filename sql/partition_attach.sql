--
-- Partitions come and go; every row of theirs comes once
--
CREATE SCHEMA partition_attach;
SET search_path = partition_attach;
\pset null '(null)'
CREATE TABLE p (id int, k int, v text) PARTITION BY LIST (k);
CREATE TABLE p1 PARTITION OF p FOR VALUES IN (1);
SELECT streamq.add_source('p');
SELECT streamq.create_query('q', 'SELECT id, k, v FROM p');
SELECT streamq.create_query('q3', 'SELECT id, k, v FROM p', max_rows_per_batch => 3);

-- before there is anything
CALL streamq.run('q');
INSERT INTO p SELECT g, 1, 'p1' FROM generate_series(1, 5) g;
CALL streamq.run('q');
CALL streamq.run('q3');

-- a new partition
CREATE TABLE p2 PARTITION OF p FOR VALUES IN (2);
CALL streamq.run('q');
INSERT INTO p SELECT g, 2, 'p2' FROM generate_series(6, 10) g;
CALL streamq.run('q');
CALL streamq.run('q3');

-- attached with rows that are older than the last batch, of another shape
CREATE TABLE p3 (gone int, v text, id int, k int, CHECK (k = 3));
ALTER TABLE p3 DROP COLUMN gone;
INSERT INTO p3 SELECT 'p3', g, 3 FROM generate_series(11, 15) g;
INSERT INTO p VALUES (16, 1, 'p1');
CALL streamq.run('q');
ALTER TABLE p ATTACH PARTITION p3 FOR VALUES IN (3);
CALL streamq.run('q');
CALL streamq.run('q3');
INSERT INTO p VALUES (17, 3, 'p3'), (18, 1, 'p1');
CALL streamq.run('q');
CALL streamq.run('q3');
SELECT q.name, c.* FROM streamq.queries q, test.compare(q.name) c ORDER BY 1;

-- attached and loaded in one transaction, with rows before and after
BEGIN;
CREATE TABLE p4 (id int, k int, v text);
INSERT INTO p4 SELECT g, 4, 'before' FROM generate_series(21, 23) g;
ALTER TABLE p ATTACH PARTITION p4 FOR VALUES IN (4);
INSERT INTO p SELECT g, 4, 'after' FROM generate_series(24, 26) g;
COMMIT;
-- rolled back
BEGIN;
CREATE TABLE p5 PARTITION OF p FOR VALUES IN (5);
INSERT INTO p VALUES (999, 5, 'never');
ROLLBACK;
CALL streamq.run('q');
CALL streamq.run('q3');
SELECT q.name, c.* FROM streamq.queries q, test.compare(q.name) c ORDER BY 1;

-- detached: what was not read leaves with it; what was read stays in the sink
INSERT INTO p3 VALUES ('unread', 19, 3);
ALTER TABLE p DETACH PARTITION p3;
CALL streamq.run('q');
CALL streamq.run('q3');
SELECT count(*) FROM q WHERE k = 3;
-- re-attached: only what it has not given yet
INSERT INTO p3 VALUES ('while away', 20, 3);
ALTER TABLE p ATTACH PARTITION p3 FOR VALUES IN (3);
CALL streamq.run('q');
CALL streamq.run('q3');
SELECT q.name, c.* FROM streamq.queries q, test.compare(q.name) c ORDER BY 1;
-- detached and attached again without a batch in between
ALTER TABLE p DETACH PARTITION p3;
ALTER TABLE p ATTACH PARTITION p3 FOR VALUES IN (3);
CALL streamq.run('q');
ALTER TABLE p DETACH PARTITION p2 CONCURRENTLY;
CALL streamq.run('q');
ALTER TABLE p ATTACH PARTITION p2 FOR VALUES IN (2);
CALL streamq.run('q');
CALL streamq.run('q3');
SELECT q.name, c.* FROM streamq.queries q, test.compare(q.name) c ORDER BY 1;

-- away for more batches than the checkpoint keeps
ALTER TABLE p DETACH PARTITION p2;
SELECT streamq.create_query('q1', 'SELECT id, k, v FROM p', max_rows_per_batch => 1);
CALL streamq.run('q1', 0, 0);
DO $$
BEGIN
	FOR i IN 1..150 LOOP
		INSERT INTO partition_attach.p VALUES (1000 + i, 1, 'many');
		COMMIT;
	END LOOP;
END $$;
SET client_min_messages = warning;
CREATE TABLE p9 (id int, k int, v text);
INSERT INTO p9 SELECT g, 9, 'p9' FROM generate_series(901, 905) g;
ALTER TABLE p ATTACH PARTITION p9 FOR VALUES IN (9);
CALL streamq.run('q1', 0, 0);
ALTER TABLE p DETACH PARTITION p9;
DO $$
BEGIN
	FOR i IN 1..150 LOOP
		INSERT INTO partition_attach.p VALUES (2000 + i, 1, 'many');
		COMMIT;
	END LOOP;
END $$;
CALL streamq.run('q1', 0, 0);
SELECT max(batch_id) - min(batch_id) < 120 AS trimmed FROM streamq.commits WHERE name = 'q1';
ALTER TABLE p ATTACH PARTITION p9 FOR VALUES IN (9);
ALTER TABLE p ATTACH PARTITION p2 FOR VALUES IN (2);
CALL streamq.run('q1', 0, 0);
CALL streamq.run('q');
CALL streamq.run('q3', 0, 0);
SELECT q.name, c.* FROM streamq.queries q, test.compare(q.name) c ORDER BY 1;
RESET client_min_messages;
SELECT streamq.drop_query('q1', true);

-- dropped: the sink keeps its rows, the checkpoint forgets the relation
DELETE FROM q WHERE k = 9;
DELETE FROM q3 WHERE k = 9;
DROP TABLE p9;
CALL streamq.run('q');
SELECT count(*) FROM streamq.offsets o WHERE NOT EXISTS (SELECT FROM pg_class WHERE oid = o.relation);
-- truncated
TRUNCATE p4;
INSERT INTO p VALUES (27, 4, 'after truncate');
DELETE FROM q WHERE k = 4;
DELETE FROM q3 WHERE k = 4;
CALL streamq.run('q');
CALL streamq.run('q3');
SELECT q.name, c.* FROM streamq.queries q, test.compare(q.name) c ORDER BY 1;

-- several levels
CREATE TABLE p6 (id int, k int, v text) PARTITION BY RANGE (id);
CREATE TABLE p6a PARTITION OF p6 FOR VALUES FROM (100) TO (200);
CREATE TABLE p6b (v text, k int, id int) PARTITION BY LIST (v);
CREATE TABLE p6b1 (k int, v text, id int);
INSERT INTO p6 VALUES (100, 6, 'p6a'), (101, 6, 'p6a');
INSERT INTO p6b1 VALUES (6, 'x', 200), (6, 'x', 201);
ALTER TABLE p6b ATTACH PARTITION p6b1 FOR VALUES IN ('x');
INSERT INTO p6b VALUES ('x', 6, 202);
ALTER TABLE p ATTACH PARTITION p6 FOR VALUES IN (6);
CALL streamq.run('q');
CALL streamq.run('q3');
ALTER TABLE p6 ATTACH PARTITION p6b FOR VALUES FROM (200) TO (300);
INSERT INTO p VALUES (102, 6, 'p6a'), (203, 6, 'x');
CALL streamq.run('q');
CALL streamq.run('q3');
CREATE TABLE p6c PARTITION OF p6 DEFAULT PARTITION BY LIST (v);
CREATE TABLE p6c1 PARTITION OF p6c DEFAULT;
INSERT INTO p VALUES (301, 6, 'y');
CALL streamq.run('q');
CALL streamq.run('q3');
SELECT tableoid::regclass, * FROM p WHERE k = 6 ORDER BY id;
SELECT q.name, c.* FROM streamq.queries q, test.compare(q.name) c ORDER BY 1;
-- a whole branch leaves and comes back
ALTER TABLE p DETACH PARTITION p6;
CALL streamq.run('q');
INSERT INTO p6 VALUES (103, 6, 'p6a');
ALTER TABLE p ATTACH PARTITION p6 FOR VALUES IN (6);
CALL streamq.run('q');
CALL streamq.run('q3');
SELECT q.name, c.* FROM streamq.queries q, test.compare(q.name) c ORDER BY 1;

-- away in the middle of a backlog that a limit has cut, while the others went on
CREATE TABLE cut (k int, id int) PARTITION BY LIST (k);
CREATE TABLE cut_1 PARTITION OF cut FOR VALUES IN (1);
CREATE TABLE cut_2 PARTITION OF cut FOR VALUES IN (2);
SELECT streamq.add_source('cut');
SELECT streamq.create_query('cut_q', 'SELECT k, id FROM cut', max_rows_per_batch => 1);
CREATE TABLE stop (id int);
CREATE FUNCTION stop() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	IF EXISTS (SELECT FROM partition_attach.stop WHERE id = NEW.id) THEN
		RAISE EXCEPTION 'stopped at row %', NEW.id;
	END IF;
	RETURN NEW;
END $$;
CREATE TRIGGER stop BEFORE INSERT ON cut_q FOR EACH ROW EXECUTE FUNCTION stop();
INSERT INTO cut VALUES (1, 1);
INSERT INTO cut VALUES (2, 2);
INSERT INTO cut VALUES (2, 99);
INSERT INTO cut VALUES (2, 3);
INSERT INTO stop VALUES (99);
CALL streamq.run('cut_q');
ALTER TABLE cut DETACH PARTITION cut_2;
INSERT INTO cut VALUES (1, 11);
INSERT INTO cut VALUES (1, 12);
CALL streamq.run('cut_q');
TRUNCATE stop;
ALTER TABLE cut ATTACH PARTITION cut_2 FOR VALUES IN (2);
CALL streamq.run('cut_q');
SELECT * FROM test.compare('cut_q');
-- the same in the middle of one transaction, with another one cut meanwhile
INSERT INTO stop VALUES (203), (113);
INSERT INTO cut SELECT 2, g FROM generate_series(201, 205) g;
CALL streamq.run('cut_q');
ALTER TABLE cut DETACH PARTITION cut_2;
INSERT INTO cut SELECT 1, g FROM generate_series(111, 115) g;
CALL streamq.run('cut_q');
ALTER TABLE cut ATTACH PARTITION cut_2 FOR VALUES IN (2);
INSERT INTO cut VALUES (1, 301), (2, 302);
CALL streamq.run('cut_q');
DELETE FROM stop WHERE id = 113;
CALL streamq.run('cut_q');
TRUNCATE stop;
CALL streamq.run('cut_q');
CALL streamq.run('cut_q');
SELECT * FROM test.compare('cut_q');
SELECT streamq.drop_query('cut_q', true);

-- a partition that another query reads by itself
SELECT streamq.drop_query('q', true);
SELECT streamq.drop_query('q3', true);
SELECT streamq.create_query('root', 'SELECT id, k, v FROM p');
SELECT streamq.add_source('p1');
SELECT streamq.create_query('leaf', 'SELECT id, k, v FROM p1');
CALL streamq.run('root');
CALL streamq.run('leaf');
INSERT INTO p VALUES (31, 1, 'both');
CALL streamq.run('root');
CALL streamq.run('leaf');
ALTER TABLE p DETACH PARTITION p1;
INSERT INTO p1 VALUES (32, 1, 'leaf only');
CALL streamq.run('root');
CALL streamq.run('leaf');
SELECT * FROM test.compare('leaf');
UPDATE p1 SET v = 'x';
ALTER TABLE p ATTACH PARTITION p1 FOR VALUES IN (1);
CALL streamq.run('root');
CALL streamq.run('leaf');
SELECT q.name, c.* FROM streamq.queries q, test.compare(q.name) c ORDER BY 1;
UPDATE p1 SET v = 'x';
SELECT streamq.drop_query('root', true);
SELECT streamq.drop_query('leaf', true);

-- starting at 'latest': what is attached later is new, with all of its rows
CREATE TABLE p7 (id int, k int, v text);
INSERT INTO p7 VALUES (701, 7, 'old');
SELECT streamq.create_query('latest', 'SELECT id, k, v FROM p', starting_position => 'latest');
CALL streamq.run('latest');
ALTER TABLE p ATTACH PARTITION p7 FOR VALUES IN (7);
INSERT INTO p VALUES (702, 7, 'new'), (33, 1, 'new');
CALL streamq.run('latest');
SELECT * FROM latest ORDER BY id;
SELECT streamq.drop_query('latest', true);

-- a foreign table cannot stream: refused, and never read as a whole each batch
CREATE FOREIGN DATA WRAPPER regress_sq_dummy;
CREATE SERVER regress_sq_dummy FOREIGN DATA WRAPPER regress_sq_dummy;
CREATE FOREIGN TABLE p8 (id int, k int, v text) SERVER regress_sq_dummy;
SELECT streamq.create_query('q', 'SELECT id, k, v FROM p');
CALL streamq.run('q');
ALTER TABLE p ATTACH PARTITION p8 FOR VALUES IN (8);
CALL streamq.run('q');
DO $$
BEGIN
	IF EXISTS (SELECT FROM pg_inherits WHERE inhrelid = 'partition_attach.p8'::regclass) THEN
		ALTER TABLE partition_attach.p DETACH PARTITION partition_attach.p8;
	END IF;
END $$;
INSERT INTO p VALUES (34, 1, 'after');
CALL streamq.run('q');
SELECT * FROM test.compare('q');
-- partitions without any rows left, and no partitions at all
SELECT streamq.drop_query('q', true);
CREATE TABLE empty (id int) PARTITION BY LIST (id);
SELECT streamq.add_source('empty');
SELECT streamq.create_query('e', 'SELECT id FROM empty');
CALL streamq.run('e');
CREATE TABLE empty_1 PARTITION OF empty DEFAULT;
INSERT INTO empty VALUES (1);
CALL streamq.run('e');
DROP TABLE empty_1;
CALL streamq.run('e');
SELECT * FROM e;

SET client_min_messages = warning;
SELECT count(streamq.drop_query(name)) FROM streamq.queries;
DROP SCHEMA partition_attach CASCADE;
DROP SERVER regress_sq_dummy CASCADE;
DROP FOREIGN DATA WRAPPER regress_sq_dummy;
