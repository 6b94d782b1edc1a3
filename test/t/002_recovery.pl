# 002_recovery.pl
#		Servers and workers that die under load, and batches that fail.
#
# Whatever happens, background queries go on by themselves and the sinks are
# exact; a query that keeps failing stops in state "failed", and once mended
# continues from the same offsets.  Groups that were final when the server went
# down are given out when it is back, without new rows.  What comes out of a dump is
# refused until it is reset.
use strict;
use warnings FATAL => 'all';

use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Utils;
use StreamqTest;
use Test::More;

my $node = new_server('recovery', 'streamq.max_retries = 2');
need_test_build($node);

# ------------------------------------------------------------------- load

# q_all takes what comes, q_cut is always behind and cuts its backlog.
sql($node, q{
	CREATE TABLE events (id bigserial, part int, v int, filler text) PARTITION BY LIST (part);
	CREATE TABLE events_0 PARTITION OF events FOR VALUES IN (0);
	CREATE TABLE events_1 PARTITION OF events FOR VALUES IN (1);
	SELECT streamq.add_source('events');
	SELECT streamq.create_query('q_all', 'SELECT id, part, v FROM events');
	SELECT streamq.create_query('q_cut', 'SELECT id, v, filler FROM events WHERE v <> 7',
		max_rows_per_batch => 50);
	SELECT streamq.start('q_all');
	SELECT streamq.start('q_cut');
});

sub start_load
{
	my ($synchronous) = @_;

	return start_pgbench(
		$node, '-c 4 -T 600',
		'recovery_single@5' => qq{
			\\set part random(0, 1)
			\\set v random(1, 10)
			SET synchronous_commit = $synchronous;
			INSERT INTO events (part, v, filler) VALUES (:part, :v, 'single');
		},
		'recovery_multi@3' => q{
			\set v random(1, 10)
			INSERT INTO events (part, v, filler) SELECT i % 2, :v, 'multi' FROM generate_series(1, 40) i;
		},
		'recovery_open@1' => q{
			BEGIN;
			INSERT INTO events (part, v, filler) VALUES (0, 1, 'open');
			\sleep 100 ms
			INSERT INTO events (part, v, filler) VALUES (1, 2, 'open');
			COMMIT;
		},
		'recovery_abort@1' => q{
			BEGIN;
			INSERT INTO events (part, v, filler) SELECT i % 2, i, 'aborted' FROM generate_series(1, 20) i;
			ROLLBACK;
		});
}

# Waits until both queries have done some batches more.
sub in_the_middle
{
	my ($name) = @_;
	my ($all, $cut) = (last_batch($node, 'q_all'), last_batch($node, 'q_cut'));

	wait_for($node, qq{min(batch_id - CASE name WHEN 'q_all' THEN $all ELSE $cut END) >= 5
		FROM streamq.status WHERE name IN ('q_all', 'q_cut')}, "$name: in the middle of the load");
	return;
}

# Both queries have gone on without help, and nothing is lost or double.
sub exact_again
{
	my ($name) = @_;

	foreach my $query (qw(q_all q_cut))
	{
		is(sql($node, "SELECT streamq.wait('$query')"), 't', "$name: $query goes on by itself");
		exact_ok($node, $query, "$name: $query is exact");
	}
	return;
}

# A prepared transaction with more subtransactions than a snapshot lists lives
# through all that follows.
sql($node, q{
	CREATE FUNCTION subtransactions(n int) RETURNS void LANGUAGE plpgsql AS $$
	BEGIN
		FOR i IN 1 .. n LOOP
			BEGIN
				INSERT INTO events (part, v, filler) VALUES (i % 2, i, 'prepared');
			EXCEPTION WHEN division_by_zero THEN
				NULL;
			END;
		END LOOP;
	END $$;
	BEGIN;
	SELECT subtransactions(100);
	PREPARE TRANSACTION 'through crashes';
});

foreach my $synchronous (qw(on off))
{
	my $name = "immediate shutdown, synchronous_commit $synchronous";
	my $load;

	sql($node, "ALTER SYSTEM SET synchronous_commit = $synchronous");
	$node->reload;
	$load = start_load($synchronous);
	in_the_middle($name);
	$node->stop('immediate');
	finish_pgbench($load);
	$node->start;
	exact_again($name);
}

{
	my $name = 'kill -9 of the server';
	my $load = start_load('on');

	in_the_middle($name);
	$node->kill9;
	finish_pgbench($load);
	start_until_up($node);
	exact_again($name);
}

{
	my $name = 'kill -9 of a worker';
	my $load = start_load('on');
	my $log = -s $node->logfile;

	in_the_middle($name);
	kill 'KILL', worker_of($node, 'q_cut');
	finish_pgbench($load);
	# the server starts all its processes anew
	$node->wait_for_log(qr/database system is ready to accept connections/, $log);
	$node->poll_query_until('postgres', 'SELECT true');
	exact_again($name);
}

{
	my $name = 'pg_terminate_backend of workers';
	my $load = start_load('on');

	for (1 .. 3)
	{
		in_the_middle($name);
		sql($node, q{SELECT pg_terminate_backend(pid) FROM pg_stat_activity
			WHERE backend_type = 'streamq worker'});
	}
	$load->{handle}->signal('INT');
	finish_pgbench($load);
	exact_again($name);
}

{
	my $name = 'pg_cancel_backend of workers';
	my $load = start_load('on');

	for (1 .. 2)
	{
		in_the_middle($name);
		sql($node, q{SELECT pg_cancel_backend(pid) FROM pg_stat_activity
			WHERE backend_type = 'streamq worker'});
	}
	$load->{handle}->signal('INT');
	finish_pgbench($load);
	exact_again($name);
}

{
	my $name = 'a worker terminated between sink and commit';
	my $hold = holder($node);
	my $waiting = q{EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND objid = 7777
		AND NOT granted AND pid = %d)};
	my $worker;

	set_point($node, 'after-sink:wait');
	sql($node, q{INSERT INTO events (part, v, filler) VALUES (0, 1, 'parked')});
	$worker = worker_of($node, 'q_all');
	# one worker serves both queries: whichever it is at
	wait_for($node, sprintf($waiting, $worker), "$name: it is parked there");
	sql($node, "SELECT pg_terminate_backend($worker)");
	wait_for($node, "NOT EXISTS (SELECT FROM pg_stat_activity WHERE pid = $worker)",
		"$name: it ends");
	clear_point($node);
	$hold->query_safe('SELECT pg_advisory_unlock(7777)');
	$hold->quit;
	exact_again($name);
}

{
	my $name = 'pg_terminate_backend of the launcher';
	my $launcher = q{SELECT pid FROM pg_stat_activity WHERE backend_type = 'streamq launcher'};
	my $old = sql($node, $launcher);

	sql($node, "SELECT pg_terminate_backend($old)");
	wait_for($node, "EXISTS ($launcher AND pid <> $old)", "$name: there is a new one");
	sql($node, q{INSERT INTO events (part, v, filler) SELECT 0, 1, 'new launcher' FROM generate_series(1, 200)});
	exact_again($name);
	# the new one finds work for another owner
	sql($node, q{
		CREATE ROLE somebody;
		CREATE TABLE theirs (id int);
		INSERT INTO theirs VALUES (1), (2);
		ALTER TABLE theirs OWNER TO somebody;
		GRANT CREATE ON SCHEMA public TO somebody;
		SET ROLE somebody;
		SELECT streamq.add_source('theirs');
		SELECT streamq.create_query('q_theirs', 'SELECT id FROM theirs');
		SELECT streamq.start('q_theirs');
		SELECT streamq.wait('q_theirs');
		SELECT streamq.stop('q_theirs');
	});
	exact_ok($node, 'q_theirs', "$name: it starts workers", 2);
}

sql($node, q{COMMIT PREPARED 'through crashes'});
exact_again('a transaction prepared before two crashes, committed after them');
is(sql($node, q{SELECT count(*) FROM q_all a JOIN events e USING (id) WHERE filler = 'prepared'}),
	'100', 'its rows are there');

is(sql($node, q{SELECT string_agg(name, ' ' ORDER BY name) FROM streamq.queries WHERE active}),
	'q_all q_cut', 'both queries have been active all the time');
sql($node, q{SELECT streamq.stop('q_all'); SELECT streamq.stop('q_cut')});

# ---------------------------------------------------- errors inside the batch

# The rows of the checkpoint that say where a query is.
sub checkpoint
{
	my ($query) = @_;

	return sql($node, qq{
		SELECT o.* FROM streamq.offsets o WHERE name = '$query' ORDER BY batch_id, relation;
		SELECT c.* FROM streamq.commits c WHERE name = '$query' ORDER BY batch_id});
}

# fails_and_is_mended(NAME, QUERY, BREAK, MESSAGE, MEND): a query in the
# background over what has been broken gives up after its retries, and goes on
# from the same place after the mending.
sub fails_and_is_mended
{
	my ($name, $query, $break, $message, $mend) = @_;
	my ($checkpoint, $batch, $error);

	sql($node, "SELECT streamq.start('$query'); SELECT streamq.wait('$query')");
	sql($node, "SELECT streamq.stop('$query')");
	$checkpoint = checkpoint($query);
	$batch = last_batch($node, $query);
	sql($node, $break);

	$error = sql_error($node, "CALL streamq.run('$query')");
	like($error, $message, "$name: CALL run fails");
	is(checkpoint($query), $checkpoint, "$name: the checkpoint has not moved");

	$error = sql_error($node, "SELECT streamq.start('$query'); SELECT streamq.wait('$query')");
	like($error, qr/55000: streaming query "$query" has failed.*$message/s,
		"$name: whoever waits learns of it");
	is(query_state($node, $query), 'failed', "$name: the background gives up");
	like(sql($node, "SELECT last_error FROM streamq.status WHERE name = '$query'"), $message,
		"$name: last_error tells why");
	cmp_ok(sql($node, "SELECT retries FROM streamq.status WHERE name = '$query'"), '>=', 2,
		"$name: it was tried again before");
	is(checkpoint($query), $checkpoint, "$name: the checkpoint has not moved");

	# started again without a mending, it fails again
	sql($node, "SELECT streamq.start('$query')");
	wait_for($node, "state = 'failed' FROM streamq.status WHERE name = '$query'",
		"$name: start() without mending fails again");
	is(checkpoint($query), $checkpoint, "$name: the checkpoint has not moved");

	sql($node, "$mend; SELECT streamq.start('$query')");
	is(sql($node, "SELECT streamq.wait('$query')"), 't', "$name: start() after mending goes on");
	exact_ok($node, $query, "$name: exact");
	is(last_batch($node, $query), $batch + 1, "$name: failures have cost no batch number");
	is(sql($node, "SELECT retries FROM streamq.status WHERE name = '$query'"), 0,
		"$name: no retries counted any more");
	sql($node, "SELECT streamq.stop('$query')");
	return;
}

sql($node, q{
	CREATE TABLE numbers (id serial, divisor int);
	INSERT INTO numbers (divisor) SELECT i FROM generate_series(1, 50) i;
	SELECT streamq.add_source('numbers');
	SELECT streamq.create_query('q_divide', 'SELECT id, 1000 / divisor AS quotient FROM numbers');
	CREATE TABLE checked (id int, divisor int);
	SELECT streamq.create_query('q_checked', 'SELECT id, divisor FROM numbers', sink => 'checked');
});

fails_and_is_mended(
	'division by zero', 'q_divide',
	'INSERT INTO numbers (divisor) VALUES (4), (0), (5)',
	qr/division by zero/,
	'DELETE FROM numbers WHERE divisor = 0');
fails_and_is_mended(
	'constraint of the sink', 'q_checked',
	q{ALTER TABLE checked ADD CONSTRAINT small CHECK (divisor < 1000);
	  INSERT INTO numbers (divisor) VALUES (7), (2000)},
	qr/violates check constraint "small"/,
	'ALTER TABLE checked DROP CONSTRAINT small');

# A failure in the middle of a backlog: what came before it stays.
{
	my $name = 'foreground, third of five batches fails';
	my $error;

	sql($node, q{
		CREATE TABLE five (id serial, divisor int);
		SELECT streamq.add_source('five');
		SELECT streamq.create_query('q_five', 'SELECT id, 1000 / divisor AS quotient FROM five',
			max_rows_per_batch => 10)});
	sql($node, join "\n", map { "INSERT INTO five (divisor) SELECT $_ FROM generate_series(1, 10);" } 1, 2, 0, 4, 5);
	$error = sql_error($node, "CALL streamq.run('q_five')");
	like($error, qr/22012: division by zero/, "$name: with its own SQLSTATE");
	is(sql($node, "SELECT count(*), max(id) FROM q_five"), '20|20', "$name: two are done");
	sql($node, "DELETE FROM five WHERE divisor = 0");
	is(sql($node, "CALL streamq.run('q_five')"), '2|20', "$name: the call after it does the rest");
	exact_ok($node, 'q_five', "$name: exact", 40);
}

# While it is retried, a query that is mended needs nobody; without a limit to
# the retries it never fails.
{
	my $name = 'mended while retrying';

	set_config($node, 'streamq.max_retries', '-1');
	sql($node, "INSERT INTO five (divisor) VALUES (0); SELECT streamq.start('q_five')");
	wait_for($node, "retries > 10 FROM streamq.status WHERE name = 'q_five'", "$name: many retries");
	like(sql($node, "SELECT last_error FROM streamq.status WHERE name = 'q_five'"),
		qr/division by zero/, "$name: last_error is known");
	is(sql($node, "SELECT streamq.wait('q_five', '10 ms')"), 'f', "$name: wait() is still waiting");
	sql($node, "DELETE FROM five WHERE divisor = 0; INSERT INTO five (divisor) VALUES (8)");
	is(sql($node, "SELECT streamq.wait('q_five')"), 't', "$name: goes on by itself");
	exact_ok($node, 'q_five', "$name: exact", 41);
	sql($node, "SELECT streamq.stop('q_five')");
	set_config($node, 'streamq.max_retries', '2');
}

# One query fails, its neighbour on the same worker does not notice; a restart
# does not wake up what has failed.
{
	my $name = 'failed beside a healthy one';
	my $batch;

	sql($node, q{
		SELECT streamq.start('q_all');
		INSERT INTO five (divisor) VALUES (0);
		SELECT streamq.start('q_five')});
	wait_for($node, "state = 'failed' FROM streamq.status WHERE name = 'q_five'", "$name: one fails");
	$batch = last_batch($node, 'q_five');
	sql($node, q{INSERT INTO events (part, v, filler) VALUES (0, 3, 'beside')});
	is(sql($node, "SELECT streamq.wait('q_all')"), 't', "$name: the other goes on");
	$node->restart;
	sql($node, q{INSERT INTO events (part, v, filler) VALUES (1, 4, 'after restart')});
	is(sql($node, "SELECT streamq.wait('q_all')"), 't', "$name: also after a restart");
	is(query_state($node, 'q_five'), 'failed', "$name: what has failed stays so");
	sql($node, q{DELETE FROM five WHERE divisor = 0; INSERT INTO five (divisor) VALUES (9);
		SELECT streamq.start('q_five')});
	is(sql($node, "SELECT streamq.wait('q_five')"), 't', "$name: until it is mended and started");
	is(last_batch($node, 'q_five'), $batch + 1, "$name: it continues where it was");
	exact_ok($node, 'q_five', "$name: exact", 42);
	exact_ok($node, 'q_all', "$name: the other is exact");
}


# ---------------------------------------- groups that are final and still held

# Between the batch that moves the watermark and the one without rows that gives
# out groups, or forgets them, something happens.
my @windows = qw(q_state q_source q_forgets);
my $window = q{date_bin('1 minute', at, '2024-01-01')};

# what has been committed is there after a crash
set_config($node, 'synchronous_commit', 'on');
sql($node, qq{
	CREATE TABLE visits (id bigserial, at timestamptz, k int);
	CREATE INDEX ON visits USING brin (at);
	CREATE TABLE places (k int PRIMARY KEY, name text);
	INSERT INTO places VALUES (0, 'here'), (1, 'there'), (2, 'where');
	SELECT streamq.add_source('visits', 'at', '30 seconds');
	SELECT streamq.create_query('q_state', \$\$
		SELECT $window AS minute, name, count(*) AS visits, array_agg(id ORDER BY id) AS ids
		FROM visits JOIN places USING (k) GROUP BY 1, 2 \$\$);
	SELECT streamq.create_query('q_source', \$\$
		SELECT $window AS minute, k, count(*) AS visits FROM visits GROUP BY 1, 2 \$\$, late_sink => 'late_visits');
	SELECT streamq.create_query('q_forgets', \$\$
		SELECT $window AS minute, k, count(*) AS visits, count(DISTINCT id % 5) AS d
		FROM visits GROUP BY 1, 2 \$\$, output_mode => 'update');
});
is(sql($node, q{SELECT string_agg(strategy, ' ' ORDER BY name) FROM streamq.queries
		WHERE name IN ('q_state', 'q_source', 'q_forgets')}),
	'state source state', 'both strategies are there');

# Six minutes further on; rows of before, some too late.
my $minutes = 0;
sub load_visits
{
	$minutes += 6;
	sql($node, qq{
		INSERT INTO visits (at, k) SELECT '2024-01-01'::timestamptz + $minutes * interval '1 minute'
			+ i * interval '6 seconds' - (i % 9 = 0)::int * interval '5 minutes', i % 3 FROM generate_series(1, 30) i});
	return;
}

# Lets the batch with the rows be done, by an error right after it.
sub do_first_batch
{
	my ($name) = @_;

	load_visits();
	foreach my $query (@windows)
	{
		like(sql_error($node, "SET streamq.debug_point = 'after-commit:error'; CALL streamq.run('$query')"),
			qr/debug point "after-commit"/, "$name: $query has read the rows");
	}
	return;
}

# How many groups should have been given out, or forgotten, and have not.
my $held = qq{SELECT concat_ws(' ',
		(SELECT count(*) FROM final) - (SELECT count(*) FROM q_state),
		(SELECT count(*) FROM final) - (SELECT count(*) FROM q_source),
		(SELECT state_rows FROM streamq.status WHERE name = 'q_forgets')
			- (SELECT count(DISTINCT ($window, k)) FROM visits) + (SELECT count(*) FROM final))};

sub groups_held
{
	return sql($node, qq{
		WITH final AS (SELECT DISTINCT $window, k FROM visits
			WHERE $window <= (SELECT watermark - interval '1 minute' FROM streamq.status WHERE name = 'q_source'))
		$held});
}

sub nothing_held_ok
{
	my ($name) = @_;

	is(groups_held(), '0 0 0', "$name: no group that is final is held any more");
	is(sql($node, q{SELECT q.name, v.* FROM unnest('{q_state,q_source,q_forgets}'::text[]) q (name), streamq.verify(name) v
			WHERE NOT explained_by_late_rows}), '', "$name: exact");
	is(join(' ', map { sql($node, "CALL streamq.run('$_')") } @windows), '0|0 0|0 0|0', "$name: nothing more is to be done");
	return;
}

sub watermarks
{
	return sql($node, q{SELECT name, watermark FROM streamq.status
		WHERE name = ANY ('{q_state,q_source,q_forgets}') ORDER BY name});
}

load_visits();
sql($node, "CALL streamq.run('$_')") foreach @windows;
nothing_held_ok('undisturbed');

foreach my $how (qw(restart crash))
{
	my $before;

	do_first_batch($how);
	unlike(groups_held(), qr/\b0\b/, "$how: groups are final and held");
	$before = watermarks();
	if ($how eq 'restart')
	{
		$node->restart;
	}
	else
	{
		# commits need not have reached the disk yet
		sql($node, 'CHECKPOINT');
		$node->kill9;
		start_until_up($node);
	}
	is(watermarks(), $before, "$how: the watermarks are the same");
	is(join(' ', map { sql($node, "CALL streamq.run('$_')") } @windows), '1|0 1|0 1|0',
		"$how: the next run does a batch without rows");
	is(watermarks(), $before, "$how: the watermarks are still the same");
	nothing_held_ok($how);
}

# in the background: nothing but start() is needed
do_first_batch('start()');
sql($node, join ' ', map { "SELECT streamq.start('$_');" } @windows);
is(join(' ', map { sql($node, "SELECT streamq.wait('$_')") } @windows), 't t t', 'start(): waiting includes it');
is(groups_held(), '0 0 0', 'start(): groups that are final are given out');

# nor that, if they were started
{
	my $name = 'kill -9 of a worker between two batches';
	my $hold = holder($node);
	my $log;

	set_point($node, 'after-commit:wait');
	load_visits();
	wait_for($node, q{EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND objid = 7777 AND NOT granted)},
		"$name: a query is there");
	$log = -s $node->logfile;
	kill 'KILL', sql($node, q{SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND objid = 7777 AND NOT granted LIMIT 1});
	$node->wait_for_log(qr/database system is ready to accept connections/, $log);
	$node->poll_query_until('postgres', 'SELECT true');
	eval { $hold->{run}->finish };
	clear_point($node);
	is(join(' ', map { sql($node, "SELECT streamq.wait('$_')") } @windows), 't t t', "$name: goes on by itself");
	sql($node, join ' ', map { "SELECT streamq.stop('$_');" } @windows);
	nothing_held_ok($name);
}

# rows of long ago, and the newest one gone: the watermark stays where it is
{
	my $before = watermarks();
	my $late = sql($node, 'SELECT count(*) FROM late_visits');

	sql($node, q{DELETE FROM visits WHERE at = (SELECT max(at) FROM visits);
		INSERT INTO visits (at, k) SELECT '2023-12-01', 1 FROM generate_series(1, 5)});
	$node->restart;
	sql($node, "CALL streamq.run('$_')") foreach @windows;
	is(watermarks(), $before, 'rows of long ago do not move the watermark back');
	is(sql($node, 'SELECT count(*) FROM late_visits'), $late + 5, 'they are late');
}
is(sql($node, q{SELECT count(*) FROM (SELECT watermark < lag(watermark) OVER w OR watermark IS NULL AND lag(watermark) OVER w IS NOT NULL
		OR batch_watermark IS DISTINCT FROM lag(watermark) OVER w AND batch_id > 0
		FROM streamq.commits WINDOW w AS (PARTITION BY name ORDER BY batch_id)) x (is_wrong) WHERE is_wrong}), '0',
	'no watermark has ever moved back, each is in force in the next batch');

# of two sources, each keeps its own time
sql($node, q{
	CREATE TABLE fast (at timestamptz);
	CREATE TABLE slow (at timestamptz);
	SELECT streamq.add_source('fast', 'at', '10 seconds');
	SELECT streamq.add_source('slow', 'at', '10 seconds');
	SELECT streamq.create_query('q_two', $$ SELECT date_bin('1 minute', at, '2024-01-01') AS minute, count(*) AS n
		FROM (SELECT at FROM fast UNION ALL SELECT at FROM slow) s GROUP BY 1 $$);
	INSERT INTO fast VALUES ('2024-01-01 01:00:10+00');
	INSERT INTO slow VALUES ('2024-01-01 00:01:10+00');
	CALL streamq.run('q_two');
});
$node->restart;
is(sql($node, q{INSERT INTO slow VALUES ('2024-01-01 00:30:10+00');
	CALL streamq.run('q_two');
	SELECT watermark = '2024-01-01 00:30+00', n FROM streamq.status, q_two WHERE name = 'q_two'}), "2|1\nt|1",
	'after a restart the source without new rows counts as before');

# ------------------------------------------------------ a dump and its restoration

{
	my $name = 'restored';
	my $dump = $node->basedir . '/dump.sql';
	my %select = (
		q_state => '(minute timestamptz, name text, visits bigint, ids bigint[])',
		q_source => '(minute timestamptz, k int, visits bigint)',
		q_forgets => '(minute timestamptz, k int, visits bigint, d bigint)',
		q_complete => '(k int, visits bigint, m numeric)');

	# in a database of its own, where one of them is started
	sql($node, 'CREATE DATABASE dumped');
	sql($node, qq{
		CREATE EXTENSION streamq;
		CREATE ROLE keeper;
		GRANT CREATE ON SCHEMA public TO keeper;
		SET ROLE keeper;
		CREATE TABLE visits (id bigserial, at timestamptz, k int);
		CREATE INDEX ON visits USING brin (at);
		CREATE TABLE places (k int PRIMARY KEY, name text);
		INSERT INTO places VALUES (0, 'here'), (1, 'there'), (2, 'where');
		SELECT streamq.add_source('visits', 'at', '30 seconds');
		SELECT streamq.create_query('q_state', \$\$
			SELECT $window AS minute, name, count(*) AS visits, array_agg(id ORDER BY id) AS ids
			FROM visits JOIN places USING (k) GROUP BY 1, 2 \$\$, late_sink => 'late_state', live_view => 'live_state');
		SELECT streamq.create_query('q_source', \$\$
			SELECT $window AS minute, k, count(*) AS visits FROM visits GROUP BY 1, 2 \$\$, late_sink => 'late_source');
		SELECT streamq.create_query('q_forgets', \$\$
			SELECT $window AS minute, k, count(*) AS visits, count(DISTINCT id % 5) AS d
			FROM visits GROUP BY 1, 2 \$\$, output_mode => 'update', late_sink => 'late_forgets');
		SELECT streamq.create_query('q_complete', \$\$
			SELECT k, count(*) AS visits, avg(id) AS m FROM visits GROUP BY 1 \$\$, output_mode => 'complete');
		INSERT INTO visits (at, k) SELECT '2024-01-01'::timestamptz + i * interval '6 seconds', i % 3 FROM generate_series(1, 30) i;
		CALL streamq.run('q_state'); CALL streamq.run('q_source'); CALL streamq.run('q_forgets'); CALL streamq.run('q_complete');
		INSERT INTO visits (at, k) VALUES ('2024-01-01', 1), ('2024-01-01 01:00+00', 1);
		CALL streamq.run('q_state'); CALL streamq.run('q_source'); CALL streamq.run('q_forgets');
		SELECT streamq.start('q_complete'); SELECT streamq.wait('q_complete')}, 'dumped');
	$node->command_ok([ 'pg_dump', '-f', $dump, 'dumped' ], 'a database is dumped');
	sql($node, 'CREATE DATABASE restored');
	$node->command_ok([ 'psql', '-XqAt', '-v', 'ON_ERROR_STOP=1', '-d', $node->connstr('restored'), '-f', $dump ],
		'and restored');

	$node->restart;
	is(query_state($node, 'q_complete', 'restored'), 'stopped', "$name: what was started is stopped");
	is(sql($node, q{SELECT count(*), string_agg(DISTINCT pg_get_userbyid(relowner), ' ') FROM pg_class
			WHERE relnamespace = 'streamq_state'::regnamespace AND relkind = 'r'}, 'restored'),
		'5|keeper', "$name: the state is there, and its owner's");
	foreach my $query (sort keys %select)
	{
		foreach my $statement ("CALL streamq.run('$query')", "SELECT streamq.verify('$query')",
			"SELECT * FROM streamq.live('$query') AS $select{$query}")
		{
			like(sql_error($node, $statement, 'restored'),
				qr/55000: the checkpoint of streaming query "$query" belongs to another database/,
				"$name: refused: $statement");
		}
	}
	like(sql_error($node, 'TABLE live_state', 'restored'), qr/55000: the checkpoint/, "$name: so is a live view");

	# begun anew, with empty sinks
	sql($node, q{
		TRUNCATE q_state, q_source, q_forgets, late_state, late_source, late_forgets;
		SELECT streamq.reset(name) FROM streamq.queries}, 'restored');
	is(sql($node, "SELECT count(*) FROM $_", 'restored'), '0', "$name: reset() empties $_")
	  foreach split /\n/, sql($node, q{SELECT oid::regclass FROM pg_class
		WHERE relnamespace = 'streamq_state'::regnamespace AND relkind = 'r'}, 'restored');
	sql($node, qq{SET ROLE keeper; CALL streamq.run('$_')}, 'restored') foreach sort keys %select;
	sql($node, q{INSERT INTO visits (at, k) VALUES ('2024-01-01', 2), ('2024-01-01 01:01+00', 1), ('2024-01-01 02:00+00', 1)}, 'restored');
	sql($node, qq{CALL streamq.run('$_')}, 'restored') foreach sort keys %select;
	is(sql($node, q{SELECT q.name, v.* FROM streamq.queries q, streamq.verify(name) v}, 'restored'), '', "$name: after that all are exact");
	is(sql($node, q{SELECT string_agg(name || ' ' || total_input_rows, ', ' ORDER BY name) FROM streamq.status}, 'restored'),
		'q_complete 35, q_forgets 35, q_source 35, q_state 35', "$name: over all rows");
	is(sql($node, q{SELECT (SELECT count(*) FROM late_state), (SELECT count(*) FROM late_source), (SELECT count(*) FROM late_forgets)}, 'restored'),
		'1|1|1', "$name: rows that were late are judged anew");
	is(sql($node, q{SELECT (SELECT count(*) FROM live_state) - (SELECT count(*) FROM q_state)}, 'restored'), '1', "$name: the live view works");

	# and they can be dropped without leaving anything behind
	sql($node, q{SELECT streamq.drop_query('q_state', true)}, 'restored');
	sql($node, q{SET client_min_messages = warning; DROP VIEW streamq_query.q_forgets; DROP TABLE q_complete CASCADE}, 'restored');
	is(sql($node, q{SELECT string_agg(relname, ' ') FROM pg_class WHERE relnamespace = 'streamq_state'::regnamespace AND relkind = 'r'}, 'restored'),
		'', "$name: no state is left of queries that are dropped");
	is(sql($node, q{SELECT string_agg(name, ' ') FROM streamq.queries}, 'restored'), 'q_source', "$name: nor the queries");
	# the original is not concerned
	is(sql($node, q{SELECT streamq.wait('q_complete')}, 'dumped'), 't', "$name: the original goes on");
}

done_testing();
