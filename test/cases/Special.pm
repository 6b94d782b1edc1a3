# Special.pm
#		What cases need that steps cannot say: "@call NAME" calls one of these, with
#		the variant that is running.  It returns complaints.
package Special;

use strict;
use warnings FATAL => 'all';

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use StreamqTest;
use Test::More ();
use Time::HiRes qw(usleep);

my $WORKERS = q{SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'streamq worker'};

# expect(WHAT, GOT, EXPECTED): a complaint, or none
sub expect
{
	my ($what, $got, $expected) = @_;

	return $got eq $expected ? () : "$what: expected $expected, got $got";
}

# matches(WHAT, GOT, PATTERN)
sub matches
{
	my ($what, $got, $pattern) = @_;

	return $got =~ $pattern ? () : "$what: expected $pattern, got $got";
}

# comes_true(NODE, CONDITION, DATABASE)
sub comes_true
{
	my ($node, $condition, $database) = @_;

	return $node->poll_query_until($database, "SELECT $condition") ? () : "has not become true: $condition";
}

# exact(RUN, QUERY...): the sinks are what the plain SELECT gives
sub exact
{
	my ($run, @queries) = @_;

	return map { expect("sink of $_", sql($run->{node}, "SELECT * FROM test.difference('$_')", $run->{database}), '') } @queries;
}

# what the log has said since the variant began, or since an offset
sub log_of
{
	my ($run, $offset) = @_;

	return slurp_file($run->{node}->logfile, $offset // $run->{log_offset});
}

# Twenty clients that insert, sleep or roll back, while a worker and run() read.
sub many_writers
{
	my ($run) = @_;
	my ($node, $database) = @$run{qw(node database)};

	sql($node, q{
		CREATE TABLE ev (id bigint GENERATED ALWAYS AS IDENTITY, k text, ts timestamptz, v int);
		SELECT streamq.create_query('q', 'SELECT id, v FROM ev');
		SELECT streamq.create_query('n', 'SELECT count(*) AS n, sum(v) AS s FROM ev', 'complete');
		SELECT streamq.create_query('cut', 'SELECT id, v FROM ev', max_rows_per_batch => 7);
		SELECT streamq.start('q'), streamq.start('n'), streamq.start('cut')}, $database);
	my $file = $node->basedir . '/many_writers.sql';
	unlink $file;
	append_to_file($file, q{
\set r random(1, 10)
\set ms random(0, 30)
BEGIN;
INSERT INTO ev (k, v) VALUES ('x', 1);
\sleep :ms ms
\if :r = 1
ROLLBACK;
\else
COMMIT;
\endif
} =~ s/:r = 1/:rolls_back/r =~ s/(\\set ms.*\n)/$1\\set rolls_back :r = 1\n/r);
	my ($out, $err);
	my $good = IPC::Run::run([ 'pgbench', '-n', '-c', '20', '-t', '40', '-f', $file, $node->connstr($database) ],
		'>', \$out, '2>', \$err);
	return "pgbench: $err" unless $good;
	sql($node, "SELECT streamq.wait('q', '60 s'), streamq.wait('n', '60 s'), streamq.wait('cut', '60 s')", $database);
	return (exact($run, qw(q n cut)),
		expect('rows', sql($node, 'SELECT (SELECT count(*) FROM q) = (SELECT count(*) FROM ev), (SELECT count(*) = count(DISTINCT id) FROM q), (SELECT count(*) > 500 FROM ev)', $database), 't|t|t'));
}

# A transaction of another database, with an xid, holds nothing up.
sub idle_in_other_database
{
	my ($run) = @_;
	my ($node, $database) = @$run{qw(node database)};
	my $other = $node->background_psql('postgres');

	$other->query_safe('BEGIN; SELECT pg_current_xact_id()');
	sql($node, q{INSERT INTO ev (k) VALUES ('z')}, $database);
	my @failures = (expect('wait()', sql($node, "SELECT streamq.wait('q', '30 s')", $database), 't'), exact($run, 'q'));
	$other->quit;
	return @failures;
}

# The next xid is moved beyond 2^32, in steps of less than 2^31 as they occur in life,
# with everything frozen before each.  A page has one row, as it is the page that tells
# old rows from new ones (src/README.md).  More than 2^32 transactions at a time are refused.
sub epoch
{
	my ($run) = @_;
	my $node = new_server('cases_epoch', 'autovacuum = off', 'fsync = off');
	my @failures;
	my $move_to = sub {
		my ($epoch, $xid) = @_;
		my $segment = sprintf '%s/pg_xact/%04X', $node->data_dir, $xid >> 20;

		sql($node, q{UPDATE pg_database SET datallowconn = true WHERE datname = 'template0'});
		$node->command_ok([ 'vacuumdb', '--all', '--freeze', '--quiet' ], "SB-008: everything is frozen before epoch $epoch, xid $xid");
		$node->stop;
		append_to_file($segment, "\0" x (32 * 8192)) unless -e $segment;
		$node->command_ok([ 'pg_resetwal', '-e', $epoch, '-x', $xid, $node->data_dir ], "SB-008: the next xid is $xid of epoch $epoch");
		$node->start;
	};

	sql($node, q{
		CREATE TABLE ev (id bigint GENERATED ALWAYS AS IDENTITY, k text DEFAULT repeat('x', 5000), ts timestamptz, v int);
		ALTER TABLE ev ALTER k SET STORAGE plain;
		SELECT streamq.create_query('q', 'SELECT id FROM ev');
		SELECT streamq.create_query('n', 'SELECT count(*) AS n FROM ev', 'complete');
		SELECT streamq.start('n');
		INSERT INTO ev (v) VALUES (1);
		CALL streamq.run('q')});
	foreach my $step ([ 0, 1 << 30 ], [ 0, 1 << 31 ], [ 0, 3 << 30 ], [ 1, 1 << 20 ])
	{
		$move_to->(@$step);
		sql($node, q{INSERT INTO ev (v) VALUES (2); CALL streamq.run('q'); SELECT streamq.wait('n', '30 s')});
		sql($node, 'VACUUM FREEZE ev');
		push @failures, expect("epoch $step->[0], xid $step->[1]",
			sql($node, q{CALL streamq.run('q'); SELECT count(*) = (SELECT count(*) FROM ev), count(DISTINCT id) = count(*) FROM q}) =~ s/.*\n//sr, 't|t');
	}
	push @failures, expect('count', sql($node, q{SELECT streamq.wait('n', '30 s'); SELECT n FROM n}), "t\n5");

	$move_to->(2, 1 << 21);
	push @failures, matches('after more than 2^32 transactions', sql_error($node, q{INSERT INTO ev (v) VALUES (3); CALL streamq.run('q')}), qr/ERROR:  55000: offset is too old/);
	push @failures, expect('nothing is read twice', sql($node, 'SELECT count(*) FROM q'), '5');
	$node->stop;
	return @failures;
}

# More queries than workers, and no slot for a worker.
sub few_worker_slots
{
	my ($run) = @_;
	my $node = new_server('cases_slots', 'max_worker_processes = 5', 'streamq.max_workers = 1', 'fsync = off', 'log_checkpoints = off');
	my $offset = -s $node->logfile;
	my @failures;

	sql($node, join '', map { "CREATE TABLE t$_ (a int); SELECT streamq.add_source('t$_'); SELECT streamq.create_query('q$_', 'SELECT count(*) AS n FROM t$_', 'complete'); SELECT streamq.start('q$_'); INSERT INTO t$_ VALUES (1);" } 1 .. 6);
	push @failures, expect("query $_", sql($node, "SELECT streamq.wait('q$_', '20 s'); SELECT n FROM q$_"), "t\n1") foreach 1 .. 6;
	return @failures if @failures;
	sql($node, q{SELECT streamq.stop('q1'), streamq.stop('q2'); INSERT INTO t6 VALUES (1)});
	push @failures, expect('after two have been stopped', sql($node, q{SELECT streamq.wait('q6', '60 s'); SELECT n FROM q6}), "t\n2");

	# besides the two launchers nothing fits in
	$node->append_conf('postgresql.conf', "max_worker_processes = 2\n");
	$offset = -s $node->logfile;
	$node->restart;
	sql($node, 'INSERT INTO t3 VALUES (1)');
	eval { $node->wait_for_log(qr/WARNING:  out of background worker slots.*max_worker_processes/s, $offset); 1 }
	  or push @failures, 'the log says nothing of missing slots';
	my $before = -s $node->logfile;
	usleep(1_500_000);
	my @lines = split /\n/, slurp_file($node->logfile, $before);
	push @failures, "log without a slot: " . scalar(@lines) . " lines in a second: $lines[0]" if @lines > 2;
	$node->append_conf('postgresql.conf', "max_worker_processes = 8\n");
	$node->restart;
	push @failures, expect('with more slots', sql($node, q{SELECT streamq.wait('q3', '60 s'); SELECT n FROM q3}), "t\n2");
	$node->stop;
	return @failures;
}

# Databases that take no connections, and those without the extension.
sub other_databases
{
	my ($run) = @_;
	my ($node, $database) = @$run{qw(node database)};
	my @failures;

	sql($node, 'CREATE DATABASE cases_closed ALLOW_CONNECTIONS false');
	sql($node, 'CREATE DATABASE cases_plain');
	sql($node, 'CREATE DATABASE cases_shut');
	sql($node, q{CREATE EXTENSION streamq; CREATE TABLE s (a int); SELECT streamq.create_query('q', 'SELECT a FROM s'); SELECT streamq.start('q'); INSERT INTO s VALUES (1); SELECT streamq.wait('q', '30 s')}, 'cases_shut');
	sql($node, 'ALTER DATABASE cases_shut ALLOW_CONNECTIONS false');
	sql($node, q{CREATE TABLE t (a int); SELECT streamq.create_query('q', 'SELECT a FROM t'); SELECT streamq.start('q')}, $database);
	$node->restart;
	sql($node, 'INSERT INTO t VALUES (1)', $database);
	push @failures, expect('wait()', sql($node, "SELECT streamq.wait('q', '60 s')", $database), 't');
	usleep(1_000_000);
	push @failures, expect('workers elsewhere',
		sql($node, q{SELECT count(*) FROM pg_stat_activity WHERE backend_type ~ '^streamq' AND datname IN ('template0', 'cases_closed', 'cases_plain', 'cases_shut')}), '0');
	my @fatal = grep { /FATAL/ && !/terminating|shutting down|starting up/ } split /\n/, log_of($run);
	push @failures, 'FATAL ' . scalar(@fatal) . " times: $fatal[0]" if @fatal > 3;
	push @failures, "template0 in the log: $_" foreach grep { /FATAL.*(template0|cases_closed|cases_plain)/ } @fatal;
	sql($node, 'ALTER DATABASE cases_shut ALLOW_CONNECTIONS true');
	sql($node, "DROP DATABASE $_") foreach qw(cases_closed cases_plain cases_shut);
	return @failures;
}

# DROP DATABASE of another one while a batch runs, and of one's own.
sub drop_database
{
	my ($run) = @_;
	my ($node, $database) = @$run{qw(node database)};
	my @failures;
	my $setup = q{CREATE EXTENSION streamq; CREATE TABLE t (a int);
		SELECT streamq.create_query('q', 'SELECT a FROM t'), streamq.create_query('slow', 'SELECT a FROM t WHERE pg_sleep(3600) IS NOT NULL');
		SELECT streamq.start('q'), streamq.start('slow'); INSERT INTO t VALUES (1); SELECT streamq.wait('q', '30 s')};

	sql($node, "CREATE DATABASE $_") foreach qw(cases_own cases_other);
	sql($node, $setup, 'cases_own');
	push @failures, comes_true($node, q{EXISTS (SELECT FROM pg_stat_activity WHERE backend_type = 'streamq worker' AND wait_event = 'PgSleep')}, 'postgres');
	my $start = time;
	sql($node, "SET statement_timeout = '30 s'; DROP DATABASE cases_other");
	push @failures, 'DROP DATABASE of another one took too long' if time - $start > 20;
	push @failures, expect('WITH (FORCE)', sql_error($node, "SET statement_timeout = '30 s';\nDROP DATABASE cases_own WITH (FORCE)"), '');
	push @failures, comes_true($node, qq{NOT EXISTS (SELECT FROM pg_stat_activity WHERE backend_type = 'streamq worker' AND datname = 'cases_own')}, 'postgres');

	# without FORCE, with workers only, and again under the name
	sql($node, 'CREATE DATABASE cases_own');
	sql($node, $setup, 'cases_own');
	push @failures, expect('without FORCE', sql_error($node, "SET statement_timeout = '30 s';\nDROP DATABASE cases_own"), '');
	my $offset = -s $node->logfile;
	usleep(1_000_000);
	push @failures, "it stays in the log: $_" foreach grep { /cases_own|database \d+/ } split /\n/, slurp_file($node->logfile, $offset);
	return @failures;
}

# DROP EXTENSION, in a database of its own.
sub drop_extension
{
	my ($run) = @_;
	my ($node, $database) = @$run{qw(node database)};
	my @failures;

	sql($node, 'CREATE DATABASE cases_gone');
	sql($node, q{CREATE EXTENSION streamq; CREATE TABLE t (a int);
		SELECT streamq.create_query('q', 'SELECT a, count(*) AS n FROM t GROUP BY a', 'update'), streamq.create_query('slow', 'SELECT a FROM t WHERE pg_sleep(3600) IS NOT NULL');
		SELECT streamq.start('q'), streamq.start('slow'); INSERT INTO t VALUES (1); SELECT streamq.wait('q', '30 s')}, 'cases_gone');
	push @failures, comes_true($node, q{EXISTS (SELECT FROM pg_stat_activity WHERE backend_type = 'streamq worker' AND wait_event = 'PgSleep')}, 'postgres');
	push @failures, expect('DROP EXTENSION', sql_error($node, "SET statement_timeout = '30 s';\nDROP EXTENSION streamq CASCADE", 'cases_gone'), '');
	push @failures, comes_true($node, q{NOT EXISTS (SELECT FROM pg_stat_activity WHERE backend_type = 'streamq worker' AND datname = 'cases_gone')}, 'postgres');
	my $offset = -s $node->logfile;
	usleep(1_000_000);
	push @failures, "still in the log: $_" foreach grep { /ERROR|FATAL|WARNING/ } split /\n/, slurp_file($node->logfile, $offset);
	push @failures, expect('the sink is kept', sql($node, 'SELECT a, n FROM q', 'cases_gone'), '1|1');
	push @failures, expect('again', sql($node, q{CREATE EXTENSION streamq; UPDATE t SET a = 2; DROP TABLE q;
		SELECT streamq.create_query('q', 'SELECT a, count(*) AS n FROM t GROUP BY a', 'update'); SELECT streamq.start('q'); SELECT streamq.wait('q', '30 s'); SELECT a, n FROM q}, 'cases_gone') =~ s/.*\n//sr, '2|1');
	sql($node, 'DROP DATABASE cases_gone');
	return @failures;
}

# A standby is promoted after a crash of the primary in the middle of a batch.
sub promotion
{
	my ($run) = @_;
	my $primary = PostgreSQL::Test::Cluster->new('cases_primary');

	$primary->init(allows_streaming => 1);
	$primary->append_conf('postgresql.conf', "shared_preload_libraries = 'streamq'\nstreamq.poll_interval = 10ms\nfsync = off\nlog_statement = none\n");
	$primary->start;
	sql($primary, q{CREATE EXTENSION streamq; CREATE TABLE ev (id bigint GENERATED ALWAYS AS IDENTITY, k text); CREATE TABLE pause (seconds float8, port int); INSERT INTO pause VALUES (0, current_setting('port')::int);
		SELECT streamq.add_source('ev');
		SELECT streamq.create_query('q', 'SELECT count(*) AS n FROM ev', 'complete'), streamq.create_query('slow', 'SELECT k, count(pg_sleep(p.seconds)) AS n FROM ev, (SELECT CASE WHEN port = current_setting(''port'')::int THEN seconds ELSE 0 END AS seconds FROM pause) p GROUP BY k', 'update');
		SELECT streamq.start('q'), streamq.start('slow'); INSERT INTO ev (k) VALUES ('a'); SELECT streamq.wait('q', '30 s'), streamq.wait('slow', '30 s')});
	$primary->backup('base');
	my $standby = PostgreSQL::Test::Cluster->new('cases_standby');

	$standby->init_from_backup($primary, 'base', has_streaming => 1);
	$standby->start;
	sql($primary, q{UPDATE pause SET seconds = 3600; INSERT INTO ev (k) VALUES ('a'), ('b')});
	my @failures = comes_true($primary, q{EXISTS (SELECT FROM pg_stat_activity WHERE backend_type = 'streamq worker' AND wait_event = 'PgSleep')}, 'postgres');
	$primary->wait_for_catchup($standby, 'replay', $primary->lsn('flush'));
	$primary->stop('immediate');
	$standby->promote;
	sql($standby, q{INSERT INTO ev (k) SELECT 'c' FROM generate_series(1, 5)});
	push @failures, expect('after the promotion', sql($standby, q{SELECT streamq.wait('q', '60 s'), streamq.wait('slow', '60 s'); SELECT n FROM q; SELECT k, n FROM slow ORDER BY k}), "t|t\n8\na|2\nb|1\nc|5");
	$standby->stop;
	return @failures;
}

# The owner's DDL is never the victim of a deadlock.
sub ddl_during_batches
{
	my ($run) = @_;
	my ($node, $database) = @$run{qw(node database)};
	my @failures;

	sql($node, q{
		CREATE TABLE ev (id bigint GENERATED ALWAYS AS IDENTITY, k text, ts timestamptz, v int);
		SELECT streamq.create_query('q', 'SELECT k, count(*) AS n FROM ev GROUP BY k', 'update');
		SELECT streamq.create_query('r', 'SELECT id FROM ev');
		SELECT streamq.start('q'), streamq.start('r')}, $database);
	my $writer = psql_in_background($node, join('', map { "INSERT INTO ev (k) SELECT 'k' || i % 5 FROM generate_series(1, 20) i;\n" } 1 .. 300), $database);
	# whose timeout ends first is the victim: here it can only be the worker
	my $error = sql_error($node, "SET deadlock_timeout = '60 s';\n" . join('', map { "BEGIN; LOCK TABLE q IN ACCESS EXCLUSIVE MODE; ALTER TABLE ev ADD COLUMN c int; ALTER TABLE ev DROP COLUMN c; COMMIT;\n" } 1 .. 100)
		. join('', map { "CREATE INDEX i ON q (n); DROP INDEX i; CREATE INDEX j ON ev (v); DROP INDEX j; SELECT streamq.create_query('x', 'SELECT id FROM ev'); SELECT streamq.start('x'); BEGIN; LOCK TABLE x IN ACCESS EXCLUSIVE MODE; SELECT streamq.drop_query('x', true); COMMIT;\n" } 1 .. 10), $database);
	push @failures, expect('DDL', $error, '');
	$writer->{handle}->finish or push @failures, "the writer: $writer->{err}";
	push @failures, expect('wait()', sql($node, "SELECT streamq.wait('q', '60 s'), streamq.wait('r', '60 s')", $database), 't|t');
	push @failures, exact($run, qw(q r));
	return @failures;
}

# A worker is killed between any two steps of a batch, with the whole server.
sub killed_workers
{
	my ($run) = @_;
	my ($node, $database) = @$run{qw(node database)};
	my $hooks = sql($node, q{SELECT count(*) FROM pg_settings WHERE name = 'streamq.debug_point'});
	my ($id, @failures) = (3);

	sql($node, q{
		CREATE TABLE t (id int, v int);
		SELECT streamq.create_query('q', 'SELECT id, v FROM t'), streamq.create_query('u', 'SELECT v, count(*) AS n, sum(id) AS s FROM t GROUP BY v', 'update');
		INSERT INTO t VALUES (1, 10), (2, 20), (3, 30)}, $database);
	foreach my $point ($hooks ? qw(batch-start before-sink after-sink before-commit after-commit) : ('sleep'))
	{
		foreach my $query (qw(q u))
		{
			set_config($node, 'streamq.debug_point', "$point:crash") if $hooks;
			# the server ends all sessions when one has been killed
			$node->psql($database, "CALL streamq.run('$query')");
			if ($hooks)
			{
				$node->poll_query_until('postgres', 'SELECT true') or return 'the server does not come back';
				clear_point($node);
			}
			$id++;
			sql($node, "INSERT INTO t VALUES ($id, 10); CALL streamq.run('$query')", $database);
			push @failures, map { "$point: $_" } exact($run, $query);
		}
	}
	sql($node, "SELECT streamq.start('q'), streamq.start('u')", $database);
	foreach my $round (1 .. 3)
	{
		sql($node, "INSERT INTO t SELECT $id + i, i % 3 FROM generate_series(1, 50) i", $database);
		$id += 50;
		$node->stop('immediate');
		$node->start;
	}
	push @failures, expect('wait()', sql($node, "SELECT streamq.wait('q', '60 s'), streamq.wait('u', '60 s')", $database), 't|t');
	push @failures, exact($run, qw(q u));
	return @failures;
}

# Each batch leaves a few rows behind, but not for ever.
sub many_batches
{
	my ($run) = @_;
	my ($node, $database) = @$run{qw(node database)};
	my $size = q{SELECT sum(pg_total_relation_size(c.oid)) FROM pg_class c WHERE relnamespace::regnamespace::text ~ '^streamq' AND relkind = 'r'};
	my ($batches, @failures) = (1500);

	sql($node, qq{
		CREATE TABLE ev (id bigint GENERATED ALWAYS AS IDENTITY, k text, ts timestamptz, v int);
		SELECT streamq.create_query('q', 'SELECT count(*) AS n FROM ev', 'complete', max_rows_per_batch => 1);
		DO \$\$ BEGIN FOR i IN 1 .. $batches LOOP INSERT INTO ev (k) VALUES ('x'); COMMIT; END LOOP; END \$\$;
		CALL streamq.run('q')}, $database);
	push @failures, expect('count', sql($node, 'SELECT n FROM q', $database), $batches);
	push @failures, expect('history', sql($node, q{SELECT (SELECT count(*) <= 250 FROM streamq.commits), (SELECT count(*) <= 250 FROM streamq.offsets), (SELECT count(*) <= 250 FROM streamq.progress)}, $database), 't|t|t');
	sql($node, 'VACUUM streamq.commits; VACUUM streamq.offsets; VACUUM streamq.queries', $database);
	push @failures, matches('size', sql($node, "SELECT CASE WHEN ($size) < 4000000 THEN 'small' ELSE ($size)::text END", $database), qr/small/);
	return @failures;
}

# Dumps and restores: archive, schema only, one schema; a query that was started.
sub dump_and_restore
{
	my ($run) = @_;
	my ($node, $database) = @$run{qw(node database)};
	my $file = $node->basedir . '/cases.dump';
	my @failures;

	sql($node, q{
		CREATE TABLE ev (id bigint GENERATED ALWAYS AS IDENTITY, k text, ts timestamptz, v int);
		SELECT streamq.create_query('q', 'SELECT k, count(*) AS n FROM ev GROUP BY k', 'update');
		SELECT streamq.create_query('r', 'SELECT id FROM ev'), streamq.create_query('stopped', 'SELECT id FROM ev', sink => 'r');
		SELECT streamq.start('q'), streamq.start('r');
		INSERT INTO ev (k) VALUES ('a'), ('a'), ('b');
		SELECT streamq.wait('q', '30 s'), streamq.wait('r', '30 s')}, $database);
	my $errors = sub {
		my (@command) = @_;
		my ($out, $err);

		return IPC::Run::run(\@command, '>', \$out, '2>', \$err) && $err !~ /error/i ? () : "@command: $err";
	};
	my $connection = sub { $node->connstr($_[0]) };

	# run by hand: nothing is executed during the restore, and nothing after it
	push @failures, $errors->('pg_dump', '-Fc', '-f', $file, '-N', 'test', '-d', $connection->($database));
	sql($node, 'CREATE DATABASE cases_restored');
	push @failures, $errors->('pg_restore', '-j2', '-d', $connection->('cases_restored'), $file);
	push @failures, expect('queries', sql($node, q{SELECT name, state <> 'failed' OR last_error ~ 'dump|restore|another' FROM streamq.status ORDER BY name}, 'cases_restored'), "q|t\nr|t\nstopped|t");
	push @failures, expect('sinks', sql($node, q{SELECT (SELECT count(*) FROM r), (SELECT sum(n) FROM q)}, 'cases_restored'), '3|3');
	sql($node, "INSERT INTO ev (k) VALUES ('a')", 'cases_restored');
	my $said = sql_error($node, "CALL streamq.run('stopped')", 'cases_restored');
	push @failures, matches('run() of a restored query', $said, qr/ERROR:  55000:.*HINT: .*reset/s);
	sql($node, q{SELECT streamq.stop('q'), streamq.stop('r'); TRUNCATE q, r; SELECT streamq.reset('q'), streamq.reset('r'); SELECT streamq.start('q'); SELECT streamq.wait('q', '30 s'); CALL streamq.run('r')}, 'cases_restored');
	push @failures, expect('after reset()', sql($node, q{SELECT k, n FROM q ORDER BY k; SELECT count(*) FROM r}, 'cases_restored'), "a|3\nb|1\n4");
	sql($node, 'DROP DATABASE cases_restored');

	# without rows, and one schema only
	sql($node, 'CREATE DATABASE cases_restored');
	push @failures, $errors->('pg_dump', '-Fc', '--schema-only', '-f', $file, '-N', 'test', '-d', $connection->($database));
	push @failures, $errors->('pg_restore', '-d', $connection->('cases_restored'), $file);
	push @failures, expect('without rows', sql($node, q{SELECT count(*) FROM ev; SELECT count(*) FROM streamq.status WHERE state = 'running'}, 'cases_restored'), "0\n0");
	sql($node, 'DROP DATABASE cases_restored');
	sql($node, 'CREATE DATABASE cases_restored');
	push @failures, $errors->('pg_dump', '-f', $file, '-n', 'public', '-d', $connection->($database));
	sql($node, 'DROP SCHEMA public', 'cases_restored');
	my ($out, $err);
	IPC::Run::run([ 'psql', '-Xq', '-d', $connection->('cases_restored'), '-f', $file ], '>', \$out, '2>', \$err);
	push @failures, expect('one schema', sql($node, q{SELECT count(*) FROM ev; SELECT count(*) FROM r}, 'cases_restored'), "3\n3");
	sql($node, 'DROP DATABASE cases_restored');
	unlink $file;
	return @failures;
}

# Two sessions start one query at the same moment; a worker that has been stopped
# by a signal and is replaced.
sub two_runners
{
	my ($run) = @_;
	my ($node, $database) = @$run{qw(node database)};
	my @failures;

	sql($node, q{
		CREATE TABLE ev (id bigint GENERATED ALWAYS AS IDENTITY, k text);
		SELECT streamq.create_query('q', 'SELECT id FROM ev'), streamq.create_query('n', 'SELECT count(*) AS n FROM ev', 'complete')}, $database);
	foreach my $round (1 .. 8)
	{
		sql($node, 'INSERT INTO ev (k) SELECT 1 FROM generate_series(1, 100)', $database);
		my @starts = map { psql_in_background($node, "SELECT streamq.start('q')", $database) } 1 .. 2;
		my $good = grep { $_->{handle}->finish } @starts;
		push @failures, "round $round: $good starts went well" if $good < 1;
		my @runs = map { psql_in_background($node, "CALL streamq.run('$_')", $database) } qw(q n n);
		$_->{handle}->finish or push @failures, "run(): $_->{err}" foreach @runs;
		sql($node, "SELECT streamq.wait('q', '30 s'); SELECT streamq.stop('q')", $database);
		push @failures, exact($run, qw(q n));
	}
	return @failures;
}

# A worker that does not move: nobody else commits in its place, nor it after others.
sub stopped_process
{
	my ($run) = @_;
	my ($node, $database) = @$run{qw(node database)};
	my @failures;

	sql($node, q{
		CREATE TABLE ev2 (id bigint GENERATED ALWAYS AS IDENTITY); CREATE TABLE pause (seconds float8); INSERT INTO pause VALUES (0.3);
		SELECT streamq.add_source('ev2');
		SELECT streamq.create_query('p', 'SELECT id FROM ev2 WHERE pg_sleep((SELECT seconds FROM pause)) IS NOT NULL');
		SELECT streamq.start('p'); INSERT INTO ev2 DEFAULT VALUES}, $database);
	push @failures, comes_true($node, q{EXISTS (SELECT FROM pg_stat_activity WHERE backend_type = 'streamq worker' AND wait_event = 'PgSleep')}, $database);
	my $pid = sql($node, q{SELECT pid FROM pg_stat_activity WHERE backend_type = 'streamq worker' AND wait_event = 'PgSleep'}, $database);
	return @failures unless $pid;
	kill STOP => $pid;
	my $stop = psql_in_background($node, q{SELECT pg_terminate_backend(worker_pid) FROM streamq.status WHERE name = 'p'; UPDATE pause SET seconds = 0;
		SET statement_timeout = '500 ms'; CALL streamq.run('p')}, $database);
	$stop->{handle}->finish;
	kill CONT => $pid;
	push @failures, expect('wait()', sql($node, "SELECT streamq.wait('p', '60 s')", $database), 't'), exact($run, 'p');
	return @failures;
}

# A thousand sessions' worth of control in transactions.
sub control_in_transactions
{
	my ($run) = @_;
	my ($node, $database) = @$run{qw(node database)};
	my @failures;

	sql($node, q{CREATE TABLE t1 (a int); CREATE TABLE t2 (a int); SELECT streamq.add_source('t1'), streamq.add_source('t2')}, $database);
	my $create = q{SELECT streamq.create_query('q1', 'SELECT count(*) AS n FROM t1', 'complete'), streamq.create_query('q2', 'SELECT count(*) AS n FROM t2', 'complete'); SELECT streamq.start('q1'), streamq.start('q2');};
	my $error = sql_error($node, join('', map { "BEGIN; $create ROLLBACK;\n" } 1 .. 5)
		. join('', map { "$create INSERT INTO t1 VALUES (1); INSERT INTO t2 VALUES (1); BEGIN; SELECT streamq.drop_query('q1', true), streamq.drop_query('q2', true); COMMIT;\n" } 1 .. 20), $database);
	push @failures, expect('statements', $error, '');
	push @failures, expect('what is left', sql($node, q{SELECT (SELECT count(*) FROM streamq.queries), (SELECT count(*) FROM streamq.commits), (SELECT count(*) FROM streamq.offsets), to_regclass('q1')}, $database), '0|0|0|');
	push @failures, comes_true($node, qq{NOT EXISTS (SELECT FROM pg_stat_activity WHERE backend_type = 'streamq worker' AND query IN ('q1', 'q2'))}, $database);
	return (@failures, map { "in the log: $_" } grep { /(ERROR|FATAL|WARNING|PANIC).*q[12]|deadlock/ } split /\n/, log_of($run));
}

# A batch of a million rows is cut, and goes on after a crash.
sub large_backlog
{
	my ($run) = @_;
	my ($node, $database) = @$run{qw(node database)};
	my @failures;
	my $rows = 300_000;

	sql($node, qq{
		CREATE TABLE t (a bigint); INSERT INTO t SELECT generate_series(1, $rows);
		SELECT streamq.create_query('q', 'SELECT sum(a) AS s FROM t', 'complete', max_rows_per_batch => 10000);
		SELECT streamq.start('q')}, $database);
	push @failures, comes_true($node, "(SELECT total_input_rows >= $rows / 3 FROM streamq.status WHERE name = 'q')", $database);
	$node->stop('immediate');
	$node->start;
	my $before = sql($node, q{SELECT total_input_rows FROM streamq.status WHERE name = 'q'}, $database);
	push @failures, "nothing was kept: $before rows" if $before < $rows / 3;
	push @failures, expect('sum', sql($node, q{SELECT streamq.wait('q', '120 s'); SELECT s FROM q; SELECT batch_id >= 29, total_input_rows FROM streamq.status WHERE name = 'q'}, $database), "t\n45000150000\nt|$rows");
	push @failures, expect('rows of a batch', sql($node, q{SELECT max(input_rows) <= 10000 FROM streamq.progress}, $database), 't');
	return @failures;
}

# No replication slot, no WAL kept back.
sub no_slots
{
	my ($run) = @_;
	my ($node, $database) = @$run{qw(node database)};

	return expect('slots', sql($node, 'SELECT count(*) FROM pg_replication_slots', $database), '0');
}

# How much a query writes into the log, healthy or failing.
sub log_lines
{
	my ($run) = @_;
	my ($node, $database) = @$run{qw(node database)};
	my (@failures, $offset);

	sql($node, q{
		CREATE TABLE ev (id bigint GENERATED ALWAYS AS IDENTITY, k text, ts timestamptz, v int);
		SELECT streamq.create_query('healthy', 'SELECT v FROM ev'), streamq.create_query('failing', 'SELECT 1 / v AS x FROM ev');
		SELECT streamq.start('healthy', '20 ms')}, $database);
	$offset = -s $node->logfile;
	sql($node, 'INSERT INTO ev (v) VALUES (0)', $database) foreach 1 .. 20;
	sql($node, "SELECT streamq.wait('healthy', '30 s')", $database);
	push @failures, "healthy: $_" foreach grep { /healthy|LOG:|WARNING/ && !/checkpoint|statement:/ } split /\n/, slurp_file($node->logfile, $offset);
	$offset = -s $node->logfile;
	sql($node, "SELECT streamq.start('failing')", $database);
	push @failures, comes_true($node, q{(SELECT state = 'failed' FROM streamq.status WHERE name = 'failing')}, $database);
	my @lines = grep { /ERROR|LOG:|WARNING/ && !/checkpoint/ } split /\n/, slurp_file($node->logfile, $offset);
	my $tries = sql($node, q{SELECT retries FROM streamq.status WHERE name = 'failing'}, $database);
	push @failures, matches('the error is in the log', join("\n", @lines), qr/division by zero/);
	push @failures, scalar(@lines) . " lines for $tries failures" if @lines > 2 * $tries + 2;
	return @failures;
}

1;
