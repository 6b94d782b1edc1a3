/*
 * wakeup.c
 *		Waking queries that wait when rows for them have been committed.
 *
 * Each relation of each database maps to one of a fixed number of channels, and
 * so does each database itself, for commits after which a query may have other
 * relations to read.  A channel counts the commits.  A query that has read
 * everything waits on the channels of its relations and of its database.
 *
 * No wake-up is lost.  A committer, whose rows are visible already, (1) counts
 * and (2) looks whether the channel is armed.  A worker (a) reads the counters,
 * (b) takes its snapshot and finds nothing new in it, (c) arms its channels, and
 * (d) waits only if the counters are still as in (a).  Between 1 and 2, a and b,
 * and c and d lie memory barriers.  If the snapshot does not show the rows, then
 * 1 comes after a, and either d sees the count, or 1 comes after d, so that 2
 * sees what c has done.  Arming and waking are done under SqShared.lock: so whoever
 * finds a channel armed finds in its bitmap everybody who waits, and whoever
 * comes later sees the count.
 *
 * What a committer leaves behind can be too much, never too little: channels are
 * shared by relations with the same hash, and a bit of a task that has ended or
 * reads other relations now stays in the bitmap until a commit clears it.  Either
 * costs a query a look at its sources.
 */
#include "progress/wakeup.h"

#include "access/twophase.h"
#include "common/hashfn.h"
#include "miscadmin.h"
#include "port/atomics.h"
#include "port/pg_bitutils.h"
#include "storage/lwlock.h"
#include "storage/proc.h"
#include "storage/procarray.h"
#include "storage/shmem.h"
#include "utils/resowner.h"

#define BITMAP_WORDS	(SQ_MAX_TASKS / 64)

typedef struct Channel
{
	pg_atomic_uint64 commits;
	pg_atomic_uint32 armed;		/* the bitmap is not empty; set under the lock */
} Channel;

typedef struct Channels
{
	Channel		channels[SQ_CHANNELS];
	/* by index into SqShared.tasks, who waits; under SqShared.lock */
	uint64		waiting[SQ_CHANNELS][BITMAP_WORDS];
} Channels;

static Channels *shared = NULL;

/* what this backend has to do when its transaction ends */
static bool database_at_commit = false;
static bool callback_registered = false;

Size
sq_wakeup_size(void)
{
	return MAXALIGN(sizeof(Channels));
}

/* Makes the channels; the caller holds AddinShmemInitLock. */
void
sq_wakeup_init(void)
{
	bool		found;

	shared = ShmemInitStruct("streamq channels", sizeof(Channels), &found);
	if (found)
		return;
	memset(shared, 0, sizeof(Channels));
	for (int i = 0; i < SQ_CHANNELS; i++)
	{
		pg_atomic_init_u64(&shared->channels[i].commits, 0);
		pg_atomic_init_u32(&shared->channels[i].armed, 0);
	}
}

/* the channel of a relation of this database, or of the database: InvalidOid */
static int
channel_of(Oid relid)
{
	return (int) (hash_combine(murmurhash32(MyDatabaseId), murmurhash32(relid)) % SQ_CHANNELS);
}

/* when a task may begin its next batch, for which there are rows now */
static TimestampTz
ready_at(const SqTask *task, TimestampTz now)
{
	if (task->interval_us > 0)
		return sq_shared_next_tick(now, task->interval_us);
	return Max(now, task->not_before);
}

/* ------------------------------------------------------------ committing */

/* wakes everybody who waits on a channel; the caller holds the lock */
static void
wake_waiting(int channel, TimestampTz now)
{
	if (pg_atomic_read_u32(&shared->channels[channel].armed) == 0)
		return;
	for (int i = 0; i < BITMAP_WORDS; i++)
	{
		for (uint64 word = shared->waiting[channel][i]; word != 0; word &= word - 1)
		{
			SqTask	   *task = &sq_shared->tasks[i * 64 + pg_rightmost_one_pos64(word)];

			if (!task->waiting)
				continue;
			task->waiting = false;
			task->due = ready_at(task, now);
			sq_shared_offer(task);
		}
		shared->waiting[channel][i] = 0;
	}
	pg_atomic_write_u32(&shared->channels[channel].armed, 0);
}

/*
 * Tells that a transaction that has inserted into these relations of this
 * database has committed, or has been prepared: prepared transactions are what
 * sq_wakeup_mark() looks for.  To be called when others see the rows, that is in
 * XACT_EVENT_COMMIT and XACT_EVENT_PREPARE.  Does not throw.
 */
void
sq_wakeup_committed(const Oid *relids, int n)
{
	bool		armed = false;
	TimestampTz now;

	if (shared == NULL)
		return;
	for (int i = 0; i < n; i++)
	{
		Channel    *channel = &shared->channels[channel_of(relids[i])];

		/* a full barrier */
		(void) pg_atomic_fetch_add_u64(&channel->commits, 1);
		armed |= pg_atomic_read_u32(&channel->armed) != 0;
	}
	if (!armed)
		return;
	now = GetCurrentTimestamp();
	LWLockAcquire(sq_shared->lock, LW_EXCLUSIVE);
	for (int i = 0; i < n; i++)
		wake_waiting(channel_of(relids[i]), now);
	LWLockRelease(sq_shared->lock);
}

/* Wakes all queries of this database. */
void
sq_wakeup_database(void)
{
	Oid			database = InvalidOid;

	sq_wakeup_committed(&database, 1);
}

/*
 * The end of a transaction, after its invalidation messages have been sent and its
 * locks released: who is woken now sees the catalogs as it has left them.
 */
static void
after_locks(ResourceReleasePhase phase, bool is_commit, bool is_top_level, void *arg)
{
	SQ_UNUSED(arg);
	if (!database_at_commit || !is_top_level || phase != RESOURCE_RELEASE_AFTER_LOCKS)
		return;
	database_at_commit = false;
	if (is_commit)
		sq_wakeup_database();
}

/*
 * Wakes all queries of this database once the transaction has committed: they may
 * have other relations to read, or other ways to learn of their rows.
 */
void
sq_wakeup_database_at_commit(void)
{
	if (shared == NULL)
		return;
	if (!callback_registered)
		RegisterResourceReleaseCallback(after_locks, NULL);
	callback_registered = true;
	database_at_commit = true;
}

/* --------------------------------------------------------------- waiting */

/* true if a transaction of this database is prepared */
static bool
has_prepared_transaction(void)
{
	for (int i = 0; i < max_prepared_xacts; i++)
	{
		/* what has ended leaves its entry as it was */
		volatile PGPROC *proc = &PreparedXactProcs[i];
		TransactionId xid = proc->xid;

		if (proc->databaseId == MyDatabaseId && TransactionIdIsValid(xid) &&
			TransactionIdIsInProgress(xid))
			return true;
	}
	return false;
}

/*
 * Notes how far the channels are.  To be called before the snapshot is taken in
 * which a query looks for rows, and in that order: who prepares a transaction
 * after that is counted.
 */
void
sq_wakeup_mark(SqWakeupMark *mark)
{
	for (int i = 0; i < SQ_CHANNELS; i++)
		mark->commits[i] = pg_atomic_read_u64(&shared->channels[i].commits);
	pg_memory_barrier();
	mark->prepared = has_prepared_transaction();
}

/* A number that grows with each commit into one of the relations. */
uint64
sq_wakeup_commits(const SqWakeupMark *mark, List *relations)
{
	uint64		sum = 0;
	ListCell   *lc;

	foreach(lc, relations)
		sum += mark->commits[channel_of(lfirst_oid(lc))];
	return sum;
}

static void
arm(SqTask *task, int channel)
{
	int			index = (int) (task - sq_shared->tasks);

	shared->waiting[channel][index / 64] |= UINT64CONST(1) << (index % 64);
	pg_atomic_write_u32(&shared->channels[channel].armed, 1);
}

static bool
has_moved(const SqWakeupMark *mark, int channel)
{
	return pg_atomic_read_u64(&shared->channels[channel].commits) != mark->commits[channel];
}

/*
 * Makes a task of this database wait for commits; it is due at once if there have
 * been some since the mark.  The caller holds the lock.
 */
void
sq_wakeup_wait(SqTask *task, const SqAwaited *awaited)
{
	bool		moved;
	ListCell   *lc;

	arm(task, channel_of(InvalidOid));
	foreach(lc, awaited->relations)
		arm(task, channel_of(lfirst_oid(lc)));
	pg_memory_barrier();
	moved = has_moved(awaited->mark, channel_of(InvalidOid));
	foreach(lc, awaited->relations)
		moved |= has_moved(awaited->mark, channel_of(lfirst_oid(lc)));

	task->not_before = awaited->not_before;
	task->waiting = !moved;
	task->due = moved ? ready_at(task, GetCurrentTimestamp()) : awaited->look_at;
}
