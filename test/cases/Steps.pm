# Steps.pm
#		Reads the files of cases, <id>.case, and runs them.  README.md describes the
#		format.
#
# A variant of a case is a list of steps.  The steps of the main session that follow
# one another go to one psql; after each of them it prints a mark, so that its words
# can be told apart.
package Steps;

use strict;
use warnings FATAL => 'all';

use Exporter 'import';
use PostgreSQL::Test::Utils;
use StreamqTest;

our @EXPORT = qw(variants_of run_data run_variant helpers_sql);

my %DATA = map { $_ => 1 } qw(setup query mode options batch after rows show figures index only);
my %SCRIPT = map { $_ => 1 }
  qw(sql rows fails warns run same wait session send join restart point log call);

# ---------------------------------------------------------------- reading

# read_case(FILE): a list of blocks { kind, name, parts => [ { word, rest, text } ] }
sub read_case
{
	my ($file) = @_;
	my (@blocks, $text);

	foreach my $line (split /\n/, slurp_file($file))
	{
		if ($line =~ /^== (data|script)(?:: *(.*))?$/)
		{
			push @blocks, { kind => $1, name => $2 // '', parts => [] };
		}
		elsif ($line =~ /^@(\w+) *(.*)$/)
		{
			die "$file: a step before the first block" unless @blocks;
			my $known = $blocks[-1]{kind} eq 'data' ? \%DATA : \%SCRIPT;
			die "$file: \@$1 in a block of kind $blocks[-1]{kind}" unless $known->{$1};
			push @{ $blocks[-1]{parts} }, { word => $1, rest => $2, text => '' };
		}
		elsif (@blocks && @{ $blocks[-1]{parts} })
		{
			$blocks[-1]{parts}[-1]{text} .= "$line\n";
		}
		elsif ($line !~ /^(#|$)/)
		{
			die "$file: what is \"$line\"?";
		}
	}
	return @blocks;
}

# The lines "=> row" of a step, and the rest.
sub rows_and_query
{
	my ($text) = @_;
	my @rows = map { s/^=> ?//r } grep { /^=>/ } split /\n/, $text;
	my $query = join "\n", grep { !/^(=>|#)/ } split /\n/, $text;

	return ([ sort @rows ], $query =~ s/^\s+|[;\s]+$//gr);
}

# ----------------------------------------------------- data: the ways to run it

# How a case of rows is run: batch by batch in the session, a row a batch, by a
# worker, all rows at once, and with an index on the event time in append mode.
my @WAYS = qw(steps cut background once btree brin);

sub way_steps
{
	my ($data, $mode, $way) = @_;
	my @steps;
	my $step = sub { push @steps, { word => $_[0], rest => $_[1] // '', text => $_[2] // '' } };
	my $show = $data->{show} || 'SELECT * FROM q';
	my $run = $way eq 'background'
	  ? sub { $step->('rows', '', "SELECT streamq.wait('q', '60 s')\n=> t"); $step->('same', 'q') }
	  : sub { $step->('run', 'q') };
	my $create = "SELECT streamq.create_query('q', \$q\$ $data->{query} \$q\$, output_mode => '$mode'"
	  . ($data->{options} ? ", $data->{options}" : '')
	  . ($way eq 'cut' ? ', max_rows_per_batch => 1' : '') . ');'
	  . ($way eq 'background' ? "SELECT streamq.start('q');" : '');

	$step->('sql', '', $data->{setup});
	$step->('sql', '', 'CREATE INDEX ON ' . ($data->{index} =~ s/\(/USING $way (/r)) if $way =~ /^b(tree|rin)$/;
	$step->('sql', '', $create) if $way ne 'once';
	$step->('rows', '', "SELECT strategy FROM streamq.queries WHERE name = 'q'\n=> source") if $way =~ /^b(tree|rin)$/;
	foreach my $batch (@{ $data->{batches} })
	{
		$step->('sql', '', "$batch->{text};") if $batch->{text} =~ /\S/;
		next if $way eq 'once';
		$run->();
		$step->('rows', '', "$show\n$batch->{after}") if defined $batch->{after} && $way ne 'cut';
	}
	if ($way eq 'once')
	{
		$step->('sql', '', $create);
		$run->();
	}
	$step->('rows', '', "$show\n$data->{rows}") if defined $data->{rows};
	$step->('rows', '', $_) foreach $way eq 'cut' || $way eq 'once' ? () : @{ $data->{figures} };
	$step->('rows', '', "SELECT * FROM streamq.verify('q') WHERE explained_by_late_rows IS NOT TRUE");
	return \@steps;
}

sub data_variants
{
	my ($block) = @_;
	my %data = (batches => [], figures => [], map { $_ => '' } qw(setup query options show index));
	my (@variants, @modes, @ways);

	foreach my $part (@{ $block->{parts} })
	{
		my ($word, $text) = @$part{qw(word text)};

		if ($word eq 'mode') { @modes = split ' ', $part->{rest} }
		elsif ($word eq 'only') { @ways = split ' ', $part->{rest} }
		elsif ($word eq 'batch') { push @{ $data{batches} }, { text => $text } }
		elsif ($word eq 'after') { $data{batches}[-1]{after} = $text }
		elsif ($word eq 'figures') { push @{ $data{figures} }, $text }
		elsif ($word eq 'options' || $word eq 'index') { $data{$word} = $part->{rest} }
		else { $data{$word} = $text }
	}
	@ways = @WAYS unless @ways;
	foreach my $mode (@modes)
	{
		foreach my $way (@ways)
		{
			next if $way =~ /^b(tree|rin)$/ && !($data{index} && $mode eq 'append');
			push @variants, {
				block => $block,
				name => join(', ', grep { $_ ne '' } $block->{name}, $mode, $way),
				steps => way_steps(\%data, $mode, $way) };
		}
	}
	return @variants;
}

# variants_of(FILE): a list of { name, steps }
sub variants_of
{
	my ($file) = @_;

	return map {
		$_->{kind} eq 'data' ? data_variants($_) : { name => $_->{name}, steps => $_->{parts} }
	} read_case($file);
}

# ------------------------------------------------------------------- running

# What each variant finds: an empty schema public, no query, no role of an earlier one.
my $CLEAN = <<'SQL';
SET statement_timeout = 0;
SELECT count(*) > 0 AS changed FROM pg_db_role_setting \gset
DO $$
DECLARE
	x text;
BEGIN
	FOR x IN SELECT name FROM streamq.queries LOOP
		PERFORM streamq.drop_query(x);
	END LOOP;
	FOR x IN SELECT nspname FROM pg_namespace
		WHERE nspname !~ '^(pg_|streamq|information_schema$|test$)' LOOP
		EXECUTE format('DROP SCHEMA %I CASCADE', x);
	END LOOP;
	FOR x IN SELECT rolname FROM pg_roles WHERE rolname ~ '^case_' LOOP
		EXECUTE format('DROP OWNED BY %I', x);
		EXECUTE format('DROP ROLE %I', x);
	END LOOP;
	EXECUTE format('ALTER DATABASE %I RESET ALL', current_database());
	EXECUTE format('ALTER ROLE %I RESET ALL', current_user);
END $$;
-- settings of the database and of roles are those of new sessions only
\if :changed
\connect -
\endif
CREATE SCHEMA public;
GRANT ALL ON SCHEMA public TO public;
SQL

# Statements that give a database what the steps need.
sub helpers_sql
{
	return <<'SQL';
CREATE SCHEMA test;
GRANT USAGE ON SCHEMA test TO public;

-- Waits until a condition is true.
CREATE FUNCTION test.wait_until(condition text) RETURNS void LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
DECLARE
	is_true boolean;
BEGIN
	FOR i IN 1 .. 6000 LOOP
		PERFORM pg_stat_clear_snapshot();
		EXECUTE 'SELECT ' || condition INTO is_true;
		IF is_true THEN
			RETURN;
		END IF;
		PERFORM pg_sleep(0.01);
	END LOOP;
	RAISE 'this has not become true: %', condition;
END $$;
ALTER FUNCTION test.wait_until(text) RESET search_path;

-- In what a sink differs from the plain SELECT.  A sink of append mode may lack groups
-- that are not final; late rows are in the plain SELECT only.
CREATE FUNCTION test.difference(query text) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
	q streamq.queries;
	names text;
BEGIN
	SELECT * INTO STRICT q FROM streamq.queries WHERE name = query;
	IF q.output_mode <> 'complete' AND q.strategy IS NOT NULL
		AND (SELECT total_late_rows > 0 FROM streamq.status WHERE name = query) THEN
		RETURN;
	END IF;
	SELECT string_agg(quote_ident(attname), ', ') INTO names FROM pg_attribute
		WHERE attrelid = q.definition AND attnum > 0 AND NOT attisdropped;
	RETURN QUERY EXECUTE format($f$
		SELECT 'unexpected: ' || x::text FROM (SELECT %1$s FROM %2$s EXCEPT ALL SELECT %1$s FROM %3$s) x$f$,
		names, q.sink, q.definition);
	IF q.output_mode <> 'append' OR q.strategy IS NULL THEN
		RETURN QUERY EXECUTE format($f$
			SELECT 'missing: ' || x::text FROM (SELECT %1$s FROM %3$s EXCEPT ALL SELECT %1$s FROM %2$s) x$f$,
			names, q.sink, q.definition);
	END IF;
END $$;
SQL
}

# What a step gives to psql, and whether it does so itself.
sub step_sql
{
	my ($step) = @_;
	my ($word, $rest, $text) = @$step{qw(word rest text)};
	my $same = sub { "SELECT * FROM test.difference('$_[0]');\n" };

	return "$text\n;" if $word =~ /^(sql|fails|warns)$/;
	return "SELECT test.wait_until(\$until\$ $rest $text \$until\$);" if $word eq 'wait';
	return (rows_and_query($text))[1] . ';' if $word eq 'rows';
	return join '', map { $same->($_) } split ' ', $rest if $word eq 'same';
	# "q!" only runs
	return join '', map {
		my ($name, $only) = /^(.*?)(!?)$/;
		"\\o /dev/null\nCALL streamq.run('$name');\n\\o\n" . ($only ? '' : $same->($name))
	} split ' ', $rest if $word eq 'run';
	return;
}

# check_step(STEP, OUTPUT, ERRORS): what is wrong with what psql has said.
sub check_step
{
	my ($step, $out, $err) = @_;
	my ($word, $rest, $text) = @$step{qw(word rest text)};
	my $what = "\@$word" . ($rest ne '' ? " $rest" : '');
	my $brief = join ' ', split ' ', $text;
	my ($first) = $err =~ /((?:ERROR|FATAL|PANIC): .*)/;

	$brief = substr($brief, 0, 300);
	return "$what: $brief\n  the server is gone: $err" if $err =~ /server closed|connection to server|PANIC:|TRAP:/;
	if ($word eq 'fails')
	{
		my ($state, $pattern) = $rest =~ /^(\S+) *(.*)$/;
		return "$what: $brief\n  there was no error" unless $first;
		return "$what: $brief\n  $err"
		  unless $err =~ /ERROR:  $state:/ && $err =~ /$pattern/s;
		return;
	}
	return "$what: $brief\n  $err" if $first;
	return "$what: $brief\n  there was no such message: $err" if $word eq 'warns' && $err !~ /$rest/s;
	if ($word eq 'rows')
	{
		my ($expected, $query) = rows_and_query($text);
		my @got = sort split /\n/, $out;

		return "\@rows: $query\n  expected: " . join(' ; ', @$expected) . "\n  got:      " . join(' ; ', @got)
		  if "@{[ join qq{\n}, @$expected ]}" ne join "\n", @got;
	}
	return "$what: the sink differs from the plain SELECT:\n  $out" if $word =~ /^(run|same)$/ && $out =~ /\S/;
	return;
}

# Runs steps of the main session.
sub run_in_psql
{
	my ($run, @steps) = @_;
	my ($in, $out, $err) = ("\\set VERBOSITY verbose\n\\pset null NULL\n", '', '');

	return unless @steps;
	for my $i (0 .. $#steps)
	{
		$in .= "\\echo \@\@$i\n\\warn \@\@$i\n" . step_sql($steps[$i]) . "\n";
	}
	my $handle = IPC::Run::start(
		[ 'psql', '-XAtq', '-d', $run->{node}->connstr($run->{database}), '-f', '-' ],
		'<', \$in, '>', \$out, '2>', \$err,
		IPC::Run::timeout($PostgreSQL::Test::Utils::timeout_default));
	$handle->finish;

	my %parts;
	foreach my $stream ([ out => $out ], [ err => $err ])
	{
		my ($name, $words) = @$stream;
		my (undef, @pieces) = split /^\@\@(\d+)\n/m, $words;
		while (my ($i, $piece) = splice @pieces, 0, 2)
		{
			$parts{$i}{$name} = $piece // '';
		}
	}
	for my $i (0 .. $#steps)
	{
		push @{ $steps[$i]{failures} // $run->{failures} },
		  check_step($steps[$i], $parts{$i}{out} // '', $parts{$i} ? $parts{$i}{err} // '' : "server closed? $err");
	}
	return;
}

# The steps that are none of the main session.
my %OTHER = (
	# another session, which stays
	session => sub {
		my ($run, $step) = @_;
		my ($name, $fails, $pattern) = $step->{rest} =~ /^(\S+)(?: +(fails) *(.*))?$/;
		my $session = $run->{sessions}{$name} //=
		  $run->{node}->background_psql($run->{database}, on_error_stop => 0);

		$session->{stderr} = '';
		my $out = $session->query($step->{text} . ';');
		my $err = $session->{stderr};
		$session->{stderr} = '';
		push @{ $run->{failures} }, "\@session $step->{rest}: $step->{text}  $err"
		  if $fails ? $err !~ /ERROR: .*$pattern/s : $err =~ /ERROR: /;
		return;
	},

	# statements that are not waited for, until "join"
	send => sub {
		my ($run, $step) = @_;

		$run->{sent}{ $step->{rest} } = psql_in_background($run->{node}, $step->{text}, $run->{database});
		return;
	},

	join => sub {
		my ($run, $step) = @_;
		my ($name, $fails, $pattern) = $step->{rest} =~ /^(\S+)(?: +(fails) *(.*))?$/;
		my $sent = delete $run->{sent}{$name};
		my $good = $sent->{handle}->finish;

		push @{ $run->{failures} }, "\@join $step->{rest}: $sent->{err}"
		  if $fails ? $sent->{err} !~ /ERROR: .*$pattern/s : !$good || $sent->{err} =~ /ERROR: /;
		return;
	},

	restart => sub {
		my ($run, $step) = @_;

		$run->{node}->stop($step->{rest} || 'fast');
		$run->{node}->start;
		return;
	},

	point => sub {
		my ($run, $step) = @_;

		$run->{point} = 1;
		set_point($run->{node}, $step->{rest});
		return;
	},

	# "log REGEX": it stands in the log of the variant, "log none REGEX": it does not
	log => sub {
		my ($run, $step) = @_;
		my ($none, $pattern) = $step->{rest} =~ /^(none )?(.*)$/;
		my $log = slurp_file($run->{node}->logfile, $run->{log_offset});
		my @lines = grep { /$pattern/ } split /\n/, $log;

		push @{ $run->{failures} }, "\@log $step->{rest}: " . (@lines ? join("\n", @lines[ 0 .. (@lines > 5 ? 4 : $#lines) ]) : 'no such line')
		  if $none ? @lines : !@lines;
		return;
	},

	call => sub {
		my ($run, $step) = @_;

		push @{ $run->{failures} }, Special->can($step->{rest})->($run);
		return;
	});

# run_data(NODE, DATABASE, VARIANT...): the ways of a block of rows, in one session.
# Returns for each of them a list of complaints.
sub run_data
{
	my ($node, $database, @variants) = @_;
	my $run = { node => $node, database => $database, failures => [] };
	my @steps;

	foreach my $variant (@variants)
	{
		$variant->{failures} = [];
		push @steps, map { { %$_, failures => $variant->{failures} } }
		  { word => 'sql', rest => '', text => "RESET ALL;\n$CLEAN" }, @{ $variant->{steps} };
	}
	eval { run_in_psql($run, @steps); 1 } or push @{ $variants[-1]{failures} }, "the test gave up: $@";
	return map { $_->{failures} } @variants;
}

# run_variant(NODE, DATABASE, VARIANT): a list of complaints.
sub run_variant
{
	my ($node, $database, $variant) = @_;
	my $run = {
		node => $node, database => $database, failures => [], sessions => {}, sent => {},
		log_offset => -s $node->logfile };
	my @pending = ({ word => 'sql', rest => '', text => $CLEAN });

	eval {
		foreach my $step (@{ $variant->{steps} })
		{
			if (my $other = $OTHER{ $step->{word} })
			{
				run_in_psql($run, splice @pending);
				$other->($run, $step);
			}
			else
			{
				push @pending, $step;
			}
		}
		run_in_psql($run, @pending);
		1;
	} or push @{ $run->{failures} }, "the test gave up: $@";
	foreach my $session (values %{ $run->{sessions} })
	{
		eval { $session->quit; 1 } or push @{ $run->{failures} }, "a session does not end: $@";
	}
	$_->{handle}->kill_kill foreach values %{ $run->{sent} };
	clear_point($node) if $run->{point};
	return @{ $run->{failures} };
}

1;
