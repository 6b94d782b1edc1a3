/*
 * compare.h
 *		Whether a changed query can go on from a query's state.
 */
#ifndef SQ_COMPARE_H
#define SQ_COMPARE_H

#include "compiler/compile.h"

extern void sq_compare(const SqCompiled *before, SqCompiled *after, SqQuery *query);

#endif							/* SQ_COMPARE_H */
