/*
 * alter.c
 *		SQL function alter_query: another SELECT for a query that goes on.
 *
 * The definition is a new view of the same name; whatever depended on the old one
 * depends on the new one.
 */
#include "api/api.h"

#include "access/htup_details.h"
#include "access/relation.h"
#include "access/table.h"
#include "access/xact.h"
#include "api/define.h"
#include "batch/batch.h"
#include "batch/runner.h"
#include "catalog/dependency.h"
#include "catalog/indexing.h"
#include "catalog/namespace.h"
#include "catalog/pg_class.h"
#include "catalog/querydef.h"
#include "commands/comment.h"
#include "commands/tablecmds.h"
#include "compiler/compare.h"
#include "compiler/emit.h"
#include "compiler/strategy.h"
#include "compiler/streams.h"
#include "miscadmin.h"
#include "sink/sink.h"
#include "spi.h"
#include "state/state.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/syscache.h"

PG_FUNCTION_INFO_V1(streamq_alter_query);

static void
check_sources(const SqQuery *query, Query *select)
{
	List	   *among = sq_streams_among(sq_streams_tables(select), query->sources);

	if (list_length(among) != list_length(query->sources))
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("the changed query does not read all sources of the streaming query"),
				 errdetail("Its checkpoint belongs to these sources."),
				 errhint("Create another query.")));
}

/* names of the objects that go with the definition: state, live view */
static List *
dependents(Oid definition)
{
	static SqSql sql = {
		"SELECT objid FROM pg_catalog.pg_depend WHERE refclassid = 'pg_catalog.pg_class'::pg_catalog.regclass"
		" AND refobjid = $1 AND classid = 'pg_catalog.pg_class'::pg_catalog.regclass AND deptype = 'a'",
		1, {OIDOID}, NULL
	};
	Datum		value = ObjectIdGetDatum(definition);

	return sq_engine_oids(&sql, &value);
}

/* true if two relations have the same columns */
static bool
have_same_columns(Oid a, Oid b)
{
	Relation	first = relation_open(a, AccessShareLock);
	Relation	second = relation_open(b, AccessShareLock);
	bool		same = first->rd_att->natts == second->rd_att->natts;

	for (int i = 0; same && i < first->rd_att->natts; i++)
	{
		Form_pg_attribute x = TupleDescAttr(first->rd_att, i);
		Form_pg_attribute y = TupleDescAttr(second->rd_att, i);

		same = strcmp(NameStr(x->attname), NameStr(y->attname)) == 0 &&
			x->atttypid == y->atttypid && x->atttypmod == y->atttypmod &&
			x->attcollation == y->attcollation;
	}
	relation_close(second, NoLock);
	relation_close(first, NoLock);
	return same;
}

/* ------------------------------------------------------------ making a view anew */

/* what a view that is made anew would lose */
typedef struct Belongings
{
	char	   *name;			/* of a column, NULL for the view itself */
	Acl		   *acl;			/* NULL: none */
	char	   *comment;
} Belongings;

/* of a view, or of one of its columns */
static Belongings *
find_belongings(Oid view, AttrNumber attnum)
{
	Belongings *found = palloc0(sizeof(Belongings));
	HeapTuple	tuple;
	bool		isnull;
	Datum		acl;

	tuple = attnum == 0 ? SearchSysCache1(RELOID, ObjectIdGetDatum(view)) :
		SearchSysCache2(ATTNUM, ObjectIdGetDatum(view), Int16GetDatum(attnum));
	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for view %u", view);
	acl = attnum == 0 ? SysCacheGetAttr(RELOID, tuple, Anum_pg_class_relacl, &isnull) :
		SysCacheGetAttr(ATTNUM, tuple, Anum_pg_attribute_attacl, &isnull);
	if (!isnull)
		found->acl = DatumGetAclPCopy(acl);
	ReleaseSysCache(tuple);
	if (attnum != 0)
		found->name = get_attname(view, attnum, false);
	found->comment = GetComment(view, RelationRelationId, attnum);
	return found;
}

static void
replace_acl(Oid view, AttrNumber attnum, Oid owner, Acl *acl)
{
	Relation	catalog = table_open(attnum == 0 ? RelationRelationId : AttributeRelationId,
									 RowExclusiveLock);
	HeapTuple	tuple = attnum == 0 ? SearchSysCacheCopy1(RELOID, ObjectIdGetDatum(view)) :
	SearchSysCacheCopy2(ATTNUM, ObjectIdGetDatum(view), Int16GetDatum(attnum));
	int			column = attnum == 0 ? Anum_pg_class_relacl : Anum_pg_attribute_attacl;
	Datum		values[Max(Natts_pg_class, Natts_pg_attribute)] = {0};
	bool		nulls[Max(Natts_pg_class, Natts_pg_attribute)] = {0};
	bool		replaces[Max(Natts_pg_class, Natts_pg_attribute)] = {0};
	bool		isnull;
	Datum		before;
	Oid		   *old_members = NULL;
	Oid		   *members;
	int			nold = 0;
	int			nmembers;

	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for view %u", view);
	/* there are default privileges */
	before = heap_getattr(tuple, column, RelationGetDescr(catalog), &isnull);
	if (!isnull)
		nold = aclmembers(DatumGetAclP(before), &old_members);
	nmembers = aclmembers(acl, &members);
	values[column - 1] = PointerGetDatum(acl);
	replaces[column - 1] = true;
	tuple = heap_modify_tuple(tuple, RelationGetDescr(catalog), values, nulls, replaces);
	CatalogTupleUpdate(catalog, &tuple->t_self, tuple);
	updateAclDependencies(RelationRelationId, view, attnum, owner, nold, old_members,
						  nmembers, members);
	table_close(catalog, RowExclusiveLock);
	CommandCounterIncrement();
}

static void
give_belongings(Oid view, Oid owner, const List *belongings)
{
	ListCell   *lc;

	foreach(lc, belongings)
	{
		const Belongings *given = lfirst(lc);
		AttrNumber	attnum = given->name ? get_attnum(view, given->name) : 0;

		if (given->name != NULL && attnum == InvalidAttrNumber)
			continue;
		if (given->acl != NULL)
			replace_acl(view, attnum, owner, given->acl);
		if (given->comment != NULL)
			CreateComments(view, RelationRelationId, attnum, given->comment);
	}
}

/* makes a live view anew, over the columns of the definition; all else stays */
static void
make_live_view_anew(const SqQuery *query, Oid view)
{
	ObjectAddress address;
	Oid			schema = get_rel_namespace(view);
	char	   *name = get_rel_name(view);
	char	   *qualified = quote_qualified_identifier(get_namespace_name(schema), name);
	Relation	rel = relation_open(view, AccessExclusiveLock);
	Oid			owner = rel->rd_rel->relowner;
	List	   *belongings = list_make1(find_belongings(view, 0));
	SqEngine	engine;

	for (AttrNumber i = 1; i <= RelationGetNumberOfAttributes(rel); i++)
		belongings = lappend(belongings, find_belongings(view, i));
	relation_close(rel, NoLock);
	ObjectAddressSet(address, RelationRelationId, view);
	performDeletion(&address, DROP_RESTRICT, 0);
	CommandCounterIncrement();
	sq_define_live_view(query, qualified);
	CommandCounterIncrement();
	view = get_relname_relid(name, schema);
	if (owner != query->owner)
	{
		sq_engine_begin(&engine);
		ATExecChangeOwner(view, owner, false, AccessExclusiveLock);
		CommandCounterIncrement();
		sq_engine_end(&engine);
	}
	give_belongings(view, owner, belongings);
}

/* what goes with the definition: state tables stay, live views may have to be made anew */
static void
move_dependent(const SqQuery *query, Oid dependent, Oid old)
{
	if (get_rel_relkind(dependent) != RELKIND_VIEW ||
		have_same_columns(old, query->definition))
		(void) changeDependencyFor(RelationRelationId, dependent, RelationRelationId,
								   old, query->definition);
	else
		make_live_view_anew(query, dependent);
}

/* somebody may have built on the definition, which is going to be another view */
static void
check_nothing_depends(const SqQuery *query)
{
	static SqSql sql = {
		"SELECT pg_catalog.pg_describe_object(d.classid, d.objid, d.objsubid)"
		" FROM pg_catalog.pg_depend d WHERE d.refclassid = 'pg_catalog.pg_class'::pg_catalog.regclass"
		" AND d.refobjid = $1 AND d.deptype = 'n' AND NOT EXISTS (SELECT FROM pg_catalog.pg_rewrite r"
		" WHERE d.classid = 'pg_catalog.pg_rewrite'::pg_catalog.regclass AND r.oid = d.objid"
		" AND r.ev_class = $1) LIMIT 1",
		1, {OIDOID}, NULL
	};
	Datum		value = ObjectIdGetDatum(query->definition);
	List	   *objects = sq_engine_texts(&sql, &value);

	if (objects != NIL)
		ereport(ERROR,
				(errcode(ERRCODE_DEPENDENT_OBJECTS_STILL_EXIST),
				 errmsg("cannot alter streaming query \"%s\" because other objects depend on its definition",
						query->name),
				 errdetail("%s depends on view \"%s.%s\".", (char *) linitial(objects),
						   SQ_QUERY_SCHEMA, query->name),
				 errhint("Drop it first, or let it read the sink.")));
}

/* stores the SELECT as another view of the same name; the old one has another name then */
static Oid
store_beside(const SqQuery *query, Query *select)
{
	RenameRelationInternal(query->definition, psprintf("streamq_old_%u", query->definition),
						   true, false);
	CommandCounterIncrement();
	return sq_define_store(query->name, select);
}

/* makes the new view the definition, and drops the old one */
static void
replace_definition(const SqQuery *query, Oid old)
{
	ObjectAddress address;
	ListCell   *lc;

	foreach(lc, dependents(old))
	{
		move_dependent(query, lfirst_oid(lc), old);
	}
	sq_define_depend(query);
	sq_query_set_definition(query);
	CommandCounterIncrement();
	ObjectAddressSet(address, RelationRelationId, old);
	performDeletion(&address, DROP_RESTRICT, PERFORM_DELETION_INTERNAL);
	CommandCounterIncrement();
}

/* what the query's owner does, under the query's settings */
static void
alter(SqQuery *query, const char *text)
{
	SqCompiled *before = sq_compile(query);
	SqQuery		changed = *query;
	Query	   *select = sq_define_analyse(text);
	SqCompiled *after;

	check_nothing_depends(query);
	check_sources(query, select);
	changed.state_keys = changed.state_calls = NIL;
	changed.definition = store_beside(query, select);
	/* both have been stored, so that the same is written in the same way */
	after = sq_compile_select(&changed, sq_streams_definition(changed.definition));
	sq_compare(before, after, &changed);
	if (after->aggregation != NULL && !sq_strategy_is_source(after))
		sq_state_add_count(query->query_id, after->aggregation);
	replace_definition(&changed, query->definition);
	sq_sink_check_columns(query->sink, changed.definition);
	if (strcmp(query->output_mode, "update") == 0 && after->aggregation != NULL &&
		!sq_compiled_replaces(after))
		(void) sq_sink_check_key(query->sink, changed.definition, sq_emit_key_columns(after));
	sq_define_try(&changed);
}

/*
 * streamq.alter_query(name text, query text)
 *
 * Refused while the query is started or run, and if the changed query could not
 * go on from the query's state.
 */
Datum
streamq_alter_query(PG_FUNCTION_ARGS)
{
	SqQuery    *query = sq_query_load_owned(sq_api_name_argument(fcinfo));
	SqIdentity	identity;
	SqQueryLock lock;
	int			nest_level;

	if (PG_ARGISNULL(1))
		sq_api_null_argument("query");
	sq_query_check_outside(query);
	if (query->active || !sq_query_lock(query->query_id, false, false, &lock))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_IN_USE),
				 errmsg("cannot alter streaming query \"%s\" while it is running", query->name),
				 errhint("Use streamq.stop() first.")));
	sq_batch_check_checkpoint(query);
	sq_state_set_owner(query);
	sq_runner_become_owner(query, &identity);
	nest_level = sq_settings_push(query->settings);
	alter(query, text_to_cstring(PG_GETARG_TEXT_PP(1)));
	sq_settings_pop(nest_level);
	sq_runner_become_self(&identity);
	PG_RETURN_VOID();
}
