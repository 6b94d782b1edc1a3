/*
 * lookup.h
 *		Looking up rows of the engine's own tables by their primary key.
 */
#ifndef SQ_LOOKUP_H
#define SQ_LOOKUP_H

#include "streamq.h"
#include "access/genam.h"
#include "access/htup.h"
#include "utils/relcache.h"
#include "utils/snapshot.h"

#define SQ_LOOKUP_MAX_KEYS 3

/* a column of the primary key, and its value, of type text, bigint or an oid */
typedef struct SqLookupKey
{
	const char *column;
	Oid			type;
	Datum		value;
} SqLookupKey;

typedef struct SqLookup
{
	Relation	table;
	Relation	index;
	Snapshot	snapshot;
	SysScanDesc scan;
	HeapTuple	row;			/* NULL: there are no more */
	int			last_column;	/* asked for */
} SqLookup;

extern bool sq_lookup_begin(SqLookup *lookup, const char *table, const SqLookupKey *keys,
							int nkeys);
extern bool sq_lookup_next(SqLookup *lookup);
extern Datum sq_lookup_value(SqLookup *lookup, const char *column, bool *isnull);
extern char *sq_lookup_text(SqLookup *lookup, const char *column);
extern void sq_lookup_end(SqLookup *lookup);

#endif							/* SQ_LOOKUP_H */
