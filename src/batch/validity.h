/*
 * validity.h
 *		Whether what is kept between batches still holds.
 */
#ifndef SQ_VALIDITY_H
#define SQ_VALIDITY_H

#include "streamq.h"
#include "lib/ilist.h"
#include "nodes/parsenodes.h"
#include "nodes/plannodes.h"

/* what something has been made of, and whether nothing of that has changed since */
typedef struct SqValidity
{
	dlist_node	node;			/* of all of them */
	MemoryContext context;
	MemoryContextCallback at_end;	/* of the context */
	bool		valid;
	bool		making;			/* not all of what follows is known yet */
	List	   *relations;		/* oids */
	List	   *types;			/* hash values of domains, as integers */
} SqValidity;

extern void sq_validity_init(SqValidity *validity, MemoryContext context);
extern void sq_validity_add_relations(SqValidity *validity, const List *relations);
extern void sq_validity_add_query(SqValidity *validity, Query *query);
extern void sq_validity_add_plan(SqValidity *validity, const PlannedStmt *plan);

#endif							/* SQ_VALIDITY_H */
