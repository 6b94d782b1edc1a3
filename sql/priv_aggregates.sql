--
-- With whose rights aggregations act: always the owner's, in state tables, late sinks and
-- what shows the result, too
--
SET client_min_messages = warning;
DROP ROLE IF EXISTS regress_sq_alice, regress_sq_bob;
RESET client_min_messages;
CREATE ROLE regress_sq_alice;
CREATE ROLE regress_sq_bob;
CREATE SCHEMA priv_agg;
GRANT ALL ON SCHEMA priv_agg TO regress_sq_alice, regress_sq_bob;
SET search_path = priv_agg;
SET TimeZone = 'UTC';
SELECT current_user AS super \gset
CREATE FUNCTION state_table(query text, suffix text DEFAULT '') RETURNS text LANGUAGE sql AS $$
	SELECT format('streamq_state.q%s%s', query_id, suffix) FROM streamq.queries WHERE name = query
$$;

--
-- a query full of functions that tell who they are
--
SET ROLE regress_sq_alice;
CREATE TABLE traps (place text, who text);
CREATE FUNCTION trap(place text) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
	INSERT INTO priv_agg.traps VALUES (place, current_user);
	BEGIN
		EXECUTE 'ALTER ROLE regress_sq_alice SUPERUSER';
		INSERT INTO priv_agg.traps VALUES (place, 'a superuser');
	EXCEPTION WHEN insufficient_privilege OR feature_not_supported THEN
		NULL;
	END;
	RETURN true;
END $$;
-- not volatile, as far as anybody knows
CREATE FUNCTION trap_value(anyelement, place text) RETURNS anyelement LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN PERFORM priv_agg.trap(place); RETURN $1; END $$;
CREATE FUNCTION trap_trigger() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM priv_agg.trap(TG_NAME); RETURN NEW; END $$;
CREATE FUNCTION trap_step(int, int) RETURNS int LANGUAGE plpgsql AS $$ BEGIN PERFORM priv_agg.trap('transition'); RETURN coalesce($1, 0) + coalesce($2, 0); END $$;
CREATE FUNCTION trap_combine(int, int) RETURNS int LANGUAGE plpgsql AS $$ BEGIN PERFORM priv_agg.trap('combine'); RETURN coalesce($1, 0) + coalesce($2, 0); END $$;
CREATE FUNCTION trap_final(int) RETURNS int LANGUAGE plpgsql AS $$ BEGIN PERFORM priv_agg.trap('final'); RETURN $1; END $$;
CREATE AGGREGATE combined(int) (sfunc = trap_step, stype = int, finalfunc = trap_final, combinefunc = trap_combine);
CREATE AGGREGATE resumed(int) (sfunc = trap_step, stype = int, finalfunc = trap_final);
CREATE TABLE src (id int, k int, at timestamptz);
SELECT streamq.add_source('src', 'at', '0');
SELECT streamq.create_query('trap_q', $$SELECT priv_agg.trap_value(date_trunc('hour', at), 'not a time key') AS h, at, priv_agg.trap_value(k, 'key') AS k,
	priv_agg.combined(id) AS c, priv_agg.resumed(id) AS r, array_agg(priv_agg.trap_value(id, 'input') ORDER BY id) AS a, count(DISTINCT priv_agg.trap_value(id, 'distinct')) AS d
	FROM src WHERE priv_agg.trap_value(true, 'where') GROUP BY 1, 2, 3 HAVING priv_agg.trap('having')$$, 'update', late_sink => 'late', live_view => 'live');
CREATE TRIGGER on_sink BEFORE INSERT OR UPDATE ON trap_q FOR EACH ROW EXECUTE FUNCTION trap_trigger();
CREATE TRIGGER on_late AFTER INSERT ON late FOR EACH ROW EXECUTE FUNCTION trap_trigger();
DO $$
BEGIN
	EXECUTE format('CREATE TRIGGER on_groups BEFORE INSERT OR UPDATE ON %s FOR EACH ROW EXECUTE FUNCTION trap_trigger()', state_table('trap_q'));
	EXECUTE format('CREATE TRIGGER on_rows BEFORE INSERT ON %s FOR EACH ROW EXECUTE FUNCTION trap_trigger()', state_table('trap_q', '_rows'));
END $$;
INSERT INTO src VALUES (1, 1, '2024-01-01 10:00'), (2, 1, '2024-01-01 10:00'), (3, 2, '2024-01-01 12:00');
RESET ROLE;
CALL test.run('trap_q');
INSERT INTO src VALUES (4, 1, '2024-01-01 10:00'), (5, 2, '2024-01-01 13:00'), (6, 2, '2024-01-01 13:00');
CALL test.run('trap_q');
SELECT place, who, count(*) > 0 AS some FROM traps GROUP BY 1, 2 ORDER BY 1, 2;
TRUNCATE traps;
SELECT count(*) FROM live;
SELECT count(*) FROM streamq.state('trap_q') AS s (h timestamptz, at timestamptz, k int, c int, r int, a int[], d bigint);
SELECT difference FROM streamq.verify('trap_q');
SELECT streamq.alter_query('trap_q', pg_get_viewdef('streamq_query.trap_q'::regclass));
SELECT count(*) > 0 AS explained FROM streamq.explain('trap_q');
SELECT streamq.reset('trap_q');
SELECT who, bool_or(place = 'final') AS final, bool_or(place = 'having') AS having FROM traps GROUP BY 1;
SELECT current_user = :'super' AS still_super, (SELECT rolsuper FROM pg_roles WHERE rolname = 'regress_sq_alice') AS alice;
SELECT streamq.drop_query('trap_q');

--
-- nobody else reads or writes what is kept; nobody makes tables there
--
SET ROLE regress_sq_alice;
SELECT streamq.create_query('mine', 'SELECT k, count(*) AS n FROM src GROUP BY k', 'update');
CALL test.run('mine');
CREATE TABLE streamq_state.trap (k int);
-- bob does not even see the query
SET ROLE regress_sq_bob;
SELECT state_table('mine');
RESET ROLE;
SELECT state_table('mine') AS state \gset
SET ROLE regress_sq_bob;
SELECT verb, split_part(test.refusal(format(verb, :'state')), ' for table', 1) ~ '^42501' AS refused FROM unnest('{SELECT * FROM %s,INSERT INTO %s VALUES (1),DELETE FROM %s,TRUNCATE %s,LOCK %s,DROP TABLE %s}'::text[]) verb;
CREATE TABLE streamq_state.trap (k int);
RESET ROLE;

--
-- an aggregate that may no longer be called; the rights on a sink that modes need
--
SET ROLE regress_sq_bob;
CREATE FUNCTION sum_step(int, int) RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT $1 + $2';
CREATE AGGREGATE bobs_sum(int) (sfunc = sum_step, stype = int, initcond = '0', combinefunc = sum_step);
CREATE TABLE bobs (k int PRIMARY KEY, n bigint);
SET ROLE regress_sq_alice;
SELECT streamq.create_query('sums', 'SELECT k, bobs_sum(id) AS total FROM src GROUP BY k', 'update');
CALL test.run('sums');
SET ROLE regress_sq_bob;
REVOKE EXECUTE ON FUNCTION bobs_sum(int) FROM PUBLIC;
SET ROLE regress_sq_alice;
INSERT INTO src VALUES (7, 7);
CALL streamq.run('sums');
SELECT * FROM streamq.state('sums') AS s (k int, total int);
RESET ROLE;
CALL streamq.run('sums');
-- rights given one after the other: what is still missing
CREATE FUNCTION refusals() RETURNS TABLE (mode text, condition text, answer text) LANGUAGE plpgsql AS $$
BEGIN
	FOR mode, condition IN VALUES ('append', ''), ('update', ''), ('update', 'HAVING count(*) > 1'), ('complete', '') LOOP
		answer := test.refusal(format('SELECT streamq.create_query(%L, %L, %L, %L)', 'refused',
			CASE mode WHEN 'append' THEN 'SELECT k, id AS n FROM src' ELSE 'SELECT k, count(*) AS n FROM src GROUP BY k ' || condition END, mode, 'bobs'));
		IF answer = 'accepted' THEN
			PERFORM streamq.drop_query('refused');
		END IF;
		RETURN NEXT;
	END LOOP;
END $$;
SET ROLE regress_sq_alice;
SELECT * FROM refusals();
SET ROLE regress_sq_bob;
GRANT INSERT ON bobs TO regress_sq_alice;
SET ROLE regress_sq_alice;
SELECT * FROM refusals();
SET ROLE regress_sq_bob;
GRANT SELECT, UPDATE ON bobs TO regress_sq_alice;
SET ROLE regress_sq_alice;
SELECT * FROM refusals();
SET ROLE regress_sq_bob;
GRANT DELETE ON bobs TO regress_sq_alice;
SET ROLE regress_sq_alice;
SELECT * FROM refusals();

--
-- a late sink gets only what the owner may read
--
SET ROLE regress_sq_bob;
CREATE TABLE secrets (at timestamptz, k int, secret text);
SELECT streamq.add_source('secrets', 'at', '0');
CREATE VIEW shown AS SELECT at, k FROM secrets;
GRANT SELECT ON shown TO regress_sq_alice;
SET ROLE regress_sq_alice;
SELECT streamq.create_query('peek', 'SELECT at, count(*) AS n FROM shown GROUP BY at', late_sink => 'peek_late');
SELECT streamq.create_query('peek', 'SELECT at, count(*) AS n FROM shown GROUP BY at');
SET ROLE regress_sq_bob;
INSERT INTO secrets VALUES ('2024-01-01 10:00', 1, 'mine'), ('2024-01-01 11:00', 1, 'mine');
SET ROLE regress_sq_alice;
CALL test.run('peek');
SELECT * FROM streamq.verify('peek');
SELECT count(*) FROM peek;
RESET ROLE;

SET client_min_messages = warning;
SELECT count(streamq.drop_query(name)) FROM streamq.queries;
DROP SCHEMA priv_agg CASCADE;
DROP OWNED BY regress_sq_alice, regress_sq_bob;
DROP ROLE regress_sq_alice, regress_sq_bob;
SELECT count(*) FROM pg_class WHERE relnamespace = 'streamq_state'::regnamespace;
