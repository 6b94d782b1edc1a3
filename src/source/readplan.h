/*
 * readplan.h
 *		What a batch reads of each physical relation, and how the table sampling
 *		method that executes it gets to know.
 */
#ifndef SQ_READPLAN_H
#define SQ_READPLAN_H

#include "offset.h"

#include "nodes/params.h"
#include "storage/block.h"
#include "storage/bufpage.h"

/* the part of one physical relation that a batch reads */
typedef struct SqRelationRead
{
	Oid			relid;
	SqPosition	start;			/* read before the batch */
	SqPosition	end;			/* read after the batch */
	BlockNumber *blocks;		/* the blocks that hold such rows, ascending */
	BlockNumber nblocks;
	int64		rows;			/* how many rows there are */
	bool		unsurveyed;		/* look at all blocks, whatever is in them */
} SqRelationRead;

typedef struct SqReadPlan
{
	SqRelationRead *relations;
	int			nrelations;
	bool		exact;			/* rows were counted under the very snapshot;
								 * else some may have been deleted since */
} SqReadPlan;

extern const SqRelationRead *sq_readplan_find(const SqReadPlan *plan, Oid relid);
extern ParamListInfo sq_readplan_params(const SqReadPlan *plan, int nparams,
										const SqOffset *value);
extern const SqReadPlan *sq_readplan_of_params(ParamListInfo params);

/*
 * True if a page has not been changed since the start's horizon.  Unknown, and
 * false, for pages that are not WAL-logged.
 */
static inline bool
sq_page_is_old(const SqPosition *start, Page page)
{
	return PageGetLSN(page) <= start->horizon.lsn &&
		!XLogRecPtrIsInvalid(PageGetLSN(page));
}

/*
 * True if a tuple at tid with this raw xmin belongs to the range.  Inline: it
 * runs for each tuple of each page looked at.
 *
 * On an old page there is nothing of transactions that have begun since the
 * start's horizon.  What looks so is a frozen row of an earlier epoch, inserted more than
 * 2^32 transactions ago, whose xmin has come round again.
 */
static inline bool
sq_in_range(const SqPosition *start, const SqPosition *end, bool test_end,
			bool page_is_old, uint64 xid, ItemPointer tid)
{
	if (sq_position_covers(start, xid, tid))
		return false;
	if (page_is_old && xid >= start->horizon.xid)
		return false;
	return !test_end || sq_position_covers(end, xid, tid);
}

#endif							/* SQ_READPLAN_H */
