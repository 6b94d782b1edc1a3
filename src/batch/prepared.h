/*
 * prepared.h
 *		A query taken apart, and its statements, kept between batches.
 */
#ifndef SQ_PREPARED_H
#define SQ_PREPARED_H

#include "batch/validity.h"
#include "compiler/emit.h"

/* the places of a batch in which statements are executed */
typedef enum SqPlace
{
	SQ_PLACE_INSERT,			/* the result of a query without state */
	SQ_PLACE_DUE,
	SQ_PLACE_LATE,
	SQ_PLACE_INPUTS,			/* a list */
	SQ_PLACE_MERGE,
	SQ_PLACE_UPSERT,
	SQ_PLACE_REPLACE,
	SQ_PLACE_CLOSE,
	SQ_PLACE_EVICT,				/* a list */
	SQ_PLACE_COUNT_RANGE
} SqPlace;

/* what the statements in a place depend on, batch by batch; a few possibilities */
typedef struct SqVariant
{
	SqLateness	lateness;
	bool		empty;			/* the state is */
	bool		has_closed;		/* there was a watermark before this one */
} SqVariant;

typedef struct SqPrepared
{
	dlist_node	node;
	MemoryContext context;
	SqValidity	validity;
	bool		kept;			/* for further batches */
	bool		in_use;			/* by a batch that has not come to its end */
	Oid			user;			/* who executes it, for row-level security, */
	bool		row_security;	/* under these settings */
	int			replication_role;
	List	   *relations;		/* oids of the tables and views that it reads */
	const SqCompiled *compiled;
	List	   *places;
} SqPrepared;

extern bool sq_prepared_lock(const SqQuery *query);
extern SqPrepared *sq_prepared_begin(const SqQuery *query);
extern void sq_prepared_end(SqPrepared *prepared);
extern SqPrepared *sq_prepared_once(const SqCompiled *compiled);
extern List *sq_prepared_statements(SqPrepared *prepared, SqPlace place, SqVariant variant);
extern const SqStatement *sq_prepared_statement(SqPrepared *prepared, SqPlace place,
												SqVariant variant);

#endif							/* SQ_PREPARED_H */
