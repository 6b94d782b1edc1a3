/*
 * shared.h
 *		Shared memory: which queries are to be run, by which worker.
 */
#ifndef SQ_SHARED_H
#define SQ_SHARED_H

#include "streamq.h"

#include "storage/condition_variable.h"
#include "storage/latch.h"
#include "storage/lwlock.h"
#include "utils/timestamp.h"

#define SQ_MAX_TASKS		1024	/* started queries in all databases */
#define SQ_MAX_WORKERS		64
#define SQ_MAX_DATABASES	256 /* databases waiting to be looked at, or
								 * paused */

/* a started query; all fields under SqShared.lock */
typedef struct SqTask
{
	Oid			dbid;			/* InvalidOid: entry is free */
	int32		query_id;
	Oid			owner;
	bool		owner_can_login;
	char		name[NAMEDATALEN];
	int64		interval_us;	/* trigger interval; 0: as soon as there is
								 * data */
	TimestampTz due;			/* not before */
	bool		waiting;		/* a commit makes it due earlier (wakeup.c), */
	TimestampTz not_before;		/* but not before this */
	pid_t		worker_pid;		/* who ran it last, and is alive */
	bool		running;		/* worker_pid is on it now */
	uint32		slices;			/* how often one has been */
	int			deaths;			/* of workers on it, since one has given it
								 * back */
	pid_t		stopper_pid;	/* a backend that stops it, uncommitted */
	bool		seen;			/* scratch of sq_shared_sync_end() */
} SqTask;

/* a worker process; all fields under SqShared.lock */
typedef struct SqWorkerSlot
{
	bool		used;
	pid_t		pid;			/* 0 until it has started */
	Oid			dbid;
	Oid			owner;			/* InvalidOid: reads the queries of dbid */
	bool		owner_can_login;
	bool		connected;		/* has got into the database */
	bool		idle;			/* waits for something to do */
	bool		leave;			/* asked to exit */
	Latch	   *latch;
} SqWorkerSlot;

/* a database whose list of queries has changed, or that must be left alone */
typedef struct SqDatabase
{
	Oid			dbid;
	pid_t		paused_by;		/* 0: to be looked at */
	TimestampTz due;
} SqDatabase;

typedef struct SqShared
{
	LWLock	   *lock;
	ConditionVariable changed;	/* a worker has ended a task or itself */
	Latch	   *launcher_latch; /* NULL if there is no launcher */
	TimestampTz launcher_until; /* it sleeps until then */
	bool		no_process;		/* the last worker could not be started */
	SqTask		tasks[SQ_MAX_TASKS];
	int			ntasks;			/* entries below are in use or free */
	SqWorkerSlot workers[SQ_MAX_WORKERS];
	SqDatabase	databases[SQ_MAX_DATABASES];
	int			ndatabases;
} SqShared;

/* NULL unless streamq is in shared_preload_libraries */
extern SqShared *sq_shared;

extern void sq_shared_define(void);
extern bool sq_shared_available(void);
extern bool sq_shared_pool_is_full(void);
extern TimestampTz sq_shared_next_tick(TimestampTz began, int64 interval);
extern void sq_shared_wait(int32 query_id, uint32 *slices, long timeout_ms);

/* who is to run a task; the caller holds the lock */
extern SqWorkerSlot *sq_shared_idle_worker(const SqTask *task);
extern TimestampTz sq_shared_start_time(const SqTask *task);
extern void sq_shared_wake_launcher_by(TimestampTz when);
extern void sq_shared_wake_idle(Oid dbid);
extern void sq_shared_offer(const SqTask *task);

/* for backends that start and stop queries */
extern void sq_shared_sync_at_commit(void);
extern void sq_shared_stop(int32 query_id);

/* for whoever reads a database's queries */
extern void sq_shared_request_sync(Oid dbid, TimestampTz due);
extern void sq_shared_sync_begin(Oid dbid);
extern void sq_shared_sync_task(const SqTask *task);
extern void sq_shared_sync_end(Oid dbid);
extern void sq_shared_postpone(Oid dbid, Oid owner, TimestampTz due);

/* for those who need a database without workers */
extern void sq_shared_pause(Oid dbid);

#endif							/* SQ_SHARED_H */
