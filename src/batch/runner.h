/*
 * runner.h
 *		Whoever runs a query: beginning, forgetting, ending.
 */
#ifndef SQ_RUNNER_H
#define SQ_RUNNER_H

#include "batch/batch.h"

/* identity to come back to after acting as a query's owner */
typedef struct SqIdentity
{
	Oid			user_id;
	int			sec_context;
} SqIdentity;

extern SqRunner *sq_runner_create(const char *name, int32 query_id,
								  bool background, MemoryContext parent);
extern void sq_runner_forget(SqRunner *runner);
extern void sq_runner_destroy(SqRunner *runner);
extern void sq_runner_begin(void);
extern void sq_runner_become_owner(const SqQuery *query, SqIdentity *identity);
extern void sq_runner_become_self(const SqIdentity *identity);

#endif							/* SQ_RUNNER_H */
