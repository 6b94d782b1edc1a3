/*
 * map.h
 *		The pages of an arrival map: which transactions have inserted into a block.
 */
#ifndef SQ_ARRIVALS_MAP_H
#define SQ_ARRIVALS_MAP_H

#include "arrivals/arrivals.h"

#include "storage/buf.h"
#include "storage/bufpage.h"
#include "storage/off.h"

/*
 * An entry, of a block of the table or, on a summary page, of a page of entries.
 * An xid takes the lower 48 bits of each word; with the numbers of eras above them
 * that is enough for 2^46 transactions.  least == 0: nothing has been inserted.
 */
typedef struct SqMapEntry
{
	uint64		least;
	uint64		greatest;
} SqMapEntry;

/* blocks in a row into which a transaction has inserted */
typedef struct SqArrivalRun
{
	BlockNumber first;
	BlockNumber last;
	OffsetNumber least_offset;	/* of the rows inserted into the first block;
								 * in the others it can be any */
	uint64		least_xid;
	uint64		greatest_xid;
} SqArrivalRun;

#define SQ_SUMMARY_LEASE	UINT64CONST(4095)

/* rows older than this are frozen, or the server would have refused to go on */
#define SQ_ERA				(UINT64CONST(1) << 31)

/* 16 bytes at the end of each page */
typedef struct SqMapSpecial
{
	uint32		magic;
	uint32		kind;			/* 0: entries, 1: summary */
	uint64		unused;
} SqMapSpecial;

#define SQ_MAP_ENTRIES \
	((BLCKSZ - MAXALIGN(SizeOfPageHeaderData) - MAXALIGN(sizeof(SqMapSpecial))) / sizeof(SqMapEntry))

static inline SqMapEntry *
sq_map_entries(Page page)
{
	return (SqMapEntry *) PageGetContents(page);
}

/*
 * Pages of entries are numbered from 0, page n is of the blocks from n *
 * SQ_MAP_ENTRIES on.  Each SQ_MAP_ENTRIES of them follow a summary page.
 */
static inline BlockNumber
sq_map_summary_block(BlockNumber n)
{
	return (BlockNumber) (n / SQ_MAP_ENTRIES * (SQ_MAP_ENTRIES + 1));
}

static inline BlockNumber
sq_map_block(BlockNumber n)
{
	return (BlockNumber) (sq_map_summary_block(n) + 1 + n % SQ_MAP_ENTRIES);
}

#define SQ_XID_MASK		((UINT64CONST(1) << 48) - 1)
#define SQ_LEASED_BIT	(UINT64CONST(1) << 48)

/* the least xid of an entry, 0 if it is empty */
static inline uint64
sq_map_least(const SqMapEntry *entry)
{
	return entry->least & SQ_XID_MASK;
}

/* the greatest xid noted */
static inline uint64
sq_map_greatest(const SqMapEntry *entry)
{
	return entry->greatest & SQ_XID_MASK;
}

/* the greatest xid that counts as noted */
static inline uint64
sq_map_upto(const SqMapEntry *entry)
{
	return sq_map_greatest(entry) | (entry->greatest & SQ_LEASED_BIT ? SQ_LEASE : 0);
}

extern uint64 sq_map_era_start(uint16 era);
extern SqArrival sq_map_unpack(const SqMapEntry *entry);
extern Buffer sq_map_read(Relation index, BlockNumber block, bool summary);
extern void sq_map_note(Relation index, const SqArrivalRun *runs, int nruns, bool lease);
extern void sq_map_fill(Relation index, BlockNumber nblocks);

#endif							/* SQ_ARRIVALS_MAP_H */
