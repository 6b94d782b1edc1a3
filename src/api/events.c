/*
 * events.c
 *		Event triggers: other people's DDL on sources and queries.
 */
#include "api/api.h"

#include "catalog/checkpoint.h"
#include "catalog/dependency.h"
#include "catalog/namespace.h"
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
PG_FUNCTION_INFO_V1(streamq_on_rename);
PG_FUNCTION_INFO_V1(streamq_on_sql_drop);
PG_FUNCTION_INFO_V1(streamq_on_alter_table);
PG_FUNCTION_INFO_V1(streamq_on_alter_view);

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

	check_called_as_event_trigger(fcinfo, "on_table_rewrite");
	relid = DatumGetObjectId(OidFunctionCall0(F_PG_EVENT_TRIGGER_TABLE_REWRITE_OID));
	/* only the table itself is rewritten, which is locked, not its relatives */
	if (sq_source_load(relid) != NULL || sq_source_has_partition(relid))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("cannot rewrite table \"%s\" because it is a streaming source",
						get_rel_name(relid)),
				 errdetail("All of its rows would be taken for new rows."),
				 errhint("Change the table in a way that does not rewrite it, or use streamq.drop_source() first.")));
	PG_RETURN_NULL();
}

/* Takes down the new name of a source's event-time column. */
Datum
streamq_on_rename(PG_FUNCTION_ARGS)
{
	Node	   *statement;

	check_called_as_event_trigger(fcinfo, "on_rename");
	statement = ((EventTriggerData *) fcinfo->context)->parsetree;
	if (IsA(statement, RenameStmt))
	{
		RenameStmt *rename = (RenameStmt *) statement;

		if (rename->renameType == OBJECT_COLUMN || rename->renameType == OBJECT_ATTRIBUTE)
			sq_source_follow_rename(rename->subname, rename->newname);
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

		if (query == NULL)
			continue;
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
check_dropped_column(Oid relid)
{
	if (sq_source_lacks_event_time(relid))
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
	List	   *sources = sq_engine_texts(&sql, NULL);

	if (sources != NIL)
		ereport(ERROR,
				(errcode(ERRCODE_DEPENDENT_OBJECTS_STILL_EXIST),
				 errmsg("cannot drop the trigger that protects source \"%s\" against UPDATE",
						(char *) linitial(sources)),
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
			check_dropped_column(dropped->relid);
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
		if (OidIsValid(relid) && sq_source_has_partition(relid))
			sq_api_remake_maps(relid);
	}
	PG_RETURN_NULL();
}

/* ----------------------------------------------------- definitions that are altered */

/* names of the queries whose definition the command has altered */
static List *
altered_queries(void)
{
	static SqSql sql = {
		"SELECT q.name FROM streamq.queries q"
		" WHERE q.definition::pg_catalog.oid IN (SELECT d.objid FROM pg_catalog.pg_event_trigger_ddl_commands() d"
		" WHERE d.classid = 'pg_catalog.pg_class'::pg_catalog.regclass AND d.object_type = 'view')",
		0, {0}, NULL
	};

	return sq_engine_texts(&sql, NULL);
}

/*
 * Refuses to have a definition moved to a schema where its owner could replace it, and
 * gives the state to whom the definition has been given: left to the next batch, the
 * former owner's DROP OWNED would take it along.
 */
Datum
streamq_on_alter_view(PG_FUNCTION_ARGS)
{
	ListCell   *lc;

	check_called_as_event_trigger(fcinfo, "on_alter_view");
	foreach(lc, altered_queries())
	{
		SqQuery    *query = sq_query_load(lfirst(lc), true);

		if (query == NULL || !OidIsValid(query->owner))
			continue;
		if (get_rel_namespace(query->definition) != get_namespace_oid(SQ_QUERY_SCHEMA, false))
			ereport(ERROR,
					(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
					 errmsg("cannot move the definition of streaming query \"%s\" to another schema",
							query->name),
					 errdetail("Definitions are kept in schema \"%s\".", SQ_QUERY_SCHEMA)));
		sq_state_set_owner(query);
	}
	PG_RETURN_NULL();
}
