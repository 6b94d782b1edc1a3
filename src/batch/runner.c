/*
 * runner.c
 *		Whoever runs a query, a worker or streamq.run(): its memory, the kind of
 *		transaction that a batch needs, and its identity.
 */
#include "batch/runner.h"

#include "miscadmin.h"
#include "utils/guc.h"
#include "utils/memutils.h"

SqRunner *
sq_runner_create(const char *name, int32 query_id, bool background,
				 MemoryContext parent)
{
	MemoryContext context = AllocSetContextCreate(parent, "streamq runner",
												  ALLOCSET_DEFAULT_SIZES);
	SqRunner   *runner = MemoryContextAllocZero(context, sizeof(SqRunner));

	runner->context = context;
	runner->name = MemoryContextStrdup(context, name);
	runner->query_id = query_id;
	runner->background = background;
	runner->batch_context = AllocSetContextCreate(context, "streamq batch",
												  ALLOCSET_DEFAULT_SIZES);
	return runner;
}

/* Throws away what the runner remembers of its backlog, after an error. */
void
sq_runner_forget(SqRunner *runner)
{
	MemoryContextReset(runner->batch_context);
	sq_batch_forget_backlog(runner);
	if (runner->idle_offset != NULL)
		pfree(runner->idle_offset);
	runner->idle_offset = NULL;
}

void
sq_runner_destroy(SqRunner *runner)
{
	MemoryContextDelete(runner->context);
}

/*
 * To be called first in a batch's transaction: every statement of a batch has
 * to see the same rows.
 */
void
sq_runner_begin(void)
{
	(void) set_config_option("transaction_isolation", "repeatable read",
							 PGC_USERSET, PGC_S_SESSION,
							 GUC_ACTION_LOCAL, true, 0, false);
}

/*
 * Acts as the query's owner, until sq_runner_become_self() or the end of the
 * transaction by an error.  Somebody else's functions must not get at the rights
 * of the caller, so if he is not the owner this is a security-restricted
 * operation, as for REFRESH MATERIALIZED VIEW (see miscadmin.h).
 */
void
sq_runner_become_owner(const SqQuery *query, SqIdentity *identity)
{
	GetUserIdAndSecContext(&identity->user_id, &identity->sec_context);
	if (identity->user_id != query->owner)
		SetUserIdAndSecContext(query->owner,
							   identity->sec_context |
							   SECURITY_LOCAL_USERID_CHANGE |
							   SECURITY_RESTRICTED_OPERATION);
}

void
sq_runner_become_self(const SqIdentity *identity)
{
	SetUserIdAndSecContext(identity->user_id, identity->sec_context);
}
