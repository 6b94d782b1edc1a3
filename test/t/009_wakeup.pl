# 009_wakeup.pl
#		Waking on commit: a commit wakes the queries that wait for it and no others;
#		without commits nobody wakes up.
#
# streamq.poll_interval is half an hour: whatever is processed has been told by a commit,
# and one that is not told is a test that fails.  That nobody wakes up is seen in the
# context switches of the processes.
use strict;
use warnings FATAL => 'all';

use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use StreamqTest;
use Test::More;
use Time::HiRes qw(sleep);

use constant IDLE_S => 10;

plan skip_all => 'counts context switches in /proc' unless -r '/proc/self/status';

my $node = new_server('wakeup', 'streamq.poll_interval = 30min', 'max_worker_processes = 20');

# all_read(QUERY, NAME [, DATABASE]): it gets on without being asked, and is exact.
sub all_read
{
	my ($query, $name, $database) = @_;

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	is(sql($node, "SELECT streamq.wait('$query', '60 s')", $database), 't', $name);
	return exact_ok($node, $query, "$name: exact", undef, $database);
}

# switches(PID...): how often the processes have gone to sleep.
sub switches
{
	my $sum = 0;

	foreach my $pid (@_)
	{
		my ($count) = slurp_file("/proc/$pid/status") =~ /^voluntary_ctxt_switches:\s+(\d+)/m;

		$sum += $count;
	}
	return $sum;
}

# Processor time that they have used, in ticks.
sub ticks
{
	my $sum = 0;

	foreach my $pid (@_)
	{
		my @fields = split / /, slurp_file("/proc/$pid/stat") =~ s/^.*\) //sr;

		$sum += $fields[11] + $fields[12];
	}
	return $sum;
}

# Waits until a process sleeps, for what it has been told before.
sub wait_until_quiet
{
	my ($pid) = @_;

	for (1 .. 10 * $PostgreSQL::Test::Utils::timeout_default)
	{
		my $before = switches($pid);

		sleep(0.2);
		return if switches($pid) == $before && slurp_file("/proc/$pid/stat") =~ /\) S /;
	}
	die "process $pid does not come to rest";
}

sub pids_of
{
	my ($type) = @_;

	return split /\n/, sql($node, "SELECT pid FROM pg_stat_activity WHERE backend_type = 'streamq $type'");
}

# ------------------------------------------------------------ with nothing to do

# queries of two owners, so of two workers, of whom one cannot log in
sql($node, q{
	CREATE ROLE one LOGIN;
	CREATE ROLE two NOLOGIN;
	GRANT CREATE ON SCHEMA public TO one, two;
	SET ROLE one;
	CREATE TABLE a (id bigserial, v int);
	CREATE TABLE a2 (id bigserial, v int);
	CREATE TABLE unrelated (v int);
	SELECT streamq.add_source('a');
	SELECT streamq.create_query('qa', 'SELECT id, v FROM a');
	SELECT streamq.create_query('qa_ticks', 'SELECT id, v FROM a2');
	SELECT streamq.start('qa');
	SELECT streamq.start('qa_ticks', '500 ms');
	SET ROLE two;
	CREATE TABLE b (id bigserial, v int, at timestamptz);
	SELECT streamq.add_source('b', 'at', '0');
	SELECT streamq.create_query('qb', 'SELECT id, v FROM b');
	SELECT streamq.create_query('qb_windows', $$ SELECT date_bin('1 minute', at, '2024-01-01') AS w, count(*) AS n FROM b GROUP BY 1 $$);
	SELECT streamq.start('qb');
	SELECT streamq.start('qb_windows');
	RESET ROLE;
	INSERT INTO a (v) VALUES (1);
	INSERT INTO a2 (v) VALUES (1);
	INSERT INTO b (v, at) VALUES (1, '2024-01-01 00:00'), (2, '2024-01-01 00:05')});
all_read($_, "$_ starts") foreach qw(qa qa_ticks qb);
is(sql($node, q{SELECT streamq.wait('qb_windows', '60 s'); SELECT count(*) FROM qb_windows}), "t\n1",
	'the batch without rows follows that moved the watermark');
all_read('qa', 'nothing left');

my ($worker_a, $worker_b) = (worker_of($node, 'qa'), worker_of($node, 'qb'));
my ($launcher) = pids_of('launcher');
my @all = ($launcher, pids_of('worker'));

isnt($worker_a, $worker_b, 'each owner has his worker');
{
	my ($slept, $used);

	# figures for pg_stat are handed in once after work
	for (1 .. 4)
	{
		my ($before, $ticks) = (switches(@all), ticks(@all));

		sleep(IDLE_S);
		($slept, $used) = (switches(@all) - $before, ticks(@all) - $ticks);
		last if $slept == 0;
	}
	is("$slept wake-ups, $used ticks", '0 wake-ups, 0 ticks',
		'launcher and workers sleep through ' . IDLE_S . ' s without commits');
}

# ------------------------------------------------- only those that are concerned

{
	my ($before_a, $before_b, $before_l) = map { switches($_) } $worker_a, $worker_b, $launcher;

	sql($node, q{INSERT INTO unrelated VALUES (1)}) for 1 .. 5;
	sql($node, q{BEGIN; INSERT INTO a (v) VALUES (1); ROLLBACK}) for 1 .. 5;
	sql($node, q{BEGIN; SELECT count(*) FROM a; COMMIT}) for 1 .. 5;
	sleep(0.2);
	is(switches($worker_a), $before_a, 'who rolls back wakes nobody, nor who writes elsewhere or reads');
	for (1 .. 5)
	{
		sql($node, q{INSERT INTO a (v) VALUES (2)});
		is(sql($node, q{SELECT streamq.wait('qa', '60 s')}), 't', 'a commit wakes its query');
	}
	cmp_ok(switches($worker_a), '>', $before_a, 'its worker has woken up');
	is(switches($worker_b) . ' ' . switches($launcher), "$before_b $before_l",
		'another worker and the launcher have not');
}
sql($node, q{INSERT INTO a2 (v) VALUES (2)});
all_read('qa_ticks', 'a query with a trigger interval reads with the next tick');
sql($node, q{INSERT INTO b (v, at) VALUES (3, '2024-01-01 00:10')});
is(sql($node, q{SELECT streamq.wait('qb_windows', '60 s'); SELECT count(*) FROM qb_windows}), "t\n2",
	'windows of an owner who cannot log in close');

# ------------------------------------------------------------- kinds of commits

sql($node, q{
	BEGIN;
	SAVEPOINT s; INSERT INTO a (v) VALUES (3); RELEASE SAVEPOINT s;
	SAVEPOINT s; INSERT INTO a (v) VALUES (4); ROLLBACK TO SAVEPOINT s;
	COMMIT});
all_read('qa', 'a subtransaction');
sql($node, q{DO $$ BEGIN
	BEGIN
		INSERT INTO a (v) VALUES (5);
	EXCEPTION WHEN OTHERS THEN NULL;
	END;
	COMMIT;
	INSERT INTO a (v) VALUES (6);
END $$});
all_read('qa', 'a procedure');
sql($node, "COPY a (v) FROM stdin;\n7\n8\n\\.\n");
all_read('qa', 'COPY');
sql($node, q{BEGIN; TRUNCATE a; INSERT INTO a (v) VALUES (9); COMMIT});
is(sql($node, q{SELECT streamq.wait('qa', '60 s'); SELECT count(*) FROM qa WHERE v = 9}), "t\n1",
	'TRUNCATE and INSERT');
sql($node, q{TRUNCATE a; TRUNCATE qa});
sql($node, q{INSERT INTO a (v) VALUES (10)});
all_read('qa', 'after TRUNCATE');
sql($node, q{VACUUM FULL a; INSERT INTO a (v) VALUES (11)});
all_read('qa', 'after VACUUM FULL');

foreach my $n (1 .. 2)
{
	sql($node, qq{BEGIN; INSERT INTO a (v) VALUES (20 + $n); PREPARE TRANSACTION 'p$n'});
}
sql($node, q{INSERT INTO a (v) VALUES (23)});
all_read('qa', 'with transactions prepared');
sql($node, q{COMMIT PREPARED 'p1'});
all_read('qa', 'COMMIT PREPARED');
sql($node, q{ROLLBACK PREPARED 'p2'});
sql($node, q{INSERT INTO a (v) VALUES (24)});
all_read('qa', 'after ROLLBACK PREPARED');

# nobody tells when a process without our hooks commits a prepared transaction
set_config($node, 'streamq.poll_interval', '10ms');
sql($node, q{BEGIN; INSERT INTO a (v) VALUES (25); PREPARE TRANSACTION 'p3'});
is(sql($node, q{SELECT streamq.wait('qa', '60 s')}), 't', 'a transaction is prepared');
{
	my $before = switches($worker_a);

	for (1 .. 10 * $PostgreSQL::Test::Utils::timeout_default)
	{
		last if switches($worker_a) > $before + 10;
		sleep(0.1);
	}
	cmp_ok(switches($worker_a), '>', $before + 10, 'meanwhile the query polls');
}
set_config($node, 'streamq.poll_interval', '30min');
sql($node, q{COMMIT PREPARED 'p3'});
all_read('qa', 'COMMIT PREPARED after that');

# --------------------------------------------------------- a query over a sink

sql($node, q{
	SET ROLE one;
	SELECT streamq.add_source('qa');
	SELECT streamq.create_query('qa_next', 'SELECT id, v + 1 AS v FROM qa');
	SELECT streamq.start('qa_next')});
all_read('qa_next', 'a query over a sink starts');
for (1 .. 3)
{
	sql($node, q{INSERT INTO a (v) VALUES (30)});
	all_read('qa', 'the first of two queries');
	all_read('qa_next', 'the one over its sink');
}

# ------------------------------------------------------------------- partitions

sql($node, q{
	SET ROLE one;
	CREATE TABLE p (id int, v int) PARTITION BY RANGE (id);
	CREATE TABLE p0 PARTITION OF p FOR VALUES FROM (0) TO (100);
	SELECT streamq.add_source('p');
	SELECT streamq.create_query('qp', 'SELECT id, v FROM p');
	SELECT streamq.start('qp');
	INSERT INTO p VALUES (1, 1)});
all_read('qp', 'a partitioned source');
sql($node, q{SET ROLE one; CREATE TABLE p1 PARTITION OF p FOR VALUES FROM (100) TO (200)});
wait_until_quiet($worker_a);
sql($node, q{INSERT INTO p VALUES (101, 1)});
all_read('qp', 'a new partition');
sql($node, q{SET ROLE one; BEGIN; CREATE TABLE p2 PARTITION OF p FOR VALUES FROM (200) TO (300);
	INSERT INTO p VALUES (201, 1), (1, 2); COMMIT});
all_read('qp', 'created and filled in one transaction');
sql($node, q{SET ROLE one; CREATE TABLE p3 (id int, v int); INSERT INTO p3 VALUES (301, 1)});
sql($node, q{SET ROLE one; ALTER TABLE p ATTACH PARTITION p3 FOR VALUES FROM (300) TO (400)});
all_read('qp', 'attached with rows');
# with a map of its own, so that none is built
sql($node, q{SET ROLE one; ALTER TABLE p DETACH PARTITION p3; INSERT INTO p3 VALUES (302, 1)});
sql($node, q{SET ROLE one; ALTER TABLE p ATTACH PARTITION p3 FOR VALUES FROM (300) TO (400)});
all_read('qp', 'attached again');
wait_until_quiet($worker_a);
sql($node, q{INSERT INTO p VALUES (303, 1)});
all_read('qp', 'rows for it');

# -------------------------------------- commits while a batch is under way

SKIP:
{
	skip 'needs a build with TEST_HOOKS=1', 8
	  unless sql($node, q{SELECT count(*) FROM pg_settings WHERE name = 'streamq.debug_point'});

	# what the batch has not seen has been committed before its query waits
	foreach my $late (
		[ 'qa', 'INSERT INTO a (v) VALUES (35)', 'INSERT INTO a (v) VALUES (36)' ],
		[ 'qp', 'INSERT INTO p VALUES (2, 1)', 'ALTER TABLE p ATTACH PARTITION p3 FOR VALUES FROM (300) TO (400)' ])
	{
		my ($query, $first, $second) = @$late;
		my $hold = holder($node);

		sql($node, 'ALTER TABLE p DETACH PARTITION p3; INSERT INTO p3 VALUES (304, 1)') if $query eq 'qp';
		is(sql($node, "SELECT streamq.wait('$query', '60 s')"), 't', "$query has nothing to do");
		set_point($node, 'before-commit:wait');
		sql($node, $first);
		wait_for($node, q{EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND NOT granted)},
			"a batch of $query is under way");
		sql($node, $second);
		clear_point($node);
		$hold->quit;
		all_read($query, "$query does not wait after that");
	}
}

# --------------------------------------------------------------- without the map

set_config($node, 'streamq.poll_interval', '10ms');
foreach my $how ('', 'CONCURRENTLY')
{
	sql($node, "DROP INDEX $how a_arrivals");
	wait_until_quiet($launcher);
	sql($node, q{INSERT INTO a (v) VALUES (40)});
	all_read('qa', "after DROP INDEX $how the query polls");
	sql($node, "CREATE INDEX $how a_arrivals ON a USING streamq_arrivals ((1))");
}
wait_until_quiet($worker_a);
set_config($node, 'streamq.poll_interval', '30min');
wait_until_quiet($worker_a);
sql($node, q{INSERT INTO a (v) VALUES (41)});
all_read('qa', 'made again, it tells');
sql($node, q{REINDEX INDEX CONCURRENTLY a_arrivals});
wait_until_quiet($worker_a);
sql($node, q{INSERT INTO a (v) VALUES (42)});
all_read('qa', 'so it does after REINDEX CONCURRENTLY');

# ------------------------------------------------------- databases, and restarts

sql($node, 'CREATE DATABASE other');
sql($node, q{
	CREATE EXTENSION streamq;
	CREATE TABLE a (id bigserial, v int);
	SELECT streamq.create_query('qo', 'SELECT id, v FROM a');
	SELECT streamq.start('qo');
	INSERT INTO a (v) VALUES (1)}, 'other');
all_read('qo', 'a query of another database', 'other');
sql($node, q{INSERT INTO a (v) VALUES (2)}, 'other');
all_read('qo', 'which is woken', 'other');
$node->restart;
foreach my $n (1 .. 2)
{
	sql($node, q{INSERT INTO a (v) VALUES (50); INSERT INTO b (v) VALUES (50); INSERT INTO p VALUES (50, 1)});
	sql($node, q{INSERT INTO a (v) VALUES (50)}, 'other');
	all_read($_, "$_ after a restart, $n") foreach qw(qa qb qp);
	all_read('qo', "qo after a restart, $n", 'other');
}
($launcher) = pids_of('launcher');
sql($node, "SELECT pg_terminate_backend($launcher)");
wait_for($node, qq{EXISTS (SELECT FROM pg_stat_activity WHERE backend_type = 'streamq launcher' AND pid <> $launcher)},
	'another launcher');
sql($node, q{INSERT INTO a (v) VALUES (51)});
all_read('qa', 'with the workers of the last one');
sql($node, q{SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE backend_type = 'streamq worker'});
sql($node, q{INSERT INTO a (v) VALUES (52); INSERT INTO b (v) VALUES (52)});
all_read($_, "$_ with new workers") foreach qw(qa qb);
sql($node, q{SELECT streamq.stop('qb'), streamq.stop('qb_windows')});
wait_for($node, q{NOT EXISTS (SELECT FROM pg_stat_activity WHERE backend_type = 'streamq worker' AND usename = 'two')},
	'a worker without work leaves');

# ----------------------------------------------------------- many queries of a table

my $many = 100;

sql($node, qq{
	SET ROLE one;
	CREATE TABLE m (id bigserial, v int);
	SELECT streamq.add_source('m');
	SELECT streamq.create_query('qm' || n, 'SELECT id, v FROM m'), streamq.start('qm' || n) FROM generate_series(1, $many) n});
is(sql($node, "SELECT count(*) FROM generate_series(1, $many) n WHERE streamq.wait('qm' || n, '60 s')"), $many,
	"$many queries of one table start");
for (1 .. 3)
{
	sql($node, q{INSERT INTO m (v) VALUES (1)});
	is(sql($node, "SELECT count(*) FROM generate_series(1, $many) n WHERE streamq.wait('qm' || n, '60 s')"), $many,
		'one commit wakes them all');
}
sql($node, "SELECT streamq.drop_query('qm' || n, true) FROM generate_series(1, $many) n");

# --------------------------------------------------------------------- at random

sql($node, q{SELECT streamq.start('qb')});
{
	my $load = start_pgbench(
		$node, '-c 8 -j 2 -T 10',
		one => q{\set us random(0, 20000)
			INSERT INTO a (v) VALUES (:us);
			\sleep :us us},
		several => q{\set us random(0, 50000)
			BEGIN;
			INSERT INTO p VALUES (:us % 400, 1);
			SAVEPOINT s;
			INSERT INTO b (v) VALUES (:us);
			ROLLBACK TO SAVEPOINT s;
			INSERT INTO b (v) VALUES (:us);
			COMMIT;
			\sleep :us us},
		nothing => q{\set us random(0, 50000)
			BEGIN;
			INSERT INTO a (v) VALUES (-1);
			ROLLBACK;
			\sleep :us us},
		prepared => q{\set us random(0, 50000)
			BEGIN;
			INSERT INTO a (v) VALUES (:us);
			PREPARE TRANSACTION 'r:client_id';
			\sleep :us us
			COMMIT PREPARED 'r:client_id';});

	ok(finish_pgbench($load), 'writers with pauses') or diag($load->{output});
	foreach my $query (qw(qa qb qp qa_next))
	{
		is(sql($node, "SELECT streamq.wait('$query', '10 s')"), 't', "$query has missed nothing");
		exact_ok($node, $query, "$query: exact");
	}
}
# each of these commits is one that nothing follows
foreach my $n (1 .. 100)
{
	sql($node, 'INSERT INTO a (v) SELECT 1 FROM generate_series(1, ' . (1 + $n % 7) . ')');
	next if sql($node, q{SELECT streamq.wait('qa', '10 s')}) eq 't';
	fail("commit $n woke nobody");
	last;
}
exact_ok($node, 'qa', 'one commit after the other');
$node->stop;

# --------------------------------------------------- more owners than workers

my $few = new_server('wakeup_few', 'streamq.poll_interval = 30min', 'streamq.max_workers = 1');

foreach my $n (1 .. 3)
{
	sql($few, qq{
		CREATE ROLE o$n LOGIN;
		GRANT CREATE ON SCHEMA public TO o$n;
		SET ROLE o$n;
		CREATE TABLE t$n (id bigserial, v int);
		SELECT streamq.add_source('t$n');
		SELECT streamq.create_query('q$n', 'SELECT id, v FROM t$n');
		SELECT streamq.start('q$n')});
}
foreach my $turn (1 .. 3)
{
	foreach my $n (1 .. 3)
	{
		sql($few, "INSERT INTO t$n (v) VALUES ($turn)");
		is(sql($few, "SELECT streamq.wait('q$n', '60 s')"), 't', "one worker for three: turn $turn, query $n");
	}
}
sql($few, 'INSERT INTO t1 (v) VALUES (9); INSERT INTO t2 (v) VALUES (9); INSERT INTO t3 (v) VALUES (9)');
is(sql($few, "SELECT streamq.wait('q$_', '60 s')"), 't', "all at once: query $_") foreach 1 .. 3;
$few->stop;

done_testing();
