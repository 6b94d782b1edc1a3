CREATE TABLE source (id bigint NOT NULL, key bigint NOT NULL, value int NOT NULL);

CREATE FUNCTION rows(first bigint, last bigint, seed bigint, keys bigint) RETURNS SETOF source
	LANGUAGE sql IMMUTABLE
	AS $$ SELECT n, hashint8extended(bench.random(n, seed, keys), seed), bench.random(n, seed + 1, 1000)::int
		  FROM generate_series(first, last) n $$;
