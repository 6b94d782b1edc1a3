# 008_random_cuts.pl
#		max_rows_per_batch over a partitioned source, at random: transactions of all
#		sizes, rows of several partitions in each, runs broken off at any point,
#		partitions detached and attached again in the middle of a cut backlog, rows
#		deleted before they are read, transactions that stay open for several runs
#		and go on with savepoints.
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
my $seed = $ENV{STREAMQ_SEED} // int(rand(2**31));
my $node = new_server('cuts', 'autovacuum = off');

srand($seed);
note("seed $seed");

sub one_of
{
	return $_[ int(rand(@_)) ];
}

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

done_testing();
