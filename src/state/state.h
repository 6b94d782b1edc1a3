/*
 * state.h
 *		The tables that hold a query's state.
 */
#ifndef SQ_STATE_H
#define SQ_STATE_H

#include "streamq.h"
#include "catalog/querydef.h"
#include "compiler/aggregation.h"


/* which of a query's tables */
typedef enum SqStateTable
{
	SQ_STATE_GROUPS,			/* keys and transition states, a row each
								 * group */
	SQ_STATE_ROWS,				/* inputs of SQ_CALL_ROWS */
	SQ_STATE_SET				/* inputs of one SQ_CALL_DISTINCT */
} SqStateTable;

extern char *sq_state_name(int32 query_id, SqStateTable table, int call);
extern Oid	sq_state_relation(const SqQuery *query, SqStateTable table, int call);
extern void sq_state_create(const SqQuery *query, const SqAggregation *aggregation);
extern void sq_state_add_count(int32 query_id, const SqAggregation *aggregation);
extern void sq_state_lock(const SqQuery *query);
extern void sq_state_drop(int32 query_id);
extern void sq_state_set_owner(const SqQuery *query);
extern List *sq_state_relations(int32 query_id);

/* compact.c */
extern void sq_state_compact(int32 query_id, int64 batch_id);

#endif							/* SQ_STATE_H */
