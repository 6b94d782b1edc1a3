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
CREATE FUNCTION test.query_refusal(query text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	answer text := test.refusal(format('SELECT streamq.create_query(%L, %L)', 'refused', query));
BEGIN
	IF answer = 'accepted' THEN
		PERFORM streamq.drop_query('refused', drop_sink => true);
	END IF;
	RETURN answer;
END $$;

-- compares the sink of a query with the plain SELECT, both ways
CREATE FUNCTION test.compare(query text, OUT wanted bigint, OUT missing bigint, OUT unwanted bigint)
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
		WITH want AS (SELECT ROW(%1$s)::text FROM %2$s t),
			 got AS (SELECT ROW(%1$s)::text FROM %3$s t)
		SELECT (SELECT count(*) FROM want),
			   (SELECT count(*) FROM (TABLE want EXCEPT ALL TABLE got) x),
			   (SELECT count(*) FROM (TABLE got EXCEPT ALL TABLE want) x)
		$q$, columns, definition, sink)
	INTO wanted, missing, unwanted;
END $$;

-- nothing there yet
SELECT count(*) FROM streamq.queries;
SELECT count(*) FROM streamq.sources;
