/*
 * finality.h
 *		Times that statements and batches ask about.
 */
#ifndef SQ_FINALITY_H
#define SQ_FINALITY_H

#include "compiler/compile.h"
#include "nodes/params.h"
#include "source/readplan.h"
#include "source/was_read.h"
#include "utils/timestamp.h"

/* values of the parameters of a batch's statements */
typedef struct SqTimes
{
	bool		has_watermark;
	TimestampTz watermark;		/* in force */
	bool		has_closed;
	TimestampTz closed;			/* in force in the batch before */
} SqTimes;

extern ParamListInfo sq_finality_params(const SqCompiled *compiled, const SqReadPlan *plan,
										const SqOffset *value, const SqTimes *times,
										SqWasRead *was_read);
extern bool sq_finality_is_late(const SqCompiled *compiled, TimestampTz time,
								TimestampTz watermark);
extern TimestampTz sq_finality_bound(const SqCompiled *compiled, TimestampTz watermark);

#endif							/* SQ_FINALITY_H */
