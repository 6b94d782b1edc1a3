-- start, stop, wait. With streamq in shared_preload_libraries queries really
-- run in the background; without it, start() says what is missing.
\set ECHO none
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS pgtap;
CREATE EXTENSION IF NOT EXISTS streamq;
SELECT current_setting('shared_preload_libraries') ~ '\mstreamq\M' AS preloaded \gset
SELECT * FROM no_plan();

DROP SCHEMA IF EXISTS background CASCADE;
CREATE SCHEMA background;
SET search_path = background, public;
CREATE TABLE src (id int);
INSERT INTO src SELECT generate_series(1, 10);
SELECT lives_ok($$SELECT streamq.add_source('background.src')$$, 'a source');
SELECT lives_ok($$SELECT streamq.create_query('background_q', 'SELECT id FROM src', sink => 'background.sink')$$, 'a query');
CREATE VIEW difference AS
	SELECT (SELECT count(*) FROM (TABLE src EXCEPT ALL TABLE sink) x) + (SELECT count(*) FROM (TABLE sink EXCEPT ALL TABLE src) x) AS rows;

\if :preloaded
\else
	SELECT throws_ok($$SELECT streamq.start('background_q')$$, '55000', NULL, 'start() without preloading');
	SELECT throws_matching($$SELECT streamq.start('background_q')$$, 'preload', 'start() says what is missing');
	SELECT lives_ok($$SELECT streamq.stop('background_q')$$, 'stop() of a query that is not started');
	SELECT is(streamq.wait('background_q', '0'), false, 'wait() with a timeout');
	CALL streamq.run('background_q', 0, 0) \gset run_
	SELECT is(streamq.wait('background_q'), true, 'wait() after run()');
	SELECT is(state, 'stopped', 'state') FROM streamq.status WHERE name = 'background_q';
	SELECT is(rows, 0::bigint, 'run() works all the same') FROM difference;
	SELECT lives_ok($$SELECT streamq.drop_query('background_q')$$, 'drop_query()');
	SELECT * FROM finish();
	DROP SCHEMA background CASCADE;
	\q
\endif

-- waits until a condition holds; the limit is for a broken server only
CREATE PROCEDURE until(condition text) LANGUAGE plpgsql AS $$
DECLARE
	result boolean;
BEGIN
	FOR i IN 1..6000 LOOP
		EXECUTE 'SELECT ' || condition INTO result;
		IF result THEN
			RETURN;
		END IF;
		COMMIT;
		PERFORM pg_sleep(0.01);
	END LOOP;
	RAISE EXCEPTION 'this did not happen: %', condition;
END $$;
CREATE VIEW state AS SELECT * FROM streamq.status WHERE name = 'background_q';

-- start
SELECT is(state, 'stopped', 'before start()') FROM state;
SELECT throws_ok($$SELECT streamq.start('background_q', '-1 second')$$, '22023', NULL, 'a negative interval');
BEGIN;
SELECT lives_ok($$SELECT streamq.start('background_q')$$, 'start()');
ROLLBACK;
SELECT is(state, 'stopped', 'start() rolled back') FROM state;
SELECT is(streamq.wait('background_q', '0'), false, 'nobody runs it');
SELECT lives_ok($$SELECT streamq.start('background_q')$$, 'start()');
SELECT is(streamq.wait('background_q', '1 minute'), true, 'wait()');
SELECT is(rows, 0::bigint, 'sink = source') FROM difference;
SELECT ok(state IN ('waiting', 'running'), 'state after start()') FROM state;
SELECT isnt(worker_pid, NULL, 'a worker serves it') FROM state;
SELECT is(backend_type, 'streamq worker', 'the worker''s type') FROM state JOIN pg_stat_activity ON pid = worker_pid;
SELECT is(count(*), 1::bigint, 'one launcher') FROM pg_stat_activity WHERE backend_type = 'streamq launcher';
SELECT is(trigger_interval, '0'::interval, 'trigger interval') FROM state;
SELECT throws_ok($$SELECT streamq.start('background_q')$$, '55006', NULL, 'start() of a started query');
INSERT INTO src SELECT generate_series(11, 20);
SELECT is(streamq.wait('background_q', '1 minute'), true, 'wait() for new rows');
SELECT is(rows, 0::bigint, 'sink = source') FROM difference;
SELECT is(total_input_rows, 20::bigint, 'total_input_rows') FROM state;
-- run() takes turns with the worker
INSERT INTO src SELECT generate_series(21, 30);
CALL streamq.run('background_q', 0, 0) \gset run_
SELECT is(rows, 0::bigint, 'run() beside the worker') FROM difference;
SELECT throws_ok($$SELECT streamq.reset('background_q')$$, '55006', NULL, 'reset() of a started query');

-- stop
BEGIN;
SELECT lives_ok($$SELECT streamq.stop('background_q')$$, 'stop()');
ROLLBACK;
INSERT INTO src VALUES (31);
SELECT is(streamq.wait('background_q', '1 minute'), true, 'stop() rolled back: it goes on');
SELECT lives_ok($$SELECT streamq.stop('background_q')$$, 'stop()');
SELECT is(state, 'stopped', 'state after stop()') FROM state;
SELECT is(worker_pid, NULL, 'no worker is on it any more') FROM state;
INSERT INTO src VALUES (32);
SELECT is(streamq.wait('background_q', '0'), false, 'nothing happens');
SELECT lives_ok($$SELECT streamq.stop('background_q')$$, 'stop() again');

-- an interval
SELECT lives_ok($$SELECT streamq.start('background_q', '50 milliseconds')$$, 'start() with an interval');
SELECT is(trigger_interval, '50 milliseconds'::interval, 'trigger interval') FROM state;
SELECT is(streamq.wait('background_q', '1 minute'), true, 'wait()');
INSERT INTO src VALUES (33);
SELECT is(streamq.wait('background_q', '1 minute'), true, 'wait()');
SELECT is(rows, 0::bigint, 'sink = source') FROM difference;

-- wait() gives up, and doesn't disturb: a lock holds the batch
CREATE FUNCTION park() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_advisory_xact_lock(4711); RETURN NEW; END $$;
CREATE TRIGGER park BEFORE INSERT ON sink EXECUTE FUNCTION park();
SELECT pg_advisory_lock(4711) \gset ignore_
INSERT INTO src VALUES (34);
SELECT is(streamq.wait('background_q', '100 milliseconds'), false, 'wait() with a timeout');
CALL until($$(SELECT state = 'running' AND worker_pid IS NOT NULL FROM background.state)$$);
SELECT pass('state running');
SELECT pg_advisory_unlock(4711) \gset ignore_
SELECT is(streamq.wait('background_q', '1 minute'), true, 'wait()');
SELECT is(rows, 0::bigint, 'sink = source') FROM difference;
-- stop() ends a batch that is under way
SELECT pg_advisory_lock(4711) \gset ignore_
INSERT INTO src VALUES (35);
CALL until($$(SELECT state = 'running' FROM background.state)$$);
SELECT lives_ok($$SELECT streamq.stop('background_q')$$, 'stop() in the middle of a batch');
SELECT is(worker_pid, NULL, 'no worker is on it any more') FROM state;
SELECT is(count(*), 0::bigint, 'nothing of the batch is there') FROM sink WHERE id = 35;
SELECT pg_advisory_unlock(4711) \gset ignore_
SELECT lives_ok($$SELECT streamq.start('background_q')$$, 'start()');
SELECT is(streamq.wait('background_q', '1 minute'), true, 'wait()');
SELECT is(rows, 0::bigint, 'sink = source') FROM difference;

-- an error: retried, and done when the cause is gone
ALTER TABLE sink ADD CONSTRAINT small CHECK (id < 100);
INSERT INTO src VALUES (100);
CALL until($$(SELECT state = 'retrying' AND retries > 0 FROM background.state)$$);
SELECT matches(last_error, 'small', 'last_error while retrying') FROM state;
ALTER TABLE sink DROP CONSTRAINT small;
SELECT is(streamq.wait('background_q', '1 minute'), true, 'wait()');
SELECT is(rows, 0::bigint, 'sink = source') FROM difference;
SELECT is(retries, 0, 'no retries any more') FROM state;
-- given up
ALTER SYSTEM SET streamq.max_retries = 0;
SELECT pg_reload_conf() \gset ignore_
ALTER TABLE sink ADD CONSTRAINT small CHECK (id < 200);
INSERT INTO src VALUES (200);
CALL until($$(SELECT state = 'failed' FROM background.state)$$);
SELECT matches(last_error, 'small', 'last_error of a failed query') FROM state;
SELECT throws_ok($$SELECT streamq.wait('background_q', '1 minute')$$, NULL, NULL, 'wait() for a failed query');
SELECT is(count(*), 0::bigint, 'nothing of the batch is there') FROM sink WHERE id = 200;
ALTER TABLE sink DROP CONSTRAINT small;
SELECT lives_ok($$SELECT streamq.start('background_q')$$, 'start() again');
SELECT is(streamq.wait('background_q', '1 minute'), true, 'wait()');
SELECT is(rows, 0::bigint, 'sink = source, from the same offsets') FROM difference;
SELECT is(last_error, NULL, 'the error is history') FROM state;
ALTER SYSTEM RESET streamq.max_retries;
SELECT pg_reload_conf() \gset ignore_

-- more queries than workers, of an owner who cannot log in
DROP ROLE IF EXISTS regress_sq_background;
CREATE ROLE regress_sq_background NOLOGIN;
GRANT ALL ON SCHEMA background TO regress_sq_background;
SET ROLE regress_sq_background;
CREATE TABLE src2 (id int, who text DEFAULT current_user);
SELECT streamq.add_source('src2') \gset ignore_
SELECT count(streamq.create_query('background_' || g, 'SELECT id, current_user::text AS who FROM background.src2')) AS queries FROM generate_series(1, 12) g \gset
SELECT count(streamq.start('background_' || g)) AS started FROM generate_series(1, 12) g \gset
INSERT INTO src2 SELECT generate_series(1, 5);
SELECT ok(bool_and(streamq.wait('background_' || g, '1 minute')), '12 queries make progress') FROM generate_series(1, 12) g;
INSERT INTO src2 VALUES (6);
SELECT ok(bool_and(streamq.wait('background_' || g, '1 minute')), 'and go on') FROM generate_series(1, 12) g;
SELECT is(count(*), 12::bigint, 'each has read six rows') FROM streamq.status WHERE total_input_rows = 6;
SELECT is(count(*), 6::bigint, 'as the owner') FROM background_12 WHERE who = 'regress_sq_background';
SELECT throws_ok($$SELECT streamq.stop('background_q')$$, '42501', NULL, 'stop() of another''s query');
SELECT throws_ok($$SELECT streamq.wait('background_q')$$, '42501', NULL, 'wait() for another''s query');
SELECT count(streamq.drop_query('background_' || g, true)) AS dropped FROM generate_series(1, 12) g \gset
SELECT is(count(*), 0::bigint, 'all dropped while they ran') FROM streamq.status;
RESET ROLE;

-- one batch every interval; and what a worker remembers of a backlog is
-- worthless after reset(), also if the batch ids look the same
CREATE TABLE src3 (id int);
SELECT streamq.add_source('src3') \gset ignore_
SELECT streamq.create_query('background_3', 'SELECT id FROM src3', sink => 'background.sink3', max_rows_per_batch => 1) \gset ignore_
INSERT INTO src3 VALUES (1);
INSERT INTO src3 VALUES (2);
INSERT INTO src3 VALUES (3);
SELECT lives_ok($$SELECT streamq.start('background_3', '1 day')$$, 'start() with a long interval');
CALL until($$EXISTS (SELECT FROM streamq.status WHERE name = 'background_3' AND batch_id = 0 AND state = 'waiting')$$);
SELECT is(count(*), 1::bigint, 'one batch') FROM sink3;
SELECT lives_ok($$SELECT streamq.stop('background_3')$$, 'stop()');
SELECT lives_ok($$SELECT streamq.reset('background_3', 'latest')$$, 'reset()');
INSERT INTO src3 VALUES (10);
CALL streamq.run('background_3', 0, 0) \gset run_
SELECT lives_ok($$SELECT streamq.start('background_3')$$, 'start()');
INSERT INTO src3 VALUES (11);
SELECT is(streamq.wait('background_3', '1 minute'), true, 'wait()');
SELECT results_eq('SELECT id FROM background.sink3 ORDER BY id', ARRAY[1, 10, 11], 'what came after reset(), once');
SELECT lives_ok($$SELECT streamq.drop_query('background_3', true)$$, 'drop_query()');

-- dropped while it runs
INSERT INTO src SELECT generate_series(1000, 2000);
SELECT throws_ok($$SELECT streamq.drop_query('background_q', true)$$, '2BP01', NULL, 'drop_query() that fails in the end');
SELECT is(streamq.wait('background_q', '1 minute'), true, 'it goes on');
SELECT is(rows, 0::bigint, 'sink = source') FROM difference;
INSERT INTO src SELECT generate_series(2001, 3000);
DROP VIEW difference;
SELECT lives_ok($$SELECT streamq.drop_query('background_q', true)$$, 'drop_query() of a started query');
SELECT is(count(*), 0::bigint, 'nothing is left') FROM streamq.status WHERE name = 'background_q';
-- the sink, or the source, dropped under a started query
SELECT streamq.create_query('background_q', 'SELECT id FROM src', sink => 'background.sink2') \gset ignore_
SELECT streamq.start('background_q') \gset ignore_
SELECT is(streamq.wait('background_q', '1 minute'), true, 'wait()');
DROP TABLE src CASCADE;
SELECT is(count(*), 0::bigint, 'a query whose source is dropped is forgotten') FROM streamq.status WHERE name = 'background_q';

SELECT * FROM finish();
DROP SCHEMA background CASCADE;
DROP ROLE regress_sq_background;
