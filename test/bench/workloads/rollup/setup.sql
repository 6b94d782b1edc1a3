CREATE TABLE source (id bigint NOT NULL, at timestamptz NOT NULL, key int NOT NULL, value int NOT NULL);

-- 50,000 rows a minute, in the order of time but for 30 seconds
CREATE FUNCTION rows(first bigint, last bigint, seed bigint, keys bigint) RETURNS SETOF source
	LANGUAGE sql IMMUTABLE
	AS $$ SELECT n, '2026-01-01 00:01+00'::timestamptz + n * interval '1.2 ms'
					- bench.random(n, seed, 30000) * interval '1 ms',
				 bench.random(n, seed + 1, 1000)::int, bench.random(n, seed + 2, 1000)::int
		  FROM generate_series(first, last) n $$;
