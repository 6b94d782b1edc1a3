--
-- A source for batches of one row, without other rows.
--
\set ON_ERROR_STOP on
SET search_path = bench;

CREATE TABLE one_row (LIKE one_row_plain);
CREATE TABLE one_row_sink (LIKE one_row_plain_sink);
SELECT streamq.add_source('one_row');
SELECT streamq.create_query('one_row',
	'SELECT id, device, value * 9 / 5 + 32 AS fahrenheit FROM bench.one_row WHERE value >= 512',
	sink => 'one_row_sink');
