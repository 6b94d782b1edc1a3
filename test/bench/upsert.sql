--
-- A source whose rows are added up by key, and the hand-written statements for it.
-- psql variables: schema, loaded, keys, batch_rows, touched, seed.
--
\set ON_ERROR_STOP on
CREATE SCHEMA :schema;
SET search_path = :schema;

-- the rows that are there first: the keys in turn
CREATE TABLE source (id bigint PRIMARY KEY, key bigint NOT NULL, value int NOT NULL)
	WITH (autovacuum_enabled = off);
INSERT INTO source
	SELECT n, hashint8extended(n % :keys, :seed), bench.random(n, :seed, 1000)
	FROM generate_series(1, :loaded::bigint) n;

-- the rows of a batch: "touched" draws among the keys, in turn
CREATE PROCEDURE add_batch(batch bigint)
	BEGIN ATOMIC
		INSERT INTO source
		SELECT :loaded + batch * :batch_rows + n,
			   hashint8extended(bench.random(batch * :touched + n % :touched, :seed, :keys), :seed),
			   bench.random(batch * :batch_rows + n, :seed + 1, 1000)
		FROM generate_series(1, :batch_rows) n;
	END;

-- The fastest of the hand-written ways that were tried: rows in the order of their
-- keys, and room for their next version in the same page.
CREATE TABLE rollup (key bigint PRIMARY KEY, count bigint NOT NULL, sum bigint, max int)
	WITH (fillfactor = 85, autovacuum_enabled = off);
CREATE TABLE rollup_progress (last_id bigint NOT NULL);
INSERT INTO rollup_progress VALUES (0);

CREATE PROCEDURE upsert()
LANGUAGE plpgsql AS $$
DECLARE
	first_id bigint;
	next_id bigint;
BEGIN
	SELECT last_id INTO first_id FROM rollup_progress FOR UPDATE;
	SELECT max(id) INTO next_id FROM source;
	INSERT INTO rollup AS r
		SELECT key, count(*), sum(value), max(value)
		FROM source WHERE id > first_id AND id <= next_id
		GROUP BY key ORDER BY key
		ON CONFLICT (key) DO UPDATE SET count = r.count + excluded.count,
										sum = r.sum + excluded.sum,
										max = greatest(r.max, excluded.max);
	UPDATE rollup_progress SET last_id = next_id;
END $$;

VACUUM (ANALYZE) source;
