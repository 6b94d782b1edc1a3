--
-- What the other tests share: the extension and a few helper functions.
--
CREATE EXTENSION streamq;
-- tables without statistics look large: compiling takes longer than running
DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET jit = off', current_database()); END $$;
CREATE SCHEMA test;
GRANT USAGE ON SCHEMA test TO PUBLIC;

-- runs a statement and tells how it was refused
CREATE FUNCTION test.refusal(statement text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	state text;
	message text;
	detail text;
	hint text;
BEGIN
	EXECUTE statement;
	RETURN 'accepted';
EXCEPTION WHEN OTHERS THEN
	GET STACKED DIAGNOSTICS state = RETURNED_SQLSTATE, message = MESSAGE_TEXT,
		detail = PG_EXCEPTION_DETAIL, hint = PG_EXCEPTION_HINT;
	RETURN concat_ws(E'\n', state || ': ' || message,
					 '    detail: ' || nullif(detail, ''),
					 '    hint: ' || nullif(hint, ''));
END $$;

-- the same for the text of a streaming query, which is dropped if it is accepted
CREATE FUNCTION test.query_refusal(query text, output_mode text DEFAULT 'append') RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	answer text := test.refusal(format('SELECT streamq.create_query(%L, %L, %L)', 'refused', query, output_mode));
BEGIN
	IF answer = 'accepted' THEN
		PERFORM streamq.drop_query('refused', drop_sink => true);
	END IF;
	RETURN answer;
END $$;

-- runs some queries, without a word
CREATE PROCEDURE test.run(VARIADIC queries text[]) LANGUAGE plpgsql AS $$
DECLARE
	query text;
	batches bigint;
	input_rows bigint;
BEGIN
	FOREACH query IN ARRAY queries LOOP
		CALL streamq.run(query, batches, input_rows);
	END LOOP;
END $$;

-- runs all queries there are
CREATE PROCEDURE test.run_all() LANGUAGE plpgsql AS $$
DECLARE
	queries text[] := ARRAY(SELECT name FROM streamq.queries ORDER BY name);
BEGIN
	CALL test.run(VARIADIC queries);
END $$;

-- compares the sink of a query with the plain SELECT, both ways; condition says
-- which rows t of that are wanted
CREATE FUNCTION test.compare(query text, condition text DEFAULT 'true',
							 OUT wanted bigint, OUT missing bigint, OUT unwanted bigint)
LANGUAGE plpgsql AS $$
DECLARE
	columns text;
	definition regclass;
	sink regclass;
BEGIN
	SELECT q.definition, q.sink INTO STRICT definition, sink
	FROM streamq.queries q WHERE q.name = query;
	SELECT string_agg(format('t.%I', attname), ', ' ORDER BY attnum) INTO columns
	FROM pg_attribute WHERE attrelid = definition AND attnum > 0 AND NOT attisdropped;
	EXECUTE format($q$
		WITH want AS (SELECT ROW(%1$s)::text FROM %2$s t WHERE %4$s),
			 got AS (SELECT ROW(%1$s)::text FROM %3$s t)
		SELECT (SELECT count(*) FROM want),
			   (SELECT count(*) FROM (TABLE want EXCEPT ALL TABLE got) x),
			   (SELECT count(*) FROM (TABLE got EXCEPT ALL TABLE want) x)
		$q$, columns, definition, sink, condition)
	INTO wanted, missing, unwanted;
END $$;

-- the same for all queries: those whose sink differs, then the sums
CREATE FUNCTION test.compare_all(OUT query text, OUT wanted bigint, OUT missing bigint, OUT unwanted bigint)
RETURNS SETOF record LANGUAGE sql AS $$
	WITH each AS MATERIALIZED (SELECT q.name, c.* FROM streamq.queries q, test.compare(q.name) c)
	(SELECT name, wanted, missing, unwanted FROM each WHERE missing <> 0 OR unwanted <> 0 ORDER BY name)
	UNION ALL
	SELECT format('all %s', count(*)), sum(wanted), sum(missing), sum(unwanted) FROM each
$$;

-- rows of a table: where they lie, so that a row that has been rewritten is told from others
CREATE FUNCTION test.versions(relation regclass) RETURNS TABLE (version text, data text) LANGUAGE plpgsql AS $$
BEGIN
	RETURN QUERY EXECUTE format('SELECT concat_ws('' '', t.tableoid, t.ctid, t.xmin), t::text FROM %s t', relation);
END $$;

-- nothing there yet
SELECT count(*) FROM streamq.queries;
SELECT count(*) FROM streamq.sources;
