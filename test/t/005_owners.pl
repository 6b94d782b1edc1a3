# 005_owners.pl
#		Workers act as the owner of a query: with his rights, never more, and
#		under his settings, whether he can log in or not.  So does whoever runs or
#		looks at an aggregation, and what keeps its state in order.
use strict;
use warnings FATAL => 'all';

use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Utils;
use StreamqTest;
use Test::More;

my $node = new_server('owners', 'streamq.max_retries = 1', 'autovacuum_naptime = 1s');

sql($node, q{
	CREATE ROLE lena LOGIN;
	CREATE ROLE nora NOLOGIN;
	GRANT CREATE ON SCHEMA public TO lena, nora;
	ALTER DATABASE postgres SET work_mem = '1MB';
	ALTER ROLE ALL SET app.everybody = 'everybody';
	ALTER ROLE lena SET work_mem = '2MB';
	ALTER ROLE nora SET work_mem = '3MB';
	ALTER ROLE lena SET app.who = 'lena anywhere';
	ALTER ROLE nora SET app.who = 'nora anywhere';
	ALTER ROLE lena IN DATABASE postgres SET app.who = 'lena here';
	ALTER ROLE nora IN DATABASE postgres SET app.who = 'nora here';
	CREATE TABLE t (id bigserial, v int);
	GRANT SELECT ON t TO PUBLIC;
	SELECT streamq.add_source('t');
});

sub next_batch
{
	my ($query) = @_;

	sql($node, 'INSERT INTO t (v) VALUES (1)');
	is(sql($node, "SELECT streamq.wait('$query')"), 't', "$query: a batch");
	return;
}

sub create_as
{
	my ($owner, $query, $select) = @_;

	sql($node, "SET ROLE $owner; SELECT streamq.create_query('$query', \$query\$ $select \$query\$)");
	return;
}

foreach my $owner (qw(lena nora))
{
	my $memory = $owner eq 'lena' ? '2MB' : '3MB';

	create_as($owner, "who_$owner", q{SELECT id, current_user::text, session_user::text,
		current_setting('is_superuser') AS super, current_setting('work_mem') AS memory,
		current_setting('app.who') AS app, current_setting('app.everybody') AS everybody FROM t});
	sql($node, "SELECT streamq.start('who_$owner')");
	next_batch("who_$owner");
	is(sql($node, "SELECT DISTINCT \"current_user\", \"session_user\", super, memory, app, everybody FROM who_$owner"),
		"$owner|$owner|off|$memory|$owner here|everybody",
		"$owner: user, rights and settings in a worker");
}

# whoever cannot log in any more owns his queries all the same
sql($node, 'ALTER ROLE lena NOLOGIN');
sql($node, q{SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE backend_type = 'streamq worker'});
next_batch('who_lena');
sql($node, 'ALTER ROLE lena LOGIN; ALTER ROLE nora LOGIN');
sql($node, q{SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE backend_type = 'streamq worker'});
next_batch('who_nora');
is(sql($node, q{SELECT count(DISTINCT ("current_user", "session_user", super, memory, app)) FROM who_nora}),
	1, 'LOGIN or not makes no difference');
sql($node, q{ALTER ROLE nora NOLOGIN});
sql($node, qq{SELECT streamq.stop('who_$_')}) foreach qw(lena nora);

# ------------------------------------------------- who may not connect

sql($node, q{CREATE DATABASE closed; REVOKE CONNECT ON DATABASE closed FROM PUBLIC});
sql($node, q{
	CREATE EXTENSION streamq;
	GRANT CREATE ON SCHEMA public TO lena, nora}, 'closed');
foreach my $owner (qw(lena nora))
{
	sql($node, qq{
		SET ROLE $owner;
		CREATE TABLE t_$owner (id int);
		SELECT streamq.create_query('closed_$owner', 'SELECT id FROM t_$owner');
		INSERT INTO t_$owner VALUES (1);
		SELECT streamq.start('closed_$owner')}, 'closed');
}
wait_for($node, q{state = 'failed' FROM streamq.status WHERE name = 'closed_lena'},
	'without the right to connect a query fails', 'closed');
is(sql($node, q{SELECT last_error, last_error_detail FROM streamq.status WHERE name = 'closed_lena'}, 'closed'),
	qq{permission denied for database "closed"|SQLSTATE:  42501\nDETAIL:  The owner of the query does not have CONNECT privilege.},
	'and says why');
is(sql($node, q{SELECT streamq.wait('closed_nora')}, 'closed'), 't', 'who cannot log in does not need it');
sql($node, q{GRANT CONNECT ON DATABASE closed TO lena; SELECT streamq.start('closed_lena')}, 'closed');
is(sql($node, q{SELECT streamq.wait('closed_lena')}, 'closed'), 't', 'with it the query goes on');

# who is in may stay
sql($node, q{REVOKE CONNECT ON DATABASE closed FROM lena; INSERT INTO t_lena VALUES (2);
	SELECT streamq.stop('closed_nora'); SELECT streamq.start('closed_nora'); SELECT streamq.wait('closed_nora')}, 'closed');
is(sql($node, q{SELECT streamq.wait('closed_lena')}, 'closed'), 't', 'who has lost it goes on');
sql($node, q{SELECT pg_terminate_backend(pid, 60000) FROM pg_stat_activity
	WHERE backend_type = 'streamq worker' AND datname = 'closed' AND usename = 'lena';
	INSERT INTO t_lena VALUES (3)}, 'closed');
wait_for($node, q{state = 'failed' FROM streamq.status WHERE name = 'closed_lena'}, 'until he has to connect', 'closed');
sql($node, 'DROP DATABASE closed');

# ---------------------------------------------------- nobody becomes another

# In the query, in a trigger of the sink, in a deferred one at commit: the
# worker's session is nobody's way to other rights.
my %attempts = (
	'SET SESSION AUTHORIZATION' => q{SET SESSION AUTHORIZATION DEFAULT},
	'RESET SESSION AUTHORIZATION' => q{RESET SESSION AUTHORIZATION},
	'SET ROLE' => q{SET ROLE %superuser%},
	'RESET ROLE' => q{RESET ROLE});
my $superuser = sql($node, 'SELECT current_user');

foreach my $owner (qw(lena nora))
{
	foreach my $what (sort keys %attempts)
	{
		my $attempt = $attempts{$what} =~ s/%superuser%/$superuser/r;

		sql($node, qq{
			SET ROLE $owner;
			CREATE OR REPLACE FUNCTION attempt_$owner() RETURNS text LANGUAGE plpgsql AS \$\$
			DECLARE
				result text := '';
			BEGIN
				BEGIN
					EXECUTE '$attempt';
				EXCEPTION WHEN OTHERS THEN
					result := SQLSTATE || ' ';
				END;
				RETURN result || current_user || ' ' || session_user || ' ' || current_setting('is_superuser');
			END \$\$;
			SELECT streamq.create_query('attempt_$owner', 'SELECT id, attempt_$owner() AS result FROM t');
			CREATE TABLE attempts_$owner (result text);
			CREATE FUNCTION note_$owner() RETURNS trigger LANGUAGE plpgsql AS \$\$
			BEGIN
				INSERT INTO attempts_$owner VALUES (attempt_$owner());
				RETURN NULL;
			END \$\$;
			CREATE CONSTRAINT TRIGGER late AFTER INSERT ON attempt_$owner
				DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION note_$owner();
			SELECT streamq.start('attempt_$owner')});
		next_batch("attempt_$owner");
		is(sql($node, "SELECT count(*) FROM attempt_$owner WHERE result !~ '$owner $owner off\$'"), '0',
			"$owner: $what in the query leads nowhere");
		is(sql($node, qq{SELECT count(*) FILTER (WHERE result !~ '$owner $owner off\$'),
			count(*) - (SELECT count(*) FROM attempt_$owner) FROM attempts_$owner}), '0|0',
			"$owner: nor does it at commit");
		# the next query in the same session is the owner's as well
		sql($node, "SELECT streamq.start('who_$owner')");
		next_batch("who_$owner");
		is(sql($node, qq{SELECT count(DISTINCT ("current_user", "session_user", super)) FROM who_$owner}),
			'1', "$owner: nor is anything left of it after the batch");
		sql($node, qq{
			SELECT streamq.stop('who_$owner');
			SELECT streamq.drop_query('attempt_$owner', true);
			DROP TABLE attempts_$owner;
			DROP FUNCTION note_$owner()});
	}
}

# A batch that somebody else runs is the owner's too.
is(sql($node, q{CALL streamq.run('who_nora')}) =~ /^\d+\|\d+$/ ? 'done' : '', 'done',
	'a superuser runs the query of another');
is(sql($node, q{SELECT count(DISTINCT ("current_user", super)) FROM who_nora}), '1',
	'it acts as its owner');

# ------------------------------------------------------------- rights lost

foreach my $owner (qw(lena nora))
{
	my $query = "who_$owner";
	my $batch;

	sql($node, "SELECT streamq.start('$query')");
	next_batch($query);
	$batch = last_batch($node, $query);

	sql($node, "REVOKE SELECT ON t FROM PUBLIC; INSERT INTO t (v) VALUES (2)");
	wait_for($node, "state = 'failed' FROM streamq.status WHERE name = '$query'",
		"$owner: a query fails when its owner loses his right");
	like(sql($node, "SELECT last_error FROM streamq.status WHERE name = '$query'"),
		qr/permission denied for table t/, "$owner: last_error says so");
	like(sql_error($node, "CALL streamq.run('$query')"), qr/42501: permission denied for table t/,
		"$owner: a superuser's CALL run does not lend him his own");
	sql($node, "GRANT SELECT ON t TO PUBLIC; SELECT streamq.start('$query')");
	is(sql($node, "SELECT streamq.wait('$query')"), 't', "$owner: given back, it goes on");
	is(last_batch($node, $query), $batch + 1, "$owner: where it was");

	# the sink
	sql($node, "ALTER TABLE $query OWNER TO $superuser; INSERT INTO t (v) VALUES (3)");
	wait_for($node, "state = 'failed' FROM streamq.status WHERE name = '$query'",
		"$owner: the same with the sink");
	like(sql($node, "SELECT last_error FROM streamq.status WHERE name = '$query'"),
		qr/permission denied for table $query/, "$owner: last_error says so");
	sql($node, "GRANT INSERT ON $query TO $owner; SELECT streamq.start('$query')");
	is(sql($node, "SELECT streamq.wait('$query')"), 't', "$owner: INSERT is enough of a right");
	sql($node, "SELECT streamq.stop('$query')");
	is(sql($node, qq{SELECT (SELECT count(*) FROM (SELECT id FROM t EXCEPT ALL SELECT id FROM $query) x),
		(SELECT count(*) FROM (SELECT id FROM $query EXCEPT ALL SELECT id FROM t) x)}),
		'0|0', "$owner: exact");
}

# ------------------------------------------------------- a new owner, others

create_as('lena', 'given', 'SELECT id, current_user::text AS by FROM t');
sql($node, q{SELECT streamq.start('given')});
next_batch('given');
sql($node, q{SELECT streamq.stop('given')});
sql($node, q{
	ALTER VIEW streamq_query.given OWNER TO nora;
	ALTER TABLE given OWNER TO nora;
	SELECT streamq.start('given')});
next_batch('given');
is(sql($node, q{SELECT string_agg(by, ' ' ORDER BY first) FROM (SELECT by, min(id) AS first FROM given GROUP BY 1) x}),
	'lena nora', 'a query given to somebody else is run by him');
is(sql($node, q{SELECT owner FROM streamq.status WHERE name = 'given'}), 'nora', 'status says so');

# given away while it runs
sql($node, q{
	ALTER VIEW streamq_query.given OWNER TO lena;
	ALTER TABLE given OWNER TO lena});
next_batch('given');
is(sql($node, q{SELECT by FROM given ORDER BY id DESC LIMIT 1}), 'lena',
	'given away while it runs, it is run by its new owner');
sql($node, q{SELECT streamq.stop('given')});

foreach my $call (
	q{SELECT streamq.start('given')}, q{SELECT streamq.stop('given')},
	q{SELECT streamq.wait('given')}, q{SELECT streamq.reset('given')},
	q{SELECT streamq.drop_query('given')}, q{CALL streamq.run('given')})
{
	like(sql_error($node, "SET SESSION AUTHORIZATION nora; $call"), qr/ERROR:  42501/,
		"refused to others: $call");
}
is(sql($node, q{SET ROLE nora; SELECT count(*) FROM streamq.status WHERE name = 'given'}), '0',
	'others do not see it');


# ------------------------------------------------ aggregations of hostile owners

# Wherever an owner can put a function of his own, it notes for whom it runs, when it
# has tried to become somebody else: support functions of aggregates, the check of a
# domain that is a group key, subtype_diff of a range type, in ANALYZE, and triggers
# and policies on the tables of the state, which are his.
sub hostile_owner
{
	my ($owner) = @_;
	my $attempts = join ', ', map { "'" . s/%superuser%/$superuser/r . "'" } values %attempts,
	  "ALTER ROLE $owner SUPERUSER", 'GRANT %superuser% TO ' . $owner;

	sql($node, qq{
		GRANT CREATE ON SCHEMA public TO $owner;
		CREATE SCHEMA $owner AUTHORIZATION $owner;
		SET ROLE $owner;
		SET search_path = $owner, public;
		CREATE TABLE notes (what text, by text);
		CREATE FUNCTION note(what text) RETURNS void LANGUAGE plpgsql AS \$\$
		DECLARE
			attempt text;
		BEGIN
			FOREACH attempt IN ARRAY ARRAY[$attempts] LOOP
				BEGIN
					EXECUTE attempt;
				EXCEPTION WHEN OTHERS THEN
					NULL;
				END;
			END LOOP;
			INSERT INTO $owner.notes SELECT what, rolname || CASE WHEN rolsuper THEN ', a superuser' ELSE '' END
				FROM pg_roles WHERE rolname = current_user;
		END \$\$;
		CREATE FUNCTION step(bigint, int) RETURNS bigint LANGUAGE plpgsql AS
			'BEGIN PERFORM $owner.note(''step''); RETURN \$1 + \$2; END';
		CREATE FUNCTION combine(bigint, bigint) RETURNS bigint LANGUAGE plpgsql AS
			'BEGIN PERFORM $owner.note(''combine''); RETURN \$1 + \$2; END';
		CREATE FUNCTION final(bigint) RETURNS bigint LANGUAGE plpgsql AS
			'BEGIN PERFORM $owner.note(''final''); RETURN \$1; END';
		CREATE AGGREGATE combined(int) (sfunc = step, stype = bigint, initcond = 0, combinefunc = combine, finalfunc = final);
		CREATE AGGREGATE resumed(int) (sfunc = step, stype = bigint, initcond = 0, finalfunc = final);
		CREATE FUNCTION checks(int) RETURNS boolean LANGUAGE plpgsql AS
			'BEGIN PERFORM $owner.note(''domain''); RETURN true; END';
		CREATE DOMAIN checked AS int CHECK (checks(VALUE));
		CREATE FUNCTION diff(int, int) RETURNS float8 LANGUAGE plpgsql IMMUTABLE AS
			'BEGIN PERFORM $owner.note(''diff''); RETURN \$1 - \$2; END';
		CREATE TYPE spans AS RANGE (subtype = int, subtype_diff = diff);
		CREATE FUNCTION same(int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS
			'BEGIN PERFORM $owner.note(''immutable''); RETURN \$1; END';
		CREATE FUNCTION allowed() RETURNS boolean LANGUAGE plpgsql AS
			'BEGIN PERFORM $owner.note(''policy''); RETURN true; END';
		CREATE FUNCTION fires() RETURNS trigger LANGUAGE plpgsql AS
			'BEGIN PERFORM $owner.note(TG_NAME || '' '' || TG_OP); RETURN NEW; END';

		CREATE TABLE src (at timestamptz, k int);
		CREATE INDEX ON src (at);
		SELECT streamq.add_source('src', 'at', '0');
		SELECT streamq.create_query('${owner}_update', \$\$
			SELECT k::checked AS k, spans(k, 2 * k) AS s, combined(k) AS c, resumed(k) AS r FROM src GROUP BY 1, 2 \$\$,
			output_mode => 'update', sink => 'sink_update');
		SELECT streamq.create_query('${owner}_complete', \$\$
			SELECT k::checked AS k, combined(DISTINCT k) AS c, resumed(k ORDER BY k) AS r FROM src GROUP BY 1 \$\$,
			output_mode => 'complete', sink => 'sink_complete');
		SELECT streamq.create_query('${owner}_source', \$\$
			SELECT date_bin('1 minute', at, '2024-01-01') AS minute, same(k) AS k, count(*) AS n FROM src GROUP BY 1, 2 \$\$,
			sink => 'sink_source', live_view => 'live_source')});
	foreach my $table (state_tables($owner))
	{
		sql($node, qq{
			SET ROLE $owner;
			SET search_path = $owner;
			CREATE TRIGGER row BEFORE INSERT OR UPDATE ON $table FOR EACH ROW EXECUTE FUNCTION fires();
			CREATE TRIGGER statement AFTER UPDATE OR DELETE OR TRUNCATE ON $table EXECUTE FUNCTION fires();
			CREATE CONSTRAINT TRIGGER late AFTER INSERT OR UPDATE ON $table
				DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION fires();
			ALTER TABLE $table ENABLE ROW LEVEL SECURITY;
			ALTER TABLE $table FORCE ROW LEVEL SECURITY;
			CREATE POLICY all_rows ON $table USING (allowed())});
	}
	return;
}

sub state_tables
{
	my ($owner) = @_;

	return split /\n/, sql($node, qq{
		SELECT c.oid::regclass FROM pg_class c JOIN streamq.queries q ON c.relname ~ ('^q' || q.query_id || '(_|\$)')
		WHERE c.relnamespace = 'streamq_state'::regnamespace AND c.relkind = 'r' AND q.name ~ '^${owner}_' ORDER BY 1});
}

# What has been noted since the last time: nobody but the owner, and these things.
sub noted_ok
{
	my ($owner, $name, @expected) = @_;
	my $noted = sql($node, qq{
		SELECT string_agg(DISTINCT CASE WHEN by = '$owner' THEN what ELSE what || ' BY ' || by END, ',') FROM $owner.notes});
	my %noted = map { $_ => 1 } split /,/, $noted;

	unlike($noted, qr/ BY /, "$owner: $name: with his rights alone");
	is(join(', ', grep { !$noted{$_} } @expected), '', "$owner: $name: his functions are executed");
	sql($node, "TRUNCATE $owner.notes");
	return;
}

# time goes on, so that groups become final
my $hours = 0;
sub hostile_rows
{
	my ($owner) = @_;

	$hours++;
	sql($node, qq{INSERT INTO $owner.src SELECT '2024-01-01'::timestamptz + interval '$hours hours' + i * interval '1 minute', i
		FROM generate_series(1, 3) i});
	return;
}

foreach my $owner (qw(lena nora))
{
	my @queries = map { "${owner}_$_" } qw(complete source update);
	my @in_batches = ('step', 'combine', 'final', 'domain', 'immutable', 'policy', 'row INSERT', 'late INSERT');
	my $exact = "SELECT name, v.* FROM streamq.queries q, streamq.verify(name) v WHERE name ~ '^${owner}_'";

	hostile_owner($owner);
	is(sql($node, "SELECT string_agg(strategy, ' ' ORDER BY name) FROM streamq.queries WHERE name ~ '^${owner}_'"),
		'state source state', "$owner: both strategies are there");
	noted_ok($owner, 'create_query()');

	hostile_rows($owner);
	sql($node, "CALL streamq.run('$_')") foreach @queries;
	noted_ok($owner, 'run() by a superuser', @in_batches);
	hostile_rows($owner);
	sql($node, "SELECT streamq.start('$_'); SELECT streamq.wait('$_'); SELECT streamq.stop('$_')") foreach @queries;
	noted_ok($owner, 'a worker', @in_batches, 'row UPDATE', 'late UPDATE');

	is(sql($node, $exact), '', "$owner: verify() by a superuser");
	noted_ok($owner, 'verify() by a superuser', 'step', 'final', 'domain', 'immutable');
	is(sql($node, qq{
		SELECT count(*) FROM streamq.state('${owner}_update') AS (k $owner.checked, s $owner.spans, c bigint, r bigint);
		SELECT count(*) FROM streamq.state('${owner}_complete') AS (k $owner.checked, c bigint, r bigint)}), "3\n3",
		"$owner: state() by a superuser");
	noted_ok($owner, 'state() by a superuser', 'step', 'final', 'policy');
	is(sql($node, qq{
		SELECT count(*) FROM streamq.live('${owner}_update') AS (k $owner.checked, s $owner.spans, c bigint, r bigint);
		SELECT count(*) FROM $owner.live_source}), "3\n6", "$owner: live() by a superuser");
	noted_ok($owner, 'live() by a superuser', 'immutable');
	sql($node, "SELECT streamq.explain('$_')") foreach @queries;
	noted_ok($owner, 'explain() by a superuser');

	foreach my $command ('ANALYZE %s', 'VACUUM (FULL, ANALYZE) %s', 'REINDEX TABLE %s', 'REINDEX TABLE CONCURRENTLY %s')
	{
		sql($node, sprintf($command, $_)) foreach state_tables($owner);
		noted_ok($owner, sprintf($command, 'by a superuser'), $command =~ /ANALYZE/ ? 'diff' : ());
	}
	$node->command_ok([ 'pg_dump', '-f', '/dev/null', 'postgres' ], "$owner: a superuser dumps the database");
	noted_ok($owner, 'pg_dump by a superuser');

	# autovacuum
	sql($node, "SET ROLE $owner; ALTER TABLE $_ SET (autovacuum_analyze_threshold = 0, autovacuum_analyze_scale_factor = 0)")
	  foreach state_tables($owner);
	hostile_rows($owner);
	sql($node, "CALL streamq.run('$_')") foreach @queries;
	wait_for($node, "EXISTS (SELECT FROM $owner.notes WHERE what = 'diff')", "$owner: autovacuum has come");
	noted_ok($owner, 'run() and autovacuum', @in_batches);

	# control by a superuser
	sql($node, qq{SELECT streamq.alter_query('${owner}_update', \$\$
		SELECT k::$owner.checked AS k, $owner.spans(k, 2 * k) AS s, $owner.combined(k) AS c, $owner.resumed(k) AS r
		FROM $owner.src WHERE $owner.same(7) = 7 GROUP BY 1, 2 \$\$)});
	noted_ok($owner, 'alter_query() by a superuser', 'immutable');
	sql($node, "SELECT streamq.reset('$_')") foreach @queries;
	noted_ok($owner, 'reset() by a superuser');
	sql($node, "TRUNCATE $owner.sink_update, $owner.sink_complete, $owner.sink_source");
	# by himself, if he can log in (after SET ROLE he could become the superuser again)
	$node->safe_psql('postgres', "CALL streamq.run('$_')", $owner eq 'lena' ? (extra_params => [ '-U', $owner ]) : ())
	  foreach @queries;
	is(sql($node, $exact), '', "$owner: after all that, exact");
	# what he has put on the tables is gone with them
	noted_ok($owner, 'run() after reset()', 'step', 'combine', 'final', 'domain', 'immutable');
	is(sql($node, "SELECT rolsuper, (SELECT count(*) FROM pg_auth_members WHERE member = r.oid) FROM pg_roles r WHERE rolname = '$owner'"),
		'f|0', "$owner: he is no more than he was");
}

# --------------------------------------------- the state is its owner's, and follows him

my $state = sql($node, q{SELECT 'streamq_state.q' || query_id FROM streamq.queries WHERE name = 'lena_update'});

foreach my $statement (
	q{SELECT * FROM streamq.state('lena_update') AS (k int, s lena.spans, c bigint, r bigint)},
	q{SELECT * FROM streamq.live('lena_update') AS (k int, s lena.spans, c bigint, r bigint)},
	q{SELECT streamq.verify('lena_update')}, q{SELECT streamq.explain('lena_update')},
	q{SELECT streamq.alter_query('lena_update', 'SELECT 1')}, "TABLE $state", "DELETE FROM $state",
	"CREATE TRIGGER t BEFORE INSERT ON $state EXECUTE FUNCTION nora.fires()", "DROP TABLE $state",
	"CREATE INDEX ON $state (k1)", 'CREATE TABLE streamq_state.q999 (a int)', 'CREATE VIEW streamq_query.mine AS SELECT 1')
{
	like(sql_error($node, "GRANT USAGE ON SCHEMA lena TO nora; SET SESSION AUTHORIZATION nora; $statement"),
		qr/ERROR:  42501/, "refused to others: $statement");
}

# the functions that states are made with give nobody more than the aggregate does
sql($node, q{
	SET ROLE lena;
	SET search_path = lena;
	CREATE FUNCTION whoever(text, int) RETURNS text LANGUAGE sql AS 'SELECT current_user::text';
	CREATE AGGREGATE tells(int) (sfunc = whoever, stype = text, combinefunc = textcat, finalfunc = upper);
	CREATE AGGREGATE secret(int) (sfunc = whoever, stype = text, combinefunc = textcat);
	REVOKE EXECUTE ON FUNCTION secret(int) FROM PUBLIC;
});
is(sql($node, q{SET SESSION AUTHORIZATION nora;
	SELECT streamq.resume_state('lena.tells(int)', NULL::text, ARRAY[ROW(1)], false),
		streamq.combine_state('lena.tells(int)', 'a'::text, 'b'::text), streamq.finalize_state('lena.tells(int)', 'a'::text, NULL::text)}),
	'nora|ab|A', 'states of the aggregate of another are made with the rights of the caller');
foreach my $call (
	q{streamq.resume_state('lena.secret(int)', NULL::text, ARRAY[ROW(1)], false)},
	q{streamq.combine_state('lena.secret(int)', 'a'::text, 'b'::text)},
	q{streamq.finalize_state('lena.secret(int)', 'a'::text, NULL::text)})
{
	like(sql_error($node, "SET SESSION AUTHORIZATION nora; SELECT $call"), qr/ERROR:  42501/,
		"refused without the right to the aggregate: $call");
}
# nobody can call what takes pointers
foreach my $statement (
	q{SELECT streamq.was_read(NULL, 1::oid, '(0,1)'::tid, '1'::xid, now())},
	q{SELECT streamq.was_read(NULL::internal, 1::oid, '(0,1)'::tid, '1'::xid, now())},
	q{PREPARE p(internal) AS SELECT streamq.was_read($1, 1::oid, '(0,1)'::tid, '1'::xid, now())},
	q{CREATE FUNCTION nora.f(internal) RETURNS boolean LANGUAGE sql AS $$ SELECT streamq.was_read($1, 1::oid, '(0,1)'::tid, '1'::xid, now()) $$},
	q{SELECT streamq.since(NULL::internal)})
{
	like(sql_error($node, "SET SESSION AUTHORIZATION nora; $statement"), qr/ERROR:  (42846|42883|42804|42P13|0A000)/,
		"cannot be called: $statement");
}

# given to somebody else, while it is started and while it is not
my @given = qw(lena_complete lena_source lena_update);

sub state_owners
{
	return sql($node, q{SELECT string_agg(DISTINCT pg_get_userbyid(c.relowner), ' ') FROM pg_class c JOIN streamq.queries q
		ON c.relname ~ ('^q' || q.query_id || '(_|$)') AND q.name ~ '^lena_(c|s|u)'
		WHERE c.relnamespace = 'streamq_state'::regnamespace AND c.relkind IN ('r', 'S')});
}

sub give
{
	my ($new) = @_;

	sql($node, join ' ', map { "ALTER VIEW streamq_query.$_ OWNER TO $new;" } @given);
	sql($node, join ' ', map { "ALTER TABLE lena.sink_$_ OWNER TO $new;" } qw(complete source update));
	sql($node, qq{
		ALTER VIEW lena.live_source OWNER TO $new;
		ALTER TABLE lena.notes OWNER TO $new;
		GRANT USAGE ON SCHEMA lena TO $new;
		GRANT SELECT ON lena.src TO $new});
	return;
}

sub all_exact
{
	my ($name, $owner) = @_;

	is(sql($node, q{SELECT name, v.* FROM streamq.queries q, streamq.verify(name) v WHERE name ~ '^lena_(c|s|u)'}), '',
		"$name: exact");
	is(state_owners(), $owner, "$name: the state is his");
	# but for what autovacuum may have begun before
	is(sql($node, q{SELECT string_agg(DISTINCT by, ', ') FROM lena.notes WHERE what <> 'diff'}), $owner, "$name: with his rights");
	sql($node, 'TRUNCATE lena.notes');
	return;
}

give('nora');
is(sql_error($node, q{SELECT * FROM streamq.state('lena_complete') AS (k lena.checked, c bigint, r bigint);
		SELECT * FROM streamq.live('lena_source') AS (minute timestamptz, k int, n bigint);
		SELECT * FROM streamq.verify('lena_update');
		BEGIN; SELECT streamq.reset('lena_update'); ROLLBACK}), '',
	'given away: its state can be looked at, and reset');
hostile_rows('lena');
sql($node, "SELECT streamq.start('$_')") foreach @given;
is(sql_error($node, "SELECT streamq.wait('$_')"), '', "given away: $_ goes on") foreach @given;
all_exact('given away', 'nora');

give('lena');
hostile_rows('lena');
is(sql_error($node, "SELECT streamq.wait('$_')"), '', "given away while it runs: $_ goes on") foreach @given;
all_exact('given away while it runs', 'lena');
sql($node, "SELECT streamq.stop('$_')") foreach @given;

# what is reassigned, as other objects are
sql($node, q{CREATE ROLE third NOLOGIN; GRANT CREATE ON SCHEMA public TO third; REASSIGN OWNED BY lena TO third});
is(state_owners(), 'third', 'REASSIGN OWNED: the state is the new owner\'s');
hostile_rows('lena');
sql($node, "CALL streamq.run('$_')") foreach @given;
all_exact('REASSIGN OWNED', 'third');

# A former owner cannot drop the state of what was given away and not touched since.
sql($node, q{CREATE ROLE last NOLOGIN; GRANT CREATE ON SCHEMA public TO last;
	CREATE TABLE kept (k int); ALTER TABLE kept OWNER TO third;
	SET ROLE third;
	SELECT streamq.create_query('kept_query', 'SELECT k, count(*) AS n FROM kept GROUP BY 1', output_mode => 'complete');
	INSERT INTO kept VALUES (1);
	CALL streamq.run('kept_query');
	RESET ROLE;
	ALTER VIEW streamq_query.kept_query OWNER TO last;
	ALTER TABLE kept_query OWNER TO last;
	ALTER TABLE kept OWNER TO last;
	INSERT INTO kept VALUES (1), (2);
	SET client_min_messages = warning;
	DROP OWNED BY third CASCADE});
is(sql($node, q{SELECT count(*) FROM streamq.queries WHERE name ~ '^lena_(c|s|u)'}), '0', 'DROP OWNED: the queries are gone');
is(sql($node, q{CALL streamq.run('kept_query'); SELECT string_agg(k || ' ' || n, ', ' ORDER BY k) FROM kept_query}),
	"1|2\n1 2, 2 1", 'DROP OWNED: a query given away keeps its state');
sql($node, q{SET client_min_messages = warning; DROP OWNED BY nora, last CASCADE});
is(sql($node, q{SELECT count(*) FROM pg_class c WHERE relnamespace = 'streamq_state'::regnamespace}), '0', 'DROP OWNED: no state is left');

done_testing();
