/*
 * pending.c
 *		What the transaction at hand has inserted into, and is not yet in the arrival
 *		maps.
 *
 * Insertions are noted in memory and written before the commit, or PREPARE: sorted,
 * one WAL record for a page of the map, which a bulk load does not notice.  A transaction
 * that fails there is rolled back, as if an index could not be written.  Blocks of
 * subtransactions that were rolled back are written, too; that costs a look at them.
 *
 * A run belongs to a file of an index: TRUNCATE gives the index another one, and rolled
 * back to a savepoint, gives the old one back.  So what is written early, as there is
 * too much of it, is what belongs to the present file; the rest waits.  In the end all
 * of it is written: ALTER INDEX ... SET TABLESPACE, of the transaction itself or of another
 * one, as it does not lock the table, has moved the entries to another file.  What that
 * notes in vain costs a look at a block.
 *
 * When the transaction has committed, those who wait for its tables are woken.
 */
#include "arrivals/pending.h"

#include "access/relation.h"
#include "access/transam.h"
#include "access/xact.h"
#include "arrivals/map.h"
#include "compat.h"
#include "debug_point.h"
#include "progress/wakeup.h"
#include "storage/bufmgr.h"
#include "utils/memutils.h"
#include "utils/rel.h"

#define RUNS_MAX	65536		/* then they are written early */
#define RUNS_KEPT	64			/* memory kept for the next transaction */
#define RUNS_TRIED	8			/* among the latest, to be extended */
#define SMALL_BLOCKS 2			/* a transaction that may take a lease */

typedef struct PendingRun
{
	Oid			heap;
	Oid			index;
	Oid			file;			/* relfilenode of the index */
	SqArrivalRun run;
} PendingRun;

static PendingRun *pending = NULL;	/* in TopMemoryContext */
static int	npending = 0;
static int	pending_size = 0;

/* tables inserted into, for the wake-up; in TopTransactionContext */
static Oid *touched = NULL;
static int	ntouched = 0;
static int	touched_size = 0;

/* from the end of the transaction's work on, everything is written at once */
static bool is_ending = false;

/* ------------------------------------------------------------------ writing */

static int
compare_runs(const void *a, const void *b)
{
	const PendingRun *x = a;
	const PendingRun *y = b;

	if (x->index != y->index)
		return x->index < y->index ? -1 : 1;
	if (x->run.first != y->run.first)
		return x->run.first < y->run.first ? -1 : 1;
	return 0;
}

/* adds the part of a run that lies within the table */
static int
add_current(SqArrivalRun *current, int ncurrent, const SqArrivalRun *run, BlockNumber nblocks)
{
	if (run->first >= nblocks)
		return ncurrent;
	current[ncurrent] = *run;
	current[ncurrent].last = Min(run->last, nblocks - 1);
	return ncurrent + 1;
}

/*
 * Writes runs of one index, all of them or those of its present file; then the others are
 * put to the front of kept.  If writing fails, nothing has been forgotten: a savepoint
 * may save the rest of the transaction.
 *
 * The table is locked before the index, as everybody does; the index no longer than
 * needed, as nobody expects a transaction to hold it.
 */
static int
write_index(PendingRun *runs, int n, bool all, bool lease, PendingRun *kept)
{
	Relation	heap = try_relation_open(runs[0].heap, AccessShareLock);
	Relation	index = heap ? try_relation_open(runs[0].index, RowExclusiveLock) : NULL;
	Oid			file = index ? sq_relation_file(index) : InvalidOid;
	int			nkept = 0;

	if (index != NULL)
	{
		BlockNumber nblocks = RelationGetNumberOfBlocks(heap);
		SqArrivalRun *current = palloc(sizeof(SqArrivalRun) * n);
		int			ncurrent = 0;

		for (int i = 0; i < n; i++)
			if (all || runs[i].file == file)
				ncurrent = add_current(current, ncurrent, &runs[i].run, nblocks);
		sq_debug_point("arrivals");
		sq_map_note(index, current, ncurrent, lease);
		pfree(current);
		relation_close(index, RowExclusiveLock);
	}
	if (heap != NULL)
		relation_close(heap, NoLock);
	for (int i = 0; i < n && !all; i++)
		if (runs[i].file != file)
			kept[nkept++] = runs[i];
	return nkept;
}

static bool
is_small(void)
{
	BlockNumber blocks = 0;

	for (int i = 0; i < npending && i <= SMALL_BLOCKS; i++)
		blocks += Min(pending[i].run.last - pending[i].run.first, SMALL_BLOCKS) + 1;
	return blocks <= SMALL_BLOCKS;
}

/* writes everything, or what can be written before the end */
static void
write_pending(bool all)
{
	int			nkept = 0;
	bool		lease = is_small();

	if (npending > 1)
		qsort(pending, npending, sizeof(PendingRun), compare_runs);
	for (int i = 0; i < npending;)
	{
		int			n = 1;

		while (i + n < npending && pending[i + n].index == pending[i].index)
			n++;
		nkept += write_index(pending + i, n, all, lease, pending + nkept);
		i += n;
	}
	npending = nkept;
}

/* ------------------------------------------------------------------- noting */

static void
touch(Oid heap)
{
	for (int i = ntouched - 1; i >= 0; i--)
		if (touched[i] == heap)
			return;
	if (ntouched == touched_size)
	{
		touched_size = Max(touched_size * 2, 4);
		touched = touched ? repalloc(touched, sizeof(Oid) * touched_size) :
			MemoryContextAlloc(TopTransactionContext, sizeof(Oid) * touched_size);
	}
	touched[ntouched++] = heap;
}

/*
 * True if a row's place has been added to a run, or was in it.  A run goes on with a
 * block that is filled from its beginning; one that had rows begins another run.
 */
static bool
extend_run(PendingRun *pending_run, Relation index, BlockNumber block, OffsetNumber offset)
{
	SqArrivalRun *run = &pending_run->run;

	if (pending_run->file != sq_relation_file(index) ||
		pending_run->index != RelationGetRelid(index) ||
		block < run->first || block > run->last + 1 ||
		(block == run->last + 1 && offset != FirstOffsetNumber))
		return false;
	run->last = Max(run->last, block);
	if (block == run->first)
		run->least_offset = Min(run->least_offset, offset);
	return true;
}

static SqArrivalRun *
find_run(Relation index, Oid heap, ItemPointer tid)
{
	BlockNumber block = ItemPointerGetBlockNumberNoCheck(tid);
	OffsetNumber offset = ItemPointerGetOffsetNumberNoCheck(tid);
	PendingRun *added;

	for (int i = npending - 1; i >= 0 && i >= npending - RUNS_TRIED; i--)
		if (extend_run(&pending[i], index, block, offset))
			return &pending[i].run;

	touch(heap);
	if (npending > 0 && npending % sq_debug_runs_max(RUNS_MAX) == 0)
		write_pending(false);
	if (npending == pending_size)
	{
		pending_size = Max(pending_size * 2, RUNS_KEPT);
		pending = pending ? repalloc_huge(pending, sizeof(PendingRun) * (Size) pending_size) :
			MemoryContextAlloc(TopMemoryContext, sizeof(PendingRun) * pending_size);
	}
	added = &pending[npending++];
	added->heap = heap;
	added->index = RelationGetRelid(index);
	added->file = sq_relation_file(index);
	added->run.first = added->run.last = block;
	added->run.least_offset = offset;
	added->run.least_xid = PG_UINT64_MAX;
	added->run.greatest_xid = 0;
	return &added->run;
}

/*
 * Notes that the transaction has inserted a row.  any_xid: the row may be anybody's
 * (as when an index is completed that others did not know of), so the entry has to
 * stand for all transactions up to now.
 */
void
sq_pending_note(Relation index, Relation heap, ItemPointer tid, bool any_xid)
{
	uint64		xid = U64FromFullTransactionId(GetCurrentFullTransactionId());
	SqArrivalRun *run = find_run(index, RelationGetRelid(heap), tid);

	run->least_xid = Min(run->least_xid, any_xid ? FirstNormalTransactionId : xid);
	run->greatest_xid = Max(run->greatest_xid, any_xid ?
							U64FromFullTransactionId(ReadNextFullTransactionId()) - 1 : xid);
	if (is_ending)
		write_pending(true);
}

/* --------------------------------------------------- the end of a transaction */

static void
forget(void)
{
	npending = 0;
	if (pending_size > RUNS_KEPT)
	{
		pfree(pending);
		pending = NULL;
		pending_size = 0;
	}
	touched = NULL;
	ntouched = touched_size = 0;
	is_ending = false;
}

static void
at_transaction_event(XactEvent event, void *arg)
{
	SQ_UNUSED(arg);
	switch (event)
	{
		case XACT_EVENT_PRE_COMMIT:
		case XACT_EVENT_PRE_PREPARE:
			write_pending(true);
			/* other callbacks may insert, after this one */
			is_ending = true;
			break;
		case XACT_EVENT_COMMIT:
		case XACT_EVENT_PREPARE:
			sq_wakeup_committed(touched, ntouched);
			forget();
			break;
		case XACT_EVENT_ABORT:
			forget();
			break;
		default:
			break;
	}
}

void
sq_pending_define(void)
{
	RegisterXactCallback(at_transaction_event, NULL);
}
