/*
 * emit_late.c
 *		The statement that counts, or keeps, rows that come too late.
 *
 * A row is late when its group is final already.  They are counted as rows that
 * the aggregation would have taken in.  A late sink receives the source's own
 * rows, once each, however often joins have multiplied them; so the source's
 * columns and its rows' place are passed up from where it is read.
 */
#include "compiler/emit.h"

#include "access/sysattr.h"
#include "access/table.h"
#include "catalog/pg_type.h"
#include "compat.h"
#include "compiler/streams.h"
#include "compiler/tree.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "parser/parse_relation.h"
#include "miscadmin.h"
#include "parser/parsetree.h"
#include "sink/sink.h"
#include "storage/lmgr.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/rls.h"

/* how many rows of the batch are late */
static SqStatement *
count_late(const SqCompiled *compiled)
{
	Query	   *rows = sq_delta_keys(compiled, SQ_LATE_ONLY);
	SqStatement *statement;

	statement = sq_emit_statement(compiled,
								  psprintf("SELECT pg_catalog.count(*) FROM %s l",
										   sq_tree_placeholder(rows->targetList)));
	sq_tree_find(statement->query, "l")->subquery = rows;
	return statement;
}

/* ------------------------------------------- passing the source's columns up */

static void refuse_late_sink(const char *detail) pg_attribute_noreturn();

static void
refuse_late_sink(const char *detail)
{
	ereport(ERROR,
			(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			 errmsg("a late sink is not supported for this query"),
			 errdetail("%s", detail),
			 errhint("Leave out \"late_sink\"; late rows are counted all the same.")));
}

/* a column of the source, or a system column of it: name and type */
typedef struct Passed
{
	AttrNumber	attnum;
	Oid			type;
	int32		typmod;
	Oid			collation;
	char	   *name;
} Passed;

static Passed *
passed(AttrNumber attnum, Oid type, int32 typmod, Oid collation, const char *name)
{
	Passed	   *result = palloc(sizeof(Passed));

	result->attnum = attnum;
	result->type = type;
	result->typmod = typmod;
	result->collation = collation;
	result->name = pstrdup(name);
	return result;
}

/* what is passed up of a source: place, and all columns that can be inserted */
static List *
passed_columns(Oid relid)
{
	Relation	rel = table_open(relid, NoLock);
	TupleDesc	desc = RelationGetDescr(rel);
	List	   *result = NIL;

	result = lappend(result, passed(TableOidAttributeNumber, OIDOID, -1, InvalidOid, "streamq part"));
	result = lappend(result, passed(SelfItemPointerAttributeNumber, TIDOID, -1, InvalidOid,
									"streamq place"));
	for (int i = 0; i < desc->natts; i++)
	{
		Form_pg_attribute column = TupleDescAttr(desc, i);

		if (strncmp(NameStr(column->attname), SQ_RESERVED_PREFIX, strlen(SQ_RESERVED_PREFIX)) == 0)
			refuse_late_sink(psprintf("Column \"%s\" of its source has a name that streamq uses itself.",
									  NameStr(column->attname)));
		if (!column->attisdropped)
			result = lappend(result, passed(column->attnum, column->atttypid, column->atttypmod,
											column->attcollation, NameStr(column->attname)));
	}
	table_close(rel, NoLock);
	return result;
}

/* adds the columns to a query's output, from the entry rtindex; first is theirs there */
static AttrNumber
add_passed(Query *query, int rtindex, List *columns, AttrNumber first)
{
	AttrNumber	result = list_length(query->targetList) + 1;
	RangeTblEntry *rte = rt_fetch(rtindex, query->rtable);
	RTEPermissionInfo *rights = rte->rtekind == RTE_RELATION ? sq_rights(query, rte) : NULL;
	ListCell   *lc;

	foreach(lc, columns)
	{
		Passed	   *column = lfirst(lc);
		AttrNumber	attno = first > 0 ? first + foreach_current_index(lc) : column->attnum;
		Var		   *var = makeVar(rtindex, attno, column->type, column->typmod,
								  column->collation, 0);

		if (rights != NULL && attno > 0)
			rights->selectedCols = bms_add_member(rights->selectedCols,
												  attno - FirstLowInvalidHeapAttributeNumber);
		query->targetList = lappend(query->targetList,
									makeTargetEntry((Expr *) var, list_length(query->targetList) + 1,
													column->name, false));
	}
	return result;
}

static AttrNumber pass_up(Query *query, Oid *relid, List **columns);

/* the place in a FROM clause where the stream is read, passing up from below */
static bool
pass_up_from(Query *query, Node *node, Oid *relid, List **columns, AttrNumber *first)
{
	ListCell   *lc;

	if (IsA(node, FromExpr))
	{
		foreach(lc, ((FromExpr *) node)->fromlist)
		{
			if (pass_up_from(query, lfirst(lc), relid, columns, first))
				return true;
		}
	}
	else if (IsA(node, JoinExpr))
		return pass_up_from(query, ((JoinExpr *) node)->larg, relid, columns, first) ||
			pass_up_from(query, ((JoinExpr *) node)->rarg, relid, columns, first);
	else if (IsA(node, RangeTblRef))
	{
		int			rtindex = ((RangeTblRef *) node)->rtindex;
		RangeTblEntry *rte = rt_fetch(rtindex, query->rtable);

		if (rte->rtekind == RTE_RELATION && sq_streams_is_stream(rte))
		{
			*relid = rte->relid;
			*columns = passed_columns(rte->relid);
			*first = add_passed(query, rtindex, *columns, 0);
			return true;
		}
		if (rte->rtekind == RTE_SUBQUERY)
		{
			AttrNumber	below = pass_up(rte->subquery, relid, columns);

			if (below == 0)
				return false;
			foreach(lc, *columns)
			{
				rte->eref->colnames = lappend(rte->eref->colnames,
											  makeString(((Passed *) lfirst(lc))->name));
			}
			*first = add_passed(query, rtindex, *columns, below);
			return true;
		}
	}
	return false;
}

/*
 * Adds the columns of the source that a query reads to its output.  Returns the
 * number of the first, 0 if it reads none.
 */
static AttrNumber
pass_up(Query *query, Oid *relid, List **columns)
{
	AttrNumber	first = 0;

	if (query->setOperations != NULL)
	{
		List	   *below = NIL;
		ListCell   *lc;

		foreach(lc, query->rtable)
		{
			RangeTblEntry *rte = lfirst_node(RangeTblEntry, lc);
			Query	   *copy = rte->rtekind == RTE_SUBQUERY ? copyObject(rte->subquery) : NULL;

			if (copy != NULL && pass_up(copy, relid, &below) > 0)
				refuse_late_sink("The query reads its source through UNION ALL.");
		}
		return 0;
	}
	(void) pass_up_from(query, (Node *) query->jointree, relid, columns, &first);
	return first;
}

/* true if the late sink has a column of that name that can be inserted */
static bool
takes_column(Oid late_sink, const char *name)
{
	AttrNumber	attnum = get_attnum(late_sink, name);

	return attnum > 0 && get_attgenerated(late_sink, attnum) == '\0';
}

/*
 * All columns of the source are kept, also where the query reads a view that shows
 * only some of them: so its owner must have the right to read the table.
 */
static void
check_rights(Oid relid)
{
	AclResult	result = pg_class_aclcheck(relid, GetUserId(), ACL_SELECT);

	if (result == ACLCHECK_OK && check_enable_rls(relid, InvalidOid, true) == RLS_ENABLED)
		refuse_late_sink("Row-level security applies to its source.");
	if (result != ACLCHECK_OK)
		aclcheck_error(result, OBJECT_TABLE, get_rel_name(relid));
}

/* the late rows of the source, each once */
static SqStatement *
keep_late(const SqCompiled *compiled)
{
	Query	   *rows = sq_delta_keys(compiled, SQ_LATE_ONLY);
	Oid			relid = InvalidOid;
	List	   *columns = NIL;
	StringInfoData names;
	StringInfoData values;
	StringInfoData text;
	SqStatement *statement;
	ListCell   *lc;

	rows->targetList = NIL;
	rows->hasTargetSRFs = false;
	if (pass_up(rows, &relid, &columns) == 0)
		refuse_late_sink("The query reads its source through a WITH query that is used more than once.");
	check_rights(relid);
	/* it, or the source, may have been altered */
	LockRelationOid(compiled->query->late_sink, RowExclusiveLock);
	sq_sink_check_late(compiled->query->late_sink, relid);
	initStringInfo(&names);
	initStringInfo(&values);
	foreach(lc, columns)
	{
		Passed	   *column = lfirst(lc);

		if (column->attnum < 0 || !takes_column(compiled->query->late_sink, column->name))
			continue;
		appendStringInfo(&names, "%s%s", names.len > 0 ? ", " : "", quote_identifier(column->name));
		appendStringInfo(&values, "%sl.%s", values.len > 0 ? ", " : "",
						 quote_identifier(column->name));
	}
	initStringInfo(&text);
	appendStringInfo(&text, "INSERT INTO %s (%s) SELECT %s FROM (SELECT DISTINCT ON"
					 " (a.\"streamq part\", a.\"streamq place\") a.* FROM %s a) l",
					 sq_tree_relation(compiled->query->late_sink), names.data, values.data,
					 sq_tree_placeholder(rows->targetList));
	statement = sq_emit_statement(compiled, text.data);
	sq_tree_find(statement->query, "a")->subquery = rows;
	return statement;
}

/*
 * The statement for late rows.  A late sink is inserted into, otherwise it
 * returns their number.
 */
SqStatement *
sq_emit_late(const SqCompiled *compiled)
{
	return OidIsValid(compiled->query->late_sink) ? keep_late(compiled) : count_late(compiled);
}
