/*
 * partial.h
 *		Aggregation that stops at the transition states.
 */
#ifndef SQ_PARTIAL_H
#define SQ_PARTIAL_H

#include "streamq.h"
#include "nodes/plannodes.h"

extern void sq_partial_prepare(PlannedStmt *plan);

#endif							/* SQ_PARTIAL_H */
