/*
 * slice.h
 *		Running a started query for a while.
 */
#ifndef SQ_SLICE_H
#define SQ_SLICE_H

#include "streamq.h"
#include "progress/shared.h"

extern TimestampTz sq_slice_run(const SqTask *task);
extern void sq_slice_forget(int32 query_id);

#endif							/* SQ_SLICE_H */
