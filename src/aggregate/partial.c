/*
 * partial.c
 *		Aggregation that stops at the transition states.
 *
 * The executor can do that: it is what a parallel worker does (nodeAgg.c,
 * AGGSPLIT_INITIAL_SERIAL).  The planner plans it only below a Gather, so the
 * compiler marks the calls (delta.c), and here the Agg nodes that compute them
 * are told.  Nothing else differs: a plan's Agg node and its calls have to agree
 * in this field, and the calls have had the type of the state from the start.
 *
 * Planning in two stages of its own accord would mark the calls a second time;
 * increments are not scanned in parallel, and partitionwise aggregation is
 * switched off by the query's settings (settings.c).  It is an error here.
 */
#include "aggregate/partial.h"

#include "miscadmin.h"
#include "nodes/nodeFuncs.h"

typedef struct Calls
{
	bool		partial;
	bool		whole;
} Calls;

static bool
find_calls(Node *node, Calls *calls)
{
	if (node == NULL)
		return false;
	if (IsA(node, Aggref))
	{
		if (((Aggref *) node)->aggsplit == AGGSPLIT_INITIAL_SERIAL)
			calls->partial = true;
		else
			calls->whole = true;
		return false;
	}
	return expression_tree_walker(node, find_calls, calls);
}

static void
prepare_agg(Agg *agg)
{
	Calls		calls = {false, false};

	(void) find_calls((Node *) agg->plan.targetlist, &calls);
	(void) find_calls((Node *) agg->plan.qual, &calls);
	/* the workers' half of a parallel aggregation is told already */
	if (!calls.partial || agg->aggsplit == AGGSPLIT_INITIAL_SERIAL)
		return;
	if (calls.whole || agg->aggsplit != AGGSPLIT_SIMPLE || agg->chain != NIL)
		elog(ERROR, "partial aggregation in an unexpected plan");
	agg->aggsplit = AGGSPLIT_INITIAL_SERIAL;
}

static void prepare_plan(Plan *plan);

static void
prepare_list(List *plans)
{
	ListCell   *lc;

	foreach(lc, plans)
	{
		prepare_plan(lfirst(lc));
	}
}

static void
prepare_plan(Plan *plan)
{
	if (plan == NULL)
		return;
	check_stack_depth();
	if (IsA(plan, Agg))
		prepare_agg((Agg *) plan);
	prepare_plan(plan->lefttree);
	prepare_plan(plan->righttree);
	switch (nodeTag(plan))
	{
		case T_Append:
			prepare_list(((Append *) plan)->appendplans);
			break;
		case T_MergeAppend:
			prepare_list(((MergeAppend *) plan)->mergeplans);
			break;
		case T_SubqueryScan:
			prepare_plan(((SubqueryScan *) plan)->subplan);
			break;
		case T_CustomScan:
			prepare_list(((CustomScan *) plan)->custom_plans);
			break;
		default:
			break;
	}
}

/* Makes a plan's partial aggregations be executed as such. */
void
sq_partial_prepare(PlannedStmt *plan)
{
	prepare_plan(plan->planTree);
	prepare_list(plan->subplans);
}
