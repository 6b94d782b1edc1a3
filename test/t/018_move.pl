# 018_move.pl
#		Databases that go elsewhere: dumps, pg_upgrade, copies.
#
# A dump and restore gives rows other transactions, so what comes out of a dump is
# stopped, stays so, says why, and goes on after reset(), from "earliest" with empty
# sinks or from "latest".  Wherever the files go - pg_basebackup, pg_upgrade, CREATE
# DATABASE ... TEMPLATE - queries go on exactly once where they were.
use strict;
use warnings FATAL => 'all';

use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use StreamqTest;
use Test::More;

my @settings = (
	"shared_preload_libraries = 'streamq'",
	'log_statement = none',
	'streamq.poll_interval = 10ms',
	'max_worker_processes = 20');
my $node = PostgreSQL::Test::Cluster->new('origin');

$node->init(allows_streaming => 1);
$node->append_conf('postgresql.conf', join("\n", @settings, ''));
$node->start;
sql($node, q{
	CREATE ROLE keeper;
	CREATE ROLE stranger LOGIN;
	CREATE DATABASE shop;
});

# ------------------------------------------------------------------ the scene

# A name for each thing that a dump could get wrong: numbers of columns that change,
# names in quotes, another owner, more than one schema, a partition that is detached.
sql($node, q{
	CREATE EXTENSION streamq;
	CREATE SCHEMA "Odd Place" AUTHORIZATION keeper;
	GRANT CREATE ON SCHEMA public TO keeper;
	SET ROLE keeper;
	SET search_path = "Odd Place", public;
	CREATE TABLE visits (gone timestamptz, id bigserial, "At" timestamptz, k int, noted timestamptz DEFAULT '2000-01-01');
	ALTER TABLE visits DROP COLUMN gone;
	CREATE INDEX ON visits USING brin ("At");
	CREATE TABLE places (k int PRIMARY KEY, name text);
	INSERT INTO places VALUES (0, 'here'), (1, 'there'), (2, 'where');
	CREATE TABLE parts (id bigserial, at timestamptz, k int) PARTITION BY LIST (k);
	CREATE TABLE parts_0 PARTITION OF parts FOR VALUES IN (0);
	CREATE TABLE parts_1 PARTITION OF parts FOR VALUES IN (1);
	CREATE TABLE parts_2 PARTITION OF parts FOR VALUES IN (2);
	SELECT streamq.add_source('visits', 'At', '30 seconds');
	SELECT streamq.add_source('parts', 'at', '30 seconds');

	SELECT streamq.create_query('q_rows', 'SELECT id, k FROM visits');
	SELECT streamq.create_query('q_join', 'SELECT id, name FROM visits JOIN places USING (k) WHERE id % 5 > 0');
	SELECT streamq.create_query('q_parts', 'SELECT id, k FROM parts', max_rows_per_batch => 40);
	SELECT streamq.create_query('Q Odd', 'SELECT id AS "The Id" FROM visits', sink => '"Odd Place"."The Sink"');
	SELECT streamq.add_source('q_rows');
	SELECT streamq.create_query('q_chained', 'SELECT id FROM q_rows WHERE k = 1');
	SELECT streamq.create_query('a_state', $$
		SELECT date_bin('1 minute', "At", '2024-01-01') AS minute, name, count(*) AS n, array_agg(id ORDER BY id) AS ids
		FROM visits JOIN places USING (k) GROUP BY 1, 2 $$, late_sink => 'late_state', live_view => 'live_state');
	SELECT streamq.create_query('a_source', $$
		SELECT date_bin('1 minute', "At", '2024-01-01') AS minute, k, count(*) AS n FROM visits GROUP BY 1, 2 $$,
		late_sink => 'late_source');
	SELECT streamq.create_query('a_update', $$
		SELECT date_bin('1 minute', at, '2024-01-01') AS minute, k, count(*) AS n, count(DISTINCT id % 5) AS d
		FROM parts GROUP BY 1, 2 $$, output_mode => 'update', late_sink => 'late_update');
	SELECT streamq.create_query('a_complete', $$
		SELECT k, count(*) AS n, avg(id) AS m FROM visits GROUP BY 1 ORDER BY 2 DESC, 1 LIMIT 2 $$, output_mode => 'complete');
	-- a definition that a dump makes in two steps, as it needs a primary key
	SELECT streamq.create_query('q_keyed', $$
		SELECT id, (SELECT string_agg(n, '') FROM (SELECT p.name || p.k AS n FROM places p GROUP BY p.k) s) AS names FROM visits $$);
}, 'shop');
my @queries = ('Q Odd', qw(a_complete a_source a_state a_update q_chained q_join q_keyed q_parts q_rows));
my $minutes = 0;
my $partitions = 3;

# Some minutes of events, with rows that are late in the second batch.
sub load
{
	my ($target, $database) = @_;

	$minutes += 10;
	sql($target, qq{
		INSERT INTO "Odd Place".visits ("At", k) SELECT '2024-01-01'::timestamptz + ($minutes * 60 + i * 7) * interval '1 second', i % 3
			FROM generate_series(1, 60) i;
		INSERT INTO "Odd Place".visits ("At", k) VALUES ('2024-01-01', 1), (NULL, 2);
		INSERT INTO "Odd Place".parts (at, k) SELECT '2024-01-01'::timestamptz + ($minutes * 60 + i * 7) * interval '1 second', i % $partitions
			FROM generate_series(1, 60) i;
		INSERT INTO "Odd Place".parts (at, k) VALUES ('2024-01-01', 1)}, $database // 'shop');
	return;
}

# each_query(TEXT): the text for each query, with the name in place of %s
sub each_query
{
	my ($text, @of) = @_;

	@of = @queries unless @of;
	return join ' ', map { sprintf $text, $_ } @of;
}

# All queries have read everything, and verify() finds no difference.  The one that
# reads a sink comes last.
sub exact_everywhere
{
	my ($target, $database, $name) = @_;

	is(sql($target, each_query(q{SELECT streamq.wait('%s', '3 min') OR NULL;}, (grep { $_ ne 'q_chained' } @queries), 'q_chained'),
			$database), join("\n", ('t') x @queries), "$name: all of them follow their sources");
	is(sql($target, q{SELECT q.name, v.* FROM streamq.queries q, streamq.verify(name) v}, $database), '', "$name: exact");
	return;
}

sub checkpoints
{
	my ($target, $database) = @_;

	return sql($target, q{SELECT o.* FROM streamq.offsets o ORDER BY name, batch_id, relation::text;
		SELECT c.* FROM streamq.commits c ORDER BY name, batch_id}, $database);
}

load($node);
sql($node, each_query(q{SELECT streamq.start('%s');}), 'shop');
exact_everywhere($node, 'shop', 'at the start');
load($node);
exact_everywhere($node, 'shop', 'with late rows');
isnt(sql($node, q{SELECT sum(total_late_rows) FROM streamq.status}, 'shop'), '0', 'rows have been late');
# detached, it is no part of its source, and its offset stays
sql($node, q{ALTER TABLE "Odd Place".parts DETACH PARTITION "Odd Place".parts_2}, 'shop');
$partitions = 2;

# ----------------------------------------------------------------------- dumps

my $dir = $node->basedir;
my $programs = $node->config_data('--bindir');
my %dump = (
	custom => [ "$dir/custom", '-Fc' ],
	directory => [ "$dir/directory", '-Fd', '-j2' ],
	plain => [ "$dir/plain.sql" ],
	inserts => [ "$dir/inserts.sql", '--rows-per-insert=7' ],
	schema => [ "$dir/schema", '-Fc', '--schema-only' ],
	data => [ "$dir/data", '-Fc', '--data-only' ]);

sub dump_ok
{
	my ($database, $kind) = @_;
	my ($file, @options) = @{ $dump{$kind} };

	$node->command_ok([ 'pg_dump', @options, '-f', $file, $database ], "dump: $kind");
	return;
}

# restore_ok(DATABASE, KIND, OPTION...)
sub restore_ok
{
	my ($database, $kind, @options) = @_;
	my $file = $dump{$kind}[0];

	$node->command_ok(
		$file =~ /\.sql$/
		? [ 'psql', '-XqAt', '-v', 'ON_ERROR_STOP=1', @options, '-d', $node->connstr($database), '-f', $file ]
		: [ 'pg_restore', '--exit-on-error', @options, '-d', $node->connstr($database), $file ],
		"restored: $kind @options");
	return;
}

# A restored database in which some queries had been started: nothing runs.
sub stopped_ok
{
	my ($database, $name) = @_;
	my $before = checkpoints($node, $database);

	is(sql($node, q{SELECT count(*) FILTER (WHERE state = 'stopped' AND pending_rows IS NULL
			AND last_error ~ 'restored from a dump.*streamq.reset'), count(*) FROM streamq.status}, $database),
		@queries . '|' . @queries, "$name: all are stopped, and status says why");
	isnt($before, '', "$name: the checkpoint is there");

	# once a query has been started and served, the database has been looked at
	sql($node, q{CREATE TABLE extra (id int);
		SELECT streamq.create_query('q_extra', 'SELECT id FROM extra');
		INSERT INTO extra VALUES (1);
		SELECT streamq.start('q_extra')}, $database);
	is(sql($node, q{SELECT streamq.wait('q_extra')}, $database), 't', "$name: a new query runs");
	sql($node, q{SELECT streamq.drop_query('q_extra', true); DROP TABLE extra CASCADE}, $database);
	is(checkpoints($node, $database), $before, "$name: no worker has touched the others");

	foreach my $statement (
		q{SELECT streamq.start('a_update')}, q{SELECT streamq.wait('q_rows')}, q{CALL streamq.run('q_parts')},
		q{SELECT streamq.verify('a_source')}, q{TABLE "Odd Place".live_state},
		q{SELECT streamq.alter_query('q_rows', 'SELECT id, k FROM "Odd Place".visits WHERE k > 0')})
	{
		like(sql_error($node, $statement, $database),
			qr/55000: the checkpoint of streaming query "\w+" belongs to another database.*streamq\.reset\(\)/s,
			"$name: refused: $statement");
	}
	is(sql($node, q{SELECT streamq.stop(name) FROM streamq.queries WHERE name = 'q_rows'}, $database), '', "$name: stop() does nothing");
	return;
}

# What came out of a dump is begun anew.
sub begun_anew_ok
{
	my ($database, $name) = @_;

	sql($node, q{SET search_path = "Odd Place";
		TRUNCATE q_rows, q_join, q_parts, "The Sink", q_chained, a_state, late_state, a_source, late_source, a_update,
			late_update, q_keyed;
		SELECT streamq.reset(name) FROM streamq.queries}, $database);
	sql($node, each_query(q{SELECT streamq.start('%s');}), $database);
	exact_everywhere($node, $database, "$name, reset");
	is(sql($node, q{SELECT watermark AT TIME ZONE 'UTC' FROM streamq.status WHERE name = 'a_source'}, $database),
		sql($node, q{SELECT max("At") AT TIME ZONE 'UTC' - interval '30 seconds' FROM "Odd Place".visits}, $database),
		"$name: event times come from the same column");
	load($node, $database);
	exact_everywhere($node, $database, "$name, with new rows");
	is(sql($node, q{SELECT count(DISTINCT (SELECT count(*) FROM "Odd Place".visits TABLESAMPLE streamq.since('1:1:', streamq.current_offset()))
			- (SELECT count(*) FROM "Odd Place".visits)) FROM streamq.arrivals('"Odd Place".visits')}, $database),
		'1', "$name: the arrival map is there");
	like(sql_error($node, q{DROP TABLE "Odd Place".q_parts}, $database), qr/2BP01/, "$name: a query keeps its sink");
	return;
}

dump_ok('shop', $_) foreach sort keys %dump;
$partitions = 3;
sql($node, q{ALTER TABLE "Odd Place".parts ATTACH PARTITION "Odd Place".parts_2 FOR VALUES IN (2)}, 'shop');
load($node);
exact_everywhere($node, 'shop', 'the original');
$partitions = 2;
sql($node, "CREATE DATABASE $_") foreach qw(one many plain inserts halves);
restore_ok('one', 'custom', '--single-transaction');
restore_ok('many', 'directory', '-j2');
restore_ok('plain', 'plain');
restore_ok('inserts', 'inserts', '--single-transaction');
restore_ok('halves', 'schema');
restore_ok('halves', 'data', '--disable-triggers');
stopped_ok($_, $_) foreach qw(one many plain inserts halves);
begun_anew_ok('many', 'many');
# pg_restore has disabled all triggers, and enabled them as ordinary ones
sql($node, q{SELECT streamq.reset('q_join')}, 'halves');
like(sql_error($node, q{CALL streamq.run('q_join')}, 'halves'), qr/55000.*not protected against UPDATE.*ENABLE ALWAYS TRIGGER/s,
	'halves: --disable-triggers has changed a trigger');
sql($node, q{DO $$ DECLARE t record; BEGIN
	FOR t IN SELECT tgrelid::regclass AS of, tgname FROM pg_trigger WHERE tgfoid = 'streamq.refuse_update'::regproc LOOP
		EXECUTE format('ALTER TABLE %s ENABLE ALWAYS TRIGGER %I', t.of, t.tgname);
	END LOOP; END $$}, 'halves');
begun_anew_ok('halves', 'halves');
# it is the server's start, too, that has the databases looked at
$node->restart;
stopped_ok('plain', 'after a restart');

# from "latest": what had been read is in the sink, groups begin from nothing
sql($node, q{
	SELECT streamq.reset(name, 'latest') FROM streamq.queries WHERE name ~ '^q_';
	INSERT INTO "Odd Place".visits ("At", k) VALUES ('2024-02-01', 1);
	INSERT INTO "Odd Place".parts (at, k) VALUES ('2024-02-01', 0);
	CALL streamq.run('q_rows'); CALL streamq.run('q_join'); CALL streamq.run('q_parts'); CALL streamq.run('q_chained');
}, 'plain');
is(sql($node, q{SELECT count(*) FROM (SELECT id, k FROM "Odd Place".visits EXCEPT ALL TABLE "Odd Place".q_rows) x;
		SELECT count(*) FROM (TABLE "Odd Place".q_parts EXCEPT ALL (SELECT id, k FROM "Odd Place".parts UNION ALL SELECT id, k FROM "Odd Place".parts_2)) x;
		SELECT (SELECT count(*) FROM "Odd Place".q_rows) - (SELECT count(*) FROM "Odd Place".visits)}, 'plain'),
	"0\n0\n0", 'latest: queries without aggregation go on where they were');

# a dump of what was restored is refused again, in the same cluster and database name
$dump{again} = [ "$dir/again", '-Fc' ];
dump_ok('many', 'again');
sql($node, q{DROP DATABASE many WITH (FORCE)});
sql($node, q{CREATE DATABASE many});
restore_ok('many', 'again');
stopped_ok('many', 'restored again');
sql($node, "DROP DATABASE $_ WITH (FORCE)") foreach qw(one many plain inserts halves);

# into a database whose template has the extension; such databases are not the same
sql($node, q{CREATE DATABASE mould});
sql($node, q{CREATE EXTENSION streamq}, 'mould');
sql($node, q{CREATE DATABASE cast_one TEMPLATE mould});
restore_ok('cast_one', 'custom');
stopped_ok('cast_one', 'from a template with the extension');

# restored with schemas only, and used
sql($node, q{CREATE DATABASE bare});
restore_ok('bare', 'schema');
is(sql($node, q{
	SET search_path = "Odd Place", public;
	DROP VIEW live_state;
	SELECT streamq.add_source('visits', 'At', '30 seconds');
	INSERT INTO visits ("At", k) VALUES ('2024-01-01 00:00', 1), ('2024-01-01 01:00', 1);
	SELECT streamq.create_query('a_complete', 'SELECT k, count(*) AS n, avg(id) AS m FROM visits GROUP BY 1', output_mode => 'complete');
	CALL streamq.run('a_complete');
	TABLE a_complete;
	SELECT count(*) FROM pg_trigger WHERE tgrelid = 'visits'::regclass;
	SELECT streamq.drop_query('a_complete');
	SELECT streamq.drop_source('visits');
	SELECT streamq.drop_source('parts');
	UPDATE visits SET k = 2;
	SELECT count(*) FROM pg_trigger WHERE tgrelid IN ('visits'::regclass, 'parts'::regclass)}, 'bare') =~ s/\n+/ /gr,
	' "Odd Place".a_complete 1|2 1|2|1.5000000000000000 1 0' =~ s/"Odd Place"\.//r, 'schemas only: queries are made anew');
foreach my $database (qw(bare cast_one mould))
{
	sql($node, "DROP DATABASE $database WITH (FORCE)");
}

# --------------------------------------------------------------- CREATE DATABASE

sql($node, each_query(q{SELECT streamq.stop('%s');}), 'shop');
$partitions = 3;
load($node);
sql($node, q{CREATE DATABASE twin TEMPLATE shop});
foreach my $database (qw(shop twin))
{
	load($node, $database);
	sql($node, each_query(q{SELECT streamq.start('%s');}), $database);
	exact_everywhere($node, $database, "CREATE DATABASE ... TEMPLATE, $database");
}
sql($node, q{DROP DATABASE twin WITH (FORCE)});

# ------------------------------------------------------------------------ copies

# taken in the middle of the load
my $before = sql($node, q{SELECT sum(batch_id) FROM streamq.status}, 'shop');
my @load;

sql($node, q{CREATE TABLE public.enough (id int)}, 'shop');
@load = map {
	psql_in_background($node, qq{
	DO \$\$ BEGIN
		FOR i IN 1 .. 100000 LOOP
			INSERT INTO "Odd Place".visits ("At", k) VALUES ('2024-03-01'::timestamptz + i * interval '1 second', i % 3);
			INSERT INTO "Odd Place".parts (at, k) SELECT '2024-03-01'::timestamptz + i * interval '1 second', k % 2 FROM generate_series(1, 5) k;
			COMMIT;
			PERFORM pg_sleep(0.005);
			EXIT WHEN EXISTS (SELECT FROM public.enough);
		END LOOP;
	END \$\$}, 'shop') } 1 .. 2;
wait_for($node, "sum(batch_id) > $before + 20 FROM streamq.status", 'a load', 'shop');
$node->backup('copy');
sql($node, q{INSERT INTO public.enough VALUES (1)}, 'shop');
foreach my $run (@load)
{
	$run->{handle}->finish;
	is($run->{err}, '', 'the load has gone well');
}
exact_everywhere($node, 'shop', 'after the load');

my $copy = PostgreSQL::Test::Cluster->new('copy');

$copy->init_from_backup($node, 'copy');
$copy->start;
exact_everywhere($copy, 'shop', 'pg_basebackup: by themselves');
load($copy);
exact_everywhere($copy, 'shop', 'pg_basebackup, with new rows');
$copy->stop('immediate');

# -------------------------------------------------------------------- pg_upgrade

# One query is in the middle of a transaction that is larger than its batches, others
# have groups that are open, and rows to read; one partition is detached and behind.
my $beyond = 100 + sql($node, q{SELECT max(id) FROM "Odd Place".parts}, 'shop');
sql($node, qq{
	SELECT streamq.stop('q_parts');
	ALTER TABLE "Odd Place".q_parts ADD CONSTRAINT not_beyond CHECK (id < $beyond) NOT VALID;
	INSERT INTO "Odd Place".parts (at, k) SELECT '2024-04-01', i % 2 FROM generate_series(1, 200) i;
}, 'shop');
like(sql_error($node, q{CALL streamq.run('q_parts')}, 'shop'), qr/23514/, 'pg_upgrade: a query stands in the middle of a backlog');
isnt(sql($node, q{SELECT count(*) FROM (SELECT DISTINCT ON (relation) partial_xid FROM streamq.offsets WHERE name = 'q_parts'
		ORDER BY relation, batch_id DESC) x WHERE partial_xid IS NOT NULL}, 'shop'), '0', 'pg_upgrade: and of a transaction');
sql($node, q{SELECT streamq.stop('a_state'); ALTER TABLE "Odd Place".q_parts DROP CONSTRAINT not_beyond;
	ALTER TABLE "Odd Place".parts DETACH PARTITION "Odd Place".parts_2;
	INSERT INTO "Odd Place".parts_2 (at, k) VALUES ('2024-04-01', 2)}, 'shop');
$partitions = 2;
load($node);
sql($node, q{BEGIN; INSERT INTO "Odd Place".visits ("At", k) VALUES ('2024-05-01', 0); ROLLBACK}, 'shop');
$node->stop;

my $new = PostgreSQL::Test::Cluster->new('new');

$new->init(allows_streaming => 1);
$new->append_conf('postgresql.conf', join("\n", @settings, ''));
isnt($new->data_dir, $node->data_dir, 'another cluster');
chdir $dir or die "chdir $dir: $!";
command_ok(
	[
		'pg_upgrade', '--no-sync', '-d', $node->data_dir, '-D', $new->data_dir, '-b', $programs, '-B', $programs,
		'-s', $new->host, '-p', $node->port, '-P', $new->port
	],
	'pg_upgrade');
$new->start;
is(sql($new, q{SELECT string_agg(name, ' ' ORDER BY name) FROM streamq.status WHERE state = 'stopped'}, 'shop'), 'a_state q_parts',
	'pg_upgrade: those that were stopped are');
sql($new, q{SELECT streamq.start('a_state'); SELECT streamq.start('q_parts')}, 'shop');
load($new);
sql($new, q{ALTER TABLE "Odd Place".parts ATTACH PARTITION "Odd Place".parts_2 FOR VALUES IN (2)}, 'shop');
$partitions = 3;
load($new);
exact_everywhere($new, 'shop', 'pg_upgrade: by themselves');
is(sql($new, q{SELECT count(*) FROM (SELECT batch_id - lag(batch_id) OVER (PARTITION BY name ORDER BY batch_id) AS step,
		watermark < lag(watermark) OVER (PARTITION BY name ORDER BY batch_id) AS back FROM streamq.commits) c
		WHERE step <> 1 OR back}, 'shop'), '0', 'pg_upgrade: batches and watermarks go on');
like(sql_error($new, q{DROP TABLE "Odd Place".q_parts}, 'shop'), qr/2BP01/, 'pg_upgrade: once started, a query keeps its sink');
# a dump of that is refused like others
$node = $new;
$dump{upgraded} = [ "$dir/upgraded", '-Fc' ];
dump_ok('shop', 'upgraded');
sql($node, q{CREATE DATABASE moved});
restore_ok('moved', 'upgraded');
stopped_ok('moved', 'dumped after pg_upgrade');
done_testing();
