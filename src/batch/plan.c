/*
 * plan.c
 *		Planning the statements of a batch, and keeping their plans.
 *
 * A plan that is kept is used again as long as it is valid (validity.c) and fits
 * the batch: it is made anew when the rows to be read, or the size of a table in it,
 * are of another order of magnitude.  The second is because the state of a query
 * grows from nothing, long before autovacuum looks at it.
 *
 * Such a plan holds for all values of the parameters; they are known to the planner
 * for its estimates only, and never become part of the plan.
 *
 * Before a kept plan is executed the relations in it are locked, and then it is
 * looked at whether it is still valid, as GetCachedPlan() does.
 */
#include "batch/plan.h"

#include "access/table.h"
#include "aggregate/partial.h"
#include "compat.h"
#include "debug_point.h"
#include "rewrite/rewriteHandler.h"
#include "source/readplan.h"
#include "storage/bufmgr.h"
#include "storage/lmgr.h"
#include "tcop/tcopprot.h"
#include "utils/memutils.h"
#include "utils/rel.h"

/* so many times larger or smaller is another size; what is below SMALL counts as that */
#define OTHER_ROWS 10
#define OTHER_PAGES 4
#define SMALL 10

/* rewrites and plans; returns a list of PlannedStmt */
static List *
make_plans(const SqStatement *statement, ParamListInfo params)
{
	Query	   *query = copyObject(statement->query);
	List	   *plans = NIL;
	ListCell   *lc;

	sq_debug_count(SQ_COUNT_PLANNED);
	AcquireRewriteLocks(query, true, false);
	foreach(lc, QueryRewrite(query))
	{
		Query	   *rewritten = lfirst_node(Query, lc);
		PlannedStmt *plan;

		if (rewritten->commandType == CMD_UTILITY)
			ereport(ERROR,
					(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
					 errmsg("a rule on the sink executes a utility command"),
					 errhint("Use a trigger instead.")));
		plan = pg_plan_query(rewritten, statement->source_text, CURSOR_OPT_PARALLEL_OK, params);
		sq_partial_prepare(plan);
		plans = lappend(plans, plan);
	}
	return plans;
}

/* -------------------------------------------------------------------- sizes */

static SqPlannedSize
size_now(Oid relid, ParamListInfo params)
{
	const SqReadPlan *batch = sq_readplan_of_params(params);
	const SqRelationRead *read = batch ? sq_readplan_find(batch, relid) : NULL;
	Relation	rel = table_open(relid, NoLock);
	SqPlannedSize size;

	size.relid = relid;
	size.pages = RelationGetNumberOfBlocks(rel);
	size.rows_read = read ? read->rows : 0;
	table_close(rel, NoLock);
	return size;
}

/* the tables in plans, once each */
static List *
tables_in(const List *plans)
{
	List	   *tables = NIL;
	ListCell   *lc;
	ListCell   *lc2;

	foreach(lc, plans)
	{
		foreach(lc2, lfirst_node(PlannedStmt, lc)->rtable)
		{
			RangeTblEntry *rte = lfirst_node(RangeTblEntry, lc2);

			if (rte->rtekind == RTE_RELATION && RELKIND_HAS_TABLE_AM(rte->relkind))
				tables = list_append_unique_oid(tables, rte->relid);
		}
	}
	return tables;
}

static bool
is_other_size(int64 planned, int64 now, int times)
{
	planned = Max(planned, SMALL);
	now = Max(now, SMALL);
	return now / times >= planned || planned / times >= now;
}

static bool
fits(const SqKeptPlan *kept, ParamListInfo params)
{
	int64		rows_planned = 0;
	int64		rows_now = 0;

	for (int i = 0; i < kept->nsizes; i++)
	{
		const SqPlannedSize *planned = &kept->sizes[i];
		SqPlannedSize now = size_now(planned->relid, params);

		if (is_other_size(planned->pages, now.pages, OTHER_PAGES) ||
			is_other_size(planned->rows_read, now.rows_read, OTHER_ROWS))
			return false;
		rows_planned += planned->rows_read;
		rows_now += now.rows_read;
	}
	/* of many partitions each may have few rows */
	return !is_other_size(rows_planned, rows_now, OTHER_ROWS);
}

/* --------------------------------------------------------------------- keeping */

/* the locks that the executor relies on */
static void
lock_relations(const List *plans)
{
	ListCell   *lc;
	ListCell   *lc2;

	foreach(lc, plans)
	{
		foreach(lc2, lfirst_node(PlannedStmt, lc)->rtable)
		{
			RangeTblEntry *rte = lfirst_node(RangeTblEntry, lc2);

			if (sq_plan_locks_entry(rte))
				LockRelationOid(rte->relid, rte->rellockmode);
		}
	}
}

/* true if the plans can be executed, for which they are locked */
static bool
is_usable(const SqKeptPlan *kept, ParamListInfo params)
{
	if (kept->context == NULL || !kept->validity->valid)
		return false;
	lock_relations(kept->plans);
	return kept->validity->valid && fits(kept, params);
}

/* the parameters with values that must not become part of a plan */
static ParamListInfo
as_estimates(ParamListInfo params)
{
	ParamListInfo copy = makeParamList(params->numParams);

	for (int i = 0; i < params->numParams; i++)
	{
		copy->params[i] = params->params[i];
		copy->params[i].pflags &= ~PARAM_FLAG_CONST;
	}
	copy->parserSetup = params->parserSetup;
	copy->parserSetupArg = params->parserSetupArg;
	return copy;
}

/* keeps plans, if they are good for more than this batch */
static void
keep(SqKeptPlan *kept, List *plans, ParamListInfo params)
{
	List	   *tables = tables_in(plans);
	MemoryContext context;
	MemoryContext old;
	ListCell   *lc;

	foreach(lc, plans)
	{
		PlannedStmt *plan = lfirst_node(PlannedStmt, lc);

		/* an index in it is not yet for everybody */
		if (plan->transientPlan)
			return;
		sq_validity_add_plan(kept->validity, plan);
	}
	context = AllocSetContextCreate(CurrentMemoryContext, "streamq plan", ALLOCSET_START_SMALL_SIZES);
	old = MemoryContextSwitchTo(context);
	kept->plans = copyObject(plans);
	kept->sizes = palloc(sizeof(SqPlannedSize) * (list_length(tables) + 1));
	kept->nsizes = 0;
	foreach(lc, tables)
	{
		kept->sizes[kept->nsizes++] = size_now(lfirst_oid(lc), params);
	}
	MemoryContextSwitchTo(old);
	MemoryContextSetParent(context, kept->validity->context);
	kept->context = context;
}

/* plans a statement whose plan is to be kept */
static List *
plan_and_keep(SqKeptPlan *kept, const SqStatement *statement, ParamListInfo params)
{
	List	   *plans;

	if (kept->context != NULL)
		MemoryContextDelete(kept->context);
	kept->context = NULL;
	kept->plans = NIL;
	kept->validity->making = true;
	plans = make_plans(statement, as_estimates(params));
	if (kept->validity->valid)
		keep(kept, plans, params);
	kept->validity->making = false;
	return plans;
}

/*
 * The plans (PlannedStmt) of a statement, to be executed now with these parameters
 * and not to be changed.  The current context is the batch's.
 */
List *
sq_plan_statement(const SqStatement *statement, ParamListInfo params)
{
	SqKeptPlan *kept = statement->kept;

	if (kept == NULL)
		return make_plans(statement, params);
	if (is_usable(kept, params))
		return kept->plans;
	return plan_and_keep(kept, statement, params);
}
