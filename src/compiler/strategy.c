/*
 * strategy.c
 *		Whether an aggregation keeps its groups or asks the source again.
 *
 * In append mode under a watermark a group comes once, when it is final.  Then
 * its rows are all there, in the source, and an index on the event time finds
 * them: the query itself over the range of time that has closed gives the result,
 * and nothing has to be kept.  Both ways give the same rows for the same batches,
 * provided that the query says the same about a row now and later.
 */
#include "compiler/strategy.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "catalog/pg_am.h"
#include "catalog/pg_index.h"
#include "catalog/pg_namespace.h"
#include "catalog/pg_proc.h"
#include "catalog/sourcedef.h"
#include "compat.h"
#include "compiler/streams.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/optimizer.h"
#include "parser/parsetree.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/relcache.h"
#include "utils/rls.h"

/* true for a function that may say something else at another time */
static bool
changes(Oid function, void *context)
{
	SQ_UNUSED(context);
	switch (func_volatile(function))
	{
		case PROVOLATILE_VOLATILE:
			return true;
		case PROVOLATILE_STABLE:

			/*
			 * those of PostgreSQL depend on settings, which are pinned, or
			 * the clock
			 */
			return get_func_namespace(function) != PG_CATALOG_NAMESPACE ||
				function == F_NOW || function == F_TRANSACTION_TIMESTAMP ||
				function == F_STATEMENT_TIMESTAMP;
		default:
			return false;
	}
}

static bool
changes_walker(Node *node, void *context)
{
	if (node == NULL)
		return false;
	if (IsA(node, SQLValueFunction) || check_functions_in_node(node, changes, context))
		return true;
	if (IsA(node, Query))
		return query_tree_walker((Query *) node, changes_walker, context, 0);
	return expression_tree_walker(node, changes_walker, context);
}

/* True if an expression, or a query, may say something else at another time. */
bool
sq_strategy_changes(Node *node)
{
	return changes_walker(node, NULL);
}

/* the name of an index that leads with a column, or NULL */
static char *
index_on(Oid relid, AttrNumber attnum)
{
	Relation	rel = table_open(relid, NoLock);
	char	   *result = NULL;
	ListCell   *lc;

	foreach(lc, RelationGetIndexList(rel))
	{
		Relation	index = index_open(lfirst_oid(lc), AccessShareLock);
		Form_pg_index form = index->rd_index;

		if (form->indisvalid && form->indkey.values[0] == attnum &&
			RelationGetIndexPredicate(index) == NIL &&
			(index->rd_rel->relam == BTREE_AM_OID || index->rd_rel->relam == BRIN_AM_OID))
			result = pstrdup(RelationGetRelationName(index));
		index_close(index, NoLock);
		if (result != NULL)
			break;
	}
	table_close(rel, NoLock);
	return result;
}

/* true if columns that only a table has, or its whole row, are used */
static bool
uses_row(Query *query, int rtindex)
{
	List	   *vars = pull_vars_of_level((Node *) query, 0);
	ListCell   *lc;

	foreach(lc, vars)
	{
		Var		   *var = lfirst_node(Var, lc);

		if (var->varno == rtindex && var->varattno <= 0)
			return true;
	}
	return false;
}

/* true if the stream can be reached through subqueries and joins alone */
static bool
is_read_plainly(Query *query)
{
	ListCell   *lc;

	if (query->setOperations != NULL || query->cteList != NIL)
		return false;
	foreach(lc, query->rtable)
	{
		RangeTblEntry *rte = lfirst_node(RangeTblEntry, lc);

		if (rte->rtekind == RTE_SUBQUERY && !is_read_plainly(rte->subquery))
			return false;
		if (sq_streams_is_stream(rte) && uses_row(query, foreach_current_index(lc) + 1))
			return false;
	}
	return true;
}

/*
 * The strategy for an aggregation, and the reason for it.
 */
const char *
sq_strategy_choose(const SqCompiled *compiled, char **reason)
{
	const SqSource *source = linitial(compiled->sources);
	char	   *index;

	*reason = NULL;
	if (strcmp(compiled->query->output_mode, "append") != 0)
		*reason = "groups can change until they are final";
	else if (!compiled->aggregation->event.floor)
		*reason = "the event-time key is not sure to be the first moment of a window";
	else if (list_length(compiled->uses) != 1 || list_length(compiled->sources) != 1)
		*reason = "the query reads its sources in more than one place";
	else if (list_length(sq_streams_tables(compiled->select)) != 1)
		*reason = "the query reads a static table, which may change until a group is final";
	else if (!is_read_plainly(compiled->select))
		*reason = "the query reads its source through UNION ALL or WITH, or uses whole rows or system columns of it";
	else if (sq_strategy_is_filtered(compiled))
		*reason = "row-level security of the source may show other rows later";
	else if (sq_strategy_changes((Node *) compiled->select))
		*reason = "the query calls a function whose result may change until a group is final";
	if (*reason != NULL)
		return SQ_STRATEGY_STATE;
	index = index_on(source->relid, source->event_time);
	if (index == NULL)
	{
		*reason = "no btree or brin index of the source leads with the event time";
		return SQ_STRATEGY_STATE;
	}
	*reason = psprintf("index \"%s\" finds the rows of the groups that become final", index);
	return SQ_STRATEGY_SOURCE;
}

/* True if row-level security hides rows of a source from the query. */
bool
sq_strategy_is_filtered(const SqCompiled *compiled)
{
	ListCell   *lc;

	foreach(lc, compiled->query->sources)
	{
		Query	   *level;
		RangeTblEntry *rte = sq_streams_find(compiled->select, lfirst_oid(lc), &level);

		if (rte != NULL &&
			check_enable_rls(rte->relid, sq_rights(level, rte)->checkAsUser, true) == RLS_ENABLED)
			return true;
	}
	return false;
}

/* True if a stream cannot be replaced by a subquery with the same columns. */
bool
sq_strategy_uses_rows(const SqCompiled *compiled)
{
	return list_length(compiled->uses) != 1 || !is_read_plainly(compiled->select);
}

/* True if the groups of a query are read from the source. */
bool
sq_strategy_is_source(const SqCompiled *compiled)
{
	return compiled->query->strategy != NULL &&
		strcmp(compiled->query->strategy, SQ_STRATEGY_SOURCE) == 0;
}
