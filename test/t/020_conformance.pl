# 020_conformance.pl
#		The cases of test/conformance: which rows come in batch by batch, and what
#		the sink, the watermark and the figures have to be after each.  The README
#		there tells what a case says, and which ones are not run as they are.
#
# A case is one test; what was expected and what came instead follows as a
# comment.  A case of append mode over an aggregation runs twice, the second time
# with an index on the event time, where no state need be kept.
#
# STREAMQ_CASES="wm- agg-": only the cases whose id begins so.
use strict;
use warnings FATAL => 'all';

use FindBin;
use JSON::PP ();
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

use lib $FindBin::RealBin, "$FindBin::RealBin/../conformance";
use Cases;
use StreamqTest;

# What some cases need to be said with streamq.
my %ADAPTED = (
	# a source is an append-only table, so it can only be the sink of append mode
	'rej-file-sink-modes' => {
		setup => q{CREATE TABLE only_append (count bigint); SELECT streamq.add_source('only_append');},
		arguments => { sink => 'only_append' } },
	# the owner of the only table would have it declared as a source
	'rej-batch-as-stream' => { setup => 'GRANT SELECT ON static_t TO reader;', role => 'SET ROLE reader;' },
	# "window" is no function here
	'window-two-different' => {
		query => q{SELECT date_bin('10 seconds', at, 'epoch') AS w10, date_bin('15 seconds', at, 'epoch') AS w15 FROM events} });

my $node;

# setup_sql(), with what a case needs besides.
sub setup
{
	my ($case, %how) = @_;

	return sql($node, setup_sql($case, %how) . ($ADAPTED{ $case->{id} }{setup} // ''));
}

# create_sql() in the same way.
sub create
{
	my ($case, $query, $mode) = @_;
	my $adapted = $ADAPTED{ $case->{id} } // {};

	return ($adapted->{role} // '') . create_sql($case, $query, $mode, %{ $adapted->{arguments} // {} });
}

# The query of a case, and whether it is valid as a plain SELECT; after setup().
# A sink cannot have two columns of one name, as SELECT * of a join may have:
# they are numbered.
sub query_of
{
	my ($case) = @_;
	my $query = $ADAPTED{ $case->{id} }{query} // $case->{query_sql};
	my ($status, $out) = $node->psql('postgres', "$query \\gdesc");
	my %seen;

	return ($query, 0) if $status;

	my @names = map { s/\|.*//r } split /\n/, $out;
	$query = "SELECT * FROM ($query) AS numbered (" . join(', ', map { "c$_" } 1 .. @names) . ')'
	  if grep { $seen{$_}++ } @names;
	return ($query, 1);
}

# ask(STATEMENTS, EXPRESSION): the value of the expression, of type jsonb, after
# the statements.
sub ask
{
	my ($statements, $expression) = @_;
	my $out = sql($node, "$statements\nSELECT $expression;");

	return JSON::PP::decode_json((split /\n/, $out)[-1]);
}

# What psql has to say of an error, without all that it was to run.
sub short
{
	my ($error) = @_;

	return $error =~ s/^error running SQL: '|'?\s+while running .*//gsr;
}

# --------------------------------------------------------------- a case's run

# A run is a hash with what is known of the query: columns and key of its sink,
# and sink, last batch, watermark, late rows and state rows after the last step.
# {failures} has a line for each complaint.

sub complain
{
	my ($run, $what, $expected, $got) = @_;

	push @{ $run->{failures} },
	  ($run->{step} ? "step $run->{step}" : 'creation') . ": $what: expected $expected, got $got";
	return;
}

sub compare_value
{
	my ($run, $what, $expected, $got) = @_;

	($expected, $got) = (canonical($expected), canonical($got));
	complain($run, $what, $expected, $got) if $expected ne $got;
	return;
}

sub compare_rows
{
	my ($run, $what, $expected, $got) = @_;

	complain($run, $what, show($expected), show($got)) if @$expected != @$got || @{ minus($expected, $got) };
	return;
}

sub compare_with_select
{
	my ($run) = @_;
	my ($extra, $missing, $rows) = compare($node, 'q');

	complain($run, 'sink against the plain SELECT', "its $rows rows", "$extra too many, $missing missing")
	  if $extra || $missing;
	return $rows;
}

# Creates the query; notes the columns of its sink, and those of the sink's key,
# if there is one.
sub create_query
{
	my ($run) = @_;
	my $case = $run->{case};
	my ($query) = query_of($case);
	my $sink = ask(create($case, $query, $case->{output_mode}), q{jsonb_build_object(
		'columns', (SELECT jsonb_agg(jsonb_build_array(attname, format_type(atttypid, NULL)) ORDER BY attnum)
					FROM pg_attribute WHERE attrelid = 'q'::regclass AND attnum > 0 AND NOT attisdropped),
		'key', (SELECT jsonb_agg(a.attname)
				FROM (SELECT * FROM pg_index
					  WHERE indrelid = 'q'::regclass AND indisunique AND indexprs IS NULL AND indpred IS NULL
					  ORDER BY indexrelid LIMIT 1) i, unnest(indkey) k, pg_attribute a
				WHERE a.attrelid = i.indrelid AND a.attnum = k))});
	my @names = map { $_->[0] } @{ $sink->{columns} };
	my %place = map { $names[$_] => $_ } 0 .. $#names;

	$run->{columns} = join ', ', map { qq{"$_"} } @names;
	$run->{key} = [ map { $place{$_} } @{ $sink->{key} } ] if $sink->{key};
	if ($case->{output_columns})
	{
		my %type = (int => 'integer', timestamptz => 'timestamp with time zone');
		my ($expected, $got) = map {
			join ', ', map { "$_->[0] " . ($type{ $_->[1] } // $_->[1]) } @$_
		} $case->{output_columns}, $sink->{columns};

		complain($run, 'columns of the sink', $expected, $got) if $expected ne $got;
	}
	return;
}

# What there is after some statements.  The batches are those since the last step.
sub look
{
	my ($run, $statements) = @_;
	my $seen = ask($statements, qq{jsonb_build_object(
		'written', (SELECT coalesce(jsonb_agg(jsonb_build_array(x, r)), '[]')
				 FROM (SELECT xmin::text::bigint AS x, jsonb_build_array($run->{columns}) AS r FROM q ORDER BY ctid) s),
		'status', (SELECT to_jsonb(s) FROM streamq.status s WHERE name = 'q'),
		'offset', (SELECT max(batch_id) FROM streamq.offsets WHERE name = 'q'),
		'batches', (SELECT coalesce(jsonb_agg(to_jsonb(p) ORDER BY batch_id), '[]') FROM streamq.progress p
					WHERE name = 'q' AND batch_id > $run->{last_batch}))});
	my @rows = map { $_->[1] } @{ $seen->{written} };

	$seen->{sink} = canonical_rows(\@rows);
	@{ $run->{key_of} }{ @{ $seen->{sink} } } = map { canonical_rows([ [ @$_[ @{ $run->{key} } ] ] ])->[0] } @rows
	  if $run->{key};
	return $seen;
}

# Append mode: these rows are new, and none is gone.  Update: each of them is
# there, nothing else is new, and what is gone has been replaced by a row of its
# key.  Complete: they are all.
sub check_emitted
{
	my ($run, $expected, $sink) = @_;
	my ($new, $gone) = (minus($sink, $run->{sink}), minus($run->{sink}, $sink));
	my $mode = $run->{case}{output_mode};

	return compare_rows($run, 'sink', $expected, $sink) if $mode eq 'complete';
	if ($mode eq 'append')
	{
		compare_rows($run, 'new rows', $expected, $new);
	}
	else
	{
		complain($run, 'rows in the sink', show($expected), show($sink)) if @{ minus($expected, $sink) };
		compare_rows($run, 'other rows that change', [], minus($new, $expected));
		if ($run->{key})
		{
			my %replaced = map { $run->{key_of}{$_} => 1 } @$new;

			$gone = [ grep { !$replaced{ $run->{key_of}{$_} } } @$gone ];
		}
		elsif (@$gone <= @$new)
		{
			$gone = [];
		}
	}
	compare_rows($run, 'rows that vanish', [], $gone);
	return;
}

# The rows of a batch are those of one transaction.
sub check_micro_batches
{
	my ($run, $expected, $written) = @_;
	my (@batches, %place);

	foreach my $row (grep { $_->[0] > $run->{last_xid} } @$written)
	{
		$place{ $row->[0] } //= push(@batches, []) - 1;
		push @{ $batches[ $place{ $row->[0] } ] }, $row->[1];
	}
	my ($e, $g) = map {
		join ' | ', map { show(canonical_rows($_)) } @$_
	} $expected, \@batches;
	complain($run, 'rows by batch', $e, $g) if $e ne $g;
	return;
}

# Spark counts groups, of which a row at least is late; only rows that are not
# after the watermark can be.
sub check_late
{
	my ($run, $expected, $step, $late) = @_;
	my %tables = tables_of($run->{case});
	my %rows = rows_of($step);
	my $most = 0;

	return compare_value($run, 'late rows', 0, $late) if sum($expected) == 0;
	foreach my $name (grep { $tables{$_}{watermark} && defined $run->{watermark} } keys %rows)
	{
		my @names = map { $_->[0] } @{ $tables{$name}{columns} };
		my ($place) = grep { $names[$_] eq $tables{$name}{watermark}{column} } 0 .. $#names;

		$most += grep { defined $_->[$place] && canonical($_->[$place]) le canonical($run->{watermark}) } @{ $rows{$name} };
	}
	complain($run, 'late rows', "1 to $most", $late) if $late < 1 || $late > $most;
	return;
}

# The fields of Spark's progress that have a counterpart.  Durations and rates
# would need a clock that can be set.
sub check_progress
{
	my ($run, $expected, $status, $batch) = @_;
	my ($sources, $operators, $time) = @$expected{qw(sources stateOperators eventTime)};

	compare_value($run, 'batch id', $expected->{batchId}, $batch->{batch_id}) if exists $expected->{batchId};
	compare_value($run, 'input rows', $expected->{numInputRows}, $batch->{input_rows}) if exists $expected->{numInputRows};
	compare_value($run, 'number of sources', scalar @$sources, scalar @{ $status->{sources} }) if $sources;
	compare_value($run, 'input rows', $sources->[0]{numInputRows}, $batch->{input_rows})
	  if $sources && @$sources == 1 && exists $sources->[0]{numInputRows};
	compare_value($run, 'state rows', $operators->[0]{numRowsTotal}, $batch->{state_rows}) if $operators && !$run->{index};
	compare_value($run, 'greatest event time', $time->{max}, $batch->{max_event_time}) if $time;
	compare_value($run, 'watermark of the batch', $time->{watermark}, $batch->{batch_watermark}) if $time;
	return;
}

# Everything that a step expects.
sub check_step
{
	my ($run, $step, $seen) = @_;
	my ($sink, $status, $batches) = @$seen{qw(sink status batches)};
	my ($data) = ((grep { $_->{input_rows} > 0 } @$batches), @$batches, {});
	my %rows = rows_of($step);
	my %figures = (
		expect_batch_id => [ 'batch id', $data->{batch_id} // $status->{batch_id} ],
		expect_executed_batches => [ 'number of batches', scalar @$batches ],
		expect_num_sources => [ 'number of sources', scalar @{ $status->{sources} } ]);
	my %watermarks = (
		expect_watermark => [ 'watermark', $status->{watermark} ],
		expect_batch_watermark => [ 'watermark of the batch', $data->{batch_watermark} ]);

	check_emitted($run, canonical_rows($step->{expect_emitted}), $sink) if $step->{expect_emitted};
	compare_rows($run, 'sink', canonical_rows($step->{expect_sink_rows_after}), $sink) if $step->{expect_sink_rows_after};
	check_micro_batches($run, $step->{expect_micro_batches}, $seen->{written}) if $step->{expect_micro_batches};
	foreach my $key (grep { exists $step->{$_} } sort keys %watermarks)
	{
		my ($what, $got) = @{ $watermarks{$key} };

		compare_value($run, $what, $step->{$key}, $got) unless watermark_matches($step->{$key}, $got);
	}
	compare_value($run, 'state rows', sum($step->{expect_state_rows}), @$batches ? $batches->[-1]{state_rows} : $run->{state_rows})
	  if exists $step->{expect_state_rows} && !$run->{index};
	check_late($run, $step->{expect_dropped_late}, $step, $status->{total_late_rows} - $run->{late})
	  if exists $step->{expect_dropped_late};
	compare_value($run, $figures{$_}[0], $step->{$_}, $figures{$_}[1]) foreach grep { exists $step->{$_} } sort keys %figures;
	if (my $logs = $step->{expect_logs})
	{
		compare_value($run, 'last offset', $logs->{offset}, $seen->{offset});
		compare_value($run, 'last commit', $logs->{commit}, $status->{batch_id});
	}
	compare_value($run, 'last offset', $status->{batch_id}, $seen->{offset}) if $step->{expect_offset_log_equals_commit_log};
	# rows of each scan in Spark, here each row counts once
	compare_value($run, 'input rows', sum([ map { scalar @$_ } values %rows ]), $data->{input_rows})
	  if exists $step->{expect_num_input_rows};
	check_progress($run, $step->{expect_progress}, $status, $data) if $step->{expect_progress};
	return;
}

# A batch that fails leaves nothing behind, in the caller's session as in the
# background, where the query ends up as failed.
sub check_failing_step
{
	my ($run, $step) = @_;
	my $before = look($run, '');
	my $error = sql_error($node, q{CALL streamq.run('q')});

	complain($run, 'run()', 'an error', $error || 'none') if $error !~ /ERROR:  (?!XX)/;
	if ($step->{expect_status})
	{
		sql($node, q{SELECT streamq.start('q')});
		$node->poll_query_until('postgres', q{SELECT state = 'failed' FROM streamq.status WHERE name = 'q'})
		  or complain($run, 'background', 'a failed query', query_state($node, 'q'));
		$error = sql_error($node, q{SELECT streamq.wait('q')});
		complain($run, 'wait()', 'an error', $error || 'none') if $error !~ /ERROR:  (?!XX)/;
		compare_value($run, 'last_error is set', 't',
			sql($node, q{SELECT last_error IS NOT NULL FROM streamq.status WHERE name = 'q'}));
		sql($node, q{SELECT streamq.stop('q')});
	}
	my $after = look($run, '');
	compare_rows($run, 'sink', $before->{sink}, $after->{sink});
	compare_value($run, 'last batch', $before->{status}{batch_id}, $after->{status}{batch_id});
	return;
}

# The server again, after a crash where Spark's log is to lose something.
sub restart
{
	my ($step) = @_;

	return $node->restart unless $step->{fault_before_restart};
	$node->stop('immediate');
	return $node->start;
}

# The rows of a step, in one transaction.
sub step_sql
{
	my ($step) = @_;
	my %rows = rows_of($step);
	my $sql = join '', "BEGIN;\n", map { insert_sql($_, $rows{$_}) } sort keys %rows;

	# the offset moves, and there are no rows
	$sql .= 'INSERT INTO events DEFAULT VALUES; DELETE FROM events WHERE xmin::text = pg_current_xact_id()::text;'
	  if $step->{force_batch};
	$sql .= "COMMIT;\n";
	$sql .= q{SELECT streamq.stop('q');} if ($step->{action} // '') eq 'stop';
	return $sql;
}

sub run_step
{
	my ($run, $step) = @_;

	restart($step) if $step->{restart_before};
	if ($step->{expect_query_failed})
	{
		sql($node, step_sql($step));
		check_failing_step($run, $step);
		$run->{failed} = 1;
		return;
	}

	my $seen = look($run, step_sql($step) . q{CALL streamq.run('q');} x (1 + ($step->{idle_triggers} // 0)));
	check_step($run, $step, $seen);

	($run->{last_xid}) = sort { $b <=> $a } $run->{last_xid}, map { $_->[0] } @{ $seen->{written} };
	$run->{last_batch} = $seen->{status}{batch_id} // -1;
	$run->{state_rows} = $seen->{batches}[-1]{state_rows} if @{ $seen->{batches} };
	@$run{qw(sink watermark late)} = ($seen->{sink}, @{ $seen->{status} }{qw(watermark total_late_rows)});
	return;
}

# A case of kind data.  Returns what was wrong.
sub run_data
{
	my ($case, %how) = @_;
	my $run = {
		case => $case, failures => [], step => 0, sink => [], key_of => {},
		last_batch => -1, last_xid => 0, late => 0, state_rows => 0, %how
	};

	eval {
		setup($case, %how);
		create_query($run);
		foreach my $step (@{ $case->{batches} })
		{
			$run->{step}++;
			run_step($run, $step);
		}
		compare_with_select($run) if !$run->{failed} && is_plain_select($case, $case->{query_sql});
		1;
	} or complain($run, 'error', 'none', short($@));
	return $run->{failures};
}

# --------------------------------------------- what is accepted, and what not

# create_error(CASE, QUERY, MODE): SQLSTATE and words of create_query(), both
# empty if it accepts.
sub create_error
{
	my $error = sql_error($node, create(@_));

	return ($error =~ /ERROR:\s+(\w{5}):/ ? $1 : $error ? 'none' : '', $error);
}

# An error that refuses something, not one of a query that is mistyped, of
# missing rights, or of a server that is in trouble.
sub is_refusal
{
	return $_[0] !~ /^(?:none|08|53|57|58|XX|42501|42601|42701|42703|42704|42883|42P01)/;
}

# An accepted query runs, and gives what the plain SELECT gives.
sub try_accepted
{
	my ($case, $query) = @_;
	my $run = { failures => [], step => 0 };
	my $rows = 1;

	eval {
		sql($node, fill_sql($case, 1, 1, 2));
		foreach my $from (1, 11, 21)
		{
			$run->{step}++;
			sql($node, fill_sql($case, 0, $from, $from + 9) . q{CALL streamq.run('q');});
			$rows = compare_with_select($run) if is_plain_select($case, $query);
		}
		complain($run, 'plain SELECT', 'some rows', 'none') unless $rows;
		1;
	} or complain($run, 'error', 'none', short($@));
	return $run->{failures};
}

sub run_accept
{
	my ($case) = @_;

	setup($case);
	my ($query, $valid) = query_of($case);
	my (undef, $error) = create_error($case, $query, $case->{output_mode});
	return ["create_query(): expected to be accepted, got $error"] if $error;
	return try_accepted($case, $query);
}

sub run_reject
{
	my ($case) = @_;
	my @failures;

	foreach my $mode (@{ $case->{modes} // [ $case->{output_mode} ] })
	{
		setup($case);
		my ($query, $valid) = query_of($case);
		my ($sqlstate, $error) = create_error($case, $query, $mode);

		if (!$valid)
		{
			push @failures, 'the query is not valid as a plain SELECT';
		}
		elsif ($error)
		{
			push @failures, "output mode $mode: expected to be refused, got $error" unless is_refusal($sqlstate);
		}
		elsif ($case->{may_support})
		{
			note("$case->{id}: streamq supports it");
			push @failures, @{ try_accepted({ %$case, output_mode => $mode }, $query) };
		}
		else
		{
			push @failures, "output mode $mode: expected to be refused ($case->{expect_error}), got accepted";
		}
	}
	return \@failures;
}

# What waits for later work must not be accepted, and run wrongly, before.
sub run_later
{
	my ($case) = @_;

	setup($case);
	my ($query, $valid) = query_of($case);
	my ($sqlstate, $error) = create_error($case, $query, $case->{output_mode});

	return ['create_query() accepts it: take it off skip.tsv'] unless $error;
	return ["expected to be refused, got $error"] if $valid && !is_refusal($sqlstate);
	return [];
}

# ---------------------------------------------------- cases with code of their own

# refused(CASE, SQLSTATE, STATEMENT...): each of them is, with this error.
sub refused
{
	my ($case, $sqlstate, @statements) = @_;

	setup($case, plain_tables => 1);
	return map { sql_error($node, $_) =~ /ERROR:  $sqlstate:/ ? () : "expected to be refused with $sqlstate: $_" } @statements;
}

# hold(STATEMENTS, NAME => CONDITION...): what does not hold after the statements.
sub hold
{
	my ($statements, %conditions) = @_;
	my @names = sort keys %conditions;
	my $got = ask($statements, 'jsonb_build_array(' . join(', ', map { "($conditions{$_})" } @names) . ')');

	return map { $got->[$_] ? () : "expected: $names[$_]" } 0 .. $#names;
}

my $CREATE_Q = q{SELECT streamq.create_query('q', 'SELECT value FROM events');};

my %CODE = (
	'admission-bad-limit' => sub {
		my ($case) = @_;

		return map {
			refused($case, /^-?\d+$/ ? '22023' : '22P02',
				"SELECT streamq.create_query('q', 'SELECT value FROM events', max_rows_per_batch => '$_')")
		} @{ $case->{values} };
	},
	'wm-bad-column' => sub {
		my ($case) = @_;

		return refused($case, '42703',
			"SELECT streamq.add_source('events', event_time => '$case->{watermark_column}', watermark_delay => '1 second')");
	},
	'wm-negative-delay' => sub {
		my ($case) = @_;

		return refused($case, '22023',
			"SELECT streamq.add_source('events', event_time => 'at', watermark_delay => '$case->{watermark_delay}')");
	},

	# A query keeps its number, and its name is its own.  That nobody runs a query
	# twice at a time is for other tests.
	'api-identity' => sub {
		my ($case) = @_;
		my $number = q{SELECT query_id FROM streamq.queries WHERE name = 'q'};

		setup($case);
		sql($node, $CREATE_Q . q{SELECT streamq.create_query('q2', 'SELECT value FROM events')});
		my $before = sql($node, $number);
		my $error = sql_error($node, $CREATE_Q);
		$node->restart;
		return (
			$error =~ /ERROR:  42710:/ ? () : 'expected: a name is used once',
			hold('',
				'two queries differ' => 'SELECT count(DISTINCT query_id) = 2 FROM streamq.queries',
				'a restart changes no number' => "($number) = $before"));
	},

	# Nothing has happened before the first batch.
	'api-last-progress-null' => sub {
		my ($case) = @_;

		setup($case);
		return hold($CREATE_Q . q{CALL streamq.run('q');},
			'no progress' => 'SELECT count(*) = 0 FROM streamq.progress',
			'no last batch' => q{SELECT batch_id IS NULL FROM streamq.status WHERE name = 'q'});
	},

	# Nobody waits for ever for a query that has stopped.
	'trigger-await-after-once' => sub {
		my ($case) = @_;
		my $wait = q{SET statement_timeout = '20s'; SELECT streamq.wait('q');};

		setup($case);
		sql($node, $CREATE_Q . q{INSERT INTO events VALUES (1); CALL streamq.run('q');});
		return (
			sql($node, $wait) eq 't' ? () : 'expected: wait() returns true',
			sql_error($node, "INSERT INTO events VALUES (2); $wait") =~ /ERROR:  (?!57|XX)/ ? ()
			: 'expected: wait() for rows that nobody will read is an error');
	},

	# A delay is an interval like others.
	'wm-delay-units' => sub {
		my ($case) = @_;
		my ($statements, $n, %conditions) = ('', 0);

		setup($case);
		foreach my $delay (map { $_->{delay} } @{ $case->{facts} })
		{
			$n++;
			$statements .= qq{CREATE TABLE t$n (at timestamptz);
				SELECT streamq.add_source('t$n', event_time => 'at', watermark_delay => '$delay');
				SELECT streamq.create_query('q$n', 'SELECT at FROM t$n');
				INSERT INTO t$n VALUES ('2001-05-31 12:00');
				CALL streamq.run('q$n');\n};
			$conditions{"a watermark $delay behind"} =
			  "SELECT watermark = timestamptz '2001-05-31 12:00' - interval '$delay' FROM streamq.status WHERE name = 'q$n'";
		}
		return hold($statements, %conditions);
	});

# ----------------------------------------------------------------------- main

# One test.  A case that gives up half-way, be it as the server has crashed, is
# no obstacle to the next one.
sub verdict
{
	my ($name, $failures) = @_;

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	ok(!@$failures, $name) or diag(join "\n", @$failures);
	$node->poll_query_until('postgres', 'SELECT true') if @$failures;
	return;
}

# The same steps with nothing to expect but the plain SELECT.
sub without_expectations
{
	my ($case) = @_;
	my @steps;

	foreach my $step (@{ $case->{batches} })
	{
		push @steps, { map { $_ => $step->{$_} } grep { !/^expect_/ } keys %$step };
	}
	return { %$case, batches => \@steps };
}

# failures_of(CASE, KIND, HOW...)
sub failures_of
{
	my ($case, $kind, %how) = @_;
	my $code = $CODE{ $case->{id} } // $CODE{ $case->{id} =~ s/-\d+$//r };
	my %run = (
		later => \&run_later,
		differs => sub { run_data(without_expectations(@_)) },
		data => \&run_data,
		accept => \&run_accept,
		reject => \&run_reject);

	return eval { $code ? [ $code->($case) ] : $run{$kind}->($case, %how) } // [ short($@) ];
}

my @cases = read_cases("$FindBin::RealBin/../conformance/cases.jsonl");
my %skips = read_skips("$FindBin::RealBin/../conformance/skip.tsv");
my @only = split /[ ,]+/, $ENV{STREAMQ_CASES} // '';
my %remark = (later => ', waits and is refused', differs => ', as streamq does it');
my %count;

$node = new_server('conformance', "timezone = 'UTC'", 'autovacuum = off');
sql($node, 'CREATE ROLE reader');

foreach my $case (@cases)
{
	my ($id, $skip) = ($case->{id}, $skips{ $case->{id} });
	my $kind = $skip ? $skip->{kind} : $case->{kind};
	my $name = "$id: $case->{source_test}" . ($remark{$kind} // '');

	next if @only && !grep { $id =~ /^\Q$_/ } @only;
	$count{ $skip ? $kind : 'run' }++;
	if ($kind eq 'clock' || $kind eq 'absent')
	{
		note("$id: not run: $skip->{reason}");
		next;
	}
	my @unknown = $skip ? () : unknown_keys($case);
	verdict($name, @unknown ? ["it says what is not checked: @unknown"] : failures_of($case, $kind));
	verdict("$name, with an index", failures_of($case, $kind, index => 1))
	  if $kind eq 'data' && $case->{output_mode} eq 'append' && $case->{query_sql} =~ /\bGROUP\s+BY\b/i;
}

my %ids = map { $_->{id} => 1 } @cases;
is(join(' ', grep { !$ids{$_} } sort keys %skips), '', 'skip.tsv names cases');
is(join(' ', grep { $skips{$_}{kind} !~ /^(?:later|differs|clock|absent)$/ } sort keys %skips), '', 'and tells why');
is(scalar(keys %ids), scalar @cases, 'each case has a name of its own');
note(scalar(@cases) . ' cases: ' . join(', ', map { "$count{$_} $_" } sort keys %count));

done_testing();
