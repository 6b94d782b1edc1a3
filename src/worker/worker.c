/*
 * worker.c
 *		A worker: runs the started queries of one owner in one database.
 *
 * A worker without an owner only reads which queries of the database are
 * started, tells that to shared memory, and leaves.
 *
 * The others take one task after the other that is due, and run batches of it
 * for a while (a slice).  What a batch executes is executed as the owner, who is
 * also the session's user; an owner who cannot log in is one for whom the
 * session, opened by the bootstrap superuser, is handed over, and may not be
 * taken back: batches then run as a local change of user, under which SET ROLE
 * and SET SESSION AUTHORIZATION are refused, up to and including the commit.
 *
 * Each batch is one transaction (invariant EO-1).  An error aborts it, is
 * recorded in a transaction of its own, and the query is tried again after a
 * pause; after streamq.max_retries of them it is failed.
 */
#include "worker/worker.h"

#include <signal.h>

#include "access/htup_details.h"
#include "access/table.h"
#include "access/xact.h"
#include "access/xlog.h"
#include "batch/runner.h"
#include "catalog/namespace.h"
#include "catalog/pg_authid.h"
#include "catalog/pg_db_role_setting.h"
#include "commands/extension.h"
#include "debug_point.h"
#include "libpq/pqsignal.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "postmaster/bgworker.h"
#include "postmaster/interrupt.h"
#include "progress/shared.h"
#include "storage/ipc.h"
#include "storage/proc.h"
#include "storage/procsignal.h"
#include "tcop/tcopprot.h"
#include "utils/acl.h"
#include "utils/guc.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"
#include "utils/wait_event.h"

#define SLICE_MS			500		/* then others get their turn, streamq.run() too */
#define IDLE_EXIT_MS		5000	/* without any task to serve */
#define RETRY_DELAY_FIRST_MS 100
#define MAX_FAILURES_COUNTED 8

/* runners of the tasks served, kept for what they remember */
typedef struct ServedTask
{
	int32		query_id;
	SqRunner   *runner;
} ServedTask;

static SqWorkerSlot *my_slot;
static SqWorkerSlot my_scope;	/* a copy of what does not change */
static List *served = NIL;

/* ------------------------------------------------------ reading a database */

static bool
role_can_login(Oid role)
{
	HeapTuple	tuple = SearchSysCache1(AUTHOID, ObjectIdGetDatum(role));
	bool		result = false;

	if (HeapTupleIsValid(tuple))
	{
		result = ((Form_pg_authid) GETSTRUCT(tuple))->rolcanlogin;
		ReleaseSysCache(tuple);
	}
	return result;
}

/* an interval in microseconds; a month has 30 days here */
static int64
interval_us(const Interval *interval)
{
	if (interval == NULL)
		return 0;
	return interval->time +
		((int64) interval->month * DAYS_PER_MONTH + interval->day) * USECS_PER_DAY;
}

/* tells shared memory which queries of this database are started */
static void
read_database(void)
{
	ListCell   *lc;

	StartTransactionCommand();
	PushActiveSnapshot(GetTransactionSnapshot());
	sq_shared_sync_begin(MyDatabaseId);
	if (OidIsValid(get_extension_oid("streamq", true)))
	{
		foreach(lc, sq_query_names_active())
		{
			SqQuery    *query = sq_query_load(lfirst(lc), true);
			SqTask		task;

			if (query == NULL || !query->active || !OidIsValid(query->owner))
				continue;
			memset(&task, 0, sizeof(task));
			task.dbid = MyDatabaseId;
			task.query_id = query->query_id;
			task.owner = query->owner;
			task.owner_can_login = role_can_login(query->owner);
			strlcpy(task.name, query->name, NAMEDATALEN);
			task.interval_us = interval_us(query->trigger_interval);
			sq_shared_sync_task(&task);
		}
	}
	sq_shared_sync_end(MyDatabaseId);
	PopActiveSnapshot();
	CommitTransactionCommand();
}

/* ------------------------------------------------------------ the session */

static void
apply_settings_of(Oid role)
{
	Relation	rel = table_open(DbRoleSettingRelationId, AccessShareLock);
	Snapshot	snapshot = RegisterSnapshot(GetCatalogSnapshot(DbRoleSettingRelationId));

	/* as process_settings() in utils/init/postinit.c: the first one wins */
	ApplySetting(snapshot, MyDatabaseId, role, rel, PGC_S_DATABASE_USER);
	ApplySetting(snapshot, InvalidOid, role, rel, PGC_S_USER);
	UnregisterSnapshot(snapshot);
	table_close(rel, AccessShareLock);
}

/* connects as the owner, or hands the session over to him */
static void
connect_as_owner(void)
{
	if (!OidIsValid(my_scope.owner) || my_scope.owner_can_login)
	{
		BackgroundWorkerInitializeConnectionByOid(my_scope.dbid, my_scope.owner, 0);
		return;
	}
	BackgroundWorkerInitializeConnectionByOid(my_scope.dbid, InvalidOid, 0);
	StartTransactionCommand();
	apply_settings_of(my_scope.owner);
	SetSessionAuthorization(my_scope.owner, superuser_arg(my_scope.owner));
	CommitTransactionCommand();
}

/* true if this session could be turned back into a superuser's */
static bool
session_is_handed_over(void)
{
	return OidIsValid(my_scope.owner) && !my_scope.owner_can_login;
}

static void
begin_transaction(void)
{
	SetCurrentStatementStartTimestamp();
	StartTransactionCommand();
	/* also undoes what a function of the owner's may have set in the session */
	SetUserIdAndSecContext(my_scope.owner, session_is_handed_over() ?
						   SECURITY_LOCAL_USERID_CHANGE : 0);
}

static void
end_transaction(void)
{
	CommitTransactionCommand();
	if (session_is_handed_over())
		SetUserIdAndSecContext(my_scope.owner, 0);
}

/* --------------------------------------------------------------- one task */

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

static void
forget_runner(int32 query_id)
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

	begin_transaction();
	sq_runner_begin();
	pgstat_report_activity(STATE_RUNNING, runner->name);
	outcome = sq_batch_execute(runner);
	/* without new rows nothing was written; an abort would lose the lock */
	end_transaction();
	if (outcome == SQ_BATCH_DONE)
		sq_debug_point("after-commit");
	if (outcome == SQ_BATCH_DONE && runner->had_failures)
	{
		begin_transaction();
		PushActiveSnapshot(GetTransactionSnapshot());
		sq_query_record_recovery(runner->name);
		PopActiveSnapshot();
		end_transaction();
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
		begin_transaction();
		PushActiveSnapshot(GetTransactionSnapshot());
		failures = sq_query_record_failure(name, error->message, is_hopeless(error));
		PopActiveSnapshot();
		end_transaction();
	}
	PG_CATCH();
	{
		MemoryContextSwitchTo(context);
		EmitErrorReport();
		FlushErrorState();
		AbortOutOfAnyTransaction();
		if (session_is_handed_over())
			SetUserIdAndSecContext(my_scope.owner, 0);
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

/* true while nobody stops the task or wants the worker to leave */
static bool
may_go_on(int32 query_id)
{
	bool		result = true;

	LWLockAcquire(sq_shared->lock, LW_SHARED);
	if (my_slot->leave)
		result = false;
	for (int i = 0; i < sq_shared->ntasks; i++)
		if (sq_shared->tasks[i].dbid == MyDatabaseId &&
			sq_shared->tasks[i].query_id == query_id &&
			sq_shared->tasks[i].stopper_pid != 0)
			result = false;
	LWLockRelease(sq_shared->lock);
	return result;
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
lock_query(int32 query_id)
{
	bool		locked;

	begin_transaction();
	locked = sq_query_lock(query_id, true, false);
	end_transaction();
	return locked;
}

/*
 * Runs batches of a task for a while.  Returns the time when it is due again,
 * or DT_NOEND if it is not to be run any more.
 */
static TimestampTz
run_slice(const SqTask *task, SqRunner *runner, volatile bool *locked)
{
	TimestampTz began = GetCurrentTimestamp();
	TimestampTz batch_began = began;
	TimestampTz due = DT_NOEND;

	*locked = lock_query(task->query_id);
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
		if (!may_go_on(task->query_id))
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

/* the same, with errors caught */
static TimestampTz
run_task(const SqTask *task)
{
	SqRunner   *volatile runner = runner_for(task);
	volatile bool locked = false;
	volatile TimestampTz due = DT_NOEND;
	ErrorContextCallback callback;

	callback.callback = name_query;
	callback.arg = unconstify(SqTask *, task);
	callback.previous = error_context_stack;
	error_context_stack = &callback;

	PG_TRY();
	{
		due = run_slice(task, runner, &locked);
	}
	PG_CATCH();
	{
		ErrorData  *error;
		int64		delay;

		MemoryContextSwitchTo(runner->context);
		error = CopyErrorData();
		HOLD_INTERRUPTS();
		/* the cancellation by streamq.stop() is no news */
		if (may_go_on(task->query_id))
			EmitErrorReport();
		FlushErrorState();
		/* gives back the query's lock, too */
		AbortOutOfAnyTransaction();
		locked = false;
		QueryCancelPending = false;
		RESUME_INTERRUPTS();
		if (session_is_handed_over())
			SetUserIdAndSecContext(my_scope.owner, 0);
		pgstat_report_activity(STATE_IDLE, NULL);
		sq_runner_forget(runner);

		due = GetCurrentTimestamp();
		if (may_go_on(task->query_id))
		{
			delay = record_failure(runner, error);
			due = delay < 0 ? DT_NOEND : due + delay * 1000;
		}
		FreeErrorData(error);
	}
	PG_END_TRY();
	error_context_stack = callback.previous;

	if (locked)
	{
		StartTransactionCommand();
		sq_query_unlock(task->query_id);
		CommitTransactionCommand();
	}
	return due;
}

/* ------------------------------------------------------------ taking tasks */

/* takes the task that is due longest; false if there is none */
static bool
take_task(SqTask *taken, TimestampTz now, TimestampTz *next, bool *any)
{
	SqTask	   *best = NULL;

	*next = DT_NOEND;
	*any = false;
	LWLockAcquire(sq_shared->lock, LW_EXCLUSIVE);
	for (int i = 0; i < sq_shared->ntasks; i++)
	{
		SqTask	   *task = &sq_shared->tasks[i];

		if (task->dbid != my_scope.dbid || task->owner != my_scope.owner)
			continue;
		*any = true;
		if (task->running || task->stopper_pid != 0)
			continue;
		if (task->due > now)
			*next = Min(*next, task->due);
		else if (best == NULL || task->due < best->due)
			best = task;
	}
	if (my_slot->leave)
		best = NULL;
	if (best != NULL)
	{
		best->running = true;
		best->worker_pid = MyProcPid;
		*taken = *best;
	}
	my_slot->idle = best == NULL;
	LWLockRelease(sq_shared->lock);
	return best != NULL;
}

/* gives a task back, due at the time given */
static void
give_back_task(const SqTask *taken, TimestampTz due)
{
	LWLockAcquire(sq_shared->lock, LW_EXCLUSIVE);
	for (int i = 0; i < sq_shared->ntasks; i++)
	{
		SqTask	   *task = &sq_shared->tasks[i];

		if (task->dbid != taken->dbid || task->query_id != taken->query_id ||
			task->worker_pid != MyProcPid)
			continue;
		task->running = false;
		task->due = due;
		if (due == DT_NOEND && task->stopper_pid == 0)
			memset(task, 0, sizeof(SqTask));
	}
	LWLockRelease(sq_shared->lock);
	ConditionVariableBroadcast(&sq_shared->changed);
	/* who is started again meanwhile is found in the table */
	if (due == DT_NOEND)
	{
		forget_runner(taken->query_id);
		sq_shared_request_sync(taken->dbid, 0);
	}
}

static void
leave_slot(int code, Datum arg)
{
	SQ_UNUSED(code);
	SQ_UNUSED(arg);
	LWLockAcquire(sq_shared->lock, LW_EXCLUSIVE);
	for (int i = 0; i < sq_shared->ntasks; i++)
	{
		SqTask	   *task = &sq_shared->tasks[i];

		if (task->worker_pid != MyProcPid)
			continue;
		if (task->running)
			task->due = GetCurrentTimestamp() + RETRY_DELAY_FIRST_MS * INT64CONST(1000);
		task->worker_pid = 0;
		task->running = false;
	}
	/* the slot itself is freed by the launcher, when the process has ended */
	my_slot->idle = false;
	my_slot->latch = NULL;
	if (sq_shared->launcher_latch != NULL)
		SetLatch(sq_shared->launcher_latch);
	LWLockRelease(sq_shared->lock);
	ConditionVariableBroadcast(&sq_shared->changed);
}

/*
 * True if a query of somebody else is due, for whom there is no worker and no
 * free slot to start one in.
 */
static bool
others_need_my_slot(TimestampTz now)
{
	int			used = 0;
	bool		result = false;

	LWLockAcquire(sq_shared->lock, LW_SHARED);
	for (int i = 0; i < SQ_MAX_WORKERS; i++)
		if (sq_shared->workers[i].used && OidIsValid(sq_shared->workers[i].owner))
			used++;
	for (int i = 0; i < sq_shared->ntasks && used >= sq_max_workers && !result; i++)
	{
		SqTask	   *task = &sq_shared->tasks[i];

		if (!OidIsValid(task->dbid) || task->running || task->due > now ||
			(task->dbid == my_scope.dbid && task->owner == my_scope.owner))
			continue;
		result = true;
		for (int k = 0; k < SQ_MAX_WORKERS; k++)
			if (sq_shared->workers[k].used &&
				sq_shared->workers[k].dbid == task->dbid &&
				sq_shared->workers[k].owner == task->owner)
				result = false;
	}
	LWLockRelease(sq_shared->lock);
	return result;
}

static bool
asked_to_leave(void)
{
	bool		leave;

	LWLockAcquire(sq_shared->lock, LW_SHARED);
	leave = my_slot->leave;
	LWLockRelease(sq_shared->lock);
	return leave;
}

static void
serve(void)
{
	TimestampTz last_task = GetCurrentTimestamp();

	while (!asked_to_leave())
	{
		TimestampTz now = GetCurrentTimestamp();
		TimestampTz next;
		bool		any;
		SqTask		task;
		long		nap;

		ResetLatch(MyLatch);
		CHECK_FOR_INTERRUPTS();
		if (ConfigReloadPending)
		{
			ConfigReloadPending = false;
			ProcessConfigFile(PGC_SIGHUP);
		}
		if (take_task(&task, now, &next, &any))
		{
			give_back_task(&task, run_task(&task));
			last_task = GetCurrentTimestamp();
			if (others_need_my_slot(last_task))
				break;
			continue;
		}
		if (!any && now - last_task > IDLE_EXIT_MS * INT64CONST(1000))
			break;
		nap = next == DT_NOEND ? IDLE_EXIT_MS : TimestampDifferenceMilliseconds(now, next) + 1;
		(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH,
						 Min(nap, IDLE_EXIT_MS), PG_WAIT_EXTENSION);
	}
}

void
streamq_worker_main(Datum arg)
{
	my_slot = &sq_shared->workers[DatumGetInt32(arg)];

	pqsignal(SIGHUP, SignalHandlerForConfigReload);
	pqsignal(SIGINT, StatementCancelHandler);
	pqsignal(SIGTERM, die);

	LWLockAcquire(sq_shared->lock, LW_EXCLUSIVE);
	my_scope = *my_slot;
	my_slot->pid = MyProcPid;
	my_slot->latch = MyLatch;
	LWLockRelease(sq_shared->lock);
	on_shmem_exit(leave_slot, (Datum) 0);
	BackgroundWorkerUnblockSignals();
	if (!my_scope.used || my_scope.leave)
		proc_exit(0);

	connect_as_owner();
	LWLockAcquire(sq_shared->lock, LW_EXCLUSIVE);
	my_slot->connected = true;
	LWLockRelease(sq_shared->lock);
	if (OidIsValid(my_scope.owner))
		serve();
	else
		read_database();
	proc_exit(0);
}
