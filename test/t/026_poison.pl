# 026_poison.pl
#		Batches that fail whenever they are tried.
#
# Each kind of failure, in queries of each kind: the query ends as "failed", the
# status tells what it was and where, the log has one error for each try, and once
# the cause is mended the query goes on.  Such a query leaves no more behind than
# VACUUM clears away, and other queries do not notice it.
use strict;
use warnings FATAL => 'all';

use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Utils;
use StreamqTest;
use Test::More;
use Time::HiRes qw(time);

my $retries = 3;
my $node = new_server('poison', "streamq.max_retries = $retries", 'streamq.max_workers = 3', 'autovacuum = off');

# status_of(QUERY): what the status says of the last error.
sub status_of
{
	my ($query) = @_;
	my %status;

	@status{qw(state retries message detail)} = split /\|/, sql($node,
		"SELECT state, retries, last_error, last_error_detail FROM streamq.status WHERE name = '$query'"), 4;
	return %status;
}

sql($node, q{
	CREATE ROLE one LOGIN;
	CREATE ROLE two LOGIN;
	GRANT CREATE ON SCHEMA public TO one, two;
	SET ROLE one;
	CREATE TABLE readings (id bigserial, at timestamptz, k int, t text);
	CREATE INDEX ON readings (at);
	SELECT streamq.add_source('readings', 'at', '1 minute');
	CREATE FUNCTION complain() RETURNS trigger LANGUAGE plpgsql AS $$
	BEGIN
		IF NEW.k = 66 THEN
			RAISE EXCEPTION 'no room for %', NEW.k USING DETAIL = 'It is the number.', HINT = 'Take another one.', ERRCODE = 'XX999';
		END IF;
		RETURN NEW;
	END $$;
	CREATE FUNCTION complain_at_commit() RETURNS trigger LANGUAGE plpgsql AS $$
	BEGIN
		IF NEW.k = 66 THEN
			RAISE EXCEPTION 'not at commit either';
		END IF;
		RETURN NULL;
	END $$;
	GRANT SELECT ON readings TO two;
});

# name => [ output mode, SELECT, what comes of the row with k = 66, after create_query() ]
my %poisons = (
	division => [ 'append', 'SELECT id, 10 / (66 - k) AS q FROM readings', qr/division by zero/ ],
	cast_up => [ 'update', 'SELECT k, max(t::int) AS m FROM readings GROUP BY k', qr/invalid input syntax for type integer: "sixty-six"/ ],
	overflow => [ 'complete', 'SELECT sum((k * 40000000)::int) AS s, count(*) AS n FROM readings', qr/integer out of range/ ],
	check_app => [ 'append', 'SELECT id, k FROM readings', qr/new row for relation "check_app" violates check constraint "small"/,
		'ALTER TABLE check_app ADD CONSTRAINT small CHECK (k < 60)' ],
	check_upd => [ 'update', 'SELECT k, count(*) AS n FROM readings GROUP BY k', qr/violates check constraint "small"/,
		'ALTER TABLE check_upd ADD CONSTRAINT small CHECK (k < 60)' ],
	trigger_state => [ 'append', q{SELECT date_bin('1 minute', at, '2024-01-01') AS m, k, array_agg(id ORDER BY id) AS ids
		FROM readings WHERE t <> '' GROUP BY 1, 2}, qr/no room for 66/,
		'CREATE TRIGGER complain BEFORE INSERT ON trigger_state FOR EACH ROW EXECUTE FUNCTION complain()' ],
	trigger_late => [ 'append', q{SELECT date_bin('1 minute', at, '2024-01-01') AS m, k, count(*) AS n FROM readings GROUP BY 1, 2}, qr/no room for 66/,
		'CREATE TRIGGER complain BEFORE INSERT ON trigger_late FOR EACH ROW EXECUTE FUNCTION complain()' ],
	deferred => [ 'append', 'SELECT id, k FROM readings', qr/not at commit either/,
		'CREATE CONSTRAINT TRIGGER complain AFTER INSERT ON deferred DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION complain_at_commit()' ],
	duplicate => [ 'append', 'SELECT k FROM readings', qr/duplicate key value violates unique constraint "one_each"/,
		'CREATE UNIQUE INDEX one_each ON duplicate (k)' ]);

foreach my $name (sort keys %poisons)
{
	my ($mode, $select, undef, $after) = @{ $poisons{$name} };

	sql($node, qq{
		SET ROLE one;
		SELECT streamq.create_query('$name', \$query\$ $select \$query\$, output_mode => '$mode');} . ($after // '') . ';');
}
is(sql($node, q{SELECT string_agg(DISTINCT strategy, ' ' ORDER BY strategy) FROM streamq.queries}), 'source state', 'both strategies are there');

# ------------------------------------------------------- failed, and mended

# Ten good rows first, of which each query makes something.
sql($node, q{INSERT INTO readings (at, k, t) SELECT '2024-01-01'::timestamptz + i * interval '10 seconds', i, i::text FROM generate_series(1, 10) i});
foreach my $name (sort keys %poisons)
{
	sql($node, "SELECT streamq.start('$name'); SELECT streamq.wait('$name'); SELECT streamq.stop('$name')");
}
sql($node, q{INSERT INTO readings (at, k, t) VALUES ('2024-01-01 00:02', 66, 'sixty-six'), ('2024-01-01 00:02:10', 1, '1');
	INSERT INTO readings (at, k, t) VALUES ('2024-01-01 01:00', 2, '2')});

my %details = (
	division => qr/^SQLSTATE:  22012$/m,
	check_app => qr/^DETAIL:  Failing row contains \(11, 66\)\.$/m,
	duplicate => qr/^DETAIL:  Key \(k\)=\(1\) already exists\.$/m,
	trigger_state => qr/^SQLSTATE:  XX999\n^DETAIL:  It is the number\.\n^HINT:  Take another one\.\n^CONTEXT:  PL\/pgSQL function complain\(\) line 4 at RAISE$/ms,
	deferred => qr/^CONTEXT:  PL\/pgSQL function complain_at_commit\(\)/m);
my %tried = map { $_ => last_batch($node, $_) + 1 } sort keys %poisons;
foreach my $name (sort keys %poisons)
{
	my $log = -s $node->logfile;
	my (undef, undef, $message) = @{ $poisons{$name} };
	my %status;
	my $written;

	# one that gives out groups later fails in the batch that does
	sql($node, "SELECT streamq.start('$name')");
	wait_for($node, "state = 'failed' FROM streamq.status WHERE name = '$name'", "$name: fails");
	%status = status_of($name);
	like($status{message}, $message, "$name: the status says why");
	is($status{retries}, $retries + 1, "$name: after so many tries");
	like($status{detail}, $details{$name}, "$name: and more of it") if $details{$name};
	like($status{detail}, qr/^SQLSTATE:  [0-9A-Z]{5}\n(?s:.*)^CONTEXT:  /m, "$name: with SQLSTATE and context");
	# at the commit the batch is done
	like($status{detail}, qr/^(CONTEXT:  .*|)batch $tried{$name}, rows of "readings" from [\d:,]+ up to [\d:,]+$/m, "$name: the batch and its offsets")
	  if $name !~ /deferred|trigger_(late|state)/;

	# each try in the log, and no more; nothing comes after it has failed
	sql($node, q{SELECT pg_sleep(0.1)});
	$written = slurp_file($node->logfile, $log);
	is(scalar(() = $written =~ /ERROR:  /g), $retries + 1, "$name: the log has each try once");
	cmp_ok(scalar(() = $written =~ /^\d\d\d\d-.*? \[\d+\] [A-Z]+:  /mg), '<=', ($retries + 1) * 6 + 10, "$name: in few lines");
}
is(sql($node, q{SELECT count(*) FROM pg_locks WHERE locktype = 'object' AND classid = 'streamq.queries'::regclass AND mode = 'ExclusiveLock'}),
	'0', 'no query is locked');

# Mended: the row is gone, or the constraint.
sql($node, q{
	ALTER TABLE check_app DROP CONSTRAINT small;
	ALTER TABLE check_upd DROP CONSTRAINT small;
	DROP TRIGGER complain ON trigger_state;
	DROP TRIGGER complain ON trigger_late;
	DROP TRIGGER complain ON deferred;
	DROP INDEX one_each});
sql($node, qq{SELECT streamq.start('$_')}) foreach grep { !/^(division|cast_up|overflow)$/ } sort keys %poisons;
is(sql($node, "SELECT streamq.wait('$_')"), 't', "$_: goes on when mended") foreach grep { !/^(division|cast_up|overflow)$/ } sort keys %poisons;
sql($node, q{DELETE FROM readings WHERE k = 66});
sql($node, qq{SELECT streamq.start('$_')}) foreach qw(division cast_up overflow);
is(sql($node, "SELECT streamq.wait('$_')"), 't', "$_: goes on when the row is gone") foreach qw(division cast_up overflow);
is(sql($node, q{SELECT q.name, v.* FROM streamq.queries q, streamq.verify(q.name) v WHERE name IN ('division', 'cast_up', 'overflow')}), '',
	'they are exact');
is(sql($node, q{SELECT count(*) FILTER (WHERE k = 66), count(*) FROM check_app}), '1|13', 'as are those that have had the row');
is(sql($node, q{SELECT name FROM streamq.status WHERE retries > 0 OR state IN ('failed', 'retrying')}), '', 'no failure is left');
sql($node, 'SELECT streamq.drop_query(name, true) FROM streamq.queries');
is(sql($node, q{SELECT count(*) FROM pg_class WHERE relnamespace = 'streamq_state'::regnamespace AND relkind = 'r'}), '0', 'no state either');

# ------------------------------------------------------ nothing piles up

# Each try writes a thousand rows into sink and state before it fails.  What one round
# of ten leaves, VACUUM makes room of for the next one.
sql($node, q{
	SET ROLE one;
	CREATE TABLE heap (id bigserial, k int);
	SELECT streamq.add_source('heap');
	SELECT streamq.create_query('piles_app', 'SELECT id, k FROM heap');
	SELECT streamq.create_query('piles_upd', 'SELECT id, count(*) AS n, count(DISTINCT k) AS d, array_agg(k ORDER BY k) AS ks FROM heap GROUP BY id',
		output_mode => 'update');
	ALTER TABLE piles_app ADD CONSTRAINT small CHECK (k <> 1000);
	ALTER TABLE piles_upd ADD CONSTRAINT small CHECK (id <> 1000);
	INSERT INTO heap (k) SELECT i FROM generate_series(1, 1000) i});
set_config($node, 'streamq.max_retries', '9');
set_config($node, 'streamq.retry_delay_max', '1ms');
my $sizes = q{SELECT oid::regclass, pg_total_relation_size(oid) FROM pg_class WHERE relkind = 'r'
	AND (relname ~ '^piles' OR relnamespace IN ('streamq'::regnamespace, 'streamq_state'::regnamespace)) ORDER BY 1};
my @sizes;
foreach my $round (1 .. 3)
{
	sql($node, q{SELECT streamq.start('piles_app'); SELECT streamq.start('piles_upd')});
	wait_for($node, "(SELECT count(*) FROM streamq.status WHERE state = 'failed' AND retries = 10 AND name ~ '^piles') = 2", "ten tries, round $round");
	push @sizes, { map { split /\|/ } split /\n/, sql($node, $sizes) };
	sql($node, 'VACUUM');
}
foreach my $table (sort keys %{ $sizes[0] })
{
	cmp_ok($sizes[2]{$table}, '<=', 1.5 * $sizes[0]{$table} + 64 * 1024, "$table does not grow by tries: $sizes[0]{$table}, $sizes[1]{$table}, $sizes[2]{$table}");
}
# autovacuum gets to know of it
wait_for($node, q{(SELECT min(n_dead_tup) FROM pg_stat_user_tables WHERE relname ~ '^piles') > 0}, 'the rows of failed tries are counted as dead');
sql($node, q{
	ALTER TABLE piles_app DROP CONSTRAINT small;
	ALTER TABLE piles_upd DROP CONSTRAINT small;
	SELECT streamq.start('piles_app');
	SELECT streamq.start('piles_upd')});
foreach my $query (qw(piles_app piles_upd))
{
	is(sql($node, "SELECT streamq.wait('$query')"), 't', "$query: goes on when mended");
	exact_ok($node, $query, "$query: exact", 1000);
}
# a message that quotes a large value
sql($node, q{
	CREATE TABLE large (t text);
	SELECT streamq.add_source('large');
	SELECT streamq.create_query('large_message', 'SELECT t::int FROM large');
	INSERT INTO large VALUES (repeat('ä', 1000000));
	SELECT streamq.start('large_message')});
wait_for($node, q{state = 'failed' FROM streamq.status WHERE name = 'large_message'}, 'a large message: it fails');
is(sql($node, q{SELECT octet_length(last_error) BETWEEN 8000 AND 8192, octet_length(last_error_detail) <= 8192, last_error ~ '^invalid input syntax .*ää$'
	FROM streamq.status WHERE name = 'large_message'}), 't|t|t', 'and is kept in part');
sql($node, 'SELECT streamq.drop_query(name, true) FROM streamq.queries');

# ------------------------------------------------------------ its neighbours

# One healthy query of the same owner and one of somebody else.
sql($node, q{
	SET ROLE one;
	CREATE TABLE rows_one (id bigserial, v int);
	SELECT streamq.add_source('rows_one');
	SELECT streamq.create_query('well_one', 'SELECT id, v FROM rows_one');
	SELECT streamq.start('well_one');
	CREATE FUNCTION fails(int) RETURNS int LANGUAGE plpgsql AS $$
	BEGIN
		PERFORM pg_advisory_lock(7777);
		PERFORM pg_advisory_unlock(7777);
		RAISE EXCEPTION 'it never works';
	END $$;
	SELECT streamq.create_query('poison', 'SELECT id, fails(k) FROM heap');
	SET ROLE two;
	CREATE TABLE rows_two (id bigserial, v int);
	SELECT streamq.add_source('rows_two');
	SELECT streamq.create_query('well_two', 'SELECT v, count(*) AS n FROM rows_two GROUP BY v', output_mode => 'update');
	SELECT streamq.start('well_two')});

# rounds(QUERY): inserts a row and waits for it, time and again; returns the median in ms.
sub rounds
{
	my ($query) = @_;
	my ($who) = $query =~ /_(.*)/;
	my $session = $node->background_psql('postgres');
	my @times;

	for (1 .. 15)
	{
		my $began = time();

		$session->query_safe("INSERT INTO rows_$who (v) VALUES (1)");
		$session->query_safe("SELECT streamq.wait('$query')");
		push @times, 1000 * (time() - $began);
	}
	$session->quit;
	exact_ok($node, $query, "$query: exact");
	return (sort { $a <=> $b } @times)[ @times / 2 ];
}

my %alone = map { $_ => rounds($_) } qw(well_one well_two);
set_config($node, 'streamq.max_retries', '-1');
{
	# a batch that is at it for ever
	my $hold = $node->background_psql('postgres');

	$hold->query_safe('SELECT pg_advisory_lock(7777)');
	sql($node, q{SELECT streamq.start('poison')});
	wait_for($node, q{EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND objid = 7777 AND NOT granted)}, 'a batch hangs');
	foreach my $query (sort keys %alone)
	{
		note(sprintf '%s beside a batch that hangs: %.0f ms instead of %.0f', $query, rounds($query), $alone{$query});
	}
	is(query_state($node, 'poison'), 'running', 'it still does');
	$hold->quit;
}
# and one that fails a thousand times a second, were it allowed to
wait_for($node, q{retries > 3 FROM streamq.status WHERE name = 'poison'}, 'it fails, again and again');
foreach my $query (sort keys %alone)
{
	my $before = sql($node, q{SELECT retries FROM streamq.status WHERE name = 'poison'});
	my $median = rounds($query);
	my $tries = sql($node, q{SELECT retries FROM streamq.status WHERE name = 'poison'}) - $before;

	note(sprintf '%s beside %d tries: %.0f ms instead of %.0f', $query, $tries, $median, $alone{$query});
	cmp_ok($tries, '>', 0, "$query: the other is tried meanwhile");
	cmp_ok($median, '<', 10 * $alone{$query} + 500, "$query: is not held up by it");
}
is(sql($node, q{SELECT name FROM streamq.status WHERE retries > 0}), 'poison', 'only one has failed');
sql($node, q{SELECT streamq.stop('poison'); SELECT streamq.drop_query(name, true) FROM streamq.queries});

# What tries leave behind is reported while they go on, for autovacuum to see.
sql($node, q{
	SET ROLE one;
	CREATE TABLE litter (id int);
	SELECT streamq.create_query('litters', 'SELECT id FROM litter');
	ALTER TABLE litters ADD CHECK (id <> 1000);
	INSERT INTO litter SELECT generate_series(1, 1000);
	SELECT streamq.start('litters')});
wait_for($node, q{n_dead_tup > 0 FROM pg_stat_user_tables WHERE relname = 'litters'}, 'dead rows of failed batches are reported');
is(sql($node, q{SELECT state <> 'failed' AND retries > 0 FROM streamq.status WHERE name = 'litters'}), 't', 'while it is tried');
sql($node, q{SELECT streamq.drop_query('litters', true)});

# ------------------------------------------- batches that end their worker

set_config($node, 'streamq.max_retries', $retries);
sql($node, q{
	SET ROLE one;
	CREATE FUNCTION ends_worker() RETURNS boolean LANGUAGE plpgsql VOLATILE AS $$
	BEGIN
		PERFORM pg_terminate_backend(pg_backend_pid());
		RETURN true;
	END $$;
	CREATE TABLE deadly (id int);
	SELECT streamq.create_query('ends_worker', 'SELECT id, ends_worker() FROM deadly');
	INSERT INTO deadly VALUES (1)});
{
	my $log = -s $node->logfile;
	my %status;

	sql($node, q{SELECT streamq.start('ends_worker')});
	wait_for($node, q{state = 'failed' FROM streamq.status WHERE name = 'ends_worker'}, 'a batch that ends its worker fails');
	%status = status_of('ends_worker');
	is($status{message}, 'the worker was terminated in the middle of a batch', 'the status says why');
	is($status{retries}, $retries + 1, 'after so many tries');
	like($status{detail}, qr/^SQLSTATE:  57P01\nDETAIL:  This has happened @{[ $retries + 2 ]} times in a row\.$/, 'and more of it');
	is(scalar(() = slurp_file($node->logfile, $log) =~ /FATAL:  terminating background worker "streamq worker"/g),
		$retries + 2, 'the first time is not counted');
}
sql($node, q{
	CREATE OR REPLACE FUNCTION ends_worker() RETURNS boolean LANGUAGE sql VOLATILE AS 'SELECT true';
	SELECT streamq.start('ends_worker')});
is(sql($node, q{SELECT streamq.wait('ends_worker')}), 't', 'it goes on when mended');
is(sql($node, q{SELECT state <> 'failed', retries FROM streamq.status WHERE name = 'ends_worker'}), 't|0', 'no failure is left');
sql($node, q{SELECT streamq.drop_query('ends_worker', true)});

# once it is somebody else's doing
set_config($node, 'streamq.max_retries', '0');
{
	my $hangs = q{FROM pg_stat_activity WHERE backend_type = 'streamq worker' AND wait_event = 'advisory'};
	my $hold = $node->background_psql('postgres');
	my $worker;

	$hold->query_safe('SELECT pg_advisory_lock(7777)');
	sql($node, q{SELECT streamq.create_query('ended', 'SELECT id FROM deadly WHERE pg_advisory_xact_lock_shared(7777) IS NOT NULL');
		SELECT streamq.start('ended')});
	wait_for($node, "EXISTS (SELECT $hangs)", 'a batch hangs');
	$worker = sql($node, "SELECT pid $hangs");
	sql($node, "SELECT pg_terminate_backend($worker)");
	wait_for($node, "EXISTS (SELECT $hangs AND pid <> $worker)", 'its worker is terminated: another one takes it on');
	$hold->quit;
	is(sql($node, q{SELECT streamq.wait('ended')}), 't', 'and does it');
	is(sql($node, q{SELECT retries, last_error IS NULL FROM streamq.status WHERE name = 'ended'}), '0|t', 'that is no failure');
	exact_ok($node, 'ended', 'exact', 1);
	sql($node, q{SELECT streamq.drop_query('ended', true)});
}
done_testing();
