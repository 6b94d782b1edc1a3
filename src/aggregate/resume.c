/*
 * resume.c
 *		SQL function resume_state: goes on with the transition state of an
 *		aggregate, row by row.
 *
 * It is for aggregates that have no combine function.  The transition type must not
 * be internal, as such a state does not outlive its Agg node.  The rules are those of
 * advance_transition_function() in nodeAgg.c.
 *
 * As in state.c anybody can call it with anything, so the rows' types are compared
 * with those that the aggregate is declared with.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "aggregate/aggregate.h"
#include "catalog/pg_collation.h"
#include "catalog/pg_type.h"
#include "executor/executor.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "parser/parse_agg.h"
#include "parser/parse_coerce.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/datum.h"
#include "utils/expandeddatum.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/regproc.h"
#include "utils/syscache.h"
#include "utils/typcache.h"

PG_FUNCTION_INFO_V1(streamq_resume_state);

/* positions of arguments after those that aggregate.h names */
#define ARG_INPUTS 2
#define ARG_BEGUN 3

/*
 * How the transition function is called for rows of certain types; prepared anew
 * when others come.
 */
struct SqTransition
{
	MemoryContext context;		/* holds all of this */
	int32		typmod;			/* of the rows' anonymous record type */
	TupleDesc	desc;			/* of that type; NULL if not prepared */
	FmgrInfo	function;
	FunctionCallInfo call;		/* argument 0 is the state */
	Datum	   *values;
	bool	   *nulls;
};

/* The initial value is stored as text, which the state's type reads. */
static void
set_initial(SqAggregate *agg)
{
	HeapTuple	tuple = SearchSysCache1(AGGFNOID, ObjectIdGetDatum(agg->oid));
	Datum		initval;
	Oid			input;
	Oid			ioparam;

	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for aggregate %u", agg->oid);
	initval = SysCacheGetAttr(AGGFNOID, tuple, Anum_pg_aggregate_agginitval,
							  &agg->initial.isnull);
	if (!agg->initial.isnull)
	{
		getTypeInputInfo(agg->state_type, &input, &ioparam);
		agg->initial.value =
			OidInputFunctionCall(input, TextDatumGetCString(initval), ioparam, -1);
	}
	ReleaseSysCache(tuple);
}

static void
set_resume(SqAggregate *agg, FunctionCallInfo fcinfo)
{
	Oid			inputs = get_fn_expr_argtype(fcinfo->flinfo, ARG_INPUTS);

	if (agg->form.aggtranstype == INTERNALOID)
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("state of aggregate %s cannot be resumed",
						format_procedure(agg->oid)),
				 errdetail("Its transition type is %s.",
						   format_type_be(INTERNALOID))));
	sq_aggregate_set_state_type(agg, fcinfo);
	if (inputs != RECORDARRAYOID)
		ereport(ERROR,
				(errcode(ERRCODE_DATATYPE_MISMATCH),
				 errmsg("inputs must be of type %s, not type %s",
						format_type_be(RECORDARRAYOID), format_type_be(inputs)),
				 errhint("Use array_agg(ROW(...)).")));
	set_initial(agg);
	agg->transition = palloc0(sizeof(SqTransition));
	agg->transition->context = AllocSetContextCreate(agg->context,
													 "streamq transition",
													 ALLOCSET_SMALL_SIZES);
}

/*
 * The collation of the rows' columns, by the rule for implicit ones: any other
 * beats the default, two others make it indeterminate.
 */
static Oid
collation_of_columns(TupleDesc desc)
{
	Oid			result = InvalidOid;

	for (int i = 0; i < desc->natts; i++)
	{
		Oid			collation = TupleDescAttr(desc, i)->attcollation;

		if (!OidIsValid(collation) || collation == result)
			continue;
		if (!OidIsValid(result) || result == DEFAULT_COLLATION_OID)
			result = collation;
		else if (collation != DEFAULT_COLLATION_OID)
			return InvalidOid;
	}
	return result;
}

/* Prepares calls of the transition function for rows of an anonymous type. */
static void
set_transition(SqAggregate *agg, int32 typmod)
{
	SqTransition *transition = agg->transition;
	Oid			function = agg->form.aggtransfn;
	TupleDesc	desc;
	Oid			args[FUNC_MAX_ARGS];
	Oid			state_type;
	Oid			result_type;
	Oid			collation;
	int			nargs;
	Expr	   *expr;
	MemoryContext caller;

	transition->desc = NULL;
	MemoryContextReset(transition->context);
	caller = MemoryContextSwitchTo(transition->context);
	desc = lookup_rowtype_tupdesc_copy(RECORDOID, typmod);
	nargs = desc->natts;
	if (nargs >= FUNC_MAX_ARGS)
		ereport(ERROR,
				(errcode(ERRCODE_TOO_MANY_ARGUMENTS),
				 errmsg("aggregates cannot have more than %d arguments",
						FUNC_MAX_ARGS - 1)));
	for (int i = 0; i < nargs; i++)
		args[i] = TupleDescAttr(desc, i)->atttypid;
	sq_aggregate_resolve_types(agg, args, nargs, &state_type, &result_type);
	sq_aggregate_check_state_type(agg, agg->state_type, state_type);

	sq_aggregate_find_function(agg, function, &transition->function);
	if (transition->function.fn_strict && agg->initial.isnull &&
		(nargs == 0 || !IsBinaryCoercible(args[0], agg->state_type)))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_FUNCTION_DEFINITION),
				 errmsg("aggregate %s needs to have compatible input type and transition type",
						format_procedure(agg->oid))));
	collation = OidIsValid(agg->collation) ? agg->collation : collation_of_columns(desc);
	build_aggregate_transfn_expr(args, nargs, 0, false, agg->state_type, collation,
								 function, InvalidOid, &expr, NULL);
	fmgr_info_set_expr((Node *) expr, &transition->function);

	transition->call = palloc(SizeForFunctionCallInfo(nargs + 1));
	InitFunctionCallInfoData(*transition->call, &transition->function, nargs + 1,
							 collation, (Node *) agg->node, NULL);
	transition->values = palloc(sizeof(Datum) * (nargs + 1));
	transition->nulls = palloc(sizeof(bool) * (nargs + 1));
	MemoryContextSwitchTo(caller);
	transition->typmod = typmod;
	transition->desc = desc;
}

/* Puts the columns of a row into the arguments of the transition function. */
static void
load_arguments(SqAggregate *agg, HeapTupleHeader row)
{
	SqTransition *transition = agg->transition;
	HeapTupleData tuple;

	tuple.t_len = HeapTupleHeaderGetDatumLength(row);
	ItemPointerSetInvalid(&tuple.t_self);
	tuple.t_tableOid = InvalidOid;
	tuple.t_data = row;
	heap_deform_tuple(&tuple, transition->desc, transition->values,
					  transition->nulls);
	for (int i = 0; i < transition->desc->natts; i++)
	{
		transition->call->args[i + 1].value = transition->values[i];
		transition->call->args[i + 1].isnull = transition->nulls[i];
	}
}

/*
 * Moves what the transition function has returned to where states live, and
 * frees the state before, as ExecAggTransReparent() does.
 */
static Datum
keep_state(SqAggregate *agg, SqValue result, SqValue before)
{
	MemoryContext old = MemoryContextSwitchTo(sq_aggregate_state_memory(agg));

	if (!result.isnull &&
		(!DatumIsReadWriteExpandedObject(result.value, false, agg->typlen) ||
		 MemoryContextGetParent(DatumGetEOHP(result.value)->eoh_context) != CurrentMemoryContext))
		result.value = datumCopy(result.value, agg->typbyval, agg->typlen);
	if (!before.isnull)
	{
		if (DatumIsReadWriteExpandedObject(before.value, false, agg->typlen))
			DeleteExpandedObject(before.value);
		else
			pfree(DatumGetPointer(before.value));
	}
	MemoryContextSwitchTo(old);
	return result.value;
}

/*
 * One call of the transition function, as advance_transition_function() makes
 * it.  *no_value is true as long as the first input can become the state.
 */
static void
advance(SqAggregate *agg, SqValue *state, bool *no_value)
{
	FunctionCallInfo call = agg->transition->call;
	SqValue		result;
	MemoryContext old;

	if (agg->transition->function.fn_strict)
	{
		for (int i = 1; i < call->nargs; i++)
			if (call->args[i].isnull)
				return;
		if (*no_value)
		{
			old = MemoryContextSwitchTo(sq_aggregate_state_memory(agg));
			state->value = datumCopy(call->args[1].value, agg->typbyval, agg->typlen);
			state->isnull = false;
			*no_value = false;
			MemoryContextSwitchTo(old);
			return;
		}
		if (state->isnull)
			return;
	}

	old = MemoryContextSwitchTo(agg->node->tmpcontext->ecxt_per_tuple_memory);
	call->args[0].value = state->value;
	call->args[0].isnull = state->isnull;
	call->isnull = false;
	result.value = FunctionCallInvoke(call);
	result.isnull = call->isnull;
	MemoryContextSwitchTo(old);

	/* the pointers can be compared as a NULL has none */
	if (result.isnull)
		result.value = (Datum) 0;
	if (!agg->typbyval && result.value != state->value)
		result.value = keep_state(agg, result, *state);
	*state = result;
}

/* True if the rows of an anonymous type have the columns of the prepared ones. */
static bool
same_columns(SqTransition *transition, int32 typmod)
{
	TupleDesc	desc = lookup_rowtype_tupdesc(RECORDOID, typmod);
	bool		result = desc->natts == transition->desc->natts;

	for (int i = 0; result && i < desc->natts; i++)
		result = TupleDescAttr(desc, i)->atttypid ==
			TupleDescAttr(transition->desc, i)->atttypid;
	ReleaseTupleDesc(desc);
	return result;
}

/*
 * Sees to it that the transition function is prepared for a row.  Each call of
 * resume_state may come with rows of other types, but the rows of one call have to
 * agree.
 */
static void
choose_transition(SqAggregate *agg, HeapTupleHeader row, bool first)
{
	SqTransition *transition = agg->transition;
	int32		typmod = HeapTupleHeaderGetTypMod(row);

	if (HeapTupleHeaderGetTypeId(row) != RECORDOID)
		ereport(ERROR,
				(errcode(ERRCODE_DATATYPE_MISMATCH),
				 errmsg("rows of inputs must not be of a named type"),
				 errdetail("One is of type %s.",
						   format_type_be(HeapTupleHeaderGetTypeId(row)))));
	if (transition->desc != NULL && transition->typmod == typmod)
		return;
	if (transition->desc != NULL && same_columns(transition, typmod))
		transition->typmod = typmod;
	else if (first)
		set_transition(agg, typmod);
	else
		ereport(ERROR,
				(errcode(ERRCODE_DATATYPE_MISMATCH),
				 errmsg("rows of inputs are of different types")));
}

/* Calls the transition function for each row. */
static void
advance_all(SqAggregate *agg, Datum inputs, SqValue *state, bool no_value)
{
	ArrayIterator iterator = array_create_iterator(DatumGetArrayTypeP(inputs), 0, NULL);
	bool		first = true;
	SqValue		element;

	while (array_iterate(iterator, &element.value, &element.isnull))
	{
		HeapTupleHeader row;

		CHECK_FOR_INTERRUPTS();
		if (element.isnull)
			ereport(ERROR,
					(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
					 errmsg("a row of inputs must not be null")));
		row = DatumGetHeapTupleHeader(element.value);
		choose_transition(agg, row, first);
		first = false;
		load_arguments(agg, row);
		advance(agg, state, &no_value);
		ResetExprContext(agg->node->tmpcontext);
	}
}

/*
 * streamq.resume_state(agg regprocedure, state anyelement, inputs "any",
 *						begun boolean) RETURNS anyelement
 *
 * The state of agg after further rows, by its transition function: for aggregates
 * without a combine function whose transition type is not internal.  inputs is of
 * type record[]; each record holds the arguments of agg in one row, in order.  NULL
 * means no rows.  Begins with state if begun, else with the initial value; state
 * then only tells the type.
 *
 * A strict transition function without initial value makes the first row's
 * first argument the state.  Inside an Agg node that happens once; when the
 * function has returned NULL later on, NULL it stays.  A state that has been kept
 * does not tell the two apart: here NULL means that there is no value yet.
 *
 * Refuses what is not an aggregate, or has a transition type of internal (42809);
 * states and rows of other types than those of agg (42804); a row that is NULL
 * (22004).  The caller has to have the right to call agg.
 */
Datum
streamq_resume_state(PG_FUNCTION_ARGS)
{
	SqAggregate *agg = sq_aggregate_get(fcinfo, set_resume);
	SqValue		inputs = sq_aggregate_argument(fcinfo, ARG_INPUTS);
	SqValue		begun = sq_aggregate_argument(fcinfo, ARG_BEGUN);
	SqValue		state;
	bool		no_value;
	MemoryContext caller;

	if (begun.isnull)
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("begun must not be null")));
	if (DatumGetBool(begun.value))
		state = sq_aggregate_argument(fcinfo, ARG_STATE);
	else
		state = agg->initial;
	no_value = state.isnull && agg->initial.isnull;

	caller = MemoryContextSwitchTo(sq_aggregate_state_memory(agg));
	if (!inputs.isnull)
	{
		/* the transition function may scribble on it */
		if (!state.isnull)
			state.value = datumCopy(state.value, agg->typbyval, agg->typlen);
		advance_all(agg, inputs.value, &state, no_value);
	}
	MemoryContextSwitchTo(caller);
	return sq_aggregate_end_call(agg, fcinfo, state, agg->typbyval, agg->typlen);
}
