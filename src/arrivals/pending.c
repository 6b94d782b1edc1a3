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
 * TRUNCATE gives the index another file, and rolled back to a savepoint, gives the
 * old one back.  So what is written early, as there is too much of it, is only what was
 * noted for the present file; the rest waits until the end.  Then all is written to the
 * file that is there, as somebody else may have moved the index (SET TABLESPACE); an
 * entry too many does no harm.
 *
 * When the transaction has committed, those who wait for its tables are woken.
 */
#include "arrivals/pending.h"

#include "access/relation.h"
#include "access/transam.h"
#include "access/xact.h"
#include "arrivals/map.h"
#include "compat.h"
#include "progress/wakeup.h"
#include "utils/memutils.h"
#include "utils/rel.h"

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

/* writes runs of one index; those that have to wait are put into kept */
static int
write_index(PendingRun *runs, int n, bool at_end, bool lease, PendingRun *kept)
{
	Relation	index = try_relation_open(runs[0].index, RowExclusiveLock);
	SqArrivalRun *current = palloc(sizeof(SqArrivalRun) * n);
	int			ncurrent = 0;
	int			nkept = 0;

	for (int i = 0; i < n; i++)
	{
		if (at_end || (index != NULL && sq_relation_file(index) == runs[i].file))
			current[ncurrent++] = runs[i].run;
		else
			kept[nkept++] = runs[i];
	}
	/* it may have been dropped, or made in a subtransaction that was rolled back */
	if (index != NULL && ncurrent > 0)
		sq_map_note(index, current, ncurrent, lease);
	if (index != NULL)
		relation_close(index, NoLock);
	pfree(current);
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

/* writes what can be written now; at the end that is everything */
static void
write_pending(bool at_end)
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
		nkept += write_index(pending + i, n, at_end, lease, pending + nkept);
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

/* true if a block has been added to a run, or was in it */
static bool
extend_run(PendingRun *pending_run, Relation index, BlockNumber block)
{
	SqArrivalRun *run = &pending_run->run;

	if (pending_run->file != sq_relation_file(index) ||
		pending_run->index != RelationGetRelid(index) ||
		block < run->first || block > run->last + 1)
		return false;
	run->last = Max(run->last, block);
	return true;
}

static SqArrivalRun *
find_run(Relation index, Oid heap, BlockNumber block)
{
	PendingRun *added;

	for (int i = npending - 1; i >= 0 && i >= npending - RUNS_TRIED; i--)
		if (extend_run(&pending[i], index, block))
			return &pending[i].run;

	touch(heap);
	if (npending > 0 && npending % RUNS_MAX == 0)
		write_pending(false);
	if (npending == pending_size)
	{
		pending_size = Max(pending_size * 2, RUNS_KEPT);
		pending = pending ? repalloc_huge(pending, sizeof(PendingRun) * (Size) pending_size) :
			MemoryContextAlloc(TopMemoryContext, sizeof(PendingRun) * pending_size);
	}
	added = &pending[npending++];
	added->index = RelationGetRelid(index);
	added->file = sq_relation_file(index);
	added->run.first = added->run.last = block;
	added->run.least_offset = MaxOffsetNumber;
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
	SqArrivalRun *run = find_run(index, RelationGetRelid(heap),
								 ItemPointerGetBlockNumberNoCheck(tid));

	run->least_xid = Min(run->least_xid, any_xid ? FirstNormalTransactionId : xid);
	run->greatest_xid = Max(run->greatest_xid, any_xid ?
							U64FromFullTransactionId(ReadNextFullTransactionId()) - 1 : xid);
	run->least_offset = Min(run->least_offset, ItemPointerGetOffsetNumberNoCheck(tid));
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
