/*
 * source.c
 *		SQL functions that declare tables as streams: add_source, drop_source,
 *		current_offset, and the trigger that keeps sources append-only.
 */
#include "api/api.h"

#include "access/heapam.h"
#include "access/htup_details.h"
#include "access/relation.h"
#include "access/table.h"
#include "arrivals/arrivals.h"
#include "catalog/catalog.h"
#include "catalog/index.h"
#include "catalog/namespace.h"
#include "catalog/objectaddress.h"
#include "catalog/pg_class.h"
#include "catalog/pg_inherits.h"
#include "catalog/pg_namespace.h"
#include "catalog/pg_trigger.h"
#include "catalog/pg_type.h"
#include "catalog/querydef.h"
#include "catalog/sourcedef.h"
#include "commands/defrem.h"
#include "commands/trigger.h"
#include "compat.h"
#include "miscadmin.h"
#include "offset.h"
#include "sink/sink.h"
#include "source/guard.h"
#include "source/physical.h"
#include "spi.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"

PG_FUNCTION_INFO_V1(streamq_add_source);
PG_FUNCTION_INFO_V1(streamq_drop_source);
PG_FUNCTION_INFO_V1(streamq_current_offset);
PG_FUNCTION_INFO_V1(streamq_refuse_update);

static char *
qualified_name(Oid relid)
{
	return quote_qualified_identifier(get_namespace_name(get_rel_namespace(relid)),
									  get_rel_name(relid));
}

/* opens a table with a lock that conflicts with itself and with writers */
static Relation
open_relation(Oid relid)
{
	if (!SearchSysCacheExists1(RELOID, ObjectIdGetDatum(relid)))
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_TABLE),
				 errmsg("relation with OID %u does not exist", relid)));
	/* who may not is not to queue for a lock in front of others */
	if (!object_ownercheck(RelationRelationId, relid, GetUserId()))
		aclcheck_error(ACLCHECK_NOT_OWNER, get_relkind_objtype(get_rel_relkind(relid)),
					   get_rel_name(relid));
	return relation_open(relid, ShareRowExclusiveLock);
}

/* refuses relations that cannot be a source; the caller has locked it */
static void
check_relation(Relation rel)
{
	const char *name = RelationGetRelationName(rel);
	char		kind = rel->rd_rel->relkind;

	if (kind != RELKIND_RELATION && kind != RELKIND_PARTITIONED_TABLE)
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("\"%s\" cannot be a source", name),
				 errdetail_relkind_not_supported(kind),
				 kind == RELKIND_VIEW ?
				 errhint("Declare the table behind the view as a source; queries may read it through the view.") :
				 errhint("A source is a table or a partitioned table.")));
	if (IsCatalogRelation(rel) || sq_sink_is_ours(RelationGetRelid(rel)))
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("system catalog \"%s\" cannot be a source", name)));
	if (rel->rd_rel->relpersistence == RELPERSISTENCE_TEMP)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("temporary table \"%s\" cannot be a source", name),
				 errdetail("Other sessions, such as the background workers, cannot read it."),
				 errhint("Use a permanent or an unlogged table.")));
	if (kind == RELKIND_RELATION && rel->rd_tableam != GetHeapamTableAmRoutine())
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("table \"%s\" does not use the access method \"heap\"", name),
				 errdetail("Increments can be read only of heap tables.")));
	/* looks for partitions that are foreign tables */
	(void) sq_physical_relations(RelationGetRelid(rel), true);
	sq_physical_check_children(RelationGetRelid(rel));
}

/* the number of the event-time column, checked */
static AttrNumber
event_time_column(Oid relid, const char *column)
{
	AttrNumber	attnum = get_attnum(relid, column);
	Oid			type;

	if (attnum == InvalidAttrNumber)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_COLUMN),
				 errmsg("column \"%s\" of source \"%s\" does not exist",
						column, get_rel_name(relid))));
	type = attnum > 0 ? get_atttype(relid, attnum) : InvalidOid;
	if (type != TIMESTAMPTZOID && type != TIMESTAMPOID && type != DATEOID)
		ereport(ERROR,
				(errcode(ERRCODE_DATATYPE_MISMATCH),
				 errmsg("event-time column \"%s\" of source \"%s\" is not a time",
						column, get_rel_name(relid)),
				 type == InvalidOid ? 0 : errdetail("It is of type %s.", format_type_be(type)),
				 errhint("Use a column of type timestamp with time zone, timestamp without time zone or date.")));
	return attnum;
}

/* Negative, zero or positive, as the operators of type interval have it. */
int
sq_api_compare_intervals(const Interval *a, const Interval *b)
{
	return DatumGetInt32(DirectFunctionCall2(interval_cmp, IntervalPGetDatum(a),
											 IntervalPGetDatum(b)));
}

static void
check_delay(Interval *delay)
{
	Interval	zero = {0, 0, 0};

	if (sq_api_compare_intervals(delay, &zero) < 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("watermark delay must not be negative")));
}

/* the name of the trigger that refuses UPDATE, or NULL */
static char *
guard_name(Oid relid)
{
	Relation	rel = relation_open(relid, NoLock);
	const Trigger *trigger = sq_source_guard(rel);
	char	   *name = trigger ? pstrdup(trigger->tgname) : NULL;

	relation_close(rel, NoLock);
	return name;
}

/*
 * The trigger is one for each row, as only those are cloned to partitions,
 * present and future.  ALWAYS, so that it also fires for logical replication.
 * The table may have it already, where only schemas have been restored from a dump.
 */
static void
ensure_guard(Oid relid)
{
	char	   *name = guard_name(relid);

	if (name == NULL)
	{
		name = psprintf("streamq_append_only_%u", relid);
		sq_execute_as_user(psprintf("CREATE TRIGGER %s BEFORE UPDATE ON %s FOR EACH ROW "
									"EXECUTE FUNCTION streamq.refuse_update()",
									name, qualified_name(relid)));
	}
	sq_execute_as_user(psprintf("ALTER TABLE %s ENABLE ALWAYS TRIGGER %s",
								qualified_name(relid), quote_identifier(name)));
}

/*
 * The arrival map.  The table's owner creates it, or the engine for him where he may
 * not create anything in the table's schema.
 */
static void
create_map(Oid relid)
{
	Oid			schema = get_rel_namespace(relid);
	char	   *name = ChooseRelationName(get_rel_name(relid), NULL, "arrivals", schema, false);
	char	   *sql = psprintf("CREATE INDEX %s ON %s USING " SQ_ARRIVALS_AM " ((1))",
							   quote_identifier(name), qualified_name(relid));
	SqEngine	engine;

	if (object_aclcheck(NamespaceRelationId, schema, GetUserId(), ACL_CREATE) == ACLCHECK_OK)
	{
		sq_execute_as_user(sql);
		return;
	}
	sq_engine_check_tablespace(get_rel_relkind(relid) == RELKIND_PARTITIONED_TABLE);
	sq_engine_begin(&engine);
	sq_engine_command(sql);
	sq_engine_end(&engine);
}

/* creates the map of a table, which is locked, unless it has one, of a parent perhaps */
static void
ensure_map(Oid relid)
{
	Relation	rel = relation_open(relid, NoLock);
	bool		found = OidIsValid(sq_arrivals_find(rel));

	relation_close(rel, NoLock);
	if (!found)
		create_map(relid);
}

/*
 * Makes anew the maps that a table, which is locked, and its partitions have already.
 * While they were not protected against UPDATE, rows may have got new versions, of
 * which PostgreSQL does not tell an index (HOT).
 */
void
sq_api_remake_maps(Oid relid)
{
	ReindexParams params = {0};
	ListCell   *lc;
	ListCell   *lc2;

	foreach(lc, find_all_inheritors(relid, ShareRowExclusiveLock, NULL))
	{
		Relation	rel;
		List	   *maps;

		if (get_rel_relkind(lfirst_oid(lc)) != RELKIND_RELATION)
			continue;
		rel = table_open(lfirst_oid(lc), NoLock);
		maps = sq_arrivals_list(rel);
		table_close(rel, NoLock);
		foreach(lc2, maps)
			reindex_index(NULL, lfirst_oid(lc2), false, get_rel_persistence(lfirst_oid(lc2)),
						  &params);
	}
}

/*
 * Drops the map of a source that is none any more, with those of its partitions.  One
 * that belongs to a parent stays; partitions that are sources themselves get another.
 */
static void
drop_map(Oid relid)
{
	Relation	rel = relation_open(relid, NoLock);
	Oid			map = sq_arrivals_find(rel);
	ListCell   *lc;

	relation_close(rel, NoLock);
	if (!OidIsValid(map) || get_rel_relispartition(map))
		return;
	sq_execute_as_user(psprintf("DROP INDEX %s", qualified_name(map)));
	foreach(lc, find_all_inheritors(relid, ShareRowExclusiveLock, NULL))
	{
		if (sq_source_load(lfirst_oid(lc)) != NULL)
			ensure_map(lfirst_oid(lc));
	}
}

/* a sink whose rows queries change cannot be append-only */
static void
check_not_updated(Oid relid)
{
	ListCell   *lc;

	foreach(lc, sq_query_names_using(relid))
	{
		SqQuery    *query = sq_query_load(lfirst(lc), true);

		if (query == NULL || query->sink != relid || query->strategy == NULL ||
			strcmp(query->output_mode, "append") == 0)
			continue;
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("table \"%s\" is the sink of streaming query \"%s\" in output mode \"%s\"",
						get_rel_name(relid), query->name, query->output_mode),
				 errdetail("The query changes rows of the table, and sources are append-only."),
				 errhint("Stream a sink in output mode \"append\".")));
	}
}

/*
 * Declares a table as a source.  The caller owns it and passes arguments that
 * the user has given; column and delay may be NULL.
 */
void
sq_api_add_source(Oid relid, const char *column, Interval *delay)
{
	Relation	rel;
	SqSource	source = {relid, InvalidAttrNumber, delay};

	rel = open_relation(relid);
	check_relation(rel);
	if (!object_ownercheck(RelationRelationId, relid, GetUserId()))
		aclcheck_error(ACLCHECK_NOT_OWNER, OBJECT_TABLE, RelationGetRelationName(rel));
	if (sq_source_load(relid) != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_DUPLICATE_OBJECT),
				 errmsg("table \"%s\" is a source already", RelationGetRelationName(rel)),
				 errhint("To change its event time or watermark delay, use streamq.drop_source() first.")));
	check_not_updated(relid);
	if (column != NULL)
		source.event_time = event_time_column(relid, column);
	if (delay != NULL && column == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("a watermark delay needs an event-time column"),
				 errhint("Name the column with the argument \"event_time\".")));
	if (delay != NULL)
		check_delay(delay);
	relation_close(rel, NoLock);

	ensure_guard(relid);
	/* as a part of a source it is protected already */
	if (!sq_source_has_partition(relid))
		sq_api_remake_maps(relid);
	ensure_map(relid);
	sq_source_insert(&source);
}

/*
 * streamq.add_source(source regclass, event_time name, watermark_delay interval)
 *
 * source: the table; event_time: its event-time column, NULL for none;
 * watermark_delay: how far the watermark stays behind, NULL for no watermark.
 * Only the table's owner may.
 */
Datum
streamq_add_source(PG_FUNCTION_ARGS)
{
	if (PG_ARGISNULL(0))
		sq_api_null_argument("source");
	sq_api_add_source(PG_GETARG_OID(0),
					  PG_ARGISNULL(1) ? NULL : NameStr(*PG_GETARG_NAME(1)),
					  PG_ARGISNULL(2) ? NULL : PG_GETARG_INTERVAL_P(2));
	PG_RETURN_VOID();
}

/*
 * streamq.drop_source(source regclass)
 *
 * Refused while a query reads the source, and to all but the table's owner.
 */
Datum
streamq_drop_source(PG_FUNCTION_ARGS)
{
	Oid			relid;
	Relation	rel;
	List	   *queries;
	char	   *guard;

	if (PG_ARGISNULL(0))
		sq_api_null_argument("source");
	relid = PG_GETARG_OID(0);
	rel = open_relation(relid);
	guard = guard_name(relid);

	/*
	 * what is left of one in a database restored without the engine's tables
	 * may go, too
	 */
	if (sq_source_load(relid) == NULL && guard == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_OBJECT),
				 errmsg("table \"%s\" is not a source", RelationGetRelationName(rel))));
	if (!object_ownercheck(RelationRelationId, relid, GetUserId()))
		aclcheck_error(ACLCHECK_NOT_OWNER, OBJECT_TABLE, RelationGetRelationName(rel));
	queries = sq_query_names_reading(relid);
	if (queries != NIL)
		ereport(ERROR,
				(errcode(ERRCODE_DEPENDENT_OBJECTS_STILL_EXIST),
				 errmsg("cannot drop source \"%s\" because a streaming query reads it",
						RelationGetRelationName(rel)),
				 errdetail("Streaming query \"%s\" reads it.", (char *) linitial(queries)),
				 errhint("Use streamq.drop_query() first.")));
	relation_close(rel, NoLock);
	sq_source_delete(relid);
	if (guard != NULL)
		sq_execute_as_user(psprintf("DROP TRIGGER %s ON %s", quote_identifier(guard),
									qualified_name(relid)));
	drop_map(relid);
	PG_RETURN_VOID();
}

/*
 * streamq.current_offset() RETURNS pg_snapshot
 *
 * What the calling statement sees.
 */
Datum
streamq_current_offset(PG_FUNCTION_ARGS)
{
	SQ_UNUSED(fcinfo);
	PG_RETURN_DATUM(SqOffsetGetDatum(sq_offset_capture(GetActiveSnapshot())));
}

/* streamq.refuse_update(), the trigger of a source */
Datum
streamq_refuse_update(PG_FUNCTION_ARGS)
{
	TriggerData *data = (TriggerData *) fcinfo->context;

	if (!CALLED_AS_TRIGGER(fcinfo))
		ereport(ERROR,
				(errcode(ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED),
				 errmsg("function \"%s\" was not called by trigger manager", "refuse_update")));
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("cannot update table \"%s\" because it is a streaming source",
					RelationGetRelationName(data->tg_relation)),
			 errdetail("A new version of a row would be taken for a new row."),
			 errhint("Insert a further row instead, or use streamq.drop_source() if the table is not to be streamed.")));
	PG_RETURN_NULL();
}
