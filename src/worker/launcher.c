/*
 * launcher.c
 *		The launcher: one process for the cluster, that starts workers.
 *
 * After a start of the server, or promotion, it has every database looked at: a
 * worker without an owner connects, reads which queries are started, and leaves
 * (worker.c).  From then on databases are looked at when a transaction that
 * started or stopped a query has committed.
 *
 * A worker serves the queries of one owner in one database, as he would be
 * served himself.  The launcher starts one where a query is due and nobody is
 * free to run it; when no slot is left, it asks idle workers to leave, and busy
 * ones leave by themselves after a while (worker.c).
 */
#include "worker/worker.h"

#include <limits.h>
#include <signal.h>

#include "access/heapam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "access/tableam.h"
#include "access/xact.h"
#include "catalog/pg_database.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "postmaster/bgworker.h"
#include "postmaster/interrupt.h"
#include "progress/shared.h"
#include "storage/ipc.h"
#include "storage/proc.h"
#include "utils/guc.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"
#include "utils/wait_event.h"

#define LAUNCHER_RESTART_S	1
#define RETRY_MS			1000	/* what nobody is going to tell of */
#define READ_RETRY_MS		50	/* without a process to read a database */
#define START_RETRY_MS		5000	/* after a worker that could not connect */

/* the workers started, by slot; NULL: by an earlier launcher, or none */
static BackgroundWorkerHandle *started[SQ_MAX_WORKERS];

/* what launcher and workers have in common */
static void
describe_process(BackgroundWorker *worker, const char *name, const char *function)
{
	memset(worker, 0, sizeof(*worker));
	worker->bgw_flags = BGWORKER_SHMEM_ACCESS | BGWORKER_BACKEND_DATABASE_CONNECTION;
	worker->bgw_start_time = BgWorkerStart_RecoveryFinished;
	snprintf(worker->bgw_library_name, BGW_MAXLEN, "streamq");
	snprintf(worker->bgw_function_name, BGW_MAXLEN, "%s", function);
	snprintf(worker->bgw_name, BGW_MAXLEN, "%s", name);
	snprintf(worker->bgw_type, BGW_MAXLEN, "%s", name);
}

/* Registers the launcher; called while shared_preload_libraries are loaded. */
void
sq_launcher_register(void)
{
	BackgroundWorker worker;

	describe_process(&worker, "streamq launcher", "streamq_launcher_main");
	worker.bgw_restart_time = LAUNCHER_RESTART_S;
	RegisterBackgroundWorker(&worker);
}

/* asks for every database to be looked at */
static void
request_all_databases(void)
{
	Relation	rel;
	TableScanDesc scan;
	HeapTuple	tuple;

	StartTransactionCommand();
	(void) GetTransactionSnapshot();
	rel = table_open(DatabaseRelationId, AccessShareLock);
	scan = table_beginscan_catalog(rel, 0, NULL);
	while ((tuple = heap_getnext(scan, ForwardScanDirection)) != NULL)
	{
		Form_pg_database database = (Form_pg_database) GETSTRUCT(tuple);

		if (database->datallowconn)
			sq_shared_request_sync(database->oid, 0);
	}
	table_endscan(scan);
	table_close(rel, AccessShareLock);
	CommitTransactionCommand();
}

/* ---------------------------------------------------------- worker slots */

/* frees a slot, and returns what was in it */
static SqWorkerSlot
release_slot(int slot)
{
	SqWorkerSlot released;

	LWLockAcquire(sq_shared->lock, LW_EXCLUSIVE);
	released = sq_shared->workers[slot];
	memset(&sq_shared->workers[slot], 0, sizeof(SqWorkerSlot));
	LWLockRelease(sq_shared->lock);
	ConditionVariableBroadcast(&sq_shared->changed);
	return released;
}

/* true if a database is there and takes connections (template0 does not) */
static bool
database_is_open(Oid dbid)
{
	bool		result = false;
	HeapTuple	tuple;

	StartTransactionCommand();
	tuple = SearchSysCache1(DATABASEOID, ObjectIdGetDatum(dbid));
	if (HeapTupleIsValid(tuple))
	{
		result = ((Form_pg_database) GETSTRUCT(tuple))->datallowconn;
		ReleaseSysCache(tuple);
	}
	CommitTransactionCommand();
	return result;
}

/* forgets the tasks of a database that is gone */
static void
forget_database(Oid dbid)
{
	sq_shared_sync_begin(dbid);
	sq_shared_sync_end(dbid);
}

/*
 * A worker has ended without getting into its database: that is gone, or
 * something keeps the owner out.  Its tasks wait, and the list is read again, which
 * may find out what it is.
 */
static void
handle_failed_start(const SqWorkerSlot *slot)
{
	TimestampTz later = GetCurrentTimestamp() + START_RETRY_MS * INT64CONST(1000);

	if (!database_is_open(slot->dbid))
	{
		forget_database(slot->dbid);
		return;
	}
	if (OidIsValid(slot->owner))
		sq_shared_postpone(slot->dbid, slot->owner, later);
	sq_shared_request_sync(slot->dbid, OidIsValid(slot->owner) ? 0 : later);
}

/*
 * Frees the slot of a worker that an earlier launcher has started, if its process
 * has ended, of which the postmaster does not tell us.  Returns true if it is about
 * to end.
 */
static bool
reap_orphan(int slot)
{
	const SqWorkerSlot *worker = &sq_shared->workers[slot];

	if (!worker->used || worker->pid == 0)
		return false;
	if (kill(worker->pid, 0) == 0 || errno != ESRCH)
		return worker->latch == NULL;
	(void) release_slot(slot);
	return false;
}

/* frees the slots of workers that have ended; true if one has to be looked for again */
static bool
reap_workers(void)
{
	bool		again = false;

	for (int i = 0; i < SQ_MAX_WORKERS; i++)
	{
		SqWorkerSlot slot;
		pid_t		pid;

		if (started[i] == NULL)
		{
			again |= reap_orphan(i);
			continue;
		}
		if (GetBackgroundWorkerPid(started[i], &pid) != BGWH_STOPPED)
			continue;
		pfree(started[i]);
		started[i] = NULL;
		slot = release_slot(i);
		if (!slot.connected && !slot.leave)
			handle_failed_start(&slot);
	}
	return again;
}

/* a slot that is not used, or -1; the caller holds the lock */
static int
free_slot(void)
{
	for (int i = 0; i < SQ_MAX_WORKERS; i++)
		if (!sq_shared->workers[i].used)
			return i;
	return -1;
}

/* starts a worker in a slot that has been reserved */
static bool
start_worker(int slot)
{
	BackgroundWorker worker;
	MemoryContext old;
	bool		done;

	describe_process(&worker, "streamq worker", "streamq_worker_main");
	worker.bgw_restart_time = BGW_NEVER_RESTART;
	worker.bgw_main_arg = Int32GetDatum(slot);
	worker.bgw_notify_pid = MyProcPid;

	old = MemoryContextSwitchTo(TopMemoryContext);
	done = RegisterDynamicBackgroundWorker(&worker, &started[slot]);
	MemoryContextSwitchTo(old);
	if (!done)
	{
		started[slot] = NULL;
		(void) release_slot(slot);
		if (!sq_shared->no_process)
			ereport(WARNING,
					(errcode(ERRCODE_CONFIGURATION_LIMIT_EXCEEDED),
					 errmsg("out of background worker slots for streaming queries"),
					 errhint("You might need to increase max_worker_processes.")));
	}
	LWLockAcquire(sq_shared->lock, LW_EXCLUSIVE);
	sq_shared->no_process = !done;
	LWLockRelease(sq_shared->lock);
	return done;
}

/* reserves a slot; the caller holds the lock */
static void
reserve_slot(int slot, Oid dbid, Oid owner, bool can_login)
{
	SqWorkerSlot *entry = &sq_shared->workers[slot];

	memset(entry, 0, sizeof(SqWorkerSlot));
	entry->used = true;
	entry->dbid = dbid;
	entry->owner = owner;
	entry->owner_can_login = can_login;
}

/* ------------------------------------------------------------ scheduling */

static bool
is_paused(Oid dbid)
{
	for (int i = 0; i < sq_shared->ndatabases; i++)
		if (sq_shared->databases[i].dbid == dbid && sq_shared->databases[i].paused_by != 0)
			return true;
	return false;
}

/*
 * Picks a database to be looked at and reserves a slot for it; -1 if there is
 * nothing to do.  One at a time: until then, others wait.  *until is lowered to
 * the time when the next one is due.
 */
static int
pick_database(TimestampTz now, TimestampTz *until)
{
	int			slot = -1;

	LWLockAcquire(sq_shared->lock, LW_EXCLUSIVE);
	for (int i = 0; i < SQ_MAX_WORKERS; i++)
		if (sq_shared->workers[i].used && !OidIsValid(sq_shared->workers[i].owner))
		{
			LWLockRelease(sq_shared->lock);
			return -1;
		}
	for (int i = 0; i < sq_shared->ndatabases; i++)
	{
		SqDatabase *entry = &sq_shared->databases[i];

		if (entry->paused_by != 0 || is_paused(entry->dbid))
			continue;
		if (entry->due > now)
		{
			*until = Min(*until, entry->due);
			continue;
		}
		slot = free_slot();
		if (slot < 0)
			break;
		reserve_slot(slot, entry->dbid, InvalidOid, true);
		*entry = sq_shared->databases[--sq_shared->ndatabases];
		break;
	}
	LWLockRelease(sq_shared->lock);
	return slot;
}

/*
 * Asks a worker to leave that waits for work of somebody else, or of anybody if task
 * is NULL.  The caller holds the lock.
 */
static void
make_room(const SqTask *task)
{
	for (int i = 0; i < SQ_MAX_WORKERS; i++)
	{
		SqWorkerSlot *slot = &sq_shared->workers[i];

		if (slot->used && slot->idle && !slot->leave && slot->latch != NULL &&
			(task == NULL || slot->dbid != task->dbid || slot->owner != task->owner))
		{
			slot->leave = true;
			SetLatch(slot->latch);
			return;
		}
	}
}

/*
 * The task that needs a further worker most; *until is lowered to the time when
 * the next one does.  The caller holds the lock.
 */
static SqTask *
neediest_task(TimestampTz now, TimestampTz *until)
{
	SqTask	   *best = NULL;

	for (int i = 0; i < sq_shared->ntasks; i++)
	{
		SqTask	   *task = &sq_shared->tasks[i];
		TimestampTz start;

		if (!OidIsValid(task->dbid) || task->running || task->stopper_pid != 0 ||
			is_paused(task->dbid))
			continue;
		if (task->due <= now && sq_shared_idle_worker(task) != NULL)
		{
			sq_shared_offer(task);
			continue;
		}
		start = sq_shared_start_time(task);
		if (start > now)
			*until = Min(*until, start);
		else if (best == NULL || task->due < best->due)
			best = task;
	}
	return best;
}

/*
 * Reserves a slot for a new worker for the task that needs it most; returns -1
 * if none is needed, or no slot is free.
 */
static int
pick_task(TimestampTz now, TimestampTz *until)
{
	int			slot = -1;
	SqTask	   *task;

	LWLockAcquire(sq_shared->lock, LW_EXCLUSIVE);
	task = neediest_task(now, until);
	if (task != NULL)
	{
		slot = sq_shared_pool_is_full() ? -1 : free_slot();
		if (slot < 0 || sq_shared->no_process)
		{
			make_room(task);
			/* who becomes idle after this does not know that he is in the way */
			*until = Min(*until, now + RETRY_MS * INT64CONST(1000));
		}
		if (slot >= 0)
			reserve_slot(slot, task->dbid, task->owner, task->owner_can_login);
	}
	LWLockRelease(sq_shared->lock);
	return slot;
}

/* notes until when the launcher is going to sleep */
static void
set_until(TimestampTz until)
{
	LWLockAcquire(sq_shared->lock, LW_EXCLUSIVE);
	sq_shared->launcher_until = until;
	LWLockRelease(sq_shared->lock);
}

/* starts what has to be started; returns until when to sleep */
static TimestampTz
schedule(void)
{
	TimestampTz now = GetCurrentTimestamp();
	TimestampTz until = DT_NOEND;
	int			slot;

	/* what happens from now on is news */
	set_until(DT_NOEND);
	if (reap_workers())
		until = now + RETRY_MS * INT64CONST(1000);
	while ((slot = pick_database(now, &until)) >= 0)
	{
		Oid			dbid = sq_shared->workers[slot].dbid;

		if (!database_is_open(dbid))
		{
			forget_database(dbid);
			(void) release_slot(slot);
		}
		else if (!start_worker(slot))
		{
			/*
			 * all of max_worker_processes in use; who leaves, leaves it to
			 * this one
			 */
			LWLockAcquire(sq_shared->lock, LW_EXCLUSIVE);
			make_room(NULL);
			LWLockRelease(sq_shared->lock);
			until = now + READ_RETRY_MS * INT64CONST(1000);
			sq_shared_request_sync(dbid, until);
			set_until(until);
			return until;
		}
	}
	while ((slot = pick_task(now, &until)) >= 0)
		if (!start_worker(slot))
		{
			until = Min(until, now + RETRY_MS * INT64CONST(1000));
			break;
		}
	set_until(until);
	return until;
}

static void
forget_latch(int code, Datum arg)
{
	SQ_UNUSED(code);
	SQ_UNUSED(arg);
	LWLockAcquire(sq_shared->lock, LW_EXCLUSIVE);
	sq_shared->launcher_latch = NULL;
	LWLockRelease(sq_shared->lock);
}

void
streamq_launcher_main(Datum arg)
{
	SQ_UNUSED(arg);
	pqsignal(SIGHUP, SignalHandlerForConfigReload);
	pqsignal(SIGINT, SIG_IGN);
	pqsignal(SIGTERM, SignalHandlerForShutdownRequest);
	BackgroundWorkerUnblockSignals();
	BackgroundWorkerInitializeConnection(NULL, NULL, 0);

	LWLockAcquire(sq_shared->lock, LW_EXCLUSIVE);
	sq_shared->launcher_latch = MyLatch;
	/* slots of workers that an earlier launcher has started */
	for (int i = 0; i < SQ_MAX_WORKERS; i++)
		if (sq_shared->workers[i].used && sq_shared->workers[i].pid == 0)
			memset(&sq_shared->workers[i], 0, sizeof(SqWorkerSlot));
	LWLockRelease(sq_shared->lock);
	on_shmem_exit(forget_latch, (Datum) 0);
	request_all_databases();

	while (!ShutdownRequestPending)
	{
		TimestampTz until;
		long		nap_ms;

		ResetLatch(MyLatch);
		CHECK_FOR_INTERRUPTS();
		if (ConfigReloadPending)
		{
			ConfigReloadPending = false;
			ProcessConfigFile(PGC_SIGHUP);
		}
		until = schedule();
		nap_ms = TimestampDifferenceMilliseconds(GetCurrentTimestamp(), until);
		(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH,
						 Min(nap_ms, INT_MAX), PG_WAIT_EXTENSION);
	}
	/* so that it is started again, unless the server is shut down */
	proc_exit(1);
}
