-- What autovacuum would have done.
VACUUM (ANALYZE) :sink;
