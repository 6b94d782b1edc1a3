# 031_fuzz.pl
#		create_query is given mutated SQL.  Whatever it is: the server does not crash, an
#		error has the SQLSTATE of what is wrong and not that of an internal error, and a
#		query that is accepted gives what the plain SELECT gives.
#
# A round makes some tens of texts (Fuzz.pm), tries to create a query of each, inserts
# rows in several transactions, runs the queries in between, and compares.  Queries of
# append mode that aggregate are compared when all groups have become final: a row far in
# the future does that, which is deleted again.  A result that differs counts only if the
# plain SELECT is one that has a definite result: it has to give the same over tables
# with the same rows in another order.
#
# STREAMQ_SEED repeats a run, STREAMQ_ROUND one round of it alone, STREAMQ_ROUNDS makes it
# longer, STREAMQ_FUZZ_SECONDS lets it go on for that long (scripts/fuzz).
use strict;
use warnings FATAL => 'all';

use Digest::MD5 qw(md5_hex);
use FindBin;
use lib $FindBin::RealBin;
use Fuzz;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use StreamqTest;
use Test::More;
use Time::HiRes qw(time);

my $seconds = $ENV{STREAMQ_FUZZ_SECONDS};
my $seed = $ENV{STREAMQ_SEED} // (defined $seconds ? int(rand(2**31)) : 1);
my $rounds = $ENV{STREAMQ_ROUNDS} // 8;
my $queries_per_round = 40;
my $minimise_seconds = 60;
my @corpus = fuzz_corpus("$FindBin::RealBin/../..");
my $node = new_server('fuzz', 'restart_after_crash = off', 'autovacuum = off', 'jit = off', 'fsync = off',
	'client_min_messages = error', 'log_min_messages = fatal', q{timezone = 'UTC'});
my @sources = qw(s1 s2 s events sp);
# what gives another result each time
my $changing = qr/\b(?:now|current_date|current_time|current_timestamp|localtime|localtimestamp|random|nextval
	|(?:clock|statement|transaction)_timestamp|txid_current|pg_class|queries|tables|current_offset)\b/xi;
my %states;
my %count = map { $_ => 0 } qw(tried accepted compared undefined);

note("seed $seed");

sql($node, q{
	CREATE SCHEMA fuzz;
	CREATE SCHEMA shuffled;
	CREATE TYPE fuzz.colour AS ENUM ('red', 'green', 'blue');
	CREATE TYPE fuzz.pair AS (a int, b text);
	CREATE DOMAIN fuzz.percent AS int CHECK (VALUE BETWEEN 0 AND 100);
	SET search_path = fuzz;
	} . fuzz_schema() . q{
	SET search_path = shuffled;
	} . fuzz_schema() . q{
	SET search_path = fuzz;
	SELECT streamq.add_source('s1', 'at', '1000 days'), streamq.add_source('s2', 'at', '1000 days'),
		streamq.add_source('s', 'at', '1000 days'), streamq.add_source('events', 'at', '1000 days'),
		streamq.add_source('sp');

	-- executes a statement; how it was refused, in one line
	CREATE FUNCTION fuzz.attempt(statement text) RETURNS text LANGUAGE plpgsql AS $$
	DECLARE
		context text;
	BEGIN
		SET LOCAL statement_timeout = '5s';
		EXECUTE statement;
		RETURN '';
	EXCEPTION WHEN OTHERS OR ASSERT_FAILURE THEN
		GET STACKED DIAGNOSTICS context = PG_EXCEPTION_CONTEXT;
		RETURN SQLSTATE || ' ' || translate(left(SQLERRM, 300), E'\n\r', '  ');
	END $$;

	-- the rows of a query as text, sorted; or null if it fails
	CREATE FUNCTION fuzz.result(query text, path text) RETURNS text[] LANGUAGE plpgsql AS $$
	DECLARE
		answer text[];
	BEGIN
		PERFORM set_config('search_path', path, true);
		EXECUTE 'SELECT coalesce(array_agg("~"::text ORDER BY "~"::text COLLATE "C"), ''{}'') FROM (' || query || ') "~"' INTO answer;
		PERFORM set_config('search_path', 'fuzz', true);
		RETURN answer;
	EXCEPTION WHEN OTHERS THEN
		RETURN NULL;
	END $$;

	-- the same rows in other places
	CREATE PROCEDURE fuzz.shuffle() LANGUAGE plpgsql AS $$
	DECLARE
		source text;
		columns text;
	BEGIN
		FOREACH source IN ARRAY '{s1,s2,s,events,sp,e,d2,static_t,tree,dp}'::text[] LOOP
			SELECT string_agg(quote_ident(attname), ', ' ORDER BY attnum) INTO columns
			FROM pg_attribute WHERE attrelid = ('shuffled.' || source)::regclass AND attnum > 0 AND attgenerated = '';
			EXECUTE format('DELETE FROM shuffled.%1$I; INSERT INTO shuffled.%1$I (%2$s) SELECT %2$s FROM fuzz.%1$I ORDER BY random()', source, columns);
		END LOOP;
	END $$;

	-- the sink against the plain SELECT: empty, "undefined ..." or what differs
	CREATE FUNCTION fuzz.verdict(query_name text, query text) RETURNS text LANGUAGE plpgsql AS $$
	DECLARE
		plain text[] := fuzz.result(query, 'fuzz');
		sink text[] := fuzz.result((SELECT 'TABLE ' || q.sink FROM streamq.queries q WHERE name = query_name), 'fuzz');
		wanted text[];
		difference text;
	BEGIN
		IF plain IS NULL THEN
			RETURN 'undefined: the plain SELECT fails';
		ELSIF plain = sink THEN
			RETURN '';
		END IF;
		FOR i IN 1 .. 12 LOOP
			CALL fuzz.shuffle();
			PERFORM set_config('enable_hashagg', (random() < 0.5)::text, true), set_config('enable_sort', (random() < 0.5)::text, true),
				set_config('enable_hashjoin', (random() < 0.5)::text, true), set_config('enable_nestloop', (random() < 0.5)::text, true);
			IF fuzz.result(query, 'shuffled') IS DISTINCT FROM plain THEN
				RETURN 'undefined';
			END IF;
		END LOOP;
		SELECT string_agg(problem, ', ') INTO difference
		FROM (SELECT 'too many ' || r AS problem FROM (SELECT unnest(sink) EXCEPT ALL SELECT unnest(plain)) t (r)
			  UNION ALL SELECT 'missing ' || r FROM (SELECT unnest(plain) EXCEPT ALL SELECT unnest(sink)) t (r) LIMIT 10) p;
		RETURN translate(format('%s rows instead of %s: %s', cardinality(sink), cardinality(plain), difference), E'\n\r', '  ');
	END $$;

	-- rows from first to last
	CREATE PROCEDURE fuzz.load(first int, last int) LANGUAGE sql AS $$
		INSERT INTO fuzz.s1 (id, k, v, tags, at, amount, j, c, p, pct, raw, "Odd ""Name", r, js, de, f, u, iv, b, pt)
		SELECT i, nullif(i % 5, 4), 'v' || i % 4, CASE i % 3 WHEN 0 THEN '{}' WHEN 1 THEN ARRAY['a', NULL, 't' || i % 4] END::text[],
			   '2024-01-01 12:00+00'::timestamptz + i % 11 * interval '7 hours', i / 4.0,
			   jsonb_build_object('x', i % 3, 'y', 'z'), (ARRAY['red', 'green', 'blue'])[i % 3 + 1]::fuzz.colour, ROW(i % 2, 'p')::fuzz.pair, i % 101,
			   decode(lpad(to_hex(i), 8, '0'), 'hex'), i % 3, int4range(i % 4, i % 4 + 5), '{"n":1}', chr(97 + i % 6),
			   i % 4 / 4.0, md5((i % 5)::text)::uuid, make_interval(mins => i % 4), nullif(i % 3, 0) = 1, point(i, -i)
		FROM generate_series(first, last) i;
		INSERT INTO fuzz.s2 SELECT i % 3, 1000 + i, 'w' || i % 5, '2024-02-01'::timestamptz + i % 7 * interval '5 hours'
		FROM generate_series(first, last) i WHERE i % 2 = 0;
		INSERT INTO fuzz.sp (id, k, v, at) SELECT i, i % 4, 'p' || i % 5, '2024-02-01'::timestamptz + i % 3 * interval '1 day'
		FROM generate_series(first, last) i;
		INSERT INTO fuzz.s SELECT i, i % 4, 'v' || i % 3, '2024-01-01'::timestamptz + i % 9 * interval '3 hours', chr(65 + i % 5),
			i % 5 / 2.0, '2024-01-01'::timestamp + i % 9 * interval '3 hours', '2024-01-01'::date + i % 6 FROM generate_series(first, last) i;
		INSERT INTO fuzz.events SELECT i % 6, '2024-01-01'::timestamptz + i % 8 * interval '4 seconds', 'k' || i % 3, i FROM generate_series(first, last) i;
	$$;
});

# Those that PostgreSQL takes are tried more often than those that it does not.
{
	my ($stdout) = execute(map { "SELECT 'corpus', $_, fuzz.attempt(" . quoted("EXPLAIN $corpus[$_]") . ');' } 0 .. $#corpus);
	my @valid = @corpus[ $stdout =~ /^corpus\|(\d+)\|$/mg ];

	note(scalar(@corpus) . ' queries in the corpus, ' . @valid . ' of them valid');
	@corpus = (@corpus, (@valid) x 10);
}

# -------------------------------------------------------------------- a round

# A dollar-quoted literal.
sub quoted
{
	my ($text) = @_;
	my $tag = 'fuzz';

	$tag .= 'z' while index($text, "\$$tag") >= 0;
	return "\$$tag\$$text\$$tag\$";
}

sub random_candidate
{
	my ($number) = @_;
	my @hostile = (q{"}, q{'}, '\\', ' ', '%s', ';--', 'ä', '$$', '', '', '', '');
	my $candidate = {
		name => one_of(qw(q select Q)) . $number . one_of(@hostile),
		text => mutated(\@corpus),
		mode => one_of(qw(append append append update update complete complete)),
		options => ''
	};

	$candidate->{options} .= ', max_rows_per_batch => ' . one_of(1, 2, 5, 20) if chance(0.3);
	$candidate->{options} .= ", live_view => 'live_$number'" if chance(0.05);
	$candidate->{options} .= ", late_sink => 'late_$number'" if chance(0.05);
	$candidate->{options} .= ', sources => ' . one_of(q{'{s1}'}, q{'{s,sp}'}, q{'{d}'}, q{'{}'}) if chance(0.05);
	$candidate->{own_sink} = chance(0.08);
	return $candidate;
}

# Most of them such as PostgreSQL takes: otherwise most were syntax errors.
sub random_candidates
{
	my @all = map { random_candidate($_) } 1 .. 5 * $queries_per_round;
	my ($stdout) = execute(map { "SELECT 'plain', $_, fuzz.attempt(" . quoted("EXPLAIN $all[$_]{text}") . ');' } 0 .. $#all);
	my %valid = map { $_ => 1 } $stdout =~ /^plain\|(\d+)\|$/mg;
	my @chosen = grep { $valid{$_} || chance(0.05) } 0 .. $#all;

	return @all[ @chosen > $queries_per_round ? @chosen[ 0 .. $queries_per_round - 1 ] : @chosen ];
}

# Executes statements, each of which is followed by a line of the form "key|...".
# Returns the lines, what went wrong by key, and whether the connection was lost.
sub execute
{
	my (@statements) = @_;
	my ($stdout, $stderr) = ('', '');

	# it dies where the connection is lost
	eval {
		$node->psql('postgres',
			join("\n", q{SET search_path = fuzz; SET statement_timeout = '20s';}, '\set VERBOSITY verbose', @statements, "\\echo 'end|of all'", ''),
			on_error_stop => 0, stdout => \$stdout, stderr => \$stderr);
		1;
	} or $stderr .= $@;
	return ($stdout, $stderr, $stdout !~ /^end\|of all$/m);
}

# Has the round begin with all texts given, notes with each candidate what is wrong
# about it, and returns the ones with a problem.
sub one_round
{
	my (@candidates) = @_;
	my ($stdout, $stderr, $lost, @script);

	foreach my $number (0 .. $#candidates)
	{
		my $it = $candidates[$number];
		my $create = sprintf "SELECT streamq.create_query(%s, %s, '%s'%s)", quoted($it->{name}), quoted($it->{text}),
		  $it->{mode}, $it->{options} . ($it->{own_sink} ? ", sink => 'fuzz.sink_$number'" : '');

		delete @$it{qw(problem refused)};
		if ($it->{own_sink})
		{
			$create = "CREATE TABLE fuzz.sink_$number AS SELECT * FROM ($it->{text}) \"~\" WITH NO DATA; $create";
		}
		push @script, "\\echo 'begin|$number'",
		  "SELECT 'try', $number, fuzz.attempt(" . quoted($create) . ');';
		$count{tried}++;
	}
	($stdout, $stderr, $lost) = execute(@script);
	return lost($stdout, $stderr, @candidates) if $lost;
	while ($stdout =~ /^try\|(\d+)\|(.*)$/mg)
	{
		my ($it, $answer) = ($candidates[$1], $2);

		$it->{refused} = $answer;
		$count{accepted}++ if $answer eq '';
		$states{ substr($answer, 0, 5) || 'accepted' }++;
		# if PostgreSQL cannot plan it either, it is not ours
		$it->{problem} = "is refused: $answer"
		  if internal($answer) && !internal(plain_error($it->{text}));
	}
	my @accepted = grep { ($candidates[$_]{refused} // 'no') eq '' } 0 .. $#candidates;
	my @more;

	if (@accepted)
	{
		my @names = map { quoted($candidates[$_]{name}) } @accepted;
		my @run = map { "\\warn 'run|$_|'\n\\echo 'begin|$_'\nCALL streamq.run(" . quoted($candidates[$_]{name}) . ');' } @accepted;
		my @compare = map { "SELECT 'verdict', $_, fuzz.verdict(" . quoted($candidates[$_]{name}) . ', ' . quoted($candidates[$_]{text}) . ');' } @accepted;
		my $n = int(rand(8));

		($stdout, $stderr, $lost) = execute(
			$n > 0 ? "CALL fuzz.load(1, $n);" : (),
			@run,
			"BEGIN; CALL fuzz.load(100, 103); ROLLBACK;",
			"CALL fuzz.load(9, 12);", 'BEGIN; CALL fuzz.load(13, 15); SAVEPOINT a; CALL fuzz.load(30, 33); ROLLBACK TO a; CALL fuzz.load(16, 21); COMMIT;',
			@run,
			'INSERT INTO s2 (k, id) VALUES (1, 2000); INSERT INTO s (id, k) VALUES (50, 1); DELETE FROM s2 WHERE at IS NULL; DELETE FROM s WHERE at IS NULL;',
			'CALL fuzz.load(22, 24);',
			@run, "\\echo 'phase|1'", @compare,
			# of all kinds, whatever they say
			(map { my $name = quoted($candidates[$_]{name});
				map { ("\\echo 'begin|$accepted[0]'", $_) } (
				"SELECT 'more', $_, fuzz.attempt(" . quoted("SELECT streamq.explain($name)") . ');',
				"SELECT 'more', $_, fuzz.attempt(" . quoted("SELECT streamq.verify($name)") . ');',
				"SELECT 'more', $_, fuzz.attempt(" . quoted("SELECT streamq.pending($name)") . ');') } @accepted),
			# groups become final
			q{INSERT INTO s1 (id, at) VALUES (-1, '2100-01-01'); INSERT INTO s2 (id, at) VALUES (-1, '2100-01-01');
				INSERT INTO s (id, at) VALUES (-1, '2100-01-01'); INSERT INTO events (id, at) VALUES (-1, '2100-01-01');},
			@run, @run,
			'DELETE FROM s1 WHERE id < 0; DELETE FROM s2 WHERE id < 0; DELETE FROM s WHERE id < 0; DELETE FROM events WHERE id < 0;',
			"\\echo 'phase|2'", @compare,
			q{SELECT 'aggregates', name FROM streamq.queries WHERE strategy IS NOT NULL AND output_mode = 'append';});
		return lost($stdout, $stderr, @candidates) if $lost;

		my %late = map { $_ => 1 } $stdout =~ /^aggregates\|(.*)$/mg;
		my ($at_run, %errors);

		foreach my $line (split /\n/, $stderr)
		{
			$at_run = $1 if $line =~ /^run\|(\d+)\|/;
			$errors{$at_run} //= "$1 $2" if defined $at_run && $line =~ /(?:ERROR|FATAL|PANIC):\s+(\w{5}): (.*)$/;
		}
		my $phase = 0;

		foreach my $line (split /\n/, $stdout)
		{
			$phase = $1 if $line =~ /^phase\|(\d)/;
			if ($line =~ /^more\|(\d+)\|(.*)/)
			{
				my ($number, $answer) = ($1, $2);

				$candidates[$number]{problem} //= "later: $answer" if internal($answer);
			}
			next unless $line =~ /^verdict\|(\d+)\|(.*)$/;
			my ($number, $it, $answer) = ($1, $candidates[$1], $2);

			next if $phase != ($late{ $it->{name} } ? 2 : 1);
			if (($errors{$number} // '') =~ /^57014/)
			{
				$count{undefined}++;	# took too long, as may the plain SELECT
			}
			elsif (defined $errors{$number})
			{
				$it->{problem} //= "fails: $errors{$number}" if $answer !~ /^undefined/ || internal($errors{$number});
			}
			elsif ($answer =~ /^undefined/ || ($answer ne '' && is_undefined($it, $answer)))
			{
				$count{undefined}++;
			}
			else
			{
				$count{compared}++;
				$it->{problem} //= $answer if $answer ne '';
			}
		}
		# may they go on as something else?
		@more = map {
			my $name = quoted($candidates[$_]{name});
			my $other = quoted(one_of(map { $_->{text} } @candidates));

			("\\echo 'begin|$_'", "SELECT 'more', $_, fuzz.attempt(" . quoted("SELECT streamq.alter_query($name, $other)") . ');',
				"\\warn 'run|$_|'", "CALL streamq.run($name);")
		} grep { chance(0.3) } @accepted;
		($stdout, $stderr, $lost) = execute(@more,
			(map { "SELECT 'drop', streamq.drop_query(name, true) FROM streamq.queries WHERE name = " . quoted($candidates[$_]{name}) . ';' } @accepted),
			'TRUNCATE ' . join(', ', @sources) . ';',
			q{SELECT 'more', -1, fuzz.attempt(format('DROP TABLE %s CASCADE', oid::regclass)) FROM pg_class
				WHERE relnamespace = 'fuzz'::regnamespace AND relkind = 'r' AND (relname LIKE 'sink%' OR relname LIKE 'late%');},
			q{SELECT 'left', count(*) FROM streamq.queries;});
		return lost($stdout, $stderr, @candidates) if $lost;
		while ($stdout =~ /^more\|(\d+)\|(.*)$/mg)
		{
			my ($number, $answer) = ($1, $2);

			$candidates[$number]{problem} //= "altered: $answer" if internal($answer);
		}
		$candidates[ $accepted[0] ]{problem} //= "cannot be dropped: $stderr" unless $stdout =~ /^left\|0$/m;
	}
	return grep { defined $_->{problem} } @candidates;
}

# Differences that there may be, although other places of the rows make none.
sub is_undefined
{
	my ($it, $answer) = @_;

	# a source that is read as a static table changes between batches
	return 1 if $it->{options} =~ /sources/ || $it->{text} =~ $changing;
	# groups are in no order, but in the same one wherever their rows are
	return $answer =~ /^(\d+) rows instead of \1:/
	  && $it->{text} =~ /\b(?:OFFSET|LIMIT|FETCH|DISTINCT\s+ON|OVER|\w+_agg|first_value)\b/i;
}

sub internal
{
	return $_[0] =~ /^(?:XX|F0|P0004|58)/;
}

# What PostgreSQL says of the text itself.
sub plain_error
{
	my ($text) = @_;
	my ($stdout) = execute("SELECT 'plain', fuzz.attempt(" . quoted("SELECT count(*) FROM ($text) \"~\"") . ');');

	return $stdout =~ /^plain\|(.*)$/m ? $1 : '';
}

# The connection was lost.
sub lost
{
	my ($stdout, $stderr, @candidates) = @_;
	my ($number) = $stdout =~ /.*^begin\|(\d+)$/ms;
	my $it = $candidates[ $number // 0 ];

	$it->{problem} = 'connection lost: ' . join ' ', (split /\n/, $stderr)[-3 .. -1];
	if (!-e $node->data_dir . '/postmaster.pid' || $stderr =~ /closed the connection|connection to server was lost/)
	{
		wait_until_down($node);
		$node->start;
		sql($node, 'SET search_path = fuzz; SELECT streamq.drop_query(name, true) FROM streamq.queries; TRUNCATE ' . join(', ', @sources));
	}
	return $it;
}

# -------------------------------------------------------------------- findings

# The kind of a problem, which has to stay the same when a text is made shorter.
sub kind_of
{
	return '' unless defined $_[0];
	return $_[0] =~ /^([a-z ]+: \w{5})/ ? $1 : $_[0] =~ /^([a-z ]+):/ ? $1 : 'differs';
}

# Leaves out tokens as long as the problem stays.
sub minimised
{
	my ($it) = @_;
	my $kind = kind_of($it->{problem});
	my @tokens = tokens_of($it->{text});
	my $until = time() + $minimise_seconds;
	my $still = sub {
		my %shorter = (%$it, text => join ' ', @_);
		my ($found) = one_round(\%shorter);

		return kind_of($found->{problem} // undef) eq $kind;
	};

	return $it->{text} . '   -- only together with others' unless $still->(@tokens);
	foreach my $length (16, 8, 4, 2, 1, 2, 1)
	{
		my $place = 0;

		while ($place < @tokens && time() < $until)
		{
			my @shorter = @tokens;

			splice @shorter, $place, $length;
			if (@shorter && $still->(@shorter))
			{
				@tokens = @shorter;
			}
			else
			{
				$place++;
			}
		}
	}
	return join ' ', @tokens;
}

my $began = time();
my $round = 0;

while (defined $ENV{STREAMQ_ROUND} ? $round < 1 : defined $seconds ? time() - $began < $seconds : $round < $rounds)
{
	my $number = $ENV{STREAMQ_ROUND} // $round + 1;

	$round++;
	srand(hex(substr(md5_hex("$seed $number"), 0, 8)));
	my @found = one_round(random_candidates());

	ok(!@found, "round $number");
	foreach my $it (@found)
	{
		diag("round $number, seed $seed, $it->{name}, $it->{mode}$it->{options}, $it->{problem}");
		diag('    ' . $it->{text});
		diag('    minimised: ' . minimised($it)) if defined $seconds;
	}
}
note(join ', ', map { "$_: $states{$_}" } sort { $states{$b} <=> $states{$a} } keys %states);
note("$count{tried} texts, $count{accepted} accepted, $count{compared} compared, $count{undefined} without a definite result");
cmp_ok($count{compared}, '>', 0, 'some were compared');
done_testing();
