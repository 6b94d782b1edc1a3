/*
 * aggregate.h
 *		What a call site knows of an aggregate; see aggregate.c.
 */
#ifndef SQ_AGGREGATE_AGGREGATE_H
#define SQ_AGGREGATE_AGGREGATE_H

#include "postgres.h"

#include "catalog/pg_aggregate.h"
#include "fmgr.h"
#include "nodes/execnodes.h"

/* the first arguments of each SQL function */
#define ARG_AGGREGATE 0
#define ARG_STATE 1

/* a datum of some type */
typedef struct SqValue
{
	Datum		value;
	bool		isnull;
} SqValue;

typedef struct SqTransition SqTransition;	/* resume.c */

/* An aggregate, as the functions below have found it. */
typedef struct SqAggregate
{
	/* the key: see sq_aggregate_get() */
	Oid			oid;
	Oid			userid;

	MemoryContext context;		/* holds all of this; child of fn_mcxt */
	Oid			collation;		/* of the call */

	/* from the catalogs */
	FormData_pg_aggregate form;
	Oid			owner;
	Oid			declared_result;
	int			nargs;
	Oid		   *declared_args;
	bool		variadic_any;

	/* the state: what SQL sees, and whether the functions see internal */
	Oid			state_type;
	bool		internal;
	int16		typlen;
	bool		typbyval;
	SqValue		initial;

	/* the result of finalize_state */
	Oid			result_type;
	int16		result_typlen;
	bool		result_typbyval;
	int			nfinal_args;

	FmgrInfo	combine;
	FmgrInfo	serialize;
	FmgrInfo	deserialize;
	FmgrInfo	final;
	SqTransition *transition;

	AggState   *node;			/* see make_node() in aggregate.c */
} SqAggregate;

typedef void (*SqSetup) (SqAggregate *agg, FunctionCallInfo fcinfo);

extern SqAggregate *sq_aggregate_get(FunctionCallInfo fcinfo, SqSetup setup);
extern SqValue sq_aggregate_argument(FunctionCallInfo fcinfo, int i);
extern MemoryContext sq_aggregate_state_memory(SqAggregate *agg);
extern Datum sq_aggregate_end_call(SqAggregate *agg, FunctionCallInfo fcinfo,
								   SqValue result, bool typbyval, int16 typlen);

/* for SqSetup functions */
extern void sq_aggregate_set_state_type(SqAggregate *agg, FunctionCallInfo fcinfo);
extern void sq_aggregate_check_state_type(SqAggregate *agg, Oid given, Oid expected);
extern Oid	sq_aggregate_transition_type(SqAggregate *agg);
extern void sq_aggregate_resolve_types(SqAggregate *agg, Oid *args, int nargs,
									   Oid *state_type, Oid *result_type);
extern void sq_aggregate_find_function(SqAggregate *agg, Oid function,
									   FmgrInfo *flinfo);

#endif							/* SQ_AGGREGATE_AGGREGATE_H */
