--
-- Who may do and see what; a query never has more rights than its owner
--
SET client_min_messages = warning;
DROP ROLE IF EXISTS regress_sq_alice, regress_sq_bob, regress_sq_carol, regress_sq_dan, regress_sq_erin;
RESET client_min_messages;
CREATE ROLE regress_sq_alice;
CREATE ROLE regress_sq_bob;
CREATE ROLE regress_sq_carol IN ROLE regress_sq_alice;
CREATE ROLE regress_sq_dan NOINHERIT IN ROLE regress_sq_alice;
CREATE ROLE regress_sq_erin;
CREATE SCHEMA priv;
GRANT ALL ON SCHEMA priv TO regress_sq_alice, regress_sq_bob, regress_sq_carol, regress_sq_dan;
GRANT USAGE ON SCHEMA priv TO regress_sq_erin;
CREATE SCHEMA priv_elsewhere AUTHORIZATION regress_sq_alice;
SET search_path = priv;
\pset null '(null)'
SELECT current_user AS super \gset

SET ROLE regress_sq_alice;
CREATE TABLE src (id int, v text);
INSERT INTO src VALUES (1, 'one'), (2, 'two');
SELECT streamq.add_source('src');
SELECT streamq.create_query('alice_q', 'SELECT id, v FROM src');
CALL streamq.run('alice_q');
SELECT name, owner, state FROM streamq.status;

--
-- who sees what
--
CREATE FUNCTION priv.seen() RETURNS TABLE (status bigint, progress bigint, queries bigint, offsets bigint, commits bigint)
LANGUAGE sql AS $$
	SELECT (SELECT count(*) FROM streamq.status), (SELECT count(*) FROM streamq.progress), (SELECT count(*) FROM streamq.queries),
		   (SELECT count(*) FROM streamq.offsets), (SELECT count(*) FROM streamq.commits)
$$;
GRANT EXECUTE ON FUNCTION priv.seen() TO PUBLIC;
SELECT * FROM seen();
SET ROLE regress_sq_bob;
SELECT * FROM seen();
SET ROLE regress_sq_carol;
SELECT * FROM seen();
SET ROLE regress_sq_dan;
SELECT * FROM seen();
SET ROLE regress_sq_erin;
SELECT * FROM seen();
RESET ROLE;
SELECT * FROM seen();
-- a cheap function that leaks, in the WHERE clause of a snooper
SET ROLE regress_sq_bob;
CREATE FUNCTION leak(text) RETURNS boolean LANGUAGE plpgsql COST 0.0001 AS $$ BEGIN RAISE NOTICE 'leaked: %', $1; RETURN true; END $$;
SELECT name FROM streamq.status WHERE leak(name);
SELECT name FROM streamq.progress WHERE leak(name);
SELECT name FROM streamq.queries WHERE leak(name);
SELECT name FROM streamq.offsets WHERE leak(name);
SELECT name FROM streamq.commits WHERE leak(name);
RESET ROLE;

--
-- who may do what
--
\pset format unaligned
\pset tuples_only on
CREATE VIEW verbs AS SELECT * FROM (VALUES
	(1, $$SELECT streamq.start('alice_q')$$), (2, $$SELECT streamq.stop('alice_q')$$),
	(3, $$SELECT streamq.wait('alice_q', '0')$$), (4, $$SELECT streamq.reset('alice_q')$$),
	(5, $$SELECT streamq.explain('alice_q')$$), (6, $$SELECT streamq.drop_query('alice_q')$$),
	(7, $$SELECT streamq.drop_source('src')$$), (8, $$SELECT streamq.add_source('src')$$),
	(9, $$SELECT streamq.create_query('alice_q', 'SELECT id FROM priv.src')$$),
	(10, $$SELECT streamq.create_query('other_q', 'SELECT id FROM priv.src')$$)) AS v (n, verb);
GRANT SELECT ON verbs TO PUBLIC;
SET ROLE regress_sq_bob;
SELECT verb, test.refusal(verb) FROM verbs ORDER BY n;
SET ROLE regress_sq_dan;
SELECT verb, test.refusal(verb) FROM verbs ORDER BY n;
SET ROLE regress_sq_bob;
CALL streamq.run('alice_q');
SET ROLE regress_sq_dan;
CALL streamq.run('alice_q');
-- a member of the owner may
SET ROLE regress_sq_carol;
CALL streamq.run('alice_q');
SELECT streamq.wait('alice_q', '0');
RESET ROLE;
-- nobody writes
CREATE VIEW writes AS SELECT * FROM (VALUES
	(1, $$INSERT INTO streamq.sources VALUES ('pg_class')$$), (2, $$DELETE FROM streamq.sources$$),
	(3, $$UPDATE streamq.queries SET retries = 1$$), (4, $$DELETE FROM streamq.queries$$), (5, $$TRUNCATE streamq.queries$$),
	(6, $$INSERT INTO streamq.offsets SELECT * FROM streamq.offsets$$), (7, $$UPDATE streamq.offsets SET batch_id = batch_id + 1$$),
	(8, $$DELETE FROM streamq.offsets$$), (9, $$TRUNCATE streamq.offsets$$),
	(10, $$INSERT INTO streamq.commits SELECT * FROM streamq.commits$$), (11, $$UPDATE streamq.commits SET input_rows = 0$$),
	(12, $$DELETE FROM streamq.commits$$), (13, $$TRUNCATE streamq.commits$$), (14, $$LOCK streamq.queries$$),
	(15, $$SELECT 1 FROM streamq.queries FOR UPDATE$$), (16, $$DELETE FROM streamq.status$$), (17, $$UPDATE streamq.status SET retries = 1$$),
	(18, $$CREATE TABLE streamq.mine (a int)$$), (19, $$CREATE VIEW streamq_query.mine AS SELECT 1$$),
	(20, $$CREATE OR REPLACE VIEW streamq_query.alice_q AS SELECT id, v FROM priv.src WHERE false$$),
	(21, $$ALTER VIEW streamq_query.alice_q RENAME TO other$$), (22, $$ALTER VIEW streamq_query.alice_q SET SCHEMA priv$$),
	(23, $$CREATE RULE r AS ON INSERT TO streamq_query.alice_q DO INSTEAD NOTHING$$),
	(24, $$ALTER TABLE streamq.queries DISABLE ROW LEVEL SECURITY$$), (25, $$SELECT setval('streamq.queries_query_id_seq', 1)$$),
	(26, $$CREATE TRIGGER t AFTER INSERT ON streamq.commits EXECUTE FUNCTION streamq.refuse_update()$$),
	(27, $$UPDATE streamq_query.alice_q SET v = 'x'$$)) AS v (n, statement);
GRANT SELECT ON writes TO PUBLIC;
SET ROLE regress_sq_alice;
SELECT statement, test.refusal(statement) FROM writes ORDER BY n;
SELECT n FROM writes WHERE test.refusal(statement) = 'accepted' ORDER BY n;
SET ROLE regress_sq_bob;
SELECT n FROM writes WHERE test.refusal(statement) = 'accepted' ORDER BY n;
RESET ROLE;
\pset format aligned
\pset tuples_only off
SELECT name, output_mode FROM streamq.queries;
SELECT count(*) FROM streamq.commits;
-- the definition elsewhere
SET ROLE regress_sq_alice;
ALTER VIEW streamq_query.alice_q SET SCHEMA priv_elsewhere;
CALL streamq.run('alice_q');
RESET ROLE;
DROP RULE r ON streamq_query.alice_q;

--
-- the rights that creating a query takes
--
SET ROLE regress_sq_bob;
CREATE TABLE bobs (id int, secret text, open text);
INSERT INTO bobs VALUES (1, 's1', 'o1'), (2, 's2', 'o2');
SELECT streamq.add_source('bobs');
CREATE TABLE bobs_sink (id int);
RESET ROLE;
SET ROLE regress_sq_alice;
-- no right to read
SELECT streamq.create_query('q', 'SELECT id FROM bobs');
RESET ROLE;
GRANT SELECT (id, open) ON bobs TO regress_sq_alice;
SET ROLE regress_sq_alice;
-- of some columns only
SELECT streamq.create_query('q', 'SELECT id, secret FROM bobs');
SELECT streamq.create_query('columns', 'SELECT id, open FROM bobs');
CALL streamq.run('columns');
SELECT * FROM test.compare('columns');
-- no right to write
SELECT streamq.create_query('q', 'SELECT id FROM src', sink => 'bobs_sink');
-- not the owner of what would have to be registered
RESET ROLE;
CREATE TABLE supers (id int);
INSERT INTO supers VALUES (1);
GRANT SELECT ON supers TO regress_sq_alice;
SET ROLE regress_sq_alice;
SELECT streamq.create_query('q', 'SELECT id FROM supers');
-- no right to create the sink
RESET ROLE;
CREATE SCHEMA priv_closed;
GRANT SELECT ON src TO regress_sq_erin;
SET ROLE regress_sq_alice;
SELECT streamq.create_query('q', 'SELECT id FROM src', sink => 'priv_closed.q');
SET ROLE regress_sq_erin;
SELECT streamq.create_query('q', 'SELECT id FROM src', sink => 'priv.q');
SELECT streamq.create_query('q', 'SELECT id FROM src');
RESET ROLE;
-- a sink that is there, with the right to insert and nothing else
CREATE TABLE insert_only (id int);
GRANT INSERT ON insert_only TO regress_sq_erin;
SET ROLE regress_sq_erin;
SELECT streamq.create_query('erin_q', 'SELECT id FROM src', sink => 'insert_only');
CALL streamq.run('erin_q');
SELECT id FROM insert_only;
-- the sink of somebody else is not dropped with the query
SELECT streamq.drop_query('erin_q', drop_sink => true);
SELECT name FROM streamq.status;
SELECT streamq.drop_query('erin_q');
RESET ROLE;
SELECT id FROM insert_only ORDER BY id;
-- names belong to one query, whoever owns it
SET ROLE regress_sq_bob;
SELECT streamq.create_query('alice_q', 'SELECT id FROM bobs', sink => 'bobs_sink');
RESET ROLE;

--
-- the superuser runs what others wrote: it runs as they
--
SET ROLE regress_sq_alice;
CREATE TABLE armed (yes int);
CREATE TABLE traps (n int GENERATED ALWAYS AS IDENTITY, place text, who text, super text);
CREATE FUNCTION trap(place text) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
	answer text;
BEGIN
	IF NOT EXISTS (SELECT FROM priv.armed) THEN
		RETURN true;
	END IF;
	INSERT INTO priv.traps (place, who, super)
	SELECT trap.place, current_user, (SELECT rolsuper FROM pg_roles WHERE rolname = current_user)::text;
	-- try to become somebody else
	FOREACH answer IN ARRAY ARRAY['RESET ROLE', 'SET ROLE NONE', 'RESET SESSION AUTHORIZATION', 'SET SESSION AUTHORIZATION DEFAULT',
								  'SET LOCAL ROLE regress_sq_bob', 'GRANT regress_sq_bob TO regress_sq_alice', 'SELECT secret FROM priv.bobs',
								  'ALTER ROLE regress_sq_alice SUPERUSER', 'SELECT set_config(''role'', ''none'', false)'] LOOP
		BEGIN
			EXECUTE answer;
			INSERT INTO priv.traps (place, who, super) VALUES (trap.place || ': ' || answer, current_user, 'SUCCEEDED');
		EXCEPTION WHEN insufficient_privilege OR invalid_parameter_value OR feature_not_supported THEN
			NULL;
		END;
	END LOOP;
	RETURN true;
END $$;
CREATE FUNCTION trap_trigger() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	PERFORM priv.trap(TG_NAME);
	RETURN NEW;
END $$;
CREATE FUNCTION trap_value(place text) RETURNS text LANGUAGE plpgsql AS $$ BEGIN PERFORM priv.trap(place); RETURN place; END $$;
CREATE FUNCTION trap_index(int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN PERFORM priv.trap('index'); RETURN $1; END $$;
CREATE FUNCTION trap_constant() RETURNS int LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN PERFORM priv.trap('planner'); RETURN 1; END $$;
CREATE DOMAIN trap_domain AS int CHECK (priv.trap('domain') OR VALUE > 0);
CREATE TYPE trap_enum AS ENUM ('a');
CREATE FUNCTION trap_cast(trap_enum) RETURNS int LANGUAGE plpgsql AS $$ BEGIN PERFORM priv.trap('cast'); RETURN 1; END $$;
CREATE CAST (trap_enum AS int) WITH FUNCTION trap_cast(trap_enum) AS ASSIGNMENT;
CREATE TABLE trapped (
	id trap_domain CHECK (trap('check')),
	d text DEFAULT trap_value('default'),
	t int,
	e int);
CREATE INDEX ON trapped (trap_index(t));
CREATE TRIGGER before_row BEFORE INSERT ON trapped FOR EACH ROW EXECUTE FUNCTION trap_trigger();
CREATE TRIGGER before_statement BEFORE INSERT ON trapped FOR EACH STATEMENT EXECUTE FUNCTION trap_trigger();
CREATE TRIGGER after_row AFTER INSERT ON trapped FOR EACH ROW EXECUTE FUNCTION trap_trigger();
CREATE CONSTRAINT TRIGGER deferred_row AFTER INSERT ON trapped DEFERRABLE INITIALLY DEFERRED
	FOR EACH ROW EXECUTE FUNCTION trap_trigger();
TRUNCATE src;
INSERT INTO src VALUES (1, 'one');
SELECT streamq.create_query('trap_q', 'SELECT id, id AS t, ''a''::priv.trap_enum AS e FROM src WHERE priv.trap(''where'') AND priv.trap_constant() = 1', sink => 'trapped');
RESET ROLE;
INSERT INTO armed VALUES (1);
CALL streamq.run('trap_q');
SELECT place, who, super, count(*) FROM traps GROUP BY 1, 2, 3 ORDER BY 1, 2, 3;
SELECT current_user = :'super' AS still_super, session_user = :'super' AS still_session;
SELECT * FROM trapped;
-- explain, reset, wait and drop_query run nothing of it as the superuser either
TRUNCATE traps;
SELECT count(*) > 0 AS explained FROM streamq.explain('trap_q');
SELECT streamq.wait('trap_q', '0');
SELECT streamq.reset('trap_q', 'latest');
SELECT place, who, super, count(*) FROM traps WHERE who <> 'regress_sq_alice' OR super <> 'false' GROUP BY 1, 2, 3 ORDER BY 1, 2, 3;
SELECT streamq.drop_query('trap_q');
SELECT rolsuper FROM pg_roles WHERE rolname = 'regress_sq_alice';
-- settings that a query's functions change are not left behind in the session
SET ROLE regress_sq_alice;
CREATE FUNCTION settings() RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
	PERFORM set_config('search_path', 'priv_evil', false);
	PERFORM set_config('work_mem', '64', false);
	PERFORM set_config('DateStyle', 'German', false);
	PERFORM set_config('statement_timeout', '0', false);
	RETURN true;
END $$;
SELECT streamq.create_query('settings_q', 'SELECT id FROM src WHERE priv.settings()');
RESET ROLE;
SET work_mem = '5MB';
CALL streamq.run('settings_q');
SHOW search_path;
SHOW work_mem;
SHOW DateStyle;
SELECT streamq.drop_query('settings_q', true);
RESET work_mem;
-- operators, functions and tables of the owner's schema do not shadow those of the engine
SET ROLE regress_sq_alice;
CREATE FUNCTION priv.evil_eq(text, text) RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN PERFORM priv.trap('operator'); RETURN $1 OPERATOR(pg_catalog.=) $2; END $$;
CREATE OPERATOR priv.= (LEFTARG = text, RIGHTARG = text, FUNCTION = priv.evil_eq);
CREATE FUNCTION priv.count(bigint) RETURNS bigint LANGUAGE sql AS 'SELECT -1::bigint';
CREATE FUNCTION priv.current_offset() RETURNS pg_snapshot LANGUAGE sql AS 'SELECT NULL::pg_snapshot';
CREATE TABLE priv.offsets (name text);
CREATE TABLE priv.commits (name text);
SET search_path = priv, pg_catalog;
SELECT streamq.create_query('shadow_q', 'SELECT id FROM src');
RESET ROLE;
TRUNCATE traps;
SET search_path = priv, pg_catalog;
CALL streamq.run('shadow_q');
SELECT streamq.wait('shadow_q', '0');
SELECT streamq.reset('shadow_q');
SELECT OPERATOR(pg_catalog.-) 1 AS minus;
SELECT pg_catalog.count(*) FROM traps;
SELECT streamq.drop_query('shadow_q', true);
DROP OPERATOR priv.= (text, text);
DROP FUNCTION priv.count(bigint);
SET search_path = priv;

--
-- a view of another role over that role's tables
--
SET ROLE regress_sq_bob;
CREATE VIEW bobs_view WITH (security_barrier) AS SELECT id, secret FROM bobs WHERE id <> 2;
RESET ROLE;
REVOKE ALL ON bobs FROM regress_sq_alice;
GRANT SELECT ON bobs_view TO regress_sq_alice;
SET ROLE regress_sq_alice;
CREATE FUNCTION peek(text) RETURNS boolean LANGUAGE plpgsql COST 0.0001 AS $$ BEGIN INSERT INTO priv.traps (place) VALUES ('saw ' || $1); RETURN true; END $$;
TRUNCATE traps;
SELECT id FROM bobs_view WHERE peek(secret);
SELECT place FROM traps ORDER BY 1;
TRUNCATE traps;
SELECT streamq.create_query('view_q', 'SELECT id FROM bobs_view WHERE priv.peek(secret)');
CALL streamq.run('view_q');
SELECT place FROM traps ORDER BY 1;
TABLE view_q;
RESET ROLE;
-- rights that were lost stop it; given again it goes on from there
INSERT INTO bobs VALUES (3, 's3', 'o3');
REVOKE SELECT ON bobs_view FROM regress_sq_alice;
CALL streamq.run('view_q');
TABLE view_q;
GRANT SELECT ON bobs_view TO regress_sq_alice;
CALL streamq.run('view_q');
SELECT * FROM view_q ORDER BY id;
SELECT streamq.drop_query('view_q', true);
-- the table itself
SET ROLE regress_sq_bob;
GRANT SELECT ON bobs TO regress_sq_alice;
SET ROLE regress_sq_alice;
SELECT streamq.create_query('bobs_q', 'SELECT id FROM bobs');
CALL streamq.run('bobs_q');
SET ROLE regress_sq_bob;
REVOKE SELECT ON bobs FROM regress_sq_alice;
INSERT INTO bobs VALUES (4, 's4', 'o4');
SET ROLE regress_sq_alice;
CALL streamq.run('bobs_q');
RESET ROLE;
-- nor with a superuser's help
CALL streamq.run('bobs_q');
SELECT count(*) FROM bobs_q;
GRANT SELECT ON bobs TO regress_sq_alice;
CALL streamq.run('bobs_q');
SELECT count(*) FROM bobs_q;
-- the sink
REVOKE ALL ON bobs_q FROM regress_sq_alice;
INSERT INTO bobs VALUES (5, 's5', 'o5');
CALL streamq.run('bobs_q');
GRANT ALL ON bobs_q TO regress_sq_alice;
CALL streamq.run('bobs_q');
SELECT count(*) FROM bobs_q;
-- a function
CREATE FUNCTION granted(int) RETURNS int LANGUAGE plpgsql AS 'BEGIN RETURN $1; END';
SET ROLE regress_sq_alice;
SELECT streamq.create_query('function_q', 'SELECT granted(id) AS id FROM src');
RESET ROLE;
REVOKE EXECUTE ON FUNCTION granted(int) FROM PUBLIC;
CALL streamq.run('function_q');
GRANT EXECUTE ON FUNCTION granted(int) TO regress_sq_alice;
CALL streamq.run('function_q');
SELECT * FROM test.compare('function_q');

--
-- row-level security of source, static table and sink
--
CREATE TABLE secured (id int, owner text);
INSERT INTO secured VALUES (1, 'regress_sq_alice'), (2, 'regress_sq_bob'), (3, 'regress_sq_alice');
ALTER TABLE secured ENABLE ROW LEVEL SECURITY;
CREATE POLICY own ON secured USING (owner = current_user);
GRANT SELECT ON secured TO regress_sq_alice, regress_sq_bob;
SELECT streamq.add_source('secured');
CREATE TABLE secured_static (id int, owner text);
INSERT INTO secured_static SELECT * FROM secured;
ALTER TABLE secured_static ENABLE ROW LEVEL SECURITY;
CREATE POLICY own ON secured_static USING (owner = current_user);
GRANT SELECT ON secured_static TO regress_sq_alice, regress_sq_bob;
CREATE TABLE secured_sink (id int);
ALTER TABLE secured_sink ENABLE ROW LEVEL SECURITY;
CREATE POLICY small ON secured_sink FOR INSERT WITH CHECK (id < 3);
GRANT INSERT ON secured_sink TO regress_sq_alice, regress_sq_bob;
SET ROLE regress_sq_alice;
SELECT streamq.create_query('secured_a', 'SELECT id FROM secured');
SET ROLE regress_sq_bob;
SELECT streamq.create_query('secured_b', 'SELECT id FROM secured');
SELECT streamq.create_query('secured_static_b', 'SELECT s.id FROM secured s LEFT JOIN secured_static USING (owner)');
RESET ROLE;
CALL streamq.run('secured_a');
CALL streamq.run('secured_b');
CALL streamq.run('secured_static_b');
SELECT * FROM secured_a ORDER BY id;
SELECT * FROM secured_b ORDER BY id;
SELECT * FROM secured_static_b ORDER BY id;
SET ROLE regress_sq_alice;
SELECT streamq.create_query('secured_sink_a', 'SELECT id FROM secured', sink => 'secured_sink', max_rows_per_batch => 1);
CALL streamq.run('secured_sink_a');
RESET ROLE;
CALL streamq.run('secured_sink_a');
SELECT * FROM secured_sink;
ALTER POLICY small ON secured_sink WITH CHECK (true);
CALL streamq.run('secured_sink_a');
SELECT * FROM secured_sink ORDER BY id;

--
-- owners change and go
--
ALTER TABLE src OWNER TO regress_sq_bob;
GRANT SELECT ON src TO regress_sq_alice;
INSERT INTO src VALUES (10, 'ten');
CALL streamq.run('alice_q');
SELECT count(*) FROM alice_q;
-- the query given to another role
GRANT INSERT ON alice_q TO regress_sq_bob;
SET ROLE regress_sq_alice;
\set VERBOSITY sqlstate
ALTER VIEW streamq_query.alice_q OWNER TO regress_sq_bob;
\set VERBOSITY default
RESET ROLE;
ALTER VIEW streamq_query.alice_q OWNER TO regress_sq_bob;
SELECT name, owner FROM streamq.status WHERE name = 'alice_q';
INSERT INTO src VALUES (11, 'eleven');
SET ROLE regress_sq_alice;
CALL streamq.run('alice_q');
SET ROLE regress_sq_bob;
CALL streamq.run('alice_q');
RESET ROLE;
SELECT count(*) FROM alice_q;
SELECT name, owner FROM streamq.status ORDER BY name COLLATE "C";
REASSIGN OWNED BY regress_sq_alice TO regress_sq_carol;
SELECT name, owner FROM streamq.status ORDER BY name COLLATE "C";
-- dropped with all that is theirs
DROP ROLE regress_sq_bob;
SET client_min_messages = warning;
DROP OWNED BY regress_sq_bob CASCADE;
SELECT name, owner FROM streamq.status ORDER BY name COLLATE "C";
SELECT source FROM streamq.sources ORDER BY source::text;
DROP ROLE regress_sq_bob;

--
-- hostile names
--
CREATE SCHEMA "priv"".""x; DROP TABLE priv.src; --";
GRANT ALL ON SCHEMA "priv"".""x; DROP TABLE priv.src; --" TO regress_sq_alice;
SET ROLE regress_sq_alice;
SET search_path = "priv"".""x; DROP TABLE priv.src; --";
CREATE TABLE "t""; DROP TABLE priv.traps; --" ("a""; --" int, "$1" int, "%s%n" text, "it's" text, "\" text, " " text, "😀" text);
INSERT INTO "t""; DROP TABLE priv.traps; --" VALUES (1, 2, '%s', 'it''s', '\', ' ', '😀');
SELECT streamq.add_source('"t""; DROP TABLE priv.traps; --"');
SELECT streamq.create_query('q"; DROP TABLE priv.traps; --', 'SELECT *, ''it''''s "\ $1 %s %n $$'' AS "''$$;--" FROM "t""; DROP TABLE priv.traps; --"');
CALL streamq.run('q"; DROP TABLE priv.traps; --');
\pset format unaligned
SELECT * FROM "q""; DROP TABLE priv.traps; --";
SELECT streamq.explain('q"; DROP TABLE priv.traps; --') LIMIT 1;
SELECT name, sink FROM streamq.status WHERE name LIKE 'q"%';
SELECT streamq.reset('q"; DROP TABLE priv.traps; --');
SELECT streamq.drop_query('q"; DROP TABLE priv.traps; --', drop_sink => true);
RESET ROLE;
SELECT count(*) >= 0 AS still_there FROM priv.traps;

DROP OWNED BY regress_sq_alice, regress_sq_carol, regress_sq_dan, regress_sq_erin CASCADE;
SET search_path = priv;
DROP SCHEMA priv, priv_closed, "priv"".""x; DROP TABLE priv.src; --" CASCADE;
DROP ROLE regress_sq_alice, regress_sq_carol, regress_sq_dan, regress_sq_erin;
SELECT count(*) FROM streamq.queries;
SELECT count(*) FROM streamq.sources;
