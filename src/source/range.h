/*
 * range.h
 *		Whether a row lies in the range that is read (invariant EO-2).
 */
#ifndef SQ_RANGE_H
#define SQ_RANGE_H

#include "offset.h"

#include "access/htup_details.h"
#include "storage/buf.h"
#include "utils/relcache.h"

typedef struct SqRange
{
	Relation	heap;
	SqPosition	start;			/* read before */
	SqPosition	end;			/* read after */
	bool		test_end;
	bool		is_estimate;	/* what cannot be told is no error */
	uint64		next_xid;		/* when the range was opened, or later */
	Oid			map;			/* the arrival map, locked, if it may be asked */
} SqRange;

extern void sq_range_open(SqRange *range, Relation heap, const SqPosition *start,
						  const SqPosition *end);
extern bool sq_range_page_is_old(const SqRange *range, Buffer buffer);
extern bool sq_range_decide(const SqRange *range, Buffer buffer, uint64 xid, bool inside,
							ItemPointer tid);

/* true if a row of transaction xid at tid lies in the range */
static inline bool
sq_range_includes(const SqRange *range, uint64 xid, ItemPointer tid)
{
	if (sq_position_covers(&range->start, xid, tid))
		return false;
	return !range->test_end || sq_position_covers(&range->end, xid, tid);
}

/*
 * True if a row, on a page that is pinned, lies in the range; *xid is its inserting
 * transaction.  Inline: it runs for each row of each page looked at.
 */
static inline bool
sq_range_has(const SqRange *range, Buffer buffer, HeapTupleHeader tuple, ItemPointer tid,
			 uint64 *xid)
{
	bool		inside;

	*xid = sq_offset_widen(HeapTupleHeaderGetRawXmin(tuple), range->next_xid);
	inside = sq_range_includes(range, *xid, tid);

	/*
	 * of a row that is not frozen, and of a young cluster's, 32 bits are
	 * enough
	 */
	if (likely(*xid < (UINT64CONST(1) << 32)) || !HeapTupleHeaderXminFrozen(tuple))
		return inside;
	return sq_range_decide(range, buffer, *xid, inside, tid);
}

#endif							/* SQ_RANGE_H */
