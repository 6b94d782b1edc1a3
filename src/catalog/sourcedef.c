/*
 * sourcedef.c
 *		The table streamq.sources, which nobody else reads or writes.
 *
 * The event-time column is stored by its name, which is what a dump and restore keeps
 * of it; an event trigger sees to it when the column is renamed.
 */
#include "catalog/sourcedef.h"

#include "catalog/partition.h"
#include "catalog/pg_type.h"
#include "lookup.h"
#include "spi.h"
#include "utils/builtins.h"
#include "utils/datum.h"
#include "utils/lsyscache.h"

static void
set_event_time(SqSource *source, const char *column)
{
	source->event_time = get_attnum(source->relid, column);
	if (source->event_time == InvalidAttrNumber)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_COLUMN),
				 errmsg("event-time column \"%s\" of source \"%s\" does not exist",
						column, get_rel_name(source->relid))));
}

/* A registered source, allocated in the current context, or NULL. */
SqSource *
sq_source_load(Oid relid)
{
	SqLookupKey key = {"source", REGCLASSOID, ObjectIdGetDatum(relid)};
	SqSource   *source = NULL;
	SqLookup	lookup;

	if (sq_lookup_begin(&lookup, "sources", &key, 1))
	{
		bool		isnull;
		Datum		column;

		source = palloc0(sizeof(SqSource));
		source->relid = relid;
		column = sq_lookup_value(&lookup, "event_time", &isnull);
		if (!isnull)
			set_event_time(source, NameStr(*DatumGetName(column)));
		column = sq_lookup_value(&lookup, "watermark_delay", &isnull);
		if (!isnull)
			source->watermark_delay = DatumGetIntervalP(datumCopy(column, false, sizeof(Interval)));
	}
	sq_lookup_end(&lookup);
	return source;
}

/* True if two records say the same. */
bool
sq_source_same(const SqSource *a, const SqSource *b)
{
	if (a->relid != b->relid || a->event_time != b->event_time ||
		(a->watermark_delay == NULL) != (b->watermark_delay == NULL))
		return false;
	return a->watermark_delay == NULL ||
		memcmp(a->watermark_delay, b->watermark_delay, sizeof(Interval)) == 0;
}

/* True if a table is a partition of a source, at whatever level. */
bool
sq_source_has_partition(Oid relid)
{
	ListCell   *lc;

	foreach(lc, get_partition_ancestors(relid))
	{
		if (sq_source_load(lfirst_oid(lc)) != NULL)
			return true;
	}
	return false;
}

/* The oids of all registered sources. */
List *
sq_source_all(void)
{
	static SqSql sql = {"SELECT source FROM streamq.sources", 0, {0}, NULL};

	return sq_engine_oids(&sql, NULL);
}

void
sq_source_insert(const SqSource *source)
{
	static SqSql sql = {
		"INSERT INTO streamq.sources SELECT $1, (SELECT attname FROM pg_catalog.pg_attribute"
		" WHERE attrelid = $1 AND attnum = $2), $3",
		3, {REGCLASSOID, INT2OID, INTERVALOID}, NULL
	};
	Datum		values[3];
	char		nulls[3] = {' ', ' ', ' '};

	values[0] = ObjectIdGetDatum(source->relid);
	values[1] = Int16GetDatum(source->event_time);
	values[2] = IntervalPGetDatum(source->watermark_delay);
	if (source->event_time == InvalidAttrNumber)
		nulls[1] = 'n';
	if (source->watermark_delay == NULL)
		nulls[2] = 'n';
	(void) sq_engine_run(&sql, values, nulls);
}

/* Forgets a source; false if it was none. */
bool
sq_source_delete(Oid relid)
{
	static SqSql sql = {
		"DELETE FROM streamq.sources WHERE source = $1", 1, {REGCLASSOID}, NULL
	};
	Datum		value = ObjectIdGetDatum(relid);

	return sq_engine_run(&sql, &value, NULL) > 0;
}

/*
 * Follows the renaming of a column, of whatever relation or type that was: sources of
 * which the event-time column has just that name now.
 */
void
sq_source_follow_rename(const char *old_name, const char *new_name)
{
	static SqSql sql = {
		"UPDATE streamq.sources s SET event_time = $2 WHERE event_time = $1"
		" AND NOT EXISTS (SELECT FROM pg_catalog.pg_attribute WHERE attrelid = s.source AND attname = $1)"
		" AND EXISTS (SELECT FROM pg_catalog.pg_attribute WHERE attrelid = s.source AND attname = $2)",
		2, {NAMEOID, NAMEOID}, NULL
	};
	NameData	names[2];
	Datum		values[2] = {NameGetDatum(&names[0]), NameGetDatum(&names[1])};

	namestrcpy(&names[0], old_name);
	namestrcpy(&names[1], new_name);
	(void) sq_engine_run(&sql, values, NULL);
}

/* True if a source has an event-time column, which is not there any more. */
bool
sq_source_lacks_event_time(Oid relid)
{
	static SqSql sql = {
		"SELECT FROM streamq.sources s WHERE source = $1 AND event_time IS NOT NULL"
		" AND NOT EXISTS (SELECT FROM pg_catalog.pg_attribute WHERE attrelid = $1 AND attname = s.event_time)",
		1, {REGCLASSOID}, NULL
	};
	Datum		value = ObjectIdGetDatum(relid);

	return sq_engine_finds(&sql, &value);
}
