/*
 * state.c
 *		SQL functions on transition states of aggregates: combine two, finalize
 *		one.
 *
 * They are what lets states be kept in a table.  A state is a value of the
 * aggregate's transition type, or a bytea where that is internal: then it is what
 * the serialization function returned.  Who gets to see a NULL, and what is
 * copied because it may be scribbled on, is as in nodeAgg.c.
 *
 * Anybody can call these functions with anything, while support functions expect
 * only what their own aggregate made.  So each argument's type is compared with what
 * the aggregate's declaration makes of it (aggregate.c), and a bytea is looked
 * through before it is deserialized (serialized.c).  Ordered-set aggregates are
 * refused.
 */
#include "postgres.h"

#include "aggregate/aggregate.h"
#include "aggregate/serialized.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_type.h"
#include "compat.h"
#include "fmgr.h"
#include "parser/parse_agg.h"
#include "parser/parse_coerce.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/datum.h"
#include "utils/expandeddatum.h"
#include "utils/lsyscache.h"
#include "utils/regproc.h"

PG_FUNCTION_INFO_V1(streamq_combine_state);
PG_FUNCTION_INFO_V1(streamq_finalize_state);

/* positions of arguments after those that aggregate.h names */
#define ARG_OTHER_STATE 2		/* combine_state */
#define ARG_RESULT 2			/* finalize_state */
#define ARG_FIRST_TYPE 3		/* finalize_state, the rest */

/*
 * Prepares reading serialized states.  Whoever could have written the
 * deserialization function may have it called with anything, others only if
 * the bytes can be checked.
 */
static void
set_deserialize(SqAggregate *agg)
{
	Oid			function = agg->form.aggdeserialfn;
	Expr	   *expr;

	if (!OidIsValid(function) || !OidIsValid(agg->form.aggserialfn))
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("aggregate %s cannot serialize its state",
						format_procedure(agg->oid))));
	if (!sq_serialized_is_known(function) &&
		!object_ownercheck(ProcedureRelationId, function, agg->userid))
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("permission denied to pass a state to aggregate %s",
						format_procedure(agg->oid)),
				 errdetail("Only the owner of function %s may have it read a value of type bytea, as it may rely on what its aggregate has written.",
						   format_procedure(function))));
	sq_aggregate_find_function(agg, function, &agg->deserialize);
	build_aggregate_deserialfn_expr(function, &expr);
	fmgr_info_set_expr((Node *) expr, &agg->deserialize);
}

static void
set_combine(SqAggregate *agg, FunctionCallInfo fcinfo)
{
	Oid			function = agg->form.aggcombinefn;
	Oid			type;
	Expr	   *expr;

	if (!OidIsValid(function))
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("aggregate %s has no combine function",
						format_procedure(agg->oid))));
	sq_aggregate_set_state_type(agg, fcinfo);
	type = sq_aggregate_transition_type(agg);
	if (agg->internal)
	{
		set_deserialize(agg);
		sq_aggregate_find_function(agg, agg->form.aggserialfn, &agg->serialize);
		build_aggregate_serialfn_expr(agg->form.aggserialfn, &expr);
		fmgr_info_set_expr((Node *) expr, &agg->serialize);
	}
	sq_aggregate_find_function(agg, function, &agg->combine);
	if (agg->internal && agg->combine.fn_strict)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_FUNCTION_DEFINITION),
				 errmsg("combine function with transition type %s must not be declared STRICT",
						format_type_be(INTERNALOID))));
	build_aggregate_transfn_expr(&type, 1, 0, false, type, agg->collation,
								 function, InvalidOid, &expr, NULL);
	fmgr_info_set_expr((Node *) expr, &agg->combine);
}

/*
 * The types of the aggregate's arguments, if the call tells them or they are
 * fixed; returns their number, -1 if they are not known.
 */
static int
argument_types(SqAggregate *agg, FunctionCallInfo fcinfo, Oid *args)
{
	int			nargs = PG_NARGS() - ARG_FIRST_TYPE;

	if (nargs > 0)
	{
		if (get_fn_expr_variadic(fcinfo->flinfo))
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					 errmsg("arguments of an aggregate cannot be given as an array"),
					 errhint("Give a NULL of the type of each argument, without VARIADIC.")));
		for (int i = 0; i < nargs; i++)
		{
			args[i] = get_fn_expr_argtype(fcinfo->flinfo, ARG_FIRST_TYPE + i);
			if (!OidIsValid(args[i]))
				elog(ERROR, "could not determine the type of argument %d",
					 ARG_FIRST_TYPE + i + 1);
		}
		return nargs;
	}
	for (int i = 0; i < agg->nargs; i++)
	{
		args[i] = agg->declared_args[i];
		if (args[i] == ANYOID || IsPolymorphicType(args[i]))
			return -1;
	}
	return agg->nargs;
}

/*
 * The type of the result if those of the arguments are not known.  Then state and
 * result have to fit each other, and the final function must not ask for more.
 */
static Oid
result_type_alone(SqAggregate *agg, Oid given)
{
	Oid			actual[2] = {agg->state_type, given};
	Oid			declared[2] = {agg->form.aggtranstype, agg->declared_result};

	if (agg->form.aggfinalextra ||
		(IsPolymorphicType(declared[1]) && !IsPolymorphicType(declared[0])))
		ereport(ERROR,
				(errcode(ERRCODE_INDETERMINATE_DATATYPE),
				 errmsg("final function of aggregate %s needs the types of the arguments",
						format_procedure(agg->oid)),
				 errhint("Append a NULL of the type of each argument.")));
	if (!IsPolymorphicType(declared[1]))
		return declared[1];
	if (!OidIsValid(given) || !check_generic_type_consistency(actual, declared, 2))
		ereport(ERROR,
				(errcode(ERRCODE_DATATYPE_MISMATCH),
				 errmsg("result of aggregate %s with a state of type %s is not of type %s",
						format_procedure(agg->oid),
						format_type_be(agg->state_type), format_type_be(given))));
	return enforce_generic_type_consistency(actual, declared, 2,
											agg->declared_result, false);
}

static void
set_final(SqAggregate *agg, FunctionCallInfo fcinfo)
{
	Oid			function = agg->form.aggfinalfn;
	Oid			given = get_fn_expr_argtype(fcinfo->flinfo, ARG_RESULT);
	Oid			args[FUNC_MAX_ARGS];
	int			nargs;
	Expr	   *expr;

	sq_aggregate_set_state_type(agg, fcinfo);
	if (agg->internal)
		set_deserialize(agg);
	nargs = argument_types(agg, fcinfo, args);
	if (nargs >= 0)
	{
		Oid			state_type;

		sq_aggregate_resolve_types(agg, args, nargs, &state_type, &agg->result_type);
		sq_aggregate_check_state_type(agg, agg->state_type, state_type);
	}
	else
		agg->result_type = result_type_alone(agg, given);
	if (given != agg->result_type)
		ereport(ERROR,
				(errcode(ERRCODE_DATATYPE_MISMATCH),
				 errmsg("result of aggregate %s is of type %s, not type %s",
						format_procedure(agg->oid),
						format_type_be(agg->result_type), format_type_be(given))));
	get_typlenbyval(agg->result_type, &agg->result_typlen, &agg->result_typbyval);

	agg->nfinal_args = 1;
	if (OidIsValid(function))
	{
		if (agg->form.aggfinalextra)
			agg->nfinal_args += nargs;
		sq_aggregate_find_function(agg, function, &agg->final);
		build_aggregate_finalfn_expr(args, agg->nfinal_args, sq_aggregate_transition_type(agg),
									 agg->result_type, agg->collation,
									 function, &expr);
		fmgr_info_set_expr((Node *) expr, &agg->final);
	}
}

/*
 * An argument of type internal or bytea as a pointer.  Support functions return
 * a null pointer for a state that is not there, without saying NULL.
 */
static SqValue
pointer_value(Datum value, bool isnull)
{
	SqValue		result;

	result.isnull = isnull || DatumGetPointer(value) == NULL;
	result.value = result.isnull ? (Datum) 0 : value;
	return result;
}

/* The state in memory of a serialized one. */
static SqValue
deserialize(SqAggregate *agg, SqValue state)
{
	LOCAL_FCINFO(call, 2);
	Datum		result;

	if (state.isnull && agg->deserialize.fn_strict)
		return state;
	if (!state.isnull)
	{
		bytea	   *bytes = DatumGetByteaPP(state.value);

		if (sq_serialized_is_known(agg->form.aggdeserialfn) &&
			!sq_serialized_is_valid(agg->form.aggdeserialfn, bytes))
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_BINARY_REPRESENTATION),
					 errmsg("invalid state for aggregate %s",
							format_procedure(agg->oid))));
		state.value = PointerGetDatum(bytes);
	}
	InitFunctionCallInfoData(*call, &agg->deserialize, 2, InvalidOid,
							 (Node *) agg->node, NULL);
	call->args[0].value = state.value;
	call->args[0].isnull = state.isnull;
	/* the second argument, of type internal, is there only for its type */
	call->args[1].value = PointerGetDatum(NULL);
	call->args[1].isnull = false;
	result = FunctionCallInvoke(call);
	return pointer_value(result, call->isnull);
}

static SqValue
serialize(SqAggregate *agg, SqValue state)
{
	LOCAL_FCINFO(call, 1);
	Datum		result;

	if (state.isnull && agg->serialize.fn_strict)
		return state;
	InitFunctionCallInfoData(*call, &agg->serialize, 1, InvalidOid,
							 (Node *) agg->node, NULL);
	call->args[0].value = state.value;
	call->args[0].isnull = state.isnull;
	result = FunctionCallInvoke(call);
	return pointer_value(result, call->isnull);
}

/*
 * The state as support functions may have it: deserialized, or a copy that they
 * may scribble on.  In the current memory context.
 */
static SqValue
own_state(SqAggregate *agg, SqValue state)
{
	if (agg->internal)
		return deserialize(agg, state);
	if (!state.isnull)
		state.value = datumCopy(state.value, agg->typbyval, agg->typlen);
	return state;
}

static SqValue
call_combine(SqAggregate *agg, SqValue a, SqValue b)
{
	LOCAL_FCINFO(call, 2);
	SqValue		result;

	InitFunctionCallInfoData(*call, &agg->combine, 2, agg->collation,
							 (Node *) agg->node, NULL);
	call->args[0].value = a.value;
	call->args[0].isnull = a.isnull;
	call->args[1].value = b.value;
	call->args[1].isnull = b.isnull;
	result.value = FunctionCallInvoke(call);
	result.isnull = call->isnull;
	if (agg->internal)
		result = pointer_value(result.value, result.isnull);
	return result;
}

/*
 * streamq.combine_state(agg regprocedure, a anyelement, b anyelement)
 *		RETURNS anyelement
 *
 * The state of agg over the rows of a and the rows of b, by its combine function.
 * A state that is NULL has seen no row, or has no value: if the combine function
 * is strict, the result is the other state, else the function gets to see it.
 *
 * Refuses what is not an aggregate with a combine function, or with a state that
 * cannot be stored (42809); states of another type (42804), or that are not what
 * the serialization function can have written (22P03).  The caller has to have
 * the right to call agg.
 */
Datum
streamq_combine_state(PG_FUNCTION_ARGS)
{
	SqAggregate *agg = sq_aggregate_get(fcinfo, set_combine);
	SqValue		a = sq_aggregate_argument(fcinfo, ARG_STATE);
	SqValue		b = sq_aggregate_argument(fcinfo, ARG_OTHER_STATE);
	SqValue		result;
	MemoryContext caller;

	if (agg->combine.fn_strict && (a.isnull || b.isnull))
	{
		SqValue		other = a.isnull ? b : a;

		fcinfo->isnull = other.isnull;
		return other.value;
	}

	caller = MemoryContextSwitchTo(sq_aggregate_state_memory(agg));
	a = own_state(agg, a);
	if (agg->internal)
		b = deserialize(agg, b);
	result = call_combine(agg, a, b);
	if (agg->internal)
		result = serialize(agg, result);
	MemoryContextSwitchTo(caller);
	return sq_aggregate_end_call(agg, fcinfo, result, agg->typbyval, agg->typlen);
}

static SqValue
call_final(SqAggregate *agg, SqValue state)
{
	LOCAL_FCINFO(call, FUNC_MAX_ARGS);
	SqValue		result = {(Datum) 0, true};

	if (agg->final.fn_strict && (state.isnull || agg->nfinal_args > 1))
		return result;
	InitFunctionCallInfoData(*call, &agg->final, agg->nfinal_args, agg->collation,
							 (Node *) agg->node, NULL);
	call->args[0].value = state.value;
	call->args[0].isnull = state.isnull;
	for (int i = 1; i < agg->nfinal_args; i++)
	{
		call->args[i].value = (Datum) 0;
		call->args[i].isnull = true;
	}
	result.value = FunctionCallInvoke(call);
	result.isnull = call->isnull;
	return result;
}

/*
 * streamq.finalize_state(agg regprocedure, state "any", result anyelement
 *						  [, VARIADIC arguments "any"]) RETURNS anyelement
 *
 * The value of agg for the rows of a state, by its final function; the state
 * itself if there is none.  result is a NULL of the result's type.  arguments are
 * NULLs that tell the types of the aggregate's arguments; they may be left out if
 * the final function does not ask for them.  A state that is NULL is passed on,
 * unless the final function is strict; then the result is NULL.
 *
 * Errors are those of combine_state; 42P18 if the types of the arguments are
 * needed.
 */
Datum
streamq_finalize_state(PG_FUNCTION_ARGS)
{
	SqAggregate *agg = sq_aggregate_get(fcinfo, set_final);
	SqValue		result = sq_aggregate_argument(fcinfo, ARG_STATE);
	MemoryContext caller;

	if (!OidIsValid(agg->form.aggfinalfn))
	{
		fcinfo->isnull = result.isnull;
		return result.value;
	}

	caller = MemoryContextSwitchTo(sq_aggregate_state_memory(agg));
	if (agg->internal || agg->form.aggfinalmodify != AGGMODIFY_READ_ONLY)
		result = own_state(agg, result);
	else
		result.value = MakeExpandedObjectReadOnly(result.value, result.isnull, agg->typlen);
	result = call_final(agg, result);
	MemoryContextSwitchTo(caller);
	return sq_aggregate_end_call(agg, fcinfo, result, agg->result_typbyval, agg->result_typlen);
}
