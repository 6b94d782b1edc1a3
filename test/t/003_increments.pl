# 003_increments.pl
#		The public building blocks: current_offset() and TABLESAMPLE since().
#
# First, rule by rule (1 own xids, 2 overflowed snapshots, 3 the end of a
# range: src/offset.c), a scenario that is exact, and that loses or doubles rows when
# the rule is switched off: the tests of exactness can fail.  Then a client with
# offsets of its own under concurrent writers.
use strict;
use warnings FATAL => 'all';

use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Utils;
use StreamqTest;
use Test::More;

use constant { OWN_XID => 1, SUBXIDS => 2, STOP => 4 };

my $node = new_server('increments');
need_test_build($node);

sql($node, q{
	CREATE TABLE t (v int);
	SELECT streamq.add_source('t');
	-- it would leave out blocks that the rules are about
	DROP INDEX t_arrivals;
	CREATE FUNCTION subtransactions(n int) RETURNS void LANGUAGE plpgsql AS $$
	BEGIN
		FOR i IN 1 .. n LOOP
			BEGIN
				INSERT INTO t VALUES (i);
			EXCEPTION WHEN division_by_zero THEN
				NULL;
			END;
		END LOOP;
	END $$;
});

# A session that lives under the given rules.
sub session
{
	my ($rules_off) = @_;
	my $session = $node->background_psql('postgres', on_error_stop => 0);

	$session->query_safe("SET streamq.debug_rules_off = $rules_off");
	return $session;
}

# The values that came between two offsets.
sub since
{
	my ($session, $start, $stop) = @_;

	return $session->query_safe(
		"SELECT coalesce(string_agg(v::text, ' ' ORDER BY v), 'none') FROM t TABLESAMPLE streamq.since('$start', '$stop')");
}

sub empty_source
{
	sql($node, 'TRUNCATE t');
	return sql($node, 'SELECT streamq.current_offset()');
}

# Lets xids go by, so that those handed out before lie below a snapshot's xmax.
sub burn_xids
{
	sql($node, 'CREATE TABLE IF NOT EXISTS burnt (v int); INSERT INTO burnt VALUES (1)');
	return;
}

foreach my $off (0, OWN_XID)
{
	my $name = $off ? 'rule 1 off' : 'rule 1 on';
	my $before = empty_source();
	my $session = session($off);
	my ($middle, $after);

	# the offset's taker goes on inserting
	$session->query_safe('BEGIN');
	$session->query_safe('INSERT INTO t VALUES (1)');
	$session->query_safe('SAVEPOINT a');
	$session->query_safe('INSERT INTO t VALUES (2)');
	burn_xids();
	$middle = $session->query_safe('SELECT streamq.current_offset()');
	is(since($session, $before, $middle), $off ? '1 2' : 'none', "$name: what the writer's offset covers");
	$session->query_safe('INSERT INTO t VALUES (3)');
	$session->query_safe('COMMIT');
	$after = sql($node, 'SELECT streamq.current_offset()');
	is(since($session, $before, $middle) . ', ' . since($session, $middle, $after),
		$off ? '1 2 3, none' : 'none, 1 2 3',
		"$name: " . ($off ? 'row 3 came in an increment that was read before it was there' : 'all is in the second increment'));
	$session->quit;
}

foreach my $off (0, OWN_XID)
{
	my $name = $off ? 'rule 1 off' : 'rule 1 on';
	my $session = session($off);

	# a query made in the middle of a transaction, from what is latest then
	empty_source();
	$session->query_safe('BEGIN');
	$session->query_safe('INSERT INTO t VALUES (1)');
	burn_xids();
	$session->query_safe(q{SELECT streamq.create_query('q', 'SELECT v FROM t', starting_position => 'latest')});
	$session->query_safe('INSERT INTO t VALUES (2)');
	$session->query_safe('COMMIT');
	$session->query_safe('INSERT INTO t VALUES (3)');
	$session->query_safe(q{CALL streamq.run('q')});
	is(sql($node, q{SELECT string_agg(v::text, ' ' ORDER BY v) FROM q}), $off ? '3' : '1 2 3',
		"$name: a query whose creator goes on inserting " . ($off ? 'loses rows' : 'loses none'));
	$session->query_safe(q{SELECT streamq.drop_query('q', true)});
	$session->quit;
}

foreach my $off (0, SUBXIDS)
{
	my $name = $off ? 'rule 2 off' : 'rule 2 on';
	my $start = empty_source();
	my $session = session($off);
	my $writer = $node->background_psql('postgres');
	my ($middle, $after);

	sql($node, q{SELECT streamq.create_query('q', 'SELECT v FROM t')});
	# more subtransactions than a backend shows to others
	$writer->query_safe('BEGIN');
	$writer->query_safe('SELECT subtransactions(100)');
	burn_xids();
	$middle = $session->query_safe('SELECT streamq.current_offset()');
	is(since($session, $start, $middle), 'none', "$name: nothing is committed");
	sql($node, 'INSERT INTO t VALUES (1000)');
	$session->query_safe(q{CALL streamq.run('q')});
	exact_ok($node, 'q', "$name: so far", 1);
	$writer->query_safe('COMMIT');
	$writer->quit;
	$after = $session->query_safe('SELECT streamq.current_offset()');
	is(scalar(split / /, since($session, $middle, $after)), $off ? 1 : 101,
		"$name: " . ($off ? 'rows of subtransactions are lost' : 'every row is in the increment'));
	$session->query_safe(q{CALL streamq.run('q')});
	is(join(' ', compare($node, 'q')), $off ? '0 100 101' : '0 0 101',
		"$name: a query " . ($off ? 'loses rows' : 'loses none'));
	sql($node, q{SELECT streamq.drop_query('q', true)});
	$session->quit;
}

foreach my $off (0, STOP)
{
	my $name = $off ? 'rule 3 off' : 'rule 3 on';
	my $before = empty_source();
	my $session = session($off);
	my ($middle, $after, $first);

	# frozen rows are visible to snapshots older than they are
	$session->query_safe('BEGIN ISOLATION LEVEL REPEATABLE READ');
	$middle = $session->query_safe('SELECT streamq.current_offset()');
	sql($node, q{BEGIN; TRUNCATE t; COPY t FROM PROGRAM 'seq 3' (FREEZE); COMMIT});
	is($session->query_safe('SELECT count(*) FROM t'), '3', "$name: a snapshot sees rows of its future");
	$first = since($session, $before, $middle);
	$session->query_safe('COMMIT');
	$after = sql($node, 'SELECT streamq.current_offset()');
	is($first . ', ' . since($session, $middle, $after), $off ? '1 2 3, 1 2 3' : 'none, 1 2 3',
		"$name: frozen rows come " . ($off ? 'twice' : 'once'));
	$session->quit;
}

foreach my $off (0, STOP)
{
	my $name = $off ? 'rule 3 off' : 'rule 3 on';
	my $session = session($off);
	my $writer = $node->background_psql('postgres');

	# a batch that has its snapshot, and has to wait for the table
	empty_source();
	sql($node, q{SELECT streamq.create_query('q', 'SELECT v FROM t')});
	$writer->query_safe('BEGIN');
	$writer->query_safe('TRUNCATE t');
	$session->query_until(qr/called/, "\\echo called\nCALL streamq.run('q');\n");
	wait_for($node, q{EXISTS (SELECT FROM pg_locks WHERE relation = 't'::regclass AND NOT granted)},
		"$name: the batch waits for the table");
	$writer->query_safe(q{COPY t FROM PROGRAM 'seq 3' (FREEZE)});
	$writer->query_safe('COMMIT');
	$writer->quit;
	# a further row makes the next batch look at the page again
	sql($node, 'INSERT INTO t VALUES (4)');
	$session->query_safe(q{CALL streamq.run('q')});
	$session->quit;
	is(join(' ', compare($node, 'q')), $off ? '3 0 4' : '0 0 4',
		"$name: in a query frozen rows come " . ($off ? 'twice' : 'once'));
	sql($node, q{SELECT streamq.drop_query('q', true)});
}

# --------------------------------------------------- a client of its own

# Offsets taken one after the other, each kept; at the end the increments
# between them, read one by one, are the table: no row lost, none double.
sql($node, q{
	CREATE TABLE source (id bigserial, v int);
	CREATE INDEX ON source USING streamq_arrivals ((1));
	CREATE TABLE state (n serial, o pg_snapshot);
	INSERT INTO state (o) VALUES ('1:1:');
	CREATE TABLE received (n int, id bigint, v int);
	CREATE FUNCTION receive() RETURNS bigint LANGUAGE plpgsql AS $$
	DECLARE
		start pg_snapshot := (SELECT o FROM state ORDER BY n DESC LIMIT 1);
		stop pg_snapshot := streamq.current_offset();
		rows bigint;
	BEGIN
		INSERT INTO state (o) VALUES (stop);
		INSERT INTO received SELECT (SELECT max(n) FROM state), id, v
			FROM source TABLESAMPLE streamq.since(start, stop);
		GET DIAGNOSTICS rows = ROW_COUNT;
		RETURN rows;
	END $$;
});
my $load = start_pgbench(
	$node, '-c 4 -t 400',
	'client_single@5' => 'INSERT INTO source (v) VALUES (1);',
	'client_multi@2' => 'INSERT INTO source (v) SELECT 2 FROM generate_series(1, 20);',
	'client_slow@2' => "BEGIN;\nINSERT INTO source (v) VALUES (3);\n\\sleep 5 ms\nINSERT INTO source (v) VALUES (4);\nCOMMIT;",
	'client_abort@1' => "BEGIN;\nINSERT INTO source (v) VALUES (5);\nROLLBACK;",
	'client_savepoint@1' => "BEGIN;\nINSERT INTO source (v) VALUES (6);\nSAVEPOINT a;\nINSERT INTO source (v) VALUES (7);\nROLLBACK TO a;\nSAVEPOINT b;\nINSERT INTO source (v) VALUES (8);\nCOMMIT;");
my $receiver = $node->background_psql('postgres');

while ($load->{handle}->pumpable)
{
	$receiver->query_safe('SELECT receive()');
	$load->{handle}->pump_nb;
}
ok(finish_pgbench($load), 'the writers have written') or diag($load->{output});
$receiver->query_safe('SELECT receive()');
$receiver->quit;

is(sql($node, q{
	SELECT (SELECT count(*) FROM (SELECT id, v FROM received EXCEPT ALL TABLE source) x),
		   (SELECT count(*) FROM (TABLE source EXCEPT ALL SELECT id, v FROM received) x)}),
	'0|0', 'a client with its own offsets receives every row once');
cmp_ok(sql($node, 'SELECT count(DISTINCT n) FROM received'), '>', 5, 'in many increments');
is(sql($node, q{
	SELECT count(*) FROM state s JOIN state b ON b.n = s.n + 1
	WHERE b.n < (SELECT max(n) FROM state) AND (SELECT count(*) FROM received r WHERE r.n = b.n) <>
		(SELECT count(*) FROM source TABLESAMPLE streamq.since(s.o, b.o))}),
	'0', 'an increment read again gives the same rows');
is(sql($node, q{SELECT count(*) - (SELECT count(*) FROM source) FROM source
	TABLESAMPLE streamq.since('1:1:', (SELECT o FROM state ORDER BY n DESC LIMIT 1))}),
	'0', 'and one over everything all rows');

done_testing();
