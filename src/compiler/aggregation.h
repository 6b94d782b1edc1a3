/*
 * aggregation.h
 *		What a query that aggregates keeps: its group keys and aggregate calls.
 */
#ifndef SQ_AGGREGATION_H
#define SQ_AGGREGATION_H

#include "streamq.h"
#include "compiler/event_time.h"
#include "nodes/parsenodes.h"
#include "nodes/primnodes.h"

/* how the value of an aggregate call is kept from batch to batch */
typedef enum SqCallKind
{
	SQ_CALL_COMBINE,			/* its transition state, combined */
	SQ_CALL_RESUME,				/* its transition state, continued row by row */
	SQ_CALL_DISTINCT,			/* the same, over inputs kept as a set */
	SQ_CALL_ROWS				/* its inputs; computed anew from them */
} SqCallKind;

/* a group key: column k<number> of the state */
typedef struct SqKey
{
	int			number;
	Expr	   *expr;			/* in terms of the level that aggregates */
	Oid			type;
	int32		typmod;
	Oid			collation;
	SortGroupClause *clause;	/* NULL: depends on the other keys */
} SqKey;

/* an aggregate call: column s<number> of the state, or inputs kept elsewhere */
typedef struct SqCall
{
	int			number;
	Aggref	   *aggref;
	SqCallKind	kind;
	Oid			state_type;		/* of the column, InvalidOid for SQ_CALL_ROWS */
	Oid			state_collation;
	bool		state_is_internal;	/* kept as serialized */
	bool		is_value;		/* the state is the value */
	bool		final_wants_arguments;	/* their types, to be exact */
} SqCall;

typedef struct SqAggregation
{
	Query	   *level;			/* where the query aggregates */
	List	   *keys;			/* SqKey */
	List	   *calls;			/* SqCall, each different call once */
	SqKey	   *time_key;		/* carries the event time; NULL: none does */
	SqEventKey	event;			/* how, if so */
} SqAggregation;

extern SqAggregation *sq_aggregation_analyse(Query *level, List *sources,
											 List *key_numbers, List *call_numbers);
extern bool sq_aggregation_has(const SqAggregation *aggregation, SqCallKind kind);
extern bool sq_aggregation_is_grouped(const SqAggregation *aggregation);
extern SqKey *sq_aggregation_find_key(const SqAggregation *aggregation, Node *expr,
									  int levelsup);
extern SqCall *sq_aggregation_find_call(const SqAggregation *aggregation,
										Aggref *aggref, int levelsup);

#endif							/* SQ_AGGREGATION_H */
