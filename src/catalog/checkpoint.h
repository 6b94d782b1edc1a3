/*
 * checkpoint.h
 *		The checkpoint of a query: tables streamq.offsets and streamq.commits.
 */
#ifndef SQ_CHECKPOINT_H
#define SQ_CHECKPOINT_H

#include "streamq.h"
#include "nodes/pg_list.h"
#include "offset.h"
#include "time_counts.h"
#include "utils/timestamp.h"

/* batches whose records are kept */
#define SQ_BATCHES_KEPT 100

/* a physical relation's part of the checkpoint */
typedef struct SqRelationOffset
{
	Oid			relid;
	SqPosition	position;
	SqOffset   *target;
	Oid			partial_filenode;
} SqRelationOffset;

/* what the last committed batch left */
typedef struct SqCheckpoint
{
	int64		batch_id;		/* -1 before the first */
	bool		has_watermark;
	TimestampTz watermark;
	bool		had_watermark;	/* in force in that batch: groups final under */
	TimestampTz batch_watermark;	/* it are closed */
	TimestampTz *source_times;	/* greatest event time of each source, or
								 * PG_INT64_MIN */
	int			nsources;
	int64		total_input_rows;
	int64		total_late_rows;
	int64		total_output_rows;
	int64		total_trimmed_rows;
	int64		state_rows;
	SqTimeCounts *open_rows;	/* NULL: not counted */
	SqRelationOffset *relations;
	int			nrelations;
} SqCheckpoint;

/* one relation's offsets in a batch about to be committed */
typedef struct SqOffsetRecord
{
	Oid			relid;
	const SqOffset *start;
	SqPosition	end;
	const SqOffset *target;
	Oid			filenode;
} SqOffsetRecord;

/* a batch about to be committed */
typedef struct SqCommitRecord
{
	int64		batch_id;
	TimestampTz started_at;
	double		duration_ms;
	double		planning_ms;
	double		execution_ms;
	int64		input_rows;
	int64		late_rows;
	int64		output_rows;
	int64		state_rows;
	int64		trimmed_rows;
	bool		has_watermark;
	TimestampTz watermark;
	bool		had_watermark;
	TimestampTz batch_watermark;
	SqTimeCounts *open_rows;	/* NULL: not counted */
	TimestampTz max_event_time; /* PG_INT64_MIN: none */
	TimestampTz *source_times;
	int			nsources;
} SqCommitRecord;

extern SqCheckpoint *sq_checkpoint_load(const char *name, List *relids);
extern const SqRelationOffset *sq_checkpoint_find(const SqCheckpoint *checkpoint,
												  Oid relid);
extern SqOffset *sq_checkpoint_first(const char *name, Oid relid);
extern void sq_checkpoint_commit(const char *name, const SqCheckpoint *last,
								 const SqCommitRecord *commit,
								 const SqOffsetRecord *offsets, int noffsets);
extern void sq_checkpoint_start_at(const char *name, Oid relation,
								   const SqOffset *offset, SqHorizon horizon);
extern void sq_checkpoint_delete(const char *name);
extern void sq_checkpoint_forget_relation(Oid relation);

extern const char *const sq_checkpoint_statements[];

#endif							/* SQ_CHECKPOINT_H */
