/*
 * slice.h
 *		Running a started query for a while.
 */
#ifndef SQ_SLICE_H
#define SQ_SLICE_H

#include "streamq.h"
#include "progress/shared.h"
#include "progress/wakeup.h"

/* when a task is to be run again */
typedef struct SqSliceEnd
{
	TimestampTz due;			/* DT_NOEND: never */
	bool		waits;			/* instead, when the following has come */
	SqAwaited	awaited;		/* valid until the next slice */
} SqSliceEnd;

extern void sq_slice_run(const SqTask *task, SqSliceEnd *end);
extern int64 sq_slice_retry_delay_us(int failures);
extern void sq_slice_forget(int32 query_id);

#endif							/* SQ_SLICE_H */
