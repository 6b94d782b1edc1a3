# 006_standby.pl
#		A standby that is promoted goes on where its primary was.
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
});
$primary->backup('base');

my $standby = PostgreSQL::Test::Cluster->new('standby');

$standby->init_from_backup($primary, 'base', has_streaming => 1);
$standby->start;

my $load = start_pgbench($primary, '-c 3 -T 600',
	'standby_single' => 'INSERT INTO t (v) VALUES (1);',
	'standby_multi' => "BEGIN;\nINSERT INTO t (v) SELECT i FROM generate_series(1, 30) i;\nSAVEPOINT a;\nINSERT INTO t (v) VALUES (0);\nCOMMIT;");

ok($standby->poll_query_until('postgres',
		q{SELECT count(*) = 2 AND min(batch_id) >= 10 FROM streamq.status}),
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

$primary->stop('immediate');
finish_pgbench($load);
$standby->promote;

foreach my $query (qw(q q_cut))
{
	is(sql($standby, "SELECT streamq.wait('$query')"), 't', "promoted, $query goes on by itself");
	exact_ok($standby, $query, "$query is exact");
}
sql($standby, q{INSERT INTO t (v) SELECT i FROM generate_series(1, 100) i});
foreach my $query (qw(q q_cut))
{
	is(sql($standby, "SELECT streamq.wait('$query')"), 't', "$query follows its table");
	exact_ok($standby, $query, "$query is exact");
}
done_testing();
