/*
 * worker.c
 *		A worker: runs the started queries of one owner in one database.
 *
 * A worker without an owner only reads which queries of the database are
 * started, tells that to shared memory, and leaves.
 *
 * The others take one task after the other that is due, and run batches of it
 * for a while (slice.c), as the owner (session.c).
 */
#include "worker/worker.h"

#include <limits.h>
#include <signal.h>

#include "access/htup_details.h"
#include "access/xact.h"
#include "catalog/pg_authid.h"
#include "catalog/pg_database.h"
#include "catalog/querydef.h"
#include "commands/dbcommands.h"
#include "commands/extension.h"
#include "compat.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "postmaster/bgworker.h"
#include "postmaster/interrupt.h"
#include "progress/shared.h"
#include "progress/wakeup.h"
#include "storage/ipc.h"
#include "storage/proc.h"
#include "tcop/tcopprot.h"
#include "utils/acl.h"
#include "utils/guc.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"
#include "utils/wait_event.h"
#include "worker/session.h"
#include "worker/slice.h"

#define IDLE_EXIT_MS		5000	/* without any task to serve */
#define REFUSED_AGAIN_MS	5000	/* to look again for who may not connect */

static SqWorkerSlot *my_slot;
static SqWorkerSlot my_scope;	/* a copy of what does not change */

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

/* true if an owner has got into this database already, and may stay */
static bool
is_connected(Oid owner)
{
	bool		result = false;

	LWLockAcquire(sq_shared->lock, LW_SHARED);
	for (int i = 0; i < SQ_MAX_WORKERS; i++)
	{
		const SqWorkerSlot *slot = &sq_shared->workers[i];

		result |= slot->used && slot->connected && slot->latch != NULL &&
			slot->dbid == MyDatabaseId && slot->owner == owner;
	}
	LWLockRelease(sq_shared->lock);
	return result;
}

/* true if a worker that connects as the owner of a task would not be let in */
static bool
is_refused(const SqTask *task)
{
	return task->owner_can_login &&
		object_aclcheck(DatabaseRelationId, MyDatabaseId, task->owner, ACL_CONNECT) != ACLCHECK_OK &&
		!is_connected(task->owner);
}

/* makes a query fail whose owner may not connect */
static void
record_refusal(const char *name)
{
	ErrorData	error = {0};

	StartTransactionCommand();
	PushActiveSnapshot(GetTransactionSnapshot());
	error.sqlerrcode = ERRCODE_INSUFFICIENT_PRIVILEGE;
	error.message = psprintf(_("permission denied for database \"%s\""),
							 get_database_name(MyDatabaseId));
	error.detail = pstrdup(_("The owner of the query does not have CONNECT privilege."));
	(void) sq_query_record_failure(name, &error, true);
	ereport(WARNING,
			(errcode(error.sqlerrcode),
			 errmsg("streaming query \"%s\" has failed", name),
			 errdetail_internal("%s", error.message)));
	PopActiveSnapshot();
	CommitTransactionCommand();
}

/* the same for all of them */
static void
record_refusals(List *names)
{
	ListCell   *lc;

	if (names == NIL)
		return;
	/* whoever is just changing one must not hold up other databases */
	SetConfigOption("lock_timeout", "1s", PGC_USERSET, PGC_S_SESSION);
	sq_shared_request_sync(MyDatabaseId,
						   GetCurrentTimestamp() + REFUSED_AGAIN_MS * INT64CONST(1000));
	foreach(lc, names)
		record_refusal(lfirst(lc));
}

/* a list with one more name, which outlives the transaction */
static List *
add_name(List *names, const char *name)
{
	MemoryContext old = MemoryContextSwitchTo(TopMemoryContext);

	names = lappend(names, pstrdup(name));
	MemoryContextSwitchTo(old);
	return names;
}

/* tells shared memory which queries of this database are started */
static void
read_database(void)
{
	List	   *refused = NIL;
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
			task.due = GetCurrentTimestamp();
			if (is_refused(&task))
				refused = add_name(refused, task.name);
			else
				sq_shared_sync_task(&task);
		}
	}
	sq_shared_sync_end(MyDatabaseId);
	PopActiveSnapshot();
	CommitTransactionCommand();
	record_refusals(refused);
}

/* ------------------------------------------------------------ taking tasks */

/*
 * Takes the task that is due longest; false if none is.  *next becomes the time when
 * the next one is due; *any, whether there are tasks at all.
 */
static bool
take_task(SqTask *taken, TimestampTz *next, bool *any)
{
	SqTask	   *best = NULL;
	SqTask	   *second = NULL;
	TimestampTz now;
	bool		idle;

	*any = false;
	LWLockAcquire(sq_shared->lock, LW_EXCLUSIVE);
	now = GetCurrentTimestamp();
	for (int i = 0; i < sq_shared->ntasks; i++)
	{
		SqTask	   *task = &sq_shared->tasks[i];

		if (task->dbid != my_scope.dbid || task->owner != my_scope.owner)
			continue;
		*any = true;
		if (task->running || task->stopper_pid != 0)
			continue;
		if (best == NULL || task->due < best->due)
		{
			second = best;
			best = task;
		}
		else if (second == NULL || task->due < second->due)
			second = task;
	}
	*next = best != NULL ? best->due : DT_NOEND;
	idle = *next > now || my_slot->leave;
	my_slot->idle = idle;
	if (!idle)
	{
		Assert(best != NULL);
		best->running = true;
		best->waiting = false;
		best->worker_pid = MyProcPid;
		*taken = *best;
		if (second != NULL && second->due <= now)
			sq_shared_offer(second);
		else if (second != NULL)
			sq_shared_wake_launcher_by(sq_shared_start_time(second));
	}
	LWLockRelease(sq_shared->lock);
	return !idle;
}

/* True while nobody stops the task or wants the worker to leave. */
bool
sq_worker_may_go_on(int32 query_id)
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

/* gives a task back */
static void
give_back_task(const SqTask *taken, const SqSliceEnd *end)
{
	bool		ended = end->due == DT_NOEND;

	LWLockAcquire(sq_shared->lock, LW_EXCLUSIVE);
	for (int i = 0; i < sq_shared->ntasks; i++)
	{
		SqTask	   *task = &sq_shared->tasks[i];

		if (task->dbid != taken->dbid || task->query_id != taken->query_id ||
			task->worker_pid != MyProcPid)
			continue;
		task->running = false;
		task->deaths = 0;
		task->slices++;
		task->due = end->due;
		if (end->waits)
			sq_wakeup_wait(task, &end->awaited);
		if (ended && task->stopper_pid == 0)
			memset(task, 0, sizeof(SqTask));
	}
	LWLockRelease(sq_shared->lock);
	ConditionVariableBroadcast(&sq_shared->changed);
	/* who is started again meanwhile is found in the table */
	if (ended)
	{
		sq_slice_forget(taken->query_id);
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
		{
			/* unless the whole database is to be left */
			if (!my_slot->leave)
				task->deaths++;
			task->due = GetCurrentTimestamp() + sq_slice_retry_delay_us(task->deaths);
		}
		task->worker_pid = 0;
		task->running = false;
	}
	/* the slot itself is freed by the launcher, when the process has ended */
	my_slot->idle = false;
	my_slot->latch = NULL;
	sq_shared_wake_idle(my_scope.dbid);
	sq_shared_wake_launcher_by(0);
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
	bool		full;
	bool		result = false;

	LWLockAcquire(sq_shared->lock, LW_SHARED);
	full = sq_shared_pool_is_full() || sq_shared->no_process;
	for (int i = 0; i < sq_shared->ntasks && full && !result; i++)
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

/* sleeps until a time or until there is news */
static void
sleep_until(TimestampTz until)
{
	/* figures must not stay here for as long as we sleep */
	long		report_ms = pgstat_report_stat(false);
	long		nap_ms = Min(TimestampDifferenceMilliseconds(GetCurrentTimestamp(), until), INT_MAX);
	bool		for_report = report_ms > 0 && report_ms < nap_ms;
	int			events;

	events = WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH,
					   for_report ? report_ms : nap_ms, PG_WAIT_EXTENSION);
	if (for_report && (events & WL_TIMEOUT) != 0)
		(void) pgstat_report_stat(true);
}

static void
serve(void)
{
	TimestampTz last_task = GetCurrentTimestamp();

	while (!asked_to_leave())
	{
		TimestampTz next;
		bool		any;
		SqTask		task;

		ResetLatch(MyLatch);
		CHECK_FOR_INTERRUPTS();
		if (ConfigReloadPending)
		{
			ConfigReloadPending = false;
			ProcessConfigFile(PGC_SIGHUP);
		}
		if (take_task(&task, &next, &any))
		{
			SqSliceEnd	end;

			sq_slice_run(&task, &end);
			give_back_task(&task, &end);
			/* stop() signals only while the task is running */
			QueryCancelPending = false;
			last_task = GetCurrentTimestamp();
			if (others_need_my_slot(last_task))
				break;
			continue;
		}
		if (!any)
		{
			next = last_task + IDLE_EXIT_MS * INT64CONST(1000);
			if (next <= GetCurrentTimestamp())
				break;
		}
		sleep_until(next);
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

	sq_session_connect(my_scope.dbid, my_scope.owner, my_scope.owner_can_login);
	LWLockAcquire(sq_shared->lock, LW_EXCLUSIVE);
	my_slot->connected = true;
	LWLockRelease(sq_shared->lock);
	if (OidIsValid(my_scope.owner))
		serve();
	else
		read_database();
	proc_exit(0);
}
