# StreamqTest.pm
#		What the TAP tests of streamq share: a server with streamq in it, the
#		debug points, and the oracle.
#
# The oracle of every test: the sink of a query holds exactly the rows that its
# SELECT gives over all rows of the sources, each as often (EXCEPT ALL, both
# ways).  The SELECT is at hand as the view streamq_query.<name>.
package StreamqTest;

use strict;
use warnings FATAL => 'all';

use Exporter 'import';
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(usleep);

our @EXPORT = qw(new_server need_test_build sql sql_error compare exact_ok outside_map
  wait_for worker_of query_state last_batch set_point clear_point clear_point_while_down
  wait_until_down start_until_up set_config start_pgbench finish_pgbench
  stop_pgbench holder
  psql_in_background one_of chance shuffled);

# new_server(NAME, SETTING...): a running server that preloads streamq, with the
# extension in database postgres.  Settings are lines of postgresql.conf.
sub new_server
{
	my ($name, @settings) = @_;
	my $node = PostgreSQL::Test::Cluster->new($name);

	$node->init;
	$node->append_conf('postgresql.conf', join "\n",
		"shared_preload_libraries = 'streamq'",
		'log_statement = none',
		'max_prepared_transactions = 50',
		'restart_after_crash = on',
		'streamq.poll_interval = 10ms',
		'streamq.retry_delay_max = 50ms',
		@settings, '');
	$node->start;
	sql($node, 'CREATE EXTENSION streamq');
	return $node;
}

# Skips the whole file where the debug points are not compiled in.
sub need_test_build
{
	my ($node) = @_;
	my $known = sql($node,
		q{SELECT count(*) FROM pg_settings WHERE name = 'streamq.debug_point'});

	plan skip_all => 'needs a build with TEST_HOOKS=1' unless $known;
	return;
}

# sql(NODE, STATEMENTS [, DATABASE]): dies on an error.
sub sql
{
	my ($node, $statements, $database) = @_;

	return $node->safe_psql($database // 'postgres', $statements);
}

# sql_error(NODE, STATEMENTS [, DATABASE]): the messages of statements that fail,
# with the SQLSTATE; empty if they do not.
sub sql_error
{
	my ($node, $statements, $database) = @_;
	my ($status, undef, $stderr) = $node->psql($database // 'postgres',
		"\\set VERBOSITY verbose\n$statements");

	return $status ? $stderr : '';
}

# compare(NODE, QUERY [, DATABASE]): rows that the sink of a query has too many,
# rows that it misses, rows that it should have.
sub compare
{
	my ($node, $query, $database) = @_;
	my $sink = sql($node, qq{SELECT sink FROM streamq.status WHERE name = '$query'},
		$database);

	return split /\|/, sql($node, qq{
		WITH sink AS (SELECT * FROM $sink), ref AS (SELECT * FROM streamq_query."$query")
		SELECT (SELECT count(*) FROM (TABLE sink EXCEPT ALL TABLE ref) x),
			   (SELECT count(*) FROM (TABLE ref EXCEPT ALL TABLE sink) x),
			   (SELECT count(*) FROM ref)}, $database);
}

# exact_ok(NODE, QUERY, NAME [, ROWS [, DATABASE]]): the oracle as a test.  With
# ROWS, it also has to be that many rows.
sub exact_ok
{
	my ($node, $query, $name, $rows, $database) = @_;
	my ($extra, $missing, $expected) = compare($node, $query, $database);

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	return is("$extra too many, $missing missing of $expected",
		'0 too many, 0 missing of ' . ($rows // $expected), $name);
}

# outside_map(NODE, TABLE [, CONDITION [, DATABASE]]): of how many rows of a table, or of
# its partitions, the arrival map does not know (invariant MAP-1 in src/arrivals/map.c).
sub outside_map
{
	my ($node, $table, $condition, $database) = @_;
	my @leaves = split /\n/, sql($node, qq{
		SELECT relid FROM pg_partition_tree('$table') WHERE isleaf
		UNION SELECT oid::regclass FROM pg_class WHERE oid = '$table'::regclass AND relkind = 'r'}, $database);

	# an xmin has 32 bits; it is below what a snapshot sees
	return sql($node, 'SELECT sum(n) FROM (' . join(' UNION ALL ', map { qq{
		SELECT count(*) AS n
		FROM (SELECT (ctid::text::point)[0] AS block, xmin::text::bigint AS xid FROM $_ WHERE @{[ $condition // 'true' ]}) t
			CROSS JOIN (SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint AS next) s
			LEFT JOIN streamq.arrivals('$_') a USING (block)
		WHERE ((xid + ((next - 1 - xid) >> 32 << 32))::text::xid8 BETWEEN least_xid AND greatest_xid) IS NOT TRUE} } @leaves)
		. ') x', $database);
}

# wait_for(NODE, CONDITION, NAME [, DATABASE]): waits until a SQL expression is
# true, and fails the test if it never is.
sub wait_for
{
	my ($node, $condition, $name, $database) = @_;

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	return ok($node->poll_query_until($database // 'postgres', "SELECT $condition"),
		$name);
}

# The process that serves a query now; waits until there is one.
sub worker_of
{
	my ($node, $query) = @_;

	$node->poll_query_until('postgres',
		qq{SELECT worker_pid IS NOT NULL FROM streamq.status WHERE name = '$query'})
	  or die "nobody serves $query";
	return sql($node, qq{SELECT worker_pid FROM streamq.status WHERE name = '$query'});
}

sub query_state
{
	my ($node, $query, $database) = @_;

	return sql($node, qq{SELECT state FROM streamq.status WHERE name = '$query'},
		$database);
}

# Number of the last batch committed, -1 before the first.
sub last_batch
{
	my ($node, $query) = @_;

	return sql($node,
		qq{SELECT coalesce(batch_id, -1) FROM streamq.status WHERE name = '$query'});
}

# ------------------------------------------------------------- settings

# set_config(NODE, NAME, VALUE): for the whole server, at once.
sub set_config
{
	my ($node, $name, $value) = @_;

	sql($node, "ALTER SYSTEM SET $name = '$value'");
	$node->reload;
	$node->poll_query_until('postgres', "SELECT current_setting('$name') = '$value'")
	  or die "$name has not become $value";
	return;
}

# A debug point that every session and worker takes part in.
sub set_point
{
	my ($node, $point) = @_;

	return set_config($node, 'streamq.debug_point', $point);
}

sub clear_point
{
	my ($node) = @_;

	return set_config($node, 'streamq.debug_point', '');
}

# The same for a server that is down: its next start is without.
sub clear_point_while_down
{
	my ($node) = @_;

	append_to_file($node->data_dir . '/postgresql.auto.conf',
		"streamq.debug_point = ''\n");
	return;
}

# holder(NODE): a session that holds the lock of "wait" debug points.  While it
# does, batches stop at the point that is set.
sub holder
{
	my ($node) = @_;
	my $session = $node->background_psql('postgres');

	$session->query_safe('SELECT pg_advisory_lock(7777)');
	return $session;
}

# ------------------------------------------------------ stops and starts

# A server with restart_after_crash = off goes down when one of its processes is
# killed: waits for that.
sub wait_until_down
{
	my ($node) = @_;
	my $pidfile = $node->data_dir . '/postmaster.pid';

	for (1 .. 100 * $PostgreSQL::Test::Utils::timeout_default)
	{
		last unless -e $pidfile;
		usleep(10_000);
	}
	die 'the server is still there' if -e $pidfile;
	# there is nothing to stop, but the object has to know
	$node->stop('immediate', fail_ok => 1);
	return;
}

# Starts a server whose postmaster has been killed, as soon as the last of its
# children has gone.
sub start_until_up
{
	my ($node) = @_;

	for (1 .. 10 * $PostgreSQL::Test::Utils::timeout_default)
	{
		return if $node->start(fail_ok => 1);
		usleep(100_000);
		$node->stop('fast', fail_ok => 1);
	}
	die 'the server does not start';
}

# ------------------------------------------------------------ other clients

# start_pgbench(NODE, OPTIONS, NAME => SCRIPT...): runs pgbench with these
# scripts in the background.  The weight of a script follows its name after "@".
sub start_pgbench
{
	my ($node, $options, %scripts) = @_;
	my @files;

	foreach my $name (sort keys %scripts)
	{
		my ($base, $weight) = split /@/, $name;
		my $file = $node->basedir . "/$base.sql";

		unlink $file;
		append_to_file($file, $scripts{$name});
		push @files, '-f', $file . (defined $weight ? "\@$weight" : '');
	}
	my %run = (output => '');
	$run{handle} = IPC::Run::start(
		[
			'pgbench', '-n', split(/\s+/, $options),
			@files, $node->connstr('postgres')
		],
		'<', \undef, '>&', \$run{output});
	return \%run;
}

# Waits until pgbench has ended.  Returns true if no client of it has failed.
sub finish_pgbench
{
	my ($run) = @_;

	return $run->{handle}->finish;
}

# Ends it now; what its clients are at is rolled back.
sub stop_pgbench
{
	my ($run) = @_;

	$run->{handle}->signal('INT');
	$run->{handle}->finish;
	return;
}

# psql_in_background(NODE, STATEMENTS [, DATABASE]): a psql that goes its own
# way.  ->{handle}->finish waits for it, then ->{out} and ->{err} have its words.
sub psql_in_background
{
	my ($node, $statements, $database) = @_;
	my %run = (in => "$statements\n;\n", out => '', err => '');

	$run{handle} = IPC::Run::start(
		[
			'psql', '-XAtq', '-v', 'ON_ERROR_STOP=1', '-d',
			$node->connstr($database // 'postgres'), '-f', '-'
		],
		'<', \$run{in}, '>', \$run{out}, '2>', \$run{err});
	$run{handle}->pump while $run{in} ne '';
	return \%run;
}

# What random tests draw: one of the values given, true with the probability given, the
# values in another order.
sub one_of
{
	return $_[ int(rand(@_)) ];
}

sub chance
{
	return rand() < $_[0];
}

sub shuffled
{
	my %place = map { $_ => rand() } 0 .. $#_;

	return @_[ sort { $place{$a} <=> $place{$b} } keys %place ];
}

1;
