--
-- the views status and progress, the tables offsets and commits
--
CREATE SCHEMA api_status;
SET search_path = api_status;
\pset null '(null)'
SELECT attname, format_type(atttypid, atttypmod) FROM pg_attribute
WHERE attrelid = 'streamq.status'::regclass AND attnum > 0 ORDER BY attnum;
SELECT attname, format_type(atttypid, atttypmod) FROM pg_attribute
WHERE attrelid = 'streamq.progress'::regclass AND attnum > 0 ORDER BY attnum;

CREATE TABLE src (id int);
SELECT streamq.add_source('src');
CREATE TABLE src2 (id int) PARTITION BY LIST (id);
CREATE TABLE src2_1 PARTITION OF src2 FOR VALUES IN (1);
CREATE TABLE src2_2 PARTITION OF src2 DEFAULT;
SELECT streamq.add_source('src2');
INSERT INTO src SELECT generate_series(1, 10);
INSERT INTO src2 VALUES (1), (2), (3);
SELECT streamq.create_query('filtered', 'SELECT id FROM src WHERE id % 2 = 0', max_rows_per_batch => 4);
SELECT streamq.create_query('both', 'SELECT id FROM src UNION ALL SELECT id FROM src2', starting_position => 'latest');

-- before the first batch
SELECT name, owner = current_user AS mine, state, output_mode, sink, sources, trigger_interval, batch_id, watermark,
	   total_input_rows, total_late_rows, total_output_rows, state_rows, total_trimmed_rows, last_batch_at, last_error, retries, worker_pid
FROM streamq.status ORDER BY name;
SELECT * FROM streamq.progress;
SELECT name, batch_id, relation, start_offset::text = end_offset::text AS nothing, end_offset::text = target::text AS finished
FROM streamq.offsets ORDER BY name, batch_id, relation::text;

-- after some
CALL streamq.run('filtered');
CALL streamq.run('both');
INSERT INTO src VALUES (11), (12);
INSERT INTO src2 VALUES (1);
CALL streamq.run('filtered');
CALL streamq.run('both');
SELECT name, state, output_mode, sink, sources, trigger_interval, batch_id, watermark,
	   total_input_rows, total_late_rows, total_output_rows, state_rows, total_trimmed_rows,
	   last_batch_at IS NOT NULL AS recent, last_error, retries, worker_pid
FROM streamq.status ORDER BY name;
SELECT name, batch_id, started_at IS NOT NULL AS started, duration_ms IS NOT NULL AS lasted,
	   input_rows, late_rows, output_rows, state_rows, trimmed_rows, watermark, batch_watermark, max_event_time,
	   input_rows_per_second IS NOT NULL AS arrived, processed_rows_per_second IS NOT NULL AS processed
FROM streamq.progress ORDER BY name, batch_id;
SELECT name, batch_id, planning_ms IS NOT NULL AND execution_ms IS NOT NULL AS durations,
	   total_input_rows, total_late_rows, total_output_rows
FROM streamq.commits ORDER BY name, batch_id;

-- a batch starts where the one before it ended, for each relation
SELECT count(*) > 0 AS some, bool_and(o.start_offset::text = p.end_offset::text) AS chained
FROM streamq.offsets o JOIN streamq.offsets p USING (name, relation)
WHERE p.batch_id = (SELECT max(batch_id) FROM streamq.offsets x
					WHERE x.name = o.name AND x.relation = o.relation AND x.batch_id < o.batch_id);
SELECT name, relation, bool_and(pg_snapshot_xmax(start_offset) <= pg_snapshot_xmax(end_offset)) AS forward
FROM streamq.offsets GROUP BY 1, 2 ORDER BY 1, 2;
-- nothing new: no batch
CALL streamq.run('filtered');
SELECT max(batch_id) FROM streamq.commits WHERE name = 'filtered';

-- old records are trimmed, the totals are not
DO $$
BEGIN
	FOR i IN 1..130 LOOP
		INSERT INTO api_status.src VALUES (1000 + i);
		COMMIT;
	END LOOP;
END $$;
SELECT streamq.drop_query('both', true);
SELECT streamq.drop_query('filtered', true);
SELECT streamq.create_query('many', 'SELECT id FROM src', max_rows_per_batch => 1);
CALL streamq.run('many');
SELECT count(*) BETWEEN 90 AND 120 AS trimmed, min(batch_id) > 0 AS from_the_start, max(batch_id) FROM streamq.commits;
SELECT count(*) BETWEEN 90 AND 120 AS trimmed, min(batch_id) > 0 AS from_the_start, max(batch_id) FROM streamq.offsets;
SELECT total_input_rows, total_output_rows FROM streamq.status;
SELECT * FROM test.compare('many');
SELECT count(*) BETWEEN 90 AND 120 AS trimmed FROM streamq.progress;
-- a relation that is silent for more than that many batches keeps its offset
SELECT streamq.drop_query('many', true);
TRUNCATE src;
SELECT streamq.create_query('one_silent', 'SELECT id FROM src UNION ALL SELECT id FROM src2', max_rows_per_batch => 1);
CALL streamq.run('one_silent');
DO $$
BEGIN
	FOR i IN 1..130 LOOP
		INSERT INTO api_status.src VALUES (2000 + i);
		COMMIT;
	END LOOP;
END $$;
CALL streamq.run('one_silent');
INSERT INTO src2 VALUES (7);
CALL streamq.run('one_silent');
SELECT * FROM test.compare('one_silent');
SELECT streamq.drop_query('one_silent', true);

SET client_min_messages = warning;
DROP SCHEMA api_status CASCADE;
