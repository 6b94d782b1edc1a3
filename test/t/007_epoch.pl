# 007_epoch.pl
#		Transaction ids that come round again: frozen rows of the epoch before, whose
#		32-bit xmin lies among the xids that a batch reads, are not read once more.
#
# pg_resetwal moves the next xid, in steps of less than 2^31 as they occur in
# life, with everything frozen before each.
#
# Where old and new rows lie on different pages, the page tells them apart; where
# they share pages, the arrival map does, unless it has been made since, or free places
# among the old rows have been filled.  Then the batch is refused: no row is ever lost
# or read twice.
use strict;
use warnings FATAL => 'all';

use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use StreamqTest;
use Test::More;

my $node = new_server('epoch', 'autovacuum = off');

# the next xid, epoch included, becomes what is given; a step forward
sub move_to
{
	my ($epoch, $xid) = @_;

	$node->command_ok(
		[ 'psql', '-XqAt', '-d', 'postgres', '-c',
			q{UPDATE pg_database SET datallowconn = true WHERE datname = 'template0'} ],
		'template0 can be frozen');
	$node->command_ok([ 'vacuumdb', '--all', '--freeze', '--quiet' ], 'everything is frozen');
	$node->stop;

	# the commit log has to have the segment of that xid
	my $segment = sprintf '%s/pg_xact/%04X', $node->data_dir, $xid >> 20;
	if (!-e $segment)
	{
		open my $file, '>', $segment or die "$segment: $!";
		binmode $file;
		print $file "\0" x (32 * 8192);
		close $file or die "$segment: $!";
	}
	command_ok([ 'pg_resetwal', '-e', $epoch, '-x', $xid, $node->data_dir ],
		"next xid is $xid of epoch $epoch");
	$node->start;
	return;
}

sub run_and_compare
{
	my ($name) = @_;

	sql($node, "CALL streamq.run('$_')") foreach qw(q q_cut q_quiet);
	exact_ok($node, $_, "$name: $_") foreach qw(q q_cut q_quiet);
	return;
}

sql($node, q{
	CREATE TABLE t (id int) PARTITION BY RANGE (id);
	CREATE TABLE t_old PARTITION OF t FOR VALUES FROM (0) TO (1001);
	CREATE TABLE t_new PARTITION OF t FOR VALUES FROM (1001) TO (10000);
	SELECT streamq.add_source('t');
	SELECT streamq.create_query('q', 'SELECT id FROM t');
	SELECT streamq.create_query('q_cut', 'SELECT id FROM t', max_rows_per_batch => 100);
	INSERT INTO t SELECT g FROM generate_series(1, 1000) g;
	CREATE TABLE quiet (id int);
	INSERT INTO quiet VALUES (1);
	SELECT streamq.create_query('q_quiet', 'SELECT id FROM quiet');
});
my $xmin = sql($node, 'SELECT xmin FROM t LIMIT 1');

# Tables of which old and new rows share a page.
my @shared = qw(few bulk unlogged steps early late freed freed_frozen dropped rebuilt rewritten lagging);

sub run_shared
{
	sql($node, join ' ', map { "CALL streamq.run('s_$_');" } @_);
	return;
}

# The query gives all rows of its table, and they are that many.
sub shared_ok
{
	my ($table, $rows, $name) = @_;

	run_shared($table);
	exact_ok($node, "s_$table", "$table: $name", $rows);
	return;
}

# The batch is refused, and nothing has changed; streamq.reset() leads out of it.
sub refused_ok
{
	my ($table, $name) = @_;
	my $before = sql($node, "SELECT count(*), sum(id) FROM s_$table");

	like(sql_error($node, "CALL streamq.run('s_$table')"),
		qr/ERROR:  55000: cannot tell whether a row of table "$table" is new/, "$table: $name");
	is(sql($node, "SELECT count(*), sum(id) FROM s_$table"), $before, "$table: its sink is as before");
	is(sql($node, "SELECT count(*) FROM streamq.status WHERE name = 's_$table'"), '1', "$table: its status can be seen");
	sql($node, "TRUNCATE s_$table; SELECT streamq.reset('s_$table')");
	shared_ok($table, sql($node, "SELECT count(*) FROM $table"), 'read anew');
	return;
}

sub insert
{
	my ($table, $from, $to) = @_;

	sql($node, "INSERT INTO $table SELECT generate_series($from, $to)");
	return;
}

foreach my $table (@shared)
{
	sql($node, ($table eq 'unlogged' ? 'CREATE UNLOGGED' : 'CREATE') . qq{ TABLE $table (id int);
		SELECT streamq.add_source('$table');
		SELECT streamq.create_query('s_$table', 'SELECT id FROM $table')});
	insert($table, 1, 50);
}
run_shared(@shared);
sql($node, 'REINDEX INDEX early_arrivals');
foreach my $table (qw(freed freed_frozen))
{
	sql($node, "DELETE FROM $table WHERE id <= 10");
	sql($node, "VACUUM $table");
}

run_and_compare('epoch 0');
foreach my $step ([ 0, 1 << 30 ], [ 0, 1 << 31 ], [ 0, 3 << 30 ])
{
	move_to(@$step);
	sql($node, 'INSERT INTO t SELECT 1000 + g FROM generate_series(1, 10) g');
	insert('steps', 51, 55);
	run_shared(@shared);
	run_and_compare("epoch 0, xid $step->[1]");
}

# now the xid of the first rows is assigned once more
move_to(1, $xmin - 3);
is(sql($node, "SELECT xmin FROM t WHERE id = 1"), $xmin, 'frozen rows keep their xmin');
sql($node, 'CREATE TABLE other (id int)');
sql($node, "INSERT INTO other VALUES ($_)") foreach 1 .. 10;
cmp_ok(sql($node, "SELECT pg_snapshot_xmax(pg_current_snapshot())::text::numeric - 4294967296"),
	'>', $xmin, 'the xid has come round');
run_and_compare('epoch 1, nothing new');
sql($node, 'INSERT INTO t SELECT 2000 + g FROM generate_series(1, 10) g');
sql($node, 'INSERT INTO quiet VALUES (2)');
run_and_compare('epoch 1, new rows');

is(sql($node, q{SELECT string_agg(input_rows::text, ' ' ORDER BY batch_id)
	FROM streamq.commits WHERE name = 'q_quiet'}), '1 0 0 0 0 1',
	'offsets that grow old are renewed without new rows');

# Old and new rows on the same pages: rows of the first transactions look as if they
# were of the range read now.
sql($node, q{DO 'BEGIN FOR i IN 1 .. 500 LOOP PERFORM pg_current_xact_id(); COMMIT; END LOOP; END'});
cmp_ok(sql($node, 'SELECT pg_snapshot_xmax(pg_current_snapshot())::text::numeric - 4294967296'),
	'>', sql($node, 'SELECT xmin FROM lagging WHERE id = 50'), 'all xids of the first rows have come round');
insert('few', 51, 60);
shared_ok('few', 60, 'new rows');
foreach my $table (qw(bulk unlogged steps early))
{
	insert($table, 61, 70);
	insert($table, 71, 2000);
	insert($table, 2001, 2010);
	sql($node, "VACUUM (FREEZE) $table");
	shared_ok($table, $table eq 'steps' ? 2015 : 2000, 'new rows, frozen before they are read');
	is(sql($node, "SELECT pending_rows FROM streamq.status WHERE name = 's_$table'"), '0', "$table: nothing is pending");
}

# The same without anything new: the map is not asked.
sql($node, 'DROP INDEX late_arrivals');
shared_ok('late', 50, 'without a map');
sql($node, 'CREATE INDEX ON late USING streamq_arrivals ((1))');
shared_ok('late', 50, 'with a new map');

# Free places among the old rows are filled.
insert($_, 51, 80) foreach qw(freed freed_frozen);
is(sql($node, 'SELECT min(ctid) FROM freed WHERE id > 50'), '(0,1)', 'free places are taken first');
sql($node, 'VACUUM (FREEZE) freed_frozen');
refused_ok($_, 'free places have been filled') foreach qw(freed freed_frozen);

# No map, or one that does not know.
sql($node, 'DROP INDEX dropped_arrivals');
insert('dropped', 51, 60);
refused_ok('dropped', 'without a map');
insert('rebuilt', 51, 60);
sql($node, 'REINDEX INDEX CONCURRENTLY rebuilt_arrivals');
refused_ok('rebuilt', 'the map has been made since');
insert('rewritten', 51, 60);
sql($node, 'VACUUM FULL rewritten');
refused_ok('rewritten', 'the table has been written anew');

# Rows of which a query does not hear for another 2^31 transactions.
insert('lagging', 51, 60);
my @others = grep { $_ ne 'lagging' } @shared;
foreach my $xid (1 << 30, (1 << 31) + 1000)
{
	move_to(1, $xid);
	insert($_, 3001, 3010) foreach qw(few bulk unlogged steps early);
	run_shared(@others);
	exact_ok($node, "s_$_", "epoch 1, xid $xid: $_") foreach grep { !/dropped|freed|rewritten|late|rebuilt/ } @others;
}
insert('lagging', 61, 70);
refused_ok('lagging', 'two eras have passed');

done_testing();
