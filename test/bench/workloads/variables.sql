--
-- What a contender finds, besides the variables of the workload's query.sql; read
-- after it.
--
\set sink sink
\set query 'SELECT ' :columns ' FROM ' :source ' WHERE ' :condition ' ' :grouping
\set name :workload _ :contender
SET search_path = contest;
SET client_min_messages = warning;
