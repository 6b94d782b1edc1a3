/*
 * survey.c
 *		Looking at the pages of a source: which hold rows of a range, how many,
 *		of which transactions, and their greatest event time.
 *
 * A batch is planned from a survey; its statement then visits only the pages
 * found.  The test on each tuple is the same as that of the table sampling
 * method (sq_range_has), under the same snapshot, so both find the same rows.
 *
 * Pages are read share-locked, as a sequential scan does; memory is taken from
 * the current context.  Nothing is written but hint bits.
 */
#include "source/survey.h"

#include "access/heapam.h"
#include "access/htup_details.h"
#include "arrivals/arrivals.h"
#include "catalog/pg_type.h"
#include "miscadmin.h"
#include "source/range.h"
#include "storage/bufmgr.h"
#include "utils/date.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/spccache.h"
#include "utils/timestamp.h"

#define FIRST_SIZE 64

void
sq_survey_init(SqSurvey *survey)
{
	memset(survey, 0, sizeof(*survey));
	survey->times = sq_no_times();
	ItemPointerSetInvalid(&survey->last);
}

static void
add_block(SqSurvey *survey, BlockNumber block, bool with_xids)
{
	if (survey->nblocks == survey->blocks_size)
	{
		bool		first = survey->blocks_size == 0;

		survey->blocks_size = first ? FIRST_SIZE : survey->blocks_size * 2;
		survey->blocks = first ?
			palloc(sizeof(BlockNumber) * FIRST_SIZE) :
			repalloc_huge(survey->blocks, sizeof(BlockNumber) * (Size) survey->blocks_size);
		if (with_xids)
			survey->block_xids = first ?
				palloc(sizeof(SqBlockXids) * FIRST_SIZE) :
				repalloc_huge(survey->block_xids, sizeof(SqBlockXids) * (Size) survey->blocks_size);
	}
	if (with_xids)
	{
		survey->block_xids[survey->nblocks].min_xid = PG_UINT64_MAX;
		survey->block_xids[survey->nblocks].max_xid = 0;
	}
	survey->blocks[survey->nblocks++] = block;
}

static int
compare_xid_rows(const void *a, const void *b)
{
	uint64		x = ((const SqXidRows *) a)->xid;
	uint64		y = ((const SqXidRows *) b)->xid;

	return (x > y) - (x < y);
}

/* Sorts the transactions found and adds up what belongs to the same one. */
void
sq_survey_sort_xids(SqSurvey *survey)
{
	size_t		kept = 0;

	if (survey->nxids == 0)
		return;
	qsort(survey->xids, survey->nxids, sizeof(SqXidRows), compare_xid_rows);
	for (size_t i = 1; i < survey->nxids; i++)
	{
		SqXidRows  *last = &survey->xids[kept];
		SqXidRows  *next = &survey->xids[i];

		if (last->xid == next->xid)
		{
			last->rows += next->rows;
			sq_add_times(&last->times, next->times);
		}
		else
			survey->xids[++kept] = *next;
	}
	survey->nxids = kept + 1;
	survey->xids_sorted = survey->nxids;
}

/* The first transaction, among the sorted ones, that is not below xid. */
SqXidRows *
sq_survey_find_xid(const SqSurvey *survey, uint64 xid)
{
	size_t		low = 0;
	size_t		high = survey->nxids;

	while (low < high)
	{
		size_t		middle = (low + high) / 2;

		if (survey->xids[middle].xid < xid)
			low = middle + 1;
		else
			high = middle;
	}
	return survey->xids + low;
}

/* Notes rows of a transaction.  Mostly the same one follows itself. */
void
sq_survey_add_xid(SqSurvey *survey, uint64 xid, int64 rows, SqTimeRange times)
{
	SqXidRows  *last;

	if (survey->nxids > survey->xids_sorted)
	{
		last = &survey->xids[survey->nxids - 1];
		if (last->xid == xid)
		{
			last->rows += rows;
			sq_add_times(&last->times, times);
			return;
		}
	}
	if (survey->nxids == survey->xids_size)
	{
		/* adding up makes room, or else there has to be more */
		sq_survey_sort_xids(survey);
		if (survey->xids_size == 0)
		{
			survey->xids_size = FIRST_SIZE;
			survey->xids = palloc(sizeof(SqXidRows) * FIRST_SIZE);
		}
		else if (survey->nxids > survey->xids_size / 2)
		{
			survey->xids_size *= 2;
			survey->xids = repalloc_huge(survey->xids,
										 sizeof(SqXidRows) * survey->xids_size);
		}
	}
	last = &survey->xids[survey->nxids++];
	last->xid = xid;
	last->rows = rows;
	last->times = times;
}

/* infinite times advance no watermark; -infinity is the earliest one */
static SqTimeRange
infinite_time(bool is_begin)
{
	SqTimeRange range = sq_no_times();

	if (is_begin)
		range.min = PG_INT64_MIN;
	return range;
}

/*
 * An event time as a timestamp; dates and timestamps without time zone are
 * taken at UTC.  NULL and infinite times, and dates beyond all timestamps, count
 * as none for the greatest one.
 */
static SqTimeRange
event_time_of(HeapTuple tuple, AttrNumber attnum, TupleDesc desc)
{
	bool		isnull;
	Datum		value = heap_getattr(tuple, attnum, desc, &isnull);
	SqTimeRange range;

	if (isnull)
		return sq_no_times();
	if (TupleDescAttr(desc, attnum - 1)->atttypid == DATEOID)
	{
		DateADT		date = DatumGetDateADT(value);

		if (DATE_NOT_FINITE(date) ||
			date >= TIMESTAMP_END_JULIAN - POSTGRES_EPOCH_JDATE)
			return infinite_time(DATE_IS_NOBEGIN(date));
		range.max = range.min = (int64) date * USECS_PER_DAY;
		return range;
	}
	if (TIMESTAMP_NOT_FINITE(DatumGetTimestamp(value)))
		return infinite_time(TIMESTAMP_IS_NOBEGIN(DatumGetTimestamp(value)));
	range.max = range.min = DatumGetTimestamp(value);
	return range;
}

/* Looks at one page; returns true when enough rows have been found. */
static bool
survey_page(const SqRange *range, Buffer buffer, const SqSurveyRequest *request,
			SqSurvey *survey)
{
	Relation	rel = range->heap;
	Page		page = BufferGetPage(buffer);
	BlockNumber block = BufferGetBlockNumber(buffer);
	OffsetNumber maxoff = PageGetMaxOffsetNumber(page);
	bool		all_visible = PageIsAllVisible(page) &&
	!request->snapshot->takenDuringRecovery;
	bool		listed = false;

	/* most pages of a large source, when all has ended that had begun then */
	if (request->start.offset->nxip == 0 &&
		request->start.partial_xid == 0 &&
		request->start.offset->xmax.value >= request->start.horizon.xid &&
		sq_range_page_is_old(range, buffer))
		return false;

	for (OffsetNumber off = FirstOffsetNumber; off <= maxoff; off++)
	{
		ItemId		item = PageGetItemId(page, off);
		HeapTupleData tuple;
		uint64		xid;
		SqTimeRange times = sq_no_times();

		if (!ItemIdIsNormal(item))
			continue;
		tuple.t_data = (HeapTupleHeader) PageGetItem(page, item);
		tuple.t_len = ItemIdGetLength(item);
		tuple.t_tableOid = RelationGetRelid(rel);
		ItemPointerSet(&tuple.t_self, block, off);
		if (!sq_range_has(range, buffer, tuple.t_data, &tuple.t_self, &xid))
			continue;
		if (!all_visible &&
			!HeapTupleSatisfiesVisibility(&tuple, request->snapshot, buffer))
			continue;

		if (request->event_time != InvalidAttrNumber)
			times = event_time_of(&tuple, request->event_time, RelationGetDescr(rel));
		if (request->time_counts != NULL && times.min != PG_INT64_MAX)
			sq_time_counts_add(request->time_counts, times.min, 1);
		if (!listed)
			add_block(survey, block, request->by_xid);
		listed = true;
		if (request->by_xid)
		{
			SqBlockXids *xids = &survey->block_xids[survey->nblocks - 1];

			xids->min_xid = Min(xids->min_xid, xid);
			xids->max_xid = Max(xids->max_xid, xid);
			sq_survey_add_xid(survey, xid, 1, times);
		}
		sq_add_times(&survey->times, times);
		survey->last = tuple.t_self;
		if (++survey->rows == request->stop_after)
			return true;
	}
	return false;
}

/*
 * The blocks to look at: those that the request names, or else those that the arrival
 * map has; NULL stands for all of them.
 */
static const BlockNumber *
blocks_to_survey(Relation rel, const SqSurveyRequest *request, BlockNumber nblocks,
				 BlockNumber *count)
{
	SqArrivalBlocks found;

	*count = request->nonly_blocks;
	if (request->only_blocks != NULL)
		return request->only_blocks;
	*count = nblocks;
	if (!sq_arrivals_blocks(rel, &request->start, &request->end, nblocks, &found, NULL))
		return NULL;
	*count = found.nblocks;
	return found.blocks;
}

/*
 * Looks at the pages of a relation, which the caller has opened and locked, and
 * adds what it finds to the survey.
 */
void
sq_survey_relation(Relation rel, const SqSurveyRequest *request, SqSurvey *survey)
{
	BlockNumber nblocks = RelationGetNumberOfBlocks(rel);
	BlockNumber count;
	const BlockNumber *blocks;
	BlockNumber prefetched = 0;
	BlockNumber distance = (BlockNumber) get_tablespace_io_concurrency(rel->rd_rel->reltablespace);
	BufferAccessStrategy strategy = NULL;
	SqRange		range;
	bool		enough = false;

	sq_range_open(&range, rel, &request->start, &request->end);
	range.is_estimate = request->is_estimate;
	blocks = blocks_to_survey(rel, request, nblocks, &count);
	if (blocks != NULL && blocks != request->only_blocks)
		survey->mapped_blocks += count;
	if (count > (BlockNumber) NBuffers / 4)
		strategy = GetAccessStrategy(BAS_BULKREAD);

	for (BlockNumber i = 0; i < count && !enough; i++)
	{
		BlockNumber block = blocks ? blocks[i] : i;
		Buffer		buffer;

		CHECK_FOR_INTERRUPTS();
		if (block >= nblocks)
			break;				/* truncated since it was listed */
		/* a whole table is read ahead by the kernel */
		for (; blocks && prefetched < count && prefetched <= i + distance &&
			 blocks[prefetched] < nblocks; prefetched++)
			(void) PrefetchBuffer(rel, MAIN_FORKNUM, blocks[prefetched]);
		buffer = ReadBufferExtended(rel, MAIN_FORKNUM, block, RBM_NORMAL, strategy);
		LockBuffer(buffer, BUFFER_LOCK_SHARE);
		enough = survey_page(&range, buffer, request, survey);
		UnlockReleaseBuffer(buffer);
	}
	if (strategy != NULL)
		FreeAccessStrategy(strategy);
}
