-- A materialized view that is computed anew each time.
CREATE MATERIALIZED VIEW :sink AS :query WITH NO DATA;
