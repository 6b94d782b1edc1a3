# 011_random_aggregates.pl
#		Aggregations without a watermark, at random: queries made by a grammar, in the
#		output modes update and complete, over rows that come in transactions of all
#		sizes, through batches of all sizes, errors, crashes and restarts.
#
# After each step the sink holds exactly what the plain SELECT gives.  A value is
# compared as text, so a numeric has the same scale; only where the plain SELECT
# itself may return any of several equal values (1.0 and 1.00 in one group) it is
# compared by its type's equality.  Float sums are over whole numbers, so that they
# do not depend on the order of addition; other float results are rounded.
#
# Also: live() is the plain SELECT, verify() finds nothing, and a batch does not
# touch rows of the sink that it does not change.
#
# STREAMQ_SEED repeats a run, STREAMQ_ROUND one round of it alone, STREAMQ_ROUNDS
# makes it longer.
use strict;
use warnings FATAL => 'all';

use Digest::MD5 qw(md5_hex);
use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use StreamqTest;
use Test::More;

my $rounds = $ENV{STREAMQ_ROUNDS} // 16;
my $queries_per_round = 9;
my $seed = $ENV{STREAMQ_SEED} // int(rand(2**31));
my @points = qw(batch-start before-sink after-close after-sink before-commit after-commit);
my $node = new_server('aggregates', 'restart_after_crash = off', 'autovacuum = off', 'jit = off',
	'client_min_messages = warning');

need_test_build($node);
note("seed $seed");

# --------------------------------------------------------------- what is there

# Static tables, types and aggregates of our own.  A collation in which 'a' = 'A'
# is there if the server has ICU.
sql($node, q{
	CREATE TYPE mood AS ENUM ('sad', 'ok', 'happy');

	CREATE TABLE d (id int PRIMARY KEY, k int, v int, name text);
	INSERT INTO d VALUES (1, 0, 1, 'zero'), (2, 1, 2, 'one'), (3, 1, 3, 'uno'), (4, 2, 1, NULL),
		(5, 4, NULL, 'four'), (6, NULL, 5, 'none'), (7, -1, 2, 'minus');

	-- a typed state without a combine function, and one that is an array
	CREATE FUNCTION wsum_step(bigint, int, bigint) RETURNS bigint LANGUAGE sql IMMUTABLE
		AS 'SELECT $1 + coalesce($2 * $3, 0)';
	CREATE AGGREGATE wsum(int, bigint) (sfunc = wsum_step, stype = bigint, initcond = '0');
	CREATE FUNCTION wavg_step(numeric[], numeric, int) RETURNS numeric[] LANGUAGE plpgsql IMMUTABLE
		AS 'BEGIN RETURN ARRAY[$1[1] + coalesce($2 * $3, 0), $1[2] + coalesce($3, 0)]; END';
	CREATE FUNCTION wavg_final(numeric[]) RETURNS numeric LANGUAGE sql IMMUTABLE
		AS 'SELECT $1[1] / nullif($1[2], 0)';
	CREATE AGGREGATE wavg(numeric, int) (sfunc = wavg_step, stype = numeric[], initcond = '{0,0}',
		finalfunc = wavg_final);
	-- with a combine function; strict, so that it begins with the first value
	CREATE FUNCTION plsum_step(numeric, numeric) RETURNS numeric LANGUAGE plpgsql IMMUTABLE
		AS 'BEGIN RETURN coalesce($1 + $2, $1, $2); END';
	CREATE AGGREGATE plsum(numeric) (sfunc = plsum_step, stype = numeric, combinefunc = plsum_step);
	CREATE AGGREGATE greatest_of(int) (sfunc = int4larger, stype = int, combinefunc = int4larger);
	-- strict without combine function
	CREATE AGGREGATE least_of(int) (sfunc = int4smaller, stype = int);
	-- states that cannot be seen: with and without serialization
	CREATE AGGREGATE my_avg(bigint) (sfunc = int8_avg_accum, stype = internal, finalfunc = numeric_poly_avg,
		combinefunc = int8_avg_combine, serialfunc = int8_avg_serialize,
		deserialfunc = int8_avg_deserialize);
	CREATE AGGREGATE my_array(anynonarray) (sfunc = array_agg_transfn, stype = internal,
		finalfunc = array_agg_finalfn, finalfunc_extra);
	-- polymorphic; depends on the order
	CREATE FUNCTION first_step(anyelement, anyelement) RETURNS anyelement LANGUAGE sql IMMUTABLE STRICT
		AS 'SELECT $1';
	CREATE AGGREGATE first_of(anyelement) (sfunc = first_step, stype = anyelement);
	-- variadic
	CREATE FUNCTION vsum_step(bigint, VARIADIC int[]) RETURNS bigint LANGUAGE sql IMMUTABLE
		AS 'SELECT $1 + coalesce((SELECT sum(u) FROM unnest($2) u), 0)';
	CREATE AGGREGATE vsum(VARIADIC int[]) (sfunc = vsum_step, stype = bigint, initcond = '0');
});
my $any_case = sql($node, q{SELECT count(*) FROM pg_collation WHERE collprovider = 'i'}) > 0
  && sql($node, 'SHOW server_encoding') eq 'UTF8';

sql($node, q{CREATE COLLATION any_case (provider = icu, locale = 'und-u-ks-level2', deterministic = false)})
  if $any_case;

# Columns of a source, and what their values are taken from.
my @columns = (
	[ id => 'bigint', undef ],
	[ i => 'int', [ -1 .. 5 ] ],
	[ b => 'bigint', [ 0, 1, -7, 1099511627776, 9000000000000000000 ] ],
	[ n => 'numeric', [ qw(0 1 1.0 1.00 2.5 -3.125 1e3 12345678901234567890.123456789 7 0.10) ] ],
	[ f => 'float8', [ -3 .. 3, 50, -41, -0.0 ] ],
	[ t => 'text', [ 'a', 'b', 'B', 'x y', '', 'ä' ] ],
	[ c => 'text COLLATE "C"', [ 'a', 'A', 'b', 'ba' ] ],
	[ ci => $any_case ? 'text COLLATE any_case' : 'text', [ 'a', 'A', 'b', 'B' ] ],
	[ o => 'boolean', [ 't', 'f' ] ],
	[ e => 'mood', [qw(sad ok happy)] ],
	[ at => 'timestamptz',
		[ map { sprintf '2024-03-%02d %02d:30:00+00', 9 + int($_ / 6), 4 * ($_ % 6) } 0 .. 17 ] ],
	[ dt => 'date', [ '2024-02-29', '2024-03-01', '-infinity' ] ],
	[ v => 'interval', [ '1 day', '24 hours', '1 month -3 days', '90 minutes' ] ],
	[ a => 'int[]', [ '{}', '{1}', '{1,2}', '{2,1}', '{1,NULL}' ] ],
	[ r => 'int4range', [ 'empty', '[1,3)', '[3,5)', '[4,9)', '(,0)' ] ],
	[ j => 'jsonb', [ '1', '{"a": 1}', '[1, null]', 'null' ] ]);

sub random_value
{
	my ($column) = @_;
	my ($name, $type, $values) = @$column;

	return 'NULL' if chance(0.12);
	return one_of("'NaN'", "'Infinity'", "'-Infinity'") if $name eq 'n' && chance(0.02);
	return "'" . one_of(@$values) . "'";
}

# ---------------------------------------------------------------- the grammar

# A pair [SQL, exact]: not exact if the plain SELECT may return any of several
# equal values.  Keys also tell whether expressions may be made of them.
my @keys = (
	(map { [ $_, 1 ] } qw(x.i x.t x.c x.b x.o x.e x.a x.r x.j x.at x.dt)),
	[ 'x.i', 1 ], [ 'x.t', 1 ], [ 'x.o', 1 ],
	[ 'x.n', 0 ], [ 'x.n', 0 ], [ 'x.ci', 0 ], [ 'x.f', 0 ], [ 'x.v', 0 ],
	[ 'x.i % 3', 1 ],
	[ 'x.i IS NULL', 1 ],
	[ 'x.i::numeric / 2', 1 ],
	[ 'round(x.n)', 1 ],
	[ q{coalesce(x.t, '-')}, 1 ],
	[ 'x.t COLLATE "C"', 1 ],
	[ 'x.t || x.c', 1 ],
	[ q{CASE WHEN x.i > 2 THEN 'high' WHEN x.i > 0 THEN 'low' END}, 1 ],
	[ 'ARRAY[x.i, x.b]', 1 ],
	[ q{date_bin('8 hours', x.at, '2024-01-01 00:00+00')}, 1 ],
	[ q{date_trunc('day', x.at)}, 1 ],
	[ q{date_trunc('month', x.at, 'Asia/Kolkata')}, 1 ],
	[ 'x.at::date', 1 ],
	[ '(SELECT max(d.v) FROM d WHERE d.k = x.i)', 1 ]);

my @any_column = qw(x.i x.b x.n x.f x.t x.c x.o x.e x.at x.dt x.v x.a x.r x.j);

# Aggregates with one argument of a kind: names, argument, exact.
my @simple = (
	[ [qw(sum avg min max)], [ 'x.i', 'x.i * 2', 'coalesce(x.i, 0)', 'x.b', 'x.i::smallint' ], 1 ],
	[ [qw(stddev variance stddev_pop var_pop var_samp)], [ 'x.i', 'x.b', 'x.i * 3' ], 1 ],
	[ [qw(sum avg variance stddev_pop)], [ 'x.n', 'x.n * 2', 'x.i::numeric(10,3)' ], 1 ],
	[ [qw(min max)], [ 'x.n', 'x.v', 'x.f', 'x.ci' ], 0 ],
	[ [qw(sum avg)], ['x.f'], 1 ],
	[ [qw(sum avg)], ['x.v'], 1 ],
	[ [qw(min max)], [ 'x.t', 'x.c', 'x.e', 'x.dt', 'x.at', 'x.a', 'x.t COLLATE "C"', 'upper(x.t)' ], 1 ],
	[ [qw(bool_and bool_or every)], [ 'x.o', 'x.i > 1' ], 1 ],
	[ [qw(bit_and bit_or bit_xor)], [ 'x.i', 'x.b' ], 1 ],
	[ [qw(range_agg range_intersect_agg)], ['x.r'], 1 ],
	[ [qw(my_avg)], ['x.b'], 1 ],
	[ [qw(plsum)], [ 'x.n', 'x.i' ], 1 ],
	[ [qw(greatest_of least_of)], ['x.i'], 1 ]);

# Whole calls, FILTER to come.
my @calls = (
	[ 'count(*)', 1 ], [ 'count(*)', 1 ],
	[ 'wsum(x.i, x.b % 100)', 1 ], [ 'wsum(x.i, 2)', 1 ], [ 'wavg(x.n, x.i)', 1 ],
	[ 'vsum(x.i, 1)', 1 ], [ 'vsum(VARIADIC x.a)', 1 ],
	[ 'sum(DISTINCT x.i)', 1 ], [ 'avg(DISTINCT x.b)', 1 ], [ 'sum(DISTINCT x.n)', 0 ],
	[ 'plsum(DISTINCT x.i)', 1 ], [ 'max(DISTINCT x.i)', 1 ],
	[ q{string_agg(DISTINCT x.t, ',')}, 1 ], [ 'array_agg(DISTINCT x.i)', 1 ],
	[ 'array_agg(DISTINCT x.i ORDER BY x.i DESC)', 1 ], [ 'array_agg(DISTINCT x.n)', 0 ],
	[ q{string_agg(x.t, ',' ORDER BY x.t)}, 1 ], [ q{string_agg(x.t, x.c ORDER BY x.id)}, 1 ],
	[ q{string_agg(x.t, ',' ORDER BY x.t COLLATE "C" DESC)}, 1 ],
	[ 'array_agg(x.n ORDER BY x.n, x.id)', 1 ],
	[ 'array_agg(x.i ORDER BY x.i DESC NULLS LAST, x.id)', 1 ],
	[ 'my_array(x.i ORDER BY x.id)', 1 ], [ 'first_of(x.t ORDER BY x.id)', 1 ],
	[ 'first_of(x.n ORDER BY x.id DESC)', 1 ],
	[ 'percentile_cont(0.5) WITHIN GROUP (ORDER BY x.f)', 0 ],
	[ 'percentile_cont(ARRAY[0.25, 0.75]) WITHIN GROUP (ORDER BY x.f)', 0 ],
	[ 'percentile_disc(0.5) WITHIN GROUP (ORDER BY x.t)', 1 ],
	[ 'percentile_disc(0.3) WITHIN GROUP (ORDER BY x.n DESC)', 0 ],
	[ 'mode() WITHIN GROUP (ORDER BY x.i)', 1 ], [ 'mode() WITHIN GROUP (ORDER BY x.t)', 1 ],
	[ 'rank(2) WITHIN GROUP (ORDER BY x.i)', 1 ], [ 'dense_rank(1) WITHIN GROUP (ORDER BY x.i DESC)', 1 ],
	[ 'percent_rank(2) WITHIN GROUP (ORDER BY x.i)', 1 ], [ 'cume_dist(2) WITHIN GROUP (ORDER BY x.i)', 1 ],
	[ 'jsonb_object_agg(x.id, x.i)', 1 ], [ 'json_object_agg(x.id, x.t ORDER BY x.id)', 1 ],
	[ 'jsonb_agg(x.i ORDER BY x.id)', 1 ], [ 'json_agg(x.t ORDER BY x.id)', 1 ],
	[ 'regr_count(x.f, x.i)', 1 ], [ 'regr_avgx(x.f, x.i)', 1 ]);

# Floats that depend on the order of addition in their last digits.
my @rounded = (
	(map { "$_(x.f)" } qw(stddev variance stddev_pop var_pop)),
	(map { "$_(x.f, x.i)" }
		qw(corr covar_pop covar_samp regr_intercept regr_r2 regr_slope regr_sxx regr_sxy regr_syy)));

my @filters = ('x.i > 1', 'x.o', 'x.t IS NOT NULL', 'x.i IS DISTINCT FROM 2', 'x.id % 2 = 0', 'false');

# One aggregate call, [SQL, exact].
sub random_call
{
	my $what = rand();
	my ($call, $exact);

	if ($what < 0.35)
	{
		my ($names, $arguments, $is_exact) = @{ one_of(@simple) };

		($call, $exact) = (one_of(@$names) . '(' . one_of(@$arguments) . ')', $is_exact);
	}
	elsif ($what < 0.5)
	{
		($call, $exact) = ('count(' . one_of('', 'DISTINCT ') . one_of(@any_column) . ')', 1);
	}
	elsif ($what < 0.9)
	{
		($call, $exact) = @{ one_of(@calls) };
	}
	else
	{
		$call = one_of(@rounded);
		$call .= ' FILTER (WHERE ' . one_of(@filters) . ')' if chance(0.2);
		return [ "round(($call)::numeric, 9)", 1 ];
	}
	$call .= ' FILTER (WHERE ' . one_of(@filters) . ')' if chance(0.25);
	return [ $call, $exact ];
}

# An expression over aggregates, and over a key that may be used in one.
sub random_output
{
	my (@exact_keys) = @_;

	return random_call() if chance(0.7);
	my $key = @exact_keys ? one_of(@exact_keys) : '1';
	# within a subquery a key that is an expression is not known as one
	my ($column) = grep { /^\w+\.\w+$/ } shuffled(@exact_keys);

	$column //= '1';
	return [
		one_of(
			'sum(x.i)::numeric / nullif(count(*), 0)',
			'coalesce(max(x.i), -1)',
			'max(x.i) - min(x.i)',
			q{CASE WHEN count(*) > 3 THEN 'many' ELSE 'few' END},
			'count(*) - count(x.i)',
			'count(*) FILTER (WHERE x.o) * 2 + coalesce(sum(x.i), 0)',
			'round(avg(x.n), 2)',
			'(array_agg(x.i ORDER BY x.i, x.id))[1]',
			'sum(x.i) IS NULL',
			q{coalesce(string_agg(x.t, '' ORDER BY x.id), '') || count(*)},
			'(SELECT count(*) FROM d WHERE d.k = max(x.i))',
			'(SELECT sum(x.i) + count(*) FROM d)',
			"($key)::text || ':' || count(*)",
			"coalesce(($key)::text, '-') || coalesce(max(x.t), '')",
			"(SELECT count(*) FROM d WHERE d.name = $column\::text)",
			"CASE WHEN ($key) IS NULL THEN sum(x.b) ELSE avg(x.i) END"),
		1
	];
}

my @havings = ('count(*) > 2', 'count(*) % 3 <> 0', 'sum(x.i) > 1', 'max(x.i) < 5', 'bool_and(x.i <> 4)',
	'count(DISTINCT x.t) BETWEEN 1 AND 4', 'min(x.n) IS NOT NULL', q{mode() WITHIN GROUP (ORDER BY x.i) <> 1},
	'(SELECT max(d.v) FROM d) > count(x.o)', 'true', 'NULL');

# FROM and WHERE: a relation x with the columns of the source, and what keys there
# are in addition.
sub random_from
{
	my ($source) = @_;
	my $form = int(rand(14));
	my %from = (with => '', from => "$source x", where => [], keys => []);

	if ($form == 1)
	{
		$from{from} = "$source x JOIN d ON d.k = x.i";
		$from{keys} = [ [ 'd.name', 1 ], [ 'd.v', 1 ], [ 'd.id', 1 ] ];
	}
	elsif ($form == 2)
	{
		$from{from} = "$source x LEFT JOIN d ON d.k = x.i AND d.v > 1";
		$from{keys} = [ [ 'd.name', 1 ], [ 'd.v', 1 ], [ 'coalesce(d.v, x.i)', 1 ] ];
	}
	elsif ($form == 3)
	{
		$from{from} = "(SELECT *, s0.i + 1 AS next FROM $source s0 WHERE s0.i IS DISTINCT FROM 3) x";
		$from{keys} = [ [ 'x.next', 1 ] ];
	}
	elsif ($form == 4)
	{
		$from{from} = "$source x, LATERAL (SELECT count(*) AS below FROM d WHERE d.v <= x.i) l";
		$from{keys} = [ [ 'l.below', 1 ] ];
	}
	elsif ($form == 5)
	{
		$from{from} = "$source x CROSS JOIN LATERAL unnest(x.a) WITH ORDINALITY AS u (element, place)";
		$from{keys} = [ [ 'u.element', 1 ], [ 'u.place', 1 ] ];
	}
	elsif ($form == 6)
	{
		$from{with} = "WITH w AS (SELECT * FROM $source s0) ";
		$from{from} = 'w x';
	}
	elsif ($form == 7)
	{
		$from{from} = 'v x';
	}
	elsif ($form == 8)
	{
		push @{ $from{where} }, one_of('x.i IN (SELECT k FROM d)', 'EXISTS (SELECT FROM d WHERE d.k = x.i)',
			'NOT EXISTS (SELECT FROM d WHERE d.k = x.i AND d.v = 1)');
	}
	elsif ($form == 9)
	{
		$from{from} = "(SELECT *, generate_series(1, s0.i) AS g FROM $source s0) x";
		$from{keys} = [ [ 'x.g', 1 ] ];
	}
	elsif ($form == 10)
	{
		$from{with} = 'WITH m AS MATERIALIZED (SELECT k, count(*) AS entries FROM d GROUP BY k) ';
		$from{from} = "$source x LEFT JOIN m ON m.k = x.i";
		$from{keys} = [ [ 'm.entries', 1 ] ];
	}
	push @{ $from{where} }, one_of('x.i > 0', q{x.t <> 'b'}, 'x.o IS NOT TRUE', 'x.n < 100', 'false')
	  if chance(0.2);
	return \%from;
}

# A streaming query: text, output columns [name, exact], which of them are its
# keys, and, where it may be refused, that.
sub random_query
{
	my ($source, $mode) = @_;
	my $from = random_from($source);
	my @pool = (@keys, map { ($_) x 8 } @{ $from->{keys} });
	my (@group, %seen);

	foreach (1 .. one_of(0, 1, 1, 1, 2, 2, 3))
	{
		my $key = one_of(@pool);

		push @group, $key unless $seen{ $key->[0] }++;
	}

	# the dependents of a primary key need not be keys
	my $dependent = grep { $_->[0] eq 'd.id' } @group;
	my $distinct = @group && chance(0.07);
	my @exact_keys = map { $_->[0] } grep { $_->[1] } @group;
	my @output;
	my $number = 0;

	foreach my $key (@group)
	{
		$number++;
		push @output, { sql => $key->[0], name => "k$number", exact => $key->[1], key => 1 }
		  unless $mode eq 'complete' && !$distinct && chance(0.15);
	}
	if (!$distinct)
	{
		$number = 0;
		foreach (1 .. one_of(@group ? 0 : 1, 1, 2, 2, 3, 4))
		{
			# without keys, it is the first that makes it an aggregation
			my ($sql, $exact) = @{ @group || @output ? random_output(@exact_keys) : random_call() };

			$number++;
			push @output, { sql => $sql, name => "a$number", exact => $exact };
			# the same call twice
			push @output, { %{ $output[-1] }, name => "b$number" } if chance(0.1);
		}
		push @output, { sql => "coalesce(d.name, 'unnamed')", name => 'dependent', exact => 1 }
		  if $dependent;
		push @output, { sql => 'count(*)', name => 'rows', exact => 1 } unless @output;
	}
	if ($mode eq 'complete' && !$distinct && chance(0.1))
	{
		push @output, { sql => 'sum(count(*)) OVER ()', name => 'all_rows', exact => 1 },
		  { sql => 'rank() OVER (ORDER BY count(*) DESC)', name => 'place', exact => 1 };
	}
	@output = shuffled(@output) if chance(0.3);

	my $where = @{ $from->{where} } ? ' WHERE ' . join(' AND ', @{ $from->{where} }) : '';
	my $body = join(', ', map { "$_->{sql} AS $_->{name}" } @output) . " FROM $from->{from}$where";
	my $text;

	if ($distinct)
	{
		$text = "$from->{with}SELECT DISTINCT $body";
	}
	else
	{
		my @by = map {
			my $key = $_;
			my ($column) = grep { $output[$_]{key} && $output[$_]{sql} eq $key->[0] } 0 .. $#output;

			!defined $column ? $key->[0] : one_of($key->[0], $output[$column]{name}, $column + 1);
		} @group;

		# a name in GROUP BY is an input column first: k1 is none
		$text = "$from->{with}SELECT $body" . (@by ? ' GROUP BY ' . join(', ', @by) : '');
		$text .= ' HAVING ' . one_of(@havings) if chance(0.25);
	}
	my %query = (text => $text, output => \@output, keys => scalar(@group));

	return $mode eq 'complete' ? with_more(\%query) : \%query;
}

# What only complete mode takes: order, limit, window functions, a query around.
sub with_more
{
	my ($query) = @_;
	my @output = @{ $query->{output} };
	# as many rows as there are keys in the output: then their order is total
	my $total = $query->{keys} > 0 && $query->{keys} == grep { $_->{key} } @output;
	my $order = join ', ', map { "$_->{name} " . one_of('', 'DESC', 'NULLS FIRST') } grep { $_->{key} } @output;
	my $what = rand();

	if ($what < 0.15 && $total)
	{
		$query->{text} .= " ORDER BY $order";
		$query->{text} .= ' LIMIT ' . one_of(1, 2, 5) if chance(0.7);
		$query->{text} .= ' OFFSET ' . one_of(1, 3) if chance(0.3);
	}
	elsif ($what < 0.25 && $total)
	{
		$query->{text} = "SELECT *, rank() OVER (ORDER BY $order) AS rank, count(*) OVER () AS groups FROM ($query->{text}) z";
		push @output, { name => 'rank', exact => 1 }, { name => 'groups', exact => 1 };
	}
	elsif ($what < 0.42)
	{
		my $column = $output[0]{name};

		$query->{text} = "SELECT z.*, z.$column IS NULL AS missing FROM ($query->{text}) z" . one_of('', ' WHERE true',
			" WHERE z.$column IS NOT NULL");
		push @output, { name => 'missing', exact => 1 };
	}
	elsif ($what < 0.48 && $total)
	{
		# aggregated again
		$query->{text} = "SELECT count(*) AS groups, count(DISTINCT z.$output[0]{name}::text) AS values FROM ($query->{text}) z";
		@output = map { { name => $_, exact => 1 } } qw(groups values);
		$query->{may_be_refused} = 1;
	}
	elsif ($what < 0.52)
	{
		$query->{text} = "SELECT z.*, d.name AS label FROM ($query->{text}) z LEFT JOIN d ON d.id = 1";
		push @output, { name => 'label', exact => 1 };
		$query->{may_be_refused} = 1;
	}
	$query->{output} = \@output;
	return $query;
}

# --------------------------------------------------------------------- sources

my $column_list = join ', ', map { "$_->[0] $_->[1]" } @columns;

# Creates the sources; returns where rows go to, and what a query reads.
sub create_sources
{
	my $layout = one_of(qw(plain plain partitioned two));
	my (@tables, $source);

	if ($layout eq 'two')
	{
		sql($node, "CREATE TABLE s1 ($column_list); CREATE TABLE s2 ($column_list);"
			  . q{SELECT streamq.add_source('s1'); SELECT streamq.add_source('s2')});
		@tables = qw(s1 s2);
		$source = '(SELECT * FROM s1 UNION ALL SELECT * FROM s2)';
	}
	elsif ($layout eq 'partitioned')
	{
		sql($node, "CREATE TABLE s ($column_list) PARTITION BY LIST ((id % 3));"
			  . join('', map { "CREATE TABLE s_$_ PARTITION OF s FOR VALUES IN ($_);" } 0 .. 1)
			  . "CREATE TABLE s_2 (LIKE s); SELECT streamq.add_source('s')");
		@tables = ('s');
		$source = 's';
	}
	else
	{
		sql($node, "CREATE TABLE s ($column_list); SELECT streamq.add_source('s')");
		@tables = ('s');
		$source = 's';
	}
	sql($node, "CREATE VIEW v AS SELECT * FROM $source AS u");
	return { layout => $layout, tables => \@tables, text => $source, unattached => $layout eq 'partitioned', next => 1 };
}

sub drop_sources
{
	my ($sources) = @_;

	sql($node, 'DROP VIEW v; DROP TABLE IF EXISTS s_2; DROP TABLE ' . join(', ', @{ $sources->{tables} }));
	return;
}

# A row as SQL.  Rows of a partition that is not attached yet are left for then.
sub random_row
{
	my ($sources) = @_;

	$sources->{next}++ if $sources->{unattached} && $sources->{next} % 3 == 2;
	return '(' . join(', ', $sources->{next}++, map { random_value($_) } @columns[ 1 .. $#columns ]) . ')';
}

# Statements of one transaction.
sub random_transaction
{
	my ($sources, $commit) = @_;
	my $n = one_of(1, 1, 2, 3, 5, 10, 20);
	my @statements = ('BEGIN;');

	push @statements, "SAVEPOINT a; INSERT INTO $sources->{tables}[0] (id) VALUES (0); ROLLBACK TO a;"
	  if chance(0.15);
	while ($n > 0)
	{
		my $part = 1 + int(rand($n));

		push @statements, 'SAVEPOINT b;' if chance(0.15);
		push @statements, 'INSERT INTO ' . one_of(@{ $sources->{tables} }) . ' VALUES '
		  . join(', ', map { random_row($sources) } 1 .. $part) . ';';
		$n -= $part;
	}
	push @statements, $commit || chance(0.85) ? 'COMMIT;' : 'ROLLBACK;';
	return join "\n", @statements;
}

# Attaches the third partition, with rows in it.
sub attach
{
	my ($sources) = @_;
	my @rows = map { "(3 * $_ + 2, " . join(', ', map { random_value($_) } @columns[ 1 .. $#columns ]) . ')' }
	  1001 .. 1010;

	sql($node, 'INSERT INTO s_2 VALUES ' . join(', ', @rows) . '; ALTER TABLE s ATTACH PARTITION s_2 FOR VALUES IN (2)');
	$sources->{unattached} = 0;
	return;
}

# ------------------------------------------------------------------- one round

# Creates a query; returns false if it may be refused, and is.
sub create_query
{
	my ($query, $zone) = @_;
	my @arguments = ("'$query->{name}'", "\$q\$$query->{text}\$q\$", "output_mode => '$query->{mode}'");
	my @before = ("SET TimeZone = '$zone';");
	my @keys = map { $_->{name} } grep { $_->{key} } @{ $query->{output} };

	push @arguments, "max_rows_per_batch => $query->{limit}" if $query->{limit};
	push @arguments, "live_view => '$query->{name}_live'" if $query->{live_view};
	if ($query->{own_sink})
	{
		# of the same columns and some of its own
		push @before, "CREATE TABLE $query->{name} AS SELECT 1 AS own, z.*, 'x'::text AS more FROM ($query->{text}) z WITH NO DATA;",
		  "ALTER TABLE $query->{name} ALTER own SET DEFAULT 7;";
		push @before, "CREATE UNIQUE INDEX ON $query->{name} (" . join(', ', @keys) . ') NULLS NOT DISTINCT;'
		  if $query->{mode} eq 'update' && @keys;
	}
	my $error = sql_error($node, "@before SELECT streamq.create_query(" . join(', ', @arguments) . ')');

	return 1 if $error eq '';
	if ($query->{may_be_refused} && $error =~ /0A000/)
	{
		sql($node, "DROP TABLE IF EXISTS $query->{name}");
		return 0;
	}
	$query->{problem} = "is refused: $error";
	return 1;
}

# The same columns of a relation, each as exact as it can be compared.
sub column_texts
{
	my ($query) = @_;

	return join ', ', map { $_->{exact} ? "$_->{name}::text" : $_->{name} } @{ $query->{output} };
}

# a EXCEPT ALL b, and the other way; as an expression
sub difference
{
	my ($query, $left, $right) = @_;
	my $columns = column_texts($query);

	return qq{(SELECT nullif(concat_ws(', ', nullif((SELECT count(*) FROM (SELECT $columns FROM $left EXCEPT ALL SELECT $columns FROM $right) x), 0) || ' too many',
		nullif((SELECT count(*) FROM (SELECT $columns FROM $right EXCEPT ALL SELECT $columns FROM $left) x), 0) || ' missing'), ''))};
}

# The row type of a query, for functions that return records.
sub record_of
{
	my ($query) = @_;

	return sql($node, qq{
		SELECT string_agg(format('%I %s', attname, format_type(atttypid, atttypmod)
				|| CASE WHEN attcollation <> 0 THEN ' COLLATE ' || attcollation::regcollation ELSE '' END), ', ' ORDER BY attnum)
		FROM pg_attribute WHERE attrelid = 'streamq_query."$query->{name}"'::regclass AND attnum > 0});
}

# Notes where the rows of the sink are.
sub remember
{
	return join "\n", map {
		"DROP TABLE IF EXISTS seen_$_->{name}; CREATE TABLE seen_$_->{name} AS SELECT q::text AS content, q.ctid AS place, q.xmin::text AS xid,"
		  . " (SELECT coalesce(max(batch_id), -1) FROM streamq.commits WHERE name = '$_->{name}') AS batch FROM (SELECT) one LEFT JOIN $_->{name} q ON true;"
	} @_;
}

# How many rows were written although they did not change, if there was one batch.
sub rewritten
{
	my ($query) = @_;
	my $name = $query->{name};

	return qq{(SELECT CASE WHEN (SELECT max(batch_id) FROM streamq.commits WHERE name = '$name') - (SELECT max(batch) FROM seen_$name) <= 1
		THEN nullif(sum(least(before, after) - kept), 0) || ' rewritten without need' END
		FROM (SELECT count(s.place) AS before, count(t.place) AS after,
					 count(*) FILTER (WHERE s.place IS NOT NULL AND t.place IS NOT NULL) AS kept
			  FROM (SELECT content, place, xid FROM seen_$name WHERE place IS NOT NULL) s
				   FULL JOIN (SELECT q::text AS content, q.ctid AS place, q.xmin::text AS xid FROM $name q) t
				   USING (content, place, xid)
			  GROUP BY content) x)};
}

# Compares everything; the first problem of a query is kept with it.
sub check
{
	my ($zone, $step, @queries) = @_;

	return unless @queries;
	my @answers = split /\n/, sql($node, "SET TimeZone = '$zone';\n" . join "\nUNION ALL\n", map {
		my $query = $_;
		my $name = $query->{name};
		my @checks = (difference($query, $name, qq{streamq_query."$name"}), rewritten($query));

		if ($step eq 'end')
		{
			push @checks, q{'live: ' || } . difference($query, "streamq.live('$name') AS t (" . record_of($query) . ')', qq{streamq_query."$name"});
			# it compares exactly, so the plain SELECT has to have one answer only
			push @checks, "(SELECT 'verify: ' || string_agg(v::text, ', ') FROM streamq.verify('$name') v)"
			  unless grep { !$_->{exact} } @{ $query->{output} };
			push @checks, q{'live view: ' || } . difference($query, "$query->{name}_live", qq{streamq_query."$name"})
			  if $query->{live_view};
			push @checks, "(SELECT nullif(count(*), 0) || ' without default' FROM $name WHERE own <> 7 OR more IS NOT NULL)"
			  if $query->{own_sink};
		}
		"SELECT '$name=' || concat_ws('; ', " . join(', ', @checks) . ')';
	} @queries);

	foreach my $answer (@answers)
	{
		my ($name, $problem) = $answer =~ /^(\w+)=(.*)$/s or die "strange answer: $answer";
		my ($query) = grep { $_->{name} eq $name } @queries;

		$query->{problem} = "step $step: $problem" if $problem ne '';
	}
	return;
}

# Lets the queries fail in some way.
sub interfere
{
	my ($what, @names) = @_;
	my $point = one_of(@points);
	my $run = join "\n", map { "CALL streamq.run('$_');" } @names;

	if ($what < 0.12)
	{
		$node->psql('postgres', "SET streamq.debug_point = '$point:" . one_of('error', 'serialize') . "';\n$run",
			on_error_stop => 0);
	}
	elsif ($what < 0.2)
	{
		$node->psql('postgres', "SET statement_timeout = '" . one_of(3, 6, 12, 25) . "ms';\n$run",
			on_error_stop => 0);
	}
	elsif ($what < 0.24)
	{
		my $error = sql_error($node,
			"SET streamq.debug_point = '$point:crash'; CALL streamq.run('" . one_of(@names) . q{')});

		# it may have had nothing to do
		if ($error =~ /server closed the connection|connection to server was lost/)
		{
			wait_until_down($node);
			$node->start;
		}
	}
	elsif ($what < 0.27)
	{
		$node->restart;
	}
	else
	{
		# should one fail, run() will say so
		$node->psql('postgres', join("\n", map { my $step = $_; map { "SELECT streamq.$step('$_');" } @names } qw(start wait stop)),
			on_error_stop => 0);
	}
	return;
}

# Executes the statements and runs the queries, each of which keeps its problem.
sub run_queries
{
	my ($step, $statements, @queries) = @_;
	my $what = rand();

	if ($what < 0.35)
	{
		sql($node, $statements);
		$statements = '';
		interfere($what, map { $_->{name} } @queries);
	}
	my ($status) = $node->psql('postgres', join("\n", $statements, map { "CALL streamq.run('$_->{name}');" } @queries));

	return if $status == 0;
	# which of them is it?
	foreach my $query (@queries)
	{
		my $error = sql_error($node, "CALL streamq.run('$query->{name}')");

		$query->{problem} = "step $step: $error" if $error;
	}
	return;
}

sub one_round
{
	my ($round) = @_;
	my $sources = create_sources();
	my $zone = one_of('UTC', 'UTC', 'America/New_York', 'Asia/Kolkata');
	my @queries;

	foreach my $number (1 .. $queries_per_round)
	{
		my $mode = one_of(qw(update update complete));
		my $query = random_query($sources->{text}, $mode);

		$query->{mode} = $mode;
		$query->{name} = "q$number";
		$query->{limit} = one_of(undef, undef, undef, 1, 3, 10, 50);
		$query->{live_view} = chance(0.2);
		$query->{own_sink} = chance(0.2);
		push @queries, $query;
	}
	# the texts have to be right, whatever becomes of them
	sql($node, join "\n", "SET TimeZone = '$zone';", map { "CREATE TEMP VIEW tried_$_->{name} AS $_->{text}; SELECT count(t::text) FROM tried_$_->{name} t;" } @queries);
	@queries = grep { create_query($_, $zone) } @queries;

	foreach my $step (1 .. 4)
	{
		my @alive = grep { !$_->{problem} } @queries;

		last unless @alive;
		attach($sources) if $step > 2 && $sources->{unattached};
		# a global aggregate over no rows has a row, but there is no batch without rows
		my @transactions = (random_transaction($sources, $step == 1),
			map { random_transaction($sources, 0) } 2 .. one_of(1, 1, 2, 5));

		run_queries($step, join("\n", @transactions, remember(@alive)), @alive);
		check($zone, $step == 4 ? 'end' : $step, grep { !$_->{problem} } @alive);
	}

	foreach my $query (@queries)
	{
		my $limit = $query->{limit} // 'none';

		is($query->{problem} // '', '', "round $round, $query->{name}")
		  or diag("$query->{mode}, limit $limit, $sources->{layout}, $zone"
			  . ($query->{own_sink} ? ', own sink' : '') . ": $query->{text}");
	}
	sql($node, join "\n", 'SELECT streamq.drop_query(name, true) FROM streamq.queries;',
		map { "DROP TABLE IF EXISTS seen_$_->{name}, $_->{name};" } @queries);
	drop_sources($sources);
	return;
}

foreach my $round (defined $ENV{STREAMQ_ROUND} ? $ENV{STREAMQ_ROUND} : 1 .. $rounds)
{
	# Each on its own, so that it can be repeated alone.  Neighbouring seeds would
	# give similar numbers.
	srand(hex(substr(md5_hex("$seed $round"), 0, 8)));
	one_round($round);
}

done_testing();
