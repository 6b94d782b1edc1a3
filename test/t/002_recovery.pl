# 002_recovery.pl
#		Servers and workers that die under load, and batches that fail.
#
# Whatever happens, background queries go on by themselves and the sinks are
# exact; a query that keeps failing stops in state "failed", and once mended
# continues from the same offsets.
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

done_testing();
