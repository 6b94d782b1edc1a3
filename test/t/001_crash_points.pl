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
#
# Then the same with aggregations of each kind, many at once: all are brought to
# the point, or its error, before the server goes down.  Each has a twin that
# nothing ever happens to.  After recovery both have the same sink, the same late
# rows, the same state and the same commit records, batch for batch.
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
	'streamq.max_workers = 16',
	'max_worker_processes = 24',
	'max_connections = 40',
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


# ============================================================== aggregations

# watermark: groups become final, in a batch of their own at the latest.
my $minute = q{date_bin('1 minute', at, '2024-01-01') AS minute};
my %aggregations = (
	upd => { mode => 'update', select => q{
		SELECT k, count(*) AS rows, avg(n) AS mean FROM events GROUP BY k HAVING count(*) % 7 <> 0} },
	upd_all => { mode => 'update', select => 'SELECT count(*) AS rows, stddev(n) AS s FROM events' },
	com => { mode => 'complete', select => q{
		SELECT k, max(n) AS m, total(n) AS t, percentile_cont(0.5) WITHIN GROUP (ORDER BY n) AS p
		FROM events GROUP BY k HAVING max(id) % 5 > 0 ORDER BY k} },
	upd_kept => { mode => 'update', watermark => 1, late => 1, select => qq{
		SELECT $minute, k, count(DISTINCT n) AS d, sum(n) AS s,
			string_agg(id::text, ',' ORDER BY id DESC) AS ids FROM events GROUP BY 1, 2} },
	app_state => { mode => 'append', watermark => 1, strategy => 'state', select => qq{
		SELECT $minute, name, count(*) AS rows, sum(n) AS s
		FROM events LEFT JOIN names USING (k) GROUP BY 1, 2} },
	app_kept => { mode => 'append', watermark => 1, strategy => 'state', late => 1, select => qq{
		SELECT $minute, count(DISTINCT n) AS d, total(n) AS t, array_agg(id ORDER BY id) AS ids
		FROM events LEFT JOIN names USING (k) GROUP BY 1} },
	app_source => { mode => 'append', watermark => 1, strategy => 'source', late => 1, select => qq{
		SELECT $minute, k, count(*) AS rows, count(DISTINCT n) AS d FROM events GROUP BY 1, 2} });
my @aggregations;

sql($node, q{
	CREATE TABLE events (id bigserial, at timestamptz, k int, n numeric);
	CREATE INDEX ON events USING brin (at);
	CREATE TABLE names (k int PRIMARY KEY, name text);
	INSERT INTO names VALUES (0, 'zero'), (1, 'one');
	SELECT streamq.add_source('events', 'at', '30 seconds');
	-- goes on with its transition function
	CREATE FUNCTION add(numeric, numeric) RETURNS numeric LANGUAGE sql IMMUTABLE
		AS 'SELECT $1 + coalesce($2, 0)';
	CREATE AGGREGATE total(numeric) (sfunc = add, stype = numeric, initcond = '0');
	GRANT SELECT ON events, names TO PUBLIC;
	GRANT CREATE ON SCHEMA public TO PUBLIC;

	-- all that a query has left behind: sinks, state, commit records
	CREATE FUNCTION left_by(query text) RETURNS TABLE (what text, contents text) LANGUAGE plpgsql AS $$
	DECLARE
		q streamq.queries := (SELECT q FROM streamq.queries q WHERE name = query);
		t text;
	BEGIN
		FOR what, t IN SELECT 'sink', q.sink::text
			UNION ALL SELECT 'late sink', q.late_sink::text WHERE q.late_sink IS NOT NULL
			UNION ALL SELECT 'state' || regexp_replace(c.relname, '^q\d+', ''), c.oid::regclass::text
				FROM pg_class c WHERE c.relnamespace = 'streamq_state'::regnamespace
				AND c.relkind = 'r' AND c.relname ~ ('^q' || q.query_id || '(_|$)')
		LOOP
			EXECUTE format('SELECT count(*) || '' rows, '' || md5(string_agg(r, '' '' ORDER BY r))
				FROM (SELECT (to_jsonb(its_row) - ''place'')::text FROM %s its_row) x (r)', t) INTO contents;
			RETURN NEXT;
		END LOOP;
		FOR what, contents IN SELECT 'batch ' || batch_id,
			(to_jsonb(c) - '{name,started_at,duration_ms,planning_ms,execution_ms}'::text[])::text
			FROM streamq.commits c WHERE name = query ORDER BY batch_id DESC LIMIT 20
		LOOP
			RETURN NEXT;
		END LOOP;
	END $$;

	-- groups held, and whether something is kept of others
	CREATE FUNCTION held(query text, OUT groups bigint, OUT orphans bigint) LANGUAGE plpgsql AS $$
	DECLARE
		state text := (SELECT format('streamq_state.q%s', query_id) FROM streamq.queries WHERE name = query);
		keys text := (SELECT string_agg(attname, ', ' ORDER BY attnum) FROM pg_attribute
					  WHERE attrelid = to_regclass(state) AND attname ~ '^k\d+$');
		t text;
		n bigint;
	BEGIN
		groups := 0;
		orphans := 0;
		IF keys IS NULL THEN
			RETURN;
		END IF;
		EXECUTE 'SELECT count(*) FROM ' || state INTO groups;
		FOR t IN SELECT c.oid::regclass FROM pg_class c WHERE relkind = 'r' AND c.oid::regclass::text ~ ('^' || state || '_')
		LOOP
			EXECUTE format('SELECT count(*) FROM (SELECT %1$s FROM %2$s EXCEPT SELECT %1$s FROM %3$s) x', keys, t, state) INTO n;
			orphans := orphans + n;
		END LOOP;
	END $$;
});

# each of an owner of its own, so that each has a worker of its own
foreach my $name (sort keys %aggregations)
{
	foreach my $max (0, $limit)
	{
		my %query = (%{ $aggregations{$name} }, name => $max ? "${name}_cut" : $name, limit => $max);

		next if $max && $name =~ /^upd(_all)?$/;
		sql($node, "CREATE ROLE $query{name}");
		foreach my $prefix ('', 'twin_')
		{
			sql($node, qq{
				SET ROLE $query{name};
				SELECT streamq.create_query('$prefix$query{name}', \$query\$ $query{select} \$query\$,
					output_mode => '$query{mode}', max_rows_per_batch => nullif($max, 0)} .
				($query{late} ? ", late_sink => 'late_$prefix$query{name}'" : '') . ')');
		}
		push @aggregations, \%query;
	}
}
is(sql($node, q{SELECT string_agg(name, ' ' ORDER BY name) FROM streamq.queries
		WHERE strategy = 'source' AND name !~ '^twin'}),
	join(' ', sort map { $_->{name} } grep { ($_->{strategy} // '') eq 'source' } @aggregations),
	'the strategies are those that are to be tested');
my $names = join ', ', map { "('$_->{name}')" } @aggregations;

# Whether a batch of a query gets to a point: the first one that is to come, or
# if one has been done, any of the others.  It begins even if nothing is to be done.
sub gets_to
{
	my ($query, $point, $done) = @_;
	my $from_source = ($query->{strategy} // '') eq 'source';
	# without a limit, the second batch only closes groups
	my $has_rows = !$done || $query->{limit};

	return 1 if $point eq 'batch-start';
	return 0 if !$has_rows && !$query->{watermark};
	return $has_rows && !$from_source if $point eq 'before-sink';
	return $query->{watermark} && !$from_source if $point eq 'after-close';
	return 1;
}

# CALL run of all queries, one after the other, also after errors.  Each is in a
# session of its own, as a serialization failure comes once in a session.
sub run_all
{
	my ($prefix, $point, $expected) = @_;
	my $stderr = '';

	$node->psql('postgres', join("\n", map { (
				$point =~ /serialize/ ? '\c' : '',
				"SET streamq.debug_point = '$point';",
				"CALL streamq.run('$prefix$_->{name}');") } @aggregations),
		stderr => \$stderr, on_error_stop => 0);
	my $errors = () = $stderr =~ /ERROR/g;
	my $at_point = () = $stderr =~ /ERROR:  debug point/g;

	diag($stderr) if $errors != $expected;
	return $errors == $expected && $at_point == $expected;
}

# Six windows further on, with rows that are late by then.  No two pieces of these
# transactions fit into one batch, so a limit cuts them in the same way whether the
# runner has forgotten its backlog or not.
my $minutes = 0;
sub load_events
{
	$minutes += 6;
	sql($node, join "\n", map { qq{
		INSERT INTO events (at, k, n)
		SELECT CASE WHEN i % 11 = 5 THEN NULL
				ELSE '2024-01-01'::timestamptz + ($minutes + $_->[0]) * interval '1 minute'
					+ i * interval '3 seconds' - (i % 7 = 3)::int * interval '4 minutes' END,
			i % 3, i % 5 FROM generate_series(1, $_->[1]) i;}
	} [ 0, 15 ], [ 1, 15 ], [ 2, 2 * $limit - 5 ], [ 4, 8 ]);
	return;
}

# What is committed of all queries.
sub committed
{
	return sql($node, "SELECT q.name, l.* FROM (VALUES $names) q (name), left_by(q.name) l ORDER BY 1, 2");
}

sub batch_numbers
{
	return map { split /\|/ } split /\n/,
	  sql($node, 'SELECT name, coalesce(batch_id, -1) FROM streamq.status');
}

# Nothing has happened to any of them.
sub all_aggregations_well
{
	my ($name) = @_;
	my $differences = sql($node, qq{
		SELECT q.name, d.* FROM (VALUES $names) q (name),
			LATERAL (SELECT what, a.contents, b.contents
				FROM left_by(q.name) a FULL JOIN left_by('twin_' || q.name) b USING (what)
				WHERE a.contents IS DISTINCT FROM b.contents) d ORDER BY 1, 2});
	my $state = sql($node, qq{
		SELECT name, state_rows, h.* FROM (VALUES $names) q (name)
			JOIN streamq.status USING (name), held(name) h
		WHERE (state_rows, 0) IS DISTINCT FROM (h.groups, h.orphans)});
	my $verified = sql($node, qq{
		SELECT q.name, v.* FROM (VALUES $names) q (name), streamq.verify(q.name) v
		WHERE NOT explained_by_late_rows});

	is($differences, '', "$name: as if nothing had happened");
	is($state, '', "$name: no group too many in the state, nothing left of others");
	is($verified, '', "$name: verify() finds nothing");
	return;
}

# The queries that are expected at a point are there and wait.
sub wait_until_parked
{
	my ($parked, $name) = @_;

	return wait_for($node, qq{(SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'
		AND objid = 7777 AND NOT granted) = $parked}, "$name: $parked queries are there");
}

# Brings all queries to the point and kills one of the processes.
sub crash_all
{
	my ($by, $point, $parked, $name) = @_;
	my $hold = holder($node);
	my @runs;
	my $before;

	if ($by eq 'run')
	{
		# half of them by their owners, half by a superuser
		foreach my $query (@aggregations)
		{
			my $role = @runs % 2 ? "SET ROLE $query->{name};" : '';

			push @runs, psql_in_background($node,
				"SET streamq.debug_point = '$point:wait'; $role CALL streamq.run('$query->{name}')");
		}
	}
	else
	{
		set_point($node, "$point:wait");
		sql($node, "SELECT streamq.start(name) FROM (VALUES $names) q (name)");
	}
	wait_until_parked($parked, $name);
	# those that do not get there have ended
	wait_for($node, q{(SELECT count(*) FROM streamq.status WHERE state = 'running') = } . $parked,
		"$name: no other is at work");
	$before = committed();
	kill 'KILL', sql($node, q{SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND objid = 7777
		AND NOT granted ORDER BY random() LIMIT 1});
	wait_until_down($node);
	$_->{handle}->finish foreach @runs;
	eval { $hold->{run}->finish };
	recover();
	return $before;
}

# One case: action at a point in the first batch, or if one is done, behind it.
sub aggregations
{
	my ($action, $by, $point, $done) = @_;
	my $name = "$action in $by at $point, " . ($done ? 'one batch done' : 'none done');
	my $expected = grep { gets_to($_, $point, $done) } @aggregations;
	my %was;

	load_events();
	ok(run_all('twin_', '', 0), "$name: the twins have run");
	ok(run_all('', 'after-commit:error', scalar @aggregations), "$name: one batch is done") if $done;
	%was = batch_numbers();
	if ($action eq 'crash')
	{
		my $seen = crash_all($by, $point, $expected, $name);

		# in the background they may have gone on by now
		is(committed(), $seen, "$name: there is what was committed") if $by eq 'run';
	}
	elsif ($action eq 'serialize')
	{
		ok(run_all('', "$point:serialize", 0), "$name: no call fails");
	}
	elsif ($by eq 'run')
	{
		ok(run_all('', "$point:error", $expected), "$name: all calls fail that get there");
	}
	else
	{
		set_point($node, "$point:error");
		sql($node, "SELECT streamq.start(name) FROM (VALUES $names) q (name)");
		wait_for($node, qq{(SELECT count(*) FROM streamq.status WHERE state = 'retrying') = $expected},
			"$name: all fail that get there");
		clear_point($node);
	}
	if ($by eq 'run' && $action ne 'serialize')
	{
		my %is = batch_numbers();
		my @moved = grep { gets_to($_, $point, $done) && $is{ $_->{name} } != $was{ $_->{name} }
			  + ($point eq 'after-commit' ? 1 : 0) } @aggregations;

		is(join(' ', map { "$_->{name}: $was{$_->{name}} $is{$_->{name}}" } @moved), '', "$name: so many batches are there")
		  unless $point eq 'after-close';
		ok(run_all('', '', 0), "$name: all go on");
	}
	elsif ($by eq 'worker')
	{
		wait_for($node, q{NOT EXISTS (SELECT FROM streamq.status a JOIN streamq.status b ON b.name = 'twin_' || a.name
			WHERE a.batch_id IS DISTINCT FROM b.batch_id)}, "$name: all go on by themselves");
		sql($node, "SELECT streamq.stop(name) FROM (VALUES $names) q (name)");
	}
	all_aggregations_well($name);
	return;
}

my $done = 0;
foreach my $action (qw(error crash serialize))
{
	foreach my $point (qw(batch-start before-sink after-close after-sink before-commit after-commit))
	{
		next if $action eq 'serialize' && $point eq 'after-commit';
		foreach my $by ($action eq 'serialize' ? 'run' : qw(run worker))
		{
			aggregations($action, $by, $point, $done);
			$done = !$done;
		}
		$done = !$done;
	}
}

done_testing();
