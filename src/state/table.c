/*
 * table.c
 *		The tables that hold a query's state: making, finding, dropping them.
 *
 * They lie in schema streamq_state and are called after the query's id.  They
 * belong to the query's owner, like its sink: whatever runs on them, functions
 * of user-defined types and the statistics of autovacuum included, then has his
 * rights and no others (invariant S-1).  They go with the query's definition, on
 * which they depend.
 *
 * q<id>: a row each group: keys k<n>, transition states s<n>.  Updated in place
 * in each batch, so it has one index only, on the keys, and some room in each
 * page for HOT updates.
 * q<id>_rows: inputs of aggregates that cannot be kept otherwise, found by a hash
 * of the keys, which serves NULLs too.
 * q<id>_set<n>: the different inputs of an agg(DISTINCT x).
 */
#include "state/state.h"

#include "access/htup_details.h"
#include "access/xact.h"
#include "access/xlog.h"
#include "catalog/dependency.h"
#include "catalog/namespace.h"
#include "catalog/pg_class.h"
#include "commands/tablecmds.h"
#include "compat.h"
#include "compiler/tree.h"
#include "miscadmin.h"
#include "nodes/nodeFuncs.h"
#include "spi.h"
#include "storage/lmgr.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"

/* The name of a table, without schema; call is the number of the set's call. */
char *
sq_state_name(int32 query_id, SqStateTable table, int call)
{
	switch (table)
	{
		case SQ_STATE_ROWS:
			return psprintf("q%d_rows", query_id);
		case SQ_STATE_SET:
			return psprintf("q%d_set%d", query_id, call);
		default:
			return psprintf("q%d", query_id);
	}
}

/* The table; an error if somebody has dropped it. */
Oid
sq_state_relation(const SqQuery *query, SqStateTable table, int call)
{
	char	   *name = sq_state_name(query->query_id, table, call);
	Oid			relid = get_relname_relid(name, get_namespace_oid(SQ_STATE_SCHEMA, false));

	if (!OidIsValid(relid))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("the state of streaming query \"%s\" is gone", query->name),
				 errdetail("Table \"%s.%s\" does not exist.", SQ_STATE_SCHEMA, name),
				 errhint("Use streamq.reset() to begin anew, after emptying the sink.")));
	return relid;
}

/* All tables of a query, as a list of oids. */
List *
sq_state_relations(int32 query_id)
{
	static SqSql sql = {
		"SELECT c.oid FROM pg_catalog.pg_class c"
		" WHERE c.relnamespace = 'streamq_state'::pg_catalog.regnamespace AND c.relkind = 'r'"
		" AND c.relname ~ ('^q' || $1 || '(_rows|_set[0-9]+)?$') ORDER BY c.relname",
		1, {INT4OID}, NULL
	};
	Datum		value = Int32GetDatum(query_id);

	return sq_engine_oids(&sql, &value);
}

/* ----------------------------------------------------------------- columns */

/* the right to the type is the user's, as the table is going to be */
static void
add_column(StringInfo columns, const char *name, Oid type, int32 typmod, Oid collation)
{
	AclResult	result = object_aclcheck(TypeRelationId, type, GetUserId(), ACL_USAGE);

	if (result != ACLCHECK_OK)
		aclcheck_error_type(result, type);
	appendStringInfo(columns, "%s%s %s", columns->len > 0 ? ", " : "", name,
					 sq_tree_type(type, typmod, collation));
}

static void
add_keys(StringInfo columns, const SqAggregation *aggregation)
{
	ListCell   *lc;

	foreach(lc, aggregation->keys)
	{
		SqKey	   *key = lfirst(lc);

		add_column(columns, psprintf("k%d", key->number), key->type, key->typmod, key->collation);
	}
	if (!sq_aggregation_is_grouped(aggregation))
		appendStringInfo(columns, "%sk0 pg_catalog.int2", columns->len > 0 ? ", " : "");
}

/* the keys as a list of names, the event time first */
static char *
key_list(const SqAggregation *aggregation)
{
	StringInfoData list;
	ListCell   *lc;

	if (!sq_aggregation_is_grouped(aggregation))
		return "k0";
	initStringInfo(&list);
	if (aggregation->time_key != NULL)
		appendStringInfo(&list, "k%d", aggregation->time_key->number);
	foreach(lc, aggregation->keys)
	{
		SqKey	   *key = lfirst(lc);

		if (key != aggregation->time_key && key->clause != NULL)
			appendStringInfo(&list, "%sk%d", list.len > 0 ? ", " : "", key->number);
	}
	return list.data;
}

/* inputs of a call: a<call>_<n>, and f<call> for its FILTER */
static void
add_inputs(StringInfo columns, const SqCall *call)
{
	ListCell   *lc;

	foreach(lc, call->aggref->args)
	{
		Node	   *expr = (Node *) lfirst_node(TargetEntry, lc)->expr;

		add_column(columns, psprintf("a%d_%d", call->number, foreach_current_index(lc) + 1),
				   exprType(expr), exprTypmod(expr), exprCollation(expr));
	}
	if (call->aggref->aggfilter != NULL && call->kind == SQ_CALL_ROWS)
		appendStringInfo(columns, ", f%d pg_catalog.bool", call->number);
}

/* --------------------------------------------------------------- statements */

static char *
qualified(const char *name)
{
	return quote_qualified_identifier(SQ_STATE_SCHEMA, name);
}

/* as the extension's owner: nobody else may create tables in the schema */
static void
create_table(const SqQuery *query, const char *name, const char *columns, const char *indexes)
{
	SqEngine	engine;
	ObjectAddress table;
	ObjectAddress definition;

	sq_engine_check_tablespace(false);
	sq_engine_begin(&engine);
	sq_engine_command(psprintf("CREATE TABLE %s (%s) USING heap WITH (fillfactor = %d)",
							   qualified(name), columns, SQ_FILLFACTOR));
	sq_engine_command(indexes);
	sq_engine_command(psprintf("ALTER TABLE %s OWNER TO %s", qualified(name),
							   quote_identifier(GetUserNameFromId(query->owner, false))));
	sq_engine_end(&engine);

	ObjectAddressSet(table, RelationRelationId,
					 get_relname_relid(name, get_namespace_oid(SQ_STATE_SCHEMA, false)));
	ObjectAddressSet(definition, RelationRelationId, query->definition);
	recordDependencyOn(&table, &definition, DEPENDENCY_AUTO);
	CommandCounterIncrement();
}

static void
create_groups(const SqQuery *query, const SqAggregation *aggregation)
{
	char	   *name = sq_state_name(query->query_id, SQ_STATE_GROUPS, 0);
	StringInfoData columns;
	bool		any = false;
	ListCell   *lc;

	initStringInfo(&columns);
	add_keys(&columns, aggregation);
	foreach(lc, aggregation->calls)
	{
		SqCall	   *call = lfirst(lc);

		if (!OidIsValid(call->state_type))
			continue;
		any |= call->kind == SQ_CALL_COMBINE;
		add_column(&columns, psprintf("s%d", call->number), call->state_type, -1,
				   call->state_collation);
	}
	if (!any)
		appendStringInfoString(&columns, ", n pg_catalog.int8");
	create_table(query, name, columns.data,
				 psprintf("CREATE UNIQUE INDEX %s ON %s (%s) NULLS NOT DISTINCT",
						  quote_identifier(psprintf("%s_key", name)), qualified(name),
						  key_list(aggregation)));
}

static void
create_rows(const SqQuery *query, const SqAggregation *aggregation)
{
	char	   *name = sq_state_name(query->query_id, SQ_STATE_ROWS, 0);
	StringInfoData columns;
	StringInfoData indexes;
	ListCell   *lc;

	initStringInfo(&columns);
	initStringInfo(&indexes);
	appendStringInfoString(&columns, "h pg_catalog.int8");
	add_keys(&columns, aggregation);
	foreach(lc, aggregation->calls)
	{
		if (((SqCall *) lfirst(lc))->kind == SQ_CALL_ROWS)
			add_inputs(&columns, lfirst(lc));
	}
	appendStringInfoString(&columns, ", place pg_catalog.int8 GENERATED ALWAYS AS IDENTITY");
	appendStringInfo(&indexes, "CREATE INDEX %s ON %s (h)",
					 quote_identifier(psprintf("%s_h", name)), qualified(name));
	if (aggregation->time_key != NULL)
		appendStringInfo(&indexes, "; CREATE INDEX %s ON %s (k%d)",
						 quote_identifier(psprintf("%s_time", name)), qualified(name),
						 aggregation->time_key->number);
	create_table(query, name, columns.data, indexes.data);
}

static void
create_set(const SqQuery *query, const SqAggregation *aggregation, const SqCall *call)
{
	char	   *name = sq_state_name(query->query_id, SQ_STATE_SET, call->number);
	StringInfoData columns;
	StringInfoData inputs;

	initStringInfo(&columns);
	add_keys(&columns, aggregation);
	add_inputs(&columns, call);
	initStringInfo(&inputs);
	for (int i = 1; i <= list_length(call->aggref->args); i++)
		appendStringInfo(&inputs, ", a%d_%d", call->number, i);
	create_table(query, name, columns.data,
				 psprintf("CREATE UNIQUE INDEX %s ON %s (%s%s) NULLS NOT DISTINCT",
						  quote_identifier(psprintf("%s_key", name)), qualified(name),
						  key_list(aggregation), inputs.data));
}

/*
 * Makes the tables of a new query, which has an id and a definition.  Tables of that
 * name are left of another one, in a database in which only schemas have been restored.
 */
void
sq_state_create(const SqQuery *query, const SqAggregation *aggregation)
{
	ListCell   *lc;

	sq_state_drop(query->query_id);
	create_groups(query, aggregation);
	if (sq_aggregation_has(aggregation, SQ_CALL_ROWS))
		create_rows(query, aggregation);
	foreach(lc, aggregation->calls)
	{
		if (((SqCall *) lfirst(lc))->kind == SQ_CALL_DISTINCT)
			create_set(query, aggregation, lfirst(lc));
	}
}

static void
lock_if_exists(const char *name)
{
	Oid			relid = get_relname_relid(name, get_namespace_oid(SQ_STATE_SCHEMA, false));

	if (OidIsValid(relid))
		LockRelationOid(relid, RowExclusiveLock);
}

/* Locks the tables of a query, to be written. */
void
sq_state_lock(const SqQuery *query)
{
	ListCell   *lc;

	lock_if_exists(sq_state_name(query->query_id, SQ_STATE_GROUPS, 0));
	lock_if_exists(sq_state_name(query->query_id, SQ_STATE_ROWS, 0));
	foreach(lc, query->state_calls)
	{
		lock_if_exists(sq_state_name(query->query_id, SQ_STATE_SET, lfirst_int(lc)));
	}
}

/* Adds the column that is kept when no state is combined, if it is needed now. */
void
sq_state_add_count(int32 query_id, const SqAggregation *aggregation)
{
	char	   *name = sq_state_name(query_id, SQ_STATE_GROUPS, 0);
	SqEngine	engine;

	if (sq_aggregation_has(aggregation, SQ_CALL_COMBINE))
		return;
	sq_engine_begin(&engine);
	sq_engine_command(psprintf("ALTER TABLE %s ADD COLUMN IF NOT EXISTS n pg_catalog.int8 DEFAULT 0",
							   qualified(name)));
	sq_engine_end(&engine);
}

/* Drops the tables of a query. */
void
sq_state_drop(int32 query_id)
{
	ListCell   *lc;

	foreach(lc, sq_state_relations(query_id))
	{
		ObjectAddress table;

		ObjectAddressSet(table, RelationRelationId, lfirst_oid(lc));
		performDeletion(&table, DROP_CASCADE, PERFORM_DELETION_INTERNAL);
		CommandCounterIncrement();
	}
}

/* Gives the tables to the owner of the query, if that has become somebody else. */
void
sq_state_set_owner(const SqQuery *query)
{
	Oid			relid = get_relname_relid(sq_state_name(query->query_id, SQ_STATE_GROUPS, 0),
										  get_namespace_oid(SQ_STATE_SCHEMA, false));
	HeapTuple	tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(relid));
	bool		is_owned;
	ListCell   *lc;
	SqEngine	engine;

	if (!HeapTupleIsValid(tuple))
		return;
	is_owned = ((Form_pg_class) GETSTRUCT(tuple))->relowner == query->owner;
	ReleaseSysCache(tuple);
	if (is_owned || !OidIsValid(query->owner) || RecoveryInProgress())
		return;
	foreach(lc, sq_state_relations(query->query_id))
	{
		/* not as a command: a batch does this before it has its snapshot */
		sq_engine_begin(&engine);
		LockRelationOid(lfirst_oid(lc), AccessExclusiveLock);
		ATExecChangeOwner(lfirst_oid(lc), query->owner, false, AccessExclusiveLock);
		CommandCounterIncrement();
		sq_engine_end(&engine);
	}
}
