/*
 * compile.c
 *		From the definition of a query to what the engine keeps and executes.
 *
 * The compiler is pure: it reads the definition and the catalog, and makes
 * trees.  A view behind the definition may have been replaced since the query
 * was created, so a query is compiled, and what was acceptable then is checked,
 * again when anything has changed that it depends on (batch/validity.c).
 *
 * To be called as the query's owner, under the query's settings.
 */
#include "compiler/compile.h"

#include "catalog/pg_type.h"
#include "catalog/sourcedef.h"
#include "compiler/accept.h"
#include "compiler/shape.h"
#include "compiler/streams.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/optimizer.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"

/* The sources of a query (SqSource), as they are registered now. */
List *
sq_compile_sources(const SqQuery *query)
{
	List	   *sources = NIL;
	ListCell   *lc;

	foreach(lc, query->sources)
	{
		SqSource   *source = sq_source_load(lfirst_oid(lc));

		if (source == NULL)
			ereport(ERROR,
					(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
					 errmsg("relation with OID %u, which streaming query \"%s\" reads, is not a source",
							lfirst_oid(lc), query->name)));
		sources = lappend(sources, source);
	}
	return sources;
}

/* append mode: a group has to become final */
static void
check_append(const SqCompiled *compiled)
{
	bool		any_watermark = false;
	ListCell   *lc;

	if (compiled->aggregation->time_key != NULL)
		return;
	foreach(lc, compiled->sources)
	{
		any_watermark |= ((SqSource *) lfirst(lc))->watermark_delay != NULL;
	}
	if (!any_watermark)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("output mode \"append\" is not supported for an aggregation without a watermark"),
				 errdetail("Each group could still change, so none would ever be appended."),
				 errhint("Declare the source with streamq.add_source(source, event_time, watermark_delay) and group by the event time, or use output mode \"update\" or \"complete\".")));
	ereport(ERROR,
			(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			 errmsg("output mode \"append\" is not supported for an aggregation without the event time among its group keys"),
			 errdetail("No group key is the event-time column of a source with a watermark, or date_bin(), date_trunc() or a cast to date of it, so no group would ever be final."),
			 errhint("Group by a window of the event time, or use output mode \"update\" or \"complete\".")));
}

/* update mode: rows of the sink are found by the group key */
static void
check_update(const SqCompiled *compiled)
{
	ListCell   *lc;
	ListCell   *lc2;

	if (expression_returns_set((Node *) compiled->select->targetList) &&
		compiled->select->hasTargetSRFs)
	{
		foreach(lc, compiled->select->targetList)
		{
			TargetEntry *tle = lfirst_node(TargetEntry, lc);

			if (expression_returns_set((Node *) tle->expr) &&
				sq_aggregation_find_key(compiled->aggregation, (Node *) tle->expr, 0) == NULL)
				ereport(ERROR,
						(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
						 errmsg("a set-returning function over an aggregation is not supported in output mode \"update\""),
						 errdetail("Several rows would have the same group key."),
						 errhint("Use output mode \"complete\".")));
		}
	}
	foreach(lc, compiled->aggregation->keys)
	{
		SqKey	   *key = lfirst(lc);
		bool		visible = key->clause == NULL;

		foreach(lc2, compiled->select->targetList)
		{
			TargetEntry *tle = lfirst_node(TargetEntry, lc2);

			visible |= !tle->resjunk && equal(tle->expr, key->expr);
		}
		if (!visible)
			ereport(ERROR,
					(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
					 errmsg("output mode \"update\" needs each group key in the result"),
					 errdetail("Group key %d is not a column of the result, and rows of the sink are upserted by the group key.",
							   foreach_current_index(lc) + 1),
					 errhint("Add the expression to the SELECT list, or use output mode \"complete\".")));
	}
}

/* true if what the aggregation takes in is not the same when it is read again */
static bool
is_volatile(const SqAggregation *aggregation)
{
	Query	   *input = copyObject(aggregation->level);
	ListCell   *lc;

	input->targetList = NIL;
	input->havingQual = NULL;
	if (contain_volatile_functions((Node *) input))
		return true;
	foreach(lc, aggregation->keys)
	{
		if (contain_volatile_functions((Node *) ((SqKey *) lfirst(lc))->expr))
			return true;
	}
	foreach(lc, aggregation->calls)
	{
		if (contain_volatile_functions((Node *) ((SqCall *) lfirst(lc))->aggref))
			return true;
	}
	return false;
}

/* where a batch reads its rows several times they have to be the same */
static void
check_volatile(const SqCompiled *compiled)
{
	const SqAggregation *aggregation = compiled->aggregation;

	if (!sq_aggregation_has(aggregation, SQ_CALL_ROWS) &&
		!sq_aggregation_has(aggregation, SQ_CALL_RESUME) &&
		!sq_aggregation_has(aggregation, SQ_CALL_DISTINCT) &&
		!OidIsValid(compiled->query->late_sink))
		return;
	if (is_volatile(aggregation))
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("volatile functions are not supported below this aggregation"),
				 errdetail("A batch reads its rows several times, to keep inputs of aggregates or late rows, and has to find the same each time."),
				 errhint("Store the function's result in the source when a row is inserted.")));
}

/* columns of the engine's own stand beside those of the result in some statements */
static void
check_names(const Query *select)
{
	ListCell   *lc;

	foreach(lc, select->targetList)
	{
		TargetEntry *tle = lfirst_node(TargetEntry, lc);

		if (!tle->resjunk && tle->resname != NULL &&
			strncmp(tle->resname, SQ_RESERVED_PREFIX, strlen(SQ_RESERVED_PREFIX)) == 0)
			ereport(ERROR,
					(errcode(ERRCODE_RESERVED_NAME),
					 errmsg("column name \"%s\" is reserved", tle->resname),
					 errdetail("Names that begin with \"%s\" are used by streamq.", SQ_RESERVED_PREFIX)));
	}
}

/*
 * Takes a query apart.  select is its definition, which becomes part of the
 * result; an error if it does not stream in the query's output mode.
 */
SqCompiled *
sq_compile_select(const SqQuery *query, Query *select)
{
	SqCompiled *compiled = palloc0(sizeof(SqCompiled));
	Query	   *level;

	check_names(select);
	compiled->query = query;
	compiled->sources = sq_compile_sources(query);
	compiled->select = select;
	compiled->uses = sq_streams_expand(select, query->sources);
	sq_shape_normalise(select);
	level = sq_accept(select, query->output_mode);
	if (level == NULL)
		return compiled;

	compiled->aggregation = sq_aggregation_analyse(level, compiled->sources,
												   query->state_keys, query->state_calls);
	check_volatile(compiled);
	if (strcmp(query->output_mode, "append") == 0)
		check_append(compiled);
	if (strcmp(query->output_mode, "update") == 0)
		check_update(compiled);
	return compiled;
}

/* the columns are called as those of the definition, which may have been renamed */
static void
name_columns(Query *select, Oid definition)
{
	ListCell   *lc;

	foreach(lc, select->targetList)
	{
		TargetEntry *tle = lfirst_node(TargetEntry, lc);

		if (!tle->resjunk)
			tle->resname = get_attname(definition, tle->resno, false);
	}
}

/* Takes a stored query apart. */
SqCompiled *
sq_compile(const SqQuery *query)
{
	Query	   *select = sq_streams_definition(query->definition);
	SqCompiled *compiled;

	sq_query_check_owner(query);
	name_columns(select, query->definition);
	compiled = sq_compile_select(query, select);
	if ((compiled->aggregation != NULL) != (query->strategy != NULL))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("streaming query \"%s\" has changed", query->name),
				 errdetail("A view that it reads has been replaced by one that aggregates, or no longer does."),
				 errhint("Restore the view, or drop and create the query.")));
	return compiled;
}

/* How many parameters the statements have. */
int
sq_compiled_nparams(const SqCompiled *compiled)
{
	return 2 * list_length(compiled->sources) + SQ_NPARAMS;
}

/* The number of a parameter, from 1. */
int
sq_compiled_param(const SqCompiled *compiled, SqParam param)
{
	return 2 * list_length(compiled->sources) + 1 + (int) param;
}

/* The types of all parameters. */
List *
sq_compiled_param_types(const SqCompiled *compiled)
{
	Oid			event = TIMESTAMPTZOID;
	List	   *types = NIL;

	if (compiled->aggregation != NULL && compiled->aggregation->time_key != NULL)
		event = compiled->aggregation->event.column_type;
	for (int i = 0; i < 2 * list_length(compiled->sources); i++)
		types = lappend_oid(types, PG_SNAPSHOTOID);
	types = lappend_oid(types, event);
	types = lappend_oid(types, event);
	return lappend_oid(types, INTERNALOID);
}

/* True if groups become final, and rows late, in the query. */
bool
sq_compiled_has_watermark(const SqCompiled *compiled)
{
	return compiled->aggregation != NULL && compiled->aggregation->time_key != NULL &&
		strcmp(compiled->query->output_mode, "complete") != 0;
}

/* True if the sink holds the present result and nothing else. */
bool
sq_compiled_replaces(const SqCompiled *compiled)
{
	/* of all rows in one group the result is one row, without a key */
	return compiled->aggregation != NULL &&
		(strcmp(compiled->query->output_mode, "complete") == 0 ||
		 (strcmp(compiled->query->output_mode, "update") == 0 &&
		  !sq_aggregation_is_grouped(compiled->aggregation)));
}
