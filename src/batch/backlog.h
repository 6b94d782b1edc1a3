/*
 * backlog.h
 *		What a query still has to read, and cutting it into batches.
 */
#ifndef SQ_BACKLOG_H
#define SQ_BACKLOG_H

#include "catalog/checkpoint.h"
#include "catalog/sourcedef.h"
#include "nodes/pg_list.h"
#include "source/readplan.h"
#include "source/survey.h"

/* a source as a batch finds it */
typedef struct SqInput
{
	SqSource   *source;
	bool		with_children;	/* not only FROM ONLY */
	List	   *relations;		/* oids of its physical relations, locked */
} SqInput;

/* a relation with rows to read */
typedef struct SqBacklogRelation
{
	Oid			relid;
	int			source;			/* index into the query's sources */
	AttrNumber	event_time;		/* 0 if there is none */
	Oid			filenode;
	SqPosition	position;		/* read so far */
	SqSurvey	survey;			/* what is to be read up to the target */
} SqBacklogRelation;

/*
 * The rows between a query's checkpoint and a target.  Kept from batch to batch
 * of a runner when there is a limit, so that a long backlog is surveyed once.
 */
typedef struct SqBacklog
{
	MemoryContext context;
	SqOffset   *target;
	SqHorizon	target_horizon;
	bool		by_xid;
	bool		untouched;		/* no batch has been cut from it */
	int64		batch_id;		/* of the last batch when it was surveyed or
								 * cut */
	SqBacklogRelation *relations;	/* sorted by relid */
	int			nrelations;
	int64		rows;
	SqSurvey	xids;			/* rows by transaction, all relations together */
	size_t		next_xid;		/* index of the first that is not, or not
								 * wholly, read */
} SqBacklog;

/* one batch, cut from a backlog */
typedef struct SqCut
{
	SqReadPlan	plan;
	int64		rows;
	SqTimeRange *source_times;	/* event times by source */
	uint64		partial_xid;	/* cut from this one by position; 0: not so */
	size_t		next_xid;		/* the backlog's next_xid after the batch */
} SqCut;

/* what to survey */
typedef struct SqBacklogRequest
{
	const SqOffset *target;
	SqHorizon	horizon;		/* taken before the target; lsn may be invalid */
	bool		begun;			/* by earlier batches: only the relations that
								 * they have cut up to this target */
	bool		by_xid;			/* prepare for cutting with a limit */
} SqBacklogRequest;

extern SqBacklog *sq_backlog_survey(List *inputs, const SqCheckpoint *checkpoint,
									const SqBacklogRequest *request,
									Snapshot snapshot, MemoryContext parent);
extern bool sq_backlog_is_current(const SqBacklog *backlog, List *inputs,
								  const SqCheckpoint *checkpoint);
extern bool sq_backlog_wants_renewal(const SqBacklog *backlog);
extern bool sq_backlog_is_finished(const SqBacklog *backlog);
extern SqCut *sq_backlog_cut(SqBacklog *backlog, int nsources, int64 max_rows,
							 Snapshot snapshot);
extern void sq_backlog_count_times(const SqBacklog *backlog, const SqCut *cut,
								   Snapshot snapshot, SqTimeCounts *counts);
extern void sq_backlog_advance(SqBacklog *backlog, const SqCut *cut, int64 batch_id);

#endif							/* SQ_BACKLOG_H */
