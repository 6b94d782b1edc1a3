/*
 * sourcedef.h
 *		The table streamq.sources.
 */
#ifndef SQ_SOURCEDEF_H
#define SQ_SOURCEDEF_H

#include "streamq.h"
#include "access/attnum.h"
#include "nodes/pg_list.h"
#include "utils/timestamp.h"

typedef struct SqSource
{
	Oid			relid;
	AttrNumber	event_time;		/* 0 if there is none */
	Interval   *watermark_delay;	/* NULL if there is none */
} SqSource;

extern SqSource *sq_source_load(Oid relid);
extern bool sq_source_same(const SqSource *a, const SqSource *b);
extern bool sq_source_has_partition(Oid relid);
extern List *sq_source_all(void);
extern void sq_source_insert(const SqSource *source);
extern bool sq_source_delete(Oid relid);
extern void sq_source_follow_rename(const char *old_name, const char *new_name);
extern bool sq_source_lacks_event_time(Oid relid);

#endif							/* SQ_SOURCEDEF_H */
