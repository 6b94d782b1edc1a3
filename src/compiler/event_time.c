/*
 * event_time.c
 *		Which group keys carry the event time, and when a group is final.
 *
 * A key is followed through subqueries, joins and UNION ALL down to columns of
 * sources.  It carries the event time when it is a monotone function of an
 * event-time column with a watermark, and of nothing else.  Then one rule tells
 * finality: the key's own expression evaluated on the watermark is greater than
 * the key (for a function that never repeats itself, such as the column alone:
 * at least the key).  That is Spark's "window end <= watermark".
 *
 * The list of functions below only asserts that they are monotone: for event
 * times a <= b it never happens that f(a) > f(b).  Local times are not (an hour
 * is repeated when daylight saving ends), and adding days to a timestamptz is
 * not either.  In the few zones whose clock has ever been put back over midnight the
 * day of a timestamptz is not, quite: rows of that hour count as late.
 */
#include "compiler/event_time.h"

#include "catalog/pg_type.h"
#include "catalog/sourcedef.h"
#include "compiler/strategy.h"
#include "compiler/streams.h"
#include "compiler/trace.h"
#include "miscadmin.h"
#include "nodes/nodeFuncs.h"
#include "pgtime.h"
#include "optimizer/optimizer.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/timestamp.h"

/* what a key is followed down to */
typedef struct EventTime
{
	List	   *sources;		/* SqSource */
	Oid			column_type;	/* InvalidOid: none found yet */
} EventTime;

/* the event time itself */
static Node *
event_param(Oid type)
{
	Param	   *param = makeNode(Param);

	param->paramkind = PARAM_EXTERN;
	param->paramid = 1;
	param->paramtype = type;
	param->paramtypmod = -1;
	param->location = -1;
	return (Node *) param;
}

/* an event-time column becomes the parameter, any other column gives up */
static Node *
event_time_column(const RangeTblEntry *rte, Var *var, void *arg)
{
	EventTime  *context = arg;
	ListCell   *lc;

	if (!sq_streams_is_stream(rte))
		return NULL;
	foreach(lc, context->sources)
	{
		const SqSource *source = lfirst(lc);

		if (source->relid != rte->relid || source->event_time != var->varattno ||
			source->watermark_delay == NULL)
			continue;
		if (OidIsValid(context->column_type) && context->column_type != var->vartype)
			return NULL;
		context->column_type = var->vartype;
		return event_param(var->vartype);
	}
	return NULL;
}

/* ------------------------------------------------------------ monotone? */

static bool is_monotone(Node *node, SqEventKey *key);

static bool
contains_param(Node *node, void *context)
{
	if (node == NULL)
		return false;
	if (IsA(node, Param) || IsA(node, SubLink))
		return true;
	return expression_tree_walker(node, contains_param, context);
}

/* an argument that is the same for all rows of all batches */
static bool
is_constant(Node *node)
{
	return !contain_var_clause(node) && !sq_strategy_changes(node) &&
		!contains_param(node, NULL);
}

static bool
is_utc(Node *node)
{
	const char *zone;

	if (!IsA(node, Const) || ((Const *) node)->constisnull ||
		((Const *) node)->consttype != TEXTOID)
		return false;
	zone = TextDatumGetCString(((Const *) node)->constvalue);
	return pg_strcasecmp(zone, "UTC") == 0 || pg_strcasecmp(zone, "GMT") == 0 ||
		pg_strcasecmp(zone, "Etc/UTC") == 0;
}

/* adding an interval: of fixed length where the clock can be put back */
static bool
is_fixed_interval(Node *node, bool days_vary)
{
	const Interval *interval;

	if (!IsA(node, Const) || ((Const *) node)->constisnull ||
		((Const *) node)->consttype != INTERVALOID)
		return false;
	interval = DatumGetIntervalP(((Const *) node)->constvalue);
	return interval->month == 0 && (!days_vary || interval->day == 0);
}

/* the query's time zone is at the same distance from UTC at all times */
static bool
is_fixed_zone(void)
{
	long		offset;

	return pg_get_timezone_offset(session_timezone, &offset);
}

/*
 * True if the function gives the first moment of a window.  Where the clock is put
 * back to midnight there are two of them, and PostgreSQL takes the second one; where
 * it is moved by a part of an hour, the hour of an hour is another one.
 */
static bool
is_floor(Oid function, List *args)
{
	switch (function)
	{
		case F_DATE_BIN_INTERVAL_TIMESTAMP_TIMESTAMP:
		case F_DATE_BIN_INTERVAL_TIMESTAMPTZ_TIMESTAMPTZ:
		case F_DATE_TRUNC_TEXT_TIMESTAMP:
		case F_DATE_TIMESTAMP:
			return true;
		case F_DATE_TRUNC_TEXT_TIMESTAMPTZ:
			return is_fixed_zone();
		case F_DATE_TRUNC_TEXT_TIMESTAMPTZ_TEXT:
			return is_utc(lthird(args));
		case F_DATE_TIMESTAMPTZ:
		case F_TIMESTAMPTZ_DATE:
			return is_fixed_zone();
		case F_TIMESTAMP_DATE:
			return true;
		default:
			return false;
	}
}

/* f(time, ...), all other arguments constant */
static bool
is_monotone_call(Oid function, List *args, SqEventKey *key)
{
	int			time = 0;		/* which argument */
	bool		keeps_injective = false;

	switch (function)
	{
		case F_DATE_BIN_INTERVAL_TIMESTAMP_TIMESTAMP:
		case F_DATE_BIN_INTERVAL_TIMESTAMPTZ_TIMESTAMPTZ:
		case F_DATE_TRUNC_TEXT_TIMESTAMP:
		case F_DATE_TRUNC_TEXT_TIMESTAMPTZ:
		case F_DATE_TRUNC_TEXT_TIMESTAMPTZ_TEXT:
			time = 1;
			break;
		case F_DATE_TIMESTAMP:
		case F_DATE_TIMESTAMPTZ:
			break;
		case F_TIMESTAMP_DATE:
		case F_TIMESTAMPTZ_DATE:
			keeps_injective = true;
			break;
		case F_TIMEZONE_TEXT_TIMESTAMPTZ:
		case F_TIMEZONE_TEXT_TIMESTAMP:
			if (!is_utc(linitial(args)))
				return false;
			time = 1;
			keeps_injective = true;
			break;
		case F_TIMESTAMPTZ_PL_INTERVAL:
		case F_TIMESTAMPTZ_MI_INTERVAL:
		case F_TIMESTAMP_PL_INTERVAL:
		case F_TIMESTAMP_MI_INTERVAL:
			if (!is_fixed_interval(lsecond(args), function == F_TIMESTAMPTZ_PL_INTERVAL ||
								   function == F_TIMESTAMPTZ_MI_INTERVAL))
				return false;
			keeps_injective = true;
			break;
		case F_DATE_PLI:
		case F_DATE_MII:
			keeps_injective = true;
			break;
		default:
			return false;
	}
	for (int i = 0; i < list_length(args); i++)
		if (i != time && !is_constant(list_nth(args, i)))
			return false;
	if (!is_monotone(list_nth(args, time), key))
		return false;
	/* a floor of a floor need not give the same when it is taken again */
	key->floor &= is_floor(function, args) && key->injective;
	if (key->column_type == DATEOID && !keeps_injective && function != F_DATE_TRUNC_TEXT_TIMESTAMPTZ)
		key->floor = false;		/* its windows do not begin at midnight */
	key->injective &= keeps_injective;
	return true;
}

static bool
is_monotone(Node *node, SqEventKey *key)
{
	check_stack_depth();
	switch (nodeTag(node))
	{
		case T_Param:
			key->injective = key->floor = true;
			return true;
		case T_RelabelType:
			return is_monotone((Node *) ((RelabelType *) node)->arg, key);
		case T_FuncExpr:
			return is_monotone_call(((FuncExpr *) node)->funcid, ((FuncExpr *) node)->args, key);
		case T_OpExpr:
			set_opfuncid((OpExpr *) node);
			return is_monotone_call(((OpExpr *) node)->opfuncid, ((OpExpr *) node)->args, key);
		default:
			return false;
	}
}

/*
 * True if a grouping expression of the level carries the event time of the
 * sources (SqSource), and how.
 */
bool
sq_event_time_key(Query *level, Expr *key, List *sources, SqEventKey *result)
{
	EventTime	context = {sources, InvalidOid};
	Node	   *function = sq_trace(level, (Node *) key, event_time_column, &context);

	if (function == NULL || !OidIsValid(context.column_type))
		return false;
	/* interval literals and the like are constants only after folding */
	function = eval_const_expressions(NULL, function);
	result->function = (Expr *) function;
	result->column_type = context.column_type;
	return is_monotone(function, result);
}

static Node *
bound_mutator(Node *node, int *paramid)
{
	if (node == NULL)
		return NULL;
	if (IsA(node, Param))
	{
		Param	   *param = copyObject((Param *) node);

		param->paramid = *paramid;
		return (Node *) param;
	}
	return expression_tree_mutator(node, bound_mutator, paramid);
}

/* The key's value for the time in a parameter. */
Expr *
sq_event_time_bound(const SqEventKey *key, int paramid)
{
	return (Expr *) bound_mutator((Node *) key->function, &paramid);
}
