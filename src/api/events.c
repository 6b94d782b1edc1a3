/*
 * events.c
 *		Event triggers: other people's DDL on sources and queries.
 */
#include "api/api.h"

#include "catalog/checkpoint.h"
#include "catalog/dependency.h"
#include "catalog/namespace.h"
#include "catalog/partition.h"
#include "catalog/pg_class.h"
#include "catalog/pg_type.h"
#include "catalog/querydef.h"
#include "catalog/sourcedef.h"
#include "commands/event_trigger.h"
#include "progress/shared.h"
#include "spi.h"
#include "state/state.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"

PG_FUNCTION_INFO_V1(streamq_on_table_rewrite);
PG_FUNCTION_INFO_V1(streamq_on_sql_drop);
PG_FUNCTION_INFO_V1(streamq_on_alter_table);

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
	/* only the table itself is rewritten, which is locked, not its relatives */
	foreach(lc, lcons_oid(relid, get_partition_ancestors(relid)))
	{
		if (sq_source_load(lfirst_oid(lc)) == NULL)
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

/* something that a command has dropped */
typedef struct Dropped
{
	Oid			relid;			/* a relation, or InvalidOid for a trigger */
	AttrNumber	column;			/* a column of it, or 0 */
} Dropped;

/* the relations, columns and triggers that a command has dropped */
static List *
dropped_objects(void)
{
	static SqSql sql = {
		"SELECT CASE WHEN object_type = 'trigger' THEN 0 ELSE objid END, objsubid"
		" FROM pg_catalog.pg_event_trigger_dropped_objects()"
		" WHERE object_type IN ('table', 'view', 'foreign table', 'table column', 'trigger')"
		" AND NOT is_temporary ORDER BY objsubid, 1 DESC",
		0, {0}, NULL
	};
	MemoryContext context = CurrentMemoryContext;
	List	   *result = NIL;
	uint64		rows;
	SqEngine	engine;

	sq_engine_begin(&engine);
	rows = sq_engine_query(&sql, NULL, NULL);
	for (uint64 i = 0; i < rows; i++)
	{
		Dropped    *dropped = MemoryContextAlloc(context, sizeof(Dropped));
		bool		isnull;
		MemoryContext old;

		dropped->relid = DatumGetObjectId(sq_engine_value(i, 1, &isnull));
		dropped->column = (AttrNumber) DatumGetInt32(sq_engine_value(i, 2, &isnull));
		old = MemoryContextSwitchTo(context);
		result = lappend(result, dropped);
		MemoryContextSwitchTo(old);
	}
	sq_engine_end(&engine);
	return result;
}

static void
forget_relation(Oid relid)
{
	ListCell   *lc;

	(void) sq_source_delete(relid);
	sq_checkpoint_forget_relation(relid);
	foreach(lc, sq_query_names_using(relid))
	{
		SqQuery    *query = sq_query_load(lfirst(lc), true);

		sq_shared_stop(query->query_id);
		sq_api_forget_query(query->name);
		/* in a database restored from a dump nothing else drops them */
		sq_state_drop(query->query_id);
		/* that a definition depends on its sink is not in a dump */
		if (OidIsValid(query->owner))
		{
			ObjectAddress definition;

			ObjectAddressSet(definition, RelationRelationId, query->definition);
			performDeletion(&definition, DROP_RESTRICT, PERFORM_DELETION_INTERNAL);
		}
		ereport(NOTICE,
				(errmsg("streaming query \"%s\" is forgotten", query->name)));
	}
}

static void
check_dropped_column(Oid relid, AttrNumber column)
{
	SqSource   *source = sq_source_load(relid);

	if (source != NULL && source->event_time == column)
		ereport(ERROR,
				(errcode(ERRCODE_DEPENDENT_OBJECTS_STILL_EXIST),
				 errmsg("cannot drop the event-time column of source \"%s\"",
						get_rel_name(relid)),
				 errhint("Use streamq.drop_source() first.")));
}

/*
 * Refuses to have dropped the trigger of a table that still is a source.  Asks
 * the catalog, so as not to wait for whoever has locked a source.
 */
static void
check_dropped_trigger(void)
{
	static SqSql sql = {
		"SELECT s.source::pg_catalog.text FROM streamq.sources s"
		" WHERE EXISTS (SELECT FROM pg_catalog.pg_class c WHERE c.oid = s.source)"
		" AND NOT EXISTS (SELECT FROM pg_catalog.pg_trigger t WHERE t.tgrelid = s.source"
		" AND t.tgfoid = 'streamq.refuse_update'::pg_catalog.regproc AND t.tgparentid = 0)",
		0, {0}, NULL
	};
	char	   *source = NULL;
	MemoryContext context = CurrentMemoryContext;
	SqEngine	engine;

	sq_engine_begin(&engine);
	if (sq_engine_query(&sql, NULL, NULL) > 0)
		source = MemoryContextStrdup(context, sq_engine_text(0, 1));
	sq_engine_end(&engine);
	if (source != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_DEPENDENT_OBJECTS_STILL_EXIST),
				 errmsg("cannot drop the trigger that protects source \"%s\" against UPDATE",
						source),
				 errhint("Use streamq.drop_source().")));
}

/*
 * Forgets sources that have been dropped, and queries whose definition has been
 * dropped along with a table or by its owner; refuses what would leave a source
 * damaged.  Relations come before columns and triggers.
 */
Datum
streamq_on_sql_drop(PG_FUNCTION_ARGS)
{
	ListCell   *lc;

	check_called_as_event_trigger(fcinfo, "on_sql_drop");
	foreach(lc, dropped_objects())
	{
		Dropped    *dropped = lfirst(lc);

		if (!OidIsValid(dropped->relid))
			check_dropped_trigger();
		else if (dropped->column != 0)
			check_dropped_column(dropped->relid, dropped->column);
		else
			forget_relation(dropped->relid);
	}
	PG_RETURN_NULL();
}

/*
 * A partition that is attached to a source has been without its trigger so far: if it
 * has an arrival map, that is made anew.
 */
Datum
streamq_on_alter_table(PG_FUNCTION_ARGS)
{
	AlterTableStmt *stmt;
	ListCell   *lc;
	ListCell   *lc2;

	check_called_as_event_trigger(fcinfo, "on_alter_table");
	stmt = (AlterTableStmt *) ((EventTriggerData *) fcinfo->context)->parsetree;
	if (stmt == NULL || !IsA(stmt, AlterTableStmt) || stmt->objtype != OBJECT_TABLE)
		PG_RETURN_NULL();
	foreach(lc, stmt->cmds)
	{
		AlterTableCmd *cmd = lfirst_node(AlterTableCmd, lc);
		Oid			relid;

		if (cmd->subtype != AT_AttachPartition)
			continue;
		relid = RangeVarGetRelid(((PartitionCmd *) cmd->def)->name, NoLock, true);
		if (!OidIsValid(relid) || !get_rel_relispartition(relid))
			continue;
		foreach(lc2, get_partition_ancestors(relid))
		{
			if (sq_source_load(lfirst_oid(lc2)) == NULL)
				continue;
			sq_api_remake_maps(relid);
			break;
		}
	}
	PG_RETURN_NULL();
}
