CREATE TABLE source (id bigint NOT NULL, device int NOT NULL, value int NOT NULL);

CREATE FUNCTION rows(first bigint, last bigint, seed bigint, keys bigint) RETURNS SETOF source
	LANGUAGE sql IMMUTABLE
	AS 'SELECT n, bench.device(n, seed), bench.value(n, seed) FROM generate_series(first, last) n';
