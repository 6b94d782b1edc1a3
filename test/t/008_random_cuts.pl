# 008_random_cuts.pl
#		max_rows_per_batch over a partitioned source, at random: transactions of all
#		sizes, rows of several partitions in each, runs broken off at any point,
#		partitions detached and attached again in the middle of a cut backlog, rows
#		deleted before they are read, transactions that stay open for several runs
#		and go on with savepoints.
#
#		A second part is about the order of xids: sessions that take turns at single
#		steps, so that a savepoint of one is younger than the transactions of others,
#		at a moment when nothing younger has ended, and the runs come in between.
#
# In the end the sink holds every row that was there to be read, once; no batch
# was larger than the limit; and the figures add up.
use strict;
use warnings FATAL => 'all';

use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use StreamqTest;
use Test::More;

my $rounds = 25;
my $rounds_of_turns = 40;
my $seed = $ENV{STREAMQ_SEED} // int(rand(2**31));
my $node = new_server('cuts', 'autovacuum = off');

srand($seed);
note("seed $seed");

# Statements of one transaction; ids count up from $$next.
sub random_transaction
{
	my ($next, $limit, $partitions) = @_;
	my $n = one_of(1, 1, 2, $limit, $limit + 1, 2 * $limit, 1 + int(rand(30)));
	my $filler = one_of(1, 500, 1500);

	$n = 200 if $n > 200;
	my $rows = join ', ', map {
		sprintf '(%d, %d, repeat(\'x\', %d))', $$next++, one_of(@$partitions), $filler
	} 1 .. $n;
	return join "\n", 'BEGIN;',
	  (rand() < 0.3
		? "SAVEPOINT a; INSERT INTO s VALUES (-1, $partitions->[0], ''); ROLLBACK TO a;"
		: ''),
	  "INSERT INTO s VALUES $rows;", rand() < 0.9 ? 'COMMIT;' : 'ROLLBACK;';
}

foreach my $round (1 .. $rounds)
{
	my $limit = one_of(1, 2, 3, 5, 7, 10, 50, 1000);
	my $next = 0;
	my @partitions = (0, 1, 2);
	my ($detached, $open, $steps_open);

	sql($node, qq{
		CREATE TABLE s (id int, k int, filler text) PARTITION BY LIST (k);
		CREATE TABLE s0 PARTITION OF s FOR VALUES IN (0);
		CREATE TABLE s1 PARTITION OF s FOR VALUES IN (1);
		CREATE TABLE s2 PARTITION OF s FOR VALUES IN (2);
		SELECT streamq.add_source('s');
		SELECT streamq.create_query('q', 'SELECT id, k FROM s', max_rows_per_batch => $limit);
	});
	foreach (1 .. 3 + int(rand(4)))
	{
		if (!defined $open && rand() < 0.5)
		{
			$open = $node->background_psql('postgres');
			$open->query_safe("BEGIN; INSERT INTO s SELECT 100000 + $next + g, k, 'open' FROM generate_series(1, "
				. one_of(1, 3, 20) . ") g, (VALUES ($partitions[0]), ($partitions[-1])) v (k)");
			$next += 20;
			$steps_open = 1 + int(rand(3));
		}
		elsif (defined $open)
		{
			# a subtransaction much younger than its transaction
			$open->query_safe("SAVEPOINT a; INSERT INTO s VALUES (200000 + " . $next++ . ", $partitions[0], 'late')");
		}
		my @statements = map { random_transaction(\$next, $limit, \@partitions) } 1 .. 1 + int(rand(6));

		sql($node, join "\n", @statements);
		sql($node, q{DELETE FROM s WHERE id IN (SELECT id FROM s WHERE id NOT IN
			(SELECT id FROM q) ORDER BY md5(id::text) LIMIT 3)}) if rand() < 0.3;
		if (rand() < 0.5)
		{
			# broken off somewhere
			$node->psql('postgres', "SET statement_timeout = '" . one_of(2, 4, 8, 16) . "ms';
				CALL streamq.run('q');");
			sql($node, 'VACUUM s') if rand() < 0.3;
		}
		else
		{
			sql($node, q{CALL streamq.run('q')});
		}
		if (defined $open && --$steps_open == 0)
		{
			$open->query_safe('COMMIT');
			$open->quit;
			undef $open;
		}
		# DDL would wait for the open transaction
		next if defined $open;
		if (defined $detached)
		{
			sql($node, "ALTER TABLE s ATTACH PARTITION s$detached FOR VALUES IN ($detached)");
			@partitions = (0, 1, 2);
			undef $detached;
		}
		elsif (rand() < 0.4)
		{
			$detached = one_of(0, 1, 2);
			sql($node, "ALTER TABLE s DETACH PARTITION s$detached");
			@partitions = grep { $_ != $detached } 0, 1, 2;
		}
	}
	if (defined $open)
	{
		$open->query_safe('COMMIT');
		$open->quit;
	}
	sql($node, "ALTER TABLE s ATTACH PARTITION s$detached FOR VALUES IN ($detached)")
	  if defined $detached;
	sql($node, q{CALL streamq.run('q')});

	# what was read and deleted afterwards does not happen here
	exact_ok($node, 'q', "round $round, limit $limit");
	is(sql($node, qq{
		SELECT coalesce(max(input_rows) <= $limit AND bool_and(input_rows = output_rows)
						AND max(total_output_rows) = (SELECT count(*) FROM q), true)
		FROM streamq.commits}), 't', "round $round, figures")
	  or diag(sql($node, 'SELECT batch_id, input_rows, output_rows, total_output_rows FROM streamq.commits ORDER BY 1'));
	sql($node, q{SELECT streamq.drop_query('q', true); DROP TABLE s});
}

# ---------------------------------------------------------- taking turns

my @limits = (1, 2, 3, 7);
my @writers = qw(a b c d);
my %session = map { $_ => { psql => $node->background_psql('postgres', on_error_stop => 0) } }
  @writers, 'alone', 'runner';
my $next_id = 0;
my @history;

$_->{psql}->set_query_timer_restart foreach values %session;

# Has a session do something; returns false and tells how it came to it if that
# fails.
sub turn
{
	my ($name, $statements) = @_;
	my (undef, $failed) = $session{$name}{psql}->query($statements);

	push @history, "$name: $statements";
	return 1 unless $failed;
	diag(join "\n", @history, $session{$name}{psql}{stderr});
	return 0;
}

# One step of a transaction; where it gets an xid, the row that it inserts has it.
sub step_of
{
	my ($session) = @_;
	my $id = $next_id++;
	my $insert = "INSERT INTO t VALUES ($id, " . int(rand(2)) . ')';

	if (!$session->{savepoints})
	{
		$session->{savepoints} = [];
		return "BEGIN; $insert";
	}
	my $what = rand();
	if ($what < 0.5)
	{
		push @{ $session->{savepoints} }, "p$id";
		return "SAVEPOINT p$id; $insert";
	}
	if ($what < 0.6 && @{ $session->{savepoints} })
	{
		my $savepoint = pop @{ $session->{savepoints} };

		return one_of('ROLLBACK TO', 'RELEASE') . " $savepoint; $insert";
	}
	if ($what < 0.63)
	{
		# more subtransactions than a snapshot lists
		return "DO 'BEGIN FOR i IN 1 .. 70 LOOP BEGIN INSERT INTO t VALUES (i * 1000000 + $id, 0); "
		  . "EXCEPTION WHEN division_by_zero THEN END; END LOOP; END'";
	}
	undef $session->{savepoints};
	return ($what < 0.95 ? '' : 'ROLLBACK; BEGIN; ') . "$insert; COMMIT";
}

# Steps between runs, and the oracle for each of the limits.
sub round_of_turns
{
	my $run_all = join ' ', map { "CALL streamq.run('t_$_');" } @limits;

	@history = ();
	foreach (1 .. 4)
	{
		foreach (1 .. 2 + int(rand(5)))
		{
			my $name = one_of(@writers, @writers, 'alone');

			turn($name, $name eq 'alone'
				? 'INSERT INTO t VALUES (' . $next_id++ . ', ' . int(rand(2)) . ')'
				: step_of($session{$name})) or return 'failed';
		}
		turn('runner', $run_all) or return 'failed';
	}
	foreach my $name (grep { $session{$_}{savepoints} } @writers)
	{
		undef $session{$name}{savepoints};
		turn($name, 'COMMIT') or return 'failed';
	}
	turn('runner', $run_all) or return 'failed';
	foreach my $limit (@limits)
	{
		my ($extra, $missing) = compare($node, "t_$limit");

		next unless $extra || $missing;
		diag(join "\n", @history);
		return "limit $limit: $extra too many, $missing missing";
	}
	return 'exact';
}

sql($node, join "\n",
	'CREATE TABLE t (id int, k int) PARTITION BY LIST (k);',
	'CREATE TABLE t0 PARTITION OF t FOR VALUES IN (0);',
	'CREATE TABLE t1 PARTITION OF t FOR VALUES IN (1);',
	q{SELECT streamq.add_source('t');},
	map { "SELECT streamq.create_query('t_$_', 'SELECT id, k FROM t', max_rows_per_batch => $_);" } @limits);
foreach my $round (1 .. $rounds_of_turns)
{
	is(round_of_turns(), 'exact', "turns, round $round") or last;
}
$_->{psql}->quit foreach values %session;

done_testing();
