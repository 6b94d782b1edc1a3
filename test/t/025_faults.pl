# 025_faults.pl
#		Everything that can go wrong around a batch, for queries of every kind.
#
# - At each point of a batch, of a query of each kind at once: the client is
#   killed, or vanishes and is noticed, its backend is terminated, the statement
#   times out; the launcher is killed or terminated, the whole server is.  (Crashes
#   of the process itself are in 001_crash_points.pl.)
# - No room on the disk: for the sink, the state, the checkpoint, the WAL, for
#   anything at all, and for crash recovery.  A small library that the server loads
#   first makes writes fail as they do on a full disk (disk_full.c).
# - Timeouts of the owner, locks, connections, background workers and lock table
#   used up.
# - Crash recovery that crashes, promotion of a standby and recovery to a point in
#   time in the middle of it all.
#
# After each of them: the sink holds what the SELECT gives, the tables in
# streamq_state are those of the queries that are there, no query is locked, and
# all go on without help.
use strict;
use warnings FATAL => 'all';

use Config;
use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use StreamqTest;
use Test::More;
use Time::HiRes qw(usleep);

my $limit = 20;
my $node = new_server(
	'faults',
	'streamq.max_retries = -1',
	'streamq.max_workers = 16',
	'max_worker_processes = 24',
	'max_connections = 25',
	'autovacuum = off');
need_test_build($node);

# ---------------------------------------------------------------- the queries

my $minute = q{date_bin('1 minute', at, '2024-01-01') AS minute};
my %selects = (
	rows => [ 'append', 'SELECT id, k, n * 2 AS doubled FROM events WHERE n <> 3' ],
	upd => [ 'update', q{SELECT k, count(*) AS rows, avg(n) AS mean FROM events GROUP BY k HAVING count(*) % 7 <> 0} ],
	com => [ 'complete', q{SELECT k, max(n) AS m, percentile_cont(0.5) WITHIN GROUP (ORDER BY n) AS p
		FROM events GROUP BY k ORDER BY k} ],
	upd_kept => [ 'update', qq{SELECT $minute, k, count(DISTINCT n) AS d, string_agg(id::text, ',' ORDER BY id) AS ids
		FROM events GROUP BY 1, 2}, 'late' ],
	app_state => [ 'append', qq{SELECT $minute, name, count(*) AS rows, count(DISTINCT n) AS d, array_agg(id ORDER BY id) AS ids
		FROM events JOIN names USING (k) GROUP BY 1, 2}, 'late' ],
	app_source => [ 'append', qq{SELECT $minute, k, count(*) AS rows, sum(n) AS s FROM events GROUP BY 1, 2}, 'late' ]);
my @queries;

sub create_queries
{
	my ($on) = @_;

	sql($on, q{
		CREATE ROLE keeper LOGIN;
		GRANT CREATE ON SCHEMA public TO PUBLIC;
		SET ROLE keeper;
		CREATE TABLE events (id bigserial, at timestamptz, k int, n numeric);
		CREATE INDEX ON events USING brin (at);
		CREATE TABLE names (k int PRIMARY KEY, name text);
		INSERT INTO names VALUES (0, 'zero'), (1, 'one'), (2, 'two');
		GRANT SELECT ON events, names TO PUBLIC;
		SELECT streamq.add_source('events', 'at', '30 seconds')});
	# each of an owner of its own, so that each has a worker of its own
	@queries = ();
	foreach my $kind (sort keys %selects)
	{
		foreach my $max (0, $limit)
		{
			next if $max && $kind =~ /^(upd|com)$/;
			my ($mode, $select, $late) = @{ $selects{$kind} };
			my $name = $max ? "${kind}_cut" : $kind;

			sql($on, qq{
				CREATE ROLE $name LOGIN;
				SET ROLE $name;
				SELECT streamq.create_query('$name', \$query\$ $select \$query\$, output_mode => '$mode',
					max_rows_per_batch => nullif($max, 0)} . ($late ? ", late_sink => 'late_$name'" : '') . ')');
			push @queries, $name;
		}
	}
	return;
}
create_queries($node);
is(sql($node, q{SELECT string_agg(name, ' ' ORDER BY name) FROM streamq.queries WHERE strategy = 'source'}),
	'app_source app_source_cut', 'both strategies are there');

# Some windows further on, with rows that are late by then and some without a time.
my $minutes = 0;
sub load_events
{
	my ($on, $times) = @_;

	$times //= 1;
	$minutes += 4;
	sql($on // $node, join "\n", map { qq{
		INSERT INTO events (at, k, n)
		SELECT CASE WHEN i % 11 = 5 THEN NULL
				ELSE '2024-01-01'::timestamptz + ($minutes + $_) * interval '1 minute'
					+ i * interval '3 seconds' / $times - (i % 7 = 3)::int * interval '4 minutes' END,
			i % 3, i % 5 FROM generate_series(1, 14 * $times) i;}
	} 0 .. 2);
	return;
}

# No batch is under way, and nothing is left of one.
my $locked = q{EXISTS (SELECT FROM pg_locks WHERE locktype = 'object' AND classid = 'streamq.queries'::regclass AND objsubid = 0
	AND mode = 'ExclusiveLock')};

# well_ok(NAME [, NODE [, DATABASE]]): everything that has to hold when all is read.
sub well_ok
{
	my ($name, $on) = @_;
	my $wrong;

	$on //= $node;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	$wrong = sql($on, q{
		SELECT q.name, v.* FROM streamq.queries q, streamq.verify(q.name) v
			WHERE q.name <> 'big' AND NOT explained_by_late_rows;
		SELECT 'rows read', name, total_input_rows FROM streamq.status
			WHERE sources = ARRAY['events'::regclass] AND total_input_rows <> (SELECT count(*) FROM events);
		SELECT 'batches missing', name FROM streamq.commits GROUP BY name HAVING max(batch_id) - min(batch_id) + 1 <> count(*);
		SELECT 'orphan', relname FROM pg_class WHERE relnamespace = 'streamq_state'::regnamespace AND relkind = 'r'
			AND substring(relname FROM '^q(\d+)')::int NOT IN (SELECT query_id FROM streamq.queries WHERE strategy = 'state');
		SELECT 'no state', name FROM streamq.queries WHERE strategy = 'state'
			AND to_regclass('streamq_state.q' || query_id) IS NULL;
		SELECT 'in pg_class only', relname FROM pg_class WHERE relkind IN ('r', 'i') AND relfilenode <> 0
			AND relpersistence = 'p' AND pg_stat_file(pg_relation_filepath(oid), true) IS NULL});
	return is($wrong, '', "$name: exact, nothing is left over");
}

# After whatever it was, everything is done by the background, or by CALL run.
sub background_goes_on_ok
{
	my ($name, $on) = @_;
	my @lazy;

	$on //= $node;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	@lazy = grep { sql($on, "SELECT streamq.wait('$_')") ne 't' } @queries;
	is("@lazy", '', "$name: all go on by themselves");
	well_ok($name, $on);
	return;
}

sub foreground_goes_on_ok
{
	my ($name) = @_;

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	wait_for($node, "NOT $locked", "$name: no query is locked");
	sql($node, join "\n", map { "CALL streamq.run('$_');" } @queries);
	well_ok($name);
	return;
}

sub start_all
{
	my ($on) = @_;

	sql($on // $node, 'SELECT streamq.start(name) FROM streamq.queries WHERE NOT active');
	return;
}

# Settings of roles are taken over by workers that start.
sub end_workers
{
	sql($node, q{SELECT pg_terminate_backend(pid, 60000) FROM pg_stat_activity WHERE backend_type = 'streamq worker'});
	return;
}

sub stop_all
{
	my ($on) = @_;

	sql($on // $node, 'SELECT streamq.stop(name) FROM streamq.queries WHERE active');
	return;
}

# ---------------------------------------------- at each point of a batch

# Which queries a batch with rows and groups to close brings to a point.
sub at_point
{
	my ($point) = @_;

	return grep { !/^app_source/ } @queries if $point eq 'before-sink';
	return grep { /^app_state|^upd_kept/ } @queries if $point eq 'after-close';
	return @queries;
}

my $parked = q{pg_locks WHERE locktype = 'advisory' AND objid = 7777 AND NOT granted};

# runs_at(POINT): a session as the owner for each query that gets to a point, there.
sub runs_at
{
	my ($point, $name, @settings) = @_;
	my @at = at_point($point);
	my $set = join ' ', map { "SET $_;" } "streamq.debug_point = '$point:wait'", @settings;
	my @runs = map { psql_in_background($node, "$set SET ROLE $_; CALL streamq.run('$_');") } @at;

	wait_for($node, "(SELECT count(*) FROM $parked) = " . @at, "$name: all are there");
	return @runs;
}

# The client of a half is killed, the other half loses its connection.
sub lose_connection
{
	my @runs = @_;

	sql($node, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query ~ 'CALL' AND pid % 2 = 0
		AND pid IN (SELECT pid FROM $parked)");
	$_->{handle}->signal('KILL') foreach @runs;
	return;
}

# One batch is done first, so that there is something to close at the point, and so
# that backlogs are left in the middle.
sub load_for_point
{
	load_events();
	$node->psql('postgres', join("\n", map { "SET streamq.debug_point = 'after-commit:error'; CALL streamq.run('$_');" } @queries),
		on_error_stop => 0, stderr => \my $stderr);
	load_events();
	return;
}

my @points = qw(batch-start before-sink after-close after-sink before-commit after-commit);

foreach my $point (@points)
{
	foreach my $blow ('client killed', 'connection lost')
	{
		my $name = "$blow at $point";
		my $hold = holder($node);
		my @runs;
		my $there;

		load_for_point();
		@runs = runs_at($point, $name, $blow eq 'connection lost' ? "client_connection_check_interval = '10ms'" : ());
		$there = sql($node, "SELECT string_agg(pid::text, ',') FROM $parked");
		$blow eq 'connection lost' ? lose_connection(@runs) : $_->{handle}->signal('KILL') foreach @runs;
		eval { $_->{handle}->finish } foreach @runs;
		# they end where they are, or nobody tells them and they do all their batches
		wait_for($node, "NOT EXISTS (SELECT FROM pg_stat_activity WHERE pid IN ($there))", "$name: all are gone")
		  if $blow eq 'connection lost';
		$hold->quit;
		foreground_goes_on_ok($name);
	}
}

# --------------------------------------------- the launcher and the server

# kill_at_once(NODE, RUN...): kills a server with all its processes.  Sessions of before
# are ended: a server that is started beside them would keep their pipes open.
sub kill_at_once
{
	my ($on, @runs) = @_;
	my $pidfile = $on->data_dir . '/postmaster.pid';
	my ($postmaster) = slurp_file($pidfile) =~ /^(\d+)/;
	my @children = map { m{(\d+)}g }
	  grep { (eval { slurp_file($_) } // '') =~ /^\d+ \(.*\) \S $postmaster / } glob '/proc/[0-9]*/stat';

	kill 'KILL', $postmaster, @children;
	# the process number may be taken for some time yet, if nobody waits for it
	unlink $pidfile, $on->host . '/.s.PGSQL.' . $on->port . '.lock';
	$on->{_pid} = undef;
	foreach my $run (@runs)
	{
		eval { $run->finish };
	}
	return;
}

start_all();
foreach my $point (@points)
{
	foreach my $blow ('launcher killed', 'launcher terminated', 'server killed')
	{
		my $name = "$blow at $point";
		my $hold;
		my $log = -s $node->logfile;
		my $launcher;

		# whose end does not touch the batches
		next if $blow eq 'launcher terminated' && $point ne 'before-commit';
		$hold = holder($node);
		$launcher = sql($node, q{SELECT pid FROM pg_stat_activity WHERE backend_type = 'streamq launcher'});
		set_point($node, "$point:wait");
		load_events();
		wait_for($node, "(SELECT count(*) FROM $parked) = " . at_point($point), "$name: all are there");
		if ($blow eq 'launcher terminated')
		{
			sql($node, "SELECT pg_terminate_backend($launcher)");
			wait_for($node, qq{EXISTS (SELECT FROM pg_stat_activity WHERE backend_type = 'streamq launcher' AND pid <> $launcher)},
				"$name: there is a new one");
			$hold->quit;
		}
		elsif ($blow eq 'launcher killed')
		{
			kill 'KILL', $launcher;
			$node->wait_for_log(qr/database system is ready to accept connections/, $log);
			$node->poll_query_until('postgres', 'SELECT true');
			eval { $hold->{run}->finish };
		}
		else
		{
			kill_at_once($node, $hold->{run});
			start_until_up($node);
		}
		clear_point($node);
		background_goes_on_ok($name);
	}
}
stop_all();

# ------------------------------------------------- timeouts, what is used up

# Whoever owns a query has settings, and so have the workers that run it.
{
	my $name = 'timeouts of the owner';

	foreach my $owner (@queries)
	{
		sql($node, "ALTER ROLE $owner SET $_") foreach "statement_timeout = '1ms'", "idle_in_transaction_session_timeout = '1ms'",
		  "idle_session_timeout = '1ms'", 'default_transaction_isolation = serializable', 'synchronous_commit = off';
	}
	end_workers();
	load_events();
	start_all();
	background_goes_on_ok($name);
	stop_all();
	sql($node, "ALTER ROLE $_ RESET ALL") foreach @queries;
	set_config($node, 'statement_timeout', '1min');
}

# In a session, a timeout ends the call, at whatever it is.
foreach my $point (qw(before-sink before-commit after-commit))
{
	my @at = at_point($point);
	my $name = "statement_timeout at $point";
	my $hold = holder($node);
	my @runs;

	load_for_point();
	@runs = map { psql_in_background($node, "SET streamq.debug_point = '$point:wait'; SET statement_timeout = '300ms';
		SET ROLE $_; CALL streamq.run('$_');") } @at;
	eval { $_->{handle}->finish } foreach @runs;
	is(scalar(grep { $_->{err} !~ /canceling statement due to statement timeout/ } @runs), 0, "$name: all calls end");
	$hold->quit;
	foreground_goes_on_ok($name);
}

# Somebody has locked what a batch writes: workers wait, whatever the owner has set for
# his sessions.
{
	my $name = 'lock_timeout of the owner';
	my $other = $node->background_psql('postgres');
	my $waiting = q{count(*) > 0 FROM pg_locks JOIN pg_stat_activity a USING (pid)
		WHERE NOT granted AND a.backend_type = 'streamq worker'};
	my $log = -s $node->logfile;

	sql($node, "ALTER ROLE $_ SET lock_timeout = '10ms'") foreach @queries;
	end_workers();
	load_events();
	$other->query_safe('BEGIN');
	$other->query_safe('LOCK TABLE streamq.commits IN SHARE MODE');
	$other->query_safe("LOCK TABLE $_ IN ACCESS EXCLUSIVE MODE") foreach grep { !/state/ } @queries;
	start_all();
	wait_for($node, $waiting, "$name: a worker waits for a sink or the checkpoint");
	$other->query_safe('ROLLBACK');
	background_goes_on_ok($name);
	$other->query_safe('BEGIN');
	$other->query_safe('LOCK TABLE streamq.queries, streamq.commits IN SHARE MODE');
	load_events();
	wait_for($node, $waiting, "$name: a worker waits for the checkpoint");
	$other->query_safe('ROLLBACK');
	$other->quit;
	background_goes_on_ok("$name, the checkpoint");
	ok(!$node->log_contains('canceling statement due to lock timeout', $log), "$name: no worker gave up");
	stop_all();
	sql($node, "ALTER ROLE $_ RESET ALL") foreach @queries;
}

# All connections are taken, and the owners must not have any.
{
	my $name = 'out of connections';
	my @sessions;
	my $refused = '';

	sql($node, "ALTER ROLE $_ CONNECTION LIMIT 0") foreach @queries;
	{
		local $ENV{PGUSER} = 'keeper';

		for (1 .. 30)
		{
			push @sessions, psql_in_background($node, 'SELECT pg_sleep(3600)');
			$node->psql('postgres', 'SELECT 1', stderr => \$refused);
			last if $refused =~ /connection/;
		}
	}
	like($refused, qr/remaining connection slots are reserved/, "$name: there is none left");
	load_events();
	start_all();
	background_goes_on_ok($name);
	end_workers();
	load_events();
	background_goes_on_ok("$name, with new workers");
	stop_all();
	sql($node, q{SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query ~ '^SELECT pg_sleep'});
	eval { $_->{handle}->finish } foreach @sessions;
	sql($node, "ALTER ROLE $_ CONNECTION LIMIT -1") foreach @queries;
}
# The lock table is full: of somebody else's locks.
{
	my $name = 'out of locks';
	my $other = $node->background_psql('postgres');
	my $log;

	start_all();
	background_goes_on_ok("before $name");
	$log = -s $node->logfile;
	$other->query_safe(q{
		BEGIN;
		INSERT INTO events (at, k, n) SELECT '2024-01-01', 1, 1 FROM generate_series(1, 30);
		DO $$ BEGIN
			PERFORM pg_advisory_lock(i) FROM generate_series(1, 1000000) i;
		EXCEPTION WHEN out_of_memory THEN
			NULL;
		END $$;
		COMMIT});
	$node->wait_for_log(qr/ERROR:  out of shared memory.*streaming query "/s, $log);
	$other->quit;
	background_goes_on_ok($name);
	stop_all();
}

# The lock table and the background workers are too few from the start.
{
	my $name = 'too few locks and workers';
	my $log;
	my $error;

	sql($node, q{
		CREATE TABLE wide (k int, v int) PARTITION BY LIST (k);
		CREATE TABLE wide_0 PARTITION OF wide FOR VALUES IN (0);
		SELECT streamq.add_source('wide');
		SELECT streamq.create_query('q_wide', 'SELECT k, v FROM wide')});
	push @queries, 'q_wide';
	start_all();
	$node->stop;
	$node->append_conf('postgresql.conf', $_) foreach 'max_locks_per_transaction = 10', 'max_connections = 5',
	  'max_worker_processes = 2', 'max_prepared_transactions = 0', 'max_wal_senders = 0', 'autovacuum_max_workers = 1';
	$log = -s $node->logfile;
	$node->start;
	$node->wait_for_log(qr/WARNING:  out of background worker slots/, $log);
	load_events();
	is(sql($node, q{SELECT streamq.wait('rows', '1200 ms')}), 'f', "$name: nobody is there to run a query");
	unlike(slurp_file($node->logfile, $log), qr/out of background worker slots.*out of background worker slots/s,
		"$name: which is said once");
	sql($node, q{
		DO $$ BEGIN
			FOR i IN 1 .. 400 LOOP
				EXECUTE format('CREATE TABLE wide_%1$s PARTITION OF wide FOR VALUES IN (%1$s)', i);
				COMMIT;
			END LOOP;
		END $$;
		INSERT INTO wide SELECT i, i FROM generate_series(0, 9) i});
	like($error = sql_error($node, q{CALL streamq.run('q_wide')}), qr/53200: out of shared memory.*max_locks_per_transaction/s,
		"$name: PostgreSQL says which setting it is");
	$node->stop;
	$node->append_conf('postgresql.conf', $_) foreach 'max_locks_per_transaction = 200', 'max_connections = 25', 'max_worker_processes = 24';
	$node->start;
	background_goes_on_ok($name);
	is(sql($node, 'SELECT count(*) FROM q_wide'), '10', "$name: and the rows of all partitions are there");
	stop_all();
	sql($node, q{SELECT streamq.drop_query('q_wide', true)});
	pop @queries;
}
$node->stop;

# ------------------------------------------------------- no room on the disk

my $library = PostgreSQL::Test::Utils::tempdir() . '/disk_full.so';
my $compiler = $ENV{CC} // $Config{cc};

SKIP:
{
	skip 'needs Linux and a C compiler', 1
	  unless $^O eq 'linux' && system("$compiler -shared -fPIC -o $library $FindBin::RealBin/disk_full.c -ldl") == 0;
	disk_full();
}

# A server on a disk that can be full; small segments of WAL, none kept for later.
sub disk_full
{
	my $switch = PostgreSQL::Test::Utils::tempdir() . '/disk_full';
	my $full = PostgreSQL::Test::Cluster->new('disk_full');
	my $set = sub {
		my @lines = @_;

		unlink "$switch.new";
		append_to_file("$switch.new", join '', map { "$_\n" } @lines);
		rename "$switch.new", $switch;
	};
	my $paths = sub { return split /\n/, sql($full, "SELECT pg_relation_filepath(oid) FROM pg_class WHERE $_[0]"); };

	local $ENV{DISK_FULL} = $switch;
	$full->init(extra => ['--wal-segsize=1']);
	$full->append_conf('postgresql.conf', join "\n",
		"shared_preload_libraries = 'streamq'", 'streamq.poll_interval = 10ms', 'streamq.retry_delay_max = 50ms', 'streamq.max_retries = -1',
		'streamq.max_workers = 16', 'max_worker_processes = 24', 'restart_after_crash = on', 'autovacuum = off',
		'min_wal_size = 2MB', 'max_wal_size = 1GB', 'checkpoint_timeout = 1h', 'log_statement = none', 'wal_recycle = off', '');
	{
		local $ENV{LD_PRELOAD} = $library;
		$full->start;
	}
	sql($full, 'CREATE EXTENSION streamq');
	create_queries($full);
	sql($full, q{
		SELECT streamq.create_query('big', $$ SELECT id, repeat(md5(id::text), 30) FROM events, generate_series(1, 6) $$);
		SELECT streamq.create_query('keyed', 'SELECT id, count(*) AS n FROM events GROUP BY 1', output_mode => 'update')});
	push @queries, 'big', 'keyed';
	start_all($full);

	# [ which files, which of the queries have to fail ]
	my %cases = (
		'sinks' => [ q{oid IN (SELECT sink FROM streamq.queries)}, qw(rows rows_cut big keyed) ],
		'indexes of sinks' => [ q{oid IN (SELECT indexrelid FROM pg_index WHERE indrelid IN (SELECT sink FROM streamq.queries))}, qw(keyed) ],
		'late sinks' => [ q{oid IN (SELECT late_sink FROM streamq.queries)}, qw(upd_kept app_state app_source) ],
		'state' => [ q{relnamespace = 'streamq_state'::regnamespace}, qw(upd_kept upd_kept_cut app_state app_state_cut com) ],
		'checkpoint' => [ q{relnamespace = 'streamq'::regnamespace AND relname ~ '^(commits|offsets)'}, qw(rows_cut) ]);

	foreach my $what (sort keys %cases)
	{
		my ($files, @failing) = @{ $cases{$what} };
		my $name = "no room for $what";
		my $hold = holder($full);

		set_point($full, 'batch-start:wait');
		# any table that is altered wakes all queries
		sql($full, 'CREATE TABLE waker (); ALTER TABLE waker ADD COLUMN i int; DROP TABLE waker');
		wait_for($full, "(SELECT count(*) FROM $parked) = " . @queries, "$name: all are parked");
		load_events($full, 40);
		$set->($paths->($files));
		clear_point($full);
		$hold->quit;
		wait_for($full, q{NOT EXISTS (SELECT FROM streamq.status WHERE name IN ('} . join("', '", @failing) . q{')
			AND (retries < 2 OR last_error !~ 'No space left on device'))}, "$name: so they fail");
		$set->();
		background_goes_on_ok($name, $full);
	}

	# WAL: the server goes down, and up again if it can; with the whole disk full it may not
	foreach my $what ('pg_wal/', 'pgdata/')
	{
		my $name = $what eq 'pg_wal/' ? 'no room for WAL' : 'no room for anything';
		my $hold = holder($full);
		my $log = -s $full->logfile;

		set_point($full, 'batch-start:wait');
		# any table that is altered wakes all queries
		sql($full, 'CREATE TABLE waker (); ALTER TABLE waker ADD COLUMN i int; DROP TABLE waker');
		wait_for($full, "(SELECT count(*) FROM $parked) = " . @queries, "$name: all are parked");
		load_events($full, 20);
		clear_point($full);
		$set->($what);
		eval { $hold->quit };
		$full->wait_for_log(qr/(ERROR|FATAL|PANIC):  could not (write to|extend) file.*No space left on device/, $log);
		eval { $hold->{run}->finish };
		$set->();
		# it may have given up
		for (1 .. 10 * $PostgreSQL::Test::Utils::timeout_default)
		{
			last if $full->psql('postgres', 'SELECT 1', stderr => \my $stderr) == 0;
			if (!-e $full->data_dir . '/postmaster.pid')
			{
				local $ENV{LD_PRELOAD} = $library;

				$full->stop('immediate', fail_ok => 1);
				start_until_up($full);
			}
			usleep(100_000);
		}
		background_goes_on_ok($name, $full);
	}

	# Crash recovery, which hangs at what it writes first: killed there, twice.
	{
		my $name = 'crash in crash recovery';
		my $hold = holder($full);

		set_point($full, 'before-commit:wait');
		load_events($full);
		wait_for($full, "(SELECT count(*) FROM $parked) = " . @queries, "$name: all are parked");
		kill_at_once($full, $hold->{run});
		for my $crash (1, 2)
		{
			my $log = -s $full->logfile;

			$set->('!pgdata/base/');
			# as soon as those that have been killed are gone
			for (1 .. 10 * $PostgreSQL::Test::Utils::timeout_default)
			{
				local $ENV{LD_PRELOAD} = $library;

				system('pg_ctl', '-s', '-D', $full->data_dir, '-l', $full->logfile, '-W', 'start');
				usleep(100_000);
				last if slurp_file($full->logfile, $log) =~ /database system was interrupted/;
			}
			$full->wait_for_log(qr/redo starts at/, $log);
			kill_at_once($full);
			unlike(slurp_file($full->logfile, $log), qr/checkpoint complete|ready to accept/, "$name: $crash");
			$set->();
		}
		{
			local $ENV{LD_PRELOAD} = $library;

			start_until_up($full);
		}
		clear_point($full);
		background_goes_on_ok($name, $full);
	}
	is(sql($full, 'SELECT (SELECT count(*) FROM big) - 6 * (SELECT count(*) FROM events)'), '0', 'no row of the big sink is missing');
	$full->stop;
	return;
}
# -------------------------------------- promotion, recovery to a point in time

{
	my $origin = PostgreSQL::Test::Cluster->new('origin');
	my $standby = PostgreSQL::Test::Cluster->new('promoted');
	my %names;
	my %was;
	my $hold;
	my @runs;
	my $xid;

	$origin->init(allows_streaming => 1, has_archiving => 1);
	$origin->append_conf('postgresql.conf', join "\n",
		"shared_preload_libraries = 'streamq'", 'streamq.poll_interval = 10ms', 'streamq.retry_delay_max = 50ms', 'streamq.max_retries = -1',
		'streamq.max_workers = 16', 'max_worker_processes = 24', 'max_connections = 25', 'autovacuum = off', 'log_statement = none', '');
	$origin->start;
	sql($origin, 'CREATE EXTENSION streamq');
	create_queries($origin);
	load_events($origin);
	sql($origin, join "\n", map { "CALL streamq.run('$_');" } @queries);
	$origin->backup('base');
	$standby->init_from_backup($origin, 'base', has_streaming => 1);
	$standby->start;

	# what the checkpoint says, and the sinks
	my $checkpoint = sub {
		return sql($_[0], q{SELECT name, batch_id, watermark, total_input_rows, total_output_rows, total_late_rows, state_rows
			FROM streamq.status ORDER BY name});
	};

	# One batch of each is done, of the cut ones in the middle of a backlog.
	load_events($origin);
	$origin->psql('postgres', join("\n", map { "SET streamq.debug_point = 'after-commit:error'; CALL streamq.run('$_');" } @queries),
		on_error_stop => 0, stderr => \my $stderr);
	sql($origin, q{SELECT pg_create_restore_point('between')});
	$was{between} = $checkpoint->($origin);
	sql($origin, "CALL streamq.run('$_')") foreach @queries;
	# within the transaction of the last batch of a query that aggregates
	load_events($origin);
	sql($origin, "CALL streamq.run('$_')") foreach grep { $_ ne 'upd_kept' } @queries;
	$was{within} = $checkpoint->($origin);
	$origin->psql('postgres', "SET streamq.debug_point = 'after-commit:error'; CALL streamq.run('upd_kept')", stderr => \$stderr);
	$xid = sql($origin, q{SELECT xmin FROM streamq.commits WHERE name = 'upd_kept' ORDER BY batch_id DESC LIMIT 1});

	# each is parked at another point when its server is gone, and the standby promoted
	load_events($origin);
	$hold = holder($origin);
	foreach my $n (0 .. $#queries)
	{
		my $query = $queries[$n];
		my @own = grep { my $point = $_; grep { $_ eq $query } at_point($point) } @points;

		push @runs, psql_in_background($origin, "SET streamq.debug_point = '$own[$n % @own]:wait'; CALL streamq.run('$query')");
	}
	wait_for($origin, "(SELECT count(*) FROM $parked) = " . @queries, 'promotion: all are in the middle of a batch');
	# starting them comes with all that is written so far
	$origin->safe_psql('postgres', 'SELECT pg_switch_wal()');
	$origin->wait_for_catchup($standby);
	$origin->stop('immediate');
	eval { $_->finish } foreach $hold->{run}, map { $_->{handle} } @runs;
	$standby->promote;
	sql($standby, "CALL streamq.run('$_')") foreach grep { /cut/ } @queries;
	start_all($standby);
	background_goes_on_ok('promotion in the middle of batches', $standby);
	load_events($standby);
	background_goes_on_ok('promotion, with new rows', $standby);
	$standby->stop;

	foreach my $target ([ 'between', "recovery_target_name = 'between'" ],
		[ 'within', "recovery_target_xid = '$xid'", 'recovery_target_inclusive = off' ])
	{
		my ($where, @settings) = @$target;
		my $name = "recovery to a point $where batches";
		my $restored = PostgreSQL::Test::Cluster->new("restored_$where");

		$restored->init_from_backup($origin, 'base', has_restoring => 1, standby => 0);
		$restored->append_conf('postgresql.conf', join "\n", @settings, "recovery_target_action = 'promote'", 'archive_mode = off', '');
		$restored->start;
		$restored->poll_query_until('postgres', 'SELECT NOT pg_is_in_recovery()') or die;
		is($checkpoint->($restored), $was{$where}, "$name: the checkpoint of that time is there");
		start_all($restored);
		background_goes_on_ok($name, $restored);
		load_events($restored);
		background_goes_on_ok("$name, with new rows", $restored);
		$restored->stop;
	}
}
done_testing();
