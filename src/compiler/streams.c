/*
 * streams.c
 *		Finding the streams of a query, and making it read increments of them.
 *
 * Works on analysed queries.  Views that lead to a stream are replaced by their
 * definition, as the rewriter would do it (fireRIRrules in rewriteHandler.c),
 * because a TABLESAMPLE clause has to be put on the stream inside; permissions
 * stay as they were, checked as the view's owner behind the view.  Views over
 * static tables alone are left to the rewriter.
 */
#include "compiler/streams.h"

#include "access/table.h"
#include "catalog/namespace.h"
#include "catalog/pg_class.h"
#include "catalog/pg_type.h"
#include "compat.h"
#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "parser/parse_func.h"
#include "rewrite/rewriteHandler.h"
#include "utils/rel.h"

/* A copy of the definition of a view, its tables locked. */
Query *
sq_streams_definition(Oid view)
{
	Relation	rel = table_open(view, AccessShareLock);
	Query	   *query = copyObject(get_view_query(rel));

	AcquireRewriteLocks(query, true, false);
	table_close(rel, NoLock);
	return query;
}

/* ------------------------------------------------------------ tables */

/* oids of what a query reads */
typedef struct Read
{
	List	   *tables;			/* behind views too */
	List	   *views;
} Read;

static bool
collect_tables(Node *node, Read *read)
{
	check_stack_depth();
	if (node == NULL)
		return false;
	if (IsA(node, RangeTblEntry))
	{
		RangeTblEntry *rte = (RangeTblEntry *) node;

		if (rte->rtekind == RTE_RELATION && rte->relkind == RELKIND_VIEW && rte->inFromCl)
		{
			read->views = list_append_unique_oid(read->views, rte->relid);
			(void) collect_tables((Node *) sq_streams_definition(rte->relid), read);
		}
		else if (rte->rtekind == RTE_RELATION && rte->inFromCl)
			read->tables = list_append_unique_oid(read->tables, rte->relid);
		return false;
	}
	if (IsA(node, Query))
		return query_tree_walker((Query *) node, collect_tables, read,
								 QTW_EXAMINE_RTES_BEFORE);
	return expression_tree_walker(node, collect_tables, read);
}

/* The oids of all tables that a query reads, behind views too. */
List *
sq_streams_tables(Query *query)
{
	Read		read = {NIL, NIL};

	(void) collect_tables((Node *) query, &read);
	return read.tables;
}

/* The oids of all tables and views that a query reads. */
List *
sq_streams_relations(Query *query)
{
	Read		read = {NIL, NIL};

	(void) collect_tables((Node *) query, &read);
	return list_concat(read.views, read.tables);
}

/* Those of the tables that are among the sources, in the order of the tables. */
List *
sq_streams_among(List *tables, List *sources)
{
	List	   *result = NIL;
	ListCell   *lc;

	foreach(lc, tables)
	{
		if (list_member_oid(sources, lfirst_oid(lc)))
			result = lappend_oid(result, lfirst_oid(lc));
	}
	return result;
}

/* ------------------------------------------------------------ expansion */

typedef struct ExpandContext
{
	List	   *sources;		/* oids */
	List	   *uses;			/* SqStreamUse */
	Query	   *query;			/* whose range table is walked */
} ExpandContext;

static bool expand_walker(Node *node, ExpandContext *context);

/* index of a relation among the sources, or -1 */
static int
source_index(List *sources, Oid relid)
{
	ListCell   *lc;

	foreach(lc, sources)
	{
		if (lfirst_oid(lc) == relid)
			return foreach_current_index(lc);
	}
	return -1;
}

static Oid
since_handler(void)
{
	Oid			arg_types[1] = {INTERNALOID};

	return LookupFuncName(list_make2(makeString(SQ_SCHEMA), makeString("since")),
						  1, arg_types, false);
}

static Param *
offset_param(int id)
{
	Param	   *param = makeNode(Param);

	param->paramkind = PARAM_EXTERN;
	param->paramid = id;
	param->paramtype = PG_SNAPSHOTOID;
	param->paramtypmod = -1;
	param->paramcollid = InvalidOid;
	param->location = -1;
	return param;
}

/* makes a table read what came between the parameters of its source */
static void
sample_stream(RangeTblEntry *rte, int source, ExpandContext *context)
{
	TableSampleClause *sample = makeNode(TableSampleClause);
	SqStreamUse *use = palloc(sizeof(SqStreamUse));

	if (rte->tablesample != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("TABLESAMPLE is not supported on a stream"),
				 errhint("Filter the rows with WHERE instead.")));
	sample->tsmhandler = since_handler();
	sample->args = list_make2(offset_param(2 * source + 1),
							  offset_param(2 * source + 2));
	rte->tablesample = sample;

	use->source = source;
	use->with_children = rte->inh;
	context->uses = lappend(context->uses, use);
}

/* replaces a view by its definition, as ApplyRetrieveRule() does */
static void
inline_view(Query *query, RangeTblEntry *rte, Query *definition)
{
	Relation	rel = table_open(rte->relid, NoLock);

	sq_rights_move_into_view(query, rte, definition);
	rte->rtekind = RTE_SUBQUERY;
	rte->subquery = definition;
	rte->security_barrier = RelationIsSecurityView(rel);
	table_close(rel, NoLock);

	rte->relid = InvalidOid;
	rte->relkind = 0;
	rte->rellockmode = 0;
	rte->inh = false;
}

static void
expand_rte(RangeTblEntry *rte, ExpandContext *context)
{
	int			source;

	if (rte->rtekind != RTE_RELATION || !rte->inFromCl)
		return;
	if (rte->relkind == RELKIND_VIEW)
	{
		Query	   *definition = sq_streams_definition(rte->relid);
		List	   *tables = sq_streams_tables(definition);

		if (sq_streams_among(tables, context->sources) == NIL)
			return;
		inline_view(context->query, rte, definition);
		return;
	}
	source = source_index(context->sources, rte->relid);
	if (source >= 0)
		sample_stream(rte, source, context);
}

static bool
expand_walker(Node *node, ExpandContext *context)
{
	check_stack_depth();
	if (node == NULL)
		return false;
	if (IsA(node, RangeTblEntry))
	{
		/* a view turned into a subquery is walked right after this */
		expand_rte((RangeTblEntry *) node, context);
		return false;
	}
	if (IsA(node, Query))
	{
		Query	   *outer = context->query;

		context->query = (Query *) node;
		(void) query_tree_walker((Query *) node, expand_walker, context,
								 QTW_EXAMINE_RTES_BEFORE);
		context->query = outer;
		return false;
	}
	return expression_tree_walker(node, expand_walker, context);
}

/*
 * Makes a query, in place, read increments of its streams: those of the source
 * number i (from 0) lie between the parameters 2i+1 and 2i+2.  Returns the uses
 * of streams found (SqStreamUse), in no particular order.
 */
List *
sq_streams_expand(Query *query, List *sources)
{
	ExpandContext context = {sources, NIL, NULL};

	(void) expand_walker((Node *) query, &context);
	return context.uses;
}

typedef struct FindContext
{
	Oid			relid;
	RangeTblEntry *found;
	Query	   *level;			/* whose range table is walked */
} FindContext;

static bool
find_walker(Node *node, FindContext *context)
{
	if (node == NULL)
		return false;
	if (IsA(node, RangeTblEntry))
	{
		RangeTblEntry *rte = (RangeTblEntry *) node;

		if (sq_streams_is_stream(rte) && rte->relid == context->relid)
			context->found = rte;
		return context->found != NULL;
	}
	if (IsA(node, Query))
	{
		Query	   *outer = context->level;

		context->level = (Query *) node;
		if (query_tree_walker((Query *) node, find_walker, context, QTW_EXAMINE_RTES_BEFORE))
			return true;
		context->level = outer;
		return false;
	}
	return expression_tree_walker(node, find_walker, context);
}

/*
 * A place where an expanded query reads a source, and the level that it is at.  NULL if
 * only a WITH query did that is not used, and so has been left out.
 */
RangeTblEntry *
sq_streams_find(Query *query, Oid relid, Query **level)
{
	FindContext context = {relid, NULL, NULL};

	(void) find_walker((Node *) query, &context);
	*level = context.level;
	return context.found;
}

/* True for a table that sq_streams_expand() has made to be read by increments. */
bool
sq_streams_is_stream(const RangeTblEntry *rte)
{
	return rte->rtekind == RTE_RELATION && rte->tablesample != NULL &&
		rte->tablesample->tsmhandler == since_handler() &&
		IsA(linitial(rte->tablesample->args), Param) &&
		((Param *) linitial(rte->tablesample->args))->paramkind == PARAM_EXTERN;
}
