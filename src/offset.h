/*
 * offset.h
 *		Offsets: values of type pg_snapshot, and positions built on them.
 */
#ifndef SQ_OFFSET_H
#define SQ_OFFSET_H

#include "streamq.h"

#include "access/transam.h"
#include "access/xlogdefs.h"
#include "fmgr.h"
#include "storage/itemptr.h"
#include "utils/snapshot.h"

/*
 * A value of type pg_snapshot as it lies on disk (utils/adt/xid8funcs.c keeps
 * the struct to itself; the format is fixed, as values of it are stored).  The
 * xids in progress are sorted, without doubles, each >= xmin and < xmax.
 */
typedef struct SqOffset
{
	int32		vl_len_;		/* varlena header */
	uint32		nxip;
	FullTransactionId xmin;
	FullTransactionId xmax;
	FullTransactionId xip[FLEXIBLE_ARRAY_MEMBER];
} SqOffset;

/*
 * A point in the WAL and in the xids: transactions from xid on have begun, and
 * so written, after lsn.  Not to be had from the offset: its xmax is what follows
 * the latest transaction that has *ended*.
 */
typedef struct SqHorizon
{
	XLogRecPtr	lsn;			/* invalid: unknown */
	uint64		xid;
} SqHorizon;

/*
 * How far a physical relation has been read: every row that the offset sees,
 * and of one further transaction the rows up to a place in the relation.
 */
typedef struct SqPosition
{
	const SqOffset *offset;
	SqHorizon	horizon;		/* from when the offset was taken, or before */
	uint64		partial_xid;	/* 0 if there is none */
	ItemPointerData partial_upto;
} SqPosition;

#define DatumGetSqOffset(d) ((SqOffset *) PG_DETOAST_DATUM(d))
#define SqOffsetGetDatum(o) PointerGetDatum(o)

extern SqHorizon sq_horizon_now(void);
extern SqOffset *sq_offset_capture(Snapshot snapshot);
extern SqOffset *sq_offset_now(void);
extern SqOffset *sq_offset_empty(void);
extern SqOffset *sq_offset_upto(uint64 xmax);
extern SqOffset *sq_offset_copy(const SqOffset *offset);
extern SqOffset *sq_offset_cut(const SqOffset *start, const SqOffset *target,
							   uint64 cut);
extern bool sq_offset_equal(const SqOffset *a, const SqOffset *b);
extern bool sq_offset_sees_all(const SqOffset *offset, const SqOffset *other);
extern bool sq_offset_is_too_old(const SqOffset *offset, uint64 next_xid);
extern void sq_offset_check_readable(const SqOffset *start, const SqOffset *stop,
									 uint64 next_xid);
extern uint64 sq_offset_widen(TransactionId xid, uint64 next_xid);
extern bool sq_offset_lists(const SqOffset *offset, uint64 xid);

/* true if nothing at all is visible in the offset */
static inline bool
sq_offset_is_empty(const SqOffset *offset)
{
	return offset->xmax.value < FirstNormalTransactionId;
}

/* true if a committed transaction is visible in the offset */
static inline bool
sq_offset_sees(const SqOffset *offset, uint64 xid)
{
	if (xid < offset->xmin.value)
		return true;
	if (xid >= offset->xmax.value)
		return false;
	return offset->nxip == 0 || !sq_offset_lists(offset, xid);
}

/* true if a row that transaction xid has put at tid lies before the position */
static inline bool
sq_position_covers(const SqPosition *position, uint64 xid, ItemPointer tid)
{
	if (sq_offset_sees(position->offset, xid))
		return true;
	return xid == position->partial_xid && position->partial_xid != 0 &&
		ItemPointerCompare(tid, (ItemPointer) &position->partial_upto) <= 0;
}

#endif							/* SQ_OFFSET_H */
