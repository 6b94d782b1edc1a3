# 007_epoch.pl
#		Transaction ids that come round again: frozen rows of the epoch before, whose
#		32-bit xmin lies among the xids that a batch reads, are not read once more.
#
# pg_resetwal moves the next xid, in steps of less than 2^31 as they occur in
# life, with everything frozen before each.  Old and new rows lie on different
# pages, as it is the page that tells them apart (src/README.md).
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

run_and_compare('epoch 0');
foreach my $step ([ 0, 1 << 30 ], [ 0, 1 << 31 ], [ 0, 3 << 30 ])
{
	move_to(@$step);
	sql($node, 'INSERT INTO t SELECT 1000 + g FROM generate_series(1, 10) g');
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

done_testing();
