/*
 * delta.c
 *		The pieces of an aggregation that read what a batch brings.
 *
 * Each is the level that aggregates with other output: the same FROM and WHERE,
 * the group keys as columns k<n>, and what is to be kept of the batch.  The
 * transition states are computed by PostgreSQL's own partial aggregation, as a
 * parallel worker would (AGGSPLIT_INITIAL_SERIAL, see statement.c).
 */
#include "compiler/delta.h"

#include "catalog/pg_type.h"
#include "compiler/tree.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/ruleutils.h"

static TargetEntry *
target(Expr *expr, List *targets, char *name)
{
	return makeTargetEntry(expr, list_length(targets) + 1, name, false);
}

/* ---------------------------------------------------------------- finality */

/* left < right, or <= where no other time has the same key */
static const char *
final_operator(const SqAggregation *aggregation)
{
	return aggregation->event.injective ? "<=" : "<";
}

/*
 * The condition, as text, that a group is final as of a parameter's time; key is
 * the name of the column that holds the event-time key.  NULL if either is NULL:
 * not final.
 */
char *
sq_delta_final(const SqCompiled *compiled, const char *key, SqParam param)
{
	const SqAggregation *aggregation = compiled->aggregation;
	int			nest_level = sq_settings_push_catalog_path();
	Expr	   *bound = sq_event_time_bound(&aggregation->event, sq_compiled_param(compiled, param));
	char	   *text;

	/*
	 * made of functions of pg_catalog and constants, so it can be analysed
	 * again
	 */
	text = psprintf("%s OPERATOR(pg_catalog.%s) %s", key, final_operator(aggregation),
					deparse_expression((Node *) bound, NIL, false, false));

	sq_settings_pop(nest_level);
	return text;
}

/* The same as an expression over an expression. */
Expr *
sq_delta_final_expr(const SqCompiled *compiled, Expr *key, SqParam param)
{
	const SqAggregation *aggregation = compiled->aggregation;

	return sq_tree_compare(final_operator(aggregation), copyObject(key),
						   sq_event_time_bound(&aggregation->event,
											   sq_compiled_param(compiled, param)));
}

/* Lets a copy of the level that aggregates read only rows of groups that are final, or only others. */
void
sq_delta_restrict(const SqCompiled *compiled, Query *level, SqParam param, bool final)
{
	BooleanTest *test = makeNode(BooleanTest);

	test->arg = sq_delta_final_expr(compiled, compiled->aggregation->time_key->expr, param);
	test->booltesttype = final ? IS_TRUE : IS_NOT_TRUE;
	test->location = -1;
	sq_tree_add_qual(level, (Node *) test);
}

/* ------------------------------------------------------------------ levels */

/* the level that aggregates, with its keys as output; grouped or row by row */
static Query *
level_with_keys(const SqCompiled *compiled, bool grouped, SqLateness lateness)
{
	Query	   *query = copyObject(compiled->aggregation->level);
	ListCell   *lc;

	query->targetList = NIL;
	query->groupClause = NIL;
	query->havingQual = NULL;
	query->windowClause = NIL;
	query->distinctClause = NIL;
	query->sortClause = NIL;
	query->limitCount = query->limitOffset = NULL;
	query->hasWindowFuncs = false;
	query->hasTargetSRFs = false;
	query->hasAggs = false;
	foreach(lc, compiled->aggregation->keys)
	{
		SqKey	   *key = lfirst(lc);
		TargetEntry *tle = target(copyObject(key->expr), query->targetList,
								  psprintf("k%d", key->number));

		if (grouped && key->clause != NULL)
		{
			SortGroupClause *clause = copyObject(key->clause);

			tle->ressortgroupref = clause->tleSortGroupRef = foreach_current_index(lc) + 1;
			query->groupClause = lappend(query->groupClause, clause);
		}
		query->hasTargetSRFs |= expression_returns_set((Node *) key->expr);
		query->targetList = lappend(query->targetList, tle);
	}
	if (lateness != SQ_LATE_UNKNOWN)
		sq_delta_restrict(compiled, query, SQ_PARAM_WATERMARK, lateness == SQ_LATE_ONLY);
	return query;
}

/* Keys of the batch's rows, row by row. */
Query *
sq_delta_keys(const SqCompiled *compiled, SqLateness lateness)
{
	return level_with_keys(compiled, false, lateness);
}

static void
add_target(Query *query, Expr *expr, char *name)
{
	query->targetList = lappend(query->targetList, target(expr, query->targetList, name));
}

/* count(*), to have something to keep of each group */
static Aggref *
count_rows(void)
{
	Aggref	   *count = makeNode(Aggref);

	count->aggfnoid = F_COUNT_;
	count->aggtype = INT8OID;
	count->aggstar = true;
	count->aggkind = 'n';
	count->aggsplit = AGGSPLIT_INITIAL_SERIAL;
	count->aggno = count->aggtransno = -1;
	count->location = -1;
	return count;
}

/* A call whose result is its transition state. */
Aggref *
sq_delta_partial(const SqCall *call)
{
	Aggref	   *aggref = copyObject(call->aggref);

	aggref->aggtype = call->state_type;
	aggref->aggcollid = call->state_collation;
	aggref->aggsplit = AGGSPLIT_INITIAL_SERIAL;
	return aggref;
}

/*
 * Keys and the transition states s<n> of the batch's rows, by group; the number
 * of rows n if no state is kept.
 */
Query *
sq_delta_states(const SqCompiled *compiled, SqLateness lateness)
{
	Query	   *query = level_with_keys(compiled, true, lateness);
	bool		any = false;
	ListCell   *lc;

	foreach(lc, compiled->aggregation->calls)
	{
		SqCall	   *call = lfirst(lc);

		if (call->kind != SQ_CALL_COMBINE)
			continue;
		add_target(query, (Expr *) sq_delta_partial(call), psprintf("s%d", call->number));
		any = true;
	}
	if (!any)
		add_target(query, (Expr *) count_rows(), "n");
	query->hasAggs = true;
	return query;
}

/* array_agg(ROW(arguments)), with the call's FILTER */
static Aggref *
gather_inputs(const SqCall *call)
{
	Aggref	   *gather = makeNode(Aggref);
	RowExpr    *row = makeNode(RowExpr);
	ListCell   *lc;

	foreach(lc, call->aggref->args)
	{
		row->args = lappend(row->args, copyObject(lfirst_node(TargetEntry, lc)->expr));
		row->colnames = lappend(row->colnames,
								makeString(psprintf("f%d", foreach_current_index(lc) + 1)));
	}
	row->row_typeid = RECORDOID;
	row->row_format = COERCE_EXPLICIT_CALL;
	row->location = -1;

	gather->aggfnoid = F_ARRAY_AGG_ANYNONARRAY;
	gather->aggtype = RECORDARRAYOID;
	gather->aggargtypes = list_make1_oid(RECORDOID);
	gather->args = list_make1(makeTargetEntry((Expr *) row, 1, NULL, false));
	gather->aggfilter = copyObject(call->aggref->aggfilter);
	gather->aggkind = 'n';
	gather->aggsplit = AGGSPLIT_SIMPLE;
	gather->aggno = gather->aggtransno = -1;
	gather->location = -1;
	return gather;
}

/* Keys and, for each SQ_CALL_RESUME, the inputs i<n> of the batch's rows, by group. */
Query *
sq_delta_inputs(const SqCompiled *compiled, SqLateness lateness)
{
	Query	   *query = level_with_keys(compiled, true, lateness);
	ListCell   *lc;

	foreach(lc, compiled->aggregation->calls)
	{
		SqCall	   *call = lfirst(lc);

		if (call->kind == SQ_CALL_RESUME)
			add_target(query, (Expr *) gather_inputs(call), psprintf("i%d", call->number));
	}
	query->hasAggs = true;
	return query;
}

static void
add_inputs(Query *query, const SqCall *call)
{
	ListCell   *lc;

	foreach(lc, call->aggref->args)
	{
		add_target(query, copyObject(lfirst_node(TargetEntry, lc)->expr),
				   psprintf("a%d_%d", call->number, foreach_current_index(lc) + 1));
	}
}

/* Keys and the inputs a<n>_<i> of one SQ_CALL_DISTINCT, row by row. */
Query *
sq_delta_distinct(const SqCompiled *compiled, const SqCall *call, SqLateness lateness)
{
	Query	   *query = level_with_keys(compiled, false, lateness);

	add_inputs(query, call);
	if (call->aggref->aggfilter != NULL)
		sq_tree_add_qual(query, copyObject((Node *) call->aggref->aggfilter));
	return query;
}

/* Keys, inputs a<n>_<i> and filter f<n> of each SQ_CALL_ROWS, row by row. */
Query *
sq_delta_rows(const SqCompiled *compiled, SqLateness lateness)
{
	Query	   *query = level_with_keys(compiled, false, lateness);
	ListCell   *lc;

	foreach(lc, compiled->aggregation->calls)
	{
		SqCall	   *call = lfirst(lc);

		if (call->kind != SQ_CALL_ROWS)
			continue;
		add_inputs(query, call);
		if (call->aggref->aggfilter != NULL)
			add_target(query, copyObject(call->aggref->aggfilter), psprintf("f%d", call->number));
	}
	return query;
}
