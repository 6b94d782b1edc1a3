# 004_background.pl
#		Control of the background: start, stop, wait, trigger intervals, few
#		workers for many queries; and what must not be held up by workers.
#
# A batch that takes "for ever" is one that sleeps for an hour: whatever returns
# while it is at work has not waited for it.
use strict;
use warnings FATAL => 'all';

use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use StreamqTest;
use Test::More;

my $node = new_server('background');

sub insert_rows
{
	my ($rows) = @_;

	sql($node, "INSERT INTO t (v) SELECT i FROM generate_series(1, $rows) i");
	return;
}

sub rows_in
{
	my ($table) = @_;

	return sql($node, "SELECT count(*) FROM $table");
}

# A batch of a query is at work and asleep.
sub wait_until_asleep
{
	my ($name) = @_;

	wait_for($node, q{EXISTS (SELECT FROM pg_stat_activity
		WHERE backend_type = 'streamq worker' AND wait_event = 'PgSleep')}, $name);
	return;
}

my $workers = q{SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'streamq worker'};

# ------------------------------------------------------- start, stop, wait

sql($node, q{
	CREATE TABLE t (id bigserial, v int);
	CREATE TABLE delay (seconds double precision);
	INSERT INTO delay VALUES (0);
	SELECT streamq.add_source('t');
	SELECT streamq.create_query('q', 'SELECT id, v FROM t');
	SELECT streamq.create_query('q_slow',
		'SELECT id, v FROM t WHERE pg_sleep((SELECT seconds FROM delay)) IS NOT NULL');
});

insert_rows(10);
is(query_state($node, 'q'), 'stopped', 'a new query is stopped');
sql($node, q{SELECT streamq.start('q')});
is(sql($node, q{SELECT streamq.wait('q')}), 't', 'wait() returns true');
exact_ok($node, 'q', 'what was there when it was started is there', 10);
like(query_state($node, 'q'), qr/^(waiting|running)$/, 'it is not stopped');
ok(worker_of($node, 'q'), 'a worker serves it');
insert_rows(10);
is(sql($node, q{SELECT streamq.wait('q')}), 't', 'wait() returns true');
exact_ok($node, 'q', 'it follows the table', 20);

sql($node, q{SELECT streamq.stop('q')});
is(sql($node, q{SELECT state, worker_pid IS NULL FROM streamq.status WHERE name = 'q'}),
	'stopped|t', 'stopped, and no worker on it');
insert_rows(10);
sql($node, q{SELECT streamq.stop('q')});
is(rows_in('q'), 20, 'what comes while it is stopped stays where it is');
is(sql($node, q{CALL streamq.run('q')}), '1|10', 'run() takes its turn');
insert_rows(10);
sql($node, q{SELECT streamq.start('q')});
is(sql($node, q{SELECT streamq.wait('q')}), 't', 'started again, it goes on');
like(sql_error($node, q{SELECT streamq.start('q')}), qr/ERROR:  55006/,
	'what is started cannot be started');
exact_ok($node, 'q', 'exact after start, stop, run, start', 40);

# start() belongs to its transaction
sql($node, q{SELECT streamq.stop('q'); BEGIN; SELECT streamq.start('q'); ROLLBACK});
is(query_state($node, 'q'), 'stopped', 'start() rolled back is no start');
sql($node, q{
	BEGIN;
	SELECT streamq.create_query('q_at_once', 'SELECT id FROM t');
	SELECT streamq.start('q_at_once');
	COMMIT});
is(sql($node, q{SELECT streamq.wait('q_at_once')}), 't', 'created and started in one transaction');
exact_ok($node, 'q_at_once', 'it is exact', 40);
like(sql_error($node, q{SELECT streamq.reset('q_at_once')}), qr/ERROR:  55006/,
	'reset() is refused while it is started');
sql($node, q{SELECT streamq.drop_query('q_at_once', true)});

# ------------------------------------------------------- trigger interval

# the first batch comes at once, the next one not in our lifetime
sql($node, q{SELECT streamq.start('q', '100 years')});
insert_rows(1);
sql($node, q{SELECT streamq.stop('q'); CALL streamq.run('q')});
sql($node, q{SELECT streamq.start('q', '100 years')});
is(sql($node, q{SELECT trigger_interval FROM streamq.status WHERE name = 'q'}), '100 years',
	'trigger_interval is shown');
wait_for($node, q{state = 'waiting' AND worker_pid IS NOT NULL FROM streamq.status WHERE name = 'q'},
	'it waits for its time');
insert_rows(1);
is(sql($node, q{SELECT streamq.wait('q', '300 ms')}), 'f', 'wait() returns false at its timeout');
sql($node, q{SELECT streamq.stop('q'); SELECT streamq.start('q', '50 ms')});
is(sql($node, q{SELECT streamq.wait('q')}), 't', 'a shorter interval');
exact_ok($node, 'q', 'exact');

# a batch that only gives out groups has its own tick
sql($node, q{
	CREATE TABLE events (at timestamptz);
	SELECT streamq.add_source('events', 'at', '0');
	SELECT streamq.create_query('q_windows', $$ SELECT date_bin('1 minute', at, '2024-01-01') AS w, count(*) AS n FROM events GROUP BY 1 $$);
	INSERT INTO events VALUES ('2024-01-01 00:00'), ('2024-01-01 00:05');
	SELECT streamq.start('q_windows', '50 ms')});
is(sql($node, q{SELECT streamq.wait('q_windows'); SELECT count(*) FROM q_windows}), "t\n1",
	'wait() returns when the groups are there that have become final');
sql($node, q{SELECT streamq.stop('q_windows');
	INSERT INTO events VALUES ('2024-01-01 00:10');
	SELECT streamq.start('q_windows', '100 years')});
wait_for($node, q{batch_id = 2 FROM streamq.status WHERE name = 'q_windows'}, 'with a long interval the rows are read at once');
is(sql($node, q{SELECT streamq.wait('q_windows', '100 ms'); SELECT count(*) FROM q_windows}), "f\n1",
	'and the groups come with the next tick');
sql($node, q{SELECT streamq.drop_query('q_windows', true)});

# ------------------------------------------------------------------- wait

{
	my $open = $node->background_psql('postgres');

	$open->query_safe('BEGIN');
	$open->query_safe('INSERT INTO t (v) VALUES (0)');
	insert_rows(1);
	is(sql($node, q{SELECT streamq.wait('q')}), 't', 'wait() does not wait for what is not committed');
	$open->query_safe('COMMIT');
	$open->quit;
	is(sql($node, q{SELECT streamq.wait('q')}), 't', 'and does for what is');
	exact_ok($node, 'q', 'exact');
}
sql($node, q{SELECT streamq.stop('q')});

# -------------------------------------------------- batches that take for ever

sql($node, q{UPDATE delay SET seconds = 3600});
sql($node, q{SELECT streamq.start('q_slow')});
wait_until_asleep('a batch sleeps');
is(query_state($node, 'q_slow'), 'running', 'its query is running');
is(sql($node, q{SELECT streamq.wait('q_slow', '10 ms')}), 'f', 'wait() returns false at its timeout');
{
	my $waiter = psql_in_background($node, q{SELECT streamq.wait('q_slow')});

	wait_for($node, q{EXISTS (SELECT FROM pg_stat_activity
		WHERE query ~ '^SELECT streamq.wait' AND wait_event_type IS NOT NULL)}, 'somebody waits');
	sql($node, q{SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE query ~ '^SELECT streamq.wait'});
	$waiter->{handle}->finish;
	like($waiter->{err}, qr/canceling statement due to user request/, 'wait() can be cancelled');
}
sql($node, q{SELECT streamq.stop('q_slow')});
is(query_state($node, 'q_slow'), 'stopped', 'stop() does not wait for the batch');
is(last_batch($node, 'q_slow') . ' ' . rows_in('q_slow'), '-1 0', 'nothing of the batch is there');

# a query dropped in the middle of a batch
sql($node, q{SELECT streamq.start('q_slow')});
wait_until_asleep('a batch sleeps');
sql($node, q{SELECT streamq.drop_query('q_slow', true)});
is(sql($node, q{SELECT count(*) FROM streamq.queries WHERE name = 'q_slow'}), '0',
	'drop_query() does not wait for the batch');
is(sql($node, q{SELECT count(*) FROM pg_class WHERE relname = 'q_slow'}), '0',
	'the sink is dropped along');
sql($node, q{SELECT streamq.start('q'); INSERT INTO t (v) VALUES (1)});
is(sql($node, q{SELECT streamq.wait('q')}), 't', 'other queries go on');
sql($node, q{SELECT streamq.stop('q')});

# the same with one that aggregates, and keeps what it has read in tables
sql($node, q{
	CREATE FUNCTION sleeps() RETURNS boolean LANGUAGE plpgsql STABLE AS $$
	BEGIN
		PERFORM pg_sleep(seconds) FROM delay;
		RETURN true;
	END $$;
	SELECT streamq.create_query('q_groups', $$
		SELECT v % 3 AS k, count(*) AS n, count(DISTINCT v) AS d, array_agg(id ORDER BY id) AS ids FROM t
		WHERE sleeps() GROUP BY 1 $$, output_mode => 'update');
	UPDATE delay SET seconds = 0;
	CALL streamq.run('q_groups');
	UPDATE delay SET seconds = 3600;
	INSERT INTO t (v) VALUES (1), (2);
	SELECT streamq.start('q_groups')});
my $groups = rows_in('q_groups');
my $batch = last_batch($node, 'q_groups');
wait_until_asleep('a batch of an aggregation sleeps');
sql($node, q{SELECT streamq.stop('q_groups')});
is(last_batch($node, 'q_groups') . ' ' . rows_in('q_groups'), "$batch $groups",
	'stop() does not wait for it, nothing of it is there');
sql($node, q{UPDATE delay SET seconds = 0; CALL streamq.run('q_groups')});
exact_ok($node, 'q_groups', 'done again, it is exact');
sql($node, q{UPDATE delay SET seconds = 3600; INSERT INTO t (v) VALUES (1), (2); SELECT streamq.start('q_groups')});
wait_until_asleep('a batch of an aggregation sleeps');
sql($node, q{SELECT streamq.drop_query('q_groups', true)});
is(sql($node, q{SELECT count(*) FROM pg_class WHERE relnamespace = 'streamq_state'::regnamespace OR relname = 'q_groups'}), '0',
	'drop_query() does not wait for it, and its state is gone');
sql($node, q{CALL streamq.run('q')});

SKIP:
{
	skip 'needs a build with TEST_HOOKS=1', 5
	  unless sql($node, q{SELECT count(*) FROM pg_settings WHERE name = 'streamq.debug_point'});
	my $hold = holder($node);
	my $before = rows_in('q');

	set_point($node, 'before-commit:wait');
	insert_rows(7);
	sql($node, q{SELECT streamq.start('q')});
	wait_for($node, q{EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND NOT granted)},
		'a batch is parked before its commit');
	sql($node, q{SELECT streamq.stop('q')});
	is(query_state($node, 'q'), 'stopped', 'stop() does not wait for it');
	is(rows_in('q'), $before, 'the batch is rolled back');
	clear_point($node);
	$hold->quit;
	is(sql($node, q{CALL streamq.run('q')}), '1|7', 'its rows come in the next one');
	exact_ok($node, 'q', 'exact');
}

# --------------------------------------------------- start and stop, together

{
	my $control = start_pgbench(
		$node, '-c 4 -t 50',
		start => q{DO $$ BEGIN PERFORM streamq.start('q');
			EXCEPTION WHEN object_in_use THEN NULL; END $$;},
		stop => q{SELECT streamq.stop('q');},
		insert => q{INSERT INTO t (v) VALUES (1);});

	ok(finish_pgbench($control), 'four sessions start and stop one query')
	  or diag($control->{output});
	sql($node, q{SELECT streamq.stop('q'); SELECT streamq.start('q')});
	is(sql($node, q{SELECT streamq.wait('q')}), 't', 'after that it runs');
	exact_ok($node, 'q', 'exact');
}

# -------------------------------------------------------- what is not held up

sub slow_query_in
{
	my ($database) = @_;

	sql($node, q{
		CREATE EXTENSION IF NOT EXISTS streamq;
		CREATE TABLE IF NOT EXISTS s (id int);
		INSERT INTO s VALUES (1);
		SELECT streamq.create_query('q_sleeps', 'SELECT id FROM s WHERE pg_sleep(3600) IS NOT NULL');
		SELECT streamq.start('q_sleeps')}, $database);
	wait_until_asleep('a batch sleeps');
	return;
}

sql($node, 'CREATE DATABASE other');
slow_query_in('other');
sql($node, 'DROP DATABASE other');
is(sql($node, q{SELECT count(*) FROM pg_database WHERE datname = 'other'}), '0',
	'DROP DATABASE is not held up');
insert_rows(5);
is(sql($node, q{SELECT streamq.wait('q')}), 't', 'another database is not concerned');

sql($node, 'CREATE DATABASE other');
slow_query_in('other');
sql($node, 'DROP EXTENSION streamq CASCADE', 'other');
is(sql($node, q{SELECT count(*) FROM pg_extension WHERE extname = 'streamq'}, 'other'), '0',
	'DROP EXTENSION is not held up');
sql($node, q{CREATE EXTENSION streamq;
	CREATE TABLE s2 (id int);
	INSERT INTO s2 VALUES (1), (2);
	SELECT streamq.create_query('q_again', 'SELECT id FROM s2');
	SELECT streamq.start('q_again');
	SELECT streamq.wait('q_again')}, 'other');
exact_ok($node, 'q_again', 'made again, it works', 2, 'other');

# a failed DROP brings the workers back
{
	my $client = $node->background_psql('other');

	like(sql_error($node, 'DROP DATABASE other'), qr/55006.*being accessed by other users/,
		'DROP DATABASE is held up by a client');
	sql($node, 'INSERT INTO s2 VALUES (3)', 'other');
	is(sql($node, q{SELECT streamq.wait('q_again')}, 'other'), 't',
		'after that the workers are back');
	$client->quit;
}
sql($node, q{BEGIN; DROP EXTENSION streamq CASCADE; ROLLBACK; INSERT INTO s2 VALUES (4)}, 'other');
is(sql($node, q{SELECT streamq.wait('q_again')}, 'other'), 't',
	'also after a DROP EXTENSION that was rolled back');
exact_ok($node, 'q_again', 'exact', 4, 'other');
sql($node, 'DROP DATABASE other');

# a query whose source is dropped
sql($node, q{
	CREATE TABLE gone (id int);
	SELECT streamq.create_query('q_gone', 'SELECT id FROM gone');
	SELECT streamq.start('q_gone');
	INSERT INTO gone VALUES (1);
	SELECT streamq.wait('q_gone');
	DROP TABLE gone CASCADE;
});
is(sql($node, q{SELECT count(*) FROM streamq.queries WHERE name = 'q_gone'}), '0',
	'a query whose source is dropped is forgotten');
insert_rows(1);
is(sql($node, q{SELECT streamq.wait('q')}), 't', 'others go on');

# ------------------------------------------------------------ shutting down

slow_query_in('postgres');
$node->stop('smart');
$node->start;
wait_until_asleep('smart shutdown is not held up, and the batch begins anew');

$node->stop('fast');
$node->start;
wait_until_asleep('fast shutdown is not held up, and the batch begins anew');

{
	my $client = $node->background_psql('postgres');
	my $log = -s $node->logfile;
	my $out = '';
	my $stop = IPC::Run::start([ 'pg_ctl', '-D', $node->data_dir, '-m', 'smart', 'stop' ],
		'<', \undef, '>&', \$out);

	# as long as its client is there, a server that shuts down smartly works
	$node->wait_for_log(qr/received smart shutdown request/, $log);
	$client->query_safe('INSERT INTO t (v) VALUES (2)');
	is($client->query_safe(q{SELECT streamq.wait('q')}), 't', 'the background goes on while a client is there');
	$client->quit;
	ok($stop->finish, 'smart shutdown waits for clients only');
	$node->stop('fast', fail_ok => 1);
	$node->start;
	wait_until_asleep('the batch begins anew');
}
{
	my $client = $node->background_psql('postgres');

	$node->stop('fast');
	$client->{run}->finish;
	$node->start;
	wait_until_asleep('fast shutdown with a client is not held up');
}
insert_rows(1);
is(sql($node, q{SELECT streamq.wait('q')}), 't', 'after four shutdowns a query that was started runs');
exact_ok($node, 'q', 'exact');
sql($node, q{SELECT streamq.drop_query('q_sleeps', true); SELECT streamq.stop('q')});
wait_for($node, "($workers) = 0", 'workers without work leave');
$node->stop;

# ------------------------------------------------ more queries than workers

foreach my $max (1, 2)
{
	my $few = new_server("few_$max", "streamq.max_workers = $max");
	my @queries;
	my $load;

	# six queries of two owners, of which one cannot log in, and one elsewhere
	sql($few, q{
		CREATE ROLE one LOGIN;
		CREATE ROLE two NOLOGIN;
		GRANT CREATE ON SCHEMA public TO one, two;
		CREATE DATABASE other;
	});
	foreach my $n (1 .. 6)
	{
		my $owner = $n % 2 ? 'one' : 'two';

		push @queries, "q$n";
		sql($few, qq{
			SET ROLE $owner;
			CREATE TABLE t$n (id bigserial, v int);
			SELECT streamq.add_source('t$n');
			SELECT streamq.create_query('q$n', 'SELECT id, v, current_user FROM t$n',
				max_rows_per_batch => 20);
			SELECT streamq.start('q$n')});
	}
	sql($few, q{
		CREATE EXTENSION streamq;
		CREATE TABLE t (id bigserial);
		SELECT streamq.create_query('q', 'SELECT id FROM t');
		SELECT streamq.start('q');
		INSERT INTO t DEFAULT VALUES}, 'other');

	# more than one worker can do: none of them is ever without work
	$load = start_pgbench($few, '-c 2 -T 600 -R 1000', map {
		("few_$_" => "INSERT INTO t$_ (v) SELECT i FROM generate_series(1, 20) i;")
	} 1 .. 6);
	wait_for($few, q{min(coalesce(batch_id, -1)) >= 5 FROM streamq.status},
		"$max worker(s): all of 6 queries make progress");
	is(sql($few, q{SELECT streamq.wait('q')}, 'other'), 't',
		"$max worker(s): so does one of another database");
	cmp_ok(sql($few, "$workers AND datname IS NOT NULL"), '<=', $max + 1,
		"$max worker(s): no more than that are there, but one that looks around");
	stop_pgbench($load);
	foreach my $query (@queries)
	{
		is(sql($few, "SELECT streamq.wait('$query')"), 't', "$max worker(s): $query catches up");
		sql($few, "SELECT streamq.stop('$query')");
		is(sql($few, "SELECT (SELECT count(*) FROM t" . substr($query, 1) . ") - count(*) FROM $query"),
			'0', "$max worker(s): $query has its rows");
		is(sql($few, qq{SELECT count(*) FROM (SELECT id, v FROM t@{[substr($query, 1)]}
			EXCEPT ALL SELECT id, v FROM $query) x}), '0', "$max worker(s): and the right ones");
	}
	is(sql($few, q{SELECT string_agg(DISTINCT "current_user"::text, ' ') FROM (TABLE q1 UNION ALL TABLE q2) x}),
		'one two', "$max worker(s): each by its owner");
	$few->stop;
}

# ------------------------------------------- many queries due at the same time

{
	my $many = new_server('many', 'streamq.max_workers = 6');
	my $asleep = q{FROM pg_stat_activity WHERE backend_type = 'streamq worker' AND wait_event = 'PgSleep'};
	my $took;

	# none of them waits for another one, though each goes on for ever
	sql($many, q{
		CREATE TABLE t (id int);
		SELECT streamq.add_source('t');
		SELECT streamq.create_query('q' || i, 'SELECT id FROM t WHERE pg_sleep(3600) IS NOT NULL') FROM generate_series(1, 6) i;
		SELECT streamq.start('q' || i) FROM generate_series(1, 6) i});
	wait_for($many, q{count(*) = 6 FROM streamq.status WHERE state = 'waiting' AND worker_pid IS NOT NULL}, 'six queries wait');
	sql($many, q{INSERT INTO t VALUES (1)});
	wait_for($many, "(SELECT count(*) $asleep) = 6", 'all of them are at work');
	$took = sql($many, "SELECT extract(epoch FROM max(xact_start) - min(xact_start)) $asleep");
	cmp_ok($took, '<', 3, "the last one after $took s");
	$many->stop('immediate');
}

# the two launchers, and one process more
{
	my $one = new_server('one_process', 'max_worker_processes = 3');

	foreach my $n (1 .. 6)
	{
		sql($one, qq{
			CREATE TABLE t$n (id int);
			SELECT streamq.create_query('q$n', 'SELECT count(*) AS n FROM t$n', 'complete');
			SELECT streamq.start('q$n');
			INSERT INTO t$n VALUES (1)});
	}
	is(sql($one, "SELECT streamq.wait('q$_', '60 s'); TABLE q$_"), "t\n1", "one process for all: q$_ is served") foreach 1 .. 6;
	$one->stop;
}

# ------------------------------------------------------------------- timeouts

{
	my $timeouts = new_server('timeouts');

	# transaction_timeout is there from PostgreSQL 17 on
	sql($timeouts, q{
		CREATE ROLE slow LOGIN;
		ALTER ROLE slow SET statement_timeout = '300ms';
		SELECT format('ALTER ROLE slow SET %s = %L', name, '300ms') FROM pg_settings
		WHERE name = 'transaction_timeout' \\gexec
		GRANT CREATE ON SCHEMA public TO slow;
		SET ROLE slow;
		CREATE TABLE t (id int);
		SELECT streamq.add_source('t');
		SELECT streamq.create_query('q', 'SELECT id FROM t WHERE pg_sleep(0.4) IS NOT NULL');
		INSERT INTO t VALUES (1), (2);
		SELECT streamq.start('q')});
	is(sql($timeouts, q{SELECT streamq.wait('q', '30 s')}), 't',
		'timeouts of its owner do not end a batch of a worker');
	exact_ok($timeouts, 'q', 'exact', 2);
	$timeouts->stop;
}

# --------------------------------------------------------- without preloading

{
	my $plain = PostgreSQL::Test::Cluster->new('not_preloaded');

	$plain->init;
	$plain->start;
	sql($plain, q{
		CREATE EXTENSION streamq;
		CREATE TABLE t (id int);
		INSERT INTO t VALUES (1), (2);
		SELECT streamq.create_query('q', 'SELECT id FROM t')});
	is(sql($plain, q{CALL streamq.run('q')}), '1|2', 'without preloading run() works');
	like(sql_error($plain, q{SELECT streamq.start('q')}), qr/55000.*shared_preload_libraries/s,
		'and start() says what is missing');
	exact_ok($plain, 'q', 'exact', 2);
	$plain->stop;
}

done_testing();
