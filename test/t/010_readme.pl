# 010_readme.pl
#		The examples of the README, executed in their order in one database.
#
# An example is an indented block that contains SQL.  What its comment lines say
# has to come up in psql's output, in whatever layout; errors come up where, and
# only where, a comment tells so.
use strict;
use warnings FATAL => 'all';

use FindBin;
use IPC::Run;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

use lib $FindBin::Bin;
use StreamqTest;

my $README = "$FindBin::Bin/../../README.md";

# The indented blocks of a text: number of the first line, and lines.
sub blocks
{
	my ($number, @blocks, $block) = (0);

	foreach my $line (split /\n/, $_[0])
	{
		$number++;
		if ($line =~ /^ {4}/ && ($block || $line =~ /^(?: {4}| {6})\S/))
		{
			$block //= { line => $number, lines => [] };
			push @{ $block->{lines} }, $line;
		}
		elsif ($line =~ /\S/)
		{
			push @blocks, $block if $block;
			undef $block;
		}
	}
	push @blocks, $block if $block;
	return @blocks;
}

# Everything that psql prints.
sub output_of
{
	my ($node, $script) = @_;
	my $output = '';

	IPC::Run::run [ 'psql', '-X', '-d', $node->connstr('postgres'), '-f', '-' ],
	  '<', \$script, '>', \$output, '2>&1'
	  or die "psql: $?";
	$output =~ s/\s+/ /g;
	return $output;
}

my $node = PostgreSQL::Test::Cluster->new('readme');
$node->init;
$node->append_conf('postgresql.conf',
	"shared_preload_libraries = 'streamq'\nstreamq.poll_interval = 10ms\n");
$node->start;

my $text = slurp_file($README);
my $tried = 0;
foreach my $block (blocks($text))
{
	my @lines = @{ $block->{lines} };

	# not the commands of a shell, nor patterns
	next unless grep { /\b(?:SELECT|CREATE|ALTER|BEGIN|CALL|UPDATE)\b/ } @lines;

	my @comments = map { /^\s*-- ?\s*(.*?)\s*$/ ? $1 : () } @lines;
	my $script = join "\n", grep { !/^\s*--/ } @lines;

	# who waits for all queries gets them all up to date first
	$script = "SELECT format('CALL streamq.run(%L)', name) FROM streamq.status"
	  . " WHERE 'clicks'::regclass = ANY (sources) \\gexec\n$script"
	  if $script =~ /streamq\.wait\(name/;

	my $output = output_of($node, "$script\n");
	my @missing = grep { my $c = s/\s+/ /gr; index($output, $c) < 0 }
	  grep { /\w/ && !/waiting/ } @comments;
	my $errors = () = $output =~ /ERROR: /g;
	my $expected = grep { /^ERROR: / } @comments;

	$tried++;
	ok($errors == $expected && !@missing, "line $block->{line}: $lines[0]")
	  or diag("not there: ", explain(\@missing), "output: $output");
}
cmp_ok($tried, '>', 10, 'the README has examples');

$node->stop;
done_testing();
