-- What the soak runs on: two sources, one of them partitioned, and what is needed to
-- tell afterwards what the sinks should hold.  Rows that are deleted when all queries
-- have read them go to plain_gone and events_gone.
CREATE EXTENSION streamq;
CREATE ROLE keeper;
GRANT CREATE ON SCHEMA public TO keeper;
GRANT pg_execute_server_program TO keeper;
SET ROLE keeper;

CREATE TABLE plain (id bigserial, writer text NOT NULL, v int NOT NULL, at timestamptz NOT NULL DEFAULT clock_timestamp());
CREATE INDEX plain_id ON plain (id);
CREATE TABLE plain_gone (LIKE plain);
CREATE TABLE events (id bigserial, part int NOT NULL, writer text NOT NULL, v int NOT NULL,
	at timestamptz NOT NULL DEFAULT clock_timestamp()) PARTITION BY LIST (part);
CREATE TABLE events_0 PARTITION OF events FOR VALUES IN (0);
CREATE TABLE events_1 PARTITION OF events FOR VALUES IN (1);
-- of the last two only partitions that come and go
CREATE TABLE events_2 PARTITION OF events FOR VALUES IN (2);
CREATE INDEX ON events (at);
CREATE TABLE events_gone (LIKE events);
CREATE TABLE kinds (writer text PRIMARY KEY, kind text NOT NULL);
INSERT INTO kinds VALUES ('single', 'short'), ('slow', 'long'), ('multi', 'wide');

SELECT streamq.add_source('plain', 'at', '1 second');
SELECT streamq.add_source('events', 'at', '2 seconds');

-- without a combine function: its state is continued row by row
CREATE AGGREGATE greatest_of (bigint) (SFUNC = int8larger, STYPE = bigint);

-- n subtransactions with a row each, of which every third is rolled back
CREATE FUNCTION subtransactions(n int) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	FOR i IN 1 .. n LOOP
		BEGIN
			INSERT INTO plain (writer, v) VALUES ('subtransactions', i);
			INSERT INTO events (part, writer, v) VALUES (i % 2, 'subtransactions', i);
			IF i % 3 = 0 THEN
				RAISE EXCEPTION 'rolled back';
			END IF;
		EXCEPTION WHEN raise_exception THEN
			NULL;
		END;
	END LOOP;
END $$;

-- make_query(NAME, SELECT, LATE, FINAL, ARGUMENTS): a query, and the view
-- ref_<NAME>.expected that says what its sink should hold.  LATE: it has a late sink.
-- FINAL: a condition on its rows, what of the result has been given out under
-- the watermark, which stands there as $w.  ARGUMENTS: further ones of create_query().
CREATE FUNCTION make_query(query text, body text, late boolean, final text, arguments text DEFAULT '')
RETURNS void LANGUAGE plpgsql AS $$
DECLARE
	has_late text := CASE WHEN late THEN format('WHERE NOT EXISTS (SELECT FROM public.late_%1$s l WHERE l.id = a.id)', query) END;
BEGIN
	EXECUTE format('SELECT streamq.create_query(%L, %L %s %s)', query, body,
		CASE WHEN late THEN format(', late_sink => %L', 'late_' || query) END, arguments);
	EXECUTE format('CREATE SCHEMA ref_%s', query);
	EXECUTE format('CREATE VIEW ref_%1$s.plain AS SELECT * FROM (TABLE public.plain UNION ALL TABLE public.plain_gone) a %2$s', query, has_late);
	EXECUTE format('CREATE VIEW ref_%1$s.events AS SELECT * FROM (TABLE public.events UNION ALL TABLE public.events_gone) a %2$s', query, has_late);
	PERFORM set_config('search_path', format('ref_%s, public', query), true);
	EXECUTE format('CREATE VIEW ref_%s.expected AS SELECT * FROM (%s) q WHERE %s', query, body,
		replace(final, '$w', format('(SELECT batch_watermark FROM streamq.commits WHERE name = %L ORDER BY batch_id DESC LIMIT 1)', query)));
	PERFORM set_config('search_path', 'public', true);
END $$;

RESET ROLE;
GRANT CREATE ON DATABASE postgres TO keeper;
SET ROLE keeper;

SELECT make_query('q_rows', 'SELECT id, writer, v FROM plain', false, 'true');
SELECT make_query('q_join', $$ SELECT p.id, p.v, k.kind FROM plain p JOIN kinds k USING (writer) WHERE p.v % 3 > 0 $$, false, 'true');
SELECT make_query('q_parts', 'SELECT id, part, writer FROM events', false, 'true');
SELECT make_query('q_cut', 'SELECT id, v FROM plain UNION ALL SELECT -id, v FROM events', false, 'true', ', max_rows_per_batch => 500');
SELECT streamq.add_source('q_rows');
SELECT make_query('q_chained', $$ SELECT id, v FROM q_rows WHERE writer <> 'single' $$, false, 'true');
SELECT make_query('g_source', $$
	SELECT date_bin('2 seconds', at, '2024-01-01') AS w, writer, count(*) AS n, sum(v) AS s, count(DISTINCT v % 7) AS d
	FROM events GROUP BY 1, 2 $$, true, $$ w + interval '2 seconds' <= $w $$);
SELECT make_query('g_state', $$
	SELECT date_bin('2 seconds', at, '2024-01-01') AS w, kind, count(*) AS n, sum(v) AS s, max(id) AS m
	FROM plain LEFT JOIN kinds USING (writer) GROUP BY 1, 2 $$, true, $$ w + interval '2 seconds' <= $w $$,
	', max_rows_per_batch => 300');
SELECT make_query('g_update', $$
	SELECT writer, v % 100 AS k, count(*) AS n, avg(v) AS a, stddev(id) AS d FROM plain GROUP BY 1, 2 HAVING count(*) <> 2 $$,
	false, 'true', $$, output_mode => 'update'$$);
SELECT make_query('g_complete', $$
	SELECT part, writer, count(*) AS n, sum(v) AS s FROM events GROUP BY 1, 2 ORDER BY 3 DESC, 1, 2 LIMIT 10 $$,
	false, 'true', $$, output_mode => 'complete'$$);
SELECT make_query('g_distinct', 'SELECT DISTINCT writer, part, v % 1000 AS k FROM events', false, 'true', $$, output_mode => 'update'$$);
SELECT make_query('g_kept', $$
	SELECT date_bin('5 seconds', at, '2024-01-01') AS w, part % 2 AS p, greatest_of(id) AS g, count(DISTINCT v % 50) AS d,
		array_agg(id ORDER BY id) FILTER (WHERE v % 10 = 0) AS ids, percentile_cont(0.5) WITHIN GROUP (ORDER BY v) AS m
	FROM events GROUP BY 1, 2 $$, true, 'true', $$, output_mode => 'update', max_rows_per_batch => 2000$$);
SELECT streamq.start(name) FROM streamq.queries;
