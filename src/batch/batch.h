/*
 * batch.h
 *		One micro-batch of a query.
 */
#ifndef SQ_BATCH_H
#define SQ_BATCH_H

#include "streamq.h"
#include "batch/backlog.h"
#include "compiler/compile.h"

typedef enum SqBatchOutcome
{
	SQ_BATCH_DONE,				/* a batch is ready to be committed */
	SQ_BATCH_IDLE,				/* there is nothing to read */
	SQ_BATCH_STOPPED			/* the query is not to be run any more */
} SqBatchOutcome;

/* whoever runs a query, batch after batch */
typedef struct SqRunner
{
	char	   *name;
	int32		query_id;
	bool		background;		/* only while the query is active */
	SqOffset   *goal;			/* read up to here; NULL: what is there */
	SqHorizon	goal_horizon;	/* from before that was taken */
	MemoryContext context;		/* lives as long as the runner */
	MemoryContext batch_context;	/* reset for each batch */
	SqBacklog  *backlog;		/* kept between batches when there is a limit */
	SqOffset   *idle_offset;	/* nothing was there to read at this offset */

	/* figures of the last batch */
	int64		input_rows;
	bool		reached;		/* nothing is left up to the goal */
	List	   *relations;		/* oids of those that it was to read */
	bool		commits_are_told;	/* all those into them (wakeup.c) */
	bool		had_failures;	/* the query's record says so */
} SqRunner;

extern SqBatchOutcome sq_batch_execute(SqRunner *runner);
extern void sq_batch_check_checkpoint(const SqQuery *query);
extern void sq_batch_forget_backlog(SqRunner *runner);
extern List *sq_batch_inputs(const SqCompiled *compiled);

#endif							/* SQ_BATCH_H */
