# Fuzz.pm
#		Mutated SQL for create_query: where it comes from, and what is done to it.
#
# The corpus are the queries of the regression tests and of the conformance cases.  A
# mutation works on tokens, and on what is between parentheses: swaps, inserts and
# deletes them, takes pieces of other queries, and puts whole queries into others.  It
# does not know SQL well; most of what it makes is refused, if not by PostgreSQL's
# parser then by streamq.  This module talks to no server, 031_fuzz.pl does.
package Fuzz;

use strict;
use warnings FATAL => 'all';

use Exporter 'import';
use PostgreSQL::Test::Utils;
use StreamqTest qw(one_of chance);

our @EXPORT = qw(fuzz_schema fuzz_corpus mutated tokens_of);

# ------------------------------------------------------------------- the schema

# Tables, views and functions that the queries of the corpus read, in the schema that
# comes first in search_path.
sub fuzz_schema
{
	return q{
		CREATE TABLE s1 (
			id int, k int, v text, tags text[], at timestamptz, amount numeric(12, 2), j jsonb, c fuzz.colour, p fuzz.pair,
			pct fuzz.percent, raw bytea, "Odd ""Name" int, r int4range, js json, twice int GENERATED ALWAYS AS (k * 2) STORED,
			de text COLLATE "C", f float8, u uuid, iv interval, b bool, pt point);
		CREATE TABLE s2 (k int, id bigint, v text, at timestamptz);
		CREATE TABLE s (id int, k int, v text, at timestamptz, c text COLLATE "C", n numeric, ts timestamp, d date);
		CREATE TABLE events (value int, at timestamptz, k text, id int);
		CREATE TABLE sp (id int, k int, v text, at timestamptz) PARTITION BY LIST (k);
		CREATE TABLE sp_0 (v text, at timestamptz, k int, id int);
		ALTER TABLE sp ATTACH PARTITION sp_0 FOR VALUES IN (0);
		CREATE TABLE sp_d PARTITION OF sp DEFAULT;

		CREATE TABLE d (k int PRIMARY KEY, name text, region text);
		CREATE TABLE d2 (k int, w int);
		CREATE TABLE e (k int, w int);
		CREATE TABLE tree (id int, parent int);
		CREATE TABLE static_t (v int);
		INSERT INTO d VALUES (0, 'zero', 'north'), (1, 'one', 'south'), (2, 'two', 'north'), (7, 'seven', NULL);
		INSERT INTO d2 VALUES (0, 10), (1, 20), (1, 30), (NULL, 1);
		INSERT INTO e VALUES (0, 1), (0, 2), (1, 3), (1, 4), (1, NULL), (NULL, 5), (9, 6);
		INSERT INTO tree VALUES (0, NULL), (1, 0), (2, 1), (3, 2), (4, 1);
		INSERT INTO static_t VALUES (1), (2), (2), (NULL);
		CREATE TABLE dp (k int, w int) PARTITION BY LIST (k);
		CREATE TABLE dp_d PARTITION OF dp DEFAULT;
		INSERT INTO dp SELECT * FROM e;
		CREATE VIEW dm AS SELECT k, count(*) AS n FROM e GROUP BY k;
		CREATE VIEW dv AS SELECT k, max(w) AS top FROM e GROUP BY k;
		CREATE VIEW v1 AS SELECT id, k, v, upper(v) AS loud FROM s1 WHERE k IS NOT NULL;
		CREATE VIEW v2 AS SELECT v1.id, v1.loud, d.name FROM v1 JOIN d USING (k);
		CREATE VIEW v3 AS SELECT * FROM v2 UNION ALL SELECT id::int, v, 's2' FROM s2;
		CREATE VIEW vb WITH (security_barrier) AS SELECT id, k FROM s1 WHERE k > 0;
		CREATE VIEW vi WITH (security_invoker) AS SELECT id, k FROM s1 WHERE k > 0;
		CREATE VIEW vrenamed (a, b) AS SELECT id, v FROM s1;
		CREATE VIEW counting AS SELECT k, count(*) AS n FROM s GROUP BY k;
		CREATE VIEW sorted AS SELECT id FROM s ORDER BY id;
		CREATE VIEW "Odd ""View" AS SELECT "Odd ""Name" AS "a b", at AS "At" FROM s1;
		CREATE FUNCTION label(k int) RETURNS text LANGUAGE sql STABLE AS 'SELECT name FROM fuzz.d WHERE d.k = $1';
		CREATE FUNCTION expand(n int) RETURNS TABLE (x int, y text) LANGUAGE sql IMMUTABLE AS 'SELECT g, ''y'' || g FROM generate_series(1, n) g';
	};
}

# ------------------------------------------------------------------- the corpus

# Texts of queries from the tests.  Those that read other tables do no harm.
sub fuzz_corpus
{
	my ($top) = @_;
	my %texts;

	foreach my $file (glob("$top/sql/*.sql"))
	{
		my $text = slurp_file($file);

		# string literals and $$...$$ that begin like a query
		while ($text =~ /'((?:\s*|\(+)(?:SELECT|WITH|TABLE|VALUES)\b(?:[^']|'')*)'/g)
		{
			my $query = $1 =~ s/''/'/gr;

			$texts{$query} = 1;
		}
		$texts{$_} = 1 foreach $text =~ /\$\$\s*((?:SELECT|WITH)\b.*?)\$\$/gs;
	}
	foreach my $query (slurp_file("$top/test/conformance/cases.jsonl") =~ /"query_sql": "((?:[^"\\]|\\.)*)"/g)
	{
		$query =~ s/\\n/\n/g;
		$query =~ s/\\(.)/$1/g;
		$texts{$query} = 1;
	}
	return grep { length($_) < 1500 && $_ !~ /\b(?:pg_sleep|pg_terminate|dblink|lo_|pg_read|set_config|advisory|INTO)\b/i } sort keys %texts;
}

# ------------------------------------------------------------------- the pieces

my @columns = qw(id k v at amount j c p pct raw r js twice de f u iv b pt tags n ts d value w name region top loud x y a);
push @columns, '"Odd ""Name"', 'ctid', 'xmin', 'tableoid', '"a b"', '"At"', '*', 's1.*', 'q', 's';
my @relations = qw(s1 s2 s events sp sp_0 d d2 e tree static_t dp dm dv v1 v2 v3 vb vi vrenamed counting sorted);
push @relations, '"Odd ""View"', 'pg_class', 'ONLY sp', 'expand(2)', 'generate_series(1, 3)',
  '(VALUES (1, 2), (3, NULL)) AS values_of (k, w)', 'nowhere', 'streamq.queries', 'information_schema.tables',
  'unnest(ARRAY[1, 2])', 'ROWS FROM (expand(2), generate_series(1, 3))', 's TABLESAMPLE system (50)';
my @aggregates = qw(count sum avg min max bool_and string_agg array_agg json_agg jsonb_agg bit_or stddev every
  jsonb_object_agg range_agg mode percentile_disc percentile_cont rank regr_slope corr xmlagg);
my @functions = qw(abs upper length coalesce greatest nullif md5 label lower to_char date_trunc date_bin round
  row_number rank lag first_value ntile generate_series unnest jsonb_each_text json_array_elements now random
  clock_timestamp current_setting pg_typeof num_nulls format concat streamq.row_image streamq.was_read
  streamq.combine_state streamq.finalize_state streamq.resume_state streamq.current_offset streamq.live
  xmlforest array_length row_to_json to_jsonb grouping txid_current nextval pg_column_size hashtext);
my @types = qw(int bigint text numeric float8 timestamptz timestamp date interval bool jsonb json bytea uuid
  int4range regclass name "char" void record cstring anyelement internal fuzz.percent fuzz.colour fuzz.pair varchar(3)
  bit(3) oid xid8 point pg_snapshot unknown);
push @types, 'numeric(4,1)', 'int[]', 'text COLLATE "C"', 'fuzz.pair[]', 'char(4)', 'timestamptz(0)';
my @literals = ('0', '1', '-1', '2.50', '1e3', 'NULL', 'true', q{'a'}, q{''}, q{'1 day'}, q{'infinity'}, q{'NaN'},
	q{'2024-01-05 00:00+00'}, q{'{1,2}'}, q{'[1,3)'}, q{'{"x": 1}'}, q{E'\\\\'}, q{$tag$it's$tag$}, q{U&'\0041'}, '$1',
	q{'%s %I %L'}, q{B'101'}, '9223372036854775807', '2147483648', q{'''; DROP TABLE s1; --'}, 'CURRENT_DATE', 'CURRENT_USER',
	q{interval '1 month'}, q{interval '-5 minutes'}, q{'epoch'::timestamptz}, 'ARRAY[1, NULL]', 'ROW(1, 2)', 'DEFAULT');
my @operators = qw(+ - * / % = <> < > <= >= || -> ->> @> && ~ ^ ! AND OR NOT IS LIKE IN);
push @operators, 'IS DISTINCT FROM', 'NOT IN', 'IS NULL', 'BETWEEN 1 AND', 'SIMILAR TO', 'AT TIME ZONE', 'OVERLAPS', 'COLLATE';
my @words = ('SELECT', 'FROM', 'WHERE', 'GROUP BY', 'HAVING', 'ORDER BY 1', 'LIMIT 3', 'OFFSET 1', 'DISTINCT', 'DISTINCT ON (1)', 'UNION',
	'UNION ALL', 'INTERSECT', 'EXCEPT ALL', 'JOIN', 'LEFT JOIN', 'FULL JOIN', 'CROSS JOIN', 'LATERAL', 'NATURAL JOIN', 'USING (k)', 'ON true', 'OVER ()',
	'OVER (PARTITION BY k ORDER BY id)', 'FILTER (WHERE k > 0)', 'WITHIN GROUP (ORDER BY k)', 'WITH', 'RECURSIVE', 'MATERIALIZED',
	'AS', 'FOR UPDATE', 'EXISTS', 'ANY', 'ALL', 'ARRAY', 'ROLLUP (1)', 'GROUPING SETS ((), (1))', 'WITH ORDINALITY', 'FETCH FIRST ROW WITH TIES',
	'CASE WHEN k = 1 THEN 1 END', ',', '(', ')', '.', '::', ';', '--', '/*', '[1]', 'VARIADIC', 'WINDOW w AS ()', 'TABLE', 'VALUES (1)', 'CUBE (k)');

# A text as tokens: words, quoted or not; strings; numbers; operators.  Blanks and
# comments are left out.
sub tokens_of
{
	my ($text) = @_;

	$text =~ s{/\*.*?\*/}{ }gs;
	$text =~ s/--[^\n]*/ /g;
	return $text =~ /((?:E|U&|B|N)?'(?:[^'\\]|''|\\.)*'|"(?:[^"]|"")*"|\$\d+|\$\w*\$.*?\$\w*\$|\d+\.?\d*|\w+|::|[<>=!~|\@&#\-+*\/%^]+|\S)/gs;
}

# Where a balanced group begins and ends, parentheses included; empty if there is none.
sub random_group
{
	my (@tokens) = @_;
	my @starts = grep { $tokens[$_] eq '(' } 0 .. $#tokens;

	return () unless @starts;
	my $start = one_of(@starts);
	my $depth = 0;

	foreach my $place ($start .. $#tokens)
	{
		$depth++ if $tokens[$place] eq '(';
		$depth-- if $tokens[$place] eq ')';
		return ($start, $place) if $depth == 0;
	}
	return ();
}

# Another word of the same kind.
sub another
{
	my ($token) = @_;

	foreach my $kind (\@columns, \@relations, \@aggregates, \@functions, \@types, \@operators)
	{
		return one_of(@$kind) if grep { lc($token) eq $_ } @$kind;
	}
	return one_of(@literals) if $token =~ /^(?:['\d]|NULL$|true$|false$)/i;
	return one_of(@columns, @literals);
}

sub any_piece
{
	return one_of(one_of(@columns), one_of(@relations), one_of(@literals), one_of(@operators), one_of(@words),
		one_of(@functions) . '(' . one_of(@columns) . ')', one_of(@aggregates) . '(' . one_of(@columns) . ')',
		'::' . one_of(@types));
}

# -------------------------------------------------------------------- mutations

# Of tokens; returns tokens.
sub mutate_tokens
{
	my ($corpus, @tokens) = @_;
	my $what = rand();

	return any_piece() unless @tokens;
	my $place = int(rand(@tokens));

	if ($what < 0.4)
	{
		$tokens[$place] = another($tokens[$place]);
	}
	elsif ($what < 0.5)
	{
		splice @tokens, $place, 1 + int(rand(2));
	}
	elsif ($what < 0.62)
	{
		splice @tokens, $place, 0, any_piece();
	}
	elsif ($what < 0.67)
	{
		my $other = int(rand(@tokens));

		@tokens[ $place, $other ] = @tokens[ $other, $place ];
	}
	elsif ($what < 0.77)
	{
		# a piece between parentheses from another query
		my ($start, $end) = random_group(@tokens);
		my @others = tokens_of(one_of(@$corpus));
		my ($from, $to) = random_group(@others);

		splice @tokens, $start, $end - $start + 1, @others[ $from .. $to ]
		  if defined $start && defined $from;
	}
	elsif ($what < 0.82)
	{
		my ($start, $end) = random_group(@tokens);

		splice @tokens, $end, 0, ' ', one_of(@words) if defined $start;
	}
	elsif ($what < 0.88)
	{
		my ($start, $end) = random_group(@tokens);

		splice @tokens, $end + 1, 0, one_of('FILTER (WHERE k > 0)', 'OVER ()', 'OVER (ORDER BY id)', 'IS NULL', '::text', 'AS other', '+ 1')
		  if defined $start;
	}
	elsif ($what < 0.94)
	{
		# a column more
		my ($select) = grep { uc($tokens[$_]) eq 'SELECT' } 0 .. $#tokens;

		splice @tokens, $select + 1, 0, random_expression() . ' AS c' . int(rand(1000)), ',' if defined $select;
	}
	else
	{
		push @tokens, one_of(@words);
	}
	return @tokens;
}

sub random_expression
{
	my $depth = $_[0] // 0;
	my $column = one_of(qw(id k v at value));

	return $column if $depth > 2;
	my $inner = random_expression($depth + 1);

	return one_of(
		$inner, one_of(@literals),
		one_of(@functions) . "($inner)",
		one_of(@aggregates) . "($inner)" . one_of('', '', ' FILTER (WHERE k = 1)', ' OVER ()'),
		'count(*)', "count(DISTINCT $inner)", "min(DISTINCT $inner)", 'array_agg(id ORDER BY id)', q{string_agg(v, ',' ORDER BY v)},
		'sum(id)', 'max(at)', 'avg(k)',
		"coalesce(($inner)::text, 'none')", "CASE WHEN k > 0 THEN $inner END", "(SELECT max(w) FROM e WHERE e.k = $inner)",
		"($inner) IS NULL", "ARRAY[$inner]", "($inner) " . one_of(@operators) . ' ' . one_of(@literals),
		"($inner)::" . one_of(@types), "EXISTS (SELECT FROM d WHERE d.k = $inner)", "date_bin('1 day', at, '2024-01-01')",
		"ROW($inner, 1)", "k IN (SELECT k FROM d WHERE name IS DISTINCT FROM ($inner)::text)");
}

# A query around others.
sub nested
{
	my ($corpus, $query) = @_;
	my $other = one_of(@$corpus);
	my $column = one_of(qw(id k v at n 1));
	my $expression = random_expression();

	$query =~ s/[;\s]+$//;
	$other =~ s/[;\s]+$//;
	return one_of(
		"SELECT * FROM ($query) n",
		"WITH w AS ($query) SELECT * FROM w",
		"WITH w AS MATERIALIZED ($query) SELECT * FROM w WHERE $expression IS NOT NULL",
		"WITH w AS ($query), w2 AS (SELECT * FROM w) SELECT * FROM w2 UNION ALL SELECT * FROM w",
		"SELECT $column, count(*) AS n FROM ($query) n GROUP BY $column",
		"SELECT $column, count(*) AS n, $expression AS e FROM ($query) n GROUP BY 1",
		"SELECT DISTINCT $column FROM ($query) n",
		"SELECT DISTINCT * FROM ($query) n",
		"SELECT DISTINCT ON (1) * FROM ($query) n ORDER BY 1",
		"SELECT n.*, d.name AS label FROM ($query) n LEFT JOIN d ON d.k = 1",
		"SELECT n.*, l.w AS lateral_w FROM ($query) n, LATERAL (SELECT max(w) AS w FROM e WHERE e.k = n.k) l",
		"SELECT n.*, rank() OVER (ORDER BY $column) AS place FROM ($query) n",
		"SELECT n.* FROM d JOIN LATERAL ($query) n ON true",
		"SELECT n.* FROM ($query) n WHERE EXISTS ($other)",
		"SELECT n.* FROM ($query) n WHERE $expression IS NOT NULL",
		"SELECT n.*, $expression AS e FROM ($query) n",
		"SELECT n.*, ($other) AS scalar FROM ($query) n",
		"($query) UNION ALL ($query)",
		"($query) UNION ALL ($other)",
		"($query) UNION ($other)",
		"($query) " . one_of('INTERSECT', 'EXCEPT', 'EXCEPT ALL') . " ($other)",
		"$query ORDER BY 1",
		"$query ORDER BY 1 LIMIT 2",
		"$query OFFSET 1",
		"SELECT * FROM ($query) n NATURAL JOIN ($other) o",
		"SELECT n.* FROM ($query) n CROSS JOIN ($other) o",
		"SELECT count(*) AS n, sum(n.id) AS s FROM ($query) n HAVING count(*) > 1",
		"SELECT * FROM ($query) AS n (\"Odd \"\"1\", \"select\", \"x.y\")",
		"SELECT generate_series(1, 2) AS g, n.* FROM ($query) n",
		"WITH RECURSIVE r AS (($query) UNION ALL SELECT * FROM r) SELECT * FROM r",
		"SELECT * FROM (SELECT * FROM ($query) n OFFSET 0) m",
		"SELECT n AS whole FROM ($query) n",
		"SELECT date_bin('1 day', at, '2024-01-01') AS day, count(*) AS n, $expression AS e FROM ($query) n GROUP BY 1",
		"SELECT $expression AS a, count(*) AS n FROM ($query) n GROUP BY 1",
		"SELECT k, $expression AS a FROM s GROUP BY k",
		"SELECT date_trunc('hour', at) AS t, k, $expression AS a FROM s1 GROUP BY at, k HAVING count(*) > 1");
}

# Deep or long, so that what follows the tree gets to feel it.
sub large
{
	my ($query) = @_;
	my $n = one_of(20, 200, 3000);

	return one_of(
		'SELECT ' . '(' x $n . 'id' . ')' x $n . ' AS id FROM s',
		'SELECT id' . ' + 1' x $n . ' AS id FROM s',
		'SELECT id FROM s WHERE ' . 'NOT ' x $n . 'k = 1',
		'SELECT * FROM ' . '(SELECT * FROM ' x $n . 's' . ') x' x $n,
		join(' UNION ALL ', ('SELECT id FROM s') x ($n > 200 ? 300 : $n)),
		'SELECT ' . join(', ', map { "id AS c$_" } 1 .. $n) . ' FROM s',
		'SELECT ' . join(', ', map { "sum(id + $_) AS c$_" } 1 .. ($n > 200 ? 300 : $n)) . ' FROM s',
		'SELECT count(*) AS n FROM s GROUP BY ' . join(', ', map { "k + $_" } 1 .. ($n > 200 ? 300 : $n)),
		'SELECT id FROM s WHERE id IN (' . join(', ', 1 .. $n) . ')',
		'SELECT id AS "' . 'x' x $n . '" FROM s');
}

# mutated(CORPUS): a query, made of one of them.
sub mutated
{
	my ($corpus) = @_;
	my $query = one_of(@$corpus);

	return large() if chance(0.004);
	$query = nested($corpus, $query) foreach 1 .. one_of(0, 0, 0, 1, 1, 2);
	my @tokens = tokens_of($query);

	@tokens = mutate_tokens($corpus, @tokens) foreach 1 .. one_of(0, 0, 1, 1, 1, 2, 3);
	return join ' ', @tokens;
}

1;
