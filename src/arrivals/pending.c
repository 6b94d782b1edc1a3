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
 * A run belongs to a file of an index, not to the index: TRUNCATE gives it another
 * one, and rolled back to a savepoint, gives the old one back.  What is written early,
 * as there is too much of it, goes by that; the rest waits until the end, when what
 * belongs to no present file is forgotten.
 *
 * The index stays locked until the end: ALTER INDEX ... SET TABLESPACE, which gives it
 * another file, too, does not lock the table.
 *
 * When the transaction has committed, those who wait for its tables are woken.
 */
#include "arrivals/pending.h"

#include "access/relation.h"
#include "access/transam.h"
#include "access/xact.h"
#include "arrivals/map.h"
#include "debug_point.h"
#include "progress/wakeup.h"
#include "storage/lmgr.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/resowner.h"

#define RUNS_MAX	65536		/* then they are written early */
#define RUNS_KEPT	64			/* memory kept for the next transaction */
#define RUNS_TRIED	8			/* among the latest, to be extended */
#define SMALL_BLOCKS 2			/* a transaction that may take a lease */

typedef struct PendingRun
{
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

/*
 * Writes runs of one index; then those of another file of it are put to the front of
 * kept.  If writing fails, nothing has been forgotten: a savepoint may save the rest of
 * the transaction.
 */
static int
write_index(PendingRun *runs, int n, bool lease, PendingRun *kept)
{
	Relation	index = try_relation_open(runs[0].index, RowExclusiveLock);
	Oid			file = index ? index->rd_node.relNode : InvalidOid;
	SqArrivalRun *current = palloc(sizeof(SqArrivalRun) * n);
	int			ncurrent = 0;
	int			nkept = 0;

	for (int i = 0; i < n; i++)
		if (runs[i].file == file)
			current[ncurrent++] = runs[i].run;
	sq_debug_point("arrivals");
	if (ncurrent > 0)
		sq_map_note(index, current, ncurrent, lease);
	if (index != NULL)
		relation_close(index, NoLock);
	pfree(current);
	for (int i = 0; i < n; i++)
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

/* writes what can be written; what is left belongs to files that are not current */
static void
write_pending(void)
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
		nkept += write_index(pending + i, n, lease, pending + nkept);
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

/* keeps an index from getting another file, also if a savepoint is rolled back to */
static void
lock_until_end(Relation index)
{
	ResourceOwner old = CurrentResourceOwner;

	CurrentResourceOwner = TopTransactionResourceOwner;
	LockRelationOid(RelationGetRelid(index), RowExclusiveLock);
	CurrentResourceOwner = old;
}

/*
 * True if a row's place has been added to a run, or was in it.  A run goes on with a
 * block that is filled from its beginning; one that had rows begins another run.
 */
static bool
extend_run(PendingRun *pending_run, Relation index, BlockNumber block, OffsetNumber offset)
{
	SqArrivalRun *run = &pending_run->run;

	if (pending_run->file != index->rd_node.relNode ||
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
	lock_until_end(index);
	if (npending > 0 && npending % sq_debug_runs_max(RUNS_MAX) == 0)
		write_pending();
	if (npending == pending_size)
	{
		pending_size = Max(pending_size * 2, RUNS_KEPT);
		pending = pending ? repalloc_huge(pending, sizeof(PendingRun) * (Size) pending_size) :
			MemoryContextAlloc(TopMemoryContext, sizeof(PendingRun) * pending_size);
	}
	added = &pending[npending++];
	added->index = RelationGetRelid(index);
	added->file = index->rd_node.relNode;
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
		write_pending();
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
			write_pending();
			/* other callbacks may insert, after this one */
			is_ending = true;
			break;
		case XACT_EVENT_COMMIT:
			sq_wakeup_committed(touched, ntouched);
			forget();
			break;
		case XACT_EVENT_ABORT:
		case XACT_EVENT_PREPARE:
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
