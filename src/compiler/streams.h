/*
 * streams.h
 *		Finding the streams of a query, and making it read increments of them.
 */
#ifndef SQ_STREAMS_H
#define SQ_STREAMS_H

#include "streamq.h"
#include "nodes/parsenodes.h"

/* what a query reads of a stream */
typedef struct SqStreamUse
{
	int			source;			/* index into the list of sources */
	bool		with_children;	/* false for FROM ONLY */
} SqStreamUse;

extern Query *sq_streams_definition(Oid view);
extern List *sq_streams_tables(Query *query);
extern List *sq_streams_relations(Query *query);
extern List *sq_streams_among(List *tables, List *sources);
extern List *sq_streams_expand(Query *query, List *sources);
extern RangeTblEntry *sq_streams_find(Query *query, Oid relid, Query **level);
extern bool sq_streams_is_stream(const RangeTblEntry *rte);

#endif							/* SQ_STREAMS_H */
