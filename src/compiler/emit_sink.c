/*
 * emit_sink.c
 *		The statements that write a query's result into its sink.
 *
 * append: INSERT.  update: the sink's rows are found by their group key, through
 * a unique index on it; a row that would not change is left alone, and one whose
 * group no longer passes HAVING is removed.  complete (and an update of one group
 * of all rows): the sink is compared with the whole result, row by row as equal
 * images, and only what differs is deleted and inserted; so readers never see it
 * empty, and rows of types without equality are compared as well.
 */
#include "compiler/emit.h"

#include "catalog/pg_type.h"
#include "compiler/groups.h"
#include "compiler/tree.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "sink/sink.h"
#include "storage/lmgr.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"

/* ----------------------------------------------------------- lists of columns */

/* The result's columns, each after a prefix. */
char *
sq_emit_columns(const SqCompiled *compiled, const char *prefix)
{
	StringInfoData list;
	ListCell   *lc;

	initStringInfo(&list);
	foreach(lc, compiled->select->targetList)
	{
		TargetEntry *tle = lfirst_node(TargetEntry, lc);

		if (!tle->resjunk)
			appendStringInfo(&list, "%s%s%s", list.len > 0 ? ", " : "", prefix,
							 quote_identifier(tle->resname));
	}
	return list.data;
}

/* Names of the result's columns that are group keys, one for each key. */
List *
sq_emit_key_columns(const SqCompiled *compiled)
{
	List	   *names = NIL;
	ListCell   *lc;
	ListCell   *lc2;

	foreach(lc, compiled->aggregation->keys)
	{
		SqKey	   *key = lfirst(lc);

		if (key->clause == NULL)
			continue;
		foreach(lc2, compiled->select->targetList)
		{
			TargetEntry *tle = lfirst_node(TargetEntry, lc2);

			if (tle->resjunk || !equal(tle->expr, key->expr))
				continue;
			names = lappend(names, tle->resname);
			break;
		}
	}
	return names;
}

static bool
is_named(List *names, const char *name)
{
	ListCell   *lc;

	foreach(lc, names)
	{
		if (strcmp(lfirst(lc), name) == 0)
			return true;
	}
	return false;
}

static char *
sink_name(const SqCompiled *compiled)
{
	return sq_tree_relation(compiled->query->sink);
}

/* true if an explicit cast to a type, or an array of it, makes strings shorter */
static bool
cuts_off(Oid type)
{
	Oid			element = get_element_type(type);

	if (OidIsValid(element))
		type = getBaseType(element);
	return type == VARCHAROID || type == BPCHAROID || type == BITOID || type == VARBITOID;
}

/* the result's columns as what the sink makes of them */
static char *
as_in_sink(const SqCompiled *compiled, const char *prefix, bool named)
{
	StringInfoData list;
	ListCell   *lc;

	initStringInfo(&list);
	foreach(lc, compiled->select->targetList)
	{
		TargetEntry *tle = lfirst_node(TargetEntry, lc);
		Oid			type;
		int32		typmod;
		Oid			collation;

		if (tle->resjunk)
			continue;
		get_atttypetypmodcoll(compiled->query->sink,
							  get_attnum(compiled->query->sink, tle->resname),
							  &type, &typmod, &collation);
		/* too long a string is an error when it is inserted, not cut off here */
		if (cuts_off(getBaseType(type)))
		{
			type = getBaseType(type);
			typmod = -1;
		}
		appendStringInfo(&list, "%sCAST(%s%s AS %s)", list.len > 0 ? ", " : "", prefix,
						 quote_identifier(tle->resname), sq_tree_type(type, typmod, InvalidOid));
		if (named)
			appendStringInfo(&list, " AS %s", quote_identifier(tle->resname));
	}
	return list.data;
}

/* The result's columns, each after a prefix, as what the sink makes of them. */
char *
sq_emit_as_in_sink(const SqCompiled *compiled, const char *prefix)
{
	return as_in_sink(compiled, prefix, true);
}

/*
 * Errors if the sink has been altered since the query was created, so that the
 * statements below could not be made.  True if its unique indexes on the group key
 * take each NULL for another value.
 */
bool
sq_emit_check_sink(const SqCompiled *compiled, List *key_names)
{
	LockRelationOid(compiled->query->sink, AccessShareLock);
	sq_sink_check_columns(compiled->query->sink, compiled->query->definition);
	return key_names != NIL &&
		sq_sink_check_key(compiled->query->sink, compiled->query->definition, key_names);
}

/* -------------------------------------------------------------------- append */

/* The statement that inserts a result, whose columns are the query's. */
SqStatement *
sq_emit_insert(const SqCompiled *compiled, Query *result)
{
	SqStatement *statement;

	statement = sq_emit_statement(compiled,
								  psprintf("INSERT INTO %s (%s) SELECT %s FROM %s q",
										   sink_name(compiled), sq_emit_columns(compiled, ""),
										   sq_emit_columns(compiled, "q."),
										   sq_tree_placeholder(compiled->select->targetList)));
	sq_tree_find(statement->query, "q")->subquery = result;
	return statement;
}

/* -------------------------------------------------------------------- update */

/* a row of the sink t and one of the result have the same group key, as the sink's types compare */
static char *
same_keys(const SqCompiled *compiled, List *names, const char *row)
{
	StringInfoData text;
	ListCell   *lc;

	initStringInfo(&text);
	foreach(lc, names)
	{
		const char *name = quote_identifier(lfirst(lc));
		AttrNumber	attnum = get_attnum(compiled->query->sink, lfirst(lc));
		Oid			type;
		int32		typmod;
		Oid			collation;
		char	   *left = psprintf("t.%s", name);
		char	   *right;

		get_atttypetypmodcoll(compiled->query->sink, attnum, &type, &typmod, &collation);
		right = psprintf("CAST(%s.%s AS %s)", row, name, sq_tree_type(type, -1, InvalidOid));
		appendStringInfo(&text, "%s(%s OR %s)", text.len > 0 ? " AND " : "",
						 sq_tree_equal(type, left, right),
						 sq_tree_both_null(left, psprintf("%s.%s", row, name)));
	}
	return text.data;
}

/* one of the group keys is NULL */
static char *
any_null(List *names, const char *row)
{
	StringInfoData text;
	ListCell   *lc;

	initStringInfo(&text);
	foreach(lc, names)
	{
		appendStringInfo(&text, "%s%s", text.len > 0 ? " OR " : "",
						 sq_tree_is_null(psprintf("%s.%s", row, quote_identifier(lfirst(lc)))));
	}
	return text.data;
}

/* a row of the sink t has other values than one of the result */
static char *
differs(const SqCompiled *compiled, const char *row)
{
	return psprintf("pg_catalog.record_image_ne(ROW(%s), ROW(%s))",
					sq_emit_columns(compiled, "t."),
					as_in_sink(compiled, psprintf("%s.", row), false));
}

/* SET c = excluded.c of all but the keys, where that changes something */
static char *
update_action(const SqCompiled *compiled, List *key_names)
{
	StringInfoData set;
	ListCell   *lc;

	initStringInfo(&set);
	foreach(lc, compiled->select->targetList)
	{
		TargetEntry *tle = lfirst_node(TargetEntry, lc);
		const char *name;

		if (tle->resjunk || is_named(key_names, tle->resname))
			continue;
		name = quote_identifier(tle->resname);
		appendStringInfo(&set, "%s%s = excluded.%s", set.len > 0 ? ", " : "", name, name);
	}
	if (set.len == 0)
		return "NOTHING";
	return psprintf("UPDATE SET %s WHERE pg_catalog.record_image_ne(ROW(%s), ROW(%s))", set.data,
					sq_emit_columns(compiled, "t."), sq_emit_columns(compiled, "excluded."));
}

static char *
name_list(List *names)
{
	StringInfoData list;
	ListCell   *lc;

	initStringInfo(&list);
	foreach(lc, names)
	{
		appendStringInfo(&list, "%s%s", list.len > 0 ? ", " : "", quote_identifier(lfirst(lc)));
	}
	return list.data;
}

/*
 * The statement of update mode: combines the batch's states with the state, and
 * upserts the rows of the groups touched; empty: the state is.  Returns the number of groups added and
 * of rows written.
 */
SqStatement *
sq_emit_upsert(const SqCompiled *compiled, SqLateness lateness, bool empty)
{
	Query	   *states = sq_delta_states(compiled, lateness);
	List	   *key_names = sq_emit_key_columns(compiled);
	char	   *sink = sink_name(compiled);
	char	   *none = sq_tree_placeholder(compiled->select->targetList);
	bool		having = compiled->aggregation->level->havingQual != NULL;
	bool		nulls_differ;
	StringInfoData text;
	SqStatement *statement;
	RangeTblEntry *entries[4];

	nulls_differ = sq_emit_check_sink(compiled, key_names);
	initStringInfo(&text);
	appendStringInfo(&text, "%s RETURNING %s, s.xmax = 0 AS added)",
					 sq_emit_merge_text(compiled, states, empty),
					 sq_groups_state_columns(compiled->aggregation, "s."));
	if (having)
		appendStringInfo(&text, ", removed AS (DELETE FROM %s t USING %s u WHERE %s RETURNING 1)",
						 sink, none, same_keys(compiled, key_names, "u"));
	/* an index in which NULLs differ does not find them */
	if (nulls_differ)
		appendStringInfo(&text, ", cleared AS (DELETE FROM %s t USING %s w WHERE (%s) AND %s AND %s RETURNING 1)",
						 sink, none, any_null(key_names, "w"), same_keys(compiled, key_names, "w"),
						 differs(compiled, "w"));
	appendStringInfo(&text, ", written AS (INSERT INTO %s AS t (%s) SELECT %s FROM %s r",
					 sink, sq_emit_columns(compiled, ""), sq_emit_columns(compiled, "r."), none);
	if (nulls_differ)
		appendStringInfo(&text, " WHERE NOT ((%s) AND EXISTS (SELECT FROM %s t WHERE %s AND NOT %s))",
						 any_null(key_names, "r"), sink, same_keys(compiled, key_names, "r"),
						 differs(compiled, "r"));
	appendStringInfo(&text, " ON CONFLICT (%s) DO %s RETURNING 1)",
					 name_list(key_names), update_action(compiled, key_names));
	appendStringInfo(&text, " SELECT (SELECT pg_catalog.count(*) FROM kept a WHERE a.added),"
					 " (SELECT pg_catalog.count(*) FROM written)%s",
					 having ? " OPERATOR(pg_catalog.+) (SELECT pg_catalog.count(*) FROM removed)" : "");

	statement = sq_emit_statement(compiled, text.data);

	/*
	 * all found before any is replaced: pieces of the query may have such
	 * aliases
	 */
	entries[0] = sq_tree_find(statement->query, "d");
	entries[1] = sq_tree_find(statement->query, "r");
	entries[2] = having ? sq_tree_find(statement->query, "u") : NULL;
	entries[3] = nulls_differ ? sq_tree_find(statement->query, "w") : NULL;
	entries[0]->subquery = states;
	entries[1]->subquery = sq_groups_touched(compiled, true, true);
	if (having)
		entries[2]->subquery = sq_groups_touched(compiled, false, false);
	if (nulls_differ)
		entries[3]->subquery = sq_groups_touched(compiled, true, false);
	return statement;
}

/* ------------------------------------------------------------------ complete */

/* round numbers, times this, do not lie where rounding goes one way or the other */
#define OFF_BOUNDARIES "'0.99999999999877'::pg_catalog.float8"

/*
 * A row as something to be compared by.  The blanks that char(n) adds are left out;
 * rounded: floats in fewer digits, as they differ a little when they are added up in
 * another order.
 */
char *
sq_emit_image(const SqCompiled *compiled, const char *prefix, bool rounded)
{
	StringInfoData list;
	ListCell   *lc;

	initStringInfo(&list);
	foreach(lc, compiled->select->targetList)
	{
		TargetEntry *tle = lfirst_node(TargetEntry, lc);
		const char *column;
		Oid			type;

		if (tle->resjunk)
			continue;
		column = psprintf("%s%s", prefix, quote_identifier(tle->resname));
		type = get_atttype(compiled->query->sink, get_attnum(compiled->query->sink, tle->resname));
		appendStringInfoString(&list, list.len > 0 ? ", " : "");
		if (type == BPCHAROID)
			appendStringInfo(&list, "CAST(%s AS pg_catalog.text)", column);
		else if (rounded && (type == FLOAT8OID || type == FLOAT4OID))
			appendStringInfo(&list, "CASE WHEN %s OPERATOR(pg_catalog.=) ANY ('{NaN,Infinity,-Infinity}')"
							 " THEN CAST(%s AS pg_catalog.text)"
							 " ELSE pg_catalog.to_char(CAST(%s AS pg_catalog.float8)"
							 " OPERATOR(pg_catalog.*) " OFF_BOUNDARIES ", '%sEEEE') END",
							 column, column, column, type == FLOAT8OID ? "9.999999999" : "9.9999");
		else
			appendStringInfoString(&list, column);
	}
	return psprintf("streamq.row_image(ROW(%s))", list.data);
}

/*
 * The statement that makes the sink hold the result over all groups.  Equal rows
 * are numbered, so that each has one partner.  What is gone is deleted before
 * anything is inserted, lest a unique constraint of the sink see both.  Returns
 * 0 and the number of rows deleted and inserted.
 */
SqStatement *
sq_emit_replace(const SqCompiled *compiled)
{
	char	   *sink = sink_name(compiled);
	StringInfoData text;
	SqStatement *statement;

	(void) sq_emit_check_sink(compiled, NIL);
	initStringInfo(&text);
	appendStringInfo(&text, "WITH result AS (SELECT x.*, %s AS \"streamq image\""
					 " FROM (SELECT %s FROM %s r) x)",
					 sq_emit_image(compiled, "x.", false), sq_emit_as_in_sink(compiled, "r."),
					 sq_tree_placeholder(compiled->select->targetList));
	appendStringInfoString(&text, ", wanted AS (SELECT y.*, pg_catalog.row_number() OVER"
						   " (PARTITION BY y.\"streamq image\") AS \"streamq copy\" FROM result y)");
	appendStringInfo(&text, ", held AS (SELECT z.part, z.place, z.image, pg_catalog.row_number() OVER"
					 " (PARTITION BY z.image) AS copy FROM (SELECT t.tableoid AS part, t.ctid AS place,"
					 " %s AS image FROM %s t) z)",
					 sq_emit_image(compiled, "t.", false), sink);
	appendStringInfoString(&text, ", differences AS MATERIALIZED (SELECT b.*, h.part AS \"streamq part\","
						   " h.place AS \"streamq place\" FROM wanted b FULL JOIN held h"
						   " ON h.image OPERATOR(pg_catalog.=) b.\"streamq image\""
						   " AND h.copy OPERATOR(pg_catalog.=) b.\"streamq copy\""
						   " WHERE h.copy IS NULL OR b.\"streamq copy\" IS NULL)");
	appendStringInfo(&text, ", gone AS (DELETE FROM %s t USING differences e"
					 " WHERE t.ctid OPERATOR(pg_catalog.=) e.\"streamq place\""
					 " AND t.tableoid OPERATOR(pg_catalog.=) e.\"streamq part\" RETURNING 1)", sink);
	appendStringInfo(&text, ", written AS (INSERT INTO %s (%s) SELECT %s FROM differences e"
					 " WHERE e.\"streamq place\" IS NULL"
					 " AND (SELECT pg_catalog.count(*) FROM gone) OPERATOR(pg_catalog.>=) 0 RETURNING 1)",
					 sink, sq_emit_columns(compiled, ""), sq_emit_columns(compiled, "e."));
	appendStringInfoString(&text, " SELECT 0::pg_catalog.int8, (SELECT pg_catalog.count(*) FROM gone)"
						   " OPERATOR(pg_catalog.+) (SELECT pg_catalog.count(*) FROM written)");
	statement = sq_emit_statement(compiled, text.data);
	sq_tree_find(statement->query, "r")->subquery = sq_groups_result(compiled, NULL);
	return statement;
}
