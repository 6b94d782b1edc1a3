# 013_state_size.pl
#		The tables of a query's state stay small, whatever comes and goes in them;
#		and what rewrites them is part of the batch, and disturbs nobody.
#
# Without autovacuum, so that the batches have to see to it themselves.
use strict;
use warnings FATAL => 'all';

use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Utils;
use StreamqTest;
use Test::More;

my $node = new_server('state_size', 'autovacuum = off', 'restart_after_crash = off');
need_test_build($node);

# Groups are final after about ten transactions.  One is for ever.
sql($node, q{
	CREATE TABLE src (id bigserial, at timestamptz, k int, v text);
	SELECT streamq.add_source('src', 'at', '5 seconds');
	SELECT streamq.create_query('q', $$
		SELECT date_bin('5 seconds', at, '2024-01-01') AS w, k, count(DISTINCT v) AS d, array_agg(v ORDER BY id) AS a, sum(id) AS s
		FROM src GROUP BY 1, 2 $$, output_mode => 'update', max_rows_per_batch => 30);
	SELECT streamq.create_query('q_final', $$
		SELECT date_bin('5 seconds', at, '2024-01-01') AS w, k, count(*) AS n, avg(id) AS s FROM src GROUP BY 1, 2 $$,
		max_rows_per_batch => 30);
	INSERT INTO src (at, k, v) VALUES (NULL, 0, 'for ever');
});
my @queries = qw(q q_final);
my $seconds = 0;

# Transactions of a batch each.
sub load_batches
{
	my ($n) = @_;

	sql($node, qq{
		DO \$\$
		BEGIN
			FOR i IN $seconds + 1 .. $seconds + $n LOOP
				INSERT INTO src (at, k, v) SELECT '2024-01-01'::timestamptz + i * interval '1 second', j, repeat(i || ' ', 8)
				FROM generate_series(1, 30) j;
				COMMIT;
			END LOOP;
		END \$\$});
	$seconds += $n;
	return;
}

my $tables = q{SELECT c.oid::regclass AS t, c.relname, c.relfilenode, pg_relation_size(c.oid) AS bytes
	FROM pg_class c WHERE c.relnamespace = 'streamq_state'::regnamespace AND c.relkind = 'r'};

# the files of the tables whose names match
sub files
{
	my ($pattern) = @_;

	return sql($node, "SELECT relname, relfilenode FROM ($tables) t WHERE relname ~ '" . ($pattern // '') . "' ORDER BY 1");
}

sub exact
{
	my ($name) = @_;

	is(sql($node, q{SELECT q.name, v.* FROM streamq.queries q, streamq.verify(q.name) v}), '', "$name: exact");
	return;
}

# Tables that are larger than they should be.
sub bloated
{
	my $bloated = '';

	foreach my $line (split /\n/, sql($node, "SELECT t, bytes FROM ($tables) t"))
	{
		my ($table, $bytes) = split /\|/, $line;
		my $live = sql($node, "SELECT coalesce(sum(pg_column_size(s.*) + 4), 0) FROM $table s");

		# a few pages are as good as nothing
		$bloated .= "$table: $bytes bytes for $live " if $bytes > 4 * $live + 4 * 8192;
	}
	return $bloated;
}

# Brings a query to where its next batch looks at the sizes.
sub up_to_the_next_look
{
	my ($query) = @_;

	load_batches(25);
	sql($node, "CALL streamq.run('$query')");
	for (1 .. 64)
	{
		last if last_batch($node, $query) % 32 == 31;
		load_batches(1);
		sql($node, "CALL streamq.run('$query')");
	}
	is(last_batch($node, $query) % 32, 31, 'the next batch looks at the sizes');
	load_batches(1);
	return;
}

# ------------------------------------------------------------ a steady stream

my $most = '';
foreach my $turn (1 .. 8)
{
	load_batches(33);
	sql($node, "CALL streamq.run('$_')") foreach @queries;
	$most = bloated() if $most eq '';
}
is($most, '', 'after hundreds of batches the state is about as large as what it holds');
cmp_ok(last_batch($node, 'q'), '>', 250, 'so many there have been');
exact('a steady stream');

# ------------------------------------------------ part of the batch, like the rest

foreach my $action (qw(error crash))
{
	my ($files, $batch);

	up_to_the_next_look('q');
	($files, $batch) = (files(), last_batch($node, 'q'));
	isnt(sql_error($node, "SET streamq.debug_point = 'before-commit:$action'; CALL streamq.run('q')"), '', "$action: the call fails");
	if ($action eq 'crash')
	{
		wait_until_down($node);
		$node->start;
	}
	is(files(), $files, "$action: the files are the same");
	is(last_batch($node, 'q'), $batch, "$action: nothing of the batch is there");
	exact($action);
	sql($node, "CALL streamq.run('q')");
	isnt(files(), $files, "$action: the batch done again has rewritten tables");
	exact("$action, done again");
}

# --------------------------------------------------------- others are not disturbed

my $held = q{SELECT count(*), md5(string_agg(s::text, ' ' ORDER BY s::text))
	FROM streamq.state('q') AS s (w timestamptz, k int, d bigint, a text[], s numeric)};
{
	my $reader = $node->background_psql('postgres');
	my ($files, $before);

	# whoever looks at tables keeps them as they are; the batch does not wait for him
	up_to_the_next_look('q');
	$files = files('^q\d+(_rows)?$');
	$reader->query_safe('BEGIN');
	$before = $reader->query_safe($held);
	sql($node, "CALL streamq.run('q')");
	is(files('^q\d+(_rows)?$'), $files, 'while somebody looks at them, tables are left as they are');
	isnt($reader->query_safe($held), $before, 'he sees the next batch');
	$reader->query_safe('COMMIT');

	# an old snapshot finds the groups of its time
	up_to_the_next_look('q');
	$files = files();
	$reader->query_safe('BEGIN ISOLATION LEVEL REPEATABLE READ');
	$reader->query_safe('SELECT 1');
	$before = sql($node, $held);
	sql($node, "CALL streamq.run('q')");
	isnt(files(), $files, 'an old snapshot: tables are rewritten');
	isnt(sql($node, $held), $before, 'an old snapshot: groups have come and gone');
	is($reader->query_safe($held), $before, 'an old snapshot: finds the groups of its time');
	$reader->query_safe('COMMIT');
	$reader->quit;
	exact('others look at the state');
}

# a table that no look has reached for long
sql($node, "CALL streamq.run('$_')") foreach @queries;
is(bloated(), '', 'in the end, too');
done_testing();
