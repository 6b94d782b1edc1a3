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
 * One level of a query may aggregate a stream.  What is below it has to be
 * stateless.  What may be above it depends on the output mode: in append mode,
 * where a group comes once, again what is stateless; in update mode nothing (a
 * simple level above has been merged into it, see shape.c); in complete mode,
 * where the whole result is computed from all groups, anything.  (Spark's
 * UnsupportedOperationChecker is the source of the matrix; semantics.md tells
 * where streamq goes further.)
 *
 * Works on a query that sq_streams_expand() and sq_shape_normalise() have
 * prepared; reads it only.
 */
#include "compiler/accept.h"

#include "compiler/shape.h"
#include "compiler/streams.h"
#include "miscadmin.h"
#include "nodes/nodeFuncs.h"
#include "parser/parsetree.h"
#include "utils/builtins.h"

/* what one sq_accept() knows */
typedef struct Accepting
{
	const char *output_mode;
	Query	   *aggregation;	/* the level that aggregates, once found */
	bool		below;			/* looking at what is below it */
	bool		is_table;		/* take the aggregation for a table of groups */
	List	   *cte_answers;	/* CteAnswer: others may refer to a CTE again */
} Accepting;

static Accepting accepting;

/* queries around the one at hand, innermost first, for CTE references */
typedef struct Level
{
	Query	   *query;
	struct Level *outer;
} Level;

static bool query_streams(Query *query, Level *outer);
static void accept_query(Query *query, Level *outer);
static bool is_complete(void);

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

static bool
cte_streams(CommonTableExpr *cte, Level *at)
{
	CteAnswer  *answer;
	ListCell   *lc;

	foreach(lc, accepting.cte_answers)
	{
		answer = lfirst(lc);
		if (answer->cte == cte)
			return answer->streams;
	}
	answer = palloc(sizeof(CteAnswer));
	answer->cte = cte;
	answer->streams = query_streams((Query *) cte->ctequery, at);
	accepting.cte_answers = lappend(accepting.cte_answers, answer);
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
	if (accepting.is_table && query == accepting.aggregation)
		return false;
	return from_streams((Node *) query->jointree, &level) ||
		from_streams(query->setOperations, &level) ||
		expressions_stream(query, outer);
}

/* ------------------------------------------------------- is that accepted? */

#define HINT_SINK \
	"Stream the plain rows, and compute the rest over the sink when it is read."
#define HINT_ABOVE \
	"Put it at a level above the aggregation."
#define HINT_COMPLETE \
	"Use output mode \"complete\" for an aggregation, or compute it over the sink when it is read."

static bool
is_complete(void)
{
	return strcmp(accepting.output_mode, "complete") == 0;
}

/* what no level that reads a stream, or the result of an aggregation, may do */
static void
accept_order(Query *query)
{
	const char *hint = is_complete() ? HINT_ABOVE : accepting.aggregation ? HINT_COMPLETE : HINT_SINK;

	if (query->hasWindowFuncs)
		refuse("a window function is not supported on a stream", hint);
	if (query->hasDistinctOn)
		refuse("DISTINCT ON is not supported on a stream", hint);
	if (query->distinctClause != NIL && !sq_shape_aggregates(query))
		refuse("DISTINCT is not supported on a stream in this place", hint);
	if (query->limitCount != NULL)
		refuse("LIMIT is not supported on a stream", hint);
	if (query->limitOffset != NULL)
		refuse("OFFSET is not supported on a stream", hint);
	if (query->sortClause != NIL)
		refuse("ORDER BY is not supported on a stream", hint);
	if (query->rowMarks != NIL)
		refuse("FOR UPDATE or FOR SHARE is not supported on a stream",
			   "Sources are append-only, there is nothing to lock; leave the clause out.");
}

/* What the level that aggregates may do in addition to that, and what not. */
static void
accept_aggregation(Query *query)
{
	if (accepting.aggregation != NULL && !is_complete())
		refuse(accepting.below ?
			   "an aggregation over an aggregation is not supported on a stream in this output mode" :
			   "more than one aggregation of a stream is not supported in a query",
			   "Stream the inner aggregation into a sink of its own, or use output mode \"complete\".");
	accepting.aggregation = query;
	if (query->groupingSets != NIL)
		refuse("GROUP BY with grouping sets is not supported on a stream",
			   "Stream each grouping in a query of its own.");
	if (is_complete())
		return;
	accept_order(query);
	if (query->distinctClause != NIL)
		refuse("DISTINCT over an aggregation is not supported in this output mode",
			   "Use output mode \"complete\".");
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
			refuse("UNION is not supported on a stream in this place", "Use UNION ALL, which keeps every row, or UNION at the top of the query.");
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
	bool		below = accepting.below;

	check_stack_depth();
	if (sq_shape_aggregates(query))
	{
		accept_aggregation(query);
		accepting.below = true;
	}
	else
		accept_order(query);
	if (expressions_stream(query, outer))
		refuse("a subquery expression that reads a stream is not supported",
			   "EXISTS, IN and scalar subqueries may read tables that are not streams.");
	if (query->setOperations != NULL)
		accept_setop(query->setOperations, &level);
	else
		(void) accept_from((Node *) query->jointree, &level);
	accepting.below = below;
}

/* ------------------------------------------------------- complete mode */

static Query *find_innermost(Query *query, Level *outer);

static Query *
find_innermost_in(Node *node, Level *level)
{
	Query	   *found = NULL;
	ListCell   *lc;

	if (node == NULL)
		return NULL;
	if (IsA(node, FromExpr))
	{
		foreach(lc, ((FromExpr *) node)->fromlist)
		{
			if (found == NULL)
				found = find_innermost_in(lfirst(lc), level);
		}
	}
	else if (IsA(node, JoinExpr))
	{
		found = find_innermost_in(((JoinExpr *) node)->larg, level);
		if (found == NULL)
			found = find_innermost_in(((JoinExpr *) node)->rarg, level);
	}
	else if (IsA(node, SetOperationStmt))
	{
		found = find_innermost_in(((SetOperationStmt *) node)->larg, level);
		if (found == NULL)
			found = find_innermost_in(((SetOperationStmt *) node)->rarg, level);
	}
	else if (IsA(node, RangeTblRef))
	{
		RangeTblEntry *rte = rt_fetch(((RangeTblRef *) node)->rtindex, level->query->rtable);
		Level	   *at = NULL;
		CommonTableExpr *cte;

		if (rte->rtekind == RTE_SUBQUERY)
			found = find_innermost(rte->subquery, level);
		else if (rte->rtekind == RTE_CTE && !rte->self_reference)
		{
			cte = find_cte(rte->ctename, rte->ctelevelsup, level, &at);
			if (cte != NULL && !cte->cterecursive)
				found = find_innermost((Query *) cte->ctequery, at);
		}
	}
	return found;
}

/* the innermost level that aggregates a stream, or NULL */
static Query *
find_innermost(Query *query, Level *outer)
{
	Level		level = {query, outer};
	Query	   *found;

	check_stack_depth();
	found = find_innermost_in((Node *) query->jointree, &level);
	if (found == NULL)
		found = find_innermost_in(query->setOperations, &level);
	if (found == NULL && sq_shape_aggregates(query) &&
		from_streams((Node *) query->jointree, &level))
		found = query;
	return found;
}

/* In complete mode: all streams have to be below one aggregation. */
static void
accept_complete(Query *query)
{
	Query	   *found = find_innermost(query, NULL);

	if (found == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("output mode \"complete\" is not supported for a query without aggregation"),
				 errdetail("Its whole result would have to be written again in each batch."),
				 errhint("Use output mode \"append\".")));
	accept_query(found, NULL);
	accepting.aggregation = found;
}

/* An aggregation below other levels must stand for itself. */
static void
accept_standing(Query *query)
{
	if (accepting.aggregation == query)
		return;
	accepting.cte_answers = NIL;
	accepting.is_table = true;
	if (query_streams(query, NULL))
		refuse("a stream beside the aggregation is not supported",
			   "All streams of the query have to be read by one GROUP BY query.");
	if (!sq_shape_stands_alone(accepting.aggregation))
		refuse("an aggregation of a stream that refers to columns or WITH queries outside of it is not supported",
			   "Group by the columns that it refers to and join the result, or put the WITH clause inside the subquery that aggregates.");
	if (strcmp(accepting.output_mode, "update") == 0)
		refuse("a query over an aggregation is not supported in output mode \"update\"",
			   "Its rows have no group key to be upserted by; use output mode \"complete\", or put HAVING and expressions into the aggregation.");
}

/*
 * Refuses, with an error, a query that does not stream in the output mode.
 * Returns the level that aggregates, NULL for a query without state.
 */
Query *
sq_accept(Query *query, const char *output_mode)
{
	memset(&accepting, 0, sizeof(accepting));
	accepting.output_mode = output_mode;
	if (!query_streams(query, NULL))
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("query reads no stream where its result comes from"),
				 errdetail("A WITH query that reads the stream is not used."),
				 errhint("Put the stream into the FROM clause.")));
	if (is_complete())
		accept_complete(query);
	else
		accept_query(query, NULL);
	if (accepting.aggregation != NULL)
		accept_standing(query);
	return accepting.aggregation;
}
