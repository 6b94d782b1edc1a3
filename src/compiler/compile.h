/*
 * compile.h
 *		From the definition of a query to what the engine keeps and executes.
 */
#ifndef SQ_COMPILE_H
#define SQ_COMPILE_H

#include "streamq.h"
#include "catalog/querydef.h"
#include "compiler/aggregation.h"
#include "nodes/parsenodes.h"

/* how columns of the engine's own are called, that stand beside those of the user */
#define SQ_RESERVED_PREFIX "streamq "

/*
 * Parameters of all statements of a query, after the two of each source: see
 * sq_compiled_param().
 */
typedef enum SqParam
{
	SQ_PARAM_WATERMARK,			/* in force, of the event-time column's type */
	SQ_PARAM_CLOSED,			/* the one before: groups final then are gone */
	SQ_PARAM_READ,				/* what has been read before the batch
								 * (internal) */
	SQ_NPARAMS
} SqParam;

/* a query taken apart */
typedef struct SqCompiled
{
	const SqQuery *query;
	List	   *sources;		/* SqSource */
	Query	   *select;			/* expanded and normalised */
	List	   *uses;			/* SqStreamUse */
	SqAggregation *aggregation; /* NULL: a query without state */
} SqCompiled;

/* a statement that a batch executes */
typedef struct SqStatement
{
	Query	   *query;			/* analysed, streams marked, not rewritten */
	const char *source_text;	/* what it was analysed from */
	struct SqKeptPlan *kept;	/* NULL: planned for each execution */
} SqStatement;

extern SqCompiled *sq_compile(const SqQuery *query);
extern SqCompiled *sq_compile_select(const SqQuery *query, Query *select);
extern List *sq_compile_sources(const SqQuery *query);
extern int	sq_compiled_nparams(const SqCompiled *compiled);
extern int	sq_compiled_param(const SqCompiled *compiled, SqParam param);
extern List *sq_compiled_param_types(const SqCompiled *compiled);
extern bool sq_compiled_has_watermark(const SqCompiled *compiled);
extern bool sq_compiled_replaces(const SqCompiled *compiled);

#endif							/* SQ_COMPILE_H */
