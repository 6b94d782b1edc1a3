--
-- What is kept of groups and aggregates: after each batch the sink holds what the plain SELECT
-- gives, digit by digit
--
CREATE SCHEMA state_aggregates;
CREATE SCHEMA elsewhere;
SET search_path = state_aggregates;
SET TimeZone = 'UTC';
SET DateStyle = 'ISO';
SET IntervalStyle = 'postgres';
\pset null '(null)'
CREATE TYPE mood AS ENUM ('sad', 'ok', 'happy');
CREATE DOMAIN small AS int CHECK (VALUE < 100);
CREATE DOMAIN list AS int[];
CREATE TYPE pair AS (a int, b text);
-- not on the search_path; in its alphabet 'a' is 'A'
CREATE COLLATION elsewhere.any_case (provider = icu, locale = 'und-u-ks-level2', deterministic = false);
CREATE TABLE src (id int GENERATED ALWAYS AS IDENTITY, k int, n numeric, f float8, t text, c text COLLATE elsewhere.any_case, m mood, s small,
	a int[], l list, p pair, r int4range, mr int4multirange, j jsonb, iv interval, o boolean, bits bit(4), u uuid);
CREATE TABLE more (LIKE src);
CREATE TABLE d (k int PRIMARY KEY, name text, w int);
CREATE TABLE e (k int, w int);
INSERT INTO d VALUES (0, 'zero', 10), (1, 'one', 11), (2, 'two', 12);
INSERT INTO e VALUES (0, 1), (0, 2), (1, 3), (7, 9);
SELECT streamq.add_source('src'), streamq.add_source('more');
CREATE PROCEDURE add(seed int, rows int) LANGUAGE sql AS $$
	INSERT INTO src (k, n, f, t, c, m, s, a, l, p, r, mr, j, iv, o, bits, u)
	SELECT nullif(x % 6, 5), ('{1.0,1.00,2.50,NaN,-0.0,0,Infinity}'::numeric[])[1 + x % 8], ('{0,1,-2.5,NaN,Infinity}'::float8[])[1 + x % 6],
		   ('{a,A,b,"",ä}'::text[])[1 + x % 6], ('{a,A,b,B}'::text[])[1 + x % 5], ('{sad,ok,happy}'::mood[])[1 + x % 4], x % 7,
		   (ARRAY['{}', '{1}', '{1,2}', '{NULL,1}'])[1 + x % 4]::int[], CASE x % 3 WHEN 0 THEN '{}' WHEN 1 THEN '{3}' END::list,
		   CASE WHEN x % 7 <> 0 THEN ROW(x % 2, nullif('b', substr('abc', x % 3, 1)))::pair END, CASE x % 4 WHEN 0 THEN 'empty' ELSE int4range(x % 4, x % 4 + 3) END,
		   int4multirange(int4range(x % 3, 5)), CASE x % 3 WHEN 0 THEN '{"a": 1}' WHEN 1 THEN 'null' END::jsonb, ('{1 day,1 mon,90 min}'::interval[])[1 + x % 4],
		   nullif(x % 3, 2) = 0, (x % 5)::bit(4), md5((x % 4)::text)::uuid
	FROM (SELECT (g * 7919 + seed * 104729) % 101 AS x FROM generate_series(1, rows) g) y;
	INSERT INTO more SELECT * FROM src WHERE id % 5 = 0 AND id > (SELECT coalesce(max(id), 0) FROM more)
$$;

-- typed states: without a combine function; with one, strict; arrays; polymorphic; of several arguments
CREATE FUNCTION cat_step(text, text) RETURNS text LANGUAGE sql IMMUTABLE AS 'SELECT CASE WHEN $2 IS NULL OR $1 > $2 THEN $1 ELSE $2 END';
CREATE AGGREGATE longest(text) (sfunc = cat_step, stype = text, initcond = '');
CREATE FUNCTION sum_step(numeric, numeric) RETURNS numeric LANGUAGE sql IMMUTABLE STRICT AS 'SELECT $1 + $2';
CREATE AGGREGATE resumed_sum(numeric) (sfunc = sum_step, stype = numeric);
CREATE AGGREGATE combined_sum(numeric) (sfunc = sum_step, stype = numeric, combinefunc = sum_step);
CREATE FUNCTION mean_step(numeric[], numeric, int) RETURNS numeric[] LANGUAGE plpgsql IMMUTABLE AS 'BEGIN RETURN ARRAY[$1[1] + coalesce($2 * $3, 0), $1[2] + coalesce($3, 0)]; END';
CREATE FUNCTION mean_final(numeric[]) RETURNS numeric LANGUAGE sql IMMUTABLE AS 'SELECT $1[1] / nullif($1[2], 0)';
CREATE AGGREGATE weighted_mean(numeric, int) (sfunc = mean_step, stype = numeric[], initcond = '{0,0}', finalfunc = mean_final);
CREATE FUNCTION most_step(anyelement, anyelement) RETURNS anyelement LANGUAGE sql IMMUTABLE AS 'SELECT greatest($1, $2)';
CREATE AGGREGATE most(anyelement) (sfunc = most_step, stype = anyelement);
CREATE FUNCTION count_step(bigint, VARIADIC int[]) RETURNS bigint LANGUAGE sql IMMUTABLE AS 'SELECT $1 + cardinality($2)';
CREATE AGGREGATE count_all(VARIADIC int[]) (sfunc = count_step, stype = bigint, initcond = '0');
CREATE AGGREGATE elsewhere.hidden_mean(bigint) (sfunc = int8_avg_accum, stype = internal, finalfunc = numeric_poly_avg, combinefunc = int8_avg_combine,
	serialfunc = int8_avg_serialize, deserialfunc = int8_avg_deserialize);
CREATE AGGREGATE elsewhere.hidden_array(anynonarray) (sfunc = array_agg_transfn, stype = internal, finalfunc = array_agg_finalfn, finalfunc_extra);

CREATE VIEW joined AS SELECT src.id, k, n, d.name FROM src LEFT JOIN d USING (k) WHERE id % 3 <> 0;
CREATE VIEW guarded WITH (security_barrier) AS SELECT k, id FROM src WHERE o;
CREATE VIEW counted AS SELECT k, count(*) AS n, sum(id) AS ids FROM src GROUP BY k;
CREATE TABLE todo (n int GENERATED ALWAYS AS IDENTITY, what text, query text);
INSERT INTO todo (what, query) VALUES
-- what is kept
('combined', 'SELECT k, count(*) AS c, count(t) AS ct, sum(n) AS s, avg(n) AS a, min(id) AS mi, max(u::text) AS ma, stddev(n) AS sd, var_pop(id) AS v, bool_or(o) AS o, bit_xor(bits) AS x, max(m) AS m, sum(iv) AS iv FROM src GROUP BY k'),
('combined, of our own', 'SELECT k, combined_sum(n) AS s, elsewhere.hidden_mean(id) AS m FROM src GROUP BY k'),
('resumed', 'SELECT k, longest(t) AS l, resumed_sum(n) AS s, weighted_mean(n, id) AS w, most(a) AS ma, most(m) AS mm, most(p) AS mp, count_all(id, k) AS c FROM src GROUP BY k'),
('resumed and combined', 'SELECT k, resumed_sum(n) AS s, combined_sum(n) AS c, count(*) AS n FROM src GROUP BY k'),
('distinct', 'SELECT k, count(DISTINCT t) AS t, count(DISTINCT c) AS c, sum(DISTINCT n) AS n, avg(DISTINCT id % 7) AS i, count(DISTINCT a) AS a, count(DISTINCT p) AS p, count(DISTINCT f) AS f FROM src GROUP BY k'),
('rows', 'SELECT k, array_agg(id ORDER BY id DESC) AS a, string_agg(t, ''-'' ORDER BY id) AS s, percentile_cont(ARRAY[0.1, 0.5]) WITHIN GROUP (ORDER BY id) AS p, mode() WITHIN GROUP (ORDER BY s) AS m, range_agg(r) AS r, array_agg(DISTINCT t COLLATE "C") AS d, jsonb_agg(p ORDER BY id) AS j FROM src GROUP BY k'),
('rows, with arguments of the group', 'SELECT k, rank(k * 10) WITHIN GROUP (ORDER BY id) AS r, percentile_disc(k / 10.0) WITHIN GROUP (ORDER BY id) AS p, cume_dist(10, ''b'') WITHIN GROUP (ORDER BY id, t) AS c FROM src GROUP BY k'),
('rows, of our own', 'SELECT k, cardinality(elsewhere.hidden_array(id)) AS h FROM src GROUP BY k'),
('all kinds at once', 'SELECT k, count(*) AS c, count(DISTINCT t) AS d, sum(DISTINCT id % 5) AS sd, resumed_sum(n) AS r, array_agg(id ORDER BY id) AS a, max(id) AS m FROM src GROUP BY k'),
('numeric scale', 'SELECT k, sum(n) AS s, avg(n) AS a, sum(n * 1.000) AS s3, max(n * 1.0) AS m, resumed_sum(n) AS r, sum(DISTINCT round(n, 1)) AS d FROM src WHERE n NOT IN (''NaN'', ''Infinity'') GROUP BY k'),
('FILTER', 'SELECT k, count(*) FILTER (WHERE o) AS c, sum(id) FILTER (WHERE t > ''a'') AS s, resumed_sum(n) FILTER (WHERE o IS NOT TRUE) AS r, count(DISTINCT t) FILTER (WHERE id % 2 = 0) AS d, count(DISTINCT t) AS da, array_agg(id ORDER BY id) FILTER (WHERE id % 3 = 0) AS a FROM src GROUP BY k'),
-- the whole as one group
('all rows', 'SELECT count(*) AS c, sum(n) AS s, count(DISTINCT t) AS d, longest(t) AS l, string_agg(t, '''' ORDER BY id) AS a FROM src'),
('all rows, none passes', 'SELECT count(*) AS c, sum(n) AS s, count(DISTINCT t) AS d, longest(t) AS l, string_agg(t, '''' ORDER BY id) AS a FROM src WHERE id < 0'),
('all rows, sometimes', 'SELECT count(*) AS c FROM src HAVING count(*) % 4 > 1'),
-- HAVING that turns false and true again
('HAVING', 'SELECT k, count(*) AS c FROM src GROUP BY k HAVING sum(id) % 3 = 0'),
('HAVING, on what is not shown', 'SELECT k, m, count(*) AS c FROM src GROUP BY k, m HAVING count(DISTINCT t) % 2 = 1 AND array_agg(id) && ARRAY[1, 2, 3, 17, 40]'),
('HAVING, by a static table', 'SELECT k, count(*) AS c FROM src GROUP BY k HAVING EXISTS (SELECT FROM e WHERE e.k = src.k AND e.w < count(src.id) % 5)'),
-- keys
('two keys', 'SELECT m, count(*) AS c, o FROM src GROUP BY o, m'),
('all columns', 'SELECT k, s, m, o, t, u, bits, j, r, a, count(*) AS c FROM src GROUP BY 1, 2, 3, 4, 5, 6, 7, 8, 9, 10'),
('DISTINCT', 'SELECT DISTINCT k, upper(t) AS t FROM src'),
('expressions', 'SELECT k % 2 AS odd, (k % 2) * 10 + count(*) AS x, sum(id) / count(*) AS y, CASE WHEN k % 2 = 1 THEN max(id) ELSE min(id) END AS z FROM src GROUP BY k % 2'),
('a subquery', 'SELECT (SELECT name FROM d WHERE d.k = src.k) AS name, count(*) AS c FROM src GROUP BY 1'),
('correlated subqueries', 'SELECT k, (SELECT name FROM d WHERE d.k = src.k) AS name, (SELECT array_agg(w + src.k ORDER BY w) FROM e) AS ws, (SELECT count(*) FROM e WHERE e.w < sum(src.id)) AS below FROM src GROUP BY k'),
('a primary key', 'SELECT d.*, count(*) AS c, d.w + max(id) AS x FROM src JOIN d USING (k) GROUP BY d.k HAVING min(d.name) > ''o'''),
('a set-returning function', 'SELECT unnest(a) AS x, k, count(*) AS c, count(DISTINCT t) AS d, array_agg(id ORDER BY id) AS ids FROM src GROUP BY 1, 2'),
('a function of none or many', 'SELECT generate_series(1, k) AS g, count(*) AS c FROM src GROUP BY 1'),
('constants', 'SELECT ''x'' AS x, NULL::int AS i, count(*) AS c FROM src GROUP BY 1, 2'),
('numeric', 'SELECT round(n, 1) AS r, sum(n) AS s FROM src GROUP BY 1'),
('a case that does not matter', 'SELECT lower(c) AS l, count(*) AS n, max(lower(c)) AS m FROM src GROUP BY lower(c)'),
-- what is below
('views', 'SELECT name, count(*) AS c, sum(n) AS s FROM joined GROUP BY name'),
('a view that is a barrier', 'SELECT k, count(*) AS c FROM guarded GROUP BY k'),
('a view that aggregates', 'SELECT k, n + 1 AS n1 FROM counted WHERE ids % 2 = 0'),
('CTEs', 'WITH y AS (SELECT * FROM d), x AS (SELECT id, name FROM src JOIN y USING (k)) SELECT name, count(*) AS c FROM x GROUP BY name'),
('a CTE that nothing uses', 'WITH u AS (SELECT * FROM d), b AS (SELECT k, count(*) AS n FROM src GROUP BY k) SELECT * FROM b'),
('a chain of CTEs', 'WITH a AS (SELECT k, id, t FROM src WHERE o), b AS (SELECT * FROM a WHERE id % 7 <> 0), c AS (SELECT k, count(*) AS n, array_agg(DISTINCT t ORDER BY t) AS ts FROM b GROUP BY k) SELECT k, n * 2 AS n2, ts FROM c WHERE n > 1'),
('materialized', 'WITH x AS MATERIALIZED (SELECT k, id FROM src WHERE o) SELECT k, count(*) AS c, array_agg(id ORDER BY id) AS ids FROM x GROUP BY k'),
('LATERAL', 'SELECT x.v, count(*) AS c FROM src, LATERAL (SELECT k * w AS v FROM e WHERE e.k = src.k) x GROUP BY x.v'),
('joins', 'SELECT e.w, d.name, count(*) AS c, sum(id) AS s FROM src LEFT JOIN e USING (k) LEFT JOIN d USING (k) GROUP BY e.w, d.name'),
('a function in FROM', 'SELECT x, count(*) AS c FROM src, unnest(a) WITH ORDINALITY y (x, i) WHERE i < 2 GROUP BY x'),
('UNION ALL', 'SELECT k, count(*) AS c, array_agg(id ORDER BY id) AS ids FROM (SELECT k, id FROM src WHERE o UNION ALL SELECT k, -id FROM src WHERE NOT o) x GROUP BY k'),
('UNION', 'SELECT k, t, o FROM src UNION SELECT k + 1, t, NULL FROM more UNION SELECT NULL, t, o FROM src WHERE m = ''ok'''),
('two sources', 'SELECT k, count(*) AS c, array_agg(id ORDER BY id) AS ids FROM (SELECT k, id FROM src UNION ALL SELECT k + 1, -id FROM more) x GROUP BY k'),
('names of the engine', 'WITH touched AS (SELECT k AS k1, id AS s1, t AS v1 FROM src g), written AS MATERIALIZED (SELECT k AS d FROM d r) SELECT k1, count(*) AS s1, max(s1) AS excluded, count(DISTINCT v1) AS added, array_agg(s1 ORDER BY s1) AS v1 FROM touched s JOIN written t ON t.d = s.k1 GROUP BY k1 HAVING count(*) % 3 <> 0');
SELECT count(streamq.create_query(mode || ' ' || what, query, mode)) FROM todo, unnest('{update,complete}'::text[]) mode;
-- the keys themselves, whatever their type; which of several equal values is shown is up to chance
DO $$
DECLARE
	col name;
BEGIN
	FOREACH col IN ARRAY '{k,n,f,t,c,m,s,a,l,p,r,mr,j,iv,o,bits,u}'::name[] LOOP
		PERFORM streamq.create_query(mode || ' by ' || col, format(CASE WHEN col = 'n' THEN 'SELECT count(*) AS c, sum(id) AS s, round(%I, 3) AS key FROM src GROUP BY 3'
			WHEN col = 'c' THEN 'SELECT count(*) AS c, sum(id) AS s, %I AS key FROM src WHERE c COLLATE "C" >= ''a'' GROUP BY c'
			ELSE 'SELECT count(*) AS c, sum(id) AS s, %I AS key FROM src GROUP BY 3' END, col), mode) FROM unnest('{update,complete}'::text[]) mode;
	END LOOP;
END $$;
CALL add(1, 20);
CALL test.run_all();
SELECT * FROM test.compare_all();
CALL add(2, 3);
CALL test.run_all();
SELECT * FROM test.compare_all();
CALL add(3, 31);
CALL add(4, 1);
CALL test.run_all();
SELECT * FROM test.compare_all();
-- verify finds nothing either
SELECT q.name, v.* FROM streamq.queries q, streamq.verify(q.name) v;
-- the tables: what is in them, and who owns them
SELECT string_agg(format('%s %s', attname, format_type(atttypid, atttypmod)), ', ' ORDER BY attnum), pg_get_userbyid(relowner) = current_user AS mine,
	   count(*) FILTER (WHERE attcollation = (SELECT oid FROM pg_collation WHERE collname = 'any_case')) AS collated
FROM streamq.queries q JOIN pg_class c ON c.relnamespace = 'streamq_state'::regnamespace AND c.relname ~ format('^q%s(_|$)', q.query_id) AND c.relkind = 'r'
	 JOIN pg_attribute a ON a.attrelid = c.oid AND attnum > 0 AND NOT attisdropped
WHERE name IN ('update all kinds at once', 'update resumed', 'update all rows', 'update by c', 'complete DISTINCT') GROUP BY c.oid, name, relname, relowner ORDER BY name, length(relname), relname;
-- values that are equal and yet not the same: one group, whatever comes first names it
TRUNCATE src, more;
SELECT streamq.create_query('update equal', 'SELECT c, n, f, iv, p, count(*) AS rows FROM src GROUP BY 1, 2, 3, 4, 5', 'update', starting_position => 'latest');
SELECT streamq.create_query('complete equal', 'SELECT c, n, f, iv, p, count(*) AS rows FROM src GROUP BY 1, 2, 3, 4, 5', 'complete', starting_position => 'latest');
INSERT INTO src (c, n, f, iv, p) VALUES ('a', 1.0, '-0', '1 day', '(1,)'), ('B', 'NaN', 'NaN', '1 mon', NULL), (NULL, 0.00, NULL, NULL, '(,)');
CALL test.run('update equal', 'complete equal');
INSERT INTO src (c, n, f, iv, p) VALUES ('A', 1, '0', '24:00', '(1,)'), ('b', 'NaN', 'NaN', '30 days', NULL), (NULL, 0, NULL, NULL, '(,)'), ('a', 1, 0, '1 day', '(1,"")');
CALL test.run('update equal', 'complete equal');
SELECT * FROM "update equal" ORDER BY rows DESC, c;
SELECT * FROM "update equal" EXCEPT TABLE "complete equal";
-- they go with the query
SET client_min_messages = warning;
SELECT count(streamq.drop_query(name, true)) FROM streamq.queries;
SELECT count(*) FROM pg_class WHERE relnamespace = 'streamq_state'::regnamespace;
DROP SCHEMA state_aggregates CASCADE;
DROP SCHEMA elsewhere CASCADE;
