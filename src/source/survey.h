/*
 * survey.h
 *		Looking at the pages of a source: which hold rows of a range, how many.
 */
#ifndef SQ_SURVEY_H
#define SQ_SURVEY_H

#include "offset.h"
#include "time_counts.h"

#include "storage/block.h"
#include "utils/relcache.h"

/*
 * Event times as timestamps.  The greatest finite one, and the least one that is
 * not NULL or infinity.
 */
typedef struct SqTimeRange
{
	int64		max;			/* SQ_NO_EVENT_TIME: none */
	int64		min;			/* PG_INT64_MAX: none; PG_INT64_MIN: -infinity */
} SqTimeRange;

#define SQ_NO_EVENT_TIME PG_INT64_MIN

static inline SqTimeRange
sq_no_times(void)
{
	SqTimeRange none = {SQ_NO_EVENT_TIME, PG_INT64_MAX};

	return none;
}

static inline void
sq_add_times(SqTimeRange *range, SqTimeRange other)
{
	range->max = Max(range->max, other.max);
	range->min = Min(range->min, other.min);
}

/* what to look for, and what to collect */
typedef struct SqSurveyRequest
{
	SqPosition	start;
	SqPosition	end;
	Snapshot	snapshot;
	AttrNumber	event_time;		/* column whose range is wanted, or 0 */
	SqTimeCounts *time_counts;	/* also count rows by event time; or NULL */
	bool		by_xid;			/* also collect rows by transaction */
	bool		is_estimate;	/* rows of which it cannot be told whether
								 * they are new may be counted or not */
	int64		stop_after;		/* stop when this many rows are found; 0:
								 * never */
	const BlockNumber *only_blocks; /* look only at these, ascending; NULL:
									 * all */
	BlockNumber nonly_blocks;
} SqSurveyRequest;

/* rows of one transaction */
typedef struct SqXidRows
{
	uint64		xid;
	int64		rows;
	SqTimeRange times;
} SqXidRows;

/* a block with rows of the range, and which transactions they are of */
typedef struct SqBlockXids
{
	uint64		min_xid;
	uint64		max_xid;
} SqBlockXids;

typedef struct SqSurvey
{
	int64		rows;
	SqTimeRange times;
	ItemPointerData last;		/* place of the last row found */
	BlockNumber mapped_blocks;	/* that the arrival map has named */
	BlockNumber *blocks;		/* ascending */
	SqBlockXids *block_xids;	/* alongside, if by_xid */
	BlockNumber nblocks;
	BlockNumber blocks_size;
	SqXidRows  *xids;			/* if by_xid: ascending after
								 * sq_survey_sort_xids() */
	size_t		nxids;
	size_t		xids_size;
	size_t		xids_sorted;
} SqSurvey;

extern void sq_survey_init(SqSurvey *survey);
extern void sq_survey_relation(Relation rel, const SqSurveyRequest *request,
							   SqSurvey *survey);
extern void sq_survey_add_xid(SqSurvey *survey, uint64 xid, int64 rows,
							  SqTimeRange times);
extern void sq_survey_sort_xids(SqSurvey *survey);
extern SqXidRows *sq_survey_find_xid(const SqSurvey *survey, uint64 xid);

#endif							/* SQ_SURVEY_H */
