# 005_owners.pl
#		Workers act as the owner of a query: with his rights, never more, and
#		under his settings, whether he can log in or not.
use strict;
use warnings FATAL => 'all';

use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Utils;
use StreamqTest;
use Test::More;

my $node = new_server('owners', 'streamq.max_retries = 1');

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

done_testing();
