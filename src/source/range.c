/*
 * range.c
 *		Whether a row lies in the range that is read (invariant EO-2).
 *
 * The raw xmin decides, widened to 64 bits.  That is not enough of a frozen row when
 * more than 2^32 transactions have been: its xmin may have come round again.  Then the
 * page or the arrival map tells, or it is an error: a row must neither be lost nor
 * be read twice.
 */
#include "source/range.h"

#include "arrivals/arrivals.h"
#include "debug_point.h"
#include "storage/bufmgr.h"
#include "utils/rel.h"

/* Opens a range of a table; the positions have to live as long as it. */
void
sq_range_open(SqRange *range, Relation heap, const SqPosition *start, const SqPosition *end)
{
	range->heap = heap;
	range->start = *start;
	range->end = *end;
	range->test_end = sq_debug_rule(SQ_RULE_END);
	range->next_xid = U64FromFullTransactionId(ReadNextFullTransactionId());
	sq_offset_check_readable(start->offset, end->offset, range->next_xid);
	range->is_estimate = false;
	/* now, as sq_range_decide() must not wait for a lock */
	range->map = range->next_xid < (UINT64CONST(1) << 32) ? InvalidOid :
		sq_arrivals_find(heap);
}

/*
 * True if a page has not been changed since the start's horizon.  Unknown, and
 * false, for pages that are not WAL-logged.
 */
bool
sq_range_page_is_old(const SqRange *range, Buffer buffer)
{
	XLogRecPtr	lsn = BufferGetLSNAtomic(buffer);

	return lsn <= range->start.horizon.lsn && !XLogRecPtrIsInvalid(lsn);
}

/*
 * The same as sq_range_has(), of a frozen row.  Its transaction is xid, by which it is
 * inside or not, or else 2^32 older.
 */
bool
sq_range_decide(const SqRange *range, Buffer buffer, uint64 xid, bool inside, ItemPointer tid)
{
	uint64		older = xid - (UINT64CONST(1) << 32);
	bool		older_inside;

	if (older < FirstNormalTransactionId)
		return inside;
	older_inside = sq_range_includes(range, older, tid);
	if (older_inside == inside)
		return inside;
	/* on an old page there is nothing of transactions begun since the horizon */
	if (xid >= range->start.horizon.xid && sq_range_page_is_old(range, buffer))
		return older_inside;
	switch (sq_arrivals_age(range->map, xid, tid))
	{
		case SQ_ROW_CURRENT:
			return inside;
		case SQ_ROW_OLDER:
			return older_inside;
		case SQ_ROW_UNKNOWN:
			break;
	}
	if (range->is_estimate)
		return inside;
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("cannot tell whether a row of table \"%s\" is new",
					RelationGetRelationName(range->heap)),
			 errdetail("The row at (%u,%u) is frozen, and its 32-bit transaction identifier has come round again; the arrival map (an index USING %s) is missing or has been made since.",
					   ItemPointerGetBlockNumber(tid), ItemPointerGetOffsetNumber(tid),
					   SQ_ARRIVALS_AM),
			 errhint("Use streamq.reset() for a fresh start.")));
	return false;
}
