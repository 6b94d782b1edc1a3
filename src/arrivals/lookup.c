/*
 * lookup.c
 *		Reading an arrival map.
 *
 * The map only says where to look (src/README.md, invariant EO-2): a block is left out
 * when its entry proves that it holds nothing of the range (MAP-1 in map.c).  The
 * snapshot that ends the range has to be older than the call: then every transaction
 * that it sees has written its entries.
 *
 * A page of the map that was never written to, as after a crash, proves nothing.
 * Blocks beyond the end of the map have nothing of committed transactions.
 */
#include "arrivals/arrivals.h"

#include "access/genam.h"
#include "access/table.h"
#include "arrivals/map.h"
#include "catalog/pg_class.h"
#include "commands/defrem.h"
#include "miscadmin.h"
#include "storage/bufmgr.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/syscache.h"

#define FIRST_SIZE 64

/*
 * The transactions that the end of a range sees and the start does not: some that
 * the start lists as in progress, and those from the start's xmax on that the end does
 * not list.
 */
typedef struct Window
{
	uint64		start_xmax;
	uint64		end_xmax;
	uint64	   *listed;			/* by the start, and seen by the end; sorted */
	int			nlisted;
	const FullTransactionId *unseen;	/* what the end lists, sorted */
	int			nunseen;
} Window;

/* ---------------------------------------------------------------- the index */

/* True if a relation is an arrival map, valid or not. */
bool
sq_arrivals_is_map(Oid relid)
{
	Oid			am = get_index_am_oid(SQ_ARRIVALS_AM, true);
	HeapTuple	tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(relid));
	bool		result = false;

	if (HeapTupleIsValid(tuple))
	{
		result = OidIsValid(am) && ((Form_pg_class) GETSTRUCT(tuple))->relam == am;
		ReleaseSysCache(tuple);
	}
	return result;
}

/* The oids of all arrival maps of a table, valid or not; mostly there is one. */
List *
sq_arrivals_list(Relation heap)
{
	List	   *indexes = RelationGetIndexList(heap);
	List	   *result = NIL;
	ListCell   *lc;

	foreach(lc, indexes)
	{
		if (sq_arrivals_is_map(lfirst_oid(lc)))
			result = lappend_oid(result, lfirst_oid(lc));
	}
	list_free(indexes);
	return result;
}

/* The oid of a valid arrival map of a table, or InvalidOid. */
Oid
sq_arrivals_find(Relation heap)
{
	Oid			result = InvalidOid;
	List	   *maps = sq_arrivals_list(heap);
	ListCell   *lc;

	foreach(lc, maps)
	{
		Relation	index = index_open(lfirst_oid(lc), AccessShareLock);

		if (index->rd_index->indisvalid && index->rd_index->indisready)
			result = lfirst_oid(lc);
		index_close(index, NoLock);
		if (OidIsValid(result))
			break;
	}
	list_free(maps);
	return result;
}

/* True if every insertion into a table, which the caller has locked, is noted. */
bool
sq_arrivals_covers(Oid relid)
{
	Relation	heap = table_open(relid, NoLock);
	bool		result = OidIsValid(sq_arrivals_find(heap));

	table_close(heap, NoLock);
	return result;
}

/* --------------------------------------------------------------- the window */

static int
compare_xids(const void *a, const void *b)
{
	uint64		x = *(const uint64 *) a;
	uint64		y = *(const uint64 *) b;

	return (x > y) - (x < y);
}

static void
init_window(Window *window, const SqPosition *start, const SqPosition *end)
{
	const SqOffset *from = start->offset;

	window->start_xmax = from->xmax.value;
	window->end_xmax = end->offset->xmax.value;
	window->unseen = end->offset->xip;
	window->nunseen = (int) end->offset->nxip;
	window->listed = palloc(sizeof(uint64) * (from->nxip + 1));
	window->nlisted = 0;
	for (uint32 i = 0; i < from->nxip; i++)
		if (sq_offset_sees(end->offset, from->xip[i].value))
			window->listed[window->nlisted++] = from->xip[i].value;
	if (end->partial_xid != 0)
		window->listed[window->nlisted++] = end->partial_xid;
	qsort(window->listed, window->nlisted, sizeof(uint64), compare_xids);
}

/* how many of the sorted xids are below the one given */
static int
count_below(const uint64 *xids, int n, uint64 xid)
{
	int			low = 0;
	int			high = n;

	while (low < high)
	{
		int			middle = (low + high) / 2;

		if (xids[middle] < xid)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* true if there is a transaction of the window from least to greatest */
static bool
window_has(const Window *window, uint64 least, uint64 greatest)
{
	uint64		from = Max(least, window->start_xmax);
	uint64		to = Min(greatest, window->end_xmax - 1);
	const uint64 *unseen = (const uint64 *) window->unseen;
	int			k = count_below(window->listed, window->nlisted, least);

	if (k < window->nlisted && window->listed[k] <= greatest)
		return true;
	if (from > to)
		return false;
	return to - from + 1 > (uint64) (count_below(unseen, window->nunseen, to + 1) -
									 count_below(unseen, window->nunseen, from));
}

/* ------------------------------------------------------------------- blocks */

static void
add_block(SqArrivalBlocks *result, BlockNumber block)
{
	if (result->nblocks == result->size)
	{
		bool		first = result->size == 0;

		result->size = first ? FIRST_SIZE : result->size * 2;
		result->blocks = first ? palloc(sizeof(BlockNumber) * FIRST_SIZE) :
			repalloc_huge(result->blocks, sizeof(BlockNumber) * (Size) result->size);
	}
	result->blocks[result->nblocks++] = block;
}

/*
 * True if a block surely holds rows of the window (unless they have been deleted): not
 * those that are there because of a lease, or because the map was made when the rows
 * were there already.
 */
static bool
is_sure(const Window *window, const SqMapEntry *entry)
{
	uint64		least = sq_map_least(entry);

	if (least == FirstNormalTransactionId && window->start_xmax > least)
		return false;
	return window_has(window, least, sq_map_greatest(entry));
}

/* adds the blocks of page n of entries, which is below the end of the index */
static void
look_at_page(Relation index, BlockNumber n, const Window *window, BlockNumber nblocks,
			 SqArrivalBlocks *result, SqArrivalBlocks *doubtful)
{
	Buffer		buffer = sq_map_read(index, sq_map_block(n), false);
	Page		page = BufferGetPage(buffer);
	const SqMapEntry *entries = sq_map_entries(page);
	BlockNumber first = n * (BlockNumber) SQ_MAP_ENTRIES;
	int			count = (int) Min(nblocks - first, SQ_MAP_ENTRIES);

	for (int k = 0; k < count; k++)
	{
		uint64		least;

		if (PageIsNew(page))
		{
			add_block(result, first + k);
			continue;
		}
		least = sq_map_least(&entries[k]);
		if (least == 0 || !window_has(window, least, sq_map_upto(&entries[k])))
			continue;
		add_block(is_sure(window, &entries[k]) ? result : doubtful, first + k);
	}
	UnlockReleaseBuffer(buffer);
}

/* the pages of entries that a summary page is of */
static void
look_at_summary(Relation index, BlockNumber first, const Window *window, BlockNumber nblocks,
				SqArrivalBlocks *result, SqArrivalBlocks *doubtful)
{
	BlockNumber end = RelationGetNumberOfBlocks(index);
	Buffer		buffer = sq_map_read(index, sq_map_summary_block(first), true);
	Page		page = BufferGetPage(buffer);
	bool		wanted[SQ_MAP_ENTRIES];

	for (int k = 0; k < (int) SQ_MAP_ENTRIES; k++)
	{
		const SqMapEntry *entry = &sq_map_entries(page)[k];

		wanted[k] = PageIsNew(page) ||
			(entry->least != 0 && window_has(window, entry->least, entry->greatest));
	}
	UnlockReleaseBuffer(buffer);
	for (int k = 0; k < (int) SQ_MAP_ENTRIES; k++)
	{
		BlockNumber n = first + (BlockNumber) k;

		CHECK_FOR_INTERRUPTS();
		if (n * (uint64) SQ_MAP_ENTRIES >= nblocks || sq_map_block(n) >= end)
			break;
		if (wanted[k])
			look_at_page(index, n, window, nblocks, result, doubtful);
	}
}

/*
 * Finds the blocks, below nblocks, of a table that may hold rows from start to end;
 * false if the table has no map.  Those that are not sure to are put into doubtful, if that
 * is not NULL.
 */
bool
sq_arrivals_blocks(Relation heap, const SqPosition *start, const SqPosition *end,
				   BlockNumber nblocks, SqArrivalBlocks *result, SqArrivalBlocks *doubtful)
{
	Oid			oid = sq_arrivals_find(heap);
	Relation	index;
	Window		window;

	memset(result, 0, sizeof(*result));
	if (doubtful == NULL)
		doubtful = result;
	else
		memset(doubtful, 0, sizeof(*doubtful));
	if (!OidIsValid(oid))
		return false;
	init_window(&window, start, end);
	index = index_open(oid, NoLock);
	for (BlockNumber first = 0;
		 first * (uint64) SQ_MAP_ENTRIES < nblocks &&
		 sq_map_summary_block(first) < RelationGetNumberOfBlocks(index);
		 first += (BlockNumber) SQ_MAP_ENTRIES)
		look_at_summary(index, first, &window, nblocks, result, doubtful);
	index_close(index, NoLock);
	pfree(window.listed);
	return true;
}

/* ---------------------------------------------------------------------- age */

/* The entry of a block in an index; false if there is none. */
bool
sq_arrivals_entry(Relation index, BlockNumber block, SqArrival *arrival)
{
	BlockNumber n = block / (BlockNumber) SQ_MAP_ENTRIES;
	Buffer		buffer;
	bool		found = false;

	if (sq_map_block(n) >= RelationGetNumberOfBlocks(index))
		return false;
	buffer = sq_map_read(index, sq_map_block(n), false);
	if (!PageIsNew(BufferGetPage(buffer)))
	{
		*arrival = sq_map_unpack(&sq_map_entries(BufferGetPage(buffer))[block % SQ_MAP_ENTRIES]);
		found = arrival->least != 0;
	}
	UnlockReleaseBuffer(buffer);
	return found;
}

/*
 * Of a frozen row at tid whose 32-bit xmin can stand for xid or for xid - 2^32: which
 * one it is, by the table's map (or InvalidOid), which the caller has locked.  He may
 * hold the lock of the page.
 */
SqRowAge
sq_arrivals_age(Oid map, uint64 xid, ItemPointer tid)
{
	Relation	index;
	SqArrival	arrival;
	bool		found;

	if (!OidIsValid(map))
		return SQ_ROW_UNKNOWN;
	index = index_open(map, NoLock);
	found = sq_arrivals_entry(index, ItemPointerGetBlockNumber(tid), &arrival);
	index_close(index, NoLock);
	if (!found)
		return SQ_ROW_UNKNOWN;
	if (xid > sq_arrival_upto(&arrival))
		return SQ_ROW_OLDER;
	if (xid - (UINT64CONST(1) << 32) < arrival.least)
		return SQ_ROW_CURRENT;
	/* the block has been written to in this era, or all of its rows are older */
	if (arrival.era == 0)
		return SQ_ROW_UNKNOWN;
	if (ItemPointerGetOffsetNumber(tid) > arrival.old_upto)
		return SQ_ROW_CURRENT;
	/* the old rows are from before the era: how long before is not known */
	if (arrival.reused || xid < sq_map_era_start(arrival.era))
		return SQ_ROW_UNKNOWN;
	return SQ_ROW_OLDER;
}
