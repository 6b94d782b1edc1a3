/*
 * slice.c
 *		Running a started query for a while: batches, errors, when it is due again.
 *
 * Each batch is one transaction (invariant EO-1).  An error aborts it, is
 * recorded in a transaction of its own, and the query is tried again after a
 * pause; after streamq.max_retries of them it is failed.
 *
 * A worker that is terminated in a batch records nothing.  Once that may be anybody's
 * doing; from the second time in a row, it counts as an error, which the next worker
 * records.
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
#define DEATHS_FORGIVEN		1	/* workers that may be terminated in a batch */

/*
 * Small commits that come one after the other are read in batches with pauses
 * between them, so that a worker takes a third of a core from those who commit, and
 * not all of it.  A batch of few rows costs more in waking and committing than in work,
 * hence the least pause.  No pause is so long that somebody would notice.
 */
#define PAUSE_FACTOR		2	/* of the last batch's duration */
#define PAUSE_MIN_US		(5 * INT64CONST(1000))
#define PAUSE_MAX_US		(20 * INT64CONST(1000))

/* where looking means reading a whole table, it takes a fifth of the time at most */
#define LOOK_FACTOR			4	/* of the time that looking took */

/*
 * A query that waits looks now and then all the same: its offsets have to be
 * renewed before they grow too old.
 */
#define LOOK_ANYWAY_US		(INT64CONST(10) * SECS_PER_MINUTE * USECS_PER_SEC)
#define MAX_FAILURES_COUNTED 8

/* runners of the tasks served, kept for what they remember */
typedef struct ServedTask
{
	int32		query_id;
	SqRunner   *runner;
	uint64		commits;		/* counted before the last batch */
} ServedTask;

static List *served = NIL;

/* from before the snapshot of the last batch */
static SqWakeupMark mark;

static ServedTask *
served_task(const SqTask *task)
{
	MemoryContext old;
	ServedTask *entry;
	ListCell   *lc;

	foreach(lc, served)
	{
		entry = lfirst(lc);
		if (entry->query_id == task->query_id)
			return entry;
	}
	old = MemoryContextSwitchTo(TopMemoryContext);
	entry = palloc0(sizeof(ServedTask));
	entry->query_id = task->query_id;
	entry->runner = sq_runner_create(task->name, task->query_id, true,
									 TopMemoryContext);
	served = lappend(served, entry);
	MemoryContextSwitchTo(old);
	return entry;
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
	sq_wakeup_mark(&mark);
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

/* The pause before the next try, after a number of failures. */
int64
sq_slice_retry_delay_us(int failures)
{
	int64		delay = RETRY_DELAY_FIRST_MS;

	for (int i = 1; i < failures && delay < sq_retry_delay_max_ms; i++)
		delay *= 2;
	return Min(delay, (int64) sq_retry_delay_max_ms) * 1000;
}

/* records a failure; returns the pause before the next try, or -1 */
static int64
record_failure(const SqRunner *runner, const ErrorData *error)
{
	int			failures = try_record_failure(runner->name, error);

	return failures < 0 ? -1 : sq_slice_retry_delay_us(failures);
}

/* records that workers were terminated in a batch; false if the query is failed now */
static bool
record_deaths(const SqTask *task)
{
	ErrorData	error = {0};
	bool		result;

	if (task->deaths <= DEATHS_FORGIVEN)
		return true;
	error.sqlerrcode = ERRCODE_ADMIN_SHUTDOWN;
	error.message = pstrdup(_("the worker was terminated in the middle of a batch"));
	error.detail = psprintf(_("This has happened %d times in a row."), task->deaths);
	result = try_record_failure(task->name, &error) >= 0;
	pfree(error.message);
	pfree(error.detail);
	return result;
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
 * How long the next batch has to wait, in any case, after one that has left nothing to
 * read.  A single commit is served at once: who commits, looks at the result, and
 * commits again must not be held up.
 */
static int64
pause_after(ServedTask *entry, bool idle, int64 took)
{
	SqRunner   *runner = entry->runner;
	uint64		commits = sq_wakeup_commits(&mark, runner->relations);
	bool		single = commits - entry->commits <= 1;

	entry->commits = commits;
	if (!runner->commits_are_told && idle)
		return LOOK_FACTOR * took;
	return single ? 0 : Max(Min(PAUSE_FACTOR * took, PAUSE_MAX_US), PAUSE_MIN_US);
}

/* makes a task wait that has nothing to read */
static void
wait_for_rows(const SqTask *task, const SqRunner *runner, int64 pause, SqSliceEnd *end)
{
	TimestampTz now = GetCurrentTimestamp();
	int64		poll_us = sq_poll_interval_ms * INT64CONST(1000);
	bool		told = runner->commits_are_told && !mark.prepared;
	TimestampTz look_at = now + (told ? LOOK_ANYWAY_US : Max(poll_us, pause));

	if (task->interval_us > 0)
		look_at = sq_shared_next_tick(told ? look_at : now, task->interval_us);
	end->waits = true;
	end->awaited.relations = runner->relations;
	end->awaited.mark = &mark;
	end->awaited.not_before = now + pause;
	end->awaited.look_at = look_at;
}

/* decides after a batch when the task is due again; true if that ends the slice */
static bool
ends_slice(const SqTask *task, ServedTask *entry, SqBatchOutcome outcome,
		   TimestampTz began, SqSliceEnd *end)
{
	TimestampTz now = GetCurrentTimestamp();
	bool		idle = outcome == SQ_BATCH_IDLE;

	if (outcome == SQ_BATCH_STOPPED)
	{
		end->due = DT_NOEND;
		return true;
	}
	end->due = task->interval_us > 0 ? sq_shared_next_tick(began, task->interval_us) : now;
	if (idle || entry->runner->reached)
	{
		wait_for_rows(task, entry->runner, pause_after(entry, idle, now - began), end);
		return true;
	}
	return end->due > now;
}

/* runs batches of a task for a while, and says when it is due again */
static void
run_slice(const SqTask *task, ServedTask *entry, SqQueryLock *lock, volatile bool *locked,
		  SqSliceEnd *end)
{
	TimestampTz began = GetCurrentTimestamp();
	TimestampTz batch_began = began;

	*locked = lock_query(task->query_id, lock);
	if (!*locked)
	{
		/* streamq.run() */
		end->due = began + sq_poll_interval_ms * INT64CONST(1000);
		return;
	}
	for (;;)
	{
		SqBatchOutcome outcome = run_batch(entry->runner);

		if (ends_slice(task, entry, outcome, batch_began, end))
			break;
		if (!sq_worker_may_go_on(task->query_id))
			break;
		batch_began = GetCurrentTimestamp();
		if (batch_began - began > SLICE_MS * INT64CONST(1000))
			break;
		CHECK_FOR_INTERRUPTS();
	}
}

static void
name_query(void *arg)
{
	errcontext("streaming query \"%s\"", ((const SqTask *) arg)->name);
}

/*
 * Runs batches of a task for a while, and says when it is due again; errors are
 * recorded with the query.
 */
void
sq_slice_run(const SqTask *task, SqSliceEnd *end)
{
	ServedTask *volatile entry = served_task(task);
	SqRunner   *volatile runner = entry->runner;
	SqQueryLock lock;
	volatile bool locked = false;
	ErrorContextCallback callback;

	end->due = DT_NOEND;
	end->waits = false;
	callback.callback = name_query;
	callback.arg = unconstify(SqTask *, task);
	callback.previous = error_context_stack;
	error_context_stack = &callback;

	PG_TRY();
	{
		if (record_deaths(task))
			run_slice(task, entry, &lock, &locked, end);
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

		end->due = GetCurrentTimestamp();
		end->waits = false;
		if (sq_worker_may_go_on(task->query_id))
		{
			delay = record_failure(runner, error);
			end->due = delay < 0 ? DT_NOEND : end->due + delay;
		}
		FreeErrorData(error);
	}
	PG_END_TRY();
	error_context_stack = callback.previous;

	if (locked)
		sq_query_unlock(&lock);
}
