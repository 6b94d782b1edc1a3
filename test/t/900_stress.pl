# 900_stress.pl
#		Many kinds of writers, while run() and background workers take turns: at
#		the end each sink equals its sources, row for row.
#
#	STREAMQ_STRESS_SECONDS		how long the writers write (default 25)
#	STREAMQ_STRESS_SEED			repeats the random choices of a run
#	STREAMQ_STRESS_MAPS			what happens to the arrival maps meanwhile, one after the
#								other: "kept" (first), "dropped", "rebuilt" (last)
#	STREAMQ_STRESS_RULES_OFF	1, 2, 4: switches a rule of exact reading off; then
#								the test has to find rows lost or double, if the
#								engine's own checks do not before
#
# The writers: single and multi-row inserts, rows of long ago, COPY, savepoints rolled
# back, more than 64 subtransactions, aborts, prepared transactions, transactions that
# stay open for the whole run, and partitions that come with rows in them, by COPY
# FREEZE too.  Beside the queries a client reads increments with the public
# building blocks, in transactions in which it writes to the same table.
#
# A third of the time with arrival maps, a third without, a third while they are made anew
# at random moments: the rows have to be the same each time.  A row that is missed stays so.
#
# Aggregations in all output modes count the same rows.  Some have a watermark that
# leaves little time, so that rows of slow transactions are late; a late sink tells
# which, and the others are compared with the plain SELECT over them.  All the time
# somebody looks whether their groups, final or not, make up all rows read so far.
use strict;
use warnings FATAL => 'all';

use FindBin;
use lib $FindBin::RealBin;
use POSIX ();
use PostgreSQL::Test::Utils;
use StreamqTest;
use Test::More;
use Time::HiRes qw(time usleep);

my $seconds = $ENV{STREAMQ_STRESS_SECONDS} || 25;
my $seed = $ENV{STREAMQ_STRESS_SEED} || int(rand(2**31));
my $rules_off = $ENV{STREAMQ_STRESS_RULES_OFF} || 0;
my @maps = split /\W+/, $ENV{STREAMQ_STRESS_MAPS} || 'kept dropped rebuilt';
my @queries = qw(q_events q_plain q_both);
my @aggregations = qw(g_complete g_source g_state g_update g_window);

note("seed $seed, $seconds s" . ($rules_off ? ", rules off: $rules_off" : ''));
srand($seed);

my $node = new_server(
	'stress',
	'max_connections = 50',
	'streamq.max_retries = -1',
	$rules_off ? "streamq.debug_rules_off = $rules_off" : '');
need_test_build($node) if $rules_off;

# ---------------------------------------------------------------- the scene

sql($node, q{
	CREATE TABLE events (id bigserial, part int, writer text, v int, filler text, at timestamptz DEFAULT clock_timestamp())
		PARTITION BY LIST (part);
	CREATE TABLE events_0 PARTITION OF events FOR VALUES IN (0);
	CREATE TABLE events_1 PARTITION OF events FOR VALUES IN (1);
	CREATE INDEX ON events (at);
	CREATE TABLE plain (id bigserial, writer text, v int, filler text, at timestamptz DEFAULT clock_timestamp());
	SELECT streamq.add_source('events', 'at', '300 milliseconds');
	SELECT streamq.add_source('plain', 'at', '100 milliseconds');

	-- one takes all, one is always behind, one reads two streams
	SELECT streamq.create_query('q_events', 'SELECT id, part, writer, v FROM events');
	SELECT streamq.create_query('q_plain', 'SELECT id, writer, v FROM plain',
		max_rows_per_batch => 300);
	SELECT streamq.create_query('q_both',
		'SELECT id, writer, v FROM events UNION ALL SELECT id, writer, v FROM plain',
		max_rows_per_batch => 5000);

	-- each row belongs to one group, whose number n of rows is known
	CREATE TABLE kinds (writer text PRIMARY KEY, kind text);
	INSERT INTO kinds VALUES ('single', 'short'), ('slow', 'long'), ('open', 'long');
	SELECT streamq.create_query('g_complete', $$
		SELECT part, writer, count(*) AS n, sum(v) AS s, max(id) AS m FROM events GROUP BY 1, 2 ORDER BY 1, 2 $$,
		output_mode => 'complete');
	SELECT streamq.create_query('g_update', $$ SELECT writer, count(*) AS n, avg(v) AS a, stddev(id) AS d FROM plain GROUP BY 1 $$,
		output_mode => 'update', max_rows_per_batch => 1000);
	SELECT streamq.create_query('g_state', $$
		SELECT date_bin('500 milliseconds', at, '2024-01-01') AS w, kind, count(*) AS n, sum(v) AS s, array_agg(id ORDER BY id) AS ids
		FROM plain LEFT JOIN kinds USING (writer) GROUP BY 1, 2 $$, late_sink => 'late_state', live_view => 'live_state',
		max_rows_per_batch => 500);
	SELECT streamq.create_query('g_source', $$
		SELECT date_bin('500 milliseconds', at, '2024-01-01') AS w, writer, count(*) AS n, sum(v) AS s, count(DISTINCT v % 7) AS d
		FROM events GROUP BY 1, 2 $$, late_sink => 'late_source', live_view => 'live_source');
	SELECT streamq.create_query('g_window', $$
		SELECT date_bin('2 seconds', at, '2024-01-01') AS w, part % 2 AS p, count(*) AS n, count(DISTINCT v % 7) AS d,
			string_agg(writer, ' ' ORDER BY id DESC) FILTER (WHERE id % 10 = 0) AS writers
		FROM events GROUP BY 1, 2 $$, output_mode => 'update', late_sink => 'late_window', max_rows_per_batch => 5000);

	-- n subtransactions with a row each, of which every third is rolled back
	CREATE FUNCTION subtransactions(n int, who text) RETURNS void LANGUAGE plpgsql AS $$
	BEGIN
		FOR i IN 1 .. n LOOP
			BEGIN
				INSERT INTO plain (writer, v) VALUES (who, i);
				INSERT INTO events (part, writer, v) VALUES (i % 2, who, i);
				IF i % 3 = 0 THEN
					RAISE EXCEPTION 'rolled back';
				END IF;
			EXCEPTION WHEN raise_exception THEN
				NULL;
			END;
		END LOOP;
	END $$;

	-- a client with an offset and a sink of its own
	CREATE TABLE client_offset (o pg_snapshot);
	INSERT INTO client_offset VALUES ('1:1:');
	CREATE TABLE client_sink (id bigint, writer text, v int);
	CREATE FUNCTION read_increment() RETURNS void LANGUAGE plpgsql AS $$
	DECLARE
		start pg_snapshot := (SELECT o FROM client_offset);
		stop pg_snapshot := streamq.current_offset();
	BEGIN
		INSERT INTO client_sink SELECT id, writer, v FROM plain TABLESAMPLE streamq.since(start, stop);
		UPDATE client_offset SET o = stop;
	END $$;
});

# -------------------------------------------------------------- the writers

my %scripts = (
	'single@12' => q{
		\set part random(0, 1)
		\set v random(1, 1000000)
		INSERT INTO events (part, writer, v) VALUES (:part, 'single', :v);
	},
	'single_plain@12' => q{
		\set v random(1, 1000000)
		INSERT INTO plain (writer, v) VALUES ('single', :v);
	},
	'multi@4' => q{
		\set n random(2, 100)
		BEGIN;
		INSERT INTO events (part, writer, v, filler) SELECT i % 2, 'multi', i, repeat('m', i)
			FROM generate_series(1, :n) i;
		INSERT INTO plain (writer, v, filler) SELECT 'multi', i, repeat('m', i)
			FROM generate_series(1, :n) i;
		COMMIT;
	},
	'slow@4' => q{
		\set ms random(1, 200)
		BEGIN;
		INSERT INTO plain (writer, v) VALUES ('slow', 1);
		\sleep :ms ms
		INSERT INTO events (part, writer, v) VALUES (0, 'slow', 2), (1, 'slow', 3);
		COMMIT;
	},
	'savepoint@4' => q{
		BEGIN;
		INSERT INTO plain (writer, v) VALUES ('savepoint', 1);
		SAVEPOINT a;
		INSERT INTO plain (writer, v) VALUES ('savepoint', -1);
		INSERT INTO events (part, writer, v) VALUES (0, 'savepoint', -1);
		ROLLBACK TO a;
		SAVEPOINT b;
		INSERT INTO events (part, writer, v) VALUES (1, 'savepoint', 2);
		RELEASE b;
		COMMIT;
	},
	'subtransactions@2' => q{
		\set n random(65, 150)
		\set ms random(1, 100)
		BEGIN;
		SELECT subtransactions(:n, 'subtransactions');
		\sleep :ms ms
		INSERT INTO plain (writer, v) VALUES ('subtransactions', 0);
		COMMIT;
	},
	'abort@3' => q{
		\set n random(1, 200)
		BEGIN;
		INSERT INTO plain (writer, v) SELECT 'abort', i FROM generate_series(1, :n) i;
		INSERT INTO events (part, writer, v) SELECT i % 2, 'abort', i FROM generate_series(1, :n) i;
		ROLLBACK;
	},
	'old@4' => q{
		\set ms random(0, 3000)
		\set n random(1, 20)
		BEGIN;
		INSERT INTO plain (writer, v, at) SELECT 'old', i, clock_timestamp() - :ms * interval '1 millisecond'
			FROM generate_series(1, :n) i;
		INSERT INTO events (part, writer, v, at) SELECT i % 2, 'old', i,
			CASE WHEN i % 9 > 0 THEN clock_timestamp() - :ms * interval '1 millisecond' END FROM generate_series(1, :n) i;
		COMMIT;
	},
	'prepared@2' => q{
		\set ms random(1, 100)
		\set fate random(1, 4)
		BEGIN;
		INSERT INTO plain (writer, v) VALUES ('prepared', 1);
		SAVEPOINT a;
		INSERT INTO events (part, writer, v) VALUES (0, 'prepared', 2);
		PREPARE TRANSACTION 'stress:client_id';
		\sleep :ms ms
		\if :fate = 1
		ROLLBACK PREPARED 'stress:client_id';
		\else
		COMMIT PREPARED 'stress:client_id';
		\endif
	});

my %client_script = (
	'client' => q{
		\set ms random(0, 20)
		BEGIN;
		INSERT INTO plain (writer, v) VALUES ('client', 1);
		\sleep :ms ms
		SELECT read_increment();
		\sleep :ms ms
		INSERT INTO plain (writer, v) VALUES ('client', 2);
		COMMIT;
		\sleep :ms ms
	});

# Looks whether all rows that have been read are in some group, in one snapshot.
my %looker_script = (
	'looker' => join('', map { qq{
		SELECT coalesce((SELECT sum(n) FROM $_->[1]), 0) = coalesce(max(total_input_rows - total_late_rows), 0) AS ok
		FROM streamq.status WHERE name = '$_->[0]' \\gset
		\\if :ok
		\\else
		DO 'BEGIN RAISE EXCEPTION ''rows are missing from the groups of $_->[0]''; END';
		\\endif
	} } [ g_complete => 'g_complete' ], [ g_update => 'g_update' ], [ g_state => 'live_state' ], [ g_source => 'live_source' ])
	  . '\sleep 100 ms');

sub copy_rows
{
	my ($rows, $table, $columns, $options, $data) = @_;

	return "COPY $table ($columns) FROM STDIN $options;\n" . join('', map { "$data\t$_\n" } 1 .. $rows) . "\\.\n";
}

# One turn of the writer that copies.
sub copy_script
{
	my $rows = 1 + int(rand(rand() < 0.2 ? 3000 : 200));
	my $plain = copy_rows($rows, 'plain', 'writer, v', '', 'copy');
	my $events = copy_rows($rows, 'events', 'part, writer, v', '', int(rand(2)) . "\tcopy");

	return "BEGIN;\n${plain}SAVEPOINT a;\n${events}ROLLBACK TO a;\n${events}COMMIT;\n" if rand() < 0.3;
	return rand() < 0.5 ? $plain : $events;
}

# One turn of the writer that makes partitions; $n is the key of a new one.
sub partition_script
{
	my ($n) = @_;
	my $name = "events_$n";
	my $rows = 1 + int(rand(300));
	my $create = "CREATE TABLE $name (LIKE events INCLUDING DEFAULTS);\n";
	my $attach = "ALTER TABLE events ATTACH PARTITION $name FOR VALUES IN ($n);\n";
	my $insert = "INSERT INTO $name (part, writer, v) SELECT $n, 'attached', i FROM generate_series(1, $rows) i;\n";
	my $freeze = copy_rows($rows, $name, 'part, writer, v', '(FREEZE)', "$n\tfrozen");

	return (
		# filled by several transactions, then attached, then filled on
		"$create$insert$insert$attach$insert",
		# all of it in one transaction
		"BEGIN;\n$create$insert${attach}SELECT pg_sleep(0.02);\n${insert}COMMIT;\n",
		# frozen rows, older snapshots see them as soon as the table is there
		"BEGIN;\n$create$freeze${attach}COMMIT;\n",
		"BEGIN;\n$create${freeze}COMMIT;\n$insert$attach",
		# frozen rows in a table that everybody knows
		"$create${attach}BEGIN;\nTRUNCATE $name;\nSELECT pg_sleep(0.02);\n${freeze}COMMIT;\n$insert",
		"$create$attach$insert" . 'VACUUM (FREEZE) plain, events_0, events_1;')[ int(rand(6)) ];
}

# Starts a process that has psql execute one script after the other, the first of which
# gets the number $turn.
sub start_writer
{
	my ($number, $turn, $until, $pause_ms, $script) = @_;
	my $pid = fork() // die "fork: $!";
	my $status = 0;

	return $pid if $pid;
	srand($seed + $number + $turn);
	while (time() < $until && $status == 0)
	{
		my $run = psql_in_background($node, $script->($turn++));

		$run->{handle}->finish;
		$status = $run->{handle}->result ? 1 : 0;
		print STDERR $run->{err} if $status;
		usleep(1000 * int(rand($pause_ms)));
	}
	# no END blocks: the server is the parent's
	POSIX::_exit($status);
}

# -------------------------------------------------------------- the readers

sub run_now
{
	my $limit = '';
	my @runs;

	# with the end of a range not tested, a run may find its rows for ever
	$limit = q{SET statement_timeout = '30s';} if $rules_off;
	@runs = map { psql_in_background($node, "$limit CALL streamq.run('$_')") } @_;
	foreach my $run (@runs)
	{
		$run->{handle}->finish;
		push @main::errors, $run->{err} if $run->{err} ne '';
	}
	return;
}

sub run_in_background
{
	sql($node, join '', map { "SELECT streamq.start('$_');" } @_);
	usleep(1000 * (100 + int(rand(900))));
	if (rand() < 0.2)
	{
		sql($node, q{SELECT pg_terminate_backend(pid) FROM pg_stat_activity
			WHERE backend_type = 'streamq worker'});
		usleep(1000 * int(rand(300)));
	}
	sql($node, join '', map { "SELECT streamq.stop('$_');" } @_);
	return;
}

# --------------------------------------------------------------------- action

our @errors;
our $turns = 0;
my $rebuilds = 0;

# What makes the maps anew.  Beside writers to the partitions themselves, a command that
# locks events and then its partitions would be a deadlock.
sub rebuild
{
	my $of_plain = 'ON plain USING streamq_arrivals ((1))';
	my @ways = (
		'REINDEX INDEX CONCURRENTLY plain_arrivals;',
		'REINDEX INDEX plain_arrivals;',
		"DROP INDEX plain_arrivals;\nSELECT pg_sleep(0.2 * random());\nCREATE INDEX plain_arrivals $of_plain;",
		"DROP INDEX CONCURRENTLY plain_arrivals;\nCREATE INDEX CONCURRENTLY plain_arrivals $of_plain;",
		"BEGIN;\nINSERT INTO plain (writer, v) VALUES ('single', 0);\nREINDEX INDEX plain_arrivals;\nINSERT INTO plain (writer, v) VALUES ('single', 0);\nCOMMIT;",
		'VACUUM (FULL) plain;',
		'REINDEX INDEX CONCURRENTLY events_arrivals;',
		'REINDEX INDEX events_arrivals;');

	return psql_in_background($node, $ways[ int(rand(@ways)) ]);
}

sub rebuilt
{
	my ($run) = @_;

	$run->{handle}->finish;
	is($run->{err}, '', 'a map has been made anew') if $run->{err} ne '';
	$rebuilds++;
	return;
}

# For some seconds, everybody is at work.
sub act
{
	my ($maps, $part, $seconds) = @_;
	my $until = time() + $seconds;
	my $many = 0;
	my ($open, $rebuild);

	# what a map is made anew in waits for these, and would be waited for
	if ($maps ne 'rebuilt')
	{
		$open = $node->background_psql('postgres', timeout => $seconds + 600);
		$open->query_safe(q{BEGIN});
		$open->query_safe(q{INSERT INTO plain (writer, v) VALUES ('open', 1)});
		sql($node, q{
			BEGIN;
			SELECT subtransactions(20, 'prepared for long');
			PREPARE TRANSACTION 'for long';
		});
	}

	my $options = "-T $seconds --random-seed=" . ($seed + $part);
	my $load = start_pgbench($node, "-c 5 $options", %scripts);
	my $client = start_pgbench($node, "-c 1 $options", %client_script);
	my $looker = start_pgbench($node, "-c 1 $options", %looker_script);
	my @writers = (
		start_writer(1, 1000 * $part, $until, 50, \&copy_script),
		start_writer(2, 1000 * $part, $until, 600, \&partition_script));

	while (time() < $until)
	{
		my @some = grep { rand() < 0.5 } @queries, @aggregations;
		my %is_some = map { $_ => 1 } @some;
		my @others = grep { !$is_some{$_} } @queries, @aggregations;

		$rebuild = rebuild() if $maps eq 'rebuilt';
		run_in_background(@some) if @some;
		rebuilt($rebuild) if $rebuild;
		$rebuild = rebuild() if $maps eq 'rebuilt';
		run_now(@others) if @others;
		rebuilt($rebuild) if $rebuild;
		$turns++;
		next unless $open;

		# in its second half, the open transaction overflows every snapshot
		if (!$many && $until - time() < $seconds / 2)
		{
			$open->query_safe(q{SELECT subtransactions(100, 'open')});
			$many = 1;
		}
		$open->query_safe(q{INSERT INTO events (part, writer, v) VALUES (0, 'open', 2)});
	}

	ok(finish_pgbench($load), "maps $maps: the writers have written") or diag($load->{output});
	ok(finish_pgbench($client), "maps $maps: the client has read") or diag($client->{output});
	ok(finish_pgbench($looker), "maps $maps: whoever looked has found all rows") or diag($looker->{output})
	  unless $rules_off;
	foreach my $pid (@writers)
	{
		waitpid($pid, 0);
		is($?, 0, "maps $maps: psql has written");
	}
	return unless $open;
	$open->query_safe('COMMIT');
	$open->quit;
	sql($node, q{COMMIT PREPARED 'for long'});
	return;
}

foreach my $part (1 .. @maps)
{
	sql($node, q{DROP INDEX IF EXISTS events_arrivals, plain_arrivals}) if $maps[ $part - 1 ] eq 'dropped';
	sql($node, q{CREATE INDEX IF NOT EXISTS events_arrivals ON events USING streamq_arrivals ((1));
		CREATE INDEX IF NOT EXISTS plain_arrivals ON plain USING streamq_arrivals ((1))}) if $maps[ $part - 1 ] eq 'rebuilt';
	act($maps[ $part - 1 ], $part, POSIX::ceil($seconds / @maps));
	is(outside_map($node, $_), '0', "maps $maps[$part - 1]: the map of $_ knows all rows")
	  foreach grep { $maps[ $part - 1 ] ne 'dropped' } qw(events plain);
}
note("maps made anew: $rebuilds");
is(sql($node, 'SELECT count(*) FROM pg_prepared_xacts'), '0', 'no transaction is left open');

# these make all groups before them final
sql($node, q{INSERT INTO plain (writer, v, at) VALUES ('last', 0, clock_timestamp() + interval '1 hour');
	INSERT INTO events (part, writer, v, at) VALUES (0, 'last', 0, clock_timestamp() + interval '1 hour')});

# the rest: one in the background, the others in the foreground
sql($node, q{SELECT streamq.start('q_events'); SELECT streamq.wait('q_events');
	SELECT streamq.stop('q_events')});
my %stopped;

foreach my $query (qw(q_plain q_both), @aggregations)
{
	my $before = @errors;

	run_now($query);
	($stopped{$query}) = $errors[$before] =~ /ERROR: +(.*)/ if @errors > $before;
}
sql($node, 'SELECT read_increment()');
is(join('', @errors), '', 'run() has raised no error') unless $rules_off;

# ---------------------------------------------------------------- the verdict

my %wrong;
my $rows = 0;

foreach my $query (@queries)
{
	my ($extra, $missing, $expected) = compare($node, $query);

	$wrong{$query} = "$extra too many, $missing missing of $expected" if $extra || $missing;
	# rows that are missing behind an error have not been reached yet
	$wrong{$query} = "$extra too many; stopped by a check of the engine: $stopped{$query}"
	  if $stopped{$query};
	$rows += $expected;
}
my ($extra, $missing, $expected) = split /\|/, sql($node, q{
	WITH sink AS (TABLE client_sink), ref AS (SELECT id, writer, v FROM plain)
	SELECT (SELECT count(*) FROM (TABLE sink EXCEPT ALL TABLE ref) x),
		   (SELECT count(*) FROM (TABLE ref EXCEPT ALL TABLE sink) x),
		   (SELECT count(*) FROM ref)});
$wrong{client} = "$extra too many, $missing missing of $expected" if $extra || $missing;
$rows += $expected;

# The aggregations: the plain SELECT over the rows that are not in their late sink, of
# groups that are final if they come only then.
my %late = (g_state => 'late_state', g_source => 'late_source', g_window => 'late_window');
foreach my $query (@aggregations)
{
	my $select = sql($node, "SELECT pg_get_viewdef('streamq_query.$query'::regclass)") =~ s/;\s*$//r;
	my $final = $query =~ /^g_s/ ? 'WHERE w < clock_timestamp() + interval \'30 minutes\'' : '';
	my ($table) = $select =~ /\b(events|plain)\b/;

	$select =~ s/\bFROM +\(*$table\b/$& TABLE_OF_ROWS/;
	$select =~ s/$table TABLE_OF_ROWS/(SELECT * FROM $table WHERE id NOT IN (SELECT id FROM $late{$query})) $table/ if $late{$query};
	$select =~ s/ TABLE_OF_ROWS//;
	my ($extra, $missing, $expected) = split /\|/, sql($node, qq{
		WITH sink AS (SELECT * FROM $query), ref AS (SELECT * FROM ($select) r $final)
		SELECT (SELECT count(*) FROM (TABLE sink EXCEPT ALL TABLE ref) x),
			   (SELECT count(*) FROM (TABLE ref EXCEPT ALL TABLE sink) x),
			   (SELECT count(*) FROM ref)});

	$wrong{$query} = "$extra too many, $missing missing of $expected" if $extra || $missing;
	$wrong{$query} = "stopped by a check of the engine: $stopped{$query}" if $stopped{$query};
	$rows += $expected;
	next if $rules_off;
	is(sql($node, "SELECT * FROM streamq.verify('$query')"), '', "$query: verify() finds nothing") if $query =~ /source|window/;
	is(sql($node, qq{SELECT total_late_rows - (SELECT count(*) FROM $late{$query}) FROM streamq.status WHERE name = '$query'}),
		'0', "$query: all late rows are kept") if $late{$query};
}
is(sql($node, q{SELECT count(*) FROM (SELECT watermark < lag(watermark) OVER (PARTITION BY name ORDER BY batch_id) AS back
	FROM streamq.commits) c WHERE back}), '0', 'no watermark has moved back') unless $rules_off;
note('late rows: ' . sql($node, q{SELECT string_agg(name || ' ' || total_late_rows, ', ' ORDER BY name)
	FROM streamq.status WHERE total_late_rows > 0}));

my $batches = sql($node, 'SELECT sum(batch_id + 1) FROM streamq.status');
my $found = join '; ', map { "$_: $wrong{$_}" } sort keys %wrong;

note("rows by writer:\n" . sql($node, q{
	SELECT writer, sum(n) FROM (
		SELECT writer, count(*) FROM events GROUP BY 1
		UNION ALL SELECT writer, count(*) FROM plain GROUP BY 1) w (writer, n)
	GROUP BY 1 ORDER BY 1}));
is(sql($node, q{SELECT count(DISTINCT writer) FROM (
	SELECT writer FROM events UNION ALL SELECT writer FROM plain) w}),
	14, 'all kinds of writers were at work');
if ($rules_off)
{
	isnt($found, '', "rules off ($rules_off): found it: $found");
}
else
{
	is($found, '',
		"$rows rows compared after $batches batches in $turns turns, seed $seed");
}
done_testing();
