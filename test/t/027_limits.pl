# 027_limits.pl
#		Many queries, many partitions, many columns, big batches, long and odd
#		names, keys of all types.
#
# With STREAMQ_LIMITS=full the numbers are those that are promised: 1,000 queries
# of which 200 run, 1,000 partitions, a batch of 1 GB.  Otherwise they are smaller.
use strict;
use warnings FATAL => 'all';
use utf8;

use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Utils;
use StreamqTest;
use Test::More;
use Time::HiRes qw(time);

my $full = ($ENV{STREAMQ_LIMITS} // '') eq 'full';
my ($defined, $running, $partitions, $megabytes) = $full ? (1000, 200, 1000, 1024) : (60, 20, 100, 8);
my $node = new_server('limits', 'streamq.max_workers = 8', 'max_worker_processes = 16', 'fsync = off',
	'max_locks_per_transaction = 1000', 'max_wal_size = 4GB', 'client_min_messages = warning', "lc_messages = 'C'");

# timed(NAME, STATEMENTS): executes them and notes how long it takes.
sub timed
{
	my ($name, $statements) = @_;
	my $began = time();
	my $result = sql($node, $statements);

	note(sprintf '%s: %.1f s', $name, time() - $began);
	return $result;
}

sub verified_ok
{
	my ($name) = @_;

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	return is(sql($node, q{SELECT q.name, v.* FROM streamq.queries q, streamq.verify(q.name) v LIMIT 20}), '', "$name: exact");
}

sub drop_all
{
	sql($node, q{DO $$ DECLARE q text; BEGIN
		FOR q IN SELECT name FROM streamq.queries LOOP
			PERFORM streamq.drop_query(q, true);
			COMMIT;
		END LOOP;
		END $$});
	return is(sql($node, q{SELECT count(*) FROM pg_class WHERE relnamespace IN ('streamq_state'::regnamespace, 'streamq_query'::regnamespace)}),
		'0', 'all are dropped, and nothing is left of them');
}

# ------------------------------------------------------------ many queries

{
	my $name = "$defined queries, $running running";

	sql($node, q{CREATE TABLE t (id bigserial, v int); SELECT streamq.add_source('t')});
	timed("defining $defined", qq{DO \$\$ BEGIN
		FOR i IN 1 .. $defined LOOP
			IF i % 3 = 0 THEN
				PERFORM streamq.create_query('q' || i, 'SELECT id, v FROM t WHERE v % 7 = ' || i % 7);
			ELSIF i % 3 = 1 THEN
				PERFORM streamq.create_query('q' || i, 'SELECT v, count(*) AS n FROM t GROUP BY v', output_mode => 'update');
			ELSE
				PERFORM streamq.create_query('q' || i, 'SELECT v % 5 AS k, sum(v) AS s FROM t GROUP BY 1', output_mode => 'complete');
			END IF;
			COMMIT;
		END LOOP;
		END \$\$});
	sql($node, qq{SELECT streamq.start('q' || i) FROM generate_series(1, $running) i});
	foreach my $round (1 .. 2)
	{
		sql($node, q{INSERT INTO t (v) SELECT i % 100 FROM generate_series(1, 1000) i});
		is(timed("round $round", qq{SELECT count(*) FROM generate_series(1, $running) i WHERE streamq.wait('q' || i)}), $running,
			"$name: all follow, round $round");
	}
	is(sql($node, q{SELECT count(*) FROM streamq.status WHERE total_input_rows = 2000}), $running, "$name: those and no others");
	is(timed('status', q{SELECT count(*) FROM streamq.status}), $defined, "$name: the status has them all");
	is(sql($node, qq{SELECT count(*) FROM generate_series(1, $running) i, streamq.verify('q' || i)}), '0', "$name: exact");
	$node->restart;
	sql($node, q{INSERT INTO t (v) VALUES (1)});
	is(timed('after a restart', qq{SELECT count(*) FROM generate_series(1, $running) i WHERE streamq.wait('q' || i)}), $running,
		"$name: all go on after a restart");
	timed('stopping', qq{SELECT streamq.stop('q' || i) FROM generate_series(1, $running) i});
	drop_all();
}

# --------------------------------------------------------- many partitions

{
	my $name = "$partitions partitions";

	sql($node, qq{
		CREATE TABLE parts (p int, id int, v int) PARTITION BY LIST (p);
		SELECT streamq.add_source('parts');
		DO \$\$ BEGIN
			FOR i IN 1 .. $partitions LOOP
				EXECUTE format('CREATE TABLE parts_%1\$s PARTITION OF parts FOR VALUES IN (%1\$s)', i);
			END LOOP;
		END \$\$;
		INSERT INTO parts SELECT 1 + i % $partitions, i, i % 10 FROM generate_series(1, 10 * $partitions) i;
		SELECT streamq.create_query('rows', 'SELECT p, id, v FROM parts');
		SELECT streamq.create_query('cut', 'SELECT p, id FROM parts', max_rows_per_batch => 4 * $partitions);
		SELECT streamq.create_query('agg', 'SELECT p, count(*) AS n, count(DISTINCT v) AS d FROM parts GROUP BY p', output_mode => 'update')});
	is(timed("$name, run of $_", "CALL streamq.run('$_')"), ($_ eq 'cut' ? 3 : 1) . '|' . 10 * $partitions, "$name: $_ reads them all")
	  foreach qw(rows cut agg);
	sql($node, qq{INSERT INTO parts VALUES (1, 0, 0), ($partitions, 0, 0);
		ALTER TABLE parts DETACH PARTITION parts_2; DROP TABLE parts_2});
	is(timed("$name, two rows more, $_", "CALL streamq.run('$_')"), '1|2', "$name: and two more") foreach qw(rows cut agg);
	is(sql($node, q{SELECT count(*) FROM rows}), 10 * $partitions + 2, "$name: exact");
	is(sql($node, qq{SELECT count(*) FROM agg WHERE n = 10 + (p IN (1, $partitions))::int}), $partitions, "$name: each group is");
	drop_all();
	sql($node, 'DROP TABLE parts');
}

# ------------------------------------------------------------ many columns

foreach my $columns (10, 1600)
{
	my $name = "$columns columns";
	my $list = join ', ', map { "c$_" } 1 .. $columns;
	my $error;

	# 1,600 columns of 8 bytes each do not fit into a page; of a bit each they do
	sql($node, 'CREATE TABLE wide (' . join(', ', map { "c$_ boolean" } 1 .. $columns) . ')');
	sql($node, qq{
		INSERT INTO wide SELECT } . join(', ', map { "i % $_ = 0" } 1 .. $columns) . q{ FROM generate_series(1, 20) i;
		SELECT streamq.add_source('wide')});
	sql($node, qq{
		SELECT streamq.create_query('rows', 'SELECT * FROM wide');
		SELECT streamq.create_query('listed', 'SELECT $list FROM wide WHERE c1', max_rows_per_batch => 7)});
	is(timed("$name, rows", q{CALL streamq.run('rows')}), '1|20', "$name: all are read");
	is(timed("$name, rows", q{CALL streamq.run('listed')}), '3|20', "$name: and in pieces");
	verified_ok($name);
	drop_all();

	# aggregates: PostgreSQL has as many columns for what is kept as for what comes out
	my $aggregates = join ', ', map { "bool_or(c$_)" } 2 .. $columns;
	$aggregates =~ s/bool_or\((c\d+)\)/bool_or($1) AS $1/g;
	$error = sql_error($node, qq{SELECT streamq.create_query('agg', 'SELECT c1, $aggregates FROM wide GROUP BY c1', output_mode => 'update')});
	if ($error eq '')
	{
		is(timed("$name, aggregates", q{CALL streamq.run('agg')}), '1|20', "$name: an aggregate of each");
		verified_ok("$name, aggregates");
	}
	else
	{
		like($error, qr/ERROR:  54\d\d\d: /, "$name: an aggregate of each is refused as a limit of PostgreSQL");
		note($error);
	}
	drop_all();
	sql($node, 'DROP TABLE wide');
}

# --------------------------------------------------------------- big batches

{
	my $name = "a batch of $megabytes MB";

	sql($node, q{CREATE TABLE big (id bigserial, k int, filler text); ALTER TABLE big ALTER filler SET STORAGE EXTERNAL; SELECT streamq.add_source('big');
		SELECT streamq.create_query('rows', 'SELECT id, filler FROM big');
		SELECT streamq.create_query('agg', 'SELECT k, count(*) AS n, max(filler) AS m FROM big GROUP BY k', output_mode => 'update');
		SELECT streamq.create_query('kept', $$ SELECT k % 10 AS k, count(DISTINCT id) AS n, array_agg(id ORDER BY id) AS ids FROM big GROUP BY 1 $$, output_mode => 'update');
		SELECT streamq.create_query('cut', 'SELECT id, k FROM big', max_rows_per_batch => 1000)});
	my $rows = $megabytes * 1024;
	timed('loading', qq{INSERT INTO big (k, filler) SELECT i % 1000, repeat(md5(i::text), 31) FROM generate_series(1, $rows) i});
	is(timed("$name, $_", "CALL streamq.run('$_')"), ($_ eq 'cut' ? int(($rows + 999) / 1000) : 1) . "|$rows", "$name: $_")
	  foreach qw(rows agg kept cut);
	is(sql($node, q{SELECT (SELECT count(*) FROM (TABLE big EXCEPT ALL SELECT b.* FROM big b JOIN rows r USING (id, filler)) x), (SELECT count(*) FROM rows)}),
		"0|$rows", "$name: exact");
	is(sql($node, q{SELECT count(*) FROM (SELECT k, count(*), max(filler) FROM big GROUP BY k EXCEPT TABLE agg) x}), '0', "$name: the groups, too");
	is(sql($node, q{SELECT sum(n), sum(cardinality(ids)) FROM kept}), "$rows|$rows", "$name: and what is kept");

	# one value that PostgreSQL can just have; two of them do not fit into one
	sql($node, q{CREATE TABLE huge (k int, t text); ALTER TABLE huge ALTER t SET STORAGE EXTERNAL;
		SELECT streamq.create_query('cat', $$ SELECT k, string_agg(t, '' ORDER BY t) AS t FROM huge GROUP BY k $$, output_mode => 'update')});
	if ($full)
	{
		sql($node, q{INSERT INTO huge SELECT 1, repeat('x', 600000000)});
		timed('a value of 600 MB', q{CALL streamq.run('cat')});
		sql($node, q{INSERT INTO huge SELECT 1, repeat('x', 600000000)});
		like(sql_error($node, q{CALL streamq.run('cat')}), qr/ERROR:  (54000: out of memory|XX000: invalid memory alloc|22026|54000)/, 'a value of more than 1 GB is refused');
		like(sql($node, q{SELECT octet_length(t) FROM cat}), qr/^600000000$/, 'and the result is as it was');
	}
	drop_all();
	sql($node, 'DROP TABLE big, huge');
}

# ------------------------------------------------------------------- names

# 63 bytes each, with what has to be quoted, and letters of several bytes, one of
# which would be cut in two; names that are alike up to the last letters.
my %odd = (
	'quotes' => q{a"b'c\\d $$ e;f--g/*h*/ %s %1$s {} [] },
	'unicode' => 'größe Ωμέγα 表 😀 é',
	'upper' => 'SELECT Id',
	'long' => 'x');

foreach my $kind (sort keys %odd)
{
	my $make = sub {
		my ($what) = @_;
		my $odd = "$odd{$kind}$what";
		my $bytes = do { my $b = $odd; utf8::encode($b); length $b };

		# filled up to 63 bytes in front of what tells them apart, with letters of two bytes
		return $odd . ('y' x ((63 - $bytes) % 2)) . ('ü' x int((63 - $bytes) / 2)) if $kind eq 'unicode';
		return ('y' x (63 - $bytes)) . $odd;
	};
	my %n = map { $_ => $make->($_) } qw(s t a k v q1 q2 q3 l w r);
	my %i = map { $_ => '"' . ($n{$_} =~ s/"/""/gr) . '"' } keys %n;
	my $literal = sub { return q{U&'} . join('', map { ord($_) > 126 || ord($_) < 32 || /[\\']/ ? sprintf('\\+%06X', ord($_)) : $_ } split //, $_[0]) . q{'}; };
	my $sql = sub { my $text = $_[0]; utf8::encode($text); return sql($node, $text); };
	my $body = "FROM $i{s}.$i{t}";

	$sql->(qq{
		CREATE ROLE $i{r};
		GRANT CREATE ON DATABASE postgres TO $i{r};
		SET ROLE $i{r};
		CREATE SCHEMA $i{s};
		CREATE TABLE $i{s}.$i{t} ($i{a} timestamptz, $i{k} text, $i{v} int) PARTITION BY RANGE ($i{a});
		CREATE TABLE $i{s}.$i{w} PARTITION OF $i{s}.$i{t} FOR VALUES FROM ('2024-01-01') TO ('2025-01-01');
		SET search_path = $i{s};
		SELECT streamq.add_source(format('%I', @{[$literal->($n{t})]})::regclass, @{[$literal->($n{a})]}, '1 minute');
		SELECT streamq.create_query(@{[$literal->($n{q1})]}, @{[$literal->("SELECT $i{k}, $i{v} $body")]});
		SELECT streamq.create_query(@{[$literal->($n{q2})]}, @{[$literal->("SELECT $i{k}, count(*) AS $i{v}, count(DISTINCT $i{v}) AS d, array_agg($i{v} ORDER BY $i{v}) AS $i{a} $body GROUP BY 1")]},
			output_mode => 'update');
		SELECT streamq.create_query(@{[$literal->($n{q3})]}, @{[$literal->("SELECT date_bin('1 minute', $i{a}, '2024-01-01') AS $i{a}, $i{k}, sum($i{v}) AS $i{v} $body GROUP BY 1, 2")]},
			late_sink => format('%I', @{[$literal->($n{l})]}), live_view => format('%I', @{[$literal->("$n{w}" =~ s/.$/z/r)]}));
		INSERT INTO $i{t} SELECT '2024-01-01'::timestamptz + i * interval '20 seconds', 'k' || i % 3, i FROM generate_series(1, 20) i;
		RESET search_path});
	$sql->("CALL streamq.run(" . $literal->($n{$_}) . ');') foreach qw(q1 q2 q3);
	$sql->("SET ROLE $i{r}; INSERT INTO $i{s}.$i{t} VALUES ('2024-01-01', 'late', 1), ('2024-01-01 02:00', 'k1', 1)");
	$sql->("SELECT streamq.start(" . $literal->($n{$_}) . ');') foreach qw(q1 q2 q3);
	is($sql->("SELECT streamq.wait(" . $literal->($n{$_}) . ')'), 't', "names, $kind: $_ runs") foreach qw(q1 q2 q3);
	is(sql($node, q{SELECT q.name, v.* FROM streamq.queries q, streamq.verify(q.name) v WHERE NOT explained_by_late_rows}), '', "names, $kind: exact");
	is($sql->("SELECT (SELECT count(*) FROM $i{s}.$i{q1}), (SELECT count(*) FROM $i{s}.$i{l})"), '22|1', "names, $kind: sinks have their names");
	is(sql($node, q{SELECT count(*), max(octet_length(name)) FROM streamq.status}), '3|63', "names, $kind: so have the queries");
	like($sql->("SELECT string_agg(e, E'\\n') FROM streamq.explain(" . $literal->($n{q2}) . ') e'), qr/streamq_state/, "names, $kind: explain()");
	$sql->("SELECT streamq.stop(" . $literal->($n{$_}) . ');') foreach qw(q1 q2 q3);
	$sql->("SELECT streamq.alter_query(@{[$literal->($n{q1})]}, @{[$literal->(qq{SELECT $i{k}, $i{v} + 1 AS $i{v} $body})]}); CALL streamq.run(@{[$literal->($n{q1})]})");
	drop_all();
	$sql->("SET ROLE $i{r}; SELECT streamq.drop_source(format('%I.%I', @{[$literal->($n{s})]}, @{[$literal->($n{t})]})::regclass); RESET ROLE; DROP OWNED BY $i{r} CASCADE; DROP ROLE $i{r}");
}
# one byte more is refused, not cut
like(sql_error($node, q{SELECT streamq.create_query(repeat('x', 64), 'SELECT id FROM t')}), qr/ERROR:  42622: /, 'a longer name is refused');

# -------------------------------------------------------- keys of all types

# type => values, of which some are equal, or look alike, or sort oddly.  Groups have
# to be what GROUP BY makes of them, over several batches.
sql($node, q{
	CREATE EXTENSION citext;
	CREATE EXTENSION hstore;
	CREATE TYPE mood AS ENUM ('sad', 'ok', 'happy');
	CREATE TYPE pair AS (a int, b text);
	CREATE DOMAIN positive AS int CHECK (VALUE > 0);
	CREATE DOMAIN short AS varchar(5) NOT NULL DEFAULT 'x';
	CREATE DOMAIN pairs AS pair[];
	CREATE COLLATION no_case (provider = icu, locale = 'und-u-ks-level2', deterministic = false);
	CREATE COLLATION no_accent (provider = icu, locale = 'und-u-ks-level1', deterministic = false)});
my @keys = (
	[ 'numeric', qw('NaN' 'NaN' 1.0 1.00 1 0 -0.0 'Infinity' '-Infinity' 1e-30 1e300) ],
	[ 'float8', qw('NaN' '-NaN' '0' '-0' 'Infinity' '-Infinity' '1e-300' '4.9e-324') ],
	[ 'float4', qw('NaN' '0' '-0' '1.5' '1.50') ],
	[ 'numeric(10,2)', qw(1.005 1.01 1.0) ],
	[ 'text', q{''}, q{' '}, q{'a'}, q{'A'}, q{'a '}, q{E'\n'}, q{repeat('x', 2000)} ],
	[ 'text COLLATE no_case', q{'a'}, q{'A'}, q{'ä'}, q{'b'}, q{'B'}, q{'ß'} ],
	[ 'text COLLATE no_accent', q{'a'}, q{'Á'}, q{'ä'}, q{'b'} ],
	[ 'text COLLATE "C"', q{'a'}, q{'A'}, q{'ä'} ],
	[ 'citext', q{'a'}, q{'A'}, q{'b'}, q{'Straße'}, q{'STRASSE'} ],
	[ 'char(5)', q{'a'}, q{'a  '}, q{'ab'}, q{''} ],
	[ 'varchar(3)', q{'a'}, q{'a  '} ],
	[ 'name', q{'a'}, q{'A'} ],
	[ '"char"', q{'a'}, q{''} ],
	[ 'bytea', q{'\x00'}, q{'\x'}, q{'\x0000'} ],
	[ 'bit(3)', q{B'101'}, q{B'000'} ],
	[ 'varbit', q{B'101'}, q{B''}, q{B'1010'} ],
	[ 'mood', q{'sad'}, q{'ok'}, q{'happy'} ],
	[ 'positive', 1, 2 ],
	[ 'int[]', q{'{}'}, q{'{1,2}'}, q{'[0:1]={1,2}'}, q{'{NULL}'}, q{'{{1},{2}}'} ],
	[ 'numeric[]', q{'{1.0,NaN}'}, q{'{1.00,NaN}'} ],
	[ 'citext[]', q{'{a}'}, q{'{A}'}, q{'{b}'} ],
	[ 'pair', q{'(1,a)'}, q{'(1,)'}, q{'(,)'}, q{'(1,"")'} ],
	[ 'pair[]', q{'{"(1,a)"}'}, q{'{}'}, q{'{NULL}'} ],
	[ 'pairs', q{'{"(1,a)"}'}, q{'{}'} ],
	[ 'int4range', q{'empty'}, q{'[1,3)'}, q{'[1,2]'}, q{'(,)'} ],
	[ 'numrange', q{'[1.0,2.0]'}, q{'[1,2]'} ],
	[ 'int4multirange', q{'{}'}, q{'{[1,2],[3,4]}'}, q{'{[1,5)}'} ],
	[ 'tsrange', q{'[2024-01-01,infinity]'}, q{'[2024-01-01,)'} ],
	[ 'timestamptz', q{'infinity'}, q{'-infinity'}, q{'2024-01-01 00:00+00'}, q{'2024-01-01 01:00+01'} ],
	[ 'timetz', q{'00:00+00'}, q{'01:00+01'} ],
	[ 'interval', q{'1 day'}, q{'24 hours'}, q{'1 month'}, q{'30 days'} ],
	[ 'date', q{'infinity'}, q{'4713-01-01 BC'} ],
	[ 'uuid', q{'00000000-0000-0000-0000-000000000000'} ],
	[ 'inet', q{'10.0.0.1'}, q{'10.0.0.1/8'}, q{'::1'} ],
	[ 'macaddr8', q{'08:00:2b:01:02:03:04:05'} ],
	[ 'jsonb', q{'1'}, q{'1.0'}, q{'{"a":1,"b":2}'}, q{'{"b":2,"a":1}'}, q{'null'} ],
	[ 'hstore', q{'a=>1'}, q{''} ],
	[ 'money', q{'1.00'}, q{'1'} ],
	[ 'oid', 0, 4294967295 ],
	[ 'regclass', q{'pg_class'} ],
	[ 'tid', q{'(0,1)'}, q{'(1,0)'} ],
	[ 'pg_lsn', q{'0/0'}, q{'FFFFFFFF/FFFFFFFF'} ],
	[ 'xid8', q{'1'} ],
	[ 'tsvector', q{'a b'}, q{'b a'}, q{''} ],
	[ 'tsquery', q{'a & b'} ],
	[ 'bool', qw(true false) ]);
my @problems;
foreach my $n (0 .. $#keys)
{
	my ($type, @values) = @{ $keys[$n] };
	my $rows = join ', ', map { "($_)" } @values, 'NULL';
	my $text = qq{
		CREATE TABLE k$n (k $type, v int);
		SELECT streamq.add_source('k$n');
		SELECT streamq.create_query('u$n', 'SELECT k, count(*) AS n, count(DISTINCT v) AS d, array_agg(v ORDER BY v) AS vs FROM k$n GROUP BY k', output_mode => 'update');
		SELECT streamq.create_query('c$n', 'SELECT k, sum(v) AS s FROM k$n GROUP BY k', output_mode => 'complete');
		SELECT streamq.create_query('s$n', 'SELECT v % 2 AS p, count(DISTINCT k) AS d, max(v) AS m FROM k$n GROUP BY 1', output_mode => 'update', max_rows_per_batch => 5);
		INSERT INTO k$n SELECT x::$type, i FROM (VALUES $rows) y (x), generate_series(1, 2) i;
		CALL streamq.run('u$n'); CALL streamq.run('c$n'); CALL streamq.run('s$n');
		INSERT INTO k$n SELECT x::$type, i FROM (VALUES $rows) y (x), generate_series(3, 4) i;
		CALL streamq.run('u$n'); CALL streamq.run('c$n'); CALL streamq.run('s$n');
		-- by GROUP BY's own equality, as an image of equal keys may be that of any of them
		SELECT 'u', count(*) FROM (SELECT k, count(*), count(DISTINCT v), array_agg(v ORDER BY v) FROM k$n GROUP BY k EXCEPT TABLE u$n) x HAVING count(*) > 0;
		SELECT 'c', count(*) FROM (SELECT k, sum(v) FROM k$n GROUP BY k EXCEPT TABLE c$n) x HAVING count(*) > 0;
		SELECT 's', count(*) FROM (SELECT v % 2, count(DISTINCT k), max(v) FROM k$n GROUP BY 1 EXCEPT TABLE s$n) x HAVING count(*) > 0;
		SELECT 'groups', u, c, r FROM (SELECT (SELECT count(*) FROM u$n) u, (SELECT count(*) FROM c$n) c, count(*) r FROM (SELECT FROM k$n GROUP BY k) g) x WHERE u <> r OR c <> r;
		SELECT q.name, v.* FROM streamq.queries q, streamq.verify(q.name) v WHERE name = 's$n'};
	my ($out, $err) = ('', '');

	utf8::encode($text);
	$node->psql('postgres', $text, stdout => \$out, stderr => \$err, on_error_stop => 1);
	$out = join "\n", grep { !/^\d+\|\d+$|^[uc]\d+$|^s\d+$|^$/ } split /\n/, $out;
	is("$out$err", '', "keys of type $type");
}
# a value with NULLs in it only is not NULL, whatever index the sink has
sql($node, q{
	CREATE TABLE k_pairs (k pair, v int);
	CREATE TABLE plain_sink (k pair, n bigint);
	CREATE UNIQUE INDEX ON plain_sink (k);
	SELECT streamq.add_source('k_pairs');
	SELECT streamq.create_query('plain', 'SELECT k, count(*) AS n FROM k_pairs GROUP BY k', output_mode => 'update', sink => 'plain_sink')});
sql($node, q{INSERT INTO k_pairs VALUES ('(,)', 1), (NULL, 2), ('(,)', 3), ('(1,)', 4); CALL streamq.run('plain')}) for 1 .. 3;
exact_ok($node, 'plain', 'NULL and a row of NULLs, in a sink whose index takes many NULLs', 3);
done_testing();
