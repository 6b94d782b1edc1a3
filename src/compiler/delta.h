/*
 * delta.h
 *		The pieces of an aggregation that read what a batch brings.
 */
#ifndef SQ_DELTA_H
#define SQ_DELTA_H

#include "compiler/compile.h"

/* which rows of the batch */
typedef enum SqLateness
{
	SQ_LATE_UNKNOWN,			/* all: none is late, or it does not matter */
	SQ_LATE_LEFT_OUT,			/* those of groups that are not yet final */
	SQ_LATE_ONLY				/* those of groups that are */
} SqLateness;

extern Query *sq_delta_states(const SqCompiled *compiled, SqLateness lateness);
extern Query *sq_delta_inputs(const SqCompiled *compiled, SqLateness lateness);
extern Query *sq_delta_distinct(const SqCompiled *compiled, const SqCall *call,
								SqLateness lateness);
extern Query *sq_delta_keys(const SqCompiled *compiled, SqLateness lateness);
extern void sq_delta_restrict(const SqCompiled *compiled, Query *level, SqParam param,
							  bool final);
extern Query *sq_delta_rows(const SqCompiled *compiled, SqLateness lateness);
extern Aggref *sq_delta_partial(const SqCall *call);
extern char *sq_delta_final(const SqCompiled *compiled, const char *key, SqParam param);
extern Expr *sq_delta_final_expr(const SqCompiled *compiled, Expr *key, SqParam param);

#endif							/* SQ_DELTA_H */
