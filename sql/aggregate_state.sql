--
-- Aggregate states: combine_state, finalize_state, resume_state; and row_image.
--
CREATE SCHEMA aggregate_state;
SET search_path = aggregate_state;
\pset null '(null)'

--
-- Every aggregate of PostgreSQL that has a combine function, or a transition type
-- that can be stored.  For each one there is made a state_of_<oid>, which has its
-- transition function and returns the state, serialized if it is internal.  Rows are
-- split into parts, and their states put together again.
--

CREATE TYPE mood AS ENUM ('sad', 'ok', 'happy');

-- rows of each type, by dataset; ord numbers them
CREATE TABLE inputs (type regtype, dataset text, ord bigint, value text);
INSERT INTO inputs
SELECT v.type, v.dataset, x.ord, x.value
FROM (VALUES
	('int2'::regtype, 'plain', '{-7,0,3,NULL,32767,12,-32768,NULL,1}'::text[]),
	('int4', 'plain', '{-7,NULL,3,2147483647,12,-2147483648,1}'),
	('int8', 'plain', '{-7,0,NULL,9223372036854775807,12,-9223372036854775808,9223372036854775807}'),
	('numeric', 'plain', '{1,-2.50,NULL,3.1234567890123456789,-0.00000000000000000001,1e30,-17,0.00}'),
	('numeric', 'large', '{1e1000,-9.99e999,1e-500,NULL,9e1000}'),
	('numeric', 'nan', '{1,-2.5,NaN,NULL,3}'),
	('numeric', 'infinity', '{1,Infinity,-2.5,NULL,Infinity,4}'),
	('numeric', 'infinities', '{1,Infinity,2,-Infinity,NULL,4}'),
	('float4', 'plain', '{1.5,-2.25,NULL,1e10,0.1,3}'),
	('float4', 'nan', '{1.5,NaN,NULL,3,2,1}'),
	('float8', 'plain', '{1.5,-2.25,NULL,1e10,0.1,3,1e-10}'),
	('float8', 'nan', '{1.5,NaN,NULL,3,2,1}'),
	('float8', 'infinity', '{1.5,Infinity,NULL,-7,2,1}'),
	('money', 'plain', '{1,-2,NULL,17,0}'),
	('text', 'plain', ARRAY['b', 'B', NULL, '', 'aa', 'ä', 'Z', repeat('x', 5000), 'zz']),
	('bpchar', 'plain', '{b,"B  ",NULL,"",aa,zz}'),
	('bool', 'plain', '{t,NULL,f,t}'),
	('bool', 'true', '{t,NULL,t,t,t}'),
	('"bit"', 'plain', '{1010,NULL,0110,1110}'),
	('date', 'plain', '{2020-02-29,NULL,1999-12-31,2001-01-01}'),
	('date', 'infinity', '{2020-02-29,-infinity,NULL,infinity}'),
	('time', 'plain', '{12:00,NULL,00:00,23:59:59.999999}'),
	('timetz', 'plain', '{12:00+02,NULL,00:00-07,23:59:59.999999+00}'),
	('timestamp', 'plain', '{2020-02-29 12:00,NULL,1999-12-31,infinity}'),
	('timestamptz', 'plain', '{2020-02-29 12:00+02,NULL,1999-12-31 00:00-08,-infinity}'),
	('interval', 'plain', '{1 mon 3 days,-4:05:06.789,NULL,2 years -1 day,00:00:00}'),
	('oid', 'plain', '{4294967295,NULL,0,17}'),
	('tid', 'plain', '{"(1,2)",NULL,"(0,7)","(1,1)"}'),
	('inet', 'plain', '{10.0.0.1/8,NULL,10.0.0.1,::1,192.168.0.0/16}'),
	('pg_lsn', 'plain', '{0/16B3748,NULL,1/0,0/0}'),
	('xid8', 'plain', '{17,NULL,18446744073709551615,0}'),
	('xml', 'plain', '{<a/>,b,NULL,<c>d</c>}'),
	('int4[]', 'plain', '{"{1,2}",NULL,"{}","{1,NULL}","{2}","{{1,2},{3,4}}"}'),
	('mood', 'plain', '{ok,NULL,happy,sad,ok}'),
	('int4range', 'plain', '{"[1,100)","[5,60)",NULL,"(,50)","[7,80]"}'),
	('int4range', 'apart', '{"[1,3)",NULL,"[5,60)","[1,60)"}'),
	('int4multirange', 'plain', '{"{[1,20),[30,100)}","{[5,60)}",NULL,"{(,50)}"}')
) AS v(type, dataset, list), unnest(v.list) WITH ORDINALITY AS x(value, ord);
-- and for each type only NULLs, and nothing
INSERT INTO inputs
SELECT DISTINCT type, 'nulls', i, NULL FROM inputs, generate_series(1, 3) i;
CREATE VIEW datasets AS
	SELECT DISTINCT type, dataset FROM inputs
	UNION ALL
	SELECT DISTINCT type, 'empty' FROM inputs;

-- ways to split rows 1 to n into the parts 0, 1, 2
CREATE FUNCTION part(split text, ord bigint, n bigint) RETURNS integer LANGUAGE sql AS $$
	SELECT CASE WHEN ord IS NULL THEN NULL ELSE CASE split
		WHEN 'first' THEN 0
		WHEN 'last' THEN 2
		WHEN 'halves' THEN (ord > n / 2)::integer
		WHEN 'thirds' THEN ((ord - 1) * 3 / n)::integer
		WHEN 'ends' THEN (ord > n / 3)::integer * 2
		WHEN 'in turn' THEN (ord % 3)::integer
		END END
$$;

-- the same value, to the letter; floating-point values nearly so
CREATE FUNCTION near(a float8, b float8, tolerance float8) RETURNS boolean LANGUAGE sql AS $$
	SELECT CASE WHEN a IS NULL OR b IS NULL THEN a IS NULL AND b IS NULL
				WHEN a IN ('NaN', 'Infinity', '-Infinity') OR b IN ('NaN', 'Infinity', '-Infinity') THEN a = b
				ELSE abs(a - b) <= tolerance * (1 + abs(a)) END
$$;
CREATE FUNCTION same(a anyelement, b anyelement) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
	IF pg_typeof(a) = 'float8'::regtype THEN
		RETURN near(a::text::float8, b::text::float8, 1e-12);
	ELSIF pg_typeof(a) = 'float4'::regtype THEN
		RETURN near(a::text::float8, b::text::float8, 1e-6);
	END IF;
	RETURN a::text IS NOT DISTINCT FROM b::text;
END $$;
-- equal values, where rows come in another order
CREATE FUNCTION alike(a anyelement, b anyelement) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
	RETURN same(a, b) OR a IS NOT DISTINCT FROM b;
END $$;

-- a type in place of a polymorphic one
CREATE FUNCTION concrete(type regtype) RETURNS regtype LANGUAGE sql AS $$
	SELECT CASE type WHEN 'anyarray'::regtype THEN 'int4[]'::regtype WHEN 'anyenum'::regtype THEN 'mood'
		WHEN 'anyrange'::regtype THEN 'int4range' WHEN 'anymultirange'::regtype THEN 'int4multirange'
		WHEN '"any"'::regtype THEN 'int4'
		WHEN 'anyelement'::regtype THEN 'int4' ELSE type END
$$;
-- its name; that of bit means bit(1)
CREATE FUNCTION name_of(type regtype) RETURNS text LANGUAGE sql AS $$
	SELECT format('%I.%I', typnamespace::regnamespace, typname) FROM pg_type WHERE oid = type
$$;

-- the aggregates of PostgreSQL that have states to be kept
CREATE TABLE aggregates AS
SELECT p.oid::regprocedure AS agg, concrete(prorettype) AS result,
	concrete(aggtranstype) AS transtype, aggtranstype = 'internal'::regtype AS internal,
	CASE WHEN aggtranstype <> 'internal'::regtype THEN concrete(aggtranstype) ELSE 'bytea' END AS state,
	aggcombinefn <> 0 AS combinable, aggtransfn, agginitval, aggserialfn,
	ARRAY(SELECT concrete(t) FROM unnest(proargtypes) WITH ORDINALITY u(t, i) ORDER BY i)::regtype[] AS args
FROM pg_aggregate JOIN pg_proc p ON p.oid = aggfnoid
WHERE pronamespace = 'pg_catalog'::regnamespace AND aggkind = 'n'
	AND (aggcombinefn <> 0 OR aggtranstype <> 'internal'::regtype)
	-- lists that can be serialized from PostgreSQL 16 on, but not checked
	AND NOT (aggtranstype = 'internal'::regtype AND proname IN ('array_agg', 'string_agg'));

CREATE TABLE comparisons (agg regprocedure, dataset text, split text, way text, fine boolean, want text, got text);

CREATE FUNCTION compare_all() RETURNS void LANGUAGE plpgsql AS $$
DECLARE
	a record;
	d record;
	call text;		-- the aggregate's
	state_of text;	-- its helper's
	columns text;	-- the inputs
	row text;
	combined text;
BEGIN
	FOR a IN SELECT * FROM aggregates ORDER BY agg::oid LOOP
		EXECUTE format('CREATE AGGREGATE state_of_%s(%s) (SFUNC = %s, STYPE = %s %s %s)',
			a.agg::oid, coalesce((SELECT string_agg(name_of(t), ', ') FROM unnest(a.args) t), '*'),
			a.aggtransfn, name_of(a.transtype), ', INITCOND = ' || quote_literal(a.agginitval),
			CASE WHEN a.internal THEN ', FINALFUNC = ' || a.aggserialfn END);
		FOR d IN SELECT * FROM datasets WHERE type = coalesce(a.args[1], 'int4') LOOP
			-- a second argument takes the same values in another order
			SELECT string_agg(format('(i.list[%s])::%s', CASE n WHEN 1 THEN 'o' ELSE '(o + 1) % i.n + 1' END,
							name_of(t)), ', ' ORDER BY n)
			INTO columns FROM unnest(a.args) WITH ORDINALITY u(t, n);
			row := format('ROW(%s)', columns);
			call := format('pg_catalog.%I(%s ORDER BY o)', (SELECT proname FROM pg_proc WHERE oid = a.agg::oid), columns);
			state_of := format('aggregate_state.state_of_%s(%s ORDER BY o)', a.agg::oid, columns);
			IF columns IS NULL THEN
				call := 'count(*)';
				state_of := replace(state_of, '( ORDER BY o)', '(*)');
			END IF;
			combined := CASE WHEN a.combinable THEN $c$,
					('in order', c(c(s0, s1), s2)),
					('to the right', c(s0, c(s1, s2))),
					('reverse', c(c(s2, s1), s0)),
					('with empty ones', c(c(none, c(s0, none)), c(c(s1, none), c(none, s2))))
				$c$ ELSE '' END;
			combined := replace(combined, 'c(', format('streamq.combine_state(%L, ', a.agg::oid));
			IF NOT a.internal THEN
				combined := combined || format($c$,
						('resumed once', streamq.resume_state(%1$L, NULL::%2$s, r0 || r1 || r2, false)),
						('resumed', streamq.resume_state(%1$L, streamq.resume_state(%1$L,
							streamq.resume_state(%1$L, NULL::%2$s, r0, false), r1, true), r2, true))
					$c$, a.agg::oid, name_of(a.state));
			END IF;
			EXECUTE format($q$
				INSERT INTO comparisons
				SELECT %1$L, %2$L, split, way,
					CASE WHEN way = 'reverse' OR split = 'in turn' THEN alike(want, f.value) ELSE same(want, f.value) END,
					left(want::text, 80), left(f.value::text, 80)
				FROM (SELECT split, count(o) AS n, %3$s FILTER (WHERE o IS NOT NULL) AS want,
						%4$s FILTER (WHERE part(split, o, i.n) = 0) AS s0,
						%4$s FILTER (WHERE part(split, o, i.n) = 1) AS s1,
						%4$s FILTER (WHERE part(split, o, i.n) = 2) AS s2,
						%4$s FILTER (WHERE false) AS none,
						array_agg(%5$s ORDER BY o) FILTER (WHERE part(split, o, i.n) = 0) AS r0,
						array_agg(%5$s ORDER BY o) FILTER (WHERE part(split, o, i.n) = 1) AS r1,
						array_agg(%5$s ORDER BY o) FILTER (WHERE part(split, o, i.n) = 2) AS r2
					  FROM (SELECT array_agg(value ORDER BY ord) AS list, count(*) AS n
							FROM inputs WHERE (type, dataset) = (%6$L::regtype, %2$L)) i
						CROSS JOIN unnest('{first,last,halves,thirds,ends,in turn}'::text[]) split
						LEFT JOIN generate_series(1, i.n) o ON true
					  GROUP BY split) g,
					LATERAL (VALUES ('as it is', CASE split WHEN 'first' THEN s0 WHEN 'last' THEN s2 END) %7$s) c(way, state),
					LATERAL (SELECT streamq.finalize_state(%1$L, c.state, NULL::%8$s) AS value) f
				WHERE (way <> 'as it is' OR split IN ('first', 'last')) AND (split <> 'in turn' OR %9$L)
				$q$, a.agg::oid, d.dataset, call, state_of, row, d.type, combined, name_of(a.result), a.combinable);
		END LOOP;
	END LOOP;
END $$;

SELECT compare_all();
-- none is left out
SELECT agg FROM aggregates WHERE NOT EXISTS (SELECT FROM comparisons c WHERE c.agg = aggregates.agg);
SELECT count(DISTINCT agg) > 100 AS aggregates, count(*) > 10000 AS comparisons,
	count(DISTINCT agg) FILTER (WHERE way = 'in order') > 100 AS combined,
	count(DISTINCT agg) FILTER (WHERE way = 'resumed') > 80 AS resumed,
	count(*) FILTER (WHERE want IS NULL) > 100 AS nulls
FROM comparisons;
-- any_value (from PostgreSQL 16 on) may take another one when rows come in another order
SELECT * FROM comparisons
WHERE fine IS NOT TRUE AND NOT (agg::text = 'any_value(anyelement)' AND (way = 'reverse' OR split = 'in turn') AND got IS NOT NULL)
ORDER BY agg::oid, dataset, split, way LIMIT 20;

--
-- combine_state, finalize_state: what the aggregates above do not show
--
-- a collation comes with the state
SELECT streamq.combine_state('max(text)', a COLLATE "C", b) AS c,
	streamq.combine_state('max(text)', a COLLATE "und-x-icu", b) AS icu
FROM (VALUES ('a', 'B')) v(a, b);
-- values as large as they get; the result is never calculated
SELECT length(streamq.combine_state('variance(numeric)', s, s)) FROM (
	SELECT state_of_2153(x) AS s FROM (VALUES (9e131071), (-1e-16383)) v(x)) t;
-- stored in a table: with a short header, compressed, out of line
CREATE TABLE kept (n int, state bytea, list int4[]);
ALTER TABLE kept ALTER list SET STORAGE EXTERNAL;
INSERT INTO kept
SELECT g, state_of_2103(x), array_agg(x::int4) FROM generate_series(1, 3) g, generate_series(1, 2000 * (g - 1) + 3) x GROUP BY g
UNION ALL
SELECT 4, state_of_2103(x), array_agg(4) FROM (VALUES ((repeat('12340000', 3000))::numeric)) v(x);
SELECT n, pg_column_size(state) < length(state) AS compressed FROM kept ORDER BY n;
SELECT n, left(streamq.finalize_state('avg(numeric)', streamq.combine_state('avg(numeric)', state, state), NULL::numeric)::text, 20) AS average,
	(streamq.combine_state('max(anyarray)', list, list) = list) AS list
FROM kept ORDER BY n;
-- arguments are left alone
DO $$
DECLARE
	a bigint[] := '{1,10}';
	b bigint[];
BEGIN
	b := streamq.combine_state('avg(integer)', a, a);
	b := streamq.combine_state('avg(integer)', a, b);
	b := streamq.resume_state('avg(integer)', a, ARRAY[ROW(1)], true);
	ASSERT a = '{1,10}' AND b = '{2,11}';
END $$;
-- also by a final function that has to be allowed to write: this one counts a row
CREATE FUNCTION count_more(bigint[], int) RETURNS bigint[] LANGUAGE internal AS 'int4_avg_accum';
CREATE AGGREGATE counted(int) (SFUNC = int4_avg_accum, STYPE = bigint[], INITCOND = '{0,0}',
	FINALFUNC = count_more, FINALFUNC_EXTRA, FINALFUNC_MODIFY = READ_WRITE);
SELECT streamq.finalize_state('counted(int)', s, NULL::bigint[]), s
FROM (SELECT ARRAY[i, 10] AS s FROM generate_series(1, 2::bigint) i OFFSET 0) t;
-- one call site, many aggregates
SELECT agg, streamq.combine_state(agg, 5::bigint, 3::bigint) AS combined
FROM unnest('{sum(integer),max(bigint),min(bigint),count(),sum(integer),bit_or(bigint)}'::regprocedure[]) agg;

-- the final function sees a NULL state if it is not strict, and the result may be anything
CREATE FUNCTION told(anycompatiblearray, anycompatible) RETURNS text LANGUAGE plpgsql AS
	$$ BEGIN RETURN format('%s of %s: %s', pg_typeof($1), pg_typeof($2), coalesce($1::text, 'nothing')); END $$;
CREATE AGGREGATE collect(anycompatible) (SFUNC = array_append, STYPE = anycompatiblearray,
	COMBINEFUNC = array_cat, FINALFUNC = told, FINALFUNC_EXTRA);
CREATE AGGREGATE collect_alone(anycompatible) (SFUNC = array_append, STYPE = anycompatiblearray,
	COMBINEFUNC = array_cat, INITCOND = '{}');
CREATE FUNCTION first_of(anycompatiblearray) RETURNS anycompatible LANGUAGE sql AS 'SELECT $1[1]';
CREATE AGGREGATE collect_first(anycompatible) (SFUNC = array_append, STYPE = anycompatiblearray,
	COMBINEFUNC = array_cat, FINALFUNC = first_of, FINALFUNC_MODIFY = READ_WRITE);
SELECT streamq.finalize_state('collect(anycompatible)', s, NULL::text, NULL::int)
FROM (VALUES (streamq.combine_state('collect(anycompatible)', '{1,2}'::int[], '{3}')), (NULL)) v(s);
SELECT streamq.finalize_state('collect_alone(anycompatible)', '{a,b}'::text[], NULL::text[]),
	streamq.finalize_state('collect_first(anycompatible)', '{a,b}'::text[], NULL::text),
	streamq.finalize_state('collect_first(anycompatible)', '{4,5}'::int[], NULL::int, NULL::int);

--
-- resume_state
--
-- NULL inputs, the initial value, a polymorphic type at a time
SELECT streamq.resume_state('collect_alone(anycompatible)', NULL::int[], NULL::record[], false) AS initial,
	streamq.resume_state('collect_alone(anycompatible)', '{1}'::int[], NULL::record[], true) AS state,
	streamq.resume_state('collect_alone(anycompatible)', '{1}'::int[], '{}'::record[], true) AS state,
	streamq.resume_state('collect_alone(anycompatible)', '{1}'::int[], ARRAY[ROW(2), ROW(NULL::int)], true) AS more,
	streamq.resume_state('collect_alone(anycompatible)', '{1}'::int[], ARRAY[ROW(2)], false) AS anew,
	streamq.resume_state('collect(anycompatible)', NULL::text[], ARRAY[ROW('x'::text), ROW('y'::text)], true) AS texts;
-- as many rows as one likes, the state expanded on the way
SELECT array_length(streamq.resume_state('collect_alone(anycompatible)', NULL::text[],
	(SELECT array_agg(ROW(i::text)) FROM generate_series(1, 100000) i), false), 1);

-- a function that is not strict sees NULLs, state included
CREATE FUNCTION note(text, int) RETURNS text LANGUAGE sql AS
	$$ SELECT coalesce($1, 'none') || ',' || coalesce($2::text, 'null') $$;
CREATE AGGREGATE notes(int) (SFUNC = note, STYPE = text);
SELECT notes(x), streamq.resume_state('notes(int)', NULL::text, array_agg(ROW(x)), false) AS resumed,
	streamq.resume_state('notes(int)', streamq.resume_state('notes(int)', NULL::text, NULL::record[], false),
		array_agg(ROW(x)), true) AS resumed
FROM (VALUES (1), (NULL), (2)) v(x);

-- a strict one does not, and what it has made NULL stays NULL; but not beyond a call
CREATE FUNCTION add_small(int, int) RETURNS int LANGUAGE sql STRICT AS
	$$ SELECT CASE WHEN $2 < 100 THEN coalesce($1, -1000) + $2 END $$;
CREATE AGGREGATE sum_small(int) (SFUNC = add_small, STYPE = int);
CREATE AGGREGATE sum_small_from(int) (SFUNC = add_small, STYPE = int, INITCOND = '1000');
SELECT what, sum_small(x), streamq.resume_state('sum_small(int)', NULL::int, array_agg(ROW(x)), false) AS resumed,
	sum_small_from(x), streamq.resume_state('sum_small_from(int)', NULL::int, array_agg(ROW(x)), false) AS resumed
FROM (VALUES ('all', 1), ('all', NULL), ('all', 2), ('nulls', NULL),
	('large first', 100), ('large first', 1), ('large later', 1), ('large later', 100), ('large later', 2)) v(what, x)
GROUP BY what ORDER BY what;
SELECT streamq.resume_state('sum_small(int)', NULL::int, ARRAY[ROW(2)], true) AS kept_null,
	streamq.resume_state('sum_small_from(int)', NULL::int, ARRAY[ROW(2)], true) AS kept_null_from;

-- more arguments, none, variadic ones
CREATE FUNCTION weigh(numeric, int, numeric) RETURNS numeric LANGUAGE sql AS 'SELECT $1 + $2 * $3';
CREATE AGGREGATE weight(int, numeric) (SFUNC = weigh, STYPE = numeric, INITCOND = '0');
CREATE FUNCTION step(int) RETURNS int LANGUAGE sql AS 'SELECT $1 + 1';
CREATE AGGREGATE steps(*) (SFUNC = step, STYPE = int, INITCOND = '0');
CREATE FUNCTION add_list(int[], VARIADIC int[]) RETURNS int[] LANGUAGE sql AS 'SELECT $1 || $2';
CREATE AGGREGATE lists(VARIADIC int[]) (SFUNC = add_list, STYPE = int[], INITCOND = '{}');
CREATE AGGREGATE woven(VARIADIC "any") (SFUNC = concat_ws, STYPE = text, INITCOND = '-');
SELECT weight(x, y), streamq.resume_state('weight(int,numeric)', NULL::numeric, array_agg(ROW(x, y)), false) AS resumed,
	steps(*), streamq.resume_state('steps()', NULL::int, array_agg(ROW()), false) AS resumed,
	lists(x, 7), streamq.resume_state('lists(int[])', NULL::int[], array_agg(ROW(ARRAY[x, 7])), false) AS resumed,
	woven(x, y, true), streamq.resume_state('woven("any")', NULL::text, array_agg(ROW(x, y, true)), false) AS resumed
FROM (VALUES (1, 1.5), (2, 2.25)) v(x, y);

-- the collation of the inputs, where the state has none
CREATE FUNCTION count_less(bigint, text, text) RETURNS bigint LANGUAGE sql STRICT AS
	$$ SELECT $1 + ($2 < $3)::int $$;
CREATE AGGREGATE less(text, text) (SFUNC = count_less, STYPE = bigint, INITCOND = '0');
SELECT less(x COLLATE "C", y), streamq.resume_state('less(text,text)', NULL::bigint, array_agg(ROW(x COLLATE "C", y)), false) AS resumed,
	less(x COLLATE "und-x-icu", y), streamq.resume_state('less(text,text)', NULL::bigint,
		array_agg(ROW(x COLLATE "und-x-icu", y)), false) AS resumed
FROM (VALUES ('a', 'B'), ('B', 'a'), ('a', 'C')) v(x, y);

--
-- what is refused
--
CREATE TYPE single AS (x int);
CREATE DOMAIN list AS int[];
CREATE FUNCTION named() RETURNS record LANGUAGE sql AS 'SELECT ROW(1)::aggregate_state.single';
CREATE TABLE refusals (n int GENERATED ALWAYS AS IDENTITY, expression text);
INSERT INTO refusals (expression) VALUES
	($$streamq.combine_state(NULL, 1, 1)$$),
	($$streamq.combine_state('lower(text)', 1, 1)$$),
	($$streamq.combine_state(0, 1, 1)$$),
	($$streamq.combine_state('row_number()', 1, 1)$$),
	($$streamq.combine_state('json_agg(anyelement)', ''::bytea, '')$$),
	($$streamq.combine_state('mode(anyelement)', 1, 1)$$),
	($$streamq.combine_state('rank("any")', 1, 1)$$),
	($$streamq.combine_state('sum_small(int)', 1, 1)$$),
	($$streamq.combine_state('sum(integer)', 1, 1)$$),
	($$streamq.combine_state('sum(numeric)', 1.0, 1.0)$$),
	($$streamq.combine_state('max(text)', 'a'::varchar, 'b')$$),
	($$streamq.combine_state('max(anyarray)', 1, 1)$$),
	($$streamq.combine_state('max(anyarray)', '{1}'::list, '{2}'::list)$$),
	($$streamq.combine_state('max(anyenum)', 1, 1)$$),
	($$streamq.combine_state('range_intersect_agg(anyrange)', '{1}'::int[], '{1}')$$),
	($$streamq.combine_state('avg(integer)', '{1}'::bigint[], '{1,1}')$$),
	($$streamq.combine_state('avg(integer)', '{1,NULL}'::bigint[], '{1,1}')$$),
	($$streamq.combine_state('avg(float8)', '{1}'::float8[], '{1,1,1}')$$),
	($$streamq.combine_state('avg(smallint)', '{}'::bigint[], '{1,1}')$$),
	($$streamq.finalize_state('json_agg(anyelement)', ''::bytea, NULL::json)$$),
	($$streamq.finalize_state('percentile_disc(float8,anyelement)', 1, 1)$$),
	($$streamq.finalize_state('avg(integer)', '{1,1}'::bigint[], NULL::float8)$$),
	($$streamq.finalize_state('avg(integer)', NULL, NULL::numeric)$$),
	($$streamq.finalize_state('avg(integer)', '{1,1}'::bigint[], NULL::numeric, NULL::bigint)$$),
	($$streamq.finalize_state('avg(integer)', '{1,1}'::bigint[], NULL::numeric, NULL::int, NULL::int)$$),
	($$streamq.finalize_state('avg(integer)', '{1,1}'::bigint[], NULL::numeric, VARIADIC '{1}'::int[])$$),
	($$streamq.finalize_state('max(anyarray)', '{1}'::int[], NULL::text[])$$),
	($$streamq.finalize_state('max(anyarray)', '{1}'::int[], NULL::text[], NULL::text[])$$),
	($$streamq.finalize_state('max(anyarray)', '{1}'::int[], NULL::int[], NULL)$$),
	($$streamq.finalize_state('collect(anycompatible)', '{1}'::int[], NULL::text)$$),
	($$streamq.finalize_state('collect(anycompatible)', '{1}'::int[], NULL::text, NULL::text)$$),
	($$streamq.finalize_state('collect_first(anycompatible)', '{1}'::int[], NULL::text)$$),
	($$streamq.resume_state('sum(numeric)', 1.0, ARRAY[ROW(1.0)], true)$$),
	($$streamq.resume_state('sum(integer)', 1, ARRAY[ROW(1)], true)$$),
	($$streamq.resume_state('notes(int)', ''::text, ARRAY[1], true)$$),
	($$streamq.resume_state('notes(int)', ''::text, ARRAY[ROW(1)], NULL)$$),
	($$streamq.resume_state('notes(int)', ''::text, ARRAY[ROW(1), NULL], true)$$),
	($$streamq.resume_state('notes(int)', ''::text, ARRAY[ROW(1::bigint)], true)$$),
	($$streamq.resume_state('notes(int)', ''::text, ARRAY[ROW('1')], true)$$),
	($$streamq.resume_state('notes(int)', ''::text, ARRAY[ROW(1, 2)], true)$$),
	($$streamq.resume_state('notes(int)', ''::text, ARRAY[ROW()], true)$$),
	($$streamq.resume_state('notes(int)', ''::text, ARRAY[ROW(1), ROW('a'::text)], true)$$),
	($$streamq.resume_state('notes(int)', ''::text, (SELECT array_agg(k) FROM kept k), true)$$),
	($$streamq.resume_state('notes(int)', ''::text, ARRAY[named()], true)$$),
	($$streamq.resume_state('max(anyarray)', '{1}'::int[], ARRAY[ROW('{2}'::list)], true)$$),
	($$streamq.resume_state('collect(anycompatible)', '{1}'::int[], ARRAY[ROW('a'::text)], true)$$),
	($$streamq.resume_state('collect(anycompatible)', 1, NULL::record[], true)$$);
SELECT n, expression, test.refusal('SELECT ' || expression) FROM refusals ORDER BY n \g (format=unaligned tuples_only=on)

-- errors of the functions themselves; the call site is good for further ones
CREATE FUNCTION attempts() RETURNS text[] LANGUAGE plpgsql AS $$
DECLARE
	list text[];
	i bigint;
BEGIN
	FOREACH i IN ARRAY '{1,9223372036854775807,2,9223372036854775806}'::bigint[] LOOP
		BEGIN
			list := array_append(list, streamq.combine_state('sum(integer)', i, 3::bigint)::text);
		EXCEPTION WHEN numeric_value_out_of_range THEN
			list := array_append(list, 'error');
		END;
	END LOOP;
	RETURN list;
END $$;
SELECT attempts();

--
-- bytes that are no state: refused, or something can be calculated from them
--
CREATE FUNCTION state_error(agg regprocedure, state bytea) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
	PERFORM streamq.combine_state(agg, state, state);
	PERFORM streamq.combine_state(agg, NULL, state);
	EXECUTE format('SELECT streamq.finalize_state($1, $2, NULL::%s)',
				   (SELECT prorettype::regtype FROM pg_proc WHERE oid = agg)) USING agg, state;
	RETURN 'fine';
EXCEPTION WHEN OTHERS THEN
	RETURN sqlstate;
END $$;
CREATE TABLE states (agg regprocedure, state bytea);
DO $$
DECLARE
	agg regprocedure;
BEGIN
	FOREACH agg IN ARRAY '{sum(numeric),variance(numeric),sum(bigint),variance(integer)}'::regprocedure[] LOOP
		EXECUTE format('INSERT INTO states SELECT %L, state_of_%s(x::%s) FROM (VALUES (1), (-250), (3000000)) v(x)',
			agg::oid, agg::oid, (SELECT proargtypes[0]::regtype FROM pg_proc WHERE oid = agg));
	END LOOP;
END $$;
-- cut off and extended: always refused
SELECT agg, bool_and(state_error(agg, substr(state, 1, i)) = '22P03') AS shorter,
	state_error(agg, state || '\x00'::bytea) AS longer
FROM states, LATERAL generate_series(0, length(state) - 1) i GROUP BY agg, state ORDER BY agg::oid;
-- the same of intervals, whose state is serialized from PostgreSQL 17 on
CREATE TABLE interval_states (state bytea);
DO $$
DECLARE
	agg regprocedure = 'avg(interval)';
BEGIN
	IF (SELECT internal FROM aggregates a WHERE a.agg = 'avg(interval)'::regprocedure) THEN
		EXECUTE format($q$INSERT INTO interval_states SELECT state_of_%s(x)
			FROM (VALUES (interval '1 mon 3 days'), ('-04:05:06.789'), ('2 years -1 day')) v(x)$q$, agg::oid);
	END IF;
END $$;
SELECT coalesce(bool_and(state_error('avg(interval)', substr(state, 1, i)) = '22P03'), true) AS shorter,
	coalesce(bool_and(state_error('avg(interval)', state || '\x00'::bytea) = '22P03'), true) AS longer
FROM interval_states, LATERAL generate_series(0, length(state) - 1) i;
SELECT coalesce(bool_and(error IN ('fine', '22008')), true) AS safe
FROM (SELECT state_error('avg(interval)', set_byte(state, i, b)) AS error
	  FROM interval_states, LATERAL generate_series(0, length(state) - 1) i,
		unnest('{0,1,4,16,32,39,64,127,128,192,255}'::int[]) b) t;
-- a number of one digit at the end of the world, one with a wrong sign, a wrong digit, too many digits
SELECT state_error('sum(bigint)', decode(replace('0000000000000001' || number, ' ', ''), 'hex')), number
FROM (VALUES ('00000001 00000000 00000000 00000000 0001'), ('00000001 80000000 00000000 00000000 0001'),
	('00000001 7fffffff 00000000 00000000 0001'), ('00000001 00010009 00000000 00000000 0001'),
	('00000001 00010008 00004000 00000000 0001'), ('00000001 00000000 0000c000 00000000 0001'),
	('00000001 00000000 00000000 80000000 0001'), ('00000001 00000000 00000000 00000000 2710'),
	('ffffffff 00000000 00000000 00000000'), ('7fffffff 00000000 00000000 00000000 0001'),
	('00000000 00000000 00000000 00000000')) v(number);
-- any byte changed to anything
SELECT agg, bool_and(error IN ('fine', '22P03', '22003', '22012')) AS safe,
	bool_or(error = '22P03') AS refused, bool_or(error = 'fine') AS calculated
FROM (SELECT agg, state_error(agg, set_byte(state, i, b)) AS error
	  FROM states, LATERAL generate_series(0, length(state) - 1) i,
		unnest('{0,1,4,16,32,39,64,127,128,192,255}'::int[]) b) t
GROUP BY agg ORDER BY agg::oid;

--
-- rights
--
SET client_min_messages = warning;
DROP ROLE IF EXISTS regress_sq_maker, regress_sq_caller;
RESET client_min_messages;
CREATE ROLE regress_sq_maker;
CREATE ROLE regress_sq_caller;
GRANT USAGE ON SCHEMA aggregate_state TO PUBLIC;
CREATE FUNCTION plus(int, int) RETURNS int LANGUAGE sql STRICT AS 'SELECT $1 + $2';
CREATE FUNCTION twice(int) RETURNS int LANGUAGE sql STRICT AS 'SELECT 2 * $1';
CREATE AGGREGATE sum_twice(int) (SFUNC = plus, STYPE = int, COMBINEFUNC = plus, FINALFUNC = twice);
CREATE FUNCTION read_state(bytea, internal) RETURNS internal LANGUAGE internal STRICT AS 'int8_avg_deserialize';
CREATE AGGREGATE my_sum(bigint) (SFUNC = int8_avg_accum, STYPE = internal, COMBINEFUNC = int8_avg_combine,
	SERIALFUNC = int8_avg_serialize, DESERIALFUNC = read_state, FINALFUNC = numeric_poly_sum);
CREATE FUNCTION all_three() RETURNS SETOF text LANGUAGE sql AS $$
	SELECT current_user::text
	UNION ALL SELECT test.refusal($q$SELECT streamq.combine_state('aggregate_state.sum_twice(int)', 1, 1)$q$)
	UNION ALL SELECT test.refusal($q$SELECT streamq.finalize_state('aggregate_state.sum_twice(int)', 1, NULL::int)$q$)
	UNION ALL SELECT test.refusal($q$SELECT streamq.resume_state('aggregate_state.sum_twice(int)', 1, ARRAY[ROW(1)], true)$q$)
$$;
SET ROLE regress_sq_caller;
SELECT all_three();
RESET ROLE;
-- the aggregate's owner needs rights on the functions, and he alone does
REVOKE EXECUTE ON FUNCTION plus(int, int), twice(int) FROM PUBLIC;
SET ROLE regress_sq_caller;
SELECT all_three();
RESET ROLE;
ALTER AGGREGATE sum_twice(int) OWNER TO regress_sq_maker;
SELECT all_three();
GRANT EXECUTE ON FUNCTION plus(int, int), twice(int) TO regress_sq_maker;
-- the caller needs rights on the aggregate
REVOKE EXECUTE ON FUNCTION sum_twice(int) FROM PUBLIC;
SET ROLE regress_sq_caller;
SELECT all_three();
RESET ROLE;
SELECT all_three();
-- rights are those of whoever is the user at the call
CREATE FUNCTION as_user(name) RETURNS int LANGUAGE plpgsql AS $$
BEGIN
	PERFORM set_config('role', $1, true);
	RETURN streamq.combine_state('sum_twice(int)', 1, 1);
EXCEPTION WHEN insufficient_privilege THEN
	RETURN -1;
END $$;
SELECT u, as_user(u) FROM unnest('{none,regress_sq_caller,none}'::name[]) u;
-- a deserialization function that is not PostgreSQL's own is called for its owner only
SELECT my_sum(x), streamq.finalize_state('my_sum(bigint)', streamq.combine_state('my_sum(bigint)', state_of_2107(x), state_of_2107(x)), NULL::numeric)
FROM generate_series(1, 4::bigint) x;
SET ROLE regress_sq_caller;
SELECT test.refusal($$SELECT streamq.combine_state('aggregate_state.my_sum(bigint)', '\x00'::bytea, '\x00')$$);
SELECT test.refusal($$SELECT streamq.finalize_state('aggregate_state.my_sum(bigint)', '\x00'::bytea, NULL::numeric)$$);
RESET ROLE;
-- what a function is lacking
CREATE FUNCTION combine_sums(internal, internal) RETURNS internal LANGUAGE internal AS 'int8_avg_combine';
CREATE AGGREGATE strict_sum(bigint) (SFUNC = int8_avg_accum, STYPE = internal, COMBINEFUNC = combine_sums,
	SERIALFUNC = int8_avg_serialize, DESERIALFUNC = int8_avg_deserialize, FINALFUNC = numeric_poly_sum);
ALTER FUNCTION combine_sums(internal, internal) STRICT;
SELECT test.refusal($$SELECT streamq.combine_state('strict_sum(bigint)', NULL::bytea, NULL)$$);
CREATE FUNCTION append(text, int) RETURNS text LANGUAGE sql AS 'SELECT $1 || $2';
CREATE AGGREGATE appended(int) (SFUNC = append, STYPE = text);
ALTER FUNCTION append(text, int) STRICT;
SELECT test.refusal($$SELECT streamq.resume_state('appended(int)', ''::text, ARRAY[ROW(1)], true)$$);

--
-- memory does not grow with the calls
--
CREATE FUNCTION memory(bigint) RETURNS numeric LANGUAGE sql AS
	'SELECT sum(total_bytes) FROM pg_backend_memory_contexts';
CREATE FUNCTION growth(expression text, calls int) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
	result boolean;
BEGIN
	-- what a call site keeps it has after some calls; only then the memory is taken
	EXECUTE format($q$
		SELECT max(m) - min(m) < 65536
		FROM (SELECT %s AS x, CASE WHEN i %% %s = 0 THEN aggregate_state.memory(i) END AS m
			  FROM generate_series(1, %s) i OFFSET 0) t
		WHERE x IS NOT NULL OR m IS NOT NULL
		$q$, expression, calls / 4, calls) INTO result;
	RETURN result;
END $$;
SELECT expression, growth(expression, 100000) AS flat
FROM (VALUES
	($$streamq.combine_state('sum(integer)', i::bigint, 1::bigint)$$),
	($$streamq.combine_state('max(text)', i::text, 'a')$$),
	($$streamq.combine_state('avg(float8)', ARRAY[i, i, i]::float8[], '{1,2,3}')$$),
	($$streamq.combine_state('variance(numeric)', NULL, (SELECT state FROM aggregate_state.states WHERE agg = 'variance(numeric)'::regprocedure))$$),
	($$streamq.combine_state('collect_alone(anycompatible)', ARRAY[i, i], ARRAY[i])$$),
	($$streamq.finalize_state('sum(numeric)', (SELECT state FROM aggregate_state.states WHERE agg = 'sum(numeric)'::regprocedure), NULL::numeric)$$),
	($$streamq.finalize_state('max(text)', i::text, NULL::text)$$),
	($$streamq.finalize_state('collect_first(anycompatible)', ARRAY[i, i], NULL::int)$$),
	($$streamq.resume_state('collect_alone(anycompatible)', ARRAY[i], ARRAY[ROW(i), ROW(2)], true)$$),
	($$streamq.resume_state('sum_small(int)', i, ARRAY[ROW(i), ROW(2)], true)$$),
	-- another aggregate, or other types, each time
	($$streamq.combine_state(CASE WHEN i % 2 = 0 THEN 'sum(integer)' ELSE 'max(bigint)' END::regprocedure, i::bigint, 1::bigint)$$),
	($$streamq.resume_state('woven("any")', 'a'::text, CASE WHEN i % 2 = 0 THEN ARRAY[ROW(i, 2)] ELSE ARRAY[ROW('a'::text)] END, true)$$),
	($$streamq.row_image(ROW(i, i::text, repeat('x', 1000)))$$)) v(expression);
-- nor with those that fail
CREATE FUNCTION fail(times int) RETURNS numeric LANGUAGE plpgsql AS $$
DECLARE
	state bigint[];
	used numeric[];
BEGIN
	FOR i IN 1..times LOOP
		BEGIN
			state := streamq.combine_state('avg(integer)', ARRAY[1, 2, i::bigint], ARRAY[1, 2, i::bigint]);
			RAISE EXCEPTION 'accepted';
		EXCEPTION WHEN internal_error THEN
			IF i % (times / 2) = 0 THEN
				used := used || memory(i);
			END IF;
		END;
	END LOOP;
	RETURN used[2] - used[1];
END $$;
SELECT fail(20000) < 65536 AS flat;
-- nor with the rows of a call
CREATE FUNCTION spend(text, int) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
	RETURN CASE WHEN $2 % 5000 = 0 THEN memory(1)::text ELSE repeat('x', 10000) END;
END $$;
CREATE AGGREGATE spent(int) (SFUNC = spend, STYPE = text);
SELECT streamq.resume_state('spent(int)', NULL::text, rows, false)::bigint
	- streamq.resume_state('spent(int)', NULL::text, rows[1:5000], false)::bigint < 1000000 AS flat
FROM (SELECT array_agg(ROW(i)) AS rows FROM generate_series(1, 20000) i OFFSET 0) t;

--
-- row_image: equal exactly when *= holds
--
CREATE TYPE pair AS (a text, b numeric);
CREATE TABLE rows (n int, t text, num numeric, j json, p point, f float8, a int4[], c pair, b bool, s "char", m money);
ALTER TABLE rows ALTER t SET STORAGE EXTERNAL;
INSERT INTO rows VALUES
	(1, 'a', 1.0, '{"a":1}', '(0,0)', 0, '{1,2}', ('x', 1), true, 'x', 1),
	(1, 'a', 1.00, '{"a":1}', '(0,0)', 0, '{1,2}', ('x', 1), true, 'x', 1),
	(1, 'a', 1.0, '{"a": 1}', '(0,0)', 0, '{1,2}', ('x', 1), true, 'x', 1),
	(1, 'a', 1.0, '{"a":1}', '(0,-0)', 0, '{1,2}', ('x', 1), true, 'x', 1),
	(1, 'a', 1.0, '{"a":1}', '(0,0)', '-0', '{1,2}', ('x', 1), true, 'x', 1),
	(1, 'a', 1.0, '{"a":1}', '(0,0)', 0, '[0:1]={1,2}', ('x', 1), true, 'x', 1),
	(1, 'a', 1.0, '{"a":1}', '(0,0)', 0, '{1,2}', ('x', 1.0), true, 'x', 1),
	(1, 'a', 1.0, '{"a":1}', '(0,0)', 0, '{1,2}', ('x', NULL), true, 'x', 1),
	(1, 'a', 1.0, '{"a":1}', '(0,0)', 0, '{1,2}', NULL, true, 'x', 1),
	(1, 'a', 1.0, '{"a":1}', '(0,0)', 0, '{1,2}', NULL, true, NULL, 1),
	(1, '', NULL, NULL, NULL, NULL, '{}', (NULL, NULL), false, '', 0),
	(-1, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
	(NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
	(1, repeat('a', 10000), 'NaN', NULL, NULL, 'NaN', NULL, (repeat('x', 10000), 1), NULL, NULL, NULL),
	(1, repeat('a', 10000) || 'b', 'NaN', NULL, NULL, 'NaN', NULL, NULL, NULL, NULL, NULL);
ALTER TABLE rows ADD added int DEFAULT 7, DROP b;
INSERT INTO rows SELECT * FROM rows;
ALTER TABLE rows ALTER t SET STORAGE EXTENDED;
INSERT INTO rows SELECT n, t || '', num, j, p, f, a, c, s, m, added FROM rows WHERE num IN (1.0, 'NaN');
SELECT count(*) AS pairs, count(*) FILTER (WHERE x *= y) AS identical,
	count(*) FILTER (WHERE (x *= y) <> (streamq.row_image(x) = streamq.row_image(y))) AS wrong
FROM rows x, rows y;
-- the same of anonymous rows, values calculated
SELECT count(*) AS pairs, count(*) FILTER (WHERE x *= y) AS identical,
	count(*) FILTER (WHERE (x *= y) <> (streamq.row_image(x) = streamq.row_image(y))) AS wrong
FROM (SELECT ROW(n, left(t, 8000), j, p, ROW(num, a)) AS x FROM rows) x,
	(SELECT ROW(n, substr(t, 1, 8000), j, p, ROW(num, a)) AS y FROM rows) y;
SELECT streamq.row_image(ROW()) AS none, streamq.row_image(NULL) IS NULL AS null, streamq.row_image(ROW(NULL, ''::text, 'ab'::text)) AS some;

RESET search_path;
DROP ROLE regress_sq_caller;
ALTER AGGREGATE aggregate_state.sum_twice(int) OWNER TO CURRENT_USER;
DROP OWNED BY regress_sq_maker;
DROP ROLE regress_sq_maker;
