/*
 * trace.h
 *		Following an expression down to the columns of tables.
 */
#ifndef SQ_TRACE_H
#define SQ_TRACE_H

#include "streamq.h"
#include "nodes/parsenodes.h"
#include "nodes/primnodes.h"

/* what becomes of a column of a table; NULL gives up */
typedef Node *(*SqTraceColumn) (const RangeTblEntry *rte, Var *var, void *context);

extern Node *sq_trace(Query *level, Node *expr, SqTraceColumn column, void *context);

#endif							/* SQ_TRACE_H */
