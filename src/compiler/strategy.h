/*
 * strategy.h
 *		Whether an aggregation keeps its groups or asks the source again.
 */
#ifndef SQ_STRATEGY_H
#define SQ_STRATEGY_H

#include "compiler/compile.h"

#define SQ_STRATEGY_STATE "state"	/* groups are kept in a table */
#define SQ_STRATEGY_SOURCE "source" /* read from the source when they close */

extern const char *sq_strategy_choose(const SqCompiled *compiled, char **reason);
extern bool sq_strategy_changes(Node *node);
extern bool sq_strategy_uses_rows(const SqCompiled *compiled);
extern bool sq_strategy_is_filtered(const SqCompiled *compiled);
extern bool sq_strategy_is_source(const SqCompiled *compiled);

#endif							/* SQ_STRATEGY_H */
