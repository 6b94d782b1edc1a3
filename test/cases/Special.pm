# Special.pm
#		What cases need that steps cannot say: "@call NAME" calls one of these.
package Special;

use strict;
use warnings FATAL => 'all';

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use StreamqTest;

1;
