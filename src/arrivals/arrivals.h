/*
 * arrivals.h
 *		The arrival map of a table: which blocks may hold rows of a range of
 *		transactions.
 */
#ifndef SQ_ARRIVALS_H
#define SQ_ARRIVALS_H

#include "offset.h"

#include "storage/block.h"
#include "utils/relcache.h"

#define SQ_ARRIVALS_AM "streamq_arrivals"

/*
 * With a lease, later small transactions find their xid covered and need not write.
 * The price: for as long, readers look at the block again.
 */
#define SQ_LEASE UINT64CONST(127)

/* what the map knows of a block */
typedef struct SqArrival
{
	uint64		least;			/* no row of the block has a lower xmin */
	uint64		greatest;		/* the greatest one noted */
	bool		leased;			/* xids up to the end of the lease count as
								 * noted */
	uint16		old_upto;		/* frozen rows at offsets up to this are of an
								 * older era; 0: there are none */
	bool		reused;			/* or not: rows have come to such offsets
								 * since */
	uint16		era;			/* in which old_upto was found; 0: never */
} SqArrival;

/* the greatest xid that a row of the block can have */
static inline uint64
sq_arrival_upto(const SqArrival *arrival)
{
	return arrival->leased ? arrival->greatest | SQ_LEASE : arrival->greatest;
}

/* blocks that may hold rows of a range */
typedef struct SqArrivalBlocks
{
	BlockNumber *blocks;		/* ascending */
	BlockNumber nblocks;
	BlockNumber size;
} SqArrivalBlocks;

/* what the map knows of a frozen row whose xmin may be of this epoch or the one before */
typedef enum SqRowAge
{
	SQ_ROW_CURRENT,
	SQ_ROW_OLDER,
	SQ_ROW_UNKNOWN
} SqRowAge;

extern bool sq_arrivals_is_map(Oid relid);
extern List *sq_arrivals_list(Relation heap);
extern Oid	sq_arrivals_find(Relation heap);
extern bool sq_arrivals_covers(Oid relid);
extern bool sq_arrivals_blocks(Relation heap, const SqPosition *start, const SqPosition *end,
							   BlockNumber nblocks, SqArrivalBlocks *result,
							   SqArrivalBlocks *doubtful);
extern bool sq_arrivals_entry(Relation index, BlockNumber block, SqArrival *arrival);
extern SqRowAge sq_arrivals_age(Oid map, uint64 xid, ItemPointer tid);

#endif							/* SQ_ARRIVALS_H */
