--
-- What comes in a steady stream of small batches.
--
\set ON_ERROR_STOP on
SET search_path = bench;

CREATE TABLE steady_clicks (at timestamptz NOT NULL, page text NOT NULL, ms int NOT NULL)
	WITH (autovacuum_enabled = off);
SELECT streamq.add_source('steady_clicks', event_time => 'at', watermark_delay => '10 minutes');
