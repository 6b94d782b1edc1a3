/*
 * shape.c
 *		Bringing a query into the shape that the compiler works on.
 *
 * The same result can be written in many ways.  Here SELECT DISTINCT and UNION become
 * GROUP BY, WITH queries that are used once become subqueries, and a level that
 * only filters and computes over an aggregation is merged into that: its WHERE
 * is a HAVING of the groups.  What is left is either an aggregation itself or
 * has one somewhere below.
 *
 * The query is changed in place; its result stays what it is.  Nothing is
 * merged through a view with the property security_barrier, whose conditions
 * have to be evaluated first.
 */
#include "compiler/shape.h"

#include "compat.h"
#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/clauses.h"
#include "optimizer/optimizer.h"
#include "optimizer/tlist.h"
#include "parser/parsetree.h"
#include "rewrite/rewriteManip.h"

/* True for a query level that makes groups of rows (DISTINCT has become GROUP BY). */
bool
sq_shape_aggregates(const Query *query)
{
	return query->hasAggs || query->groupClause != NIL || query->groupingSets != NIL ||
		query->havingQual != NULL;
}

/* how deep a walker is below a query */
typedef struct Depth
{
	int			depth;
} Depth;

/* looks for columns and WITH queries of levels around the query walked */
static bool
refers_outside(Node *node, Depth *context)
{
	if (node == NULL)
		return false;
	if (IsA(node, Var))
		return (int) ((Var *) node)->varlevelsup >= context->depth;
	if (IsA(node, Aggref) && (int) ((Aggref *) node)->agglevelsup >= context->depth)
		return true;
	if (IsA(node, RangeTblEntry))
	{
		RangeTblEntry *rte = (RangeTblEntry *) node;

		return rte->rtekind == RTE_CTE && (int) rte->ctelevelsup >= context->depth;
	}
	if (IsA(node, Query))
	{
		bool		result;

		context->depth++;
		result = query_tree_walker((Query *) node, refers_outside, context,
								   QTW_EXAMINE_RTES_BEFORE);
		context->depth--;
		return result;
	}
	return expression_tree_walker(node, refers_outside, context);
}

/* True if a query refers to nothing of levels around it. */
bool
sq_shape_stands_alone(Query *query)
{
	Depth		context = {0};

	return !refers_outside((Node *) query, &context);
}

/* SELECT DISTINCT a, b is SELECT a, b GROUP BY a, b */
static void
distinct_to_group(Query *query)
{
	if (query->distinctClause == NIL || query->hasDistinctOn ||
		query->hasAggs || query->groupClause != NIL || query->groupingSets != NIL ||
		query->havingQual != NULL || query->hasWindowFuncs || query->hasTargetSRFs)
		return;
	query->groupClause = query->distinctClause;
	query->distinctClause = NIL;
}

/* true if a tree of set operations is made of UNION and UNION ALL, the former on top */
static bool
is_union(Node *node)
{
	SetOperationStmt *setop = (SetOperationStmt *) node;

	if (IsA(node, RangeTblRef))
		return true;
	return setop->op == SETOP_UNION && is_union(setop->larg) && is_union(setop->rarg);
}

static void
make_union_all(Node *node)
{
	SetOperationStmt *setop = (SetOperationStmt *) node;

	if (IsA(node, RangeTblRef))
		return;
	setop->all = true;
	setop->groupClauses = NIL;
	make_union_all(setop->larg);
	make_union_all(setop->rarg);
}

/*
 * A UNION B is SELECT DISTINCT * FROM (A UNION ALL B).  Below the topmost UNION,
 * whether duplicates go makes no difference.
 */
static void
union_to_group(Query *query)
{
	SetOperationStmt *setop = (SetOperationStmt *) query->setOperations;
	Query	   *below;
	RangeTblEntry *rte;
	RangeTblRef *from;
	List	   *names = NIL;
	ListCell   *lc;

	/* what it has below it moves one level further in */
	if (setop == NULL || !IsA(setop, SetOperationStmt) || setop->all ||
		!is_union((Node *) setop) || query->cteList != NIL ||
		!sq_shape_stands_alone(query))
		return;
	below = copyObject(query);
	below->sortClause = NIL;
	below->limitCount = below->limitOffset = NULL;
	below->rowMarks = NIL;
	foreach(lc, below->targetList)
	{
		TargetEntry *tle = lfirst_node(TargetEntry, lc);

		tle->ressortgroupref = 0;
		names = lappend(names, makeString(pstrdup(tle->resname)));
	}
	make_union_all(below->setOperations);

	rte = makeNode(RangeTblEntry);
	rte->rtekind = RTE_SUBQUERY;
	rte->subquery = below;
	rte->alias = makeAlias("all", NIL);
	rte->eref = makeAlias("all", names);
	rte->inFromCl = true;
	from = makeNode(RangeTblRef);
	from->rtindex = 1;

	query->setOperations = NULL;
	query->rtable = list_make1(rte);
	sq_rights_drop_all(query);
	query->jointree = makeFromExpr(list_make1(from), NULL);
	query->groupClause = copyObject(setop->groupClauses);
	foreach(lc, query->targetList)
	{
		TargetEntry *tle = lfirst_node(TargetEntry, lc);
		SortGroupClause *clause = list_nth_node(SortGroupClause, query->groupClause,
												foreach_current_index(lc));
		Node	   *expr = (Node *) tle->expr;

		/* ORDER BY may refer to the column already */
		if (tle->ressortgroupref == 0)
			tle->ressortgroupref = 1000000 + tle->resno;
		clause->tleSortGroupRef = tle->ressortgroupref;
		tle->expr = (Expr *) makeVar(1, tle->resno, exprType(expr), exprTypmod(expr),
									 exprCollation(expr), 0);
	}
}

/* where a WITH query is used */
typedef struct Inlining
{
	CommonTableExpr *cte;
	Index		depth;			/* below the level that defines it */
} Inlining;

/* puts a WITH query in the place where it is used, as the planner's inline_cte() */
static bool
inline_walker(Node *node, Inlining *context)
{
	bool		result;

	if (node == NULL)
		return false;
	if (IsA(node, RangeTblEntry))
	{
		RangeTblEntry *rte = (RangeTblEntry *) node;

		if (rte->rtekind != RTE_CTE || rte->ctelevelsup != context->depth ||
			strcmp(rte->ctename, context->cte->ctename) != 0)
			return false;
		rte->rtekind = RTE_SUBQUERY;
		rte->subquery = copyObject((Query *) context->cte->ctequery);
		if (context->depth > 0)
			IncrementVarSublevelsUp((Node *) rte->subquery, context->depth, 1);
		rte->security_barrier = false;
		rte->ctename = NULL;
		rte->ctelevelsup = 0;
		rte->self_reference = false;
		rte->coltypes = rte->coltypmods = rte->colcollations = NIL;
		return true;			/* there is only one such place */
	}
	if (IsA(node, Query))
	{
		context->depth++;
		result = query_tree_walker((Query *) node, inline_walker, context,
								   QTW_EXAMINE_RTES_BEFORE);
		context->depth--;
		return result;
	}
	return expression_tree_walker(node, inline_walker, context);
}

/* WITH queries that are used once become subqueries */
static void
inline_ctes(Query *query)
{
	ListCell   *lc;

	foreach(lc, query->cteList)
	{
		CommonTableExpr *cte = lfirst_node(CommonTableExpr, lc);
		Inlining	context = {cte, 0};

		if (cte->cterefcount == 0 && IsA(cte->ctequery, Query) &&
			((Query *) cte->ctequery)->commandType == CMD_SELECT)
		{
			query->cteList = foreach_delete_current(query->cteList, lc);
			continue;
		}
		if (cte->cterefcount != 1 || cte->cterecursive ||
			cte->ctematerialized == CTEMaterializeAlways ||
			!IsA(cte->ctequery, Query) ||
			((Query *) cte->ctequery)->commandType != CMD_SELECT ||
			contain_volatile_functions(cte->ctequery))
			continue;
		if (query_tree_walker(query, inline_walker, &context, QTW_EXAMINE_RTES_BEFORE))
			query->cteList = foreach_delete_current(query->cteList, lc);
	}
}

/* the only entry of the FROM clause, if that is a subquery; 0 if not */
static int
only_subquery(Query *query)
{
	Node	   *from;
	RangeTblEntry *rte;

	if (list_length(query->jointree->fromlist) != 1)
		return 0;
	from = linitial(query->jointree->fromlist);
	if (!IsA(from, RangeTblRef))
		return 0;
	rte = rt_fetch(((RangeTblRef *) from)->rtindex, query->rtable);
	if (rte->rtekind != RTE_SUBQUERY || rte->security_barrier || rte->lateral)
		return 0;
	return ((RangeTblRef *) from)->rtindex;
}

/* true if a level does nothing but filter and compute */
static bool
is_simple(const Query *query)
{
	return query->commandType == CMD_SELECT && query->setOperations == NULL &&
		!sq_shape_aggregates(query) && query->distinctClause == NIL &&
		!query->hasWindowFuncs && !query->hasTargetSRFs && !query->hasSubLinks &&
		query->sortClause == NIL && query->limitCount == NULL &&
		query->limitOffset == NULL && query->rowMarks == NIL && query->cteList == NIL;
}

/* true if an aggregation can take over the level above */
static bool
can_take_over(const Query *sub, const Query *query)
{
	return sub->setOperations == NULL && sq_shape_aggregates(sub) &&
		sub->groupingSets == NIL && sub->distinctClause == NIL &&
		!sub->hasWindowFuncs && !sub->hasTargetSRFs && sub->sortClause == NIL &&
		sub->limitCount == NULL && sub->limitOffset == NULL &&
		sub->rowMarks == NIL &&
		!contain_volatile_functions((Node *) sub->targetList) &&
		!contain_volatile_functions((Node *) query->targetList) &&
		!contain_volatile_functions(query->jointree->quals);
}

/* the aggregation's own grouping expressions, as far as the level above hides them */
static List *
hidden_keys(const Query *sub, int next_resno)
{
	List	   *result = NIL;
	ListCell   *lc;

	foreach(lc, sub->groupClause)
	{
		SortGroupClause *clause = lfirst_node(SortGroupClause, lc);
		TargetEntry *tle = flatCopyTargetEntry(get_sortgroupclause_tle(clause, sub->targetList));

		tle->resno = next_resno++;
		tle->resname = NULL;
		tle->resjunk = true;
		result = lappend(result, tle);
	}
	return result;
}

/* rights on a view are checked on an entry of the range table that nothing refers to */
static void
keep_rights(const Query *query, Query *sub)
{
	ListCell   *lc;

	foreach(lc, query->rtable)
	{
		RangeTblEntry *rte = lfirst_node(RangeTblEntry, lc);

		if (rte->rtekind == RTE_RELATION && sq_rights(query, rte) != NULL)
			sq_rights_add_entry(query, rte, sub);
	}
}

/*
 * Merges a level that only filters and computes into the aggregation that it
 * reads.  The level's query node becomes the aggregation.
 */
static bool
merge_into_aggregation(Query *query)
{
	int			rtindex = only_subquery(query);
	RangeTblEntry *rte;
	Query	   *sub;
	List	   *targets;
	Node	   *quals;
	bool		has_sublinks;

	if (rtindex == 0 || !is_simple(query))
		return false;
	rte = rt_fetch(rtindex, query->rtable);
	sub = rte->subquery;
	/* it moves one level further out */
	if (!can_take_over(sub, query) || !sq_shape_stands_alone(sub))
		return false;

	has_sublinks = sub->hasSubLinks;
	targets = (List *) ReplaceVarsFromTargetList((Node *) query->targetList, rtindex, 0, rte,
												 sub->targetList, REPLACEVARS_REPORT_ERROR, 0,
												 &has_sublinks);
	quals = ReplaceVarsFromTargetList(query->jointree->quals, rtindex, 0, rte,
									  sub->targetList, REPLACEVARS_REPORT_ERROR, 0,
									  &has_sublinks);
	sub = copyObject(sub);
	sub->targetList = list_concat(targets, hidden_keys(sub, list_length(targets) + 1));
	sub->havingQual = make_and_qual(sub->havingQual, quals);
	sub->hasSubLinks = has_sublinks;
	sub->hasRowSecurity |= query->hasRowSecurity;
	keep_rights(query, sub);
	*query = *sub;
	return true;
}

/*
 * Brings a query, and the levels between it and its aggregation, into shape.
 */
void
sq_shape_normalise(Query *query)
{
	ListCell   *lc;

	check_stack_depth();
	inline_ctes(query);
	distinct_to_group(query);
	union_to_group(query);
	foreach(lc, query->rtable)
	{
		RangeTblEntry *rte = lfirst_node(RangeTblEntry, lc);

		if (rte->rtekind == RTE_SUBQUERY)
			sq_shape_normalise(rte->subquery);
	}
	foreach(lc, query->cteList)
	{
		CommonTableExpr *cte = lfirst_node(CommonTableExpr, lc);

		if (IsA(cte->ctequery, Query) && !cte->cterecursive)
			sq_shape_normalise((Query *) cte->ctequery);
	}
	(void) merge_into_aggregation(query);
}
