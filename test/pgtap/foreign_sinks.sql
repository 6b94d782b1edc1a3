-- Foreign tables as sinks. Skipped where postgres_fdw or file_fdw is not
-- installed, or where this server cannot be reached from itself.
\set ECHO none
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS pgtap;
CREATE EXTENSION IF NOT EXISTS streamq;
SELECT * FROM no_plan();
DROP SCHEMA IF EXISTS foreign_sinks CASCADE;
CREATE SCHEMA foreign_sinks;
SET search_path = foreign_sinks, public;
SELECT count(*) = 2 AS installed FROM pg_available_extensions WHERE name IN ('postgres_fdw', 'file_fdw') \gset
\if :installed
\else
	SELECT skip('postgres_fdw and file_fdw are not installed');
	SELECT * FROM finish();
	DROP SCHEMA foreign_sinks CASCADE;
	\q
\endif
CREATE EXTENSION file_fdw SCHEMA foreign_sinks;
CREATE EXTENSION postgres_fdw SCHEMA foreign_sinks;
CREATE TABLE src (id int, v text);
INSERT INTO src SELECT g, 'v' || g FROM generate_series(1, 10) g;
SELECT lives_ok($$SELECT streamq.add_source('foreign_sinks.src')$$, 'a source');

-- one that cannot be written
CREATE SERVER files FOREIGN DATA WRAPPER file_fdw;
CREATE FOREIGN TABLE a_file (id int, v text) SERVER files OPTIONS (filename '/dev/null');
SELECT throws_ok($$SELECT streamq.create_query('foreign_q', 'SELECT id, v FROM src', sink => 'a_file')$$, NULL, NULL, 'a foreign table that takes no INSERT');
SELECT is(count(*), 0::bigint, 'no query') FROM streamq.queries WHERE name = 'foreign_q';

-- one that can: this server itself
CREATE TABLE far (id int PRIMARY KEY, v text);
DO $$
BEGIN
	EXECUTE format('CREATE SERVER loopback FOREIGN DATA WRAPPER postgres_fdw OPTIONS (dbname %L, host %L, port %L)', current_database(),
				   split_part(current_setting('unix_socket_directories'), ',', 1), current_setting('port'));
	EXECUTE format('CREATE USER MAPPING FOR CURRENT_USER SERVER loopback OPTIONS (user %L)', current_user);
END $$;
CREATE FOREIGN TABLE near (id int, v text) SERVER loopback OPTIONS (schema_name 'foreign_sinks', table_name 'far');
CREATE FUNCTION reachable() RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
	PERFORM count(*) FROM foreign_sinks.near;
	RETURN true;
EXCEPTION WHEN OTHERS THEN
	RETURN false;
END $$;
SELECT reachable() \gset
\if :reachable
	SELECT lives_ok($$SELECT streamq.create_query('foreign_q', 'SELECT id, v FROM src', sink => 'foreign_sinks.near', max_rows_per_batch => 4)$$, 'a query with a foreign sink');
	CALL streamq.run('foreign_q', 0, 0) \gset run_
	SELECT set_eq('TABLE foreign_sinks.far', 'TABLE foreign_sinks.src', 'the rows are on the other side');
	SELECT is(batch_id, 2::bigint, 'in three batches') FROM streamq.status WHERE name = 'foreign_q';
	-- an error there, which is shown, undoes the batch here and there
	INSERT INTO far VALUES (12, 'in the way');
	INSERT INTO src VALUES (11, 'v11'), (12, 'v12');
	\set ON_ERROR_STOP 0
	\set VERBOSITY terse
	\set ON_ERROR_ROLLBACK 0
	CALL streamq.run('foreign_q', 0, 0) \gset run_
	\set ON_ERROR_STOP 1
	SELECT is(count(*), 0::bigint, 'nothing of the batch is there') FROM far WHERE id = 11;
	SELECT is(batch_id, 2::bigint, 'nor here') FROM streamq.status WHERE name = 'foreign_q';
	DELETE FROM far WHERE id = 12;
	CALL streamq.run('foreign_q', 0, 0) \gset run_
	SELECT set_eq('TABLE foreign_sinks.far', 'TABLE foreign_sinks.src', 'it goes on from there');
	SELECT lives_ok($$SELECT streamq.drop_query('foreign_q', drop_sink => true)$$, 'drop_query() with the foreign table');
	SELECT hasnt_foreign_table('foreign_sinks', 'near', 'the foreign table is gone');
	SELECT has_table('foreign_sinks', 'far', 'what is behind it is not');
\else
	SELECT skip('this server cannot be reached from itself');
\endif

SELECT * FROM finish();
DROP SCHEMA foreign_sinks CASCADE;
