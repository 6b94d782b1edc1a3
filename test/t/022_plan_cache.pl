# 022_plan_cache.pl
#		Plans that are kept between batches: that they are, that batches of another
#		size are planned anew, and that a worker that lives on never uses one that
#		has become stale.  What can become stale is in sql/plan_cache.sql.
use strict;
use warnings FATAL => 'all';

use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use StreamqTest;
use Test::More;

my $node = new_server('plan_cache');
need_test_build($node);

# ------------------------------------------------------------- in a session

sql($node, q{
	CREATE TABLE src (id bigserial, k int, v int, at timestamptz);
	CREATE TABLE names (k int PRIMARY KEY, name text);
	INSERT INTO names SELECT k, 'name ' || k FROM generate_series(0, 99) k;
	ANALYZE names;
	SELECT streamq.add_source('src', 'at', '1 hour');
	SELECT streamq.create_query('plain', 'SELECT id, v, name FROM src JOIN names USING (k)');
	SELECT streamq.create_query('counts', 'SELECT k, count(*) AS n, sum(v) AS v FROM src GROUP BY k', output_mode => 'update');
	SELECT streamq.create_query('windows', q'SELECT date_bin(''1 minute'', at, ''2024-01-01'') AS m, count(*) AS n FROM src GROUP BY 1', output_mode => 'append');
} =~ s/q'/'/r);

# Each a pair (statement, label): how often a session has compiled and planned in
# each of them.
sub counts_of
{
	my @pairs = @_;
	my $script = '';

	while (my ($statement, $label) = splice @pairs, 0, 2)
	{
		$script .= "$statement; SELECT '$label=' || current_setting('streamq.debug_compiled')"
		  . " || '/' || current_setting('streamq.debug_planned');";
	}
	my ($compiled, $planned) = (0, 0);
	my %result;
	for (grep { /=/ } split /\n/, sql($node, $script))
	{
		my ($label, $c, $p) = m{^(\w+)=(\d+)/(\d+)$} or die $_;
		$result{$label} = ($c - $compiled) . ' compiled, ' . ($p - $planned) . ' planned';
		($compiled, $planned) = ($c, $p);
	}
	return \%result;
}

sub feed
{
	my ($rows) = @_;

	return "INSERT INTO src (k, v, at) SELECT i % 100, i, '2024-01-01'::timestamptz + i * interval '1 second' FROM generate_series(1, $rows) i";
}

my $none = '0 compiled, 0 planned';
my $counts = counts_of(
	feed(5) . q{; CALL streamq.run('plain', 0, 0)} => 'first',
	feed(5) . q{; CALL streamq.run('plain', 0, 0)} => 'second',
	q{CALL streamq.run('plain', 0, 0)} => 'idle',
	feed(1) . q{; CALL streamq.run('plain', 0, 0)} => 'one',
	feed(99) . q{; CALL streamq.run('plain', 0, 0)} => 'ninety_nine',
	feed(20000) . q{; CALL streamq.run('plain', 0, 0)} => 'many',
	feed(20000) . q{; CALL streamq.run('plain', 0, 0)} => 'sink_has_grown',
	feed(30000) . q{; CALL streamq.run('plain', 0, 0)} => 'more',
	feed(1) . q{; CALL streamq.run('plain', 0, 0)} => 'again_one',
	q{CREATE TEMP TABLE first (a int); } . feed(1) . q{; CALL streamq.run('plain', 0, 0)} => 'temporary_schema',
	q{CREATE TEMP TABLE x (a int); DROP TABLE x; } . feed(1) . q{; CALL streamq.run('plain', 0, 0)} => 'temporary');
is($counts->{first}, '1 compiled, 1 planned', 'a first batch');
is($counts->{$_}, $none, "a batch like the one before: $_") for qw(second idle one ninety_nine more temporary);
is($counts->{$_}, '0 compiled, 1 planned', "a batch of another size: $_") for qw(many sink_has_grown again_one);

$counts = counts_of(
	q{CALL streamq.run('counts', 0, 0)} => 'first',
	feed(500) . q{; CALL streamq.run('counts', 0, 0)} => 'second',
	feed(500) . q{; CALL streamq.run('counts', 0, 0)} => 'third',
	feed(500) . q{; CALL streamq.run('counts', 0, 0)} => 'fourth',
	q{SELECT streamq.alter_query('counts', 'SELECT k, count(*) AS n, sum(v) AS v FROM src WHERE v >= 0 GROUP BY k'); }
	  . feed(500) . q{; CALL streamq.run('counts', 0, 0)} => 'altered',
	feed(500) . q{; CALL streamq.run('counts', 0, 0)} => 'fifth');
like($counts->{second}, qr/^0 compiled/, 'an aggregation is compiled once');
is($counts->{fourth}, $none, 'and planned when it has state');
like($counts->{altered}, qr/^1 compiled/, 'unless it has been altered');
is($counts->{fifth}, $none, 'and then kept again');
exact_ok($node, 'counts');

# groups that close are looked for by a plan that is kept, and closed by one that is not
my @minutes = map {
	my $i = $_;
	("INSERT INTO src (k, v, at) SELECT 1, 1, '2024-02-01'::timestamptz + $i * interval '1 minute' FROM generate_series(1, 30); "
		  . q{CALL streamq.run('windows', 0, 0)}, "minute$i")
} 0 .. 70;
$counts = counts_of(q{CALL streamq.run('windows', 0, 0)} => 'before', @minutes);
is($counts->{"minute$_"}, '0 compiled, 2 planned', "closing minute $_") for 67 .. 70;

# ------------------------------------------------------------- in a worker

sql($node, q{
	CREATE FUNCTION shown(v int) RETURNS text LANGUAGE sql IMMUTABLE AS $$ SELECT 'first ' || v $$;
	CREATE VIEW static AS SELECT k, name FROM names;
	SELECT streamq.create_query('w', 'SELECT id, shown(v) AS shown, name FROM src JOIN static USING (k)', starting_position => 'latest');
	ALTER TABLE w ADD COLUMN pid int, ADD COLUMN compiled int, ADD COLUMN planned int;
	CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$
	BEGIN
		NEW.pid := pg_backend_pid();
		NEW.compiled := current_setting('streamq.debug_compiled');
		NEW.planned := current_setting('streamq.debug_planned');
		RETURN NEW;
	END $$;
	CREATE TRIGGER note BEFORE INSERT ON w FOR EACH ROW EXECUTE FUNCTION note();
	SELECT streamq.start('w');
});

# One row more for the worker; what it has made of it, after some statements
# before.
my $pid;
sub worker_says
{
	my ($statements, $columns) = @_;
	my $id = sql($node, "$statements; INSERT INTO src (k, v) VALUES (7, 1) RETURNING id");

	$id = (split /\n/, $id)[-1];
	wait_for($node, "EXISTS (SELECT FROM w WHERE id = $id)", "row $id");
	my ($this, $answer) = split /\|/, sql($node, "SELECT pid, $columns FROM w WHERE id = $id"), 2;
	$pid //= $this;
	is($this, $pid, "the worker lives on: $statements");
	return $answer;
}

my $before = worker_says('SELECT 1', 'compiled, planned');
is(worker_says('SELECT 1', 'compiled, planned'), $before, 'a worker keeps plans');
is(worker_says('CREATE TABLE z (a int, b text); CREATE INDEX ON z (a); ANALYZE z; DROP TABLE z', 'compiled, planned'), $before,
	'whatever others do');
is(worker_says(q{CREATE OR REPLACE FUNCTION shown(v int) RETURNS text LANGUAGE sql IMMUTABLE AS $$ SELECT 'second ' || v $$}, 'shown'),
	'second 1', 'but not those of a function that has been replaced');
is(worker_says(q{CREATE OR REPLACE VIEW static AS SELECT k, upper(name) AS name FROM names}, 'name'),
	'NAME 7', 'of a view');
is(worker_says(q{ALTER TABLE names RENAME COLUMN name TO called; ALTER TABLE names ADD COLUMN name text DEFAULT 'no'}, 'name'),
	'NAME 7', 'of a table');
is(worker_says(q{ALTER TABLE names DROP CONSTRAINT names_pkey; UPDATE names SET called = 'seven' WHERE k = 7}, 'name'),
	'SEVEN', 'of an index');
is(worker_says(q{SELECT streamq.stop('w'); SELECT streamq.alter_query('w', 'SELECT id, ''altered'' AS shown, '''' AS name FROM src'); SELECT streamq.start('w')}, 'shown'),
	'altered', 'of the query itself');
$before = worker_says('SELECT 1', 'compiled, planned');
is(worker_says('SELECT 1', 'compiled, planned'), $before, 'and keeps them again');

done_testing();
