/*
 * trace.c
 *		Following an expression down to the columns of tables.
 *
 * A column of a subquery, a WITH query, a join or a UNION ALL is replaced by the
 * expression that it stands for, until only columns of tables are left; the
 * caller says what becomes of those.  Reads the query only.
 */
#include "compiler/trace.h"

#include "catalog/pg_type.h"
#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "parser/parsetree.h"

/* a query level and those around it */
typedef struct Level
{
	Query	   *query;
	struct Level *outer;
} Level;

typedef struct Trace
{
	Level	   *level;
	SqTraceColumn column;
	void	   *context;
	bool		lost;			/* something else than columns was found */
} Trace;

static Node *trace_mutator(Node *node, Trace *trace);
static Node *trace_output(Query *query, AttrNumber attno, Level *outer, Trace *trace);

static Node *
lost(Trace *trace, Node *node)
{
	trace->lost = true;
	return node;
}

/* a column of a UNION ALL: what each of its queries says, if they differ all of it */
static Node *
trace_union(Node *node, Query *query, AttrNumber attno, Level *outer, Trace *trace)
{
	Level		level = {query, outer};
	SetOperationStmt *setop = (SetOperationStmt *) node;
	Node	   *left;
	Node	   *right;
	RowExpr    *both;

	if (IsA(node, RangeTblRef))
		return trace_output(rt_fetch(((RangeTblRef *) node)->rtindex, query->rtable)->subquery,
							attno, &level, trace);
	left = trace_union(setop->larg, query, attno, outer, trace);
	right = trace_union(setop->rarg, query, attno, outer, trace);
	if (setop->op != SETOP_UNION || !setop->all)
		return lost(trace, left);
	if (equal(left, right))
		return left;
	both = makeNode(RowExpr);
	both->args = list_make2(left, right);
	both->row_typeid = RECORDOID;
	both->row_format = COERCE_EXPLICIT_CALL;
	both->location = -1;
	return (Node *) both;
}

/* an output column of a query */
static Node *
trace_output(Query *query, AttrNumber attno, Level *outer, Trace *trace)
{
	Level		level = {query, outer};
	Level	   *before = trace->level;
	TargetEntry *tle = get_tle_by_resno(query->targetList, attno);
	Node	   *result;

	check_stack_depth();
	if (tle == NULL || tle->resjunk)
		return lost(trace, NULL);
	if (query->setOperations != NULL)
		return trace_union(query->setOperations, query, attno, outer, trace);
	trace->level = &level;
	result = trace_mutator((Node *) tle->expr, trace);
	trace->level = before;
	return result;
}

static Node *
trace_cte(const RangeTblEntry *rte, Var *var, Level *level, Trace *trace)
{
	ListCell   *lc;

	for (Index up = rte->ctelevelsup; up > 0 && level != NULL; up--)
		level = level->outer;
	if (level == NULL || rte->self_reference)
		return lost(trace, (Node *) var);
	foreach(lc, level->query->cteList)
	{
		CommonTableExpr *cte = lfirst_node(CommonTableExpr, lc);

		if (strcmp(cte->ctename, rte->ctename) == 0 && !cte->cterecursive)
			return trace_output((Query *) cte->ctequery, var->varattno, level, trace);
	}
	return lost(trace, (Node *) var);
}

static Node *
trace_var(Var *var, Trace *trace)
{
	Level	   *level = trace->level;
	Level	   *before = trace->level;
	RangeTblEntry *rte;
	Node	   *result;

	for (Index up = var->varlevelsup; up > 0 && level != NULL; up--)
		level = level->outer;
	if (level == NULL || var->varattno <= 0)
		return lost(trace, (Node *) var);
	rte = rt_fetch(var->varno, level->query->rtable);
	switch (rte->rtekind)
	{
		case RTE_RELATION:
			result = trace->column(rte, var, trace->context);
			return result != NULL ? result : lost(trace, (Node *) var);
		case RTE_SUBQUERY:
			return trace_output(rte->subquery, var->varattno, level, trace);
		case RTE_CTE:
			return trace_cte(rte, var, level, trace);
		case RTE_JOIN:
			trace->level = level;
			result = trace_mutator(list_nth(rte->joinaliasvars, var->varattno - 1), trace);
			trace->level = before;
			return result;
		default:
			return lost(trace, (Node *) var);
	}
}

static Node *
trace_mutator(Node *node, Trace *trace)
{
	if (node == NULL)
		return NULL;
	if (IsA(node, Var))
		return trace_var((Var *) node, trace);
	if (IsA(node, SubLink) || IsA(node, Param) || IsA(node, Query))
		return lost(trace, node);
	return expression_tree_mutator(node, trace_mutator, trace);
}

/*
 * An expression of a query level in terms of columns of tables, each replaced by
 * what the callback returns for it.  NULL if it is made of something else too, or
 * if the callback returns NULL.
 */
Node *
sq_trace(Query *level, Node *expr, SqTraceColumn column, void *context)
{
	Level		top = {level, NULL};
	Trace		trace = {&top, column, context, false};
	Node	   *result = trace_mutator(copyObject(expr), &trace);

	return trace.lost ? NULL : result;
}
