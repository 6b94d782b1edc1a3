# 030_cases.pl
#		The cases of test/cases: situations that people meet with systems like this
#		one, and what has to happen.  The README there describes them.
#
# Each variant of a case is one test; what is wrong follows as a comment.
#
# STREAMQ_CASES="SB-02 SB-104": only the cases whose id begins so.
# STREAMQ_CASES_SLOW=1: says how long each one takes.
use strict;
use warnings FATAL => 'all';

use FindBin;
use JSON::PP ();
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time);

use lib $FindBin::RealBin, "$FindBin::RealBin/../cases";
use Special;
use Steps;
use StreamqTest;

my $folder = "$FindBin::RealBin/../cases";
my @cases = map { JSON::PP::decode_json($_) } split /\n/, slurp_file("$folder/cases.jsonl");
my %skips = map { my ($id, $kind, $reason) = split /\t/; ($id => $reason) }
  grep { !/^#/ } split /\n/, slurp_file("$folder/skip.tsv");
my @only = split /[ ,]+/, $ENV{STREAMQ_CASES} // '';
my $database = 'cases';

my $node = new_server('cases', "timezone = 'UTC'", 'autovacuum = off', 'fsync = off',
	'max_worker_processes = 16', 'allow_in_place_tablespaces = on');
sql($node, "CREATE DATABASE $database");
sql($node, 'CREATE EXTENSION streamq;' . helpers_sql(), $database);

foreach my $case (@cases)
{
	my $id = $case->{id};
	my $file = "$folder/$id.case";

	next if @only && !grep { $id =~ /^\Q$_/ } @only;
	if (!-e $file)
	{
		ok($skips{$id}, "$id $case->{kind}: has a file, or a reason");
		next;
	}
	my @variants = variants_of($file);
	while (@variants)
	{
		my $start = time;
		my @some = shift @variants;
		my @failures;

		if (my $block = $some[0]{block})
		{
			push @some, shift @variants while @variants && ($variants[0]{block} // '') eq $block;
			@failures = run_data($node, $database, @some);
		}
		else
		{
			@failures = ([ run_variant($node, $database, @some) ]);
		}
		note(sprintf '%.2f s', time - $start) if $ENV{STREAMQ_CASES_SLOW};
		foreach my $i (0 .. $#some)
		{
			my $name = "$id $case->{kind}" . ($some[$i]{name} ne '' ? ": $some[$i]{name}" : '');

			ok(!@{ $failures[$i] }, $name) or diag(join "\n", @{ $failures[$i] });
		}
		$node->poll_query_until('postgres', 'SELECT true') if grep { @$_ } @failures;
	}
}

my %ids = map { $_->{id} => 1 } @cases;
is(join(' ', grep { !$ids{$_} } sort keys %skips), '', 'skip.tsv names cases');
is(join(' ', grep { !$ids{$_} } sort map { m{([^/]*)\.case$} } glob "$folder/*.case"), '', 'so do the files');

done_testing();
