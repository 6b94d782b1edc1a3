/*
 * sink.c
 *		The sink of a query: finding, creating and checking it.
 *
 * A sink is any relation that INSERT takes.  Columns are matched by name.  All
 * of this acts with the rights of the current user; what INSERT itself would
 * refuse is left to INSERT (sq_statement_try()), except where a clearer error
 * can be given.
 */
#include "sink/sink.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "catalog/catalog.h"
#include "catalog/namespace.h"
#include "catalog/objectaddress.h"
#include "catalog/pg_attribute.h"
#include "catalog/pg_class.h"
#include "catalog/pg_index.h"
#include "catalog/pg_type.h"
#include "catalog/sourcedef.h"
#include "commands/trigger.h"
#include "compat.h"
#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "parser/parse_coerce.h"
#include "source/physical.h"
#include "spi.h"
#include "storage/lmgr.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/relcache.h"
#include "utils/syscache.h"
#include "utils/regproc.h"

/* the argument "sink" as a name; by default the name of the query */
static RangeVar *
sink_name(const char *sink, const char *query_name)
{
	if (sink == NULL)
		return makeRangeVar(NULL, pstrdup(query_name), -1);
	return makeRangeVarFromNameList(stringToQualifiedNameList(sink, NULL));
}

/* The relation that the argument "sink" names, or InvalidOid. */
Oid
sq_sink_find(const char *sink, const char *query_name)
{
	Oid			relid = RangeVarGetRelid(sink_name(sink, query_name), NoLock, true);
	AclResult	result;

	if (!OidIsValid(relid))
		return InvalidOid;
	/* who may not is not to lock it; columns may have rights of their own */
	result = pg_class_aclcheck(relid, GetUserId(), ACL_INSERT);
	if (result != ACLCHECK_OK)
		result = pg_attribute_aclcheck_all(relid, GetUserId(), ACL_INSERT, ACLMASK_ANY);
	if (result != ACLCHECK_OK)
		aclcheck_error(result, get_relkind_objtype(get_rel_relkind(relid)),
					   get_rel_name(relid));
	LockRelationOid(relid, RowExclusiveLock);
	return relid;
}

/*
 * Creates the sink as a table with the columns of the definition, owned by the
 * current user.
 */
Oid
sq_sink_create(const char *sink, const char *query_name, Oid definition)
{
	RangeVar   *name = sink_name(sink, query_name);
	Oid			nspid = RangeVarGetAndCheckCreationNamespace(name, NoLock, NULL);
	StringInfoData command;

	initStringInfo(&command);
	appendStringInfo(&command, "CREATE TABLE %s AS SELECT * FROM %s WITH NO DATA",
					 quote_qualified_identifier(get_namespace_name(nspid), name->relname),
					 quote_qualified_identifier(get_namespace_name(get_rel_namespace(definition)),
												get_rel_name(definition)));
	sq_execute_as_user(command.data);
	return get_relname_relid(name->relname, nspid);
}

/* True for what belongs to the engine, states of queries included. */
bool
sq_sink_is_ours(Oid relid)
{
	Oid			nspid = get_rel_namespace(relid);

	return nspid == get_namespace_oid(SQ_SCHEMA, false) ||
		nspid == get_namespace_oid(SQ_QUERY_SCHEMA, false) ||
		nspid == get_namespace_oid(SQ_STATE_SCHEMA, false);
}

/* Refuses relations that cannot be a sink. */
void
sq_sink_check_kind(Oid sink)
{
	char		kind = get_rel_relkind(sink);
	const char *name = get_rel_name(sink);

	if (kind != RELKIND_RELATION && kind != RELKIND_PARTITIONED_TABLE &&
		kind != RELKIND_FOREIGN_TABLE && kind != RELKIND_VIEW)
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("\"%s\" cannot be a sink", name),
				 errdetail("A sink is a table, a partitioned table, a foreign table, or a view that takes INSERT.")));
	if (get_rel_persistence(sink) == RELPERSISTENCE_TEMP)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("temporary table \"%s\" cannot be a sink", name),
				 errdetail("Other sessions, such as the background workers, cannot use it."),
				 errhint("Use a permanent or an unlogged table.")));
	if (IsCatalogRelationOid(sink) || sq_sink_is_ours(sink))
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("system catalog \"%s\" cannot be a sink", name)));
}

static void
check_column(Relation rel, Form_pg_attribute column)
{
	const char *name = NameStr(column->attname);
	AttrNumber	attnum = get_attnum(RelationGetRelid(rel), name);
	Form_pg_attribute target;
	Oid			source_type = column->atttypid;
	Oid			target_type;

	if (attnum == InvalidAttrNumber)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_COLUMN),
				 errmsg("sink \"%s\" has no column \"%s\"",
						RelationGetRelationName(rel), name),
				 errdetail("Columns of the query are put into columns of the sink by name."),
				 errhint("Add the column to the sink, or rename the query's column with AS.")));
	if (attnum < 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_COLUMN_REFERENCE),
				 errmsg("cannot assign to system column \"%s\"", name)));
	target = TupleDescAttr(RelationGetDescr(rel), attnum - 1);
	if (target->attgenerated != '\0' && column->attgenerated != '\0')
		return;					/* a late sink made like the source */
	if (target->attgenerated != '\0')
		ereport(ERROR,
				(errcode(ERRCODE_GENERATED_ALWAYS),
				 errmsg("column \"%s\" of sink \"%s\" is a generated column",
						name, RelationGetRelationName(rel)),
				 errhint("Leave the column out of the query.")));
	if (target->attidentity == ATTRIBUTE_IDENTITY_ALWAYS)
		ereport(ERROR,
				(errcode(ERRCODE_GENERATED_ALWAYS),
				 errmsg("column \"%s\" of sink \"%s\" is an identity column defined as GENERATED ALWAYS",
						name, RelationGetRelationName(rel)),
				 errhint("Leave the column out of the query, or define it as GENERATED BY DEFAULT.")));
	target_type = target->atttypid;
	if (!can_coerce_type(1, &source_type, &target_type, COERCION_ASSIGNMENT))
		ereport(ERROR,
				(errcode(ERRCODE_DATATYPE_MISMATCH),
				 errmsg("column \"%s\" of sink \"%s\" is of type %s but the query's column is of type %s",
						name, RelationGetRelationName(rel),
						format_type_be(target_type), format_type_be(source_type)),
				 errhint("Cast the query's column.")));
}

/* Checks that each column of a relation can be assigned in the sink. */
void
sq_sink_check_columns(Oid sink, Oid definition)
{
	Relation	sink_rel = table_open(sink, NoLock);
	Relation	definition_rel = table_open(definition, AccessShareLock);
	TupleDesc	desc = RelationGetDescr(definition_rel);

	for (int i = 0; i < desc->natts; i++)
		if (!TupleDescAttr(desc, i)->attisdropped)
			check_column(sink_rel, TupleDescAttr(desc, i));
	table_close(definition_rel, NoLock);
	table_close(sink_rel, NoLock);
}

/*
 * Checks that the columns that a late sink has in common with the source can be
 * assigned, and that there are such.  It need not have all: a column that the source
 * has got since is left out.
 */
void
sq_sink_check_late(Oid sink, Oid source)
{
	Relation	sink_rel = table_open(sink, NoLock);
	Relation	source_rel = table_open(source, AccessShareLock);
	TupleDesc	desc = RelationGetDescr(source_rel);
	bool		any = false;

	for (int i = 0; i < desc->natts; i++)
	{
		Form_pg_attribute column = TupleDescAttr(desc, i);

		if (column->attisdropped ||
			get_attnum(sink, NameStr(column->attname)) == InvalidAttrNumber)
			continue;
		check_column(sink_rel, column);
		any |= TupleDescAttr(RelationGetDescr(sink_rel),
							 get_attnum(sink, NameStr(column->attname)) - 1)->attgenerated == '\0';
	}
	if (!any)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_COLUMN),
				 errmsg("late sink \"%s\" has no column of source \"%s\"",
						RelationGetRelationName(sink_rel), RelationGetRelationName(source_rel)),
				 errdetail("Columns of the source are put into columns of the late sink by name."),
				 errhint("Add columns with the names of those of the source.")));
	table_close(source_rel, NoLock);
	table_close(sink_rel, NoLock);
}

/* Refuses a relation to be written that is one of the query's own sources. */
void
sq_sink_check_sources(Oid relation, List *sources)
{
	ListCell   *lc;

	foreach(lc, sources)
	{
		if (sq_physical_overlap(relation, lfirst_oid(lc)))
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_OBJECT_DEFINITION),
					 errmsg("sink \"%s\" is one of the query's own sources",
							get_rel_name(relation)),
					 errdetail("Each batch would read what the one before has written, without end."),
					 errhint("Name another sink with the argument \"sink\".")));
	}
}

/* ------------------------------------------------ update and complete mode */

static Oid
get_collation_of(Oid relid, AttrNumber attnum)
{
	Oid			type;
	int32		typmod;
	Oid			collation;

	get_atttypetypmodcoll(relid, attnum, &type, &typmod, &collation);
	return collation;
}

/* true if strings that are different under one collation are so under another one */
static bool
is_as_fine(Oid collation, Oid other)
{
	return collation == other || !OidIsValid(collation) ||
		get_collation_isdeterministic(collation);
}

/* true if an index makes the columns of the table unique, together and at once */
static bool
is_unique_on(Relation index, List *columns)
{
	Form_pg_index form = index->rd_index;
	ListCell   *lc;

	if (!form->indisunique || !form->indimmediate || !form->indisvalid ||
		form->indnkeyatts != list_length(columns) ||
		RelationGetIndexPredicate(index) != NIL)
		return false;
	foreach(lc, columns)
	{
		AttrNumber	attnum = get_attnum(form->indrelid, lfirst(lc));
		bool		found = false;

		for (int i = 0; i < form->indnkeyatts; i++)
			found |= form->indkey.values[i] == attnum &&
				is_as_fine(index->rd_indcollation[i], get_collation_of(form->indrelid, attnum));
		if (!found)
			return false;
	}
	return true;
}

/* true if a column of the table may be NULL */
static bool
any_nullable(Relation rel, List *columns)
{
	ListCell   *lc;

	foreach(lc, columns)
	{
		AttrNumber	attnum = get_attnum(RelationGetRelid(rel), lfirst(lc));

		if (!TupleDescAttr(RelationGetDescr(rel), attnum - 1)->attnotnull)
			return true;
	}
	return false;
}

/* finds a unique index on columns; nulls_differ: NULLs in it are not equal */
static bool
find_key(Oid sink, List *columns, bool *nulls_differ)
{
	Relation	rel = table_open(sink, NoLock);
	bool		nullable = any_nullable(rel, columns);
	bool		found = false;
	ListCell   *lc;

	*nulls_differ = true;
	foreach(lc, RelationGetIndexList(rel))
	{
		Relation	index = index_open(lfirst_oid(lc), AccessShareLock);

		if (is_unique_on(index, columns))
		{
			found = true;
			if (!nullable || index->rd_index->indnullsnotdistinct)
				*nulls_differ = false;
		}
		index_close(index, NoLock);
	}
	table_close(rel, NoLock);
	return found;
}

static char *
column_list(List *columns)
{
	StringInfoData list;
	ListCell   *lc;

	initStringInfo(&list);
	foreach(lc, columns)
	{
		appendStringInfo(&list, "%s%s", list.len > 0 ? ", " : "", quote_identifier(lfirst(lc)));
	}
	return list.data;
}

/*
 * Gives a new sink a unique index on the columns of the group key, and room on its pages
 * for the next versions of rows, so that most updates need not touch the index (HOT).
 */
void
sq_sink_create_key(Oid sink, List *columns)
{
	char	   *name = quote_qualified_identifier(get_namespace_name(get_rel_namespace(sink)),
												  get_rel_name(sink));

	sq_execute_as_user(psprintf("CREATE UNIQUE INDEX ON %s (%s) NULLS NOT DISTINCT",
								name, column_list(columns)));
	sq_execute_as_user(psprintf("ALTER TABLE %s SET (fillfactor = %d)", name, SQ_FILLFACTOR));
}

/* true if different values of one type stay different in another one */
static bool
keeps_apart(Oid type, int32 typmod, Oid target, int32 target_typmod)
{
	static const Oid numbers[] = {INT2OID, INT4OID, INT8OID, NUMERICOID};
	int			from = -1;
	int			to = -1;

	if (target_typmod != -1 && (type != target || typmod != target_typmod))
		return false;
	if (IsBinaryCoercible(type, target))
		return true;
	for (int i = 0; i < (int) lengthof(numbers); i++)
	{
		if (numbers[i] == type)
			from = i;
		if (numbers[i] == target)
			to = i;
	}
	return from >= 0 && to > from;
}

/* two groups must not become one row */
static void
check_key_column(Oid sink, Oid definition, const char *column)
{
	Oid			type;
	int32		typmod;
	Oid			collation;
	Oid			target;
	int32		target_typmod;
	Oid			target_collation;

	get_atttypetypmodcoll(definition, get_attnum(definition, column), &type, &typmod, &collation);
	get_atttypetypmodcoll(sink, get_attnum(sink, column), &target, &target_typmod,
						  &target_collation);
	if (keeps_apart(type, typmod, target, target_typmod) &&
		is_as_fine(target_collation, collation))
		return;
	ereport(ERROR,
			(errcode(ERRCODE_DATATYPE_MISMATCH),
			 errmsg("group key \"%s\" of sink \"%s\" is of type %s but the query's column is of type %s",
					column, get_rel_name(sink), format_type_with_typemod(target, target_typmod),
					format_type_with_typemod(type, typmod)),
			 errdetail("Rows of different groups could become one."),
			 errhint("Cast the group key in the query, or change the type of the column.")));
}

/*
 * Errors if a sink has no unique index on the columns of the group key.  True if such
 * indexes take each NULL for another value.
 */
bool
sq_sink_check_key(Oid sink, Oid definition, List *columns)
{
	bool		nulls_differ;
	ListCell   *lc;

	foreach(lc, columns)
	{
		check_key_column(sink, definition, lfirst(lc));
	}
	if (find_key(sink, columns, &nulls_differ))
		return nulls_differ;
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_TABLE_DEFINITION),
			 errmsg("sink \"%s\" has no unique index on the group key (%s)",
					get_rel_name(sink), column_list(columns)),
			 errdetail("In output mode \"update\" rows of the sink are upserted by the group key."),
			 errhint("Use CREATE UNIQUE INDEX ON %s (%s) NULLS NOT DISTINCT.",
					 quote_identifier(get_rel_name(sink)), column_list(columns))));
	return true;
}

/* Errors if rows of a relation cannot be updated and deleted as these modes do. */
void
sq_sink_check_updatable(Oid sink, const char *output_mode)
{
	char		kind = get_rel_relkind(sink);

	if (kind != RELKIND_RELATION && kind != RELKIND_PARTITIONED_TABLE)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("\"%s\" cannot be a sink in output mode \"%s\"", get_rel_name(sink), output_mode),
				 errdetail("Rows of the sink are changed and removed, for which it has to be a table."),
				 errhint("Use a table as the sink, and the view over it.")));
	if (sq_source_load(sink) != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("source \"%s\" cannot be a sink in output mode \"%s\"", get_rel_name(sink), output_mode),
				 errdetail("Sources are append-only."),
				 errhint("Use output mode \"append\", or another sink.")));
}

/* Errors if a relation holds rows, which the query's result would replace. */
void
sq_sink_check_replaceable(Oid sink)
{
	char	   *name = quote_qualified_identifier(get_namespace_name(get_rel_namespace(sink)),
												  get_rel_name(sink));
	bool		empty;

	SPI_connect();
	if (SPI_execute(psprintf("SELECT FROM %s LIMIT 1", name), true, 1) != SPI_OK_SELECT)
		elog(ERROR, "SPI_execute failed");
	empty = SPI_processed == 0;
	SPI_finish();
	if (!empty)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("sink \"%s\" is not empty", get_rel_name(sink)),
				 errdetail("The query's result would replace all of its rows."),
				 errhint("Use TRUNCATE %s first, or another sink.", name)));
}

/* Drops the sink, as the current user. */
void
sq_sink_drop(Oid sink)
{
	const char *kind;

	switch (get_rel_relkind(sink))
	{
		case RELKIND_VIEW:
			kind = "VIEW";
			break;
		case RELKIND_FOREIGN_TABLE:
			kind = "FOREIGN TABLE";
			break;
		default:
			kind = "TABLE";
			break;
	}
	sq_execute_as_user(psprintf("DROP %s %s", kind,
								quote_qualified_identifier(get_namespace_name(get_rel_namespace(sink)),
														   get_rel_name(sink))));
}
