/*
 * aggregate.c
 *		What a call site knows of an aggregate, and the frame of a call of its
 *		support functions.
 *
 * PostgreSQL calls the support functions of an aggregate only inside an Agg node.
 * Here they are called for one state in an expression, under the rules of
 * nodeAgg.c: what rights are needed, what types the functions are told, in what
 * memory they run.
 *
 * What has been found out is kept in fn_extra of the call site, for one aggregate
 * and one user; errors leave it usable.  All calls run in a memory context that is
 * reset for each call of ours.  Results are copied from there into the caller's.
 *
 * Never done here: calling a support function.
 */
#include "aggregate/aggregate.h"

#include "access/htup_details.h"
#include "catalog/objectaccess.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_type.h"
#include "compat.h"
#include "executor/executor.h"
#include "miscadmin.h"
#include "parser/parse_agg.h"
#include "parser/parse_coerce.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/datum.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/regproc.h"
#include "utils/syscache.h"

/*
 * The node that support functions get as the context of their call.
 *
 * They ask it, through AggCheckCallContext(), whether they are called as parts
 * of an aggregate, and in what memory the state lives.  There is no other way to
 * answer than an AggState.  This one has never been through ExecInitAgg():
 * only the two expression contexts are there, which is all that
 * AggCheckCallContext(), AggGetTempMemoryContext() and AggRegisterCallback()
 * look at.  With curperagg and curpertrans NULL, AggGetAggref() returns NULL
 * and AggStateIsShared() true, as they do in a window aggregate.
 */
static AggState *
make_node(void)
{
	AggState   *node = makeNode(AggState);

	node->curaggcontext = CreateStandaloneExprContext();
	node->tmpcontext = CreateStandaloneExprContext();
	return node;
}

/* The memory that states live in during a call. */
MemoryContext
sq_aggregate_state_memory(SqAggregate *agg)
{
	return agg->node->curaggcontext->ecxt_per_tuple_memory;
}

/*
 * Makes ready for a call.  If the last one ended in an error, what it left
 * behind goes now; callbacks of support functions are then not run, as nodeAgg.c
 * does not run them after an error.
 */
static void
begin_call(SqAggregate *agg)
{
	if (agg->node->curaggcontext->ecxt_callbacks != NULL)
	{
		MemoryContext caller = MemoryContextSwitchTo(agg->context);

		FreeExprContext(agg->node->curaggcontext, false);
		agg->node->curaggcontext = CreateStandaloneExprContext();
		MemoryContextSwitchTo(caller);
	}
	ResetExprContext(agg->node->curaggcontext);
	ResetExprContext(agg->node->tmpcontext);
}

/*
 * Ends a call: copies the result into the current memory context, which is the
 * caller's, and frees everything else.  An expanded object becomes flat.
 */
Datum
sq_aggregate_end_call(SqAggregate *agg, FunctionCallInfo fcinfo, SqValue result,
					  bool typbyval, int16 typlen)
{
	if (!result.isnull)
		result.value = datumCopy(result.value, typbyval, typlen);
	ReScanExprContext(agg->node->curaggcontext);
	ResetExprContext(agg->node->tmpcontext);

	fcinfo->isnull = result.isnull;
	return result.isnull ? (Datum) 0 : result.value;
}

/*
 * Looks up a support function, which the aggregate's owner has to have the right
 * to call, as in ExecInitAgg().
 */
void
sq_aggregate_find_function(SqAggregate *agg, Oid function, FmgrInfo *flinfo)
{
	AclResult	aclresult = object_aclcheck(ProcedureRelationId, function, agg->owner, ACL_EXECUTE);

	if (aclresult != ACLCHECK_OK)
		aclcheck_error(aclresult, OBJECT_FUNCTION, get_func_name(function));
	InvokeFunctionExecuteHook(function);
	fmgr_info(function, flinfo);
}

/* Reads pg_proc and pg_aggregate; checks that the user may call it. */
static void
load_aggregate(SqAggregate *agg)
{
	HeapTuple	tuple = SearchSysCache1(PROCOID, ObjectIdGetDatum(agg->oid));
	Form_pg_proc proc;
	AclResult	aclresult;

	if (!HeapTupleIsValid(tuple))
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_FUNCTION),
				 errmsg("function with OID %u does not exist", agg->oid)));
	proc = (Form_pg_proc) GETSTRUCT(tuple);
	if (proc->prokind != PROKIND_AGGREGATE)
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("%s is not an aggregate function",
						format_procedure(agg->oid))));
	agg->owner = proc->proowner;
	agg->declared_result = proc->prorettype;
	agg->nargs = proc->pronargs;
	agg->declared_args = palloc(sizeof(Oid) * (agg->nargs + 1));
	memcpy(agg->declared_args, proc->proargtypes.values,
		   sizeof(Oid) * agg->nargs);
	agg->variadic_any = proc->provariadic == ANYOID;
	ReleaseSysCache(tuple);

	aclresult = object_aclcheck(ProcedureRelationId, agg->oid, agg->userid, ACL_EXECUTE);
	if (aclresult != ACLCHECK_OK)
		aclcheck_error(aclresult, OBJECT_AGGREGATE, get_func_name(agg->oid));
	InvokeFunctionExecuteHook(agg->oid);

	tuple = SearchSysCache1(AGGFNOID, ObjectIdGetDatum(agg->oid));
	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for aggregate %u", agg->oid);
	memcpy(&agg->form, GETSTRUCT(tuple), sizeof(agg->form));
	ReleaseSysCache(tuple);
	if (AGGKIND_IS_ORDERED_SET(agg->form.aggkind))
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("%s is an ordered-set aggregate",
						format_procedure(agg->oid)),
				 errdetail("Its final function takes more than a state.")));
}

/*
 * What SqAggregate.state_type has to be, as far as the state alone tells: a
 * polymorphic one is what was given, if that fits.
 */
static Oid
expected_state_type(SqAggregate *agg, Oid given)
{
	Oid			declared = agg->form.aggtranstype;

	if (declared == INTERNALOID)
		return BYTEAOID;
	if (!IsPolymorphicType(declared))
		return declared;
	if (!OidIsValid(given) || !check_generic_type_consistency(&given, &declared, 1))
		return declared;
	return enforce_generic_type_consistency(&given, &declared, 1, declared, false);
}

void
sq_aggregate_check_state_type(SqAggregate *agg, Oid given, Oid expected)
{
	if (given != expected)
		ereport(ERROR,
				(errcode(ERRCODE_DATATYPE_MISMATCH),
				 errmsg("state of aggregate %s is of type %s, not type %s",
						format_procedure(agg->oid), format_type_be(expected),
						format_type_be(given))));
}

/* Sets what depends on the type of the state alone. */
void
sq_aggregate_set_state_type(SqAggregate *agg, FunctionCallInfo fcinfo)
{
	Oid			given = get_fn_expr_argtype(fcinfo->flinfo, ARG_STATE);

	agg->internal = agg->form.aggtranstype == INTERNALOID;
	agg->state_type = expected_state_type(agg, given);
	sq_aggregate_check_state_type(agg, given, agg->state_type);
	get_typlenbyval(agg->state_type, &agg->typlen, &agg->typbyval);
}

/* The type of the state as support functions see it. */
Oid
sq_aggregate_transition_type(SqAggregate *agg)
{
	return agg->internal ? INTERNALOID : agg->state_type;
}

/*
 * The type that an argument of a declared type arrives as, if a value of the
 * given one fits it.
 */
static Oid
arriving_type(Oid declared, Oid given)
{
	switch (declared)
	{
		case ANYOID:
		case ANYELEMENTOID:
		case ANYNONARRAYOID:
			return given;
		default:
			/* a domain over an array, for one, arrives as the array */
			return IsPolymorphicType(declared) ? getBaseType(given) : declared;
	}
}

/*
 * The types of state and result of a call with arguments of the given types.
 * Errors if the aggregate cannot be called so, or if an argument would first have
 * to be converted.
 */
void
sq_aggregate_resolve_types(SqAggregate *agg, Oid *args, int nargs,
						   Oid *state_type, Oid *result_type)
{
	int			ndeclared = agg->nargs;
	Oid			declared[FUNC_MAX_ARGS];

	if (nargs != ndeclared && !(agg->variadic_any && nargs > ndeclared))
		ereport(ERROR,
				(errcode(ERRCODE_DATATYPE_MISMATCH),
				 errmsg_plural("aggregate %s has %d argument, not %d",
							   "aggregate %s has %d arguments, not %d", ndeclared,
							   format_procedure(agg->oid), ndeclared, nargs)));

	/* this puts the common type in the place of anycompatible and its kin */
	memcpy(declared, agg->declared_args, sizeof(Oid) * ndeclared);
	*result_type = enforce_generic_type_consistency(args, declared, ndeclared,
													agg->declared_result, false);
	for (int i = 0; i < ndeclared; i++)
	{
		Oid			expected = arriving_type(declared[i], args[i]);

		if (args[i] != expected)
			ereport(ERROR,
					(errcode(ERRCODE_DATATYPE_MISMATCH),
					 errmsg("argument %d of aggregate %s is of type %s, not type %s",
							i + 1, format_procedure(agg->oid),
							format_type_be(expected), format_type_be(args[i]))));
	}

	*state_type = resolve_aggregate_transtype(agg->oid, agg->form.aggtranstype,
											  args, nargs);
	if (*state_type == INTERNALOID)
		*state_type = BYTEAOID;
}

SqValue
sq_aggregate_argument(FunctionCallInfo fcinfo, int i)
{
	SqValue		result;

	result.isnull = PG_ARGISNULL(i);
	result.value = result.isnull ? (Datum) 0 : PG_GETARG_DATUM(i);
	return result;
}

/*
 * What the call site knows of the aggregate that it is called for, ready for a
 * call.  Rights belong to a user, so he is part of the key.  Collation and types
 * of the arguments are not: a call site has them fixed.
 */
SqAggregate *
sq_aggregate_get(FunctionCallInfo fcinfo, SqSetup setup)
{
	SqAggregate *agg = fcinfo->flinfo->fn_extra;
	Oid			oid;
	MemoryContext context;
	MemoryContext caller;

	if (PG_ARGISNULL(ARG_AGGREGATE))
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("aggregate must not be null")));
	oid = PG_GETARG_OID(ARG_AGGREGATE);
	if (agg != NULL && agg->oid == oid && agg->userid == GetUserId())
	{
		begin_call(agg);
		return agg;
	}

	/* it becomes the call site's only when nothing can fail any more */
	context = AllocSetContextCreate(CurrentMemoryContext, "streamq aggregate",
									ALLOCSET_SMALL_SIZES);
	caller = MemoryContextSwitchTo(context);
	agg = palloc0(sizeof(SqAggregate));
	agg->context = context;
	agg->oid = oid;
	agg->userid = GetUserId();
	agg->collation = PG_GET_COLLATION();
	load_aggregate(agg);
	setup(agg, fcinfo);
	agg->node = make_node();
	MemoryContextSwitchTo(caller);

	MemoryContextSetParent(context, fcinfo->flinfo->fn_mcxt);
	if (fcinfo->flinfo->fn_extra != NULL)
		MemoryContextDelete(((SqAggregate *) fcinfo->flinfo->fn_extra)->context);
	fcinfo->flinfo->fn_extra = agg;
	return agg;
}
