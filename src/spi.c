/*
 * spi.c
 *		The one way in which the engine runs SQL on its own tables.
 *
 * Between sq_engine_begin() and sq_engine_end() the backend acts as the owner
 * of the extension, in a security-restricted operation and with only
 * pg_catalog on the search_path.  Statements run there are constants of this
 * program over the extension's own tables, which have no triggers: no text,
 * function or operator of a user's is ever executed with these rights.
 *
 * An error in between is cleaned up by the abort of the transaction, which
 * restores user and settings, and by SPI itself.
 */
#include "spi.h"

#include "access/htup_details.h"
#include "catalog/namespace.h"
#include "catalog/pg_namespace.h"
#include "catalog/pg_class.h"
#include "catalog/pg_type.h"
#include "catalog/pg_tablespace.h"
#include "commands/tablespace.h"
#include "compat.h"
#include "miscadmin.h"
#include "utils/acl.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"

/* The schema of the engine's tables. */
Oid
sq_engine_schema(void)
{
	Oid			nspid = get_namespace_oid(SQ_SCHEMA, true);

	if (!OidIsValid(nspid))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("extension \"streamq\" is not installed in this database"),
				 errhint("Use CREATE EXTENSION streamq.")));
	return nspid;
}

/* the role that owns the engine's tables */
static Oid
engine_owner(void)
{
	Oid			nspid = sq_engine_schema();
	HeapTuple	tup;
	Oid			owner;

	tup = SearchSysCache1(NAMESPACEOID, ObjectIdGetDatum(nspid));
	if (!HeapTupleIsValid(tup))
		elog(ERROR, "cache lookup failed for schema %u", nspid);
	owner = ((Form_pg_namespace) GETSTRUCT(tup))->nspowner;
	ReleaseSysCache(tup);
	return owner;
}

void
sq_engine_begin(SqEngine *engine)
{
	Oid			owner = engine_owner();

	if (SPI_connect() != SPI_OK_CONNECT)
		elog(ERROR, "SPI_connect failed");
	GetUserIdAndSecContext(&engine->user_id, &engine->sec_context);
	SetUserIdAndSecContext(owner, engine->sec_context |
						   SECURITY_LOCAL_USERID_CHANGE |
						   SECURITY_RESTRICTED_OPERATION);
	engine->nest_level = sq_settings_push_catalog_path();
}

void
sq_engine_end(SqEngine *engine)
{
	sq_settings_pop(engine->nest_level);
	SetUserIdAndSecContext(engine->user_id, engine->sec_context);
	if (SPI_finish() != SPI_OK_FINISH)
		elog(ERROR, "SPI_finish failed");
}

/*
 * To be called before the engine makes a table or an index for the user: his
 * default_tablespace counts there, and so does his right to it.
 */
void
sq_engine_check_tablespace(bool partitioned)
{
	Oid			tablespace = GetDefaultTablespace(RELPERSISTENCE_PERMANENT, partitioned);
	AclResult	result;

	if (!OidIsValid(tablespace) || tablespace == MyDatabaseTableSpace)
		return;
	result = object_aclcheck(TableSpaceRelationId, tablespace, GetUserId(), ACL_CREATE);
	if (result != ACLCHECK_OK)
		aclcheck_error(result, OBJECT_TABLESPACE, get_tablespace_name(tablespace));
}

/* what the engine sees when it reads its tables; NULL: whatever is committed */
Snapshot	sq_engine_snapshot = NULL;

static void
prepare(SqSql *sql)
{
	SPIPlanPtr	plan;

	if (sql->plan != NULL)
		return;
	plan = SPI_prepare(sql->text, sql->nargs, sql->types);
	if (plan == NULL)
		elog(ERROR, "SPI_prepare failed for \"%s\": %s", sql->text,
			 SPI_result_code_string(SPI_result));
	if (SPI_keepplan(plan) != 0)
		elog(ERROR, "SPI_keepplan failed");
	sql->plan = plan;
}

/*
 * Runs a command on the engine's objects whose text is made up; names in it are
 * qualified and quoted by the caller.
 */
void
sq_engine_command(const char *command)
{
	int			ret = SPI_execute(command, false, 0);

	if (ret < 0)
		elog(ERROR, "\"%s\" failed: %s", command, SPI_result_code_string(ret));
}

/* Runs a statement that may write; returns the number of rows. */
uint64
sq_engine_exec(SqSql *sql, Datum *values, const char *nulls)
{
	int			ret;

	prepare(sql);
	ret = SPI_execute_plan(sql->plan, values, nulls, false, 0);
	if (ret < 0)
		elog(ERROR, "\"%s\" failed: %s", sql->text, SPI_result_code_string(ret));
	return SPI_processed;
}

/* The same as a whole, for a statement whose result is only a count. */
uint64
sq_engine_run(SqSql *sql, Datum *values, const char *nulls)
{
	SqEngine	engine;
	uint64		rows;

	sq_engine_begin(&engine);
	rows = sq_engine_exec(sql, values, nulls);
	sq_engine_end(&engine);
	return rows;
}

/*
 * The newest snapshot, or sq_engine_snapshot.  The first one of a transaction stays in
 * force for it, and a batch has to take that when it has all its locks; before that a
 * snapshot of the kind serves by which catalogs are read.
 */
Snapshot
sq_engine_newest_snapshot(void)
{
	if (sq_engine_snapshot != NULL)
		return sq_engine_snapshot;
	if (FirstSnapshotSet)
		return GetLatestSnapshot();
	return GetCatalogSnapshot(InvalidOid);
}

/*
 * Runs a SELECT under the newest snapshot, whatever the isolation level, or under
 * sq_engine_snapshot; returns the number of rows.
 */
uint64
sq_engine_query(SqSql *sql, Datum *values, const char *nulls)
{
	int			ret;

	prepare(sql);
	ret = SPI_execute_snapshot(sql->plan, values, nulls,
							   sq_engine_newest_snapshot(), InvalidSnapshot, true, false, 0);
	if (ret < 0)
		elog(ERROR, "\"%s\" failed: %s", sql->text, SPI_result_code_string(ret));
	return SPI_processed;
}

/* A value of the last result; columns count from 1. */
Datum
sq_engine_value(uint64 row, int column, bool *isnull)
{
	return SPI_getbinval(SPI_tuptable->vals[row], SPI_tuptable->tupdesc,
						 column, isnull);
}

/* The same for a column of type text; NULL for NULL, else allocated by SPI. */
char *
sq_engine_text(uint64 row, int column)
{
	bool		isnull;
	Datum		value = sq_engine_value(row, column, &isnull);

	return isnull ? NULL : TextDatumGetCString(value);
}

/* A SELECT as a whole, for oids in its only column. */
List *
sq_engine_oids(SqSql *sql, Datum *values)
{
	MemoryContext context = CurrentMemoryContext;
	List	   *result = NIL;
	uint64		rows;
	SqEngine	engine;

	sq_engine_begin(&engine);
	rows = sq_engine_query(sql, values, NULL);
	for (uint64 i = 0; i < rows; i++)
	{
		bool		isnull;
		MemoryContext old = MemoryContextSwitchTo(context);

		result = lappend_oid(result, DatumGetObjectId(sq_engine_value(i, 1, &isnull)));
		MemoryContextSwitchTo(old);
	}
	sq_engine_end(&engine);
	return result;
}

/* A SELECT as a whole, for texts, not NULL, in its only column. */
List *
sq_engine_texts(SqSql *sql, Datum *values)
{
	MemoryContext context = CurrentMemoryContext;
	List	   *result = NIL;
	uint64		rows;
	SqEngine	engine;

	sq_engine_begin(&engine);
	rows = sq_engine_query(sql, values, NULL);
	for (uint64 i = 0; i < rows; i++)
	{
		MemoryContext old = MemoryContextSwitchTo(context);

		result = lappend(result, pstrdup(sq_engine_text(i, 1)));
		MemoryContextSwitchTo(old);
	}
	sq_engine_end(&engine);
	return result;
}

/* A SELECT as a whole, of which only counts whether it finds something. */
bool
sq_engine_finds(SqSql *sql, Datum *values)
{
	SqEngine	engine;
	bool		found;

	sq_engine_begin(&engine);
	found = sq_engine_query(sql, values, NULL) > 0;
	sq_engine_end(&engine);
	return found;
}

/* A list of relation oids as a value of type regclass[]. */
Datum
sq_regclass_array(List *oids)
{
	Datum	   *elements = palloc(sizeof(Datum) * (list_length(oids) + 1));
	ListCell   *lc;
	int			n = 0;

	foreach(lc, oids)
	{
		elements[n++] = ObjectIdGetDatum(lfirst_oid(lc));
	}
	return PointerGetDatum(construct_array(elements, n, REGCLASSOID, sizeof(Oid),
										   true, TYPALIGN_INT));
}

/*
 * Runs a command with the rights of the current user, as if he had typed it.
 * Names in it are qualified and quoted by the caller.
 */
void
sq_execute_as_user(const char *command)
{
	int			ret;

	if (SPI_connect() != SPI_OK_CONNECT)
		elog(ERROR, "SPI_connect failed");
	ret = SPI_execute(command, false, 0);
	if (ret < 0)
		elog(ERROR, "\"%s\" failed: %s", command, SPI_result_code_string(ret));
	SPI_finish();
}
