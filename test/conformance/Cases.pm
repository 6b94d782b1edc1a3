# Cases.pm
#		What the cases of cases.jsonl say: reading them, their tables and statements
#		as SQL, their rows in the form in which they are compared.  It talks to no
#		server; test/t/020_conformance.pl runs the cases.
package Cases;

use strict;
use warnings FATAL => 'all';

use Exporter 'import';
use JSON::PP ();
use PostgreSQL::Test::Utils;

our @EXPORT = qw(read_cases read_skips unknown_keys
  tables_of setup_sql create_sql insert_sql fill_sql rows_of
  canonical canonical_rows minus show sum watermark_matches is_plain_select);

my $EPOCH = '1970-01-01 00:00:00';

# What the runner knows; a key that is not here has to be taught to it first.
# The second group of each list are remarks, or of no account here: there are no
# handlers, no limits of single sources, no policies; and a run() always ends, and
# commits as many batches as it takes, whatever the trigger.
my %KNOWN = map { $_ => 1 } qw(
  id area kind columns tables static_tables watermark watermarks watermark_policy
  watermark_column watermark_delay values modes max_per_trigger output_mode output_columns
  query_sql batches may_support facts
  source_suite source_test source_ref needs notes asserted restart_between trigger ordered
  expect_error error_when expect_accepted status_messages);
my %KNOWN_OF_STEP = map { $_ => 1 } qw(
  rows rows_by_table restart_before fault_before_restart action force_batch idle_triggers
  expect_emitted expect_sink_rows_after expect_watermark expect_batch_watermark
  expect_state_rows expect_dropped_late expect_batch_id expect_progress expect_micro_batches
  expect_logs expect_executed_batches expect_offset_log_equals_commit_log
  expect_num_input_rows expect_num_sources expect_query_failed expect_status
  note trigger handler_result expect_terminated expect_batches_with_both_inputs
  session_watermark_policy);

# Tables that a case names without telling their columns.
my %TABLES = (
	events => [ [ value => 'int' ], [ at => 'timestamptz' ], [ k => 'text' ] ],
	l => [ [ value => 'int' ], [ at => 'timestamptz' ] ],
	r => [ [ value => 'int' ], [ at => 'timestamptz' ] ],
	s1 => [ [ value => 'int' ], [ at => 'timestamptz' ], [ id1 => 'text' ], [ ts1 => 'timestamptz' ] ],
	s2 => [ [ value => 'int' ], [ at => 'timestamptz' ], [ id2 => 'text' ], [ ts2 => 'timestamptz' ] ],
	static_t => [ [ v => 'int' ] ]);

# ------------------------------------------------------------------ the files

# read_cases(FILE).  The order of columns matters, and the decoder does not keep
# that of an object: "columns": {"a": "int", ...} becomes [["a", "int"], ...].
sub read_cases
{
	my ($file) = @_;
	my $pair = qr/("[^"]*")\s*:\s*("[^"]*")/;
	my @cases;

	foreach my $line (split /\n/, slurp_file($file))
	{
		$line =~ s/("(?:output_)?columns"\s*:\s*)\{([^{}]*)\}/"$1\[" . $2 =~ s{$pair}{[$1, $2]}gr . ']'/ge;
		push @cases, JSON::PP::decode_json($line);
	}
	return @cases;
}

# read_skips(FILE): id => { kind, reason }
sub read_skips
{
	my ($file) = @_;
	my %skips;

	foreach my $line (grep { !/^#/ } split /\n/, slurp_file($file))
	{
		my ($id, $kind, $reason) = split /\t/, $line;

		$skips{$id} = { kind => $kind, reason => $reason };
	}
	return %skips;
}

sub unknown_keys
{
	my ($case) = @_;

	return (
		(grep { !$KNOWN{$_} } sort keys %$case),
		(grep { !$KNOWN_OF_STEP{$_} } map { sort keys %$_ } @{ $case->{batches} // [] }));
}

# ------------------------------------------------------------------- SQL text

sub literal
{
	my ($value) = @_;

	return 'NULL' unless defined $value;
	return $value ? 'true' : 'false' if JSON::PP::is_bool($value);
	return "'" . $value =~ s/'/''/gr . "'";
}

sub insert_sql
{
	my ($table, $rows) = @_;
	my @rows = map { '(' . join(', ', map { literal($_) } @$_) . ')' } @$rows;

	return @rows ? "INSERT INTO $table VALUES " . join(', ', @rows) . ";\n" : '';
}

# The tables of a case: name => { columns, watermark, static, rows }.
sub tables_of
{
	my ($case) = @_;
	my ($streams, $statics, $watermarks) = map { $_ // {} } @$case{qw(tables static_tables watermarks)};
	my %tables = (
		(map { $_ => { %{ $streams->{$_} } } } keys %$streams),
		(map { $_ => { %{ $statics->{$_} }, static => 1 } } keys %$statics));

	$tables{events} = { columns => $case->{columns}, watermark => $case->{watermark} } if @{ $case->{columns} };
	foreach my $name (keys %TABLES)
	{
		next if $tables{$name} || ($case->{query_sql} // 'events') !~ /\b$name\b/;
		$tables{$name} = { columns => $TABLES{$name}, static => $name eq 'static_t' };
	}
	foreach my $name (keys %$watermarks)
	{
		my ($table, $column) = split /\./, $name;

		$tables{$table}{watermark} = { column => $column, delay => $watermarks->{$name} };
	}
	return %tables;
}

# setup_sql(CASE, HOW...): a database without queries and tables, then the tables
# of the case; with "index", one on each event time; with "plain_tables", they
# are no sources yet.
sub setup_sql
{
	my ($case, %how) = @_;
	my %tables = tables_of($case);
	my $sql = q{SET client_min_messages = error;
		SELECT streamq.drop_query(name) FROM streamq.queries;
		DROP SCHEMA public CASCADE; CREATE SCHEMA public; GRANT USAGE ON SCHEMA public TO PUBLIC;
	};

	foreach my $name (sort keys %tables)
	{
		my ($columns, $rows, $watermark) = @{ $tables{$name} }{qw(columns rows watermark)};

		$sql .= "CREATE TABLE $name (" . join(', ', map { "$_->[0] $_->[1]" } @$columns) . ");\n";
		$sql .= insert_sql($name, $rows // []);
		next if $tables{$name}{static} || $how{plain_tables};
		$sql .= "SELECT streamq.add_source('$name'"
		  . ($watermark ? ", event_time => '$watermark->{column}', watermark_delay => '$watermark->{delay}'" : '')
		  . ");\n";
		$sql .= "CREATE INDEX ON $name ($watermark->{column});\n" if $how{index} && $watermark;
	}
	return $sql;
}

# create_sql(CASE, QUERY, MODE, ARGUMENT => VALUE...)
sub create_sql
{
	my ($case, $query, $mode, %arguments) = @_;
	my ($limit) = values %{ $case->{max_per_trigger} // {} };

	%arguments = (%arguments, output_mode => $mode);
	$arguments{max_rows_per_batch} = $limit if defined $limit;
	return join(', ', "SELECT streamq.create_query('q', \$conformance\$$query\$conformance\$",
		map { "$_ => '$arguments{$_}'" } sort keys %arguments) . ');';
}

# fill_sql(CASE, STATIC, FROM, TO): rows for its static tables, or for the
# others; the same ones in each run.
sub fill_sql
{
	my ($case, $static, $from, $to) = @_;
	my %tables = tables_of($case);
	my %value = (
		int => 'abs(hashint4(g)) % 5',
		text => 'chr(97 + g % 3)',
		timestamptz => q{'epoch'::timestamptz + g * interval '1 second'});
	my $sql = '';

	foreach my $name (grep { !$tables{$_}{static} == !$static } sort keys %tables)
	{
		$sql .= "INSERT INTO $name SELECT " . join(', ', map { $value{ $_->[1] } } @{ $tables{$name}{columns} })
		  . " FROM generate_series($from, $to) g;\n";
	}
	return $sql;
}

# The rows of a step by table.
sub rows_of
{
	my ($step) = @_;

	return %{ $step->{rows_by_table} // { events => $step->{rows} // [] } };
}

# Whether the sink equals the plain SELECT over all rows in the end: no row can be
# late, and none is held back.
sub is_plain_select
{
	my ($case, $query) = @_;
	my %tables = tables_of($case);

	return 1 if $case->{output_mode} eq 'complete';
	return 0 if $query =~ /\bLIMIT\b/i && !$tables{static_t};
	return !grep { $_->{watermark} } values %tables if $case->{output_mode} eq 'update';
	return $query !~ /\b(?:GROUP\s+BY|DISTINCT)\b/i;
}

# ----------------------------------------------------------------------- rows

# Values of the cases and of the server, in one form.
sub canonical
{
	my ($value) = @_;

	return 'NULL' unless defined $value;
	return $value ? 'true' : 'false' if JSON::PP::is_bool($value);
	return "$1 $2" if $value =~ /^(\d{4,}-\d\d-\d\d)[T ](\d\d:\d\d:\d\d(?:\.\d+)?)(?:Z|\+00(?::00)?)$/;
	return 0 + $value if $value =~ /^-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?$/;
	return qq{"$value"};
}

sub canonical_rows
{
	my ($rows) = @_;

	return [ map { '(' . join(', ', map { canonical($_) } @$_) . ')' } @$rows ];
}

# minus(A, B): the rows of A that B has not, each as often as it is missing.
sub minus
{
	my ($of, $without) = @_;
	my %count;

	$count{$_}++ foreach @$without;
	return [ grep { --($count{$_} //= 0) < 0 } @$of ];
}

sub show
{
	my ($rows) = @_;

	return @$rows ? join(' ', sort @$rows) : 'nothing';
}

# sum(NUMBER OR LIST): a figure of one operator, or of several.
sub sum
{
	my ($figures) = @_;
	my $sum = 0;

	$sum += $_ foreach ref $figures ? @$figures : $figures;
	return $sum;
}

# watermark_matches(EXPECTED, GOT).  The epoch, where those of the cases begin,
# stands for "none yet" and for every earlier time.
sub watermark_matches
{
	my ($expected, $got) = map { canonical($_) } @_;

	return $got eq $expected || ($expected eq $EPOCH && ($got eq 'NULL' || $got lt $EPOCH));
}

1;
