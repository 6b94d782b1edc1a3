/*
 * offset.c
 *		Offsets: which transactions have been read.
 *
 * An offset is a pg_snapshot that lists every transaction in progress,
 * subtransactions and the taker's own included.  With that, "visible in the
 * offset" can be decided from a tuple's raw xmin alone, years later, and the
 * rows between two offsets are exactly those whose inserter is visible in the
 * second and not in the first (invariant EO-2 of src/README.md).
 *
 * Xids are 64 bits wide here; the 32 bits of a tuple header are widened with
 * the next xid, as no xid on disk is newer.
 */
#include "offset.h"

#include "access/subtrans.h"
#include "access/xact.h"
#include "access/xlog.h"
#include "compat.h"
#include "debug_point.h"
#include "miscadmin.h"
#include "port/atomics.h"
#include "storage/proc.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"

/* a growing set of xids */
typedef struct XidSet
{
	uint64	   *xids;
	size_t		n;
	size_t		size;
} XidSet;

static int
compare_xids(const void *a, const void *b)
{
	uint64		x = *(const uint64 *) a;
	uint64		y = *(const uint64 *) b;

	return (x > y) - (x < y);
}

static void
xidset_add(XidSet *set, uint64 xid)
{
	if (set->n == set->size)
	{
		set->size *= 2;
		set->xids = repalloc_huge(set->xids, sizeof(uint64) * set->size);
	}
	set->xids[set->n++] = xid;
}

static void
xidset_sort(XidSet *set)
{
	size_t		kept = 0;

	qsort(set->xids, set->n, sizeof(uint64), compare_xids);
	for (size_t i = 0; i < set->n; i++)
		if (kept == 0 || set->xids[kept - 1] != set->xids[i])
			set->xids[kept++] = set->xids[i];
	set->n = kept;
}

/*
 * Widens the xid of a tuple header or snapshot.  Permanent xids stay what they
 * are.  An xid may equal the next one (as xmax of a snapshot does), hence ">".
 */
uint64
sq_offset_widen(TransactionId xid, uint64 next_xid)
{
	uint64		wide;

	if (!TransactionIdIsNormal(xid))
		return xid;
	wide = (next_xid & ~UINT64CONST(0xFFFFFFFF)) | xid;
	if (wide > next_xid && wide >= (UINT64CONST(1) << 32))
		wide -= UINT64CONST(1) << 32;
	return wide;
}

/* true if the offset lists the xid as in progress */
bool
sq_offset_lists(const SqOffset *offset, uint64 xid)
{
	return bsearch(&xid, offset->xip, offset->nxip,
				   sizeof(FullTransactionId), compare_xids) != NULL;
}

static SqOffset *
make_offset(uint64 xmin, uint64 xmax, const uint64 *xids, size_t n)
{
	Size		size;
	SqOffset   *offset;

	if (n > (MaxAllocSize - offsetof(SqOffset, xip)) / sizeof(FullTransactionId))
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("too many transactions and subtransactions in progress for an offset")));
	/* sorted, so this holds for all of them; a violation would lose rows */
	if (n > 0 && (xids[0] < xmin || xids[n - 1] >= xmax))
		elog(ERROR, "offset lists a transaction outside of its bounds");
	size = offsetof(SqOffset, xip) + n * sizeof(FullTransactionId);
	offset = palloc0(size);
	SET_VARSIZE(offset, size);
	offset->nxip = (uint32) n;
	offset->xmin.value = xmin;
	offset->xmax.value = xmax;
	if (n > 0)
		memcpy(offset->xip, xids, n * sizeof(FullTransactionId));
	return offset;
}

/* The offset before every row, also before those with permanent xids. */
SqOffset *
sq_offset_empty(void)
{
	return make_offset(1, 1, NULL, 0);
}

/* The offset that sees every transaction below xmax. */
SqOffset *
sq_offset_upto(uint64 xmax)
{
	return make_offset(xmax, xmax, NULL, 0);
}

SqOffset *
sq_offset_copy(const SqOffset *offset)
{
	SqOffset   *copy = palloc(VARSIZE(offset));

	memcpy(copy, offset, VARSIZE(offset));
	return copy;
}

/*
 * GetSnapshotData leaves out the caller's own xids, but their rows are not
 * covered by this offset: the caller may go on inserting.  Returns true if not
 * all of them are known here.
 */
static bool
add_own_xids(XidSet *set, uint64 xmax, uint64 next_xid)
{
	TransactionId top = GetTopTransactionIdIfAny();

	if (!TransactionIdIsValid(top) || !sq_debug_rule(SQ_RULE_OWN_XID))
		return false;
	if (sq_offset_widen(top, next_xid) < xmax)
		xidset_add(set, sq_offset_widen(top, next_xid));
	for (int i = 0; i < MyProc->subxidStatus.count; i++)
	{
		uint64		xid = sq_offset_widen(MyProc->subxids.xids[i], next_xid);

		if (xid < xmax)
			xidset_add(set, xid);
	}
	return MyProc->subxidStatus.overflowed;
}

/*
 * Adds the subtransactions that an overflowed snapshot does not list.  An xid
 * is handed out before pg_subtrans is written, so the commit log is asked
 * first: what has ended by now has its entry in pg_subtrans.
 */
static void
add_unlisted_subxids(XidSet *set, uint64 xmax, uint64 next_xid)
{
	size_t		listed = set->n;

	for (uint64 xid = set->xids[0]; xid < xmax; xid++)
	{
		TransactionId short_xid = (TransactionId) xid;

		if ((xid & 0xFFFF) == 0)
			CHECK_FOR_INTERRUPTS();
		if (!TransactionIdIsNormal(short_xid) ||
			bsearch(&xid, set->xids, listed, sizeof(uint64), compare_xids))
			continue;
		if (TransactionIdDidAbort(short_xid))
			continue;
		if (TransactionIdDidCommit(short_xid))
		{
			uint64		top = sq_offset_widen(SubTransGetTopmostTransaction(short_xid),
											  next_xid);

			if (!bsearch(&top, set->xids, listed, sizeof(uint64), compare_xids))
				continue;
		}
		xidset_add(set, xid);
	}
}

/* The horizon at this moment; to be taken before the snapshot of an offset. */
SqHorizon
sq_horizon_now(void)
{
	SqHorizon	horizon;

	/*
	 * in this order: who gets an xid after the second has not written before
	 * the first
	 */
	horizon.lsn = GetXLogInsertRecPtr();
	pg_memory_barrier();
	horizon.xid = U64FromFullTransactionId(ReadNextFullTransactionId());
	return horizon;
}

/*
 * The offset of a snapshot, which has to be active or registered.  On a standby
 * all xids in progress are in the subxip array.
 */
SqOffset *
sq_offset_capture(Snapshot snapshot)
{
	uint64		next_xid = U64FromFullTransactionId(ReadNextFullTransactionId());
	uint64		xmax = sq_offset_widen(snapshot->xmax, next_xid);
	bool		overflowed = snapshot->suboverflowed;
	XidSet		set;
	SqOffset   *offset;

	Assert(snapshot->snapshot_type == SNAPSHOT_MVCC);
	set.size = snapshot->xcnt + snapshot->subxcnt + 64;
	set.n = 0;
	set.xids = palloc(sizeof(uint64) * set.size);

	for (uint32 i = 0; i < snapshot->xcnt; i++)
		xidset_add(&set, sq_offset_widen(snapshot->xip[i], next_xid));
	if (!snapshot->suboverflowed || snapshot->takenDuringRecovery)
		for (int32 i = 0; i < snapshot->subxcnt; i++)
			xidset_add(&set, sq_offset_widen(snapshot->subxip[i], next_xid));
	overflowed |= add_own_xids(&set, xmax, next_xid);
	xidset_sort(&set);

	/*
	 * A snapshot lists all subtransactions of a running transaction, also
	 * those from xmax on.  An offset does not see those anyway, and must not
	 * list them: sq_offset_cut() takes what is listed for what lies below its
	 * xmax.
	 */
	while (set.n > 0 && set.xids[set.n - 1] >= xmax)
		set.n--;
	if (overflowed && set.n > 0 && sq_debug_rule(SQ_RULE_SUBXIDS))
	{
		add_unlisted_subxids(&set, xmax, next_xid);
		xidset_sort(&set);
	}

	offset = make_offset(set.n > 0 ? set.xids[0] : xmax, xmax, set.xids, set.n);
	pfree(set.xids);
	return offset;
}

/* The offset of what is committed now, whatever the isolation level. */
SqOffset *
sq_offset_now(void)
{
	SqOffset   *offset;

	PushActiveSnapshot(GetLatestSnapshot());
	offset = sq_offset_capture(GetActiveSnapshot());
	PopActiveSnapshot();
	return offset;
}

/*
 * The offset between start and target that sees what start sees, and of the
 * rest what target sees of the transactions below cut.  start must not see
 * more than target.
 */
SqOffset *
sq_offset_cut(const SqOffset *start, const SqOffset *target, uint64 cut)
{
	uint64		xmax = Max(start->xmax.value, cut);
	XidSet		set;
	SqOffset   *offset;

	set.size = start->nxip + target->nxip + 1;
	set.n = 0;
	set.xids = palloc(sizeof(uint64) * set.size);

	/* below start's xmax, start's list loses what the cut lets through */
	for (uint32 i = 0; i < start->nxip; i++)
	{
		uint64		xid = start->xip[i].value;

		if (xid >= cut || !sq_offset_sees(target, xid))
			xidset_add(&set, xid);
	}
	/* from there on, target's list counts */
	for (uint32 i = 0; i < target->nxip; i++)
	{
		uint64		xid = target->xip[i].value;

		if (xid >= start->xmax.value && xid < cut)
			xidset_add(&set, xid);
	}
	xidset_sort(&set);
	offset = make_offset(set.n > 0 ? set.xids[0] : xmax, xmax, set.xids, set.n);
	pfree(set.xids);
	return offset;
}

bool
sq_offset_equal(const SqOffset *a, const SqOffset *b)
{
	return VARSIZE(a) == VARSIZE(b) &&
		memcmp(VARDATA(a), VARDATA(b), VARSIZE(a) - VARHDRSZ) == 0;
}

/* True if the offset sees every transaction that the other one sees. */
bool
sq_offset_sees_all(const SqOffset *offset, const SqOffset *other)
{
	if (other->xmax.value > offset->xmax.value)
		return false;
	for (uint32 i = 0; i < offset->nxip; i++)
		if (sq_offset_sees(other, offset->xip[i].value))
			return false;
	return true;
}

/* True if 32-bit xids cannot be told from what the offset sees. */
bool
sq_offset_is_too_old(const SqOffset *offset, uint64 next_xid)
{
	return !sq_offset_is_empty(offset) &&
		next_xid - offset->xmin.value >= (UINT64CONST(1) << 32) - FirstNormalTransactionId;
}

/*
 * Refuses a range that 32-bit xids cannot decide, or that does not belong to
 * this cluster.
 */
void
sq_offset_check_readable(const SqOffset *start, const SqOffset *stop,
						 uint64 next_xid)
{
	if (stop->xmax.value > next_xid || start->xmax.value > next_xid)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("offset lies in the future of this cluster"),
				 errdetail("The offset reaches transaction %llu, the next one here is %llu.",
						   (unsigned long long) Max(stop->xmax.value, start->xmax.value),
						   (unsigned long long) next_xid),
				 errhint("Offsets can be used only in the cluster in which they were taken.")));
	if (sq_offset_is_too_old(start, next_xid))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("offset is too old to be read from"),
				 errdetail("More than 2^32 transactions have started since it was taken.")));
}
