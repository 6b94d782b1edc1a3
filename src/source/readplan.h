/*
 * readplan.h
 *		What a batch reads of each physical relation, and how the table sampling
 *		method that executes it gets to know.
 */
#ifndef SQ_READPLAN_H
#define SQ_READPLAN_H

#include "offset.h"

#include "nodes/params.h"
#include "storage/block.h"

/* the part of one physical relation that a batch reads */
typedef struct SqRelationRead
{
	Oid			relid;
	SqPosition	start;			/* read before the batch */
	SqPosition	end;			/* read after the batch */
	BlockNumber *blocks;		/* the blocks that hold such rows, ascending */
	BlockNumber nblocks;
	int64		rows;			/* how many rows there are */
} SqRelationRead;

typedef struct SqReadPlan
{
	SqRelationRead *relations;
	int			nrelations;
} SqReadPlan;

extern const SqRelationRead *sq_readplan_find(const SqReadPlan *plan, Oid relid);
extern ParamListInfo sq_readplan_params(const SqReadPlan *plan, int nparams);
extern const SqReadPlan *sq_readplan_of_params(ParamListInfo params);

/*
 * True if a tuple at tid with this raw xmin belongs to the range.  Inline: it
 * runs for each tuple of each page looked at.
 */
static inline bool
sq_in_range(const SqPosition *start, const SqPosition *end, bool test_end,
			uint64 xid, ItemPointer tid)
{
	if (sq_position_covers(start, xid, tid))
		return false;
	return !test_end || sq_position_covers(end, xid, tid);
}

#endif							/* SQ_READPLAN_H */
