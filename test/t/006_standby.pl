# 006_standby.pl
#		A standby that is promoted goes on where its primary was, aggregations with
#		their state and watermarks, too; before that, they can be looked at there.
use strict;
use warnings FATAL => 'all';

use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use StreamqTest;
use Test::More;

my $primary = PostgreSQL::Test::Cluster->new('primary');

$primary->init(allows_streaming => 1);
$primary->append_conf('postgresql.conf',
	"shared_preload_libraries = 'streamq'\nstreamq.poll_interval = 10ms\nmax_connections = 30\nlog_statement = none\n");
$primary->start;
sql($primary, q{
	CREATE EXTENSION streamq;
	CREATE TABLE t (id bigserial, v int);
	SELECT streamq.add_source('t');
	SELECT streamq.create_query('q', 'SELECT id, v FROM t');
	SELECT streamq.create_query('q_cut', 'SELECT id, v FROM t', max_rows_per_batch => 10);
	SELECT streamq.start('q');
	SELECT streamq.start('q_cut');

	-- one second of event time a millisecond, so that groups come and go
	CREATE SEQUENCE ticks;
	CREATE TABLE events (id bigserial, at timestamptz, k int);
	CREATE INDEX ON events (at);
	CREATE TABLE names (k int, name text);
	INSERT INTO names SELECT k, 'name ' || k FROM generate_series(0, 4) k;
	SELECT streamq.add_source('events', 'at', '30 seconds');
	SELECT streamq.create_query('a_state', $$
		SELECT date_bin('10 seconds', at, '2024-01-01') AS t, name, count(*) AS n, array_agg(id ORDER BY id) AS ids
		FROM events JOIN names USING (k) GROUP BY 1, 2 $$, late_sink => 'late_state', live_view => 'live_state');
	SELECT streamq.create_query('a_source', $$
		SELECT date_bin('10 seconds', at, '2024-01-01') AS t, k, count(*) AS n FROM events GROUP BY 1, 2 $$,
		late_sink => 'late_source', live_view => 'live_source');
	SELECT streamq.create_query('a_update', $$
		SELECT date_bin('10 seconds', at, '2024-01-01') AS t, k, count(*) AS n, count(DISTINCT id % 3) AS d
		FROM events GROUP BY 1, 2 HAVING count(*) <> 2 $$, output_mode => 'update', late_sink => 'late_update',
		max_rows_per_batch => 50);
	SELECT streamq.create_query('a_complete', $$
		SELECT k, count(*) AS n, avg(id) AS m, stddev(id) AS s FROM events GROUP BY 1 $$, output_mode => 'complete');
	SELECT streamq.start(name) FROM streamq.queries WHERE name ~ '^a_';
});
my @aggregations = qw(a_complete a_source a_state a_update);

sub aggregations_ok
{
	my ($node, $name) = @_;

	is(sql($node, q{SELECT name, v.* FROM streamq.queries q, streamq.verify(name) v WHERE name ~ '^a_'}), '', "$name: exact");
	is(sql($node, q{SELECT name, count(*) FROM (SELECT name, watermark < lag(watermark) OVER (PARTITION BY name ORDER BY batch_id) AS back
		FROM streamq.commits) c WHERE back GROUP BY 1}), '', "$name: no watermark has moved back");
	return;
}
$primary->backup('base');

my $standby = PostgreSQL::Test::Cluster->new('standby');

$standby->init_from_backup($primary, 'base', has_streaming => 1);
$standby->start;

my $load = start_pgbench($primary, '-c 3 -T 600',
	'standby_single' => 'INSERT INTO t (v) VALUES (1);',
	'standby_events' => q{INSERT INTO events (at, k) SELECT '2024-01-01'::timestamptz + (nextval('ticks') - (random() < 0.05)::int * 120)
		* interval '1 second', random() * 4 FROM generate_series(1, 10);},
	'standby_multi' => "BEGIN;\nINSERT INTO t (v) SELECT i FROM generate_series(1, 30) i;\nSAVEPOINT a;\nINSERT INTO t (v) VALUES (0);\nCOMMIT;");

ok($standby->poll_query_until('postgres',
		q{SELECT count(*) = 6 AND min(batch_id) >= 10 AND min(total_output_rows) > 0
			AND sum(total_late_rows) > 0 FROM streamq.status}),
	'the standby sees batches of the primary');
is(sql($standby, q{SELECT count(*) FROM pg_stat_activity WHERE backend_type ~ '^streamq'}), '0',
	'nothing of streamq runs there');

# increments can be read on a standby: all that is visible, once
is(sql($standby, q{
	BEGIN ISOLATION LEVEL REPEATABLE READ;
	SELECT (SELECT count(*) FROM t) - (SELECT count(*) FROM t TABLESAMPLE
		streamq.since('1:1:', streamq.current_offset()));
	COMMIT}), '0', 'since() on a standby');
like(sql_error($standby, q{CALL streamq.run('q')}), qr/ERROR:  25006/, 'run() is refused there');
like(sql_error($standby, q{SELECT streamq.stop('q')}), qr/ERROR:  25006/, 'so is stop()');

# so can groups, and all that has been processed is there in each snapshot
aggregations_ok($standby, 'verify() on a standby');
is(sql($standby, q{
	SELECT (SELECT sum(n) FROM live_state) = total_input_rows - total_late_rows FROM streamq.status WHERE name = 'a_state';
	SELECT (SELECT sum(n) FROM live_source) = total_input_rows - total_late_rows FROM streamq.status WHERE name = 'a_source';
	SELECT (SELECT count(*) FROM streamq.state('a_state') AS (t timestamptz, name text, n bigint, ids bigint[])) = state_rows
		FROM streamq.status WHERE name = 'a_state'}), "t\nt\nt", 'live() and state() on a standby');

$primary->stop('immediate');
finish_pgbench($load);
$standby->promote;

foreach my $query (qw(q q_cut))
{
	is(sql($standby, "SELECT streamq.wait('$query')"), 't', "promoted, $query goes on by itself");
	exact_ok($standby, $query, "$query is exact");
}
foreach my $query (@aggregations)
{
	is(sql($standby, "SELECT streamq.wait('$query')"), 't', "promoted, $query goes on by itself");
}
aggregations_ok($standby, 'promoted');
sql($standby, q{INSERT INTO events (at, k) SELECT max(at) + interval '10 minutes', 1 FROM events;
	INSERT INTO events (at, k) VALUES ('2024-01-01', 1), (NULL, 2)});
sql($standby, q{INSERT INTO t (v) SELECT i FROM generate_series(1, 100) i});
foreach my $query (qw(q q_cut))
{
	is(sql($standby, "SELECT streamq.wait('$query')"), 't', "$query follows its table");
	exact_ok($standby, $query, "$query is exact");
}
foreach my $query (@aggregations)
{
	is(sql($standby, "SELECT streamq.wait('$query')"), 't', "$query follows its table");
}
aggregations_ok($standby, 'promoted, with new rows');
is(sql($standby, q{SELECT count(*) FROM streamq.state('a_state') AS (t timestamptz, name text, n bigint, ids bigint[])
	WHERE t < (SELECT watermark - interval '10 seconds' FROM streamq.status WHERE name = 'a_state')}), '0', 'groups of before are closed');
done_testing();
