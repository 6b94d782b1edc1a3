-- The SQL interface: names, arguments, defaults and results are a contract.
\set ECHO none
\pset fieldsep '\n'
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS pgtap;
CREATE EXTENSION IF NOT EXISTS streamq;
BEGIN;
SELECT * FROM no_plan();

-- ------------------------------------------------------------------ schemas
SELECT has_extension('streamq');
SELECT has_schema('streamq');
SELECT has_schema('streamq_query');
SELECT has_schema('streamq_state');

-- ---------------------------------------------------------------- functions
CREATE TEMP TABLE contract (name text, kind "char", arguments text, result text, volatility "char");
INSERT INTO contract VALUES
	('add_source', 'f', 'source regclass, event_time name DEFAULT NULL::name, watermark_delay interval DEFAULT NULL::interval', 'void', 'v'),
	('drop_source', 'f', 'source regclass', 'void', 'v'),
	('create_query', 'f', 'name text, query text, output_mode text DEFAULT ''append''::text, sink text DEFAULT NULL::text, sources regclass[] DEFAULT NULL::regclass[], starting_position text DEFAULT ''earliest''::text, max_rows_per_batch bigint DEFAULT NULL::bigint, late_sink text DEFAULT NULL::text, live_view text DEFAULT NULL::text', 'regclass', 'v'),
	('alter_query', 'f', 'name text, query text', 'void', 'v'),
	('drop_query', 'f', 'name text, drop_sink boolean DEFAULT false', 'void', 'v'),
	('start', 'f', 'name text, trigger_interval interval DEFAULT ''00:00:00''::interval', 'void', 'v'),
	('stop', 'f', 'name text', 'void', 'v'),
	('run', 'p', 'IN name text, INOUT batches bigint DEFAULT 0, INOUT input_rows bigint DEFAULT 0', NULL, 'v'),
	('wait', 'f', 'name text, timeout interval DEFAULT NULL::interval', 'boolean', 'v'),
	('reset', 'f', 'name text, starting_position text DEFAULT ''earliest''::text', 'void', 'v'),
	('explain', 'f', 'name text', 'SETOF text', 's'),
	('state', 'f', 'name text', 'SETOF record', 'v'),
	('live', 'f', 'name text', 'SETOF record', 'v'),
	('verify', 'f', 'name text, OUT difference text, OUT row_data jsonb, OUT explained_by_late_rows boolean', 'SETOF record', 'v'),
	('current_offset', 'f', '', 'pg_snapshot', 's'),
	('pending', 'f', 'name text, OUT pages bigint, OUT rows bigint', 'record', 'v'),
	('arrivals', 'f', 'relation regclass, OUT block bigint, OUT least_xid xid8, OUT greatest_xid xid8', 'SETOF record', 'v'),
	('since', 'f', 'internal', 'tsm_handler', 'v');
SET intervalstyle = 'postgres';
SELECT is(count(p.oid), 1::bigint, format('there is one %s', c.name))
FROM contract c LEFT JOIN pg_proc p ON p.proname = c.name AND p.pronamespace = 'streamq'::regnamespace
GROUP BY c.name ORDER BY c.name;
SELECT is(p.prokind, c.kind, format('%s: kind', c.name)),
	   is(pg_get_function_arguments(p.oid), c.arguments, format('%s: arguments and defaults', c.name)),
	   is(pg_get_function_result(p.oid), c.result, format('%s: result', c.name)),
	   is(p.provolatile, c.volatility, format('%s: volatility', c.name)),
	   is(l.lanname, 'c'::name, format('%s: language', c.name)),
	   ok(NOT p.prosecdef, format('%s: not SECURITY DEFINER', c.name)),
	   ok(has_function_privilege('public', p.oid, 'EXECUTE'), format('%s: everybody may call it', c.name)),
	   ok(obj_description(p.oid, 'pg_proc') ~ '\S', format('%s: comment', c.name))
FROM contract c JOIN pg_proc p ON p.proname = c.name AND p.pronamespace = 'streamq'::regnamespace
	 JOIN pg_language l ON l.oid = p.prolang
ORDER BY c.name;
-- NULL is answered, not silently swallowed
SELECT ok(NOT p.proisstrict, format('%s: called with NULL', p.proname))
FROM pg_proc p WHERE pronamespace = 'streamq'::regnamespace AND prokind IN ('f', 'p')
AND proname IN ('add_source', 'drop_source', 'create_query', 'alter_query', 'drop_query', 'start', 'stop', 'run', 'wait', 'reset', 'explain',
	'state', 'live', 'verify', 'pending', 'arrivals')
ORDER BY proname;
-- what statements of the engine call; users may, but need not
CREATE TEMP TABLE helpers (function text, result text, volatility "char", parallel "char", strict boolean);
INSERT INTO helpers VALUES
	('combine_state(regprocedure,anyelement,anyelement)', 'anyelement', 's', 'r', false),
	('finalize_state(regprocedure,"any",anyelement)', 'anyelement', 's', 'r', false),
	('finalize_state(regprocedure,"any",anyelement,"any")', 'anyelement', 's', 'r', false),
	('resume_state(regprocedure,anyelement,"any",boolean)', 'anyelement', 's', 'r', false),
	('row_image(record)', 'bytea', 's', 's', true),
	('was_read(internal,oid,tid,xid,"any")', 'boolean', 's', 'r', false),
	('arrivals_handler(internal)', 'index_am_handler', 'v', 'u', true),
	('query_owner(regclass)', 'oid', 's', 's', true),
	('worker_activity()', 'SETOF record', 'v', 'u', false);
SELECT is(pg_get_function_result(p.oid), h.result, format('%s: result', h.function)),
	   is(p.provolatile, h.volatility, format('%s: volatility', h.function)),
	   is(p.proparallel, h.parallel, format('%s: parallel safety', h.function)),
	   is(p.proisstrict, h.strict, format('%s: NULL', h.function)),
	   ok(NOT p.prosecdef, format('%s: not SECURITY DEFINER', h.function)),
	   ok(obj_description(p.oid, 'pg_proc') ~ '\S', format('%s: comment', h.function))
FROM helpers h LEFT JOIN pg_proc p ON p.oid = to_regprocedure('streamq.' || h.function)
ORDER BY h.function;
SELECT is_empty($$
	SELECT p.oid::regprocedure FROM pg_proc p WHERE p.pronamespace = 'streamq'::regnamespace
	AND p.proname NOT IN (SELECT name FROM contract) AND p.oid NOT IN (SELECT to_regprocedure('streamq.' || function) FROM helpers)
	AND p.prorettype NOT IN ('trigger'::regtype, 'event_trigger'::regtype) $$, 'there are no other functions');

-- ------------------------------------------------------- views and tables
SELECT has_view('streamq', 'status', 'view status');
SELECT columns_are('streamq', 'status', ARRAY['name', 'owner', 'state', 'output_mode', 'sink', 'sources', 'trigger_interval',
	'batch_id', 'watermark', 'total_input_rows', 'total_late_rows', 'total_output_rows', 'state_rows', 'total_trimmed_rows', 'last_batch_at',
	'last_error', 'last_error_detail', 'retries', 'worker_pid', 'pending_pages', 'pending_rows'],
	'columns of status');
SELECT col_type_is('streamq', 'status', c, t, format('status.%s: %s', c, t))
FROM (VALUES ('name', 'text'), ('owner', 'name'), ('state', 'text'), ('sink', 'regclass'), ('sources', 'regclass[]'), ('trigger_interval', 'interval'),
	('batch_id', 'bigint'), ('watermark', 'timestamp with time zone'), ('total_input_rows', 'bigint'), ('total_late_rows', 'bigint'), ('state_rows', 'bigint'), ('total_trimmed_rows', 'bigint'),
	('last_batch_at', 'timestamp with time zone'), ('retries', 'integer'), ('worker_pid', 'integer'),
	('pending_pages', 'bigint'), ('pending_rows', 'bigint')) AS x (c, t);
SELECT has_view('streamq', 'progress', 'view progress');
SELECT columns_are('streamq', 'progress', ARRAY['name', 'batch_id', 'started_at', 'duration_ms', 'input_rows', 'late_rows', 'output_rows',
	'state_rows', 'trimmed_rows', 'watermark', 'batch_watermark', 'max_event_time', 'input_rows_per_second', 'processed_rows_per_second'],
	'columns of progress');
SELECT col_type_is('streamq', 'progress', c, t, format('progress.%s: %s', c, t))
FROM (VALUES ('batch_id', 'bigint'), ('started_at', 'timestamp with time zone'), ('duration_ms', 'double precision'), ('late_rows', 'bigint'),
	('state_rows', 'bigint'), ('trimmed_rows', 'bigint'), ('watermark', 'timestamp with time zone'),
	('batch_watermark', 'timestamp with time zone'), ('max_event_time', 'timestamp with time zone')) AS x (c, t);
SELECT has_table('streamq', 'offsets', 'table offsets');
SELECT has_table('streamq', 'commits', 'table commits');
SELECT has_column('streamq', 'offsets', c, format('offsets.%s', c))
FROM unnest(ARRAY['name', 'batch_id', 'relation', 'start_offset', 'end_offset']) AS c;
SELECT col_type_is('streamq', 'offsets', 'start_offset', 'pg_snapshot', 'offsets are snapshots');
SELECT col_type_is('streamq', 'offsets', 'end_offset', 'pg_snapshot', 'offsets are snapshots');
SELECT has_column('streamq', 'commits', c, format('commits.%s', c))
FROM unnest(ARRAY['name', 'batch_id', 'started_at', 'duration_ms', 'input_rows', 'late_rows', 'output_rows', 'state_rows', 'watermark', 'max_event_time',
	'batch_watermark', 'trimmed_rows', 'total_input_rows', 'total_late_rows', 'total_output_rows', 'total_trimmed_rows']) AS c;
SELECT has_table('streamq', 'queries', 'table queries');
SELECT has_column('streamq', 'queries', c, format('queries.%s', c))
FROM unnest(ARRAY['name', 'query_id', 'definition', 'sink', 'sources', 'output_mode', 'starting_position', 'max_rows_per_batch', 'strategy',
	'strategy_reason', 'late_sink']) AS c;
SELECT col_is_pk('streamq', 'commits', ARRAY['name', 'batch_id'], 'one commit record a batch');
SELECT ok(relreplident = 'd' AND EXISTS (SELECT FROM pg_index WHERE indrelid = c.oid AND indisprimary), format('%s has a primary key', relname))
FROM pg_class c WHERE relnamespace = 'streamq'::regnamespace AND relkind = 'r' ORDER BY relname;

-- ------------------------------------------------------ members, comments
CREATE TEMP VIEW members AS
	SELECT d.classid, d.objid, pg_describe_object(d.classid, d.objid, 0) AS object
	FROM pg_depend d JOIN pg_extension e ON e.oid = d.refobjid
	WHERE d.refclassid = 'pg_extension'::regclass AND d.deptype = 'e' AND e.extname = 'streamq';
SELECT ok(EXISTS (SELECT FROM members WHERE object = 'schema streamq'), 'schema streamq is the extension''s');
SELECT ok(EXISTS (SELECT FROM members WHERE object = 'schema streamq_query'), 'schema streamq_query is the extension''s');
SELECT ok(EXISTS (SELECT FROM members WHERE object = 'schema streamq_state'), 'schema streamq_state is the extension''s');
SELECT is_empty($$
	SELECT object FROM members
	WHERE classid IN ('pg_class'::regclass, 'pg_proc'::regclass, 'pg_namespace'::regclass, 'pg_event_trigger'::regclass)
	AND NOT (classid = 'pg_class'::regclass AND (SELECT relkind FROM pg_class WHERE oid = objid) IN ('S', 'i', 't'))
	AND coalesce(obj_description(objid, (SELECT relname FROM pg_class WHERE oid = classid)), '') !~ '\S'
	ORDER BY 1 $$, 'every table, view, function, schema and event trigger has a comment');
SELECT is_empty($$
	SELECT oid::regclass FROM pg_class c WHERE relnamespace = 'streamq'::regnamespace AND relkind IN ('r', 'v', 'p', 'm')
	AND oid NOT IN (SELECT objid FROM members) $$, 'nothing in schema streamq but the extension''s own tables and views');
SELECT is_empty($$
	SELECT oid::regprocedure FROM pg_proc WHERE pronamespace = 'streamq'::regnamespace
	AND oid NOT IN (SELECT objid FROM members) $$, 'nothing in schema streamq but the extension''s own functions');

-- ------------------------------------------------------------- privileges
SELECT ok(has_schema_privilege('public', 'streamq', 'USAGE') AND NOT has_schema_privilege('public', 'streamq', 'CREATE'), 'schema streamq: USAGE for all, CREATE for nobody');
SELECT ok(has_schema_privilege('public', n, 'USAGE') AND NOT has_schema_privilege('public', n, 'CREATE'), format('schema %s: USAGE for all, CREATE for nobody', n))
FROM unnest(ARRAY['streamq_query', 'streamq_state']) AS n;
SELECT ok(has_table_privilege('public', c.oid, 'SELECT'), format('%s: everybody may look', relname)),
	   ok(NOT has_table_privilege('public', c.oid, 'INSERT') AND NOT has_table_privilege('public', c.oid, 'UPDATE')
		  AND NOT has_table_privilege('public', c.oid, 'DELETE') AND NOT has_table_privilege('public', c.oid, 'TRUNCATE')
		  AND NOT has_table_privilege('public', c.oid, 'TRIGGER') AND NOT has_table_privilege('public', c.oid, 'REFERENCES'), format('%s: nobody else writes', relname)),
	   ok(NOT has_any_column_privilege('public', c.oid, 'INSERT, UPDATE, REFERENCES'), format('%s: not a single column either', relname))
FROM pg_class c WHERE relnamespace = 'streamq'::regnamespace AND relkind IN ('r', 'v') ORDER BY relname;
SELECT ok(relrowsecurity, format('%s: row-level security', relname))
FROM pg_class c WHERE relnamespace = 'streamq'::regnamespace AND relname IN ('queries', 'offsets', 'commits') ORDER BY relname;
SELECT ok('security_barrier=true' = ANY (reloptions), format('%s: security barrier', relname))
FROM pg_class c WHERE relnamespace = 'streamq'::regnamespace AND relname IN ('status', 'progress') ORDER BY relname;
SELECT is_empty($$SELECT tgname FROM pg_trigger WHERE tgrelid IN (SELECT objid FROM members) AND NOT tgisinternal$$, 'no triggers on the engine''s tables');

-- the tables of a query's state are its owner's, as its definition and its sink are
CREATE ROLE regress_sq_keeper;
CREATE SCHEMA regress_sq_kept AUTHORIZATION regress_sq_keeper;
CREATE TABLE regress_sq_kept.src (k int, id int);
ALTER TABLE regress_sq_kept.src OWNER TO regress_sq_keeper;
SET ROLE regress_sq_keeper;
DO $$
BEGIN
	PERFORM streamq.add_source('regress_sq_kept.src');
	PERFORM streamq.create_query('regress_sq_kept', 'SELECT k, count(*) AS n, count(DISTINCT id) AS d, array_agg(id) AS ids FROM regress_sq_kept.src GROUP BY k',
		'update', sink => 'regress_sq_kept.sink', live_view => 'regress_sq_kept.live');
END $$;
RESET ROLE;
SELECT has_view('regress_sq_kept', 'live', 'the live view is made');
SELECT view_owner_is('regress_sq_kept', 'live', 'regress_sq_keeper', 'and is the owner''s');
SELECT set_eq(format($$SELECT replace(relname, '%1$s', 'N'), pg_get_userbyid(relowner)::text FROM pg_class
	WHERE relnamespace = 'streamq_state'::regnamespace AND relkind = 'r' AND relname ~ '^q%1$s(_|$)' $$,
	(SELECT query_id FROM streamq.queries WHERE name = 'regress_sq_kept')),
	$$VALUES ('qN', 'regress_sq_keeper'), ('qN_rows', 'regress_sq_keeper'), ('qN_set2', 'regress_sq_keeper')$$, 'state tables: names and owner');
SELECT is_empty($$SELECT oid::regclass FROM pg_class WHERE relnamespace = 'streamq_state'::regnamespace AND relkind = 'r'
	AND has_table_privilege('public', oid, 'SELECT, INSERT, UPDATE, DELETE')$$, 'state tables: nobody else may look or write');
SELECT is_empty($$SELECT object FROM members WHERE object LIKE '%streamq_state.%'$$, 'state tables do not belong to the extension');
SELECT lives_ok($$SELECT streamq.drop_query('regress_sq_kept')$$, 'drop the query');
SELECT hasnt_view('regress_sq_kept', 'live', 'the live view is gone with it');
SELECT is_empty($$SELECT oid::regclass FROM pg_class WHERE relnamespace = 'streamq_state'::regnamespace$$, 'and its state');

-- the tables that pg_dump has to save
SELECT set_eq($$SELECT unnest(extconfig)::regclass::text FROM pg_extension WHERE extname = 'streamq'$$,
	$$SELECT oid::regclass::text FROM pg_class WHERE relnamespace = 'streamq'::regnamespace AND relkind IN ('r', 'S')
	AND relname <> 'origin'$$, 'pg_dump saves every table and sequence but that which stands for the database');

-- --------------------------------------------------------------- settings
SELECT is(boot_val, v, format('default of %s', n)) FROM (VALUES
	('streamq.poll_interval', '100'), ('streamq.retry_delay_max', '60000'), ('streamq.max_retries', '8')) AS x (n, v)
	LEFT JOIN pg_settings ON name = n;
SELECT is(unit, v, format('unit of %s', n)) FROM (VALUES
	('streamq.poll_interval', 'ms'), ('streamq.retry_delay_max', 'ms'), ('streamq.max_retries', NULL)) AS x (n, v)
	LEFT JOIN pg_settings ON name = n;
SELECT is(context, 'sighup', format('context of %s', name)) FROM pg_settings
WHERE name IN ('streamq.poll_interval', 'streamq.retry_delay_max', 'streamq.max_retries') ORDER BY name;
SELECT is_empty($$SELECT name FROM pg_settings WHERE name LIKE 'streamq.%' AND coalesce(short_desc, '') = ''$$, 'every setting is described');
SELECT throws_ok('SET streamq.no_such_setting = 1', '42602', NULL, 'the prefix streamq is reserved');

SELECT * FROM finish();
ROLLBACK;
