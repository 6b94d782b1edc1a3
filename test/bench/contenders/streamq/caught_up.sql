-- What autovacuum would have done.
VACUUM (ANALYZE) :sink;
SELECT format('VACUUM (ANALYZE) %s', state)
FROM streamq.queries, to_regclass('streamq_state.q' || query_id) state
WHERE name = :'name' AND state IS NOT NULL \gexec
