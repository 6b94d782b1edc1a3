/*
 * map.c
 *		The pages of an arrival map: layout and writing.
 *
 * An index of access method streamq_arrivals has an entry for each block of its
 * table: the least and the greatest xid that inserted there.  Invariant MAP-1: when a
 * transaction has committed, the xmin of each of its rows lies between least and
 * greatest of the row's block (greatest including the lease).  So a block whose entry
 * holds none of the xids asked for need not be looked at.
 *
 * Summary pages hold the same of each page of entries, only more roughly.  A
 * summary is written before the page, so that what is found on a page has got its
 * summary even if the writer failed in between.
 *
 * Everything is written by generic WAL: without preloading, the server that replays
 * the WAL does not have this library.
 *
 * Eras.  32 bits of an xid come round again.  A row whose xmin is 2^31 or more older
 * than a transaction that inserts into its block is frozen; so the first one that
 * inserts in an era of 2^31 xids takes down up to which offset there are frozen rows
 * (see sq_arrivals_age()).
 */
#include "arrivals/map.h"

#include "access/generic_xlog.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "access/transam.h"
#include "miscadmin.h"
#include "storage/bufmgr.h"
#include "storage/lmgr.h"
#include "utils/rel.h"

#define MAP_MAGIC		0x5351414dU
#define OLD_SHIFT		48
#define OLD_MASK		UINT64CONST(0xFFF)
#define REUSED_BIT		(UINT64CONST(1) << 60)
#define ERA_SHIFT		49

/* where old rows are, of the blocks of one page that ask for it */
typedef struct OldRows
{
	uint16		upto[SQ_MAP_ENTRIES];
	bool		known[SQ_MAP_ENTRIES];
} OldRows;

static uint16
era_of(uint64 xid)
{
	return (uint16) (xid / SQ_ERA + 1);
}

/* the first xid of an era */
uint64
sq_map_era_start(uint16 era)
{
	return (era - 1) * SQ_ERA;
}

SqArrival
sq_map_unpack(const SqMapEntry *entry)
{
	SqArrival	arrival;

	arrival.least = sq_map_least(entry);
	arrival.greatest = sq_map_greatest(entry);
	arrival.leased = (entry->greatest & SQ_LEASED_BIT) != 0;
	arrival.old_upto = (uint16) (entry->least >> OLD_SHIFT & OLD_MASK);
	arrival.reused = (entry->least & REUSED_BIT) != 0;
	arrival.era = (uint16) (entry->greatest >> ERA_SHIFT);
	return arrival;
}

static SqMapEntry
pack(const SqArrival *arrival)
{
	SqMapEntry	entry;

	entry.least = arrival->least | (uint64) arrival->old_upto << OLD_SHIFT |
		(arrival->reused ? REUSED_BIT : 0);
	entry.greatest = arrival->greatest | (arrival->leased ? SQ_LEASED_BIT : 0) |
		(uint64) arrival->era << ERA_SHIFT;
	return entry;
}

/* -------------------------------------------------------------------- pages */

static void
init_page(Page page, bool summary)
{
	SqMapSpecial *special;

	PageInit(page, BLCKSZ, sizeof(SqMapSpecial));
	/* what lies between pd_lower and pd_upper is left out of the WAL */
	((PageHeader) page)->pd_lower = ((PageHeader) page)->pd_upper;
	special = (SqMapSpecial *) PageGetSpecialPointer(page);
	special->magic = MAP_MAGIC;
	special->kind = summary;
}

/* Reads a page, and locks it (SHARE).  It may be new: then nobody has written to it. */
Buffer
sq_map_read(Relation index, BlockNumber block, bool summary)
{
	Buffer		buffer = ReadBuffer(index, block);
	Page		page = BufferGetPage(buffer);
	bool		right;

	LockBuffer(buffer, BUFFER_LOCK_SHARE);
	right = PageIsNew(page) ||
		(PageGetSpecialSize(page) == MAXALIGN(sizeof(SqMapSpecial)) &&
		 ((SqMapSpecial *) PageGetSpecialPointer(page))->magic == MAP_MAGIC &&
		 ((SqMapSpecial *) PageGetSpecialPointer(page))->kind == (uint32) summary);
	if (!right)
		ereport(ERROR,
				(errcode(ERRCODE_INDEX_CORRUPTED),
				 errmsg("index \"%s\" contains a corrupted page at block %u",
						RelationGetRelationName(index), block),
				 errhint("Please REINDEX it.")));
	return buffer;
}

/* makes the index have a block, and all before it */
static void
extend(Relation index, BlockNumber block)
{
	if (block < RelationGetNumberOfBlocks(index))
		return;
	LockRelationForExtension(index, ExclusiveLock);
	for (BlockNumber next = RelationGetNumberOfBlocks(index); next <= block; next++)
	{
		Buffer		buffer = ReadBufferExtended(index, MAIN_FORKNUM, P_NEW, RBM_NORMAL, NULL);
		GenericXLogState *state;

		Assert(BufferGetBlockNumber(buffer) == next);
		LockBuffer(buffer, BUFFER_LOCK_EXCLUSIVE);
		state = GenericXLogStart(index);
		init_page(GenericXLogRegisterBuffer(state, buffer, GENERIC_XLOG_FULL_IMAGE),
				  next % (SQ_MAP_ENTRIES + 1) == 0);
		GenericXLogFinish(state);
		UnlockReleaseBuffer(buffer);
		CHECK_FOR_INTERRUPTS();
	}
	UnlockRelationForExtension(index, ExclusiveLock);
}

/* begins to write to a page that is locked; it may have been left new by a crash */
static SqMapEntry *
begin_write(Relation index, Buffer buffer, bool summary, GenericXLogState **state)
{
	bool		is_new = PageIsNew(BufferGetPage(buffer));
	Page		page;

	*state = GenericXLogStart(index);
	page = GenericXLogRegisterBuffer(*state, buffer, is_new ? GENERIC_XLOG_FULL_IMAGE : 0);
	if (is_new)
		init_page(page, summary);
	return sq_map_entries(page);
}

/* ------------------------------------------------------------------ entries */

/* true if it is time to take down which rows of a block are old */
static bool
is_new_era(const SqArrival *arrival, const SqArrivalRun *run)
{
	return arrival->least != 0 && arrival->least + SQ_ERA <= run->greatest_xid &&
		arrival->era < era_of(run->greatest_xid);
}

/* the least offset of the run's rows on its block */
static OffsetNumber
least_offset(const SqArrivalRun *run, BlockNumber block)
{
	return block == run->first ? run->least_offset : FirstOffsetNumber;
}

/* true if there is nothing to be written of a block of the run */
static bool
is_noted(const SqMapEntry *entry, const SqArrivalRun *run, BlockNumber block)
{
	SqArrival	arrival = sq_map_unpack(entry);

	return arrival.least != 0 && arrival.least <= run->least_xid &&
		run->greatest_xid <= sq_map_upto(entry) &&
		!is_new_era(&arrival, run) &&
		(least_offset(run, block) > arrival.old_upto || arrival.reused);
}

static void
note(SqMapEntry *entry, const SqArrivalRun *run, BlockNumber block, bool lease, uint16 old_upto)
{
	SqArrival	arrival = sq_map_unpack(entry);

	if (is_new_era(&arrival, run))
	{
		arrival.old_upto = old_upto;
		arrival.era = era_of(run->greatest_xid);
		/* if rows have come in this era already, they may be frozen, too */
		arrival.reused = sq_map_upto(entry) >= sq_map_era_start(arrival.era);
	}
	if (least_offset(run, block) <= arrival.old_upto)
		arrival.reused = true;
	if (arrival.least == 0 || run->least_xid < arrival.least)
		arrival.least = run->least_xid;
	if (run->greatest_xid > sq_map_upto(entry))
	{
		arrival.greatest = run->greatest_xid;
		arrival.leased = lease;
	}
	*entry = pack(&arrival);
}

/* true if a run, and all that follow, has nothing on page n of entries */
static bool
begins_after(const SqArrivalRun *run, BlockNumber n)
{
	return run->first / SQ_MAP_ENTRIES > n;
}

/*
 * The part of a run that lies on page n of entries, as indexes of entries; false if
 * there is none.
 */
static bool
part_on_page(const SqArrivalRun *run, BlockNumber n, int *from, int *to)
{
	BlockNumber first = n * (BlockNumber) SQ_MAP_ENTRIES;

	if (run->last < first || begins_after(run, n))
		return false;
	*from = (int) (Max(run->first, first) - first);
	*to = (int) Min(run->last - first, SQ_MAP_ENTRIES - 1);
	return true;
}

/* true if all that the runs have on a page has been noted */
static bool
all_noted(Page page, BlockNumber n, const SqArrivalRun *runs, int nruns)
{
	if (PageIsNew(page))
		return false;
	for (int i = 0; i < nruns && !begins_after(&runs[i], n); i++)
	{
		int			from;
		int			to;

		if (!part_on_page(&runs[i], n, &from, &to))
			continue;
		for (int k = from; k <= to; k++)
			if (!is_noted(&sq_map_entries(page)[k], &runs[i],
						  n * (BlockNumber) SQ_MAP_ENTRIES + (BlockNumber) k))
				return false;
	}
	return true;
}

/* the greatest offset on a block at which there is a frozen row; 0: none */
static uint16
last_frozen(Relation heap, BlockNumber block)
{
	Buffer		buffer = ReadBuffer(heap, block);
	Page		page = BufferGetPage(buffer);
	uint16		result = 0;

	LockBuffer(buffer, BUFFER_LOCK_SHARE);
	for (OffsetNumber off = PageIsNew(page) ? 0 : PageGetMaxOffsetNumber(page); off > 0; off--)
	{
		ItemId		item = PageGetItemId(page, off);

		if (!ItemIdIsNormal(item) ||
			!HeapTupleHeaderXminFrozen((HeapTupleHeader) PageGetItem(page, item)))
			continue;
		result = (uint16) Min(off, OLD_MASK);
		break;
	}
	UnlockReleaseBuffer(buffer);
	return result;
}

/*
 * Finds the old rows of the blocks that are written to for the first time in an era.
 * Rows of transactions that are still in progress are not frozen, and others of
 * this era would have begun it.
 */
static OldRows *
find_old_rows(Relation index, Buffer buffer, BlockNumber n, const SqArrivalRun *runs, int nruns)
{
	OldRows    *old = palloc0(sizeof(OldRows));
	Relation	heap = table_open(index->rd_index->indrelid, AccessShareLock);
	Page		page = BufferGetPage(buffer);

	LockBuffer(buffer, BUFFER_LOCK_SHARE);
	if (PageIsNew(page))
		nruns = 0;

	for (int i = 0; i < nruns && !begins_after(&runs[i], n); i++)
	{
		int			from;
		int			to;

		if (!part_on_page(&runs[i], n, &from, &to))
			continue;
		for (int k = from; k <= to; k++)
		{
			SqArrival	arrival = sq_map_unpack(&sq_map_entries(page)[k]);

			if (old->known[k] || !is_new_era(&arrival, &runs[i]))
				continue;
			old->upto[k] = last_frozen(heap, n * (BlockNumber) SQ_MAP_ENTRIES + k);
			old->known[k] = true;
		}
	}
	LockBuffer(buffer, BUFFER_LOCK_UNLOCK);
	table_close(heap, AccessShareLock);
	return old;
}

/* notes on the summary of page n what the runs have on that page, lease included */
static void
note_summary(Relation index, BlockNumber n, const SqArrivalRun *runs, int nruns, bool lease)
{
	Buffer		buffer;
	int			k = (int) (n % SQ_MAP_ENTRIES);
	SqArrivalRun all = runs[0];
	bool		noted;
	GenericXLogState *state;
	SqMapEntry *entry;

	for (int i = 1; i < nruns && !begins_after(&runs[i], n); i++)
	{
		all.least_xid = Min(all.least_xid, runs[i].least_xid);
		all.greatest_xid = Max(all.greatest_xid, runs[i].greatest_xid);
	}
	if (lease)
		all.greatest_xid |= SQ_SUMMARY_LEASE;

	buffer = sq_map_read(index, sq_map_summary_block(n), true);
	entry = &sq_map_entries(BufferGetPage(buffer))[k];
	noted = !PageIsNew(BufferGetPage(buffer)) && entry->least != 0 &&
		entry->least <= all.least_xid && all.greatest_xid <= entry->greatest;
	LockBuffer(buffer, BUFFER_LOCK_UNLOCK);
	if (!noted)
	{
		LockBuffer(buffer, BUFFER_LOCK_EXCLUSIVE);
		entry = &begin_write(index, buffer, true, &state)[k];
		if (entry->least == 0 || all.least_xid < entry->least)
			entry->least = all.least_xid;
		entry->greatest = Max(entry->greatest, all.greatest_xid);
		GenericXLogFinish(state);
		LockBuffer(buffer, BUFFER_LOCK_UNLOCK);
	}
	ReleaseBuffer(buffer);
}

/* notes on page n of entries what the runs have there; the first run has something */
static void
note_page(Relation index, BlockNumber n, const SqArrivalRun *runs, int nruns, bool lease)
{
	Buffer		buffer;
	bool		noted;
	OldRows    *old = NULL;
	GenericXLogState *state;
	SqMapEntry *entries;

	extend(index, sq_map_block(n));
	buffer = sq_map_read(index, sq_map_block(n), false);
	noted = all_noted(BufferGetPage(buffer), n, runs, nruns);
	LockBuffer(buffer, BUFFER_LOCK_UNLOCK);
	if (noted)
	{
		ReleaseBuffer(buffer);
		return;
	}
	note_summary(index, n, runs, nruns, lease);
	if (runs[0].greatest_xid >= SQ_ERA)
		old = find_old_rows(index, buffer, n, runs, nruns);

	LockBuffer(buffer, BUFFER_LOCK_EXCLUSIVE);
	entries = begin_write(index, buffer, false, &state);
	for (int i = 0; i < nruns && !begins_after(&runs[i], n); i++)
	{
		int			from;
		int			to;

		if (!part_on_page(&runs[i], n, &from, &to))
			continue;
		for (int k = from; k <= to; k++)
			note(&entries[k], &runs[i], n * (BlockNumber) SQ_MAP_ENTRIES + (BlockNumber) k,
				 lease, old ? old->upto[k] : 0);
	}
	GenericXLogFinish(state);
	UnlockReleaseBuffer(buffer);
	if (old != NULL)
		pfree(old);
}

/*
 * Notes which blocks a transaction has inserted into.  The runs are sorted by their
 * first block; lease: see SQ_LEASE, for small transactions only.
 */
void
sq_map_note(Relation index, const SqArrivalRun *runs, int nruns, bool lease)
{
	int			i = 0;
	BlockNumber n = 0;

	while (i < nruns)
	{
		/* a run may go on from the page before */
		n = Max(n, runs[i].first / (BlockNumber) SQ_MAP_ENTRIES);
		if (runs[i].last / SQ_MAP_ENTRIES < n)
		{
			i++;
			continue;
		}
		note_page(index, n, runs + i, nruns - i, lease);
		n++;
		CHECK_FOR_INTERRUPTS();
	}
}

/*
 * Fills a new map for a table of that many blocks, of which nothing is known: rows of
 * any transaction up to now may lie anywhere.
 */
void
sq_map_fill(Relation index, BlockNumber nblocks)
{
	SqArrivalRun run;

	if (nblocks == 0)
		return;
	run.first = 0;
	run.last = nblocks - 1;
	run.least_offset = MaxOffsetNumber;
	run.least_xid = FirstNormalTransactionId;
	run.greatest_xid = U64FromFullTransactionId(ReadNextFullTransactionId()) - 1;
	sq_map_note(index, &run, 1, false);
}
