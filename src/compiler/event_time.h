/*
 * event_time.h
 *		Which group keys carry the event time, and when a group is final.
 */
#ifndef SQ_EVENT_TIME_H
#define SQ_EVENT_TIME_H

#include "streamq.h"
#include "nodes/parsenodes.h"
#include "nodes/primnodes.h"

/* a group key as a function of its source's event time */
typedef struct SqEventKey
{
	Expr	   *function;		/* of a Param, the event time */
	Oid			column_type;	/* of the event-time column: the Param's */
	bool		injective;		/* never the same for two times */
	bool		floor;			/* the first moment of a window: never beyond
								 * its argument, and its own floor */
} SqEventKey;

extern bool sq_event_time_key(Query *level, Expr *key, List *sources, SqEventKey *result);
extern Expr *sq_event_time_bound(const SqEventKey *key, int paramid);

#endif							/* SQ_EVENT_TIME_H */
