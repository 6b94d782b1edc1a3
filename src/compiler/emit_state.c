/*
 * emit_state.c
 *		The statements that keep a query's state.
 *
 * A batch first keeps the inputs of aggregates that need them, then combines the
 * partial states of its rows with those of their groups.  That comes last and
 * touches each group of the batch, so that it can hand on the whole rows.  Each
 * of these statements returns one row, the number of groups that it has added.
 *
 * Only the query's runner writes the state (invariant EO-3), so ON CONFLICT never
 * waits for anybody; it serves because it finds NULL keys too.
 */
#include "compiler/emit.h"

#include "compiler/groups.h"
#include "compiler/tree.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "state/state.h"

/* ----------------------------------------------------------- lists of columns */

/* k<n> of all keys, each after a prefix; k0 if there are none */
static char *
keys(const SqAggregation *aggregation, const char *prefix, bool only_unique)
{
	StringInfoData list;
	ListCell   *lc;

	initStringInfo(&list);
	foreach(lc, aggregation->keys)
	{
		SqKey	   *key = lfirst(lc);

		if (only_unique && key->clause == NULL)
			continue;
		appendStringInfo(&list, "%s%sk%d", list.len > 0 ? ", " : "", prefix, key->number);
	}
	if (!sq_aggregation_is_grouped(aggregation))
		appendStringInfoString(&list, "k0");
	return list.data;
}

/* the same as values of rows d; the only group of all rows has the key 0 */
static char *
key_values(const SqAggregation *aggregation)
{
	return sq_aggregation_is_grouped(aggregation) ? keys(aggregation, "d.", false) :
		"0::pg_catalog.int2";
}

static char *
table_name(const SqCompiled *compiled, SqStateTable table, int call)
{
	return sq_tree_relation(sq_state_relation(compiled->query, table, call));
}

/* the state of a call over no rows at all */
static char *
initial_state(const SqCall *call)
{
	char	   *none = sq_tree_null(call->state_type, -1, call->state_collation);

	if (call->state_is_internal)
		return none;
	return psprintf("streamq.resume_state(%s, %s, CAST(NULL AS pg_catalog.record[]), false)",
					sq_tree_aggregate(call->aggref->aggfnoid), none);
}

/* names and initial states of the calls whose states others statements compute */
static void
add_initial_states(const SqCompiled *compiled, const SqCall *except, SqCallKind kind,
				   StringInfo names, StringInfo values)
{
	ListCell   *lc;
	bool		any = false;

	foreach(lc, compiled->aggregation->calls)
	{
		SqCall	   *call = lfirst(lc);

		any |= call->kind == SQ_CALL_COMBINE;
		if (!OidIsValid(call->state_type) || call == except || call->kind == kind)
			continue;
		appendStringInfo(names, ", s%d", call->number);
		appendStringInfo(values, ", %s", initial_state(call));
	}
	if (!any && kind != SQ_CALL_COMBINE)
	{
		appendStringInfoString(names, ", n");
		appendStringInfoString(values, ", 0");
	}
}

/* ------------------------------------------------------------ kept inputs */

/* inputs of aggregates that are computed anew from them */
static SqStatement *
keep_rows(const SqCompiled *compiled, SqLateness lateness)
{
	const SqAggregation *aggregation = compiled->aggregation;
	Query	   *rows = sq_delta_rows(compiled, lateness);
	StringInfoData names;
	StringInfoData values;
	SqStatement *statement;
	ListCell   *lc;

	initStringInfo(&names);
	initStringInfo(&values);
	foreach(lc, rows->targetList)
	{
		char	   *name = lfirst_node(TargetEntry, lc)->resname;

		appendStringInfo(&names, ", %s", name);
		appendStringInfo(&values, ", d.%s", name);
	}
	statement = sq_emit_statement(compiled,
								  psprintf("INSERT INTO %s (h%s) SELECT %s%s FROM %s d",
										   table_name(compiled, SQ_STATE_ROWS, 0), names.data,
										   sq_groups_hash(aggregation, "d"), values.data,
										   sq_tree_placeholder(rows->targetList)));
	sq_tree_find(statement->query, "d")->subquery = rows;
	return statement;
}

/* the partial state over a set's new members, in the place of a NULL */
static void
patch_partial(const SqCall *call, Query *query)
{
	Query	   *part = sq_tree_find(query, "d")->subquery;
	RangeTblEntry *added = linitial_node(RangeTblEntry, part->rtable);
	TargetEntry *state = llast_node(TargetEntry, part->targetList);
	Aggref	   *partial = sq_delta_partial(call);
	int			first = list_length(added->eref->colnames) - list_length(partial->args);
	ListCell   *lc;

	foreach(lc, partial->args)
	{
		TargetEntry *tle = lfirst_node(TargetEntry, lc);
		Node	   *expr = (Node *) tle->expr;

		tle->ressortgroupref = 0;
		tle->expr = (Expr *) makeVar(1, first + foreach_current_index(lc) + 1, exprType(expr),
									 exprTypmod(expr), exprCollation(expr), 0);
	}
	partial->aggdistinct = partial->aggorder = NIL;
	partial->aggfilter = NULL;
	state->expr = (Expr *) partial;
	part->hasAggs = true;
}

/* a<n>_<i> of a call, each after a prefix */
static char *
inputs(const SqCall *call, const char *prefix)
{
	StringInfoData list;

	initStringInfo(&list);
	for (int i = 1; i <= list_length(call->aggref->args); i++)
		appendStringInfo(&list, ", %sa%d_%d", prefix, call->number, i);
	return list.data;
}

/* the end of a statement that keeps states: how many groups it has added */
static void
append_count(StringInfo text)
{
	appendStringInfoString(text, " RETURNING s.xmax = 0 AS added)"
						   " SELECT pg_catalog.count(*) FILTER (WHERE k.added) FROM kept k");
}

/* the inputs of one agg(DISTINCT ...) that were not there before */
static SqStatement *
keep_distinct(const SqCompiled *compiled, const SqCall *call, SqLateness lateness)
{
	const SqAggregation *aggregation = compiled->aggregation;
	bool		grouped = sq_aggregation_is_grouped(aggregation);
	Query	   *rows = sq_delta_distinct(compiled, call, lateness);
	char	   *all_keys = keys(aggregation, "", false);
	char	   *added_keys = keys(aggregation, "n.", false);
	StringInfoData names;
	StringInfoData values;
	StringInfoData text;
	SqStatement *statement;

	initStringInfo(&names);
	initStringInfo(&values);
	initStringInfo(&text);
	add_initial_states(compiled, call, -1, &names, &values);
	/* what is new in the set */
	appendStringInfo(&text, "WITH added AS (INSERT INTO %s (%s%s) SELECT %s%s FROM %s x"
					 " ON CONFLICT DO NOTHING RETURNING %s%s)",
					 table_name(compiled, SQ_STATE_SET, call->number),
					 all_keys, inputs(call, ""),
					 grouped ? keys(aggregation, "x.", false) : "0::pg_catalog.int2",
					 inputs(call, "x."), sq_tree_placeholder(rows->targetList),
					 all_keys, inputs(call, ""));
	/* its partial states */
	appendStringInfo(&text, ", kept AS (INSERT INTO %s AS s (%s%s, s%d) SELECT %s%s, d.s%d FROM"
					 " (SELECT %s%s%s AS s%d FROM added n%s%s) d",
					 table_name(compiled, SQ_STATE_GROUPS, 0), all_keys, names.data, call->number,
					 key_values(aggregation), values.data, call->number,
					 grouped ? added_keys : "", grouped ? ", " : "",
					 sq_tree_null(call->state_type, -1, call->state_collation), call->number,
					 grouped ? " GROUP BY " : "", grouped ? added_keys : "");
	appendStringInfo(&text, " ON CONFLICT (%s) DO UPDATE SET s%d = streamq.combine_state(%s, s.s%d, excluded.s%d)",
					 keys(aggregation, "", true), call->number,
					 sq_tree_aggregate(call->aggref->aggfnoid), call->number, call->number);
	append_count(&text);
	statement = sq_emit_statement(compiled, text.data);
	patch_partial(call, statement->query);
	sq_tree_find(statement->query, "x")->subquery = rows;
	return statement;
}

/* typed states that go on with the transition function */
static SqStatement *
keep_resumed(const SqCompiled *compiled, SqLateness lateness)
{
	const SqAggregation *aggregation = compiled->aggregation;
	Query	   *rows = sq_delta_inputs(compiled, lateness);
	StringInfoData names;
	StringInfoData values;
	StringInfoData updates;
	StringInfoData text;
	SqStatement *statement;
	ListCell   *lc;

	initStringInfo(&names);
	initStringInfo(&values);
	initStringInfo(&updates);
	initStringInfo(&text);
	add_initial_states(compiled, NULL, SQ_CALL_RESUME, &names, &values);
	foreach(lc, aggregation->calls)
	{
		SqCall	   *call = lfirst(lc);

		if (call->kind != SQ_CALL_RESUME)
			continue;
		appendStringInfo(&names, ", s%d", call->number);
		appendStringInfo(&values, ", streamq.resume_state(%s, t.s%d, d.i%d, t.ctid IS NOT NULL)",
						 sq_tree_aggregate(call->aggref->aggfnoid), call->number, call->number);
		appendStringInfo(&updates, "%ss%d = excluded.s%d", updates.len > 0 ? ", " : "",
						 call->number, call->number);
	}
	appendStringInfo(&text, "WITH kept AS (INSERT INTO %s AS s (%s%s) SELECT %s%s FROM %s d"
					 " LEFT JOIN %s t ON %s ON CONFLICT (%s) DO UPDATE SET %s",
					 table_name(compiled, SQ_STATE_GROUPS, 0), keys(aggregation, "", false),
					 names.data, key_values(aggregation), values.data,
					 sq_tree_placeholder(rows->targetList),
					 table_name(compiled, SQ_STATE_GROUPS, 0),
					 sq_groups_same(aggregation, "t", "d"), keys(aggregation, "", true),
					 updates.data);
	append_count(&text);
	statement = sq_emit_statement(compiled, text.data);
	sq_tree_find(statement->query, "d")->subquery = rows;
	return statement;
}

/* The statements that keep inputs, and states that are not simply combined. */
List *
sq_emit_inputs(const SqCompiled *compiled, SqLateness lateness)
{
	const SqAggregation *aggregation = compiled->aggregation;
	List	   *statements = NIL;
	ListCell   *lc;

	if (sq_aggregation_has(aggregation, SQ_CALL_ROWS))
		statements = lappend(statements, keep_rows(compiled, lateness));
	foreach(lc, aggregation->calls)
	{
		SqCall	   *call = lfirst(lc);

		if (call->kind == SQ_CALL_DISTINCT)
			statements = lappend(statements, keep_distinct(compiled, call, lateness));
	}
	if (sq_aggregation_has(aggregation, SQ_CALL_RESUME))
		statements = lappend(statements, keep_resumed(compiled, lateness));
	return statements;
}

/* --------------------------------------------------------- combined states */

/*
 * Two WITH queries as text: the batch's partial states, which are to replace the
 * subquery d, and an INSERT of them into the state, combining with what is there,
 * without its RETURNING clause and closing bracket.  empty: there is nothing yet to
 * combine with, which makes the INSERT a good deal cheaper.
 *
 * The groups are put into the order of their keys, in which neighbours are found
 * on the same pages, but only once they have been made: the planner, who cannot
 * know how few they are, would sort all rows instead.
 */
char *
sq_emit_merge_text(const SqCompiled *compiled, Query *states, bool empty)
{
	const SqAggregation *aggregation = compiled->aggregation;
	StringInfoData names;
	StringInfoData values;
	StringInfoData updates;
	ListCell   *lc;
	bool		any = false;

	initStringInfo(&names);
	initStringInfo(&values);
	initStringInfo(&updates);
	foreach(lc, aggregation->calls)
	{
		SqCall	   *call = lfirst(lc);

		if (call->kind != SQ_CALL_COMBINE)
			continue;
		appendStringInfo(&names, ", s%d", call->number);
		appendStringInfo(&values, ", d.s%d", call->number);
		appendStringInfo(&updates, "%ss%d = streamq.combine_state(%s, s.s%d, excluded.s%d)",
						 any ? ", " : "", call->number, sq_tree_aggregate(call->aggref->aggfnoid),
						 call->number, call->number);
		any = true;
	}
	if (!any)
	{
		appendStringInfoString(&names, ", n");
		appendStringInfoString(&values, ", d.n");
		appendStringInfoString(&updates, "n = s.n OPERATOR(pg_catalog.+) excluded.n");
	}
	add_initial_states(compiled, NULL, SQ_CALL_COMBINE, &names, &values);
	return psprintf("WITH delta AS MATERIALIZED (SELECT d.* FROM %s d), kept AS"
					" (INSERT INTO %s AS s (%s%s) SELECT %s%s FROM delta d%s%s%s",
					sq_tree_placeholder(states->targetList),
					table_name(compiled, SQ_STATE_GROUPS, 0),
					keys(aggregation, "", false), names.data,
					key_values(aggregation), values.data,
					sq_aggregation_is_grouped(aggregation) ? " ORDER BY " : "",
					sq_aggregation_is_grouped(aggregation) ? keys(aggregation, "d.", true) : "",
					empty ? "" : psprintf(" ON CONFLICT (%s) DO UPDATE SET %s",
										  keys(aggregation, "", true), updates.data));
}

/* The statement that combines the batch's partial states with the state. */
SqStatement *
sq_emit_merge(const SqCompiled *compiled, SqLateness lateness, bool empty)
{
	Query	   *states = sq_delta_states(compiled, lateness);
	StringInfoData text;
	SqStatement *statement;

	initStringInfo(&text);
	appendStringInfoString(&text, sq_emit_merge_text(compiled, states, empty));
	append_count(&text);
	statement = sq_emit_statement(compiled, text.data);
	sq_tree_find(statement->query, "d")->subquery = states;
	return statement;
}

/* ---------------------------------------------------------------- eviction */

/*
 * SELECT 1 if a group that is held is final under the watermark, else 0.  The first
 * group is found by the index, however many are final.
 */
SqStatement *
sq_emit_due(const SqCompiled *compiled)
{
	char	   *first = psprintf("(SELECT pg_catalog.min(s.k%d) FROM %s s)",
								 compiled->aggregation->time_key->number,
								 table_name(compiled, SQ_STATE_GROUPS, 0));

	return sq_emit_statement(compiled,
							 psprintf("SELECT COALESCE(%s, false)::pg_catalog.int4::pg_catalog.int8",
									  sq_delta_final(compiled, first, SQ_PARAM_WATERMARK)));
}

static SqStatement *
evict_from(const SqCompiled *compiled, SqStateTable table, int call)
{
	char	   *key = psprintf("s.k%d", compiled->aggregation->time_key->number);

	return sq_emit_statement(compiled,
							 psprintf("DELETE FROM %s s WHERE %s", table_name(compiled, table, call),
									  sq_delta_final(compiled, key, SQ_PARAM_WATERMARK)));
}

/* The statements that forget groups that are final; the first one counts them. */
List *
sq_emit_evict(const SqCompiled *compiled)
{
	const SqAggregation *aggregation = compiled->aggregation;
	List	   *statements = list_make1(evict_from(compiled, SQ_STATE_GROUPS, 0));
	ListCell   *lc;

	if (sq_aggregation_has(aggregation, SQ_CALL_ROWS))
		statements = lappend(statements, evict_from(compiled, SQ_STATE_ROWS, 0));
	foreach(lc, aggregation->calls)
	{
		SqCall	   *call = lfirst(lc);

		if (call->kind == SQ_CALL_DISTINCT)
			statements = lappend(statements, evict_from(compiled, SQ_STATE_SET, call->number));
	}
	return statements;
}
