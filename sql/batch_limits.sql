--
-- max_rows_per_batch: no batch is larger, every row comes once
--
CREATE SCHEMA batch_limits;
SET search_path = batch_limits;
\pset null '(null)'

CREATE TABLE src (id int, filler text);
SELECT streamq.add_source('src');

-- every insert into a sink is one batch: a trigger notes how large each was
CREATE TABLE batches (sink regclass, n bigint);
CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	INSERT INTO batch_limits.batches SELECT TG_RELID, count(*) / TG_ARGV[0]::int FROM new;
	RETURN NULL;
END $$;
CREATE FUNCTION query(name text, query text, max_rows bigint, times int DEFAULT 1) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	PERFORM streamq.create_query(name, query, max_rows_per_batch => max_rows);
	EXECUTE format('CREATE TRIGGER note AFTER INSERT ON %I REFERENCING NEW TABLE AS new EXECUTE FUNCTION note(%L)', name, times);
END $$;
SELECT query('one', 'SELECT id FROM src', 1);
SELECT query('seven', 'SELECT id FROM src', 7);
SELECT query('thousand', 'SELECT id FROM src', 1000);
SELECT query('none', 'SELECT id FROM src', NULL);
SELECT query('huge', 'SELECT id FROM src', 9223372036854775807);
SELECT query('twice', 'SELECT id FROM src UNION ALL SELECT id FROM src', 10, 2);
SELECT query('filtered', 'SELECT id FROM src WHERE id % 10 = 0', 7);
CREATE VIEW runs AS SELECT format('CALL streamq.run(%L)', name) FROM streamq.queries ORDER BY query_id;
-- what a run must hold to: as many rows as came, in batches within the limit
CREATE VIEW results AS
	SELECT q.name, c.*, t.total_input_rows,
		   coalesce(b.largest, 0) <= coalesce(q.max_rows_per_batch, 9223372036854775807) AS within,
		   t.largest_input <= coalesce(q.max_rows_per_batch, 9223372036854775807) AS read_within
	FROM streamq.queries q, test.compare(q.name) c,
		 LATERAL (SELECT max(n) AS largest FROM batches WHERE sink = q.sink) b,
		 LATERAL (SELECT max(total_input_rows) AS total_input_rows, max(input_rows) AS largest_input FROM streamq.commits t WHERE t.name = q.name) t;

-- many small transactions
DO $$
BEGIN
	FOR i IN 1..60 LOOP
		INSERT INTO batch_limits.src VALUES (i, 'small');
		COMMIT;
	END LOOP;
END $$;
CALL streamq.run('one');
CALL streamq.run('seven');
CALL streamq.run('thousand');
CALL streamq.run('none');
CALL streamq.run('huge');
CALL streamq.run('twice');
CALL streamq.run('filtered');
SELECT * FROM results ORDER BY name;

-- one large transaction
INSERT INTO src SELECT g, repeat('x', 100) FROM generate_series(1001, 1500) g;
CALL streamq.run('one');
\set ECHO none
\o /dev/null
TABLE runs \gexec
\o
\set ECHO all
SELECT * FROM results ORDER BY name;

-- one transaction of many statements and savepoints, some rolled back
BEGIN;
INSERT INTO src VALUES (2001), (2002), (2003);
SAVEPOINT a;
INSERT INTO src SELECT generate_series(2101, 2120);
ROLLBACK TO a;
INSERT INTO src SELECT generate_series(2201, 2220);
SAVEPOINT b;
INSERT INTO src SELECT generate_series(2301, 2320);
RELEASE b;
DELETE FROM src WHERE id BETWEEN 2205 AND 2210;
COMMIT;
\set ECHO none
\o /dev/null
TABLE runs \gexec
\o
\set ECHO all
SELECT * FROM results ORDER BY name;

-- a mixture: small ones, large ones, deleted rows, aborted ones
DO $$
BEGIN
	FOR i IN 1..40 LOOP
		INSERT INTO batch_limits.src SELECT 10000 + i * 100 + g, 'mixed' FROM generate_series(1, (i * i) % 23) g;
		IF i % 7 = 0 THEN
			ROLLBACK;
		ELSE
			COMMIT;
		END IF;
	END LOOP;
END $$;
DELETE FROM src WHERE id > 10000 AND id % 11 = 0;
\set ECHO none
\o /dev/null
TABLE runs \gexec
\o
\set ECHO all
SELECT * FROM results ORDER BY name;
-- nothing more to do
CALL streamq.run('one');
CALL streamq.run('twice');

-- more subtransactions than a snapshot lists, each with rows
BEGIN;
DO $$
BEGIN
	FOR i IN 1..150 LOOP
		BEGIN
			INSERT INTO batch_limits.src VALUES (20000 + i, 'sub');
			IF i % 3 = 0 THEN
				RAISE EXCEPTION 'no';
			END IF;
		EXCEPTION WHEN raise_exception THEN
			NULL;
		END;
	END LOOP;
END $$;
COMMIT;
\set ECHO none
\o /dev/null
TABLE runs \gexec
\o
\set ECHO all
SELECT * FROM results ORDER BY name;
SELECT streamq.drop_query(name) FROM streamq.queries;

--
-- stopped in the middle of one large transaction
--
CREATE TABLE control (stop_at int);
INSERT INTO control VALUES (0);
CREATE FUNCTION stop_at() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	IF (SELECT count(*) FROM batch_limits.stopping) >= (SELECT stop_at FROM batch_limits.control) THEN
		RAISE EXCEPTION 'stopped here';
	END IF;
	RETURN NEW;
END $$;
CREATE TABLE stopping (id int);
CREATE TRIGGER stop_at BEFORE INSERT ON stopping EXECUTE FUNCTION stop_at();
CREATE TABLE big (id int, filler text);
SELECT streamq.add_source('big');
SELECT streamq.create_query('stopping', 'SELECT id FROM big', max_rows_per_batch => 50);
INSERT INTO big SELECT g, repeat('x', 100) FROM generate_series(1, 1000) g;
UPDATE control SET stop_at = 130;
CALL streamq.run('stopping');
SELECT count(*) FROM stopping;
-- rows that come meanwhile wait until the transaction is finished
INSERT INTO big VALUES (1500);
UPDATE control SET stop_at = 230;
CALL streamq.run('stopping');
SELECT count(*), count(DISTINCT id), max(id) < 1500 AS in_order FROM stopping;
-- rows deleted, read and unread ones, and their places used again
DELETE FROM big WHERE id % 4 = 0;
VACUUM big;
INSERT INTO big SELECT g, repeat('y', 100) FROM generate_series(2001, 2200) g;
UPDATE control SET stop_at = 430;
CALL streamq.run('stopping');
VACUUM FREEZE big;
UPDATE control SET stop_at = 100000;
CALL streamq.run('stopping');
-- every row that stayed came, none came twice
SELECT count(*) - count(DISTINCT id) AS doubled FROM stopping;
SELECT count(*) AS missing FROM big WHERE id NOT IN (SELECT id FROM stopping);
CALL streamq.run('stopping');
-- between transactions a new file of the table changes nothing
VACUUM FULL big;
CREATE INDEX big_id ON big (id DESC);
CLUSTER big USING big_id;
CALL streamq.run('stopping');
INSERT INTO big SELECT g FROM generate_series(2301, 2310) g;
VACUUM FULL big;
CALL streamq.run('stopping');
SELECT count(*) - count(DISTINCT id) AS doubled FROM stopping;
SELECT count(*) AS missing FROM big WHERE id NOT IN (SELECT id FROM stopping);
-- an empty table again, in the middle
INSERT INTO big SELECT g FROM generate_series(3001, 3500) g;
UPDATE control SET stop_at = (SELECT count(*) + 120 FROM stopping);
CALL streamq.run('stopping');
TRUNCATE big;
INSERT INTO big SELECT g FROM generate_series(4001, 4100) g;
UPDATE control SET stop_at = 100000;
CALL streamq.run('stopping');
SELECT count(*) - count(DISTINCT id) AS doubled FROM stopping;
SELECT count(*) AS missing FROM big WHERE id NOT IN (SELECT id FROM stopping);
-- a new file in the middle of a transaction: places mean nothing any more, and that is an error
INSERT INTO big SELECT g FROM generate_series(5001, 5500) g;
UPDATE control SET stop_at = (SELECT count(*) + 120 FROM stopping);
CALL streamq.run('stopping');
VACUUM FULL big;
UPDATE control SET stop_at = 100000;
\set VERBOSITY sqlstate
CALL streamq.run('stopping');
\set VERBOSITY default
SELECT count(*) - count(DISTINCT id) AS doubled FROM stopping;
-- the way out
TRUNCATE stopping;
SELECT streamq.reset('stopping');
CALL streamq.run('stopping');
SELECT * FROM test.compare('stopping');
SELECT streamq.drop_query('stopping');
TRUNCATE batches;

--
-- partitions
--
CREATE TABLE parts (id int, k int) PARTITION BY LIST (k);
CREATE TABLE parts_0 PARTITION OF parts FOR VALUES IN (0);
CREATE TABLE parts_1 PARTITION OF parts FOR VALUES IN (1) PARTITION BY RANGE (id);
CREATE TABLE parts_1_a PARTITION OF parts_1 FOR VALUES FROM (0) TO (100);
CREATE TABLE parts_1_b PARTITION OF parts_1 DEFAULT;
CREATE TABLE parts_2 PARTITION OF parts DEFAULT;
SELECT streamq.add_source('parts');
SELECT query('p1', 'SELECT id, k FROM parts', 1);
SELECT query('p7', 'SELECT id, k FROM parts', 7);
SELECT query('p7 both', 'SELECT id FROM parts UNION ALL SELECT id FROM src', 7);
INSERT INTO parts SELECT g, g % 3 FROM generate_series(1, 150) g;
DO $$
BEGIN
	FOR i IN 1..30 LOOP
		INSERT INTO batch_limits.parts VALUES (1000 + i, i % 3), (2000 + i, 1);
		COMMIT;
	END LOOP;
END $$;
CREATE TABLE parts_3 (k int, id int);
INSERT INTO parts_3 SELECT 3, g FROM generate_series(3001, 3030) g;
ALTER TABLE parts ATTACH PARTITION parts_3 FOR VALUES IN (3);
\set ECHO none
\o /dev/null
TABLE runs \gexec
\o
\set ECHO all
SELECT * FROM results ORDER BY name;
INSERT INTO parts SELECT g, g % 4 FROM generate_series(4001, 4010) g;
\set ECHO none
\o /dev/null
TABLE runs \gexec
\o
\set ECHO all
SELECT * FROM results ORDER BY name;

-- a limit on what was 'latest'
SELECT streamq.create_query('latest', 'SELECT id FROM parts', starting_position => 'latest', max_rows_per_batch => 4);
INSERT INTO parts SELECT g, g % 4 FROM generate_series(5001, 5010) g;
CALL streamq.run('latest', 0, 0);
SELECT count(*), count(DISTINCT id), min(id) FROM latest;
SELECT max(input_rows) FROM streamq.commits WHERE name = 'latest';

SET client_min_messages = warning;
SELECT count(streamq.drop_query(name)) FROM streamq.queries;
DROP SCHEMA batch_limits CASCADE;
