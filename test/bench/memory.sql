--
-- What many small batches read.  psql variables: seed.
--
\set ON_ERROR_STOP on
SET search_path = bench;

CREATE TABLE small_batches (key int NOT NULL, value int NOT NULL) WITH (autovacuum_enabled = off);
SELECT streamq.add_source('small_batches');

-- transactions of ten rows each
CREATE PROCEDURE load_small_batches(first int, last int, seed bigint)
LANGUAGE plpgsql AS $$
BEGIN
	FOR i IN first .. last LOOP
		INSERT INTO bench.small_batches
			SELECT bench.random(i * 10 + n, seed, 1000), n FROM generate_series(1, 10) n;
		COMMIT;
	END LOOP;
END $$;

-- of the calling session, in kB: what the process has for itself, and what
-- PostgreSQL knows of
CREATE FUNCTION memory(OUT rss bigint, OUT contexts bigint)
	LANGUAGE sql VOLATILE
	AS $$ SELECT (regexp_match(pg_read_file('/proc/self/status'), 'RssAnon:\s*(\d+)'))[1]::bigint,
				 (SELECT sum(total_bytes) / 1024 FROM pg_backend_memory_contexts)::bigint $$;
