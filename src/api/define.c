/*
 * define.c
 *		SQL functions that define queries: create_query, drop_query, reset.
 */
#include "api/api.h"
#include "api/define.h"

#include "access/xact.h"
#include "access/table.h"
#include "batch/batch.h"
#include "batch/finality.h"
#include "batch/runner.h"
#include "batch/statement.h"
#include "catalog/checkpoint.h"
#include "catalog/dependency.h"
#include "catalog/namespace.h"
#include "catalog/partition.h"
#include "catalog/pg_class.h"
#include "catalog/pg_type.h"
#include "catalog/querydef.h"
#include "catalog/sourcedef.h"
#include "commands/tablecmds.h"
#include "commands/view.h"
#include "compat.h"
#include "compiler/emit.h"
#include "compiler/probe.h"
#include "compiler/strategy.h"
#include "compiler/streams.h"
#include "compiler/tree.h"
#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "parser/analyze.h"
#include "parser/parser.h"
#include "progress/shared.h"
#include "sink/sink.h"
#include "source/physical.h"
#include "source/readplan.h"
#include "spi.h"
#include "state/state.h"
#include "storage/lmgr.h"
#include "utils/acl.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"
#include "utils/regproc.h"

PG_FUNCTION_INFO_V1(streamq_create_query);
PG_FUNCTION_INFO_V1(streamq_drop_query);
PG_FUNCTION_INFO_V1(streamq_reset);

void
sq_api_null_argument(const char *argument)
{
	ereport(ERROR,
			(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
			 errmsg("argument \"%s\" must not be null", argument)));
}

/* The first argument, the name of a query. */
char *
sq_api_name_argument(FunctionCallInfo fcinfo)
{
	if (PG_ARGISNULL(0))
		sq_api_null_argument("name");
	return text_to_cstring(PG_GETARG_TEXT_PP(0));
}

/* An argument "starting_position". */
char *
sq_api_starting_position(FunctionCallInfo fcinfo, int argument)
{
	char	   *value;

	if (PG_ARGISNULL(argument))
		sq_api_null_argument("starting_position");
	value = text_to_cstring(PG_GETARG_TEXT_PP(argument));
	if (strcmp(value, "earliest") != 0 && strcmp(value, "latest") != 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("invalid starting position \"%s\"", value),
				 errhint("Use \"earliest\" to read all rows, or \"latest\" to read only those to come.")));
	return value;
}

/* ------------------------------------------------------ analysing the SELECT */

/* a position in an error is one in the query's text, not in the caller's */
static void
locate_error(void *arg)
{
	int			position = geterrposition();

	if (position > 0)
	{
		errposition(0);
		internalerrposition(position);
		internalerrquery((const char *) arg);
	}
}

/* finds a temporary relation that a query reads */
static bool
find_temporary(Node *node, Oid *relid)
{
	if (node == NULL)
		return false;
	if (IsA(node, RangeTblEntry))
	{
		const RangeTblEntry *rte = (RangeTblEntry *) node;

		if (rte->rtekind == RTE_RELATION &&
			get_rel_persistence(rte->relid) == RELPERSISTENCE_TEMP)
			*relid = rte->relid;
		return OidIsValid(*relid);
	}
	if (IsA(node, Query))
		return query_tree_walker((Query *) node, find_temporary, relid, QTW_EXAMINE_RTES_BEFORE);
	return expression_tree_walker(node, find_temporary, relid);
}

static void
check_not_temporary(Query *query)
{
	Oid			relid = InvalidOid;

	if (!find_temporary((Node *) query, &relid))
		return;
	ereport(ERROR,
			(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			 get_rel_relkind(relid) == RELKIND_VIEW ?
			 errmsg("temporary view \"%s\" cannot be used by a streaming query", get_rel_name(relid)) :
			 errmsg("temporary table \"%s\" cannot be used by a streaming query", get_rel_name(relid)),
			 errdetail("Other sessions, such as the background workers, cannot read it."),
			 errhint("Use permanent or unlogged tables.")));
}

/* Analyses the text as the current user; accepts one SELECT. */
Query *
sq_define_analyse(const char *text)
{
	ErrorContextCallback callback;
	List	   *parsetrees;
	RawStmt    *raw;
	Query	   *query;

	callback.callback = locate_error;
	callback.arg = unconstify(char *, text);
	callback.previous = error_context_stack;
	error_context_stack = &callback;

	parsetrees = raw_parser(text, RAW_PARSE_DEFAULT);
	if (list_length(parsetrees) != 1)
		ereport(ERROR,
				(errcode(ERRCODE_SYNTAX_ERROR),
				 errmsg("a streaming query must be a single SELECT")));
	raw = linitial_node(RawStmt, parsetrees);
	if (!IsA(raw->stmt, SelectStmt) || ((SelectStmt *) raw->stmt)->intoClause != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("a streaming query must be a SELECT"),
				 errhint("The result goes into the query's sink.")));
	query = parse_analyze_fixedparams(raw, text, NULL, 0, NULL);
	error_context_stack = callback.previous;

	if (query->commandType != CMD_SELECT)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("a streaming query must be a SELECT"),
				 errhint("The result goes into the query's sink.")));
	if (query->hasModifyingCTE)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("a data-modifying statement in WITH is not supported in a streaming query"),
				 errhint("The only thing that a streaming query writes is its sink; use a trigger on the sink for more.")));
	check_not_temporary(query);
	if (list_length(query->targetList) == 0)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("a streaming query must have at least one column"),
				 errhint("Name what is to be written to the sink.")));
	return query;
}

/* registers a table that the query reads and nobody has declared */
static void
register_source(Oid relid)
{
	sq_api_add_source(relid, NULL, NULL);
	ereport(NOTICE,
			(errmsg("table \"%s\" is now a streaming source", get_rel_name(relid)),
			 errdetail("UPDATE on it is refused from now on.")));
	CommandCounterIncrement();
}

/* the argument "sources", each element checked */
static List *
named_sources(ArrayType *array, List *tables)
{
	Datum	   *elements;
	bool	   *nulls;
	int			n;
	List	   *result = NIL;

	deconstruct_array(array, REGCLASSOID, sizeof(Oid), true, TYPALIGN_INT,
					  &elements, &nulls, &n);
	for (int i = 0; i < n; i++)
	{
		Oid			relid = DatumGetObjectId(elements[i]);

		if (nulls[i])
			sq_api_null_argument("sources");
		if (!list_member_oid(tables, relid))
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					 errmsg("the query does not read \"%s\"",
							get_rel_name(relid) ? get_rel_name(relid) : "?"),
					 errdetail("Each of \"sources\" has to be a table in the query's FROM clause, or behind a view there.")));
		if (sq_source_load(relid) == NULL)
			register_source(relid);
		result = list_append_unique_oid(result, relid);
	}
	return result;
}

/* keeps streamq.drop_source() away, which locks against writers; checks the set */
static void
lock_sources(List *sources)
{
	ListCell   *lc;

	foreach(lc, sources)
	{
		for (int i = 0; i < foreach_current_index(lc); i++)
			if (sq_physical_overlap(lfirst_oid(lc), list_nth_oid(sources, i)))
				ereport(ERROR,
						(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
						 errmsg("the query reads both \"%s\" and \"%s\", of which one is a part of the other",
								get_rel_name(list_nth_oid(sources, i)), get_rel_name(lfirst_oid(lc))),
						 errhint("Name only one of them with the argument \"sources\", or read only one of them.")));
		LockRelationOid(lfirst_oid(lc), RowExclusiveLock);
		if (sq_source_load(lfirst_oid(lc)) == NULL)
			ereport(ERROR,
					(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
					 errmsg("source \"%s\" has been dropped meanwhile",
							get_rel_name(lfirst_oid(lc)))));
	}
}

/* which of the tables that the query reads are streams */
static List *
choose_sources(List *tables, ArrayType *named)
{
	List	   *result;

	if (named != NULL)
	{
		result = named_sources(named, tables);
		if (result == NIL)
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					 errmsg("argument \"sources\" must name at least one table")));
		return result;
	}
	result = sq_streams_among(tables, sq_source_all());
	if (result != NIL)
		return result;
	if (list_length(tables) == 1 && object_ownercheck(RelationRelationId, linitial_oid(tables), GetUserId()))
	{
		register_source(linitial_oid(tables));
		return tables;
	}
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("query reads no stream"),
			 errdetail("None of the tables that it reads is a source."),
			 errhint("The owner of a table declares it with streamq.add_source().")));
	return NIL;
}

/* --------------------------------------------------------- storing the SELECT */

/* the columns of a query as those of a view, cf. DefineVirtualRelation() */
static List *
view_columns(Query *query)
{
	List	   *columns = NIL;
	ListCell   *lc;

	foreach(lc, query->targetList)
	{
		TargetEntry *tle = lfirst_node(TargetEntry, lc);
		Oid			type = exprType((Node *) tle->expr);
		AclResult	result;
		ColumnDef  *column;

		if (tle->resjunk)
			continue;
		/* DefineRelation() is going to ask for the engine's right */
		result = object_aclcheck(TypeRelationId, type, GetUserId(), ACL_USAGE);
		if (result != ACLCHECK_OK)
			aclcheck_error_type(result, type);
		column = makeColumnDef(tle->resname, type,
							   exprTypmod((Node *) tle->expr),
							   exprCollation((Node *) tle->expr));
		if (type_is_collatable(type) && !OidIsValid(column->collOid))
			ereport(ERROR,
					(errcode(ERRCODE_INDETERMINATE_COLLATION),
					 errmsg("could not determine which collation to use for column \"%s\"",
							column->colname),
					 errhint("Use the COLLATE clause to set the collation explicitly.")));
		columns = lappend(columns, column);
	}
	return columns;
}

/* refuses functions, types and the like that go with the session */
static void
check_no_temporary_objects(Oid view)
{
	static SqSql sql = {
		"SELECT FROM pg_catalog.pg_rewrite r JOIN pg_catalog.pg_depend d"
		" ON d.classid = 'pg_catalog.pg_rewrite'::pg_catalog.regclass AND d.objid = r.oid"
		" CROSS JOIN LATERAL pg_catalog.pg_identify_object(d.refclassid, d.refobjid, d.refobjsubid) o"
		" WHERE r.ev_class = $1 AND d.refobjid <> $1 AND o.schema LIKE 'pg\\_temp%'",
		1, {REGCLASSOID}, NULL
	};
	Datum		value = ObjectIdGetDatum(view);

	if (sq_engine_finds(&sql, &value))
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("a streaming query must not use temporary objects"),
				 errdetail("Other sessions, such as the background workers, cannot use them."),
				 errhint("Create the functions and types in a permanent schema.")));
}

/*
 * Stores the analysed query as a view in schema streamq_query, owned by the
 * caller, who has no right to create anything there.  Only the empty view is
 * made with the rights of the extension's owner; nothing of the user's is
 * evaluated in that.
 */
Oid
sq_define_store(const char *name, Query *query)
{
	CreateStmt *create = makeNode(CreateStmt);
	Oid			owner = GetUserId();
	ObjectAddress view;
	SqEngine	engine;

	create->relation = makeRangeVar(SQ_QUERY_SCHEMA, pstrdup(name), -1);
	create->tableElts = view_columns(query);
	create->oncommit = ONCOMMIT_NOOP;
	sq_engine_begin(&engine);
	view = DefineRelation(create, RELKIND_VIEW, owner, NULL, NULL);
	CommandCounterIncrement();
	sq_engine_end(&engine);

	StoreViewQuery(view.objectId, query, false);
	CommandCounterIncrement();
	check_no_temporary_objects(view.objectId);
	return view.objectId;
}

/* dropping the sink takes CASCADE, and the query along */
static void
depend_on_sink(Oid definition, Oid sink)
{
	static SqSql sql = {
		"SELECT FROM pg_catalog.pg_depend WHERE classid = 'pg_catalog.pg_class'::pg_catalog.regclass"
		" AND objid = $1 AND refclassid = classid AND refobjid = $2",
		2, {OIDOID, OIDOID}, NULL
	};
	Datum		values[2] = {ObjectIdGetDatum(definition), ObjectIdGetDatum(sink)};
	ObjectAddress view;
	ObjectAddress table;

	if (sq_engine_finds(&sql, values))
		return;
	ObjectAddressSet(view, RelationRelationId, definition);
	ObjectAddressSet(table, RelationRelationId, sink);
	recordDependencyOn(&view, &table, DEPENDENCY_NORMAL);
}

/* Makes a definition depend on the query's sinks. */
void
sq_define_depend(const SqQuery *query)
{
	depend_on_sink(query->definition, query->sink);
	if (OidIsValid(query->late_sink))
		depend_on_sink(query->definition, query->late_sink);
}

/* Finds out now what would fail in the first batch. */
void
sq_define_try(const SqQuery *query)
{
	static const SqReadPlan nothing = {NULL, 0, false};
	static const SqTimes none = {false, 0, false, 0};
	SqCompiled *compiled = sq_compile(query);
	SqWasRead	was_read = {&nothing, NULL, 0, NULL};
	ListCell   *lc;
	ListCell   *lc2;

	sq_probe_times(compiled->select);
	(void) sq_batch_inputs(compiled);
	foreach(lc, sq_emit_all(compiled))
	{
		foreach(lc2, sq_statement_try(lfirst(lc), sq_finality_params(compiled, &nothing, sq_offset_empty(),
																	 &none, &was_read)))
		{
			sq_sink_check_sources(lfirst_oid(lc2), query->sources);
		}
	}
}

/* ---------------------------------------------------------------- aggregations */

/* strategy and columns of the state for a new query */
static void
plan_state(SqQuery *query, const SqCompiled *compiled)
{
	if (compiled->aggregation == NULL)
		return;
	query->strategy = pstrdup(sq_strategy_choose(compiled, &query->strategy_reason));
	for (int i = 1; i <= list_length(compiled->aggregation->keys); i++)
		query->state_keys = lappend_int(query->state_keys, i);
	for (int i = 1; i <= list_length(compiled->aggregation->calls); i++)
		query->state_calls = lappend_int(query->state_calls, i);
}

/* a result that replaces the sink's rows would replace those of other queries */
static void
check_only_writer(const SqQuery *query)
{
	ListCell   *lc;

	foreach(lc, sq_query_names_using(query->sink))
	{
		SqQuery    *other = sq_query_load(lfirst(lc), true);

		if (other == NULL || other->sink != query->sink)
			continue;
		if (strcmp(query->output_mode, "complete") == 0 || strcmp(other->output_mode, "complete") == 0)
			ereport(ERROR,
					(errcode(ERRCODE_OBJECT_IN_USE),
					 errmsg("\"%s\" is the sink of streaming query \"%s\"",
							get_rel_name(query->sink), other->name),
					 errdetail("In output mode \"complete\" a query replaces all rows of its sink."),
					 errhint("Use another sink.")));
		ereport(NOTICE,
				(errmsg("\"%s\" is the sink of streaming query \"%s\", too",
						get_rel_name(query->sink), other->name),
				 errdetail("Groups with the same key overwrite each other.")));
	}
}

/* what the output mode asks of a sink, which has been created if is_new */
static void
prepare_sink(const SqQuery *query, const SqCompiled *compiled, bool is_new)
{
	if (compiled->aggregation == NULL || strcmp(query->output_mode, "append") == 0)
		return;
	sq_sink_check_updatable(query->sink, query->output_mode);
	check_only_writer(query);
	if (sq_compiled_replaces(compiled))
	{
		if (!is_new)
			sq_sink_check_replaceable(query->sink);
	}
	else if (is_new)
		sq_sink_create_key(query->sink, sq_emit_key_columns(compiled));
	else
		(void) sq_sink_check_key(query->sink, query->definition, sq_emit_key_columns(compiled));
}

/* the table that receives late rows, made if it is not there */
static Oid
late_sink(const SqQuery *query, const SqCompiled *compiled, const char *name)
{
	Oid			relid;

	if (!sq_compiled_has_watermark(compiled))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("a late sink needs an aggregation in which rows can be late"),
				 errdetail("Rows are late when their group is final: in output modes \"append\" and \"update\", with the event time of a source with a watermark among the group keys."),
				 errhint("Leave out \"late_sink\".")));
	if (list_length(query->sources) != 1)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("a late sink is not supported for a query with several sources"),
				 errhint("Leave out \"late_sink\"; late rows are counted all the same.")));
	relid = sq_sink_find(name, name);
	if (!OidIsValid(relid))
		relid = sq_sink_create(name, name, linitial_oid(query->sources));
	sq_sink_check_kind(relid);
	if (relid == query->sink || sq_physical_overlap(relid, linitial_oid(query->sources)))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("the late sink must be another table than the sink and the source"),
				 errhint("Name another table with the argument \"late_sink\".")));
	sq_sink_check_late(relid, linitial_oid(query->sources));
	return relid;
}

/* Makes a view of streamq.live(query) that goes with the definition. */
void
sq_define_live_view(const SqQuery *query, const char *name)
{
	Relation	rel = table_open(query->definition, AccessShareLock);
	TupleDesc	desc = RelationGetDescr(rel);
	RangeVar   *range = makeRangeVarFromNameList(stringToQualifiedNameList(name, NULL));
	Oid			nspid = RangeVarGetAndCheckCreationNamespace(range, NoLock, NULL);
	StringInfoData command;
	ObjectAddress view;
	ObjectAddress definition;

	initStringInfo(&command);
	appendStringInfo(&command, "CREATE VIEW %s AS SELECT * FROM streamq.live(%s) AS q(",
					 quote_qualified_identifier(get_namespace_name(nspid), range->relname),
					 quote_literal_cstr(query->name));
	for (int i = 0; i < desc->natts; i++)
	{
		Form_pg_attribute column = TupleDescAttr(desc, i);

		appendStringInfo(&command, "%s%s %s", i > 0 ? ", " : "",
						 quote_identifier(NameStr(column->attname)),
						 sq_tree_type(column->atttypid, column->atttypmod, column->attcollation));
	}
	appendStringInfoChar(&command, ')');
	table_close(rel, NoLock);
	sq_execute_as_user(command.data);

	ObjectAddressSet(view, RelationRelationId, get_relname_relid(range->relname, nspid));
	ObjectAddressSet(definition, RelationRelationId, query->definition);
	recordDependencyOn(&view, &definition, DEPENDENCY_AUTO);
}

/* ------------------------------------------------------------ SQL functions */

static void
check_name(const char *name)
{
	if (name[0] == '\0')
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_NAME),
				 errmsg("name of a streaming query must not be empty")));
	if (strlen(name) >= NAMEDATALEN)
		ereport(ERROR,
				(errcode(ERRCODE_NAME_TOO_LONG),
				 errmsg("name of a streaming query is too long"),
				 errdetail("It may have %d bytes.", NAMEDATALEN - 1)));
	if (sq_query_load(name, true) != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_DUPLICATE_OBJECT),
				 errmsg("streaming query \"%s\" already exists", name),
				 errhint("Use another name, streamq.alter_query() to change it, or streamq.drop_query() first.")));
}

static char *
output_mode_argument(FunctionCallInfo fcinfo)
{
	char	   *mode;

	if (PG_ARGISNULL(2))
		sq_api_null_argument("output_mode");
	mode = text_to_cstring(PG_GETARG_TEXT_PP(2));
	if (strcmp(mode, "append") != 0 && strcmp(mode, "update") != 0 &&
		strcmp(mode, "complete") != 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("invalid output mode \"%s\"", mode),
				 errhint("Use \"append\", \"update\" or \"complete\".")));
	return mode;
}

static int64
max_rows_argument(FunctionCallInfo fcinfo)
{
	if (PG_ARGISNULL(6))
		return 0;
	if (PG_GETARG_INT64(6) <= 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("max_rows_per_batch must be greater than zero"),
				 errhint("Leave it out for batches without a limit.")));
	return PG_GETARG_INT64(6);
}

/*
 * Where only schemas have been restored from a dump, there are definitions of queries
 * that are not known: drops such a one.
 */
static void
drop_leftover(const char *name)
{
	ObjectAddress view;
	Oid			relid = get_relname_relid(name, get_namespace_oid(SQ_QUERY_SCHEMA, false));

	if (!OidIsValid(relid) || !object_ownercheck(RelationRelationId, relid, GetUserId()))
		return;
	ObjectAddressSet(view, RelationRelationId, relid);
	performDeletion(&view, DROP_RESTRICT, PERFORM_DELETION_INTERNAL);
	CommandCounterIncrement();
}

/* Makes a query without a checkpoint read only what comes from now on. */
void
sq_api_start_latest(const char *name, List *sources)
{
	SqHorizon	horizon = sq_horizon_now();
	SqOffset   *now = sq_offset_now();
	ListCell   *lc;
	ListCell   *lc2;

	foreach(lc, sources)
	{
		foreach(lc2, sq_physical_relations(lfirst_oid(lc), true))
			sq_checkpoint_start_at(name, lfirst_oid(lc2), now, horizon);
	}
}

/*
 * streamq.create_query(name text, query text, output_mode text, sink text,
 *		sources regclass[], starting_position text, max_rows_per_batch bigint,
 *		late_sink text, live_view text)
 *
 * sink: a possibly qualified name, NULL for a table called like the query;
 * sources: NULL for all registered sources that the query reads;
 * max_rows_per_batch: NULL for no limit; late_sink: a table for rows that come too
 * late, NULL to count them only; live_view: a view to be created over
 * streamq.live(), NULL for none.  Returns the sink.
 */
Datum
streamq_create_query(PG_FUNCTION_ARGS)
{
	SqQuery    *query = palloc0(sizeof(SqQuery));
	char	   *sink;
	char	   *query_text;
	Query	   *select;
	SqCompiled *compiled;
	bool		new_sink;

	query->name = sq_api_name_argument(fcinfo);
	if (PG_ARGISNULL(1))
		sq_api_null_argument("query");
	query_text = text_to_cstring(PG_GETARG_TEXT_PP(1));
	query->output_mode = output_mode_argument(fcinfo);
	sink = PG_ARGISNULL(3) ? NULL : text_to_cstring(PG_GETARG_TEXT_PP(3));
	query->starting_position = sq_api_starting_position(fcinfo, 5);
	query->max_rows_per_batch = max_rows_argument(fcinfo);
	check_name(query->name);

	select = sq_define_analyse(query_text);
	query->sources = choose_sources(sq_streams_tables(select),
									PG_ARGISNULL(4) ? NULL : PG_GETARG_ARRAYTYPE_P(4));
	lock_sources(query->sources);
	compiled = sq_compile_select(query, copyObject(select));
	plan_state(query, compiled);

	query->owner = GetUserId();
	query->settings = sq_settings_capture();
	drop_leftover(query->name);
	query->definition = sq_define_store(query->name, select);

	query->sink = sq_sink_find(sink, query->name);
	new_sink = !OidIsValid(query->sink);
	if (new_sink)
		query->sink = sq_sink_create(sink, query->name, query->definition);
	sq_sink_check_kind(query->sink);
	sq_sink_check_sources(query->sink, query->sources);
	sq_sink_check_columns(query->sink, query->definition);
	prepare_sink(query, compiled, new_sink);
	if (!PG_ARGISNULL(7))
		query->late_sink = late_sink(query, compiled, text_to_cstring(PG_GETARG_TEXT_PP(7)));
	sq_sink_check_circle(query);
	sq_define_depend(query);
	CommandCounterIncrement();

	sq_checkpoint_delete(query->name);
	sq_query_insert(query);
	if (compiled->aggregation != NULL && !sq_strategy_is_source(compiled))
		sq_state_create(query, compiled->aggregation);
	if (!PG_ARGISNULL(8))
		sq_define_live_view(query, text_to_cstring(PG_GETARG_TEXT_PP(8)));
	CommandCounterIncrement();
	sq_define_try(query);
	if (strcmp(query->starting_position, "latest") == 0)
		sq_api_start_latest(query->name, query->sources);
	PG_RETURN_OID(query->sink);
}

/* Removes what the catalog knows of a query. */
void
sq_api_forget_query(const char *name)
{
	sq_checkpoint_delete(name);
	sq_query_delete(name);
}

/*
 * streamq.drop_query(name text, drop_sink boolean)
 *
 * Waits until nobody runs the query any more.
 */
Datum
streamq_drop_query(PG_FUNCTION_ARGS)
{
	char	   *name = sq_api_name_argument(fcinfo);
	bool		drop_sink = !PG_ARGISNULL(1) && PG_GETARG_BOOL(1);
	SqQuery    *query = sq_query_load_owned(name);
	ObjectAddress view;
	SqQueryLock lock;

	sq_query_check_outside(query);
	sq_shared_stop(query->query_id);
	(void) sq_query_lock(query->query_id, false, true, &lock);

	sq_api_forget_query(name);
	sq_state_drop(query->query_id);
	ObjectAddressSet(view, RelationRelationId, query->definition);
	if (OidIsValid(query->owner))
		performDeletion(&view, DROP_RESTRICT, 0);
	CommandCounterIncrement();
	if (drop_sink)
		sq_sink_drop(query->sink);
	PG_RETURN_VOID();
}

/* empty state tables, even if some are gone */
static void
make_state_anew(const SqQuery *query)
{
	SqIdentity	identity;
	int			nest_level;
	SqCompiled *compiled;

	sq_runner_become_owner(query, &identity);
	nest_level = sq_settings_push(query->settings);
	compiled = sq_compile(query);
	sq_settings_pop(nest_level);
	sq_runner_become_self(&identity);
	sq_state_create(query, compiled->aggregation);
}

/*
 * streamq.reset(name text, starting_position text)
 *
 * Refused while the query is started or run.
 */
Datum
streamq_reset(PG_FUNCTION_ARGS)
{
	char	   *name = sq_api_name_argument(fcinfo);
	char	   *position = sq_api_starting_position(fcinfo, 1);
	SqQuery    *query = sq_query_load_owned(name);
	SqQueryLock lock;

	sq_query_check_outside(query);
	if (query->active || !sq_query_lock(query->query_id, false, false, &lock) ||
		!sq_query_set_fresh(name, position))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_IN_USE),
				 errmsg("cannot reset streaming query \"%s\" while it is running", name),
				 errhint("Use streamq.stop() first.")));
	sq_checkpoint_delete(name);
	if (query->strategy != NULL && strcmp(query->strategy, SQ_STRATEGY_STATE) == 0)
		make_state_anew(query);
	/* that is neither in a dump nor taken by pg_upgrade */
	sq_define_depend(query);
	if (strcmp(position, "latest") == 0)
		sq_api_start_latest(name, query->sources);
	PG_RETURN_VOID();
}
