/*
 * compare.c
 *		Whether a changed query can go on from a query's state.
 *
 * Spark's guide ("Recovery Semantics after Changes in a Streaming Query") allows
 * filters and projections to change, and refuses other group keys or aggregates,
 * which would misread the state.  Keys and calls are compared in terms of columns
 * of tables, so it does not matter how the query is written around them.
 */
#include "compiler/compare.h"

#include "compat.h"
#include "compiler/strategy.h"
#include "compiler/trace.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "utils/lsyscache.h"
#include "utils/regproc.h"

static void refuse(const char *detail) pg_attribute_noreturn();

static void
refuse(const char *detail)
{
	ereport(ERROR,
			(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			 errmsg("the changed query would misread the state of the streaming query"),
			 errdetail("%s", detail),
			 errhint("Create another query, or drop this one and create it anew from the earliest rows.")));
}

typedef struct Occurrences
{
	Oid			relid;
	int			count;
} Occurrences;

static bool
count_occurrences(Node *node, Occurrences *context)
{
	if (node == NULL)
		return false;
	if (IsA(node, RangeTblEntry))
	{
		RangeTblEntry *rte = (RangeTblEntry *) node;

		if (rte->rtekind == RTE_RELATION && rte->inFromCl && rte->relid == context->relid)
			context->count++;
		return false;
	}
	if (IsA(node, Query))
		return query_tree_walker((Query *) node, count_occurrences, context,
								 QTW_EXAMINE_RTES_BEFORE);
	return expression_tree_walker(node, count_occurrences, context);
}

/* a column of a table is named by the table itself, if that is there but once */
static Node *
table_column(const RangeTblEntry *rte, Var *var, void *context)
{
	Occurrences occurrences = {rte->relid, 0};

	(void) count_occurrences((Node *) context, &occurrences);
	if (occurrences.count != 1)
		return NULL;
	return (Node *) makeVar(rte->relid, var->varattno, var->vartype, var->vartypmod,
							var->varcollid, 0);
}

/* takes out of range tables what does not matter here: columns that are looked at */
static bool
forget_columns(Node *node, void *context)
{
	if (node == NULL)
		return false;
	if (IsA(node, RangeTblEntry))
	{
		RangeTblEntry *rte = (RangeTblEntry *) node;

		if (rte->rtekind == RTE_RELATION && !rte->inFromCl)
		{
			/* the definition itself, which is another view now */
			rte->relid = InvalidOid;
			rte->eref = NULL;
		}
		return false;
	}
	if (IsA(node, Query))
	{
		sq_rights_forget_columns((Query *) node);
		return query_tree_walker((Query *) node, forget_columns, context, QTW_EXAMINE_RTES_BEFORE);
	}
	return expression_tree_walker(node, forget_columns, context);
}

/* true if both read the same FROM clause, so that columns are numbered in the same way */
static bool
have_same_tables(const SqCompiled *before, const SqCompiled *after)
{
	Query	   *a = copyObject(before->aggregation->level);
	Query	   *b = copyObject(after->aggregation->level);

	(void) forget_columns((Node *) a, NULL);
	(void) forget_columns((Node *) b, NULL);
	return equal(a->rtable, b->rtable) && equal(a->cteList, b->cteList) &&
		equal(a->jointree->fromlist, b->jointree->fromlist);
}

static bool
is_same(const SqCompiled *before, Node *a, const SqCompiled *after, Node *b)
{
	Node	   *x;
	Node	   *y;

	if (have_same_tables(before, after))
	{
		x = copyObject(a);
		y = copyObject(b);
		(void) forget_columns(x, NULL);
		(void) forget_columns(y, NULL);
		return equal(x, y);
	}
	x = sq_trace(before->aggregation->level, a, table_column, before->aggregation->level);
	y = sq_trace(after->aggregation->level, b, table_column, after->aggregation->level);

	return x != NULL && y != NULL && equal(x, y);
}

static List *
match_keys(const SqCompiled *before, const SqCompiled *after)
{
	List	   *numbers = NIL;
	ListCell   *lc;
	ListCell   *lc2;

	if (list_length(before->aggregation->keys) != list_length(after->aggregation->keys))
		refuse("It has another number of group keys.");
	foreach(lc, after->aggregation->keys)
	{
		SqKey	   *key = lfirst(lc);
		int			number = 0;

		foreach(lc2, before->aggregation->keys)
		{
			SqKey	   *old = lfirst(lc2);

			if ((old->clause == NULL) == (key->clause == NULL) &&
				is_same(before, (Node *) old->expr, after, (Node *) key->expr))
				number = old->number;
		}
		if (number == 0 || list_member_int(numbers, number))
			refuse(psprintf("Group key %d is not one of the query's group keys.",
							foreach_current_index(lc) + 1));
		key->number = number;
		numbers = lappend_int(numbers, number);
	}
	return numbers;
}

static List *
match_calls(const SqCompiled *before, const SqCompiled *after)
{
	List	   *numbers = NIL;
	ListCell   *lc;
	ListCell   *lc2;

	foreach(lc, after->aggregation->calls)
	{
		SqCall	   *call = lfirst(lc);
		int			number = 0;

		foreach(lc2, before->aggregation->calls)
		{
			SqCall	   *old = lfirst(lc2);

			if (is_same(before, (Node *) old->aggref, after, (Node *) call->aggref))
				number = old->number;
		}
		if (number == 0)
			refuse(psprintf("The state has nothing of an aggregate %s with these arguments.",
							format_procedure(call->aggref->aggfnoid)));
		call->number = number;
		numbers = lappend_int(numbers, number);
	}
	return numbers;
}

/*
 * Errors if a changed query cannot go on from the state of the one before.
 * Sets the numbers of its columns of the state, in query too.
 */
void
sq_compare(const SqCompiled *before, SqCompiled *after, SqQuery *query)
{
	char	   *reason;

	if ((before->aggregation == NULL) != (after->aggregation == NULL))
		refuse(after->aggregation ? "It aggregates, and the query does not." :
			   "It does not aggregate any more.");
	if (after->aggregation == NULL)
		return;
	if ((before->aggregation->time_key == NULL) != (after->aggregation->time_key == NULL) ||
		(after->aggregation->time_key != NULL &&
		 !equal(before->aggregation->event.function, after->aggregation->event.function)))
		refuse("The first group key that carries the event time is another one.");
	if (sq_strategy_is_source(before))
	{
		/* nothing is kept that could be misread */
		if (strcmp(sq_strategy_choose(after, &reason), SQ_STRATEGY_SOURCE) != 0)
			refuse(psprintf("The query keeps no groups, but the changed one would have to: %s.", reason));
		query->state_keys = query->state_calls = NIL;
		for (int i = 1; i <= list_length(after->aggregation->keys); i++)
			query->state_keys = lappend_int(query->state_keys, i);
		for (int i = 1; i <= list_length(after->aggregation->calls); i++)
			query->state_calls = lappend_int(query->state_calls, i);
		return;
	}
	query->state_keys = match_keys(before, after);
	query->state_calls = match_calls(before, after);
}
