/*
 * querydef.h
 *		The table streamq.queries, and the lock that whoever runs a query holds.
 */
#ifndef SQ_QUERYDEF_H
#define SQ_QUERYDEF_H

#include "streamq.h"
#include "nodes/pg_list.h"
#include "storage/itemptr.h"
#include "storage/lock.h"
#include "utils/timestamp.h"

typedef struct SqQuery
{
	char	   *name;
	int32		query_id;
	Oid			definition;		/* the view that holds the SELECT */
	Oid			owner;			/* owner of the definition */
	Oid			sink;
	List	   *sources;		/* oids, in the order of queries.sources */
	char	   *output_mode;
	char	   *starting_position;
	int64		max_rows_per_batch; /* 0: no limit */
	List	   *settings;		/* strings "name=value" */
	char	   *strategy;		/* of an aggregation, NULL for a query without */
	char	   *strategy_reason;
	List	   *state_keys;		/* numbers of the state's columns k<n> and
								 * s<n>, */
	List	   *state_calls;	/* in the order of keys and calls in the query */
	Oid			late_sink;		/* InvalidOid: late rows are counted only */
	bool		is_restored;	/* its checkpoint belongs to another database;
								 * then it is neither active nor failed here */
	bool		active;
	Interval   *trigger_interval;	/* NULL if never started */
	bool		failed;
	int32		retries;
	char	   *last_error;
	ItemPointerData place;		/* of its row, and who has written that: */
	TransactionId xmin;			/* other ones if anything has changed */
} SqQuery;

/* the lock of whoever runs a query */
typedef struct SqQueryLock
{
	LOCKTAG		tag;
} SqQueryLock;

extern Oid	sq_query_owner(Oid definition);
extern SqQuery *sq_query_load(const char *name, bool missing_ok);
extern SqQuery *sq_query_load_owned(const char *name);
extern SqQuery *sq_query_copy(const SqQuery *query);
extern bool sq_query_same(const SqQuery *a, const SqQuery *b);
extern List *sq_query_names_active(void);
extern List *sq_query_names_all(void);
extern List *sq_query_names_reading(Oid source);
extern List *sq_query_names_using(Oid relation);
extern void sq_query_insert(SqQuery *query);
extern void sq_query_set_definition(const SqQuery *query);
extern void sq_query_delete(const char *name);
extern bool sq_query_set_started(const char *name, Interval *trigger_interval);
extern void sq_query_set_stopped(const char *name);
extern bool sq_query_set_fresh(const char *name, const char *starting_position);
extern int	sq_query_record_failure(const char *name, const ErrorData *error, bool give_up_now);
extern void sq_query_record_recovery(const char *name);

extern Oid	sq_query_table(void);
extern bool sq_query_lock(int32 query_id, bool session, bool wait,
						  SqQueryLock *lock);
extern void sq_query_unlock(const SqQueryLock *lock);
extern void sq_query_check_outside(const SqQuery *query);
extern void sq_query_check_owner(const SqQuery *query);
extern void sq_query_check_mine(const SqQuery *query);

#endif							/* SQ_QUERYDEF_H */
