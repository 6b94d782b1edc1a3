/*
 * watermark.h
 *		The watermark of a query, from the greatest event times of its sources.
 */
#ifndef SQ_WATERMARK_H
#define SQ_WATERMARK_H

#include "catalog/checkpoint.h"
#include "nodes/pg_list.h"
#include "source/survey.h"

extern void sq_watermark_advance(const SqCheckpoint *last, List *inputs,
								 const SqTimeRange *batch_times,
								 SqCommitRecord *commit);

#endif							/* SQ_WATERMARK_H */
