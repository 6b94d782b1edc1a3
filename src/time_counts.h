/*
 * time_counts.h
 *		Numbers of rows by spans of event time.
 */
#ifndef SQ_TIME_COUNTS_H
#define SQ_TIME_COUNTS_H

#include "streamq.h"
#include "datatype/timestamp.h"

/* rows whose event time lies in [start, start + width) */
typedef struct SqTimeCount
{
	TimestampTz start;
	int64		rows;
} SqTimeCount;

typedef struct SqTimeCounts
{
	MemoryContext context;
	int64		width_us;
	TimestampTz not_before;		/* earlier ones are not counted */
	SqTimeCount *counts;		/* ascending */
	int			ncounts;
	int			size;
	int			last;			/* the one found last */
} SqTimeCounts;

extern SqTimeCounts *sq_time_counts_create(int64 width_us);
extern void sq_time_counts_add(SqTimeCounts *counts, TimestampTz time, int64 rows);
extern void sq_time_counts_widen(SqTimeCounts *counts, int64 width_us);
extern int64 sq_time_counts_take_before(SqTimeCounts *counts, TimestampTz bound);

#endif							/* SQ_TIME_COUNTS_H */
