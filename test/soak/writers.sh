# shellcheck shell=bash
#
# writers.sh: what writes into the sources, as scripts for pgbench.  No transaction
# is larger than max_rows_per_batch of a query, as VACUUM FULL would stop one that has
# read a part of it.

# write_scripts DIR: one file for each kind, with its weight at the end of its name
write_scripts()
{
	cat >"$1/single.20" <<'SQL'
\set part random(0, 1)
\set v random(1, 1000000)
INSERT INTO events (part, writer, v) VALUES (:part, 'single', :v);
INSERT INTO plain (writer, v) VALUES ('single', :v);
SQL
	cat >"$1/multi.4" <<'SQL'
\set n random(2, 100)
BEGIN;
INSERT INTO events (part, writer, v) SELECT i % 2, 'multi', i FROM generate_series(1, :n) i;
INSERT INTO plain (writer, v) SELECT 'multi', i FROM generate_series(1, :n) i;
COMMIT;
SQL
	cat >"$1/slow.2" <<'SQL'
\set ms random(1, 1500)
BEGIN;
INSERT INTO plain (writer, v) VALUES ('slow', 1);
\sleep :ms ms
INSERT INTO events (part, writer, v) VALUES (0, 'slow', 2), (1, 'slow', 3);
COMMIT;
SQL
	cat >"$1/savepoint.3" <<'SQL'
BEGIN;
INSERT INTO plain (writer, v) VALUES ('savepoint', 1);
SAVEPOINT a;
INSERT INTO plain (writer, v) VALUES ('savepoint', -1);
INSERT INTO events (part, writer, v) VALUES (0, 'savepoint', -1);
ROLLBACK TO a;
INSERT INTO events (part, writer, v) VALUES (1, 'savepoint', 2);
COMMIT;
SQL
	cat >"$1/subtransactions.1" <<'SQL'
\set n random(10, 120)
SELECT subtransactions(:n);
SQL
	cat >"$1/abort.2" <<'SQL'
\set n random(1, 200)
BEGIN;
INSERT INTO plain (writer, v) SELECT 'abort', i FROM generate_series(1, :n) i;
INSERT INTO events (part, writer, v) SELECT i % 2, 'abort', i FROM generate_series(1, :n) i;
ROLLBACK;
SQL
	cat >"$1/old.2" <<'SQL'
\set ms random(0, 9000)
INSERT INTO plain (writer, v, at) VALUES ('old', :ms, clock_timestamp() - :ms * interval '1 ms');
INSERT INTO events (part, writer, v, at) SELECT i % 2, 'old', :ms, clock_timestamp() - :ms * interval '1 ms' FROM generate_series(1, 3) i;
SQL
	cat >"$1/prepared.1" <<'SQL'
\set gid random(1, 1000000000)
\set ms random(1, 300)
\set fate random(1, 4)
BEGIN;
INSERT INTO plain (writer, v) VALUES ('prepared', 1);
SAVEPOINT a;
INSERT INTO events (part, writer, v) VALUES (0, 'prepared', 2);
PREPARE TRANSACTION 'soak_:gid';
\sleep :ms ms
\if :fate = 1
ROLLBACK PREPARED 'soak_:gid';
\else
COMMIT PREPARED 'soak_:gid';
\endif
SQL
}
