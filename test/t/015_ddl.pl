# 015_ddl.pl
#		What others do to the objects of started queries: a worker is in the middle of
#		a batch, waits behind a command that has not ended, or has to find that things
#		are no longer as they were.  Nothing hangs, spins or is lost; what is wrong can
#		be read in streamq.status.
use strict;
use warnings FATAL => 'all';

use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Utils;
use StreamqTest;
use Test::More;

my $node = new_server('ddl', 'streamq.max_retries = 1', 'autovacuum = off');

# Two queries of an owner who cannot log in: one without state, one that keeps groups.
# A batch stops in the sink's trigger while somebody else holds the advisory lock.
sub new_queries
{
	my ($database) = @_;

	sql($node, q{
		SET client_min_messages = warning;
		CREATE EXTENSION IF NOT EXISTS streamq;
		DROP SCHEMA IF EXISTS ddl CASCADE;
		CREATE SCHEMA ddl;
		GRANT ALL ON SCHEMA ddl TO one, two;
		SET ROLE one;
		SET search_path = ddl;
		CREATE FUNCTION park() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM pg_advisory_xact_lock_shared(1); RETURN NULL; END';
		CREATE TABLE src (k int, v int);
		CREATE TABLE sink (k int, v int, by name DEFAULT current_user);
		CREATE TABLE sinka (k int PRIMARY KEY, n bigint, by name DEFAULT current_user);
		CREATE TRIGGER park AFTER INSERT ON sink FOR EACH STATEMENT EXECUTE FUNCTION park();
		CREATE TRIGGER park AFTER INSERT ON sinka FOR EACH STATEMENT EXECUTE FUNCTION park();
		SELECT streamq.create_query('q', 'SELECT k, v FROM src', sink => 'sink');
		SELECT streamq.create_query('qa', 'SELECT k, sum(v) AS n FROM src GROUP BY k', 'update', 'sinka');
		INSERT INTO src VALUES (1, 1);
		SELECT streamq.start('q'), streamq.start('qa');
		SELECT streamq.wait('q'), streamq.wait('qa')}, $database);
	return;
}

# a session with the advisory lock, when a batch of each query has come to it
sub hold
{
	my ($database) = @_;
	my $session = $node->background_psql($database // 'postgres');

	$session->query_safe('SELECT pg_advisory_lock(1)');
	sql($node, 'INSERT INTO ddl.src VALUES (1, 2), (2, 3)', $database);
	wait_for($node, "count(*) > 0 FROM pg_locks WHERE locktype = 'advisory' AND NOT granted", 'a batch is in its trigger');
	return $session;
}

sub goes_on_ok
{
	my ($name) = @_;

	is(sql($node, q{INSERT INTO ddl.src VALUES (2, 4), (3, 5); SELECT streamq.wait('q'), streamq.wait('qa')}), 't|t',
		"$name: goes on");
	is(sql($node, q{SELECT count(*) FROM streamq.verify('q'); SELECT count(*) FROM streamq.verify('qa')}), "0\n0",
		"$name: exact");
	is(sql($node, q{SELECT state, retries, last_error FROM streamq.status WHERE state = 'failed' OR retries > 0}), '',
		"$name: without an error");
	return;
}

sql($node, 'CREATE ROLE one; CREATE ROLE two');
new_queries();

# --------------------------------------------------------- commands, while it runs

# any table that is altered wakes all queries of the database
sub wake_queries
{
	sql($node, 'CREATE TABLE ddl.waker (); ALTER TABLE ddl.waker ADD COLUMN i int; DROP TABLE ddl.waker');
	return;
}

my %commands = (
	'RENAME' => q{ALTER TABLE ddl.src RENAME COLUMN v TO value; ALTER TABLE ddl.src RENAME TO renamed;
		ALTER TABLE ddl.renamed RENAME TO src; ALTER TABLE ddl.src RENAME COLUMN value TO v;
		ALTER TABLE ddl.sink RENAME TO renamed; ALTER VIEW streamq_query.qa RENAME TO renamed;
		ALTER ROLE one RENAME TO renamed; ALTER ROLE renamed RENAME TO one},
	'SET SCHEMA' => q{ALTER TABLE ddl.sinka SET SCHEMA public},
	'REINDEX' => q{REINDEX SCHEMA ddl; REINDEX TABLE streamq.queries; REINDEX TABLE streamq.offsets; REINDEX SCHEMA streamq_state},
	'REINDEX CONCURRENTLY' => [ 'REINDEX TABLE CONCURRENTLY ddl.src', 'REINDEX SCHEMA CONCURRENTLY streamq_state', 'REINDEX SCHEMA CONCURRENTLY streamq' ],
	'VACUUM FULL' => [ 'VACUUM FULL ddl.src, streamq.queries, streamq.offsets, streamq.commits, streamq.sources' ]);

foreach my $name (sort keys %commands)
{
	my $session = hold();
	my $command = $commands{$name};
	my $ddl = $node->background_psql('postgres');

	$ddl->query_until(qr/begun/, "\\echo begun\n" . join('', map { "$_;\n" } ref $command ? @$command : split /;/, $command));
	$session->query_safe('SELECT pg_advisory_unlock(1)');
	$session->quit;
	$ddl->query_until(qr/done/, "\\echo done\n");
	$ddl->quit;
	goes_on_ok($name);
}

# ----------------------------------------- a worker behind a command that has not ended

foreach my $call ('stop', 'drop_query')
{
	my $ddl = $node->background_psql('postgres');

	new_queries();
	$ddl->query_safe('BEGIN');
	$ddl->query_safe('ALTER TABLE ddl.src ADD COLUMN more int');
	wake_queries();
	wait_for($node, "count(*) > 0 FROM pg_locks l JOIN pg_stat_activity a USING (pid) WHERE backend_type = 'streamq worker' AND NOT granted",
		"$call(): a worker waits");
	if ($call eq 'stop')
	{
		is(sql_error($node, q{SELECT streamq.stop('q'), streamq.stop('qa')}), '', "$call(): need not wait");
		$ddl->query_safe('ROLLBACK');
		sql($node, q{SELECT streamq.start('q'), streamq.start('qa')});
		goes_on_ok($call);
	}
	else
	{
		# they need the definitions only, not the source
		is(sql_error($node, q{SELECT streamq.drop_query('q'), streamq.drop_query('qa')}), '', "$call(): need not wait");
		$ddl->query_safe('COMMIT');
		is(sql($node, 'SELECT count(*) FROM streamq.worker_activity()'), '0', "$call(): no task is left");
	}
	$ddl->quit;
}

# ----------------------------------------------- start(), and who has not seen it yet

foreach my $call ("streamq.reset('q')", "streamq.drop_query('q')", "streamq.start('q', '1 h')")
{
	my $start = $node->background_psql('postgres');
	my $other;

	new_queries();
	sql($node, q{SELECT streamq.stop('q')});
	$start->query_safe('BEGIN');
	$start->query_safe(q{SELECT streamq.start('q')});
	$other = psql_in_background($node, "SELECT $call");
	wait_for($node, "count(*) > 0 FROM pg_locks WHERE locktype = 'transactionid' AND NOT granted", "$call: waits for start()");
	$start->query_safe('COMMIT');
	$start->quit;
	$other->{handle}->finish;
	if ($call =~ /reset/)
	{
		like($other->{err}, qr/cannot reset streaming query "q" while it is running/, "$call: refused");
		goes_on_ok($call);
	}
	elsif ($call =~ /start/)
	{
		like($other->{err}, qr/streaming query "q" is already started/, "$call: refused");
		goes_on_ok($call);
	}
	else
	{
		is($other->{err}, '', "$call: done");
		is(sql($node, q{SELECT name FROM streamq.queries}), 'qa', "$call: it is gone");
	}
}

# a run() beside a worker in a batch: it waits for him, and does the rest
{
	my $session;
	my $run;

	new_queries();
	$session = hold();
	$run = psql_in_background($node, q{CALL streamq.run('q'); CALL streamq.run('qa')});
	wait_for($node, "count(*) > 0 FROM pg_locks WHERE locktype = 'object' AND NOT granted", 'run(): waits for the worker');
	$session->query_safe('SELECT pg_advisory_unlock(1)');
	$session->quit;
	$run->{handle}->finish;
	is($run->{err}, '', 'run(): done');
	goes_on_ok('run()');
}

# -------------------------------------------------------------------------- owners

# given away while the worker of the former owner waits for the source
{
	my $ddl = $node->background_psql('postgres');

	new_queries();
	$ddl->query_safe('BEGIN');
	$ddl->query_safe('LOCK TABLE ddl.src');
	$ddl->query_safe('INSERT INTO ddl.src VALUES (2, 3)');
	wake_queries();
	wait_for($node, "count(*) > 0 FROM pg_locks l JOIN pg_stat_activity a USING (pid) WHERE backend_type = 'streamq worker' AND NOT granted",
		'given away: a worker waits');
	sql($node, q{ALTER VIEW streamq_query.q OWNER TO two; ALTER VIEW streamq_query.qa OWNER TO two;
		ALTER TABLE ddl.sink OWNER TO two; ALTER TABLE ddl.sinka OWNER TO two});
	$ddl->query_safe('GRANT SELECT ON ddl.src TO two; COMMIT');
	$ddl->quit;
	is(sql($node, q{SELECT streamq.wait('q'), streamq.wait('qa')}), 't|t', 'given away: the new owner\'s worker goes on');
	is(sql($node, q{SELECT by FROM ddl.sink WHERE k = 2; SELECT by FROM ddl.sinka WHERE k = 2}), "two\ntwo", 'given away: as he');
}

# all that an owner has is dropped, and he himself, with a worker in a batch
{
	my $session;
	my $ddl = $node->background_psql('postgres');

	new_queries();
	$session = hold();
	$ddl->query_until(qr/begun/, "\\echo begun\nSET client_min_messages = warning;\nDROP OWNED BY one CASCADE;\n");
	wait_for($node, "count(*) > 0 FROM pg_locks WHERE locktype = 'relation' AND NOT granted", 'DROP OWNED waits');
	$session->query_safe('SELECT pg_advisory_unlock(1)');
	$session->quit;
	$ddl->query_until(qr/done/, "\\echo done\n");
	$ddl->quit;
	is(sql($node, q{SELECT (SELECT count(*) FROM streamq.queries), (SELECT count(*) FROM streamq.commits),
		(SELECT count(*) FROM pg_class WHERE relnamespace = 'streamq_state'::regnamespace)}), '0|0|0', 'DROP OWNED: nothing is left');
	sql($node, 'DROP ROLE one');
	wait_for($node, "count(*) = 0 FROM streamq.worker_activity()", 'DROP ROLE: no worker has a task');
	sql($node, 'CREATE ROLE one');
}

# settings of the owner that leave him no batch: it fails, and that can be read
{
	new_queries();
	sql($node, q{SELECT streamq.stop('q'), streamq.stop('qa');
		ALTER ROLE one SET default_transaction_read_only = on;
		SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE backend_type = 'streamq worker'});
	sql($node, q{INSERT INTO ddl.src VALUES (5, 5); SELECT streamq.start('q')});
	wait_for($node, "state = 'failed' FROM streamq.status WHERE name = 'q'", 'read-only transactions: it fails');
	like(sql($node, q{SELECT last_error FROM streamq.status WHERE name = 'q'}), qr/read-only transaction/, 'read-only transactions: last_error says so');
	sql($node, q{ALTER ROLE one RESET ALL;
		SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE backend_type = 'streamq worker';
		SELECT streamq.start('q'), streamq.start('qa')});
	goes_on_ok('read-only transactions');
}

# a function of the query that stops or drops it
{
	sql($node, q{SET ROLE one; SET search_path = ddl;
		CREATE FUNCTION suicide() RETURNS int LANGUAGE plpgsql AS 'BEGIN PERFORM streamq.drop_query(''suicidal''); RETURN 1; END';
		SELECT streamq.create_query('suicidal', 'SELECT k, suicide() AS v FROM src');
		SELECT streamq.start('suicidal')});
	wait_for($node, "state = 'failed' FROM streamq.status WHERE name = 'suicidal'", 'controls itself: it fails');
	like(sql($node, q{SELECT last_error FROM streamq.status WHERE name = 'suicidal'}), qr/from within its own batch/,
		'controls itself: last_error says so');
	sql($node, q{SELECT streamq.drop_query('suicidal', true)});
}

# ----------------------------------------------------------------------- databases

sql($node, 'CREATE DATABASE other');
new_queries('other');
foreach my $command ('ALTER DATABASE other RENAME TO renamed', 'ALTER DATABASE renamed RENAME TO other',
	'CREATE DATABASE copied TEMPLATE other', 'DROP DATABASE other WITH (FORCE)', 'DROP DATABASE copied')
{
	is(sql_error($node, $command), '', $command);
}

# ------------------------------------------------------------------ a damaged map

{
	my $file;
	my $damage;

	sql($node, q{SELECT streamq.stop('q'), streamq.stop('qa')});
	$file = $node->data_dir . '/' . sql($node, q{SELECT pg_relation_filepath('ddl.src_arrivals')});
	sql($node, 'INSERT INTO ddl.src VALUES (6, 6); CHECKPOINT');
	$node->stop;
	open my $map, '+<:raw', $file or die "$file: $!";
	seek $map, 8192, 0;
	print $map "\x01" x 8192;
	close $map;
	$node->start;
	$damage = sql_error($node, q{CALL streamq.run('q')});
	like($damage, qr/XX00[12]/, 'a damaged map: an error');
	is(sql($node, q{SELECT name, state, pending_pages FROM streamq.status ORDER BY name}), "q|stopped|\nqa|stopped|",
		'a damaged map: status works all the same');
	sql($node, 'REINDEX INDEX ddl.src_arrivals');
	sql($node, q{SELECT streamq.start('q'), streamq.start('qa')});
	goes_on_ok('REINDEX of a damaged map');
}

done_testing();
