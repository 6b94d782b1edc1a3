/*
 * plan.h
 *		Planning the statements of a batch, and keeping their plans.
 */
#ifndef SQ_PLAN_H
#define SQ_PLAN_H

#include "batch/validity.h"
#include "compiler/compile.h"
#include "nodes/params.h"

/* how large a relation was when a plan was made */
typedef struct SqPlannedSize
{
	Oid			relid;
	int64		pages;
	int64		rows_read;		/* by the batch, of its increment */
} SqPlannedSize;

/* the plan of a statement, kept between batches */
typedef struct SqKeptPlan
{
	SqValidity *validity;		/* also of the statement */
	MemoryContext context;		/* of what follows; NULL: nothing is kept */
	List	   *plans;			/* PlannedStmt */
	SqPlannedSize *sizes;
	int			nsizes;
} SqKeptPlan;

extern List *sq_plan_statement(const SqStatement *statement, ParamListInfo params);

#endif							/* SQ_PLAN_H */
