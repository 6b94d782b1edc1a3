/*
 * probe.c
 *		Finding calls that fail whatever the row.
 *
 * date_bin() with a stride of months, date_trunc() with a unit that is none, or a
 * time zone that nobody knows are errors of the query, but PostgreSQL finds them with
 * the first row only.  Here such functions are called once, when the query is
 * created, with an example in place of each time that is not a constant.  What may not
 * be reached, the branches of CASE and COALESCE, is left alone.
 */
#include "compiler/probe.h"

#include "catalog/pg_namespace.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_type.h"
#include "nodes/nodeFuncs.h"
#include "nodes/primnodes.h"
#include "optimizer/optimizer.h"
#include "utils/date.h"
#include "utils/lsyscache.h"
#include "utils/timestamp.h"

#define PROBE_ARGS_MAX 3

/* functions that take times, and what an error depends on besides */
static const char *const probed[] = {"date_bin", "date_part", "date_trunc", "extract", "timezone"};

static bool
is_probed(Oid function)
{
	char	   *name;

	if (get_func_namespace(function) != PG_CATALOG_NAMESPACE ||
		func_volatile(function) == PROVOLATILE_VOLATILE || !func_strict(function))
		return false;
	name = get_func_name(function);
	for (size_t i = 0; i < lengthof(probed); i++)
		if (strcmp(name, probed[i]) == 0)
			return true;
	return false;
}

/* an example of a time; false for other types */
static bool
get_example(Oid type, Datum *example)
{
	switch (type)
	{
		case DATEOID:
			*example = DateADTGetDatum(0);
			return true;
		case TIMESTAMPOID:
			*example = TimestampGetDatum(0);
			return true;
		case TIMESTAMPTZOID:
			*example = TimestampTzGetDatum(0);
			return true;
		case TIMEOID:
			*example = TimeADTGetDatum(0);
			return true;
		default:
			return false;
	}
}

/* calls the function, if all but its times is constant */
static void
probe_call(const FuncExpr *call)
{
	LOCAL_FCINFO(fcinfo, PROBE_ARGS_MAX);
	FmgrInfo	function;
	ListCell   *lc;

	if (list_length(call->args) > PROBE_ARGS_MAX)
		return;
	fmgr_info(call->funcid, &function);
	InitFunctionCallInfoData(*fcinfo, &function, list_length(call->args), call->inputcollid,
							 NULL, NULL);
	foreach(lc, call->args)
	{
		Node	   *arg = eval_const_expressions(NULL, copyObject(lfirst(lc)));
		NullableDatum *value = &fcinfo->args[foreach_current_index(lc)];

		value->isnull = false;
		if (IsA(arg, Const) && ((Const *) arg)->constisnull)
			return;
		if (IsA(arg, Const))
			value->value = ((Const *) arg)->constvalue;
		else if (!get_example(exprType(arg), &value->value))
			return;
	}
	(void) FunctionCallInvoke(fcinfo);
}

static bool
probe_walker(Node *node, void *context)
{
	if (node == NULL || IsA(node, CaseExpr) || IsA(node, CoalesceExpr))
		return false;
	if (IsA(node, Query))
		return query_tree_walker((Query *) node, probe_walker, context, 0);
	if (IsA(node, FuncExpr) && is_probed(((FuncExpr *) node)->funcid))
		probe_call((FuncExpr *) node);
	return expression_tree_walker(node, probe_walker, context);
}

/* An error if a call that takes times apart fails for each of them. */
void
sq_probe_times(const Query *query)
{
	(void) probe_walker((Node *) unconstify(Query *, query), NULL);
}
