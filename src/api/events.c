/*
 * events.c
 *		Event triggers: other people's DDL on sources and queries.
 */
#include "api/api.h"

#include "catalog/partition.h"
#include "catalog/pg_class.h"
#include "catalog/pg_inherits.h"
#include "catalog/pg_type.h"
#include "catalog/querydef.h"
#include "catalog/sourcedef.h"
#include "commands/event_trigger.h"
#include "progress/shared.h"
#include "source/physical.h"
#include "spi.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"

PG_FUNCTION_INFO_V1(streamq_on_table_rewrite);
PG_FUNCTION_INFO_V1(streamq_on_sql_drop);

static void
check_called_as_event_trigger(FunctionCallInfo fcinfo, const char *function)
{
	if (!CALLED_AS_EVENT_TRIGGER(fcinfo))
		ereport(ERROR,
				(errcode(ERRCODE_E_R_I_E_EVENT_TRIGGER_PROTOCOL_VIOLATED),
				 errmsg("function \"%s\" was not called by event trigger manager", function)));
}

/*
 * Refuses to rewrite a source or a part of one: all its rows would get a new
 * xmin and be delivered again.
 */
Datum
streamq_on_table_rewrite(PG_FUNCTION_ARGS)
{
	Oid			relid;
	ListCell   *lc;

	check_called_as_event_trigger(fcinfo, "on_table_rewrite");
	relid = DatumGetObjectId(OidFunctionCall0(F_PG_EVENT_TRIGGER_TABLE_REWRITE_OID));
	foreach(lc, sq_source_all())
	{
		Oid			source = lfirst_oid(lc);

		if (get_rel_name(source) == NULL || !sq_physical_overlap(relid, source))
			continue;
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("cannot rewrite table \"%s\" because it is a streaming source",
						get_rel_name(relid)),
				 errdetail("All of its rows would be taken for new rows."),
				 errhint("Change the table in a way that does not rewrite it, or use streamq.drop_source() first.")));
	}
	PG_RETURN_NULL();
}

/* the relations that a command has dropped */
static List *
dropped_relations(void)
{
	static SqSql sql = {
		"SELECT objid FROM pg_catalog.pg_event_trigger_dropped_objects()"
		" WHERE classid = 'pg_catalog.pg_class'::pg_catalog.regclass AND objsubid = 0"
		" AND object_type IN ('table', 'view', 'foreign table') AND NOT is_temporary",
		0, {0}, NULL
	};
	MemoryContext context = CurrentMemoryContext;
	List	   *result = NIL;
	uint64		rows;
	SqEngine	engine;

	sq_engine_begin(&engine);
	rows = sq_engine_query(&sql, NULL, NULL, NULL);
	for (uint64 i = 0; i < rows; i++)
	{
		bool		isnull;
		Oid			relid = DatumGetObjectId(sq_engine_value(i, 1, &isnull));
		MemoryContext old = MemoryContextSwitchTo(context);

		result = lappend_oid(result, relid);
		MemoryContextSwitchTo(old);
	}
	sq_engine_end(&engine);
	return result;
}

/*
 * Forgets sources that have been dropped, and queries whose definition has been
 * dropped along with a table or by its owner.
 */
Datum
streamq_on_sql_drop(PG_FUNCTION_ARGS)
{
	ListCell   *lc;
	ListCell   *lc2;

	check_called_as_event_trigger(fcinfo, "on_sql_drop");
	foreach(lc, dropped_relations())
	{
		(void) sq_source_delete(lfirst_oid(lc));
		foreach(lc2, sq_query_names_using(lfirst_oid(lc)))
		{
			SqQuery    *query = sq_query_load(lfirst(lc2), true);

			sq_shared_stop(query->query_id);
			sq_api_forget_query(query->name);
			ereport(NOTICE,
					(errmsg("streaming query \"%s\" is forgotten", query->name)));
		}
	}
	PG_RETURN_NULL();
}
