--
-- What all figures need.
--
-- The rows of all sources are a function of their number and the seed, so each
-- run has the same ones.
--
\set ON_ERROR_STOP on
CREATE EXTENSION streamq;
CREATE SCHEMA bench;
SET search_path = bench;

-- device from 1 to 1000, value from 0 to 1023
CREATE FUNCTION device(n bigint, seed bigint) RETURNS int
	LANGUAGE sql IMMUTABLE PARALLEL SAFE
	AS 'SELECT (pg_catalog.hashint8extended(n, seed) & 65535)::int % 1000 + 1';
CREATE FUNCTION value(n bigint, seed bigint) RETURNS int
	LANGUAGE sql IMMUTABLE PARALLEL SAFE
	AS 'SELECT (pg_catalog.hashint8extended(n, seed + 1) & 1023)::int';

-- from 0 to below - 1; another one for each salt
CREATE FUNCTION random(n bigint, salt bigint, below bigint) RETURNS bigint
	LANGUAGE sql IMMUTABLE PARALLEL SAFE
	AS 'SELECT (pg_catalog.hashint8extended(n, salt) & 1152921504606846975) % below';

-- Clicks in the order of their event time but for 30 seconds, "spacing" apart.
CREATE FUNCTION clicks(first bigint, last bigint, spacing interval, pages bigint, seed bigint)
	RETURNS TABLE (at timestamptz, page text, ms int)
	LANGUAGE sql IMMUTABLE
	AS $$ SELECT '2026-01-01 00:01+00'::timestamptz + n * spacing
				 - bench.random(n, seed, 30000) * interval '1 ms',
				 '/page/' || bench.random(n, seed + 1, pages), bench.random(n, seed + 2, 1000)::int
		  FROM generate_series(first, last) n $$;

-- They are loaded by transactions of the same size, but for the last one.
CREATE PROCEDURE load_clicks(source regclass, first bigint, last bigint, transactions bigint,
							 spacing interval, pages bigint, seed bigint)
LANGUAGE plpgsql AS $$
DECLARE
	rows bigint = last - first + 1;
	share bigint = ceil(rows::numeric / transactions);
BEGIN
	FOR i IN 0 .. transactions - 1 LOOP
		EXECUTE format('INSERT INTO %s SELECT * FROM bench.clicks($1, $2, $3, $4, $5)', source)
		USING first + i * share, least(first + (i + 1) * share - 1, last), spacing, pages, seed;
		COMMIT;
	END LOOP;
END $$;

-- a row of a source of (id, device, value) without streamq, and its sink row
CREATE TABLE one_row_plain (id bigint NOT NULL, device int NOT NULL, value int NOT NULL);
CREATE TABLE one_row_plain_sink (id bigint, device int, fahrenheit int);
