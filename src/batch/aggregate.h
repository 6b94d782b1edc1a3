/*
 * aggregate.h
 *		A batch of a query that aggregates.
 */
#ifndef SQ_AGGREGATE_H
#define SQ_AGGREGATE_H

#include "batch/backlog.h"
#include "batch/prepared.h"
#include "catalog/checkpoint.h"

extern bool sq_aggregate_is_due(SqPrepared *prepared, const SqCheckpoint *last);
extern void sq_aggregate_execute(SqPrepared *prepared, const SqBacklog *backlog,
								 const SqCut *cut, bool due, const SqCheckpoint *last,
								 SqCommitRecord *commit);

#endif							/* SQ_AGGREGATE_H */
