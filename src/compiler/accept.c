/*
 * accept.c
 *		What streams, and why not.
 *
 * A stateless query is one whose result over the rows of a batch, put after the
 * results of earlier batches, is its result over all rows (invariant Q-1).  So
 * each row of the result has to come from one row of one stream and whatever
 * static tables hold at the time.  Everything that relates rows of the stream to
 * each other is refused here, with the name of the construct.  What concerns
 * static tables alone is free.
 *
 * Works on a query that sq_streams_expand() has expanded; reads it only.
 */
#include "compiler/accept.h"

#include "compiler/streams.h"
#include "miscadmin.h"
#include "nodes/nodeFuncs.h"
#include "parser/parsetree.h"
#include "utils/builtins.h"

/* queries around the one at hand, innermost first, for CTE references */
typedef struct Level
{
	Query	   *query;
	struct Level *outer;
} Level;

static bool query_streams(Query *query, Level *outer);
static void accept_query(Query *query, Level *outer);

static void
refuse(const char *message, const char *hint)
{
	ereport(ERROR,
			(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			 errmsg("%s", message),
			 errhint("%s", hint)));
}

/* ------------------------------------------------ does it read a stream? */

static CommonTableExpr *
find_cte(const char *name, Index levels_up, Level *level, Level **found_at)
{
	ListCell   *lc;

	while (levels_up-- > 0 && level != NULL)
		level = level->outer;
	if (level == NULL)
		return NULL;
	foreach(lc, level->query->cteList)
	{
		CommonTableExpr *cte = lfirst_node(CommonTableExpr, lc);

		if (strcmp(cte->ctename, name) == 0)
		{
			*found_at = level;
			return cte;
		}
	}
	return NULL;
}

/* what is known of a CTE: others may refer to it again and again */
typedef struct CteAnswer
{
	CommonTableExpr *cte;
	bool		streams;
} CteAnswer;

static List *cte_answers;		/* during one sq_accept_stateless() */

static bool
cte_streams(CommonTableExpr *cte, Level *at)
{
	CteAnswer  *answer;
	ListCell   *lc;

	foreach(lc, cte_answers)
	{
		answer = lfirst(lc);
		if (answer->cte == cte)
			return answer->streams;
	}
	answer = palloc(sizeof(CteAnswer));
	answer->cte = cte;
	answer->streams = query_streams((Query *) cte->ctequery, at);
	cte_answers = lappend(cte_answers, answer);
	return answer->streams;
}

/* true if the range table entry of the query at level reads a stream */
static bool
rte_streams(RangeTblEntry *rte, Level *level)
{
	CommonTableExpr *cte;
	Level	   *at;

	switch (rte->rtekind)
	{
		case RTE_RELATION:
			return sq_streams_is_stream(rte);
		case RTE_SUBQUERY:
			return query_streams(rte->subquery, level);
		case RTE_CTE:
			/* inside itself a recursive CTE tells nothing new */
			if (rte->self_reference)
				return false;
			cte = find_cte(rte->ctename, rte->ctelevelsup, level, &at);
			return cte != NULL && cte_streams(cte, at);
		default:
			return false;
	}
}

/* true if a node of the FROM clause reads a stream */
static bool
from_streams(Node *node, Level *level)
{
	ListCell   *lc;

	if (node == NULL)
		return false;
	if (IsA(node, RangeTblRef))
		return rte_streams(rt_fetch(((RangeTblRef *) node)->rtindex,
									level->query->rtable), level);
	if (IsA(node, JoinExpr))
		return from_streams(((JoinExpr *) node)->larg, level) ||
			from_streams(((JoinExpr *) node)->rarg, level);
	if (IsA(node, FromExpr))
	{
		foreach(lc, ((FromExpr *) node)->fromlist)
		{
			if (from_streams(lfirst(lc), level))
				return true;
		}
		return false;
	}
	/* a tree of set operations */
	if (IsA(node, SetOperationStmt))
		return from_streams(((SetOperationStmt *) node)->larg, level) ||
			from_streams(((SetOperationStmt *) node)->rarg, level);
	return false;
}

typedef struct SublinkContext
{
	Level	   *level;
	bool		found;
} SublinkContext;

/* looks for a subquery expression that reads a stream */
static bool
sublink_walker(Node *node, SublinkContext *context)
{
	if (node == NULL)
		return false;
	if (IsA(node, SubLink))
	{
		SubLink    *sublink = (SubLink *) node;

		if (query_streams((Query *) sublink->subselect, context->level))
		{
			context->found = true;
			return true;
		}
		return sublink_walker(sublink->testexpr, context);
	}
	return expression_tree_walker(node, sublink_walker, context);
}

/* true if an expression of this very query, wherever in it, reads a stream */
static bool
expressions_stream(Query *query, Level *outer)
{
	Level		level = {query, outer};
	SublinkContext context = {&level, false};

	(void) query_tree_walker(query, sublink_walker, &context,
							 QTW_IGNORE_RC_SUBQUERIES | QTW_IGNORE_JOINALIASES);
	return context.found;
}

/* true if a query reads a stream, wherever */
static bool
query_streams(Query *query, Level *outer)
{
	Level		level = {query, outer};

	check_stack_depth();
	return from_streams((Node *) query->jointree, &level) ||
		from_streams(query->setOperations, &level) ||
		expressions_stream(query, outer);
}

/* ------------------------------------------------------- is that accepted? */

#define HINT_SINK \
	"Stream the plain rows, and compute the rest over the sink when it is read."

/* What a query may not do at a level at which it reads a stream. */
static void
accept_clauses(Query *query)
{
	if (query->hasAggs && query->groupClause == NIL && query->groupingSets == NIL)
		refuse("an aggregate function is not supported on a stream", HINT_SINK);
	if (query->groupingSets != NIL)
		refuse("GROUP BY with grouping sets is not supported on a stream", HINT_SINK);
	if (query->groupClause != NIL)
		refuse("GROUP BY is not supported on a stream", HINT_SINK);
	if (query->havingQual != NULL)
		refuse("HAVING is not supported on a stream", HINT_SINK);
	if (query->hasWindowFuncs)
		refuse("a window function is not supported on a stream", HINT_SINK);
	if (query->hasDistinctOn)
		refuse("DISTINCT ON is not supported on a stream", HINT_SINK);
	if (query->distinctClause != NIL)
		refuse("DISTINCT is not supported on a stream", HINT_SINK);
	if (query->limitCount != NULL)
		refuse("LIMIT is not supported on a stream", HINT_SINK);
	if (query->limitOffset != NULL)
		refuse("OFFSET is not supported on a stream", HINT_SINK);
	if (query->sortClause != NIL)
		refuse("ORDER BY is not supported on a stream", HINT_SINK);
	if (query->rowMarks != NIL)
		refuse("FOR UPDATE or FOR SHARE is not supported on a stream",
			   "Sources are append-only, there is nothing to lock; leave the clause out.");
}

/*
 * Checks a node of the FROM clause and returns the number of streams that it
 * joins.
 */
static int
accept_from(Node *node, Level *level)
{
	int			streams = 0;
	ListCell   *lc;

	if (IsA(node, FromExpr))
	{
		foreach(lc, ((FromExpr *) node)->fromlist)
		{
			streams += accept_from(lfirst(lc), level);
		}
	}
	else if (IsA(node, JoinExpr))
	{
		JoinExpr   *join = (JoinExpr *) node;
		int			left = accept_from(join->larg, level);
		int			right = accept_from(join->rarg, level);

		streams = left + right;
		if (streams == 1 && join->jointype == JOIN_FULL)
			refuse("FULL JOIN of a stream and a static table is not supported",
				   "Use LEFT JOIN with the stream on the left, so that each of its rows is final at once.");
		if (left == 0 && right == 1 && join->jointype == JOIN_LEFT)
			refuse("LEFT JOIN with the stream on the right is not supported",
				   "Rows of the static table without a match would never be final; put the stream on the left.");
		if (left == 1 && right == 0 && join->jointype == JOIN_RIGHT)
			refuse("RIGHT JOIN with the stream on the left is not supported",
				   "Rows of the static table without a match would never be final; put the stream on the right.");
	}
	else if (IsA(node, RangeTblRef))
	{
		RangeTblEntry *rte = rt_fetch(((RangeTblRef *) node)->rtindex,
									  level->query->rtable);

		if (!rte_streams(rte, level))
			return 0;
		if (rte->rtekind == RTE_SUBQUERY)
			accept_query(rte->subquery, level);
		else if (rte->rtekind == RTE_CTE)
		{
			Level	   *at = NULL;
			CommonTableExpr *cte = find_cte(rte->ctename, rte->ctelevelsup, level, &at);

			if (cte->cterecursive)
				refuse("WITH RECURSIVE is not supported on a stream",
					   "A recursive query may read tables that are not streams.");
			accept_query((Query *) cte->ctequery, at);
		}
		streams = 1;
	}
	if (streams > 1)
		refuse("a join of two streams is not supported",
			   "Stream each of them into a sink and join the sinks, or name only one of them with the argument \"sources\".");
	return streams;
}

/* Checks a tree of set operations; each leaf has to be a stream. */
static void
accept_setop(Node *node, Level *level)
{
	if (IsA(node, SetOperationStmt))
	{
		SetOperationStmt *setop = (SetOperationStmt *) node;

		if (setop->op == SETOP_UNION && !setop->all)
			refuse("UNION is not supported on a stream", "Use UNION ALL, which keeps every row.");
		if (setop->op == SETOP_INTERSECT)
			refuse("INTERSECT is not supported on a stream", "Use WHERE EXISTS over tables that are not streams.");
		if (setop->op == SETOP_EXCEPT)
			refuse("EXCEPT is not supported on a stream", "Use WHERE NOT EXISTS over tables that are not streams.");
		accept_setop(setop->larg, level);
		accept_setop(setop->rarg, level);
		return;
	}
	if (accept_from(node, level) == 0)
		refuse("UNION ALL of a stream and a static table is not supported",
			   "The rows of the static table would come again in each batch; insert them into the sink once.");
}

/* Checks a query that reads a stream. */
static void
accept_query(Query *query, Level *outer)
{
	Level		level = {query, outer};

	check_stack_depth();
	accept_clauses(query);
	if (expressions_stream(query, outer))
		refuse("a subquery expression that reads a stream is not supported",
			   "EXISTS, IN and scalar subqueries may read tables that are not streams.");
	if (query->setOperations != NULL)
		accept_setop(query->setOperations, &level);
	else
		(void) accept_from((Node *) query->jointree, &level);
}

/*
 * Refuses, with an error, a query that does not stream without state in the
 * output mode.
 */
void
sq_accept_stateless(Query *query, const char *output_mode)
{
	cte_answers = NIL;
	if (!query_streams(query, NULL))
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("query reads no stream where its result comes from"),
				 errdetail("A WITH query that reads the stream is not used."),
				 errhint("Put the stream into the FROM clause.")));
	accept_query(query, NULL);
	if (strcmp(output_mode, "complete") == 0)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("output mode \"complete\" is not supported for a query without aggregation"),
				 errdetail("Its whole result would have to be written again in each batch."),
				 errhint("Use output mode \"append\".")));
}
