/*
 * emit.h
 *		From a query's definition to the statements that a batch executes.
 */
#ifndef SQ_EMIT_H
#define SQ_EMIT_H

#include "streamq.h"
#include "catalog/querydef.h"
#include "nodes/parsenodes.h"

/* a statement that a batch executes */
typedef struct SqStatement
{
	Query	   *query;			/* analysed, streams marked, not rewritten */
	const char *source_text;	/* what it was analysed from */
	List	   *uses;			/* SqStreamUse */
	int			nparams;
} SqStatement;

extern SqStatement *sq_emit_insert(const SqQuery *query);
extern char *sq_emit_show(const SqStatement *statement);

#endif							/* SQ_EMIT_H */
