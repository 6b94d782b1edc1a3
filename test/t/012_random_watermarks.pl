# 012_random_watermarks.pl
#		Aggregations under a watermark, at random: all output modes, with and without
#		state, event times of all types, in and out of order, missing and infinite,
#		batches of all sizes, errors, crashes and restarts.
#
# The oracle is a model of the rules, in SQL.  The test knows in which order rows
# have come, and streamq.progress says how many of them each batch has read; the
# model finds out for each batch by itself
#
# - which of its rows are late: those of groups that are final under the watermark
#   in force, which is the one after the batch before;
# - the watermark after it: the greatest finite event time of all rows so far minus
#   the delay, of several sources the least.
#
# A group is final when its key's own expression evaluated on the watermark is
# greater than the key; where no two times have the same key, at least the key.
# NULL and infinity never are.
#
# The sink then has the plain SELECT over the rows that were not late: in append
# mode the groups that are final, otherwise all of them.
#
# STREAMQ_SEED repeats a run, STREAMQ_CASE one case of it alone, STREAMQ_CASES
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

my $cases = $ENV{STREAMQ_CASES} // 40;
my $steps = 7;
my $seed = $ENV{STREAMQ_SEED} // int(rand(2**31));
my @points = qw(batch-start before-sink after-close after-sink before-commit after-commit);
my $node = new_server('watermarks', 'restart_after_crash = off', 'autovacuum = off', 'jit = off',
	'client_min_messages = warning');

need_test_build($node);
note("seed $seed");

# ------------------------------------------------------------------- the model

# The rows that the test has inserted, in that order; and the watermark now.
sql($node, q{
	CREATE TABLE d (k text PRIMARY KEY, name text);
	INSERT INTO d VALUES ('a', 'first'), ('b', NULL);
	CREATE SCHEMA model;
});

# {t} in a key stands for the event time.
my $watermark = '(SELECT w FROM model.now)';
my %watermark_as = (
	timestamptz => $watermark,
	timestamp => "($watermark AT TIME ZONE 'UTC')",
	date => "(($watermark AT TIME ZONE 'UTC')::date)");

# The condition that a group is final now, for its key over a column.
sub final
{
	my ($case, $column) = @_;
	my $key = $case->{key}{sql} =~ s/\{t\}/$column/gr;
	my $bound = $case->{key}{sql} =~ s/\{t\}/$watermark_as{$case->{type}}/gr;

	return "coalesce($key " . ($case->{key}{injective} ? '<=' : '<') . " $bound, false)";
}

# A text of the case over rows of the model instead of the sources.
sub over_model
{
	my ($case, $text, $condition) = @_;

	$text =~ s/\{s(\d)\}/(SELECT id, k, v, t FROM model.rows WHERE source = $1 AND $condition)/g;
	return $text;
}

# The statements that do one batch: the next rows, numbered from $first on.
sub model_batch
{
	my ($case, $batch, $first, $rows) = @_;
	my $to = $first + $rows;
	my @statements = ("UPDATE model.rows SET batch = $batch WHERE place >= $first AND place < $to;");

	push @statements, 'UPDATE model.rows SET late = true WHERE id IN ('
	  . over_model($case, "$case->{with}SELECT x.id $case->{from}", "batch = $batch AND " . final($case, 't')) . ');'
	  unless $case->{mode} eq 'complete';

	my @reach = map {
		my $max = qq{(SELECT max(t) FILTER (WHERE isfinite(t)) FROM model.rows WHERE source = $_ AND batch IS NOT NULL)};
		my $time = "$max - interval '$case->{delays}[$_ - 1]'";

		$case->{type} eq 'timestamptz' ? "($time)" : "(($time) AT TIME ZONE 'UTC')";
	} 1 .. @{ $case->{delays} };
	# least() leaves out NULLs: no watermark until each source has had a row
	my $reached = 'CASE WHEN ' . join(' AND ', map { "$_ IS NOT NULL" } @reach) . ' THEN least(' . join(', ', @reach) . ') END';
	my $final = over_model($case, $case->{text}, 'batch IS NOT NULL AND NOT late AND ' . final($case, 't'));

	push @statements, qq{
		INSERT INTO model.batches SELECT $batch, $rows, w, $reached,
			(SELECT count(*) FROM model.rows WHERE batch = $batch AND late),
			(SELECT count(*) FROM ($final) g) FROM model.now;
		UPDATE model.batches SET after = greatest(before, after) WHERE batch = $batch;
		UPDATE model.now SET w = (SELECT after FROM model.batches WHERE batch = $batch);};
	return @statements;
}

# ---------------------------------------------------------------------- a case

# Keys by type of the event time: what they are made of, whether two times never
# have the same, and how far apart rows come, so that a group has a few.
my %keys = (
	timestamptz => [
		{ sql => '{t}', injective => 1, unit => '5 minutes' },
		{ sql => q{date_bin('20 minutes', {t}, '2024-01-01 00:05+00'::timestamptz)}, unit => '5 minutes' },
		{ sql => q{date_trunc('hour', {t})}, unit => '10 minutes' },
		{ sql => q{date_trunc('day', {t})}, unit => '4 hours' },
		{ sql => q{date_trunc('day', {t}, 'America/New_York')}, unit => '3 hours' },
		{ sql => q{date_trunc('week', {t}, 'Asia/Kolkata')}, unit => '1 day' },
		{ sql => q{{t}::date}, unit => '4 hours' },
		{ sql => q{({t} AT TIME ZONE 'UTC')}, injective => 1, unit => '5 minutes' },
		{ sql => q{date_trunc('hour', {t} AT TIME ZONE 'UTC')}, unit => '10 minutes' },
		{ sql => q{date_bin('30 minutes', {t} + interval '7 minutes', '2024-01-01 00:00+00'::timestamptz)}, unit => '5 minutes' },
	],
	timestamp => [
		{ sql => '{t}', injective => 1, unit => '5 minutes' },
		{ sql => q{date_bin('15 minutes', {t}, '2024-01-01'::timestamp)}, unit => '5 minutes' },
		{ sql => q{date_trunc('hour', {t})}, unit => '10 minutes' },
		{ sql => q{date_trunc('month', {t})}, unit => '4 days' },
		{ sql => q{{t}::date}, unit => '4 hours' },
		{ sql => q{({t} + interval '1 hour')}, injective => 1, unit => '5 minutes' },
	],
	date => [
		{ sql => '{t}', injective => 1, unit => '1 day' },
		{ sql => '({t} + 1)', injective => 1, unit => '1 day' },
		{ sql => q{date_trunc('week', {t})}, unit => '1 day' },
		{ sql => q{date_bin('3 days', {t}::timestamp, '2024-01-01'::timestamp)}, unit => '1 day' },
	]);

my @aggregates = ('count(*)', 'sum(x.v)', 'max(x.v)', 'avg(x.v)', 'count(DISTINCT x.v)', 'min(x.k)',
	'array_agg(x.v ORDER BY x.v, x.id)', q{string_agg(x.k, ',' ORDER BY x.id)}, 'count(*) FILTER (WHERE x.v > 2)',
	'stddev(x.v)', 'max(x.id) - min(x.id)');
my @wheres = ('x.v > 0', q{x.k IS DISTINCT FROM 'b'}, 'x.v <> 3 OR x.v IS NULL', 'x.id % 2 = 0');
my @havings = ('count(*) > 1', 'sum(x.v) % 2 = 0', 'max(x.v) < 5', 'count(*) < 3', 'count(x.k) > 0');

# Delays in units.
sub delay_of
{
	my ($key) = @_;
	my ($number, $word) = split / /, $key->{unit};

	# between two days a watermark says of dates what it says at the earlier one
	return '36 hours' if $key->{unit} eq '1 day' && chance(0.2);
	return ($number * one_of(0, 0, 1, 2, 3, 5)) . " $word";
}

sub random_case
{
	my %case = (
		mode => one_of(qw(append append append append update update complete)),
		type => one_of(qw(timestamptz timestamptz timestamptz timestamp timestamp date)),
		zone => one_of('UTC', 'America/New_York', 'Asia/Kolkata', 'Europe/Berlin'),
		limit => one_of(undef, undef, 1, 2, 5, 20),
		layout => one_of(qw(plain plain plain partitioned two)),
		next => 1,
		read => 0,
		batch => -1,
		clock => 0);
	my $key = $case{key} = one_of(@{ $keys{ $case{type} } });

	$case{delays} = [ map { delay_of($key) } 1 .. ($case{layout} eq 'two' ? 2 : 1) ];
	# in which order a batch takes the rows of several tables is not known
	$case{single} = $case{layout} ne 'plain' && defined $case{limit};
	$case{late_sink} = one_of(undef, 'new', 'own') if $case{layout} ne 'two' && $case{mode} ne 'complete';
	$case{live_view} = chance(0.3);
	$case{latest} = chance(0.15);
	$case{index} = one_of(qw(none btree brin)) if $case{mode} eq 'append';

	my $form = int(rand(8));
	my $source = $case{layout} eq 'two' ? '(SELECT * FROM {s1} a UNION ALL SELECT * FROM {s2} b)' : '{s1}';
	my $column = 'x.t';
	my $sql = $key->{sql} =~ s/\{t\}/x.t/gr;

	$case{with} = '';
	$case{from} = "FROM $source x";
	if ($form == 1)
	{
		$case{from} = 'FROM (SELECT y.*, ' . ($key->{sql} =~ s/\{t\}/y.t/gr) . " AS w FROM $source y) x";
		$sql = 'x.w';
	}
	elsif ($form == 2)
	{
		$case{with} = "WITH c AS (SELECT * FROM $source y) ";
		$case{from} = 'FROM c x';
	}
	elsif ($form == 3)
	{
		$case{from} .= ' LEFT JOIN d ON d.k = x.k';
		$case{static} = 1;
	}
	my @where = chance(0.3) ? one_of(@wheres) : ();

	$case{from} .= " WHERE $where[0]" if @where;

	my @by = ("$sql AS w");
	push @by, one_of('x.k AS k2', 'x.k AS k2', q{coalesce(x.k, '-') AS k2}, 'x.v % 2 AS k2') if chance(0.5);
	push @by, 'd.name AS k3' if $case{static} && chance(0.5);
	my @by_sql = map { s/ AS \w+$//r } @by;
	my @output = (@by, map { one_of(@aggregates) . " AS a$_" } 1 .. one_of(1, 2, 3));

	$case{group} = ' GROUP BY ' . join(', ', @by_sql);
	$case{text} = "$case{with}SELECT " . join(', ', @output) . " $case{from}$case{group}"
	  . (chance(0.25) ? ' HAVING ' . one_of(@havings) : '');
	return \%case;
}

sub describe
{
	my ($case) = @_;

	return join ', ', $case->{mode}, $case->{type}, $case->{zone}, $case->{layout},
	  'delays ' . join('/', @{ $case->{delays} }), 'limit ' . ($case->{limit} // 'none'),
	  ($case->{latest} ? 'latest' : 'earliest'),
	  'index ' . ($case->{index} // 'none'), 'late sink ' . ($case->{late_sink} // 'none'), $case->{text};
}

# Sources, model and query.
sub create_case
{
	my ($case) = @_;
	my $n = @{ $case->{delays} };
	my $columns = "id bigint, k text, v int, t $case->{type}";
	my $text = $case->{text} =~ s/\{(s\d)\}/$1/gr;
	my @arguments = ("'q'", "\$q\$$text\$q\$", "output_mode => '$case->{mode}'");
	my @before = ("SET TimeZone = '$case->{zone}';");

	foreach my $source (1 .. $n)
	{
		my $delay = $case->{delays}[ $source - 1 ];

		if ($case->{layout} eq 'partitioned')
		{
			push @before, "CREATE TABLE s$source ($columns) PARTITION BY LIST ((id % 2));",
			  map { "CREATE TABLE s${source}_$_ PARTITION OF s$source FOR VALUES IN ($_);" } 0, 1;
		}
		else
		{
			push @before, "CREATE TABLE s$source ($columns);";
		}
		push @before, "CREATE INDEX ON s$source USING $case->{index} (t);"
		  if $case->{index} && $case->{index} ne 'none';
		push @before, "SELECT streamq.add_source('s$source', 't', '$delay');";
	}
	# rows that the query is not to see
	push @before, map { "INSERT INTO s$_ SELECT 1000000 + g, 'a', g, timestamp '2024-03-08 22:00' + g * interval '1 hour' FROM generate_series(-20, 20) g;" } 1 .. $n
	  if $case->{latest};
	push @before, "CREATE TABLE model.rows (place int PRIMARY KEY, source int, batch int, late bool NOT NULL DEFAULT false, $columns);",
	  'CREATE TABLE model.batches (batch int, rows int, before timestamptz, after timestamptz, late int, final int);',
	  'CREATE TABLE model.now (w timestamptz); INSERT INTO model.now VALUES (NULL);';
	push @arguments, "max_rows_per_batch => $case->{limit}" if $case->{limit};
	push @arguments, "late_sink => 'too_late'" if $case->{late_sink};
	push @arguments, "live_view => 'q_live'" if $case->{live_view};
	push @arguments, "starting_position => 'latest'" if $case->{latest};
	push @before, 'CREATE TABLE too_late (noted timestamptz DEFAULT now(), v int, t ' . $case->{type} . ', k text, id bigint);'
	  if ($case->{late_sink} // '') eq 'own';
	sql($node, join "\n", @before);
	return sql_error($node, "SET TimeZone = '$case->{zone}'; SELECT streamq.create_query(" . join(', ', @arguments) . ');');
}

sub drop_case
{
	my ($case) = @_;

	sql($node, q{SELECT streamq.drop_query(name, true) FROM streamq.queries;
		DROP VIEW IF EXISTS q_live;
		DROP TABLE IF EXISTS q, too_late, model.rows, model.batches, model.now;}
		  . join('', map { "DROP TABLE s$_;" } 1 .. @{ $case->{delays} }));
	return;
}

# ---------------------------------------------------------------------- a step

# An event time: mostly about now, some much earlier, some without an end.
sub random_time
{
	my ($case) = @_;
	my $what = rand();

	return 'NULL' if $what < 0.05;
	return "'infinity'" if $what < 0.07;
	return "'-infinity'" if $what < 0.09;
	$case->{clock} += one_of(0, 0, 0, 1, 1, 2, 4);
	my $units = $case->{clock} - ($what < 0.35 ? int(rand(one_of(6, 20))) : int(rand(3)));
	my $time = "timestamp '2024-03-08 22:00' + $units * interval '$case->{key}{unit}'";

	return $case->{type} eq 'timestamptz' ? "($time) AT TIME ZONE 'UTC'" : "($time)::$case->{type}";
}

# Statements of a transaction, and what the model has to know of it.
sub random_transaction
{
	my ($case) = @_;
	my $n = $case->{single} ? 1 : one_of(1, 1, 2, 3, 6);
	my @statements = ('BEGIN;');
	my @model;
	my $next = $case->{next};

	foreach (1 .. $n)
	{
		my $source = one_of(1 .. @{ $case->{delays} });
		my $values = join ', ', $next, one_of('NULL', q{'a'}, q{'b'}, q{'c'}), one_of('NULL', 0 .. 5), random_time($case);

		push @statements, 'SAVEPOINT a;' if chance(0.1);
		push @statements, "INSERT INTO s$source VALUES ($values);";
		push @model, "INSERT INTO model.rows (place, source, id, k, v, t) VALUES ($next, $source, $values);";
		$next++;
	}
	return join "\n", @statements, 'ROLLBACK;' if chance(0.1);
	$case->{next} = $next;
	return join "\n", @statements, 'COMMIT;', @model;
}

# Lets something go wrong.  Returns an error that does not belong there.
sub disturb
{
	my ($case, $what) = @_;
	my $point = one_of(@points);

	if ($what < 0.18)
	{
		my $error = sql_error($node,
			"SET streamq.debug_point = '$point:" . one_of(qw(error error serialize)) . q{'; CALL streamq.run('q')});

		return $error =~ /debug point/ ? '' : $error;
	}
	if ($what < 0.22)
	{
		my $error = sql_error($node, "SET streamq.debug_point = '$point:crash'; CALL streamq.run('q')");

		if ($error =~ /server closed the connection|connection to server was lost/)
		{
			wait_until_down($node);
			$node->start;
		}
		return '';
	}
	if ($what < 0.25)
	{
		$node->restart;
		return '';
	}
	my $error = sql_error($node, q{SELECT streamq.start('q'); SELECT streamq.wait('q')});

	sql($node, q{SELECT streamq.stop('q')}) if $error eq '';
	return $error;
}

# Executes the statements and runs the query.  Returns what goes wrong, and notes
# which batches there were.
sub run_query
{
	my ($case, $statements) = @_;
	my $what = rand();
	my $run = q{CALL streamq.run('q');};

	if ($what < 0.3)
	{
		sql($node, $statements);
		my $error = disturb($case, $what);

		return $error if $error ne '';
		$statements = '';
		# further rows may come before the next try
		$run = '' if chance(0.3);
	}
	$case->{given_up} = $run eq '';
	my ($status, $stdout, $stderr) = $node->psql('postgres', qq{
		\\set VERBOSITY verbose
		$statements
		$run
		SELECT 'batch', batch_id, input_rows FROM streamq.progress WHERE name = 'q' AND batch_id > $case->{batch}
			ORDER BY batch_id;});

	return $stderr if $status != 0;
	$case->{batches} = [ map { [ split /\|/ ] } grep { s/^batch\|// } split /\n/, $stdout ];
	$case->{batch} = $case->{batches}[-1][0] if @{ $case->{batches} };
	return '';
}

# The statements with which the model does the batches that there were.
sub follow
{
	my ($case) = @_;
	my @statements;

	foreach my $batch (@{ $case->{batches} })
	{
		my ($id, $rows) = @$batch;

		push @statements, model_batch($case, $id, $case->{read} + 1, $rows);
		$case->{read} += $rows;
	}
	return @statements ? join("\n", 'BEGIN;', @statements, 'COMMIT;', '') : '';
}

# Two queries EXCEPT ALL each other, their rows as text; as an expression.
sub difference
{
	my ($what, $left, $right) = @_;
	my ($l, $r) = map { "SELECT x::text FROM ($_) x" } $left, $right;

	return qq{(SELECT '$what: ' || string_agg(problem, ', ')
		FROM (SELECT 'too many ' || x AS problem FROM ($l EXCEPT ALL $r) y (x)
			  UNION ALL
			  SELECT 'missing ' || x FROM ($r EXCEPT ALL $l) y (x)) z)};
}

# Has the model follow and compares the query with it; returns what differs.
sub check
{
	my ($case) = @_;
	my $follow = follow($case);
	my $kept = 'batch IS NOT NULL AND NOT late';
	my $final = final($case, 't');
	my $plain = over_model($case, $case->{text}, $kept);
	my $columns = $case->{columns};
	my $sink = $case->{mode} eq 'append' ? over_model($case, $case->{text}, "$kept AND $final") : $plain;
	my $held = over_model($case, "$case->{with}SELECT 1 $case->{from}$case->{group}",
		$case->{mode} eq 'complete' ? $kept : "$kept AND NOT $final");
	my $may_do_without = ($case->{index} // 'none') ne 'none' ? 1 : 0;
	my @checks;

	push @checks, "'rows read: $case->{read} of ' || $case->{next} - 1"
	  unless $case->{given_up} || $case->{read} == $case->{next} - 1;
	# each batch: late rows and watermarks
	push @checks, q{(SELECT string_agg(format('batch %s: late %s, watermark %s -> %s, should be %s, %s -> %s',
			p.batch_id, p.late_rows, p.batch_watermark, p.watermark, b.late, b.before, b.after), '; ' ORDER BY p.batch_id)
		FROM streamq.progress p JOIN model.batches b ON b.batch = p.batch_id
		WHERE p.name = 'q' AND (p.late_rows, p.batch_watermark, p.watermark) IS DISTINCT FROM (b.late, b.before, b.after))};
	push @checks, q{(SELECT CASE WHEN (s.total_late_rows, s.watermark) IS DISTINCT FROM (l.late, n.w)
			THEN format('status: late %s, watermark %s, should be %s, %s', s.total_late_rows, s.watermark, l.late, n.w) END
		FROM streamq.status s, model.now n, (SELECT count(*) AS late FROM model.rows WHERE late) l
		WHERE s.name = 'q')} if $case->{read};
	# a batch without rows has something to do
	push @checks, q{(SELECT 'batches without need: ' || string_agg(batch_id::text, ', ')
		FROM (SELECT batch_id, input_rows, output_rows, state_rows, lag(state_rows) OVER (ORDER BY batch_id) AS state_before
			  FROM streamq.progress WHERE name = 'q') p
		WHERE input_rows = 0 AND output_rows = 0 AND state_rows >= state_before)} unless $may_do_without;
	# groups come in the batch under whose watermark they are final
	push @checks, q{(SELECT string_agg(format('batch %s: %s groups, should be %s', batch, output_rows, final - final_before), '; ' ORDER BY batch)
		FROM (SELECT batch, final, lag(final, 1, 0) OVER (ORDER BY batch) AS final_before FROM model.batches) b
			 JOIN streamq.progress p ON p.name = 'q' AND p.batch_id = b.batch
		WHERE output_rows <> final - final_before)} if $case->{mode} eq 'append';
	unless ($case->{given_up})
	{
		push @checks, difference('sink', "SELECT $columns FROM q", $sink),
		  difference('late sink', 'SELECT id, k, v, t FROM too_late', 'SELECT id, k, v, t FROM model.rows WHERE late')
		  x !!$case->{late_sink},
		  difference('live view', "SELECT $columns FROM q_live", $plain) x !!$case->{live_view},
		  qq{(SELECT CASE WHEN p.state_rows <> h.rows AND NOT ($may_do_without = 1 AND p.state_rows = 0)
				THEN format('state: %s rows, should be %s', p.state_rows, h.rows) END
			FROM (SELECT state_rows FROM streamq.progress WHERE name = 'q' ORDER BY batch_id DESC LIMIT 1) p,
				 (SELECT count(*) AS rows FROM ($held) g) h)};
		push @checks, q{(SELECT 'verify: ' || string_agg(v::text, ', ') FROM streamq.verify('q') v)}
		  if $case->{late_sink} || $case->{mode} eq 'complete';
		push @checks, difference('live', "SELECT $columns FROM streamq.live('q') AS t (" . $case->{record} . ')', $plain)
		  if chance(0.3);
	}
	return sql($node, "SET TimeZone = '$case->{zone}';\n${follow}SELECT concat_ws('; ', " . join(', ', grep { $_ ne '' } @checks) . ')');
}

sub one_case
{
	my ($number) = @_;
	my $case = random_case();
	my $problem = create_case($case);
	my $step = 0;

	if ($problem eq '')
	{
		($case->{columns}, $case->{record}) = split /\n/, sql($node, q{
			SELECT unnest(ARRAY[string_agg(format('%I', attname), ', ' ORDER BY attnum),
				string_agg(format('%I %s', attname, format_type(atttypid, atttypmod)), ', ' ORDER BY attnum)])
			FROM pg_attribute WHERE attrelid = 'streamq_query.q'::regclass AND attnum > 0});
		while ($problem eq '' && ++$step <= $steps)
		{
			my @transactions = map { random_transaction($case) }
			  1 .. ($case->{limit} ? one_of(1, 3, 6, 10) : one_of(1, 1, 2, 4));

			$problem = run_query($case, join "\n", "SET TimeZone = 'UTC';", @transactions, 'RESET TimeZone;');
			$problem = check($case) if $problem eq '';
		}
		while ($problem eq '' && $case->{given_up})
		{
			$problem = run_query($case, '');
			$problem = check($case) if $problem eq '';
		}
	}
	is($problem, '', "case $number")
	  or diag("step $step: " . describe($case) . "\n"
		  . sql($node, q{SELECT place, source, id, k, v, t, batch, late FROM model.rows ORDER BY place}) . "\n"
		  . sql($node, q{SELECT * FROM model.batches ORDER BY batch}) . "\n"
		  . sql($node, q{SELECT batch_id, input_rows, late_rows, output_rows, state_rows, batch_watermark, watermark
				FROM streamq.progress ORDER BY batch_id}));
	drop_case($case);
	return;
}

foreach my $number (defined $ENV{STREAMQ_CASE} ? $ENV{STREAMQ_CASE} : 1 .. $cases)
{
	# Each on its own, so that it can be repeated alone.  Neighbouring seeds would
	# give similar numbers.
	srand(hex(substr(md5_hex("$seed $number"), 0, 8)));
	one_case($number);
}

done_testing();
