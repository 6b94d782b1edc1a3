/*
 * lookup.c
 *		Looking up rows of the engine's own tables by their primary key.
 *
 * A batch reads a handful of records, and a SELECT for each of them (spi.c) would
 * take longer than a small batch may; the planner, moreover, tends to think that these
 * tables are too small for their indexes until they have been analysed.  Here the
 * index is read directly, as for a system catalog.  Nothing of a user's is executed.
 *
 * A lookup sees what sq_engine_query() would see.  The table stays locked, as by a
 * SELECT, to the end of the transaction.
 */
#include "lookup.h"

#include "access/htup_details.h"
#include "access/table.h"
#include "access/skey.h"
#include "access/stratnum.h"
#include "catalog/pg_type.h"
#include "spi.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

/* the number of a column; cheap when columns are asked for in their order */
static int
find_column(SqLookup *lookup, const char *name)
{
	TupleDesc	desc = RelationGetDescr(lookup->table);

	for (int i = 0; i < desc->natts; i++)
	{
		lookup->last_column = lookup->last_column % desc->natts + 1;
		if (strcmp(NameStr(TupleDescAttr(desc, lookup->last_column - 1)->attname), name) == 0)
			return lookup->last_column;
	}
	elog(ERROR, "table \"%s\" has no column \"%s\"", RelationGetRelationName(lookup->table), name);
	return 0;
}

static RegProcedure
equality(Oid type)
{
	switch (type)
	{
		case TEXTOID:
			return F_TEXTEQ;
		case INT8OID:
			return F_INT8EQ;
		default:
			return F_OIDEQ;
	}
}

static void
init_key(SqLookup *lookup, const SqLookupKey *key, ScanKey scan_key)
{
	int			column = find_column(lookup, key->column);

	ScanKeyEntryInitialize(scan_key, 0, column, BTEqualStrategyNumber, InvalidOid,
						   TupleDescAttr(RelationGetDescr(lookup->table), column - 1)->attcollation,
						   equality(key->type), key->value);
}

/*
 * Begins a lookup, by the first columns of the primary key of a table.  Returns true
 * and the first row, in descending order of the rest of the key, if there is one.
 */
bool
sq_lookup_begin(SqLookup *lookup, const char *table, const SqLookupKey *keys, int nkeys)
{
	Oid			relid = get_relname_relid(table, sq_engine_schema());
	ScanKeyData scan_keys[SQ_LOOKUP_MAX_KEYS];

	Assert(nkeys <= SQ_LOOKUP_MAX_KEYS);
	if (!OidIsValid(relid))
		elog(ERROR, "table \"%s.%s\" does not exist", SQ_SCHEMA, table);
	lookup->table = try_table_open(relid, AccessShareLock);
	if (lookup->table == NULL)
	{
		/* the extension has been dropped while we waited; this says so */
		(void) sq_engine_schema();
		elog(ERROR, "table \"%s.%s\" does not exist", SQ_SCHEMA, table);
	}
	lookup->index = index_open(RelationGetPrimaryKeyIndex(lookup->table), AccessShareLock);
	lookup->last_column = 0;
	for (int i = 0; i < nkeys; i++)
		init_key(lookup, &keys[i], &scan_keys[i]);
	lookup->snapshot = RegisterSnapshot(sq_engine_newest_snapshot());
	lookup->scan = systable_beginscan_ordered(lookup->table, lookup->index, lookup->snapshot,
											  nkeys, scan_keys);
	return sq_lookup_next(lookup);
}

/* Goes on to the next row; false if there is none. */
bool
sq_lookup_next(SqLookup *lookup)
{
	lookup->row = systable_getnext_ordered(lookup->scan, BackwardScanDirection);
	return lookup->row != NULL;
}

/* A value of the present row, to be copied before the lookup goes on. */
Datum
sq_lookup_value(SqLookup *lookup, const char *column, bool *isnull)
{
	return heap_getattr(lookup->row, find_column(lookup, column),
						RelationGetDescr(lookup->table), isnull);
}

/* The same for a column of type text, as a string in the current context; NULL for NULL. */
char *
sq_lookup_text(SqLookup *lookup, const char *column)
{
	bool		isnull;
	Datum		value = sq_lookup_value(lookup, column, &isnull);

	return isnull ? NULL : TextDatumGetCString(value);
}

void
sq_lookup_end(SqLookup *lookup)
{
	systable_endscan_ordered(lookup->scan);
	UnregisterSnapshot(lookup->snapshot);
	index_close(lookup->index, NoLock);
	table_close(lookup->table, NoLock);
}
