# 001_crash_points.pl
#		A crash and an error at each point of a batch, in the foreground and in
#		the background.
#
# Three kinds of batches: a backlog taken whole; one cut between transactions;
# one cut inside a single transaction, by position.  Where a backlog is cut, one
# batch of it is done before, so that the failure hits in the middle.
#
# After a failure before the commit the checkpoint is where it was; after one
# behind the commit it is one batch further.  After recovery the sink holds every
# row once, the batches are numbered without a gap, and the figures are true.
use strict;
use warnings FATAL => 'all';

use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Utils;
use StreamqTest;
use Test::More;

my @points = qw(batch-start before-sink after-sink before-commit after-commit);
my $limit = 20;

# What is loaded for each case: numbers of rows of transactions.  A multiple of
# the limit is a case of its own: the last piece ends with the transaction.
my %kinds = (
	whole => { transactions => [ (5) x 8 ] },
	'cut by transaction' =>
	  { limit => $limit, transactions => [ (7) x 10 ], cut_by => 'transaction' },
	'cut by position' =>
	  { limit => $limit, transactions => [ 4 * $limit, 90, 5 ], cut_by => 'position' });

my $node = new_server(
	'crash_points',
	'restart_after_crash = off',
	'streamq.max_retries = -1',
	'autovacuum = off');
need_test_build($node);

foreach my $kind (sort keys %kinds)
{
	my $query = $kinds{$kind}{query} = 'q_' . ($kind =~ s/ /_/gr);
	my $source = $kinds{$kind}{source} = 's_' . ($kind =~ s/ /_/gr);
	my $max = $kinds{$kind}{limit} // 'NULL';

	# few rows a page, so that a place in the middle of a page is a cut
	sql($node, qq{
		CREATE TABLE $source (id bigserial, v int, filler text);
		ALTER TABLE $source ALTER filler SET STORAGE PLAIN;
		SELECT streamq.add_source('$source');
		SELECT streamq.create_query('$query',
			'SELECT id, v * 2 AS doubled FROM $source WHERE v % 10 <> 0', max_rows_per_batch => $max)});
}

sub load_rows
{
	my ($kind) = @_;

	sql($node, join "\n", map {
		"INSERT INTO $kind->{source} (v, filler) SELECT i, repeat('x', 400) FROM generate_series(1, $_) i;"
	} @{ $kind->{transactions} });
	return;
}

# How the last batch ended, according to the checkpoint.
sub last_cut
{
	my ($query) = @_;

	return sql($node, qq{
		SELECT CASE WHEN partial_upto IS NOT NULL THEN 'position'
			WHEN end_offset::text <> target::text THEN 'transaction' ELSE 'none' END
		FROM streamq.offsets WHERE name = '$query' ORDER BY batch_id DESC LIMIT 1});
}

sub batch_and_rows
{
	my ($kind) = @_;

	return sql($node, qq{
		SELECT coalesce(batch_id, -1), (SELECT count(*) FROM $kind->{query})
		FROM streamq.status WHERE name = '$kind->{query}'});
}

# Everything that has to hold when all has been read.
sub all_well
{
	my ($kind) = @_;
	my ($extra, $missing) = compare($node, $kind->{query});
	my $figures = sql($node, qq{
		SELECT concat_ws(', ',
			CASE WHEN s.total_input_rows <> (SELECT count(*) FROM $kind->{source})
				THEN 'total_input_rows ' || s.total_input_rows END,
			CASE WHEN s.total_output_rows <> (SELECT count(*) FROM $kind->{query})
				THEN 'total_output_rows ' || s.total_output_rows END,
			CASE WHEN s.batch_id <> (SELECT min(batch_id) + count(*) - 1 FROM streamq.commits
									 WHERE name = s.name)
				THEN 'batches missing before ' || s.batch_id END)
		FROM streamq.status s WHERE name = '$kind->{query}'});

	return "$extra too many, $missing missing" . ($figures ne '' ? "; $figures" : '');
}

# Lets the first batch of a backlog go through, by an error right after it.
sub do_one_batch
{
	my ($kind) = @_;
	my $error = sql_error($node,
		"SET streamq.debug_point = 'after-commit:error'; CALL streamq.run('$kind->{query}')");

	like($error, qr/debug point "after-commit"/, 'one batch is done');
	is(last_cut($kind->{query}), $kind->{cut_by}, "it is cut by $kind->{cut_by}");
	return;
}

sub recover
{
	clear_point_while_down($node);
	$node->start;
	return;
}

# One case in the foreground.
sub foreground
{
	my ($kind, $point, $action, $name) = @_;
	my ($batch, $rows) = split /\|/, batch_and_rows($kind);
	my $error = sql_error($node,
		"SET streamq.debug_point = '$point:$action'; CALL streamq.run('$kind->{query}')");
	my ($batch_after, $rows_after);

	if ($action eq 'crash')
	{
		like($error, qr/server closed the connection|connection to server was lost/,
			"$name: the server crashes");
		wait_until_down($node);
		recover();
	}
	else
	{
		like($error, qr/XX000: debug point "$point"/, "$name: the call fails");
	}

	($batch_after, $rows_after) = split /\|/, batch_and_rows($kind);
	if ($point eq 'after-commit')
	{
		is($batch_after, $batch + 1, "$name: the batch is there");
		cmp_ok($rows_after, '>', $rows, "$name: so are its rows");
	}
	else
	{
		is("$batch_after $rows_after", "$batch $rows", "$name: nothing of the batch is there");
	}
	sql($node, "CALL streamq.run('$kind->{query}')");
	is(all_well($kind), '0 too many, 0 missing', "$name: exact after recovery");
	return;
}

# One case in the background.
sub background
{
	my ($kind, $point, $action, $name) = @_;
	my $log = -s $node->logfile;

	set_point($node, "$point:$action");
	# the server may be gone before the client has its answer
	$node->psql('postgres', "SELECT streamq.start('$kind->{query}')", stderr => \my $stderr);
	if ($action eq 'crash')
	{
		wait_until_down($node);
		recover();
	}
	else
	{
		$node->wait_for_log(qr/debug point "$point"/, $log);
		clear_point($node);
	}
	is(sql($node, "SELECT streamq.wait('$kind->{query}')"), 't', "$name: goes on by itself");
	is(all_well($kind), '0 too many, 0 missing', "$name: exact after recovery");
	sql($node, "SELECT streamq.stop('$kind->{query}')");
	return;
}

foreach my $action (qw(error crash))
{
	foreach my $point (@points)
	{
		foreach my $kind_name (sort keys %kinds)
		{
			my $kind = $kinds{$kind_name};
			my $name = "$action at $point, $kind_name";

			load_rows($kind);
			do_one_batch($kind) if $kind->{cut_by};
			foreground($kind, $point, $action, "foreground $name");

			load_rows($kind);
			do_one_batch($kind) if $kind->{cut_by};
			background($kind, $point, $action, "background $name");
		}
	}
}

# A serialization failure is nobody's business: the batch is done again.
foreach my $point (grep { $_ ne 'after-commit' } @points)
{
	foreach my $kind_name (sort keys %kinds)
	{
		my $kind = $kinds{$kind_name};

		load_rows($kind);
		do_one_batch($kind) if $kind->{cut_by};
		is(sql_error($node,
				"SET streamq.debug_point = '$point:serialize'; CALL streamq.run('$kind->{query}')"),
			'', "serialization failure at $point, $kind_name: the call succeeds");
		is(all_well($kind), '0 too many, 0 missing',
			"serialization failure at $point, $kind_name: exact");
	}
}

# All of it together: what these failures have left is what a SELECT gives.
foreach my $kind (map { $kinds{$_} } sort keys %kinds)
{
	exact_ok($node, $kind->{query}, "$kind->{query}: exact at the end");
}

done_testing();
