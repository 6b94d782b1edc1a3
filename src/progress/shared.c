/*
 * shared.c
 *		Shared memory: which queries are to be run, by which worker.
 *
 * The truth about which queries are started is in each database's table
 * streamq.queries; the tasks here are a copy, made by a worker that reads the
 * table whenever a transaction that changed it has committed (sync).  Nothing
 * here survives a restart, or has to.
 *
 * One LWLock guards everything; it is held briefly and nothing under it can
 * fail.  A worker is on a task only while the task says so (running), and
 * changes that under the lock: so a signal sent to worker_pid under the lock
 * reaches the worker while it is on that task.
 *
 * Workers and launcher sleep until something is due.  So each task that is not
 * running is in somebody's hands: an idle worker's, who has been told or knows
 * when it is due, or the launcher's, who looks around when a further worker would
 * have to be started for it, or earlier (launcher_until).  Whoever makes a task due
 * earlier offers it; a worker that takes a task offers the next one; one that
 * ends leaves its tasks to the others and the launcher.
 */
#include "progress/shared.h"

#include <signal.h>

#include "access/xact.h"
#include "miscadmin.h"
#include "progress/wakeup.h"
#include "storage/ipc.h"
#include "storage/shmem.h"
#include "utils/wait_event.h"

/* how long a task that is due waits for a worker of its owner that is at work */
#define PATIENCE_US		(50 * INT64CONST(1000))

SqShared   *sq_shared = NULL;

static shmem_request_hook_type previous_request_hook = NULL;
static shmem_startup_hook_type previous_startup_hook = NULL;

/* what this backend has to do when its transaction ends */
static bool sync_at_commit = false;
static bool stopped_tasks = false;
static bool paused_databases = false;
static bool callbacks_registered = false;

static void
shared_request(void)
{
	if (previous_request_hook)
		previous_request_hook();
	RequestAddinShmemSpace(MAXALIGN(sizeof(SqShared)) + sq_wakeup_size());
	RequestNamedLWLockTranche("streamq", 1);
}

static void
shared_startup(void)
{
	bool		found;

	if (previous_startup_hook)
		previous_startup_hook();
	LWLockAcquire(AddinShmemInitLock, LW_EXCLUSIVE);
	sq_shared = ShmemInitStruct("streamq", sizeof(SqShared), &found);
	if (!found)
	{
		memset(sq_shared, 0, sizeof(SqShared));
		sq_shared->lock = &(GetNamedLWLockTranche("streamq"))->lock;
		ConditionVariableInit(&sq_shared->changed);
	}
	sq_wakeup_init();
	LWLockRelease(AddinShmemInitLock);
}

/* Called while shared_preload_libraries are loaded. */
void
sq_shared_define(void)
{
	previous_request_hook = shmem_request_hook;
	shmem_request_hook = shared_request;
	previous_startup_hook = shmem_startup_hook;
	shmem_startup_hook = shared_startup;
}

/* True if there is a launcher that starts workers. */
bool
sq_shared_available(void)
{
	return sq_shared != NULL;
}

/* wakes the launcher; the caller holds the lock */
static void
wake_launcher(void)
{
	if (sq_shared->launcher_latch != NULL)
		SetLatch(sq_shared->launcher_latch);
}

/*
 * True if no further worker can be started for an owner.  One slot is always
 * left for reading a database's queries.  The caller holds the lock.
 */
bool
sq_shared_pool_is_full(void)
{
	int			used = 0;

	for (int i = 0; i < SQ_MAX_WORKERS; i++)
		if (sq_shared->workers[i].used && OidIsValid(sq_shared->workers[i].owner))
			used++;
	return used >= Min(sq_max_workers, SQ_MAX_WORKERS - 1);
}

/* The next tick of a trigger interval on the grid of its multiples. */
TimestampTz
sq_shared_next_tick(TimestampTz began, int64 interval)
{
	/* the grid starts at the Unix epoch, as Spark's does */
	int64		unix_us = began + (POSTGRES_EPOCH_JDATE - UNIX_EPOCH_JDATE) * USECS_PER_DAY;

	return began - unix_us % interval + interval;
}

/* ------------------------------------------------- who is to run a task */

static bool
serves(const SqWorkerSlot *slot, const SqTask *task)
{
	return slot->used && slot->dbid == task->dbid && slot->owner == task->owner &&
		!slot->leave;
}

/* A worker that can take a task on: it is idle, or about to begin. */
SqWorkerSlot *
sq_shared_idle_worker(const SqTask *task)
{
	for (int i = 0; i < SQ_MAX_WORKERS; i++)
	{
		SqWorkerSlot *slot = &sq_shared->workers[i];

		if (serves(slot, task) && (slot->idle || slot->pid == 0))
			return slot;
	}
	return NULL;
}

/*
 * When a further worker is to be started for a task, unless somebody is on it by
 * then.  Most batches are short: it is not worth while at once if its owner has a
 * worker already.
 */
TimestampTz
sq_shared_start_time(const SqTask *task)
{
	for (int i = 0; i < SQ_MAX_WORKERS; i++)
		if (serves(&sq_shared->workers[i], task))
			return task->due + PATIENCE_US;
	return task->due;
}

/* Makes sure that the launcher looks around at the time given, or earlier. */
void
sq_shared_wake_launcher_by(TimestampTz when)
{
	if (when < sq_shared->launcher_until)
		wake_launcher();
}

/* Makes the idle workers of a database look whether there is something to do. */
void
sq_shared_wake_idle(Oid dbid)
{
	for (int i = 0; i < SQ_MAX_WORKERS; i++)
	{
		SqWorkerSlot *slot = &sq_shared->workers[i];

		if (slot->used && slot->dbid == dbid && slot->idle && slot->latch != NULL)
			SetLatch(slot->latch);
	}
}

/* Leaves a task to a worker that is idle, or else to the launcher. */
void
sq_shared_offer(const SqTask *task)
{
	SqWorkerSlot *worker = sq_shared_idle_worker(task);

	if (worker == NULL)
		sq_shared_wake_launcher_by(sq_shared_start_time(task));
	else if (worker->latch != NULL)
		SetLatch(worker->latch);
}

/* ------------------------------------------------------------- databases */

static SqDatabase *
find_database(Oid dbid, bool paused)
{
	for (int i = 0; i < sq_shared->ndatabases; i++)
		if (sq_shared->databases[i].dbid == dbid &&
			(sq_shared->databases[i].paused_by != 0) == paused)
			return &sq_shared->databases[i];
	return NULL;
}

/* adds an entry; false if there is no room.  The caller holds the lock. */
static bool
add_database(Oid dbid, pid_t paused_by, TimestampTz due)
{
	SqDatabase *entry;

	if (sq_shared->ndatabases == SQ_MAX_DATABASES)
		return false;
	entry = &sq_shared->databases[sq_shared->ndatabases++];
	entry->dbid = dbid;
	entry->paused_by = paused_by;
	entry->due = due;
	return true;
}

/* Asks for a database's queries to be read, not before the time given. */
void
sq_shared_request_sync(Oid dbid, TimestampTz due)
{
	SqDatabase *entry;

	if (sq_shared == NULL)
		return;
	LWLockAcquire(sq_shared->lock, LW_EXCLUSIVE);
	entry = find_database(dbid, false);
	if (entry != NULL)
		entry->due = Min(entry->due, due);
	else
		(void) add_database(dbid, 0, due);
	wake_launcher();
	LWLockRelease(sq_shared->lock);
}

/* --------------------------------------------- the end of a transaction */

static void
clear_stopper(void)
{
	for (int i = 0; i < sq_shared->ntasks; i++)
		if (sq_shared->tasks[i].stopper_pid == MyProcPid)
			sq_shared->tasks[i].stopper_pid = 0;
}

/* removes the tasks that this backend has stopped */
static void
remove_stopped(void)
{
	for (int i = 0; i < sq_shared->ntasks; i++)
		if (sq_shared->tasks[i].stopper_pid == MyProcPid &&
			!sq_shared->tasks[i].running)
			memset(&sq_shared->tasks[i], 0, sizeof(SqTask));
}

/* lets workers into the databases that this backend has paused */
static void
resume_databases(void)
{
	while (paused_databases)
	{
		Oid			dbid = InvalidOid;

		LWLockAcquire(sq_shared->lock, LW_EXCLUSIVE);
		for (int i = 0; i < sq_shared->ndatabases; i++)
			if (sq_shared->databases[i].paused_by == MyProcPid)
			{
				dbid = sq_shared->databases[i].dbid;
				sq_shared->databases[i] = sq_shared->databases[--sq_shared->ndatabases];
				break;
			}
		LWLockRelease(sq_shared->lock);
		if (OidIsValid(dbid))
			sq_shared_request_sync(dbid, 0);
		else
			paused_databases = false;
	}
}

static void
end_of_transaction(XactEvent event, void *arg)
{
	SQ_UNUSED(arg);
	if (event == XACT_EVENT_COMMIT || event == XACT_EVENT_ABORT)
		resume_databases();
	if (!sync_at_commit && !stopped_tasks)
		return;
	if (event == XACT_EVENT_PRE_PREPARE)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("cannot PREPARE a transaction that has started, stopped or dropped a streaming query")));
	if (event != XACT_EVENT_COMMIT && event != XACT_EVENT_ABORT)
		return;

	LWLockAcquire(sq_shared->lock, LW_EXCLUSIVE);
	if (event == XACT_EVENT_COMMIT)
		remove_stopped();
	clear_stopper();
	LWLockRelease(sq_shared->lock);
	stopped_tasks = false;
	sync_at_commit = false;
	sq_shared_request_sync(MyDatabaseId, 0);
}

/* a backend that ends while it has stopped tasks or paused a database */
static void
end_of_backend(int code, Datum arg)
{
	SQ_UNUSED(code);
	SQ_UNUSED(arg);
	LWLockAcquire(sq_shared->lock, LW_EXCLUSIVE);
	clear_stopper();
	for (int i = 0; i < sq_shared->ndatabases;)
	{
		if (sq_shared->databases[i].paused_by == MyProcPid)
			sq_shared->databases[i] = sq_shared->databases[--sq_shared->ndatabases];
		else
			i++;
	}
	wake_launcher();
	LWLockRelease(sq_shared->lock);
}

static void
register_callbacks(void)
{
	if (callbacks_registered)
		return;
	RegisterXactCallback(end_of_transaction, NULL);
	on_shmem_exit(end_of_backend, (Datum) 0);
	callbacks_registered = true;
}

/* Has this database's queries read anew when the transaction has committed. */
void
sq_shared_sync_at_commit(void)
{
	if (sq_shared == NULL)
		return;
	register_callbacks();
	sync_at_commit = true;
}

/* ------------------------------------------------------------- stopping */

/*
 * Keeps workers from a query of this database until the transaction ends, and
 * for good if it commits; returns when no worker is on it.
 */
void
sq_shared_stop(int32 query_id)
{
	if (sq_shared == NULL)
		return;
	register_callbacks();
	stopped_tasks = true;

	ConditionVariablePrepareToSleep(&sq_shared->changed);
	for (;;)
	{
		bool		running = false;

		LWLockAcquire(sq_shared->lock, LW_EXCLUSIVE);
		for (int i = 0; i < sq_shared->ntasks; i++)
		{
			SqTask	   *task = &sq_shared->tasks[i];

			if (task->dbid != MyDatabaseId || task->query_id != query_id)
				continue;
			if (task->running)
			{
				running = true;
				kill(task->worker_pid, SIGINT);
			}
			task->stopper_pid = MyProcPid;
		}
		LWLockRelease(sq_shared->lock);
		if (!running)
			break;
		(void) ConditionVariableTimedSleep(&sq_shared->changed, 1000, PG_WAIT_EXTENSION);
	}
	ConditionVariableCancelSleep();
}

/* ---------------------------------------------------------- synchronising */

/* Begins to tell which queries of a database are started. */
void
sq_shared_sync_begin(Oid dbid)
{
	LWLockAcquire(sq_shared->lock, LW_EXCLUSIVE);
	for (int i = 0; i < sq_shared->ntasks; i++)
		if (sq_shared->tasks[i].dbid == dbid)
			sq_shared->tasks[i].seen = false;
	LWLockRelease(sq_shared->lock);
}

static SqTask *
find_task(Oid dbid, int32 query_id)
{
	for (int i = 0; i < sq_shared->ntasks; i++)
		if (sq_shared->tasks[i].dbid == dbid && sq_shared->tasks[i].query_id == query_id)
			return &sq_shared->tasks[i];
	return NULL;
}

static SqTask *
free_task(void)
{
	for (int i = 0; i < sq_shared->ntasks; i++)
		if (!OidIsValid(sq_shared->tasks[i].dbid))
			return &sq_shared->tasks[i];
	if (sq_shared->ntasks < SQ_MAX_TASKS)
		return &sq_shared->tasks[sq_shared->ntasks++];
	return NULL;
}

/* how often a worker has run a query of this database */
static uint32
count_slices(int32 query_id)
{
	SqTask	   *task;
	uint32		result;

	LWLockAcquire(sq_shared->lock, LW_SHARED);
	task = find_task(MyDatabaseId, query_id);
	result = task != NULL ? task->slices : 0;
	LWLockRelease(sq_shared->lock);
	return result;
}

/*
 * Waits until a worker has run a query of this database since the last call, whose
 * count *slices is, but not longer than the timeout.
 */
void
sq_shared_wait(int32 query_id, uint32 *slices, long timeout_ms)
{
	uint32		last = *slices;
	TimestampTz until = GetCurrentTimestamp() + timeout_ms * INT64CONST(1000);

	ConditionVariablePrepareToSleep(&sq_shared->changed);
	for (;;)
	{
		long		left = TimestampDifferenceMilliseconds(GetCurrentTimestamp(), until);

		*slices = count_slices(query_id);
		if (*slices != last || left <= 0)
			break;
		(void) ConditionVariableTimedSleep(&sq_shared->changed, left, PG_WAIT_EXTENSION);
	}
	ConditionVariableCancelSleep();
}

/* Tells of one started query. */
void
sq_shared_sync_task(const SqTask *task)
{
	SqTask	   *entry;

	LWLockAcquire(sq_shared->lock, LW_EXCLUSIVE);
	entry = find_task(task->dbid, task->query_id);
	if (entry == NULL)
	{
		entry = free_task();
		if (entry != NULL)
			*entry = *task;
	}
	else
	{
		entry->owner = task->owner;
		entry->owner_can_login = task->owner_can_login;
		if (entry->interval_us != task->interval_us)
		{
			entry->due = task->due;
			entry->waiting = false;
		}
		entry->interval_us = task->interval_us;
	}
	if (entry != NULL)
		entry->seen = true;
	LWLockRelease(sq_shared->lock);
	if (entry == NULL)
		ereport(WARNING,
				(errcode(ERRCODE_CONFIGURATION_LIMIT_EXCEEDED),
				 errmsg("streaming query \"%s\" is not run because too many are started",
						task->name),
				 errdetail("At most %d can be started at the same time.", SQ_MAX_TASKS)));
}

/* Ends telling: what was not told of is forgotten. */
void
sq_shared_sync_end(Oid dbid)
{
	LWLockAcquire(sq_shared->lock, LW_EXCLUSIVE);
	for (int i = 0; i < sq_shared->ntasks; i++)
	{
		SqTask	   *task = &sq_shared->tasks[i];

		/* whoever is on it finds out by himself and clears the entry */
		if (task->dbid == dbid && !task->seen && !task->running)
			memset(task, 0, sizeof(SqTask));
	}
	sq_shared_wake_idle(dbid);
	wake_launcher();
	LWLockRelease(sq_shared->lock);
}

/* Makes the tasks of an owner in a database wait, whom nobody can serve now. */
void
sq_shared_postpone(Oid dbid, Oid owner, TimestampTz due)
{
	LWLockAcquire(sq_shared->lock, LW_EXCLUSIVE);
	for (int i = 0; i < sq_shared->ntasks; i++)
	{
		SqTask	   *task = &sq_shared->tasks[i];

		if (task->dbid != dbid || task->owner != owner || task->running)
			continue;
		task->due = due;
		task->waiting = false;
	}
	LWLockRelease(sq_shared->lock);
}

/* ------------------------------------------------------------- pausing */

/*
 * Makes all workers leave a database and keeps them out until the transaction
 * ends; returns when they have left.  Then the database is looked at anew.
 */
void
sq_shared_pause(Oid dbid)
{
	bool		noted;

	register_callbacks();
	LWLockAcquire(sq_shared->lock, LW_EXCLUSIVE);
	noted = add_database(dbid, MyProcPid, 0);
	LWLockRelease(sq_shared->lock);
	if (!noted)
		return;
	paused_databases = true;

	ConditionVariablePrepareToSleep(&sq_shared->changed);
	for (;;)
	{
		bool		found = false;

		LWLockAcquire(sq_shared->lock, LW_EXCLUSIVE);
		for (int i = 0; i < SQ_MAX_WORKERS; i++)
		{
			SqWorkerSlot *slot = &sq_shared->workers[i];

			if (!slot->used || slot->dbid != dbid)
				continue;
			found = true;
			slot->leave = true;
			if (slot->pid != 0)
				kill(slot->pid, SIGTERM);
		}
		LWLockRelease(sq_shared->lock);
		if (!found)
			break;
		(void) ConditionVariableTimedSleep(&sq_shared->changed, 100, PG_WAIT_EXTENSION);
	}
	ConditionVariableCancelSleep();
}
