/*
 * was_read.h
 *		Which rows of a source earlier batches have read.
 */
#ifndef SQ_WAS_READ_H
#define SQ_WAS_READ_H

#include "source/readplan.h"
#include "time_counts.h"

/* what streamq.was_read() is handed */
typedef struct SqWasRead
{
	const SqReadPlan *plan;		/* the starts of its ranges count */
	SqOffset  **first;			/* of each relation: what is covered by this
								 * has never been read; NULL: nothing is */
	uint64		next_xid;
	SqTimeCounts *counts;		/* counts the rows found */
} SqWasRead;

#endif							/* SQ_WAS_READ_H */
