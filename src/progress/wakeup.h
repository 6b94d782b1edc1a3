/*
 * wakeup.h
 *		Waking queries that wait when rows for them have been committed.
 */
#ifndef SQ_WAKEUP_H
#define SQ_WAKEUP_H

#include "streamq.h"
#include "progress/shared.h"

#define SQ_CHANNELS			2048

/* how far the channels were at a moment before a query looked */
typedef struct SqWakeupMark
{
	uint64		commits[SQ_CHANNELS];
	bool		prepared;		/* a transaction of this database was prepared */
} SqWakeupMark;

/* what a query that has read everything waits for */
typedef struct SqAwaited
{
	List	   *relations;		/* oids of this database's relations */
	const SqWakeupMark *mark;	/* from before the query has looked at them */
	TimestampTz not_before;		/* a commit may come, the next batch may not */
	TimestampTz look_at;		/* whether or not there are commits */
} SqAwaited;

/* for shared.c */
extern Size sq_wakeup_size(void);
extern void sq_wakeup_init(void);

/* for those who commit */
extern void sq_wakeup_committed(const Oid *relids, int n);
extern void sq_wakeup_database(void);
extern void sq_wakeup_database_at_commit(void);

/* for workers */
extern void sq_wakeup_mark(SqWakeupMark *mark);
extern uint64 sq_wakeup_commits(const SqWakeupMark *mark, List *relations);
extern void sq_wakeup_wait(SqTask *task, const SqAwaited *awaited);

#endif							/* SQ_WAKEUP_H */
