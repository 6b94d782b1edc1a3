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
	bool		unsurveyed;		/* look at all blocks, whatever is in them */
} SqRelationRead;

typedef struct SqReadPlan
{
	SqRelationRead *relations;
	int			nrelations;
	bool		exact;			/* rows were counted under the very snapshot;
								 * else some may have been deleted since */
} SqReadPlan;

extern const SqRelationRead *sq_readplan_find(const SqReadPlan *plan, Oid relid);
extern ParamListInfo sq_readplan_params(const SqReadPlan *plan, int nparams,
										const SqOffset *value);
extern const SqReadPlan *sq_readplan_of_params(ParamListInfo params);

#endif							/* SQ_READPLAN_H */
