/*
 * aggregation.c
 *		What a query that aggregates keeps: its group keys and aggregate calls.
 *
 * Each aggregate of PostgreSQL can be kept in some way.  With a combine function
 * (and a state that can be stored) its transition state is; the partial states
 * of a batch are combined with it.  A typed state without combine function is
 * continued with the transition function.  agg(DISTINCT x) combines over the
 * inputs that were not there before.  All others (ordered inputs, ordered-set
 * aggregates, states that cannot be stored) are computed anew from the inputs of
 * the group, which are kept.
 *
 * Reads the query only.
 */
#include "compiler/aggregation.h"

#include "access/htup_details.h"
#include "aggregate/serialized.h"
#include "catalog/pg_aggregate.h"
#include "catalog/pg_type.h"
#include "compiler/shape.h"
#include "miscadmin.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/optimizer.h"
#include "optimizer/tlist.h"
#include "parser/parse_agg.h"
#include "rewrite/rewriteManip.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/regproc.h"
#include "utils/syscache.h"
#include "utils/typcache.h"

/* ------------------------------------------------------------------ types */

static bool
is_storable(Oid type)
{
	return get_typtype(type) != TYPTYPE_PSEUDO;
}

/* refuses what cannot be a column of the state, and an index on it */
static void
check_key(const SqKey *key)
{
	TypeCacheEntry *entry;

	if (!is_storable(key->type))
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("a group key of type %s cannot be kept", format_type_be(key->type)),
				 errhint("Group by its columns, or cast it to a type that a table can have.")));
	if (key->clause == NULL)
		return;					/* only depends on the others */
	entry = lookup_type_cache(key->type, TYPECACHE_BTREE_OPFAMILY);
	if (!OidIsValid(entry->btree_opf))
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("a group key of type %s cannot be kept", format_type_be(key->type)),
				 errdetail("The type has no default operator class for access method \"btree\"."),
				 errhint("Cast the key to another type, such as text.")));
}

static void
refuse_call(const Aggref *aggref, const char *detail, const char *hint)
{
	ereport(ERROR,
			(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			 errmsg("aggregate %s cannot be kept", format_procedure(aggref->aggfnoid)),
			 errdetail("%s", detail),
			 errhint("%s", hint)));
}

/* -------------------------------------------------------------------- keys */

static SqKey *
make_key(Expr *expr, SortGroupClause *clause, List *numbers, int position)
{
	SqKey	   *key = palloc0(sizeof(SqKey));

	key->number = position < list_length(numbers) ? list_nth_int(numbers, position) : position + 1;
	key->expr = expr;
	key->type = exprType((Node *) expr);
	key->typmod = exprTypmod((Node *) expr);
	key->collation = exprCollation((Node *) expr);
	key->clause = clause;
	check_key(key);
	return key;
}

static void
find_keys(SqAggregation *aggregation, List *numbers)
{
	Query	   *level = aggregation->level;
	ListCell   *lc;

	foreach(lc, level->groupClause)
	{
		SortGroupClause *clause = lfirst_node(SortGroupClause, lc);
		Expr	   *expr = get_sortgroupclause_tle(clause, level->targetList)->expr;

		if (sq_aggregation_find_key(aggregation, (Node *) expr, 0) != NULL)
			continue;
		aggregation->keys = lappend(aggregation->keys,
									make_key(expr, clause, numbers,
											 list_length(aggregation->keys)));
	}
}

/* The key that an expression is, seen from levelsup levels further in; or NULL. */
SqKey *
sq_aggregation_find_key(const SqAggregation *aggregation, Node *expr, int levelsup)
{
	ListCell   *lc;

	foreach(lc, aggregation->keys)
	{
		SqKey	   *key = lfirst(lc);
		Node	   *seen = (Node *) key->expr;

		if (levelsup > 0)
		{
			seen = copyObject(seen);
			IncrementVarSublevelsUp(seen, levelsup, 0);
		}
		if (equal(seen, expr))
			return key;
	}
	return NULL;
}

/* ------------------------------------------------------------------- calls */

/* The call that an Aggref is, seen from levelsup levels further in; or NULL. */
SqCall *
sq_aggregation_find_call(const SqAggregation *aggregation, Aggref *aggref, int levelsup)
{
	ListCell   *lc;

	foreach(lc, aggregation->calls)
	{
		SqCall	   *call = lfirst(lc);
		Node	   *seen = (Node *) call->aggref;

		if (levelsup > 0)
		{
			seen = copyObject(seen);
			IncrementVarSublevelsUp(seen, levelsup, 0);
		}
		if (equal(seen, aggref))
			return call;
	}
	return NULL;
}

/* inputs that are to be kept have to be storable */
static void
check_inputs(const SqCall *call)
{
	ListCell   *lc;

	foreach(lc, call->aggref->args)
	{
		Oid			type = exprType((Node *) lfirst_node(TargetEntry, lc)->expr);

		if (is_storable(type))
			continue;
		refuse_call(call->aggref,
					psprintf("Its inputs would have to be kept, but a column cannot be of type %s.",
							 format_type_be(type)),
					"Cast the argument to a type that a table can have, such as a composite type of your own, jsonb or text.");
	}
}

/* how a call is to be kept */
static void
choose_kind(SqCall *call)
{
	Aggref	   *aggref = call->aggref;
	HeapTuple	tuple = SearchSysCache1(AGGFNOID, ObjectIdGetDatum(aggref->aggfnoid));
	Form_pg_aggregate form;
	Oid			inputs[FUNC_MAX_ARGS];
	Oid			state;
	bool		ordered;
	bool		stored;

	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for aggregate %u", aggref->aggfnoid);
	form = (Form_pg_aggregate) GETSTRUCT(tuple);
	state = resolve_aggregate_transtype(aggref->aggfnoid, form->aggtranstype, inputs,
										get_aggregate_argtypes(aggref, inputs));
	ordered = aggref->aggkind != AGGKIND_NORMAL || aggref->aggorder != NIL;
	stored = state == INTERNALOID ?
		OidIsValid(form->aggserialfn) && sq_serialized_is_known(form->aggdeserialfn) :
		is_storable(state);

	if (!ordered && stored && OidIsValid(form->aggcombinefn))
		call->kind = aggref->aggdistinct != NIL ? SQ_CALL_DISTINCT : SQ_CALL_COMBINE;
	else if (!ordered && stored && state != INTERNALOID && aggref->aggdistinct == NIL &&
			 !aggref->aggvariadic)
		call->kind = SQ_CALL_RESUME;
	else
		call->kind = SQ_CALL_ROWS;

	call->state_is_internal = state == INTERNALOID;
	call->state_type = state == INTERNALOID ? BYTEAOID : state;
	call->is_value = !OidIsValid(form->aggfinalfn) && call->state_type == aggref->aggtype;
	call->final_wants_arguments = form->aggfinalextra ||
		(OidIsValid(form->aggfinalfn) && IsPolymorphicType(get_func_rettype(form->aggfinalfn)));
	ReleaseSysCache(tuple);

	if (call->kind == SQ_CALL_ROWS)
		call->state_type = InvalidOid;
	else if (type_is_collatable(call->state_type))
		call->state_collation = OidIsValid(aggref->inputcollid) ? aggref->inputcollid :
			get_typcollation(call->state_type);
	if (call->kind == SQ_CALL_ROWS || call->kind == SQ_CALL_DISTINCT)
		check_inputs(call);
}

/* walking the expressions of the level, and what is in them */
typedef struct LevelContext
{
	SqAggregation *aggregation;
	List	   *numbers;
	int			levelsup;
} LevelContext;

static bool
find_calls_walker(Node *node, LevelContext *context)
{
	if (node == NULL)
		return false;
	if (IsA(node, Aggref) && (int) ((Aggref *) node)->agglevelsup == context->levelsup)
	{
		SqAggregation *aggregation = context->aggregation;
		int			position = list_length(aggregation->calls);
		SqCall	   *call;

		if (sq_aggregation_find_call(aggregation, (Aggref *) node, context->levelsup) != NULL)
			return false;
		call = palloc0(sizeof(SqCall));
		call->number = position < list_length(context->numbers) ?
			list_nth_int(context->numbers, position) : position + 1;
		call->aggref = copyObject((Aggref *) node);
		if (context->levelsup > 0)
			IncrementVarSublevelsUp((Node *) call->aggref, -context->levelsup, 0);
		choose_kind(call);
		aggregation->calls = lappend(aggregation->calls, call);
		return false;
	}
	if (IsA(node, Query))
	{
		bool		result;

		context->levelsup++;
		result = query_tree_walker((Query *) node, find_calls_walker, context, 0);
		context->levelsup--;
		return result;
	}
	return expression_tree_walker(node, find_calls_walker, context);
}

/* ------------------------------------------------- functional dependencies */

/* columns that are neither key nor in an aggregate depend on the keys */
static bool
find_dependent_walker(Node *node, LevelContext *context)
{
	SqAggregation *aggregation = context->aggregation;

	if (node == NULL)
		return false;
	if (!IsA(node, Query) && !IsA(node, TargetEntry) && !IsA(node, List) &&
		sq_aggregation_find_key(aggregation, node, context->levelsup) != NULL)
		return false;
	if (IsA(node, Aggref) && (int) ((Aggref *) node)->agglevelsup == context->levelsup)
		return false;
	if (IsA(node, Var) && (int) ((Var *) node)->varlevelsup == context->levelsup)
	{
		Node	   *column = copyObject(node);

		((Var *) column)->varlevelsup = 0;
		aggregation->keys = lappend(aggregation->keys,
									make_key((Expr *) column, NULL, context->numbers,
											 list_length(aggregation->keys)));
		return false;
	}
	if (IsA(node, Query))
	{
		bool		result;

		context->levelsup++;
		result = query_tree_walker((Query *) node, find_dependent_walker, context, 0);
		context->levelsup--;
		return result;
	}
	return expression_tree_walker(node, find_dependent_walker, context);
}

/* --------------------------------------------------------------- event time */

/* the key that tells when a group is final: one that needs no state is better */
static void
find_time_key(SqAggregation *aggregation, List *sources)
{
	ListCell   *lc;

	foreach(lc, aggregation->keys)
	{
		SqKey	   *key = lfirst(lc);
		SqEventKey	event;

		if (key->clause == NULL ||
			!sq_event_time_key(aggregation->level, key->expr, sources, &event))
			continue;
		if (aggregation->time_key != NULL && !(event.floor && !aggregation->event.floor))
			continue;
		aggregation->time_key = key;
		aggregation->event = event;
	}
}

/*
 * Analyses the level of a query that aggregates.  sources are its SqSource;
 * key_numbers and call_numbers say which columns of the state its keys and calls
 * are, in their order (NIL: 1, 2, ...).
 */
SqAggregation *
sq_aggregation_analyse(Query *level, List *sources, List *key_numbers, List *call_numbers)
{
	SqAggregation *aggregation = palloc0(sizeof(SqAggregation));
	LevelContext calls = {aggregation, call_numbers, 0};
	LevelContext dependent = {aggregation, key_numbers, 0};

	aggregation->level = level;
	find_keys(aggregation, key_numbers);
	(void) find_calls_walker((Node *) level->targetList, &calls);
	(void) find_calls_walker(level->havingQual, &calls);
	(void) find_dependent_walker((Node *) level->targetList, &dependent);
	(void) find_dependent_walker(level->havingQual, &dependent);
	find_time_key(aggregation, sources);
	return aggregation;
}

bool
sq_aggregation_has(const SqAggregation *aggregation, SqCallKind kind)
{
	ListCell   *lc;

	foreach(lc, aggregation->calls)
	{
		if (((SqCall *) lfirst(lc))->kind == kind)
			return true;
	}
	return false;
}

/* False for an aggregation of all rows into one. */
bool
sq_aggregation_is_grouped(const SqAggregation *aggregation)
{
	return aggregation->keys != NIL;
}
