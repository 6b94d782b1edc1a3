/*
 * slice.c
 *		Running a started query for a while: batches, errors, when it is due again.
 *
 * Each batch is one transaction (invariant EO-1).  An error aborts it, is
 * recorded in a transaction of its own, and the query is tried again after a
 * pause; after streamq.max_retries of them it is failed.
 */
#include "worker/slice.h"

#include "access/xact.h"
#include "batch/runner.h"
#include "debug_point.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"
#include "worker/session.h"
#include "worker/worker.h"

#define SLICE_MS			500 /* then others get their turn, streamq.run()
								 * too */
#define RETRY_DELAY_FIRST_MS 100
#define MAX_FAILURES_COUNTED 8

/* runners of the tasks served, kept for what they remember */
typedef struct ServedTask
{
	int32		query_id;
	SqRunner   *runner;
} ServedTask;

static List *served = NIL;

static SqRunner *
runner_for(const SqTask *task)
{
	MemoryContext old;
	ServedTask *entry;
	ListCell   *lc;

	foreach(lc, served)
	{
		entry = lfirst(lc);
		if (entry->query_id == task->query_id)
			return entry->runner;
	}
	old = MemoryContextSwitchTo(TopMemoryContext);
	entry = palloc(sizeof(ServedTask));
	entry->query_id = task->query_id;
	entry->runner = sq_runner_create(task->name, task->query_id, true,
									 TopMemoryContext);
	served = lappend(served, entry);
	MemoryContextSwitchTo(old);
	return entry->runner;
}

/* Throws away what is remembered of a query. */
void
sq_slice_forget(int32 query_id)
{
	ListCell   *lc;

	foreach(lc, served)
	{
		ServedTask *entry = lfirst(lc);

		if (entry->query_id != query_id)
			continue;
		sq_runner_destroy(entry->runner);
		pfree(entry);
		served = foreach_delete_current(served, lc);
	}
}

/* one batch in a transaction of its own */
static SqBatchOutcome
run_batch(SqRunner *runner)
{
	SqBatchOutcome outcome;

	sq_session_begin();
	sq_runner_begin();
	pgstat_report_activity(STATE_RUNNING, runner->name);
	outcome = sq_batch_execute(runner);
	sq_session_commit();
	if (outcome == SQ_BATCH_DONE)
		sq_debug_point("after-commit");
	if (outcome == SQ_BATCH_DONE && runner->had_failures)
	{
		sq_session_begin();
		PushActiveSnapshot(GetTransactionSnapshot());
		sq_query_record_recovery(runner->name);
		PopActiveSnapshot();
		sq_session_commit();
	}
	pgstat_report_stat(false);
	pgstat_report_activity(STATE_IDLE, NULL);
	return outcome;
}

/* true if an error will come again however often we try */
static bool
is_hopeless(const ErrorData *error)
{
	return error->sqlerrcode == ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE;
}

/* writes a failure into the query's row; it may fail itself (disk full) */
static int
try_record_failure(const char *name, const ErrorData *error)
{
	MemoryContext context = CurrentMemoryContext;
	volatile int failures = 1;

	PG_TRY();
	{
		sq_session_begin();
		PushActiveSnapshot(GetTransactionSnapshot());
		failures = sq_query_record_failure(name, error, is_hopeless(error));
		PopActiveSnapshot();
		sq_session_commit();
	}
	PG_CATCH();
	{
		MemoryContextSwitchTo(context);
		EmitErrorReport();
		FlushErrorState();
		sq_session_abort();
		sq_shared_request_sync(MyDatabaseId, 0);
		failures = MAX_FAILURES_COUNTED;	/* take it slowly */
	}
	PG_END_TRY();
	return failures;
}

/* records a failure; returns the pause before the next try in ms, or -1 */
static int64
record_failure(const SqRunner *runner, const ErrorData *error)
{
	int			failures = try_record_failure(runner->name, error);
	int64		delay = RETRY_DELAY_FIRST_MS;

	if (failures < 0)
		return -1;
	for (int i = 1; i < failures && delay < sq_retry_delay_max_ms; i++)
		delay *= 2;
	return Min(delay, (int64) sq_retry_delay_max_ms);
}

/* the next tick of a trigger interval on the grid of its multiples */
static TimestampTz
next_tick(TimestampTz began, int64 interval)
{
	/* the grid starts at the Unix epoch, as Spark's does */
	int64		unix_us = began + (POSTGRES_EPOCH_JDATE - UNIX_EPOCH_JDATE) * USECS_PER_DAY;

	return began - unix_us % interval + interval;
}

static bool
lock_query(int32 query_id, SqQueryLock *lock)
{
	bool		locked;

	sq_session_begin();
	locked = sq_query_lock(query_id, true, false, lock);
	sq_session_commit();
	return locked;
}

/*
 * Runs batches of a task for a while.  Returns the time when it is due again,
 * or DT_NOEND if it is not to be run any more.
 */
static TimestampTz
run_slice(const SqTask *task, SqRunner *runner, SqQueryLock *lock, volatile bool *locked)
{
	TimestampTz began = GetCurrentTimestamp();
	TimestampTz batch_began = began;
	TimestampTz due = DT_NOEND;

	*locked = lock_query(task->query_id, lock);
	if (!*locked)
		return began + sq_poll_interval_ms * INT64CONST(1000);	/* streamq.run() */

	for (;;)
	{
		SqBatchOutcome outcome = run_batch(runner);
		TimestampTz now = GetCurrentTimestamp();

		if (outcome == SQ_BATCH_STOPPED)
			break;
		if (task->interval_us > 0)
		{
			due = next_tick(batch_began, task->interval_us);
			if (outcome == SQ_BATCH_IDLE || due > now)
				break;
		}
		else if (outcome == SQ_BATCH_IDLE)
		{
			/* looking must not take more than a fifth of the time */
			due = now + Max(sq_poll_interval_ms * INT64CONST(1000), 4 * (now - batch_began));
			break;
		}
		else
			due = now;
		if (!sq_worker_may_go_on(task->query_id))
			break;
		if (now - began > SLICE_MS * INT64CONST(1000))
			break;
		batch_began = now;
		CHECK_FOR_INTERRUPTS();
	}
	return due;
}

static void
name_query(void *arg)
{
	errcontext("streaming query \"%s\"", ((const SqTask *) arg)->name);
}

/*
 * Runs batches of a task for a while; errors are recorded with the query.
 * Returns the time when the task is due again, or DT_NOEND if it is not to be
 * run any more.
 */
TimestampTz
sq_slice_run(const SqTask *task)
{
	SqRunner   *volatile runner = runner_for(task);
	SqQueryLock lock;
	volatile bool locked = false;
	volatile TimestampTz due = DT_NOEND;
	ErrorContextCallback callback;

	callback.callback = name_query;
	callback.arg = unconstify(SqTask *, task);
	callback.previous = error_context_stack;
	error_context_stack = &callback;

	PG_TRY();
	{
		due = run_slice(task, runner, &lock, &locked);
	}
	PG_CATCH();
	{
		ErrorData  *error;
		int64		delay;

		MemoryContextSwitchTo(runner->context);
		error = CopyErrorData();
		HOLD_INTERRUPTS();
		/* the cancellation by streamq.stop() is no news */
		if (sq_worker_may_go_on(task->query_id))
			EmitErrorReport();
		FlushErrorState();
		sq_session_abort();
		QueryCancelPending = false;
		RESUME_INTERRUPTS();
		pgstat_report_activity(STATE_IDLE, NULL);
		sq_runner_forget(runner);

		due = GetCurrentTimestamp();
		if (sq_worker_may_go_on(task->query_id))
		{
			delay = record_failure(runner, error);
			due = delay < 0 ? DT_NOEND : due + delay * 1000;
		}
		FreeErrorData(error);
	}
	PG_END_TRY();
	error_context_stack = callback.previous;

	if (locked)
		sq_query_unlock(&lock);
	return due;
}
