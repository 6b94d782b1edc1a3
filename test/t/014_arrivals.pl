# 014_arrivals.pl
#		The arrival map where a single session does not get to: crashes, standbys,
#		prepared transactions, logical replication, WAL that is left out, what is written
#		early because there is too much of it, tables with many pages of map.  And that
#		it saves what it is there to save: blocks that are looked at.
#
# Two things are asked all the time: does the map know of every row (invariant MAP-1),
# and is the sink exact.
#
#	STREAMQ_SEED	repeats the random choices of a run
use strict;
use warnings FATAL => 'all';

use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use StreamqTest;
use Test::More;

my $seed = $ENV{STREAMQ_SEED} // int(rand(2**31));
my $node = new_server('arrivals', 'wal_level = logical', 'max_wal_senders = 5', 'autovacuum = off',
	'max_connections = 30');

note("seed $seed");
srand($seed);

# Tables with a query each; some blocks of rows are a statement away.
my $scene = q{
	CREATE FUNCTION filler(a int, b int, OUT id int, OUT v text) RETURNS SETOF record LANGUAGE sql AS
		$$ SELECT g, repeat('x', 500) FROM generate_series(a, b) g $$;
	-- beyond all leases
	CREATE PROCEDURE pass() LANGUAGE plpgsql AS $$
	BEGIN
		FOR i IN 1 .. 200 LOOP
			PERFORM pg_current_xact_id();
			COMMIT;
		END LOOP;
	END $$;
	-- how many blocks the rows of an increment have cost
	CREATE FUNCTION blocks_read(source regclass, start pg_snapshot, OUT rows bigint, OUT blocks bigint) LANGUAGE plpgsql AS $$
	DECLARE
		plan json;
	BEGIN
		-- twice, as the first one fills the caches of the catalog
		FOR i IN 1 .. 2 LOOP
			EXECUTE format('EXPLAIN (ANALYZE, BUFFERS, TIMING OFF, FORMAT JSON) SELECT FROM %s TABLESAMPLE streamq.since(%L, streamq.current_offset())',
				source, start) INTO plan;
		END LOOP;
		rows := plan -> 0 -> 'Plan' ->> 'Actual Rows';
		blocks := (plan -> 0 -> 'Plan' ->> 'Shared Hit Blocks')::bigint + (plan -> 0 -> 'Plan' ->> 'Shared Read Blocks')::bigint;
	END $$;
};

sub make_source
{
	my ($server, $table, %options) = @_;
	my $columns = $options{columns} // 'id int, v text';

	sql($server, ($options{create} // "CREATE TABLE $table ($columns)") . qq{;
		SELECT streamq.add_source('$table');
		SELECT streamq.create_query('q_$table', 'SELECT id, v FROM $table');
		SELECT streamq.create_query('cut_$table', 'SELECT id, v FROM $table', max_rows_per_batch => 13)});
	return;
}

# The map knows all, and the batches find all.
sub right_ok
{
	my ($server, $table, $name, $rows) = @_;

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	is(outside_map($server, $table), '0', "$name: the map knows all rows");
	foreach my $query ("q_$table", "cut_$table")
	{
		sql($server, "CALL streamq.run('$query')");
		exact_ok($server, $query, "$name: $query", $rows);
	}
	sql($server, 'CALL pass()');
	return;
}

sql($node, $scene);

# ------------------------------------------------------ written before the end

# With a limit of a few runs, what would take 65536 of them happens at once.
sub early_writes
{
	my $limit = q{SET streamq.debug_runs_max = 2;};

	make_source($node, $_) foreach qw(a b);
	sql($node, "INSERT INTO $_ SELECT * FROM filler(1, 100); CALL pass()") foreach qw(a b);
	sql($node, "DELETE FROM $_ WHERE id % 7 = 0; VACUUM $_") foreach qw(a b);
	right_ok($node, $_, "$_ at first") foreach qw(a b);

	sql($node, "$limit BEGIN;
		INSERT INTO a SELECT * FROM filler(101, 200);
		INSERT INTO b SELECT * FROM filler(101, 200);
		INSERT INTO a SELECT * FROM filler(201, 300); COMMIT");
	right_ok($node, $_, "$_ early") foreach qw(a b);

	# what belongs to another file waits
	sql($node, "$limit BEGIN;
		INSERT INTO a SELECT * FROM filler(301, 400);
		SAVEPOINT s;
		TRUNCATE a;
		INSERT INTO a SELECT * FROM filler(1, 100);
		INSERT INTO b SELECT * FROM filler(301, 400);
		INSERT INTO a SELECT * FROM filler(1, 100);
		ROLLBACK TO s;
		INSERT INTO a SELECT * FROM filler(401, 500); COMMIT");
	right_ok($node, $_, "$_ early, TRUNCATE rolled back") foreach qw(a b);

	# a failure to write that a savepoint survives
	sql($node, "TRUNCATE q_a, cut_a; SET client_min_messages = error; $limit BEGIN;
		INSERT INTO a SELECT * FROM filler(601, 610);
		SAVEPOINT s;
		TRUNCATE a;
		INSERT INTO a SELECT * FROM filler(1, 70);
		DO \$\$
		BEGIN
			PERFORM set_config('streamq.debug_point', 'arrivals:error', true);
			INSERT INTO b SELECT * FROM filler(601, 610);
		EXCEPTION WHEN internal_error THEN
			RAISE NOTICE 'as it should be';
			RETURN;
		END \$\$;
		INSERT INTO a SELECT * FROM filler(71, 80); COMMIT");
	right_ok($node, 'a', 'early, and failed', 80);
	right_ok($node, 'b', 'early, and failed');

	# at random
	my $n = 10000;
	my $wrong = 0;

	foreach my $round (1 .. 20)
	{
		my @savepoints;
		my @statements = ('SET streamq.debug_runs_max = ' . one_of(1, 2, 3, 5, 10), 'BEGIN');

		foreach (1 .. 4 + int(rand(12)))
		{
			my $table = one_of('a', 'b');
			my $what = rand();

			if ($what < 0.6)
			{
				my $m = one_of(1, 3, 20, 60);

				push @statements, "INSERT INTO $table SELECT * FROM filler($n + 1, $n + $m)";
				$n += $m;
			}
			elsif ($what < 0.75)
			{
				push @savepoints, 's' . $n++;
				push @statements, "SAVEPOINT $savepoints[-1]";
			}
			elsif ($what < 0.9 && @savepoints)
			{
				push @statements, one_of('ROLLBACK TO', 'ROLLBACK TO', 'RELEASE') . ' ' . pop @savepoints;
			}
			elsif (@savepoints)
			{
				push @statements, one_of("TRUNCATE $table", "REINDEX TABLE $table",
					"DROP INDEX ${table}_arrivals; CREATE INDEX ${table}_arrivals ON $table USING streamq_arrivals ((1))");
			}
		}
		# TRUNCATE would take away what has been read
		push @statements, @savepoints ? "ROLLBACK TO $savepoints[0]" : (), "INSERT INTO a VALUES ($n, 'last')", 'COMMIT';
		if (grep { /TRUNCATE/ } @statements)
		{
			@statements = grep { !/RELEASE/ } @statements;
		}
		sql($node, join ";\n", @statements);
		$n++;
		sql($node, "CALL streamq.run('$_')") foreach qw(q_a q_b);
		sql($node, one_of('CALL pass()', 'VACUUM a', 'SELECT 1'));
		foreach my $table (qw(a b))
		{
			my ($extra, $missing) = compare($node, "q_$table");

			next unless $missing || outside_map($node, $table);
			$wrong++;
			diag("round $round, $table: $missing missing", join ";\n", @statements);
		}
	}
	is($wrong, 0, 'random transactions, written early');
	sql($node, q{SELECT streamq.drop_query(name, true) FROM streamq.queries; DROP TABLE a, b});
	return;
}

SKIP:
{
	skip 'needs a build with TEST_HOOKS=1', 1
	  unless sql($node, q{SELECT count(*) FROM pg_settings WHERE name = 'streamq.debug_runs_max'});
	early_writes();
}

# ------------------------------------------------------- blocks that are looked at

# few_blocks_ok(NAME, START, ROWS): an increment of large, which has more than one page
# of map, costs a few blocks.
sub few_blocks_ok
{
	my ($name, $start, $rows) = @_;
	my ($found, $blocks) = split /\|/, sql($node, "SELECT * FROM blocks_read('large', '$start')");

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	is($found, $rows, "$name: all rows");
	cmp_ok($blocks, '<', 40, "$name: few blocks");
	return;
}

# The same of a batch.
sub few_blocks_in_batch_ok
{
	my ($name, $rows) = @_;
	my ($found, $blocks) = split /\|/, sql($node, q{
		SELECT pg_stat_force_next_flush();
		SELECT heap_blks_read + heap_blks_hit AS before FROM pg_statio_user_tables WHERE relname = 'large' \gset
		CALL streamq.run('q_large') \gset
		SELECT pg_stat_force_next_flush();
		SELECT :input_rows, heap_blks_read + heap_blks_hit - :before FROM pg_statio_user_tables WHERE relname = 'large'}) =~ s/^\n*//r =~ s/\n//gr;

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	is($found, $rows, "$name: the batch's rows");
	cmp_ok($blocks, '<', 40, "$name: few blocks in the batch");
	return;
}

sub now
{
	return sql($node, 'CALL pass(); SELECT streamq.current_offset()');
}

make_source($node, 'large');
my $old = $node->background_psql('postgres');
my $bulk = $node->background_psql('postgres');

sql($node, 'INSERT INTO large SELECT * FROM filler(1, 20000)');
cmp_ok(sql($node, q{SELECT pg_relation_size('large') / 8192}), '>', 1100, 'a large table');
right_ok($node, 'large', 'large');

my $start = now();
sql($node, q{INSERT INTO large VALUES (20001, 'one')});
few_blocks_ok('one row', $start, 1);
few_blocks_in_batch_ok('one row', 1);

# a transaction that stays open, and has written to the blocks of the others
$start = now();
$old->query_safe(q{BEGIN; INSERT INTO large VALUES (20002, 'old'); SAVEPOINT a; INSERT INTO large VALUES (20003, 'old')});
sql($node, q{INSERT INTO large SELECT * FROM filler(20004, 20050)});
few_blocks_ok('beside an old transaction', $start, 47);
few_blocks_in_batch_ok('beside an old transaction', 47);
$start = now();
sql($node, q{INSERT INTO large VALUES (20051, 'one')});
few_blocks_ok('with an old transaction in progress at the start', $start, 1);
few_blocks_in_batch_ok('with an old transaction in progress at the start', 1);

# one that loads much: nobody looks at its rows before its end
$bulk->query_safe(q{BEGIN; INSERT INTO large SELECT * FROM filler(30001, 40000)});
foreach my $turn (1 .. 3)
{
	my $begun = now();

	sql($node, "INSERT INTO large VALUES ($turn + 20100, 'one')");
	few_blocks_ok("while much is loaded, turn $turn", $begun, 1);
	few_blocks_in_batch_ok("while much is loaded, turn $turn", 1);
	$bulk->query_safe("SAVEPOINT a; INSERT INTO large SELECT * FROM filler(40000 + 1000 * $turn, 40999 + 1000 * $turn)");
}
$bulk->query_safe('COMMIT');
$old->query_safe(q{INSERT INTO large VALUES (20200, 'old'); COMMIT});
$_->quit foreach $old, $bulk;
right_ok($node, 'large', 'after the long transactions');
$start = now();
sql($node, q{INSERT INTO large VALUES (20300, 'one'); VACUUM (FREEZE) large});
few_blocks_ok('after VACUUM FREEZE', $start, 1);
sql($node, 'REINDEX INDEX CONCURRENTLY large_arrivals');
$start = now();
sql($node, q{INSERT INTO large VALUES (20301, 'one')});
few_blocks_ok('with a new map', $start, 1);
right_ok($node, 'large', 'with a new map');
sql($node, 'DROP INDEX large_arrivals');
cmp_ok(sql($node, "SELECT blocks FROM blocks_read('large', '$start')"), '>', 1100, 'without a map, all blocks');
sql($node, 'CREATE INDEX large_arrivals ON large USING streamq_arrivals ((1))');

# ------------------------------------------------ more than a summary page is of

# A table of 2 GB whose blocks are holes in its file, but for the last ones.
sub extend_file
{
	my ($table, $blocks) = @_;
	my $path = $node->data_dir . '/' . sql($node, "SELECT pg_relation_filepath('$table')");
	my $segment = 131072;

	$node->stop;
	for (my $i = 0; $i * $segment < $blocks; $i++)
	{
		my $name = $i ? "$path.$i" : $path;
		my $n = $blocks - $i * $segment;

		open my $file, '>>', $name or die "$name: $!";
		truncate $file, 8192 * ($n > $segment ? $segment : $n) or die "$name: $!";
		close $file;
	}
	$node->start;
	return;
}

make_source($node, 'huge');
sql($node, 'INSERT INTO huge SELECT * FROM filler(1, 20)');
right_ok($node, 'huge', 'huge, when it was small');
# the block before the last that the first summary page is of
extend_file('huge', 509 * 509 - 1);
$start = now();
sql($node, 'INSERT INTO huge SELECT * FROM filler(101, 150)');
my $end_of_huge = q{ctid > '(259000,0)'};
is(sql($node, "SELECT min(ctid), max(ctid) FROM huge WHERE $end_of_huge") =~ s/,\d+\)//gr, '(259079|(259082', 'huge: rows on both sides');
is(outside_map($node, 'huge', $end_of_huge), '0', 'huge: the map knows them');
is(sql($node, "SELECT rows, blocks < 40 FROM blocks_read('huge', '$start')"), '50|t', 'huge: few blocks');
sql($node, q{CALL streamq.run('q_huge')});
is(sql($node, 'SELECT count(*) FROM q_huge'), '70', 'huge: the batch');
$start = now();
sql($node, 'INSERT INTO huge SELECT * FROM filler(201, 250); REINDEX INDEX huge_arrivals');
is(outside_map($node, 'huge', $end_of_huge), '0', 'huge: a new map knows all rows');
$start = now();
sql($node, 'INSERT INTO huge SELECT * FROM filler(301, 350)');
# as summaries are rough, the map's own pages are looked at for a while
is(sql($node, "SELECT rows, blocks < 600 FROM blocks_read('huge', '$start')"), '50|t', 'huge: few blocks with a new map');
sql($node, q{SELECT streamq.drop_query('q_huge', true); SELECT streamq.drop_query('cut_huge', true); DROP TABLE huge});

# -------------------------------------------------------- crashes, two phases

make_source($node, 't');
make_source($node, 'p', create => q{CREATE TABLE p (id int, v text) PARTITION BY HASH (id);
	CREATE TABLE p0 PARTITION OF p FOR VALUES WITH (MODULUS 2, REMAINDER 0);
	CREATE TABLE p1 PARTITION OF p FOR VALUES WITH (MODULUS 2, REMAINDER 1)});
make_source($node, 'unlogged', create => 'CREATE UNLOGGED TABLE unlogged (id int, v text)');
sql($node, 'INSERT INTO unlogged SELECT * FROM filler(1, 100)');
right_ok($node, 'unlogged', 'unlogged');

foreach my $turn (1 .. 2)
{
	my $load = start_pgbench($node, '-c 4 -R 200 -T 600',
		'arrivals_single' => q{INSERT INTO t VALUES (:client_id, 'single');},
		'arrivals_multi' => q{BEGIN; INSERT INTO t SELECT * FROM filler(1, 60); SAVEPOINT a; INSERT INTO p SELECT * FROM filler(1, 30);
			INSERT INTO t SELECT * FROM filler(1, 60); COMMIT;},
		'arrivals_abort' => q{BEGIN; INSERT INTO t SELECT * FROM filler(1, 200); ROLLBACK;},
		'arrivals_prepare' => qq{BEGIN; INSERT INTO p SELECT * FROM filler(1, 60); PREPARE TRANSACTION 'p:client_id:$turn'; COMMIT PREPARED 'p:client_id:$turn';});

	sql($node, "BEGIN; INSERT INTO t SELECT * FROM filler(1001, 1100); PREPARE TRANSACTION 'turn $turn'");
	$node->poll_query_until('postgres', "SELECT count(*) > 1000 * $turn FROM p") or die 'nobody writes';
	sql($node, 'CHECKPOINT') if $turn == 2;
	sql($node, q{CALL streamq.run('q_t'); CALL streamq.run('q_p')});
	$node->poll_query_until('postgres', "SELECT count(*) > 1300 * $turn FROM p") or die 'nobody writes';
	$node->stop('immediate');
	finish_pgbench($load);
	$node->start;
	sql($node, "COMMIT PREPARED '$_'") foreach split /\n/, sql($node, q{SELECT gid FROM pg_prepared_xacts});
	right_ok($node, $_, "crash $turn, $_") foreach qw(t p);
}
is(sql($node, 'SELECT count(*) FROM unlogged'), '0', 'unlogged: a crash has emptied it');
sql($node, 'TRUNCATE q_unlogged, cut_unlogged; INSERT INTO unlogged SELECT * FROM filler(1, 100)');
right_ok($node, 'unlogged', 'unlogged, after a crash', 100);

# ------------------------------------------- a standby, and logical replication

$node->backup('base');
my $standby = PostgreSQL::Test::Cluster->new('arrivals_standby');

$standby->init_from_backup($node, 'base', has_streaming => 1);
$standby->start;
make_source($node, 'fed');

my $publisher = PostgreSQL::Test::Cluster->new('arrivals_publisher');

$publisher->init(allows_streaming => 'logical');
$publisher->append_conf('postgresql.conf', "autovacuum = off\nlog_statement = none\n");
$publisher->start;
sql($publisher, q{CREATE TABLE fed (id int, v text);
	INSERT INTO fed SELECT g, repeat('x', 500) FROM generate_series(1, 100) g;
	CREATE PUBLICATION pub FOR TABLE fed});
sql($node, 'CREATE SUBSCRIPTION sub CONNECTION \'' . $publisher->connstr . " dbname=postgres' PUBLICATION pub");
$node->wait_for_subscription_sync($publisher, 'sub');
right_ok($node, 'fed', 'copied by logical replication', 100);
sql($publisher, q{INSERT INTO fed SELECT g, repeat('x', 500) FROM generate_series(101, 200) g;
	BEGIN; INSERT INTO fed VALUES (201, 'a'); SAVEPOINT a; INSERT INTO fed SELECT g, repeat('x', 500) FROM generate_series(301, 400) g;
	ROLLBACK TO a; INSERT INTO fed SELECT g, repeat('x', 500) FROM generate_series(202, 300) g; COMMIT;});
$publisher->wait_for_catchup('sub');
right_ok($node, 'fed', 'applied by logical replication', 300);
sql($node, 'DROP SUBSCRIPTION sub');
$publisher->stop;

# increments on the standby, by the map
$start = now();
sql($node, q{INSERT INTO large SELECT * FROM filler(50001, 50100); INSERT INTO t SELECT * FROM filler(1, 100)});
$node->wait_for_catchup($standby);
is(outside_map($standby, $_), '0', "the map on the standby knows all rows of $_") foreach qw(large t p fed);
is(sql($standby, "SELECT rows, blocks < 40 FROM blocks_read('large', '$start')"), '100|t', 'few blocks on the standby');
is(sql($standby, q{SELECT pending_rows FROM streamq.status WHERE name = 'q_large'}), '100', 'pending rows on the standby');
sql($node, "BEGIN; INSERT INTO t SELECT * FROM filler(2001, 2100); PREPARE TRANSACTION 'moves'");
sql($node, q{INSERT INTO t SELECT * FROM filler(3001, 3100)});
$node->wait_for_catchup($standby);

# the standby takes over, and the transaction with it
$node->stop('immediate');
$standby->promote;
sql($standby, q{INSERT INTO t SELECT * FROM filler(4001, 4100)});
right_ok($standby, $_, "promoted, $_") foreach qw(large t p fed);
sql($standby, q{COMMIT PREPARED 'moves'; INSERT INTO p SELECT * FROM filler(4001, 4100)});
right_ok($standby, $_, "promoted and going on, $_") foreach qw(t p);

$standby->command_ok([ 'pg_amcheck', '--install-missing', '-d', 'postgres' ], 'pg_amcheck is untroubled')
  if $ENV{PATH} && !system('pg_amcheck --version >/dev/null 2>&1')
  && sql($standby, q{SELECT count(*) FROM pg_available_extensions WHERE name = 'amcheck'});
$standby->stop;

# ----------------------------------------------------- WAL that is left out

# A file made in the same transaction is synced, or goes into the WAL as a whole.
my $minimal = new_server('arrivals_minimal', 'wal_level = minimal', 'max_wal_senders = 0', 'autovacuum = off');

sql($minimal, $scene);
foreach my $threshold (qw(0 1GB))
{
	my $table = $threshold ? "t_wal" : "t_sync";
	my $rows = join '', map { "$_\t" . 'x' x 500 . "\n" } 1 .. 200;

	sql($minimal, "SET wal_skip_threshold = '$threshold';
		BEGIN;
		CREATE TABLE $table (id int, v text);
		SELECT streamq.add_source('$table');
		SELECT streamq.create_query('q_$table', 'SELECT id, v FROM $table');
		SELECT streamq.create_query('cut_$table', 'SELECT id, v FROM $table', max_rows_per_batch => 13);
		COPY $table FROM STDIN;\n$rows\\.\n
		COMMIT");
	$minimal->stop('immediate');
	$minimal->start;
	right_ok($minimal, $table, "without WAL, threshold $threshold", 200);
	sql($minimal, "SET wal_skip_threshold = '$threshold';
		BEGIN;
		INSERT INTO $table SELECT * FROM filler(1001, 1100);
		SAVEPOINT a;
		TRUNCATE $table;
		COPY $table FROM STDIN;\n$rows\\.\n
		ROLLBACK TO a;
		INSERT INTO $table SELECT * FROM filler(2001, 2100);
		COMMIT");
	$minimal->stop('immediate');
	$minimal->start;
	right_ok($minimal, $table, "without WAL and rolled back, threshold $threshold", 400);
	sql($minimal, "SET wal_skip_threshold = '$threshold';
		TRUNCATE q_$table, cut_$table;
		BEGIN;
		INSERT INTO $table SELECT * FROM filler(1001, 1100);
		TRUNCATE $table;
		COPY $table FROM STDIN (FREEZE);\n$rows\\.\n
		COMMIT");
	$minimal->stop('immediate');
	$minimal->start;
	right_ok($minimal, $table, "without WAL, frozen, threshold $threshold", 200);
}
$minimal->stop;

done_testing();
