/*
 * groups.h
 *		The query over its groups: keys and final values instead of rows.
 */
#ifndef SQ_GROUPS_H
#define SQ_GROUPS_H

#include "compiler/compile.h"

extern char *sq_groups_hash(const SqAggregation *aggregation, const char *row);
extern char *sq_groups_same(const SqAggregation *aggregation, const char *left,
							const char *right);
extern char *sq_groups_state_columns(const SqAggregation *aggregation, const char *prefix);
extern Query *sq_groups_result(const SqCompiled *compiled, const char *condition);
extern Query *sq_groups_values(const SqCompiled *compiled);
extern Query *sq_groups_touched(const SqCompiled *compiled, bool having, bool inserted);

#endif							/* SQ_GROUPS_H */
