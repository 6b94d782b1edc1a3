/*
 * show.c
 *		SQL functions that show a query's result: state, live, verify.
 *
 * All that one of them reads, the checkpoint included, is of the snapshot of the
 * calling statement, so sink and state fit together whatever a worker does
 * meanwhile.  The statements run as the query's owner, under its settings, as a
 * security-restricted operation.
 */
#include "api/api.h"

#include "batch/finality.h"
#include "batch/runner.h"
#include "batch/statement.h"
#include "catalog/checkpoint.h"
#include "compiler/emit.h"
#include "compiler/strategy.h"
#include "executor/executor.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "spi.h"
#include "state/state.h"
#include "utils/acl.h"
#include "utils/lsyscache.h"
#include "utils/rls.h"
#include "utils/snapmgr.h"

PG_FUNCTION_INFO_V1(streamq_state);
PG_FUNCTION_INFO_V1(streamq_live);
PG_FUNCTION_INFO_V1(streamq_verify);

/* a query looked at */
typedef struct Shown
{
	SqQuery    *query;
	SqCompiled *compiled;
	SqCheckpoint *checkpoint;
	ParamListInfo params;
	SqReadPlan	plan;			/* all rows processed so far */
	FunctionCallInfo fcinfo;
} Shown;

/* what has been read of all relations, to be read again */
static void
plan_processed(Shown *shown, List *inputs)
{
	List	   *relids = NIL;
	int			n = 0;
	ListCell   *lc;

	foreach(lc, inputs)
	{
		relids = list_concat_copy(relids, ((SqInput *) lfirst(lc))->relations);
	}
	list_sort(relids, list_oid_cmp);
	shown->checkpoint = sq_checkpoint_load(shown->query->name, relids);
	shown->plan.relations = palloc0(sizeof(SqRelationRead) * (list_length(relids) + 1));
	foreach(lc, relids)
	{
		const SqRelationOffset *offset = sq_checkpoint_find(shown->checkpoint, lfirst_oid(lc));
		SqRelationRead *read = &shown->plan.relations[n];

		if (offset == NULL)
			continue;
		read->relid = lfirst_oid(lc);
		read->start.offset = sq_checkpoint_first(shown->query->name, lfirst_oid(lc));
		read->end = offset->position;
		read->unsurveyed = true;
		n++;
	}
	shown->plan.nrelations = n;
}

static void
begin(Shown *shown)
{
	SqTimes		times = {false, 0, false, 0};

	sq_batch_check_checkpoint(shown->query);
	shown->compiled = sq_compile(shown->query);
	plan_processed(shown, sq_batch_inputs(shown->compiled));
	times.has_closed = shown->checkpoint->had_watermark;
	times.closed = shown->checkpoint->batch_watermark;
	shown->params = sq_finality_params(shown->compiled, &shown->plan, sq_offset_empty(), &times, NULL);
}

/* puts the rows of a statement into the function's result */
static void
return_rows(ReturnSetInfo *result, const SqStatement *statement, ParamListInfo params)
{
	MemoryContext old = MemoryContextSwitchTo(result->econtext->ecxt_per_query_memory);

	result->returnMode = SFRM_Materialize;
	result->setDesc = BlessTupleDesc(ExecCleanTypeFromTL(statement->query->targetList));
	result->setResult = tuplestore_begin_heap(true, false, work_mem);
	MemoryContextSwitchTo(old);
	sq_statement_rows(statement, params, result->setResult);
}

static void
show_state(ReturnSetInfo *result, Shown *shown)
{
	if (shown->compiled->aggregation == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("streaming query \"%s\" keeps no state", shown->query->name),
				 errdetail("It does not aggregate.")));
	if (sq_strategy_is_source(shown->compiled))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("streaming query \"%s\" keeps no state", shown->query->name),
				 errdetail("Its groups are read from the source when they are final: %s.",
						   shown->query->strategy_reason),
				 errhint("Use streamq.live() to see the groups in progress.")));
	return_rows(result, sq_emit_held(shown->compiled), shown->params);
}

static void
show_live(ReturnSetInfo *result, Shown *shown)
{
	return_rows(result, sq_emit_live(shown->compiled), shown->params);
}

/* says so if rows that were processed are gone */
static void
report_trimmed(Shown *shown)
{
	int64		there = 0;

	if (sq_strategy_is_filtered(shown->compiled))
		return;					/* what is hidden is not gone */
	for (int i = 0; i < list_length(shown->compiled->sources); i++)
	{
		SqStatement *count = sq_emit_count(shown->compiled, i);
		int64		rows;

		if (count == NULL)
			return;
		sq_statement_numbers(count, shown->params, &rows, 1);
		there += rows;
	}
	if (there < shown->checkpoint->total_input_rows)
		ereport(WARNING,
				(errmsg("the sources of streaming query \"%s\" have been trimmed", shown->query->name),
				 errdetail("Of %lld rows that were processed %lld are still there, so the plain SELECT lacks the others.",
						   (long long) shown->checkpoint->total_input_rows, (long long) there)));
}

static void
show_differences(ReturnSetInfo *result, Shown *shown)
{
	/*
	 * of no rows at all there may be a result, too, but nobody has been asked
	 * for it
	 */
	if (shown->checkpoint->batch_id < 0 && shown->compiled->aggregation != NULL &&
		!sq_aggregation_is_grouped(shown->compiled->aggregation))
	{
		InitMaterializedSRF(shown->fcinfo, MAT_SRF_USE_EXPECTED_DESC);
		return;
	}
	report_trimmed(shown);
	return_rows(result, sq_emit_verify(shown->compiled, shown->checkpoint->total_late_rows > 0),
				shown->params);
}

/* who may read a query's sink may see what is going to be in it */
static SqQuery *
load_readable(const char *name)
{
	SqQuery    *query = sq_query_load(name, false);

	if (OidIsValid(query->owner) &&
		pg_class_aclcheck(query->sink, GetUserId(), ACL_SELECT) == ACLCHECK_OK &&
		check_enable_rls(query->sink, InvalidOid, true) != RLS_ENABLED)
		return query;
	return sq_query_load_owned(name);
}

/* calls a function that shows something, in the right circumstances */
static Datum
show(FunctionCallInfo fcinfo, void (*function) (ReturnSetInfo *, Shown *))
{
	ReturnSetInfo *result = (ReturnSetInfo *) fcinfo->resultinfo;
	Shown		shown;
	SqIdentity	identity;
	int			nest_level;

	if (result == NULL || !IsA(result, ReturnSetInfo) || !(result->allowedModes & SFRM_Materialize))
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("set-valued function called in context that cannot accept a set")));
	memset(&shown, 0, sizeof(shown));
	shown.fcinfo = fcinfo;
	shown.query = function == show_live ? load_readable(sq_api_name_argument(fcinfo)) :
		sq_query_load_owned(sq_api_name_argument(fcinfo));
	sq_state_set_owner(shown.query);
	sq_runner_become_owner(shown.query, &identity);
	nest_level = sq_settings_push(shown.query->settings);
	PG_TRY();
	{
		sq_engine_snapshot = GetActiveSnapshot();
		begin(&shown);
	}
	PG_FINALLY();
	{
		sq_engine_snapshot = NULL;
	}
	PG_END_TRY();
	function(result, &shown);
	sq_settings_pop(nest_level);
	sq_runner_become_self(&identity);
	return (Datum) 0;
}

/*
 * streamq.state(name text) RETURNS SETOF record
 *
 * The columns are those of the level of the query that aggregates.
 */
Datum
streamq_state(PG_FUNCTION_ARGS)
{
	return show(fcinfo, show_state);
}

/*
 * streamq.live(name text) RETURNS SETOF record
 *
 * The columns are those of the query.  For its owner, and those who may read the sink.
 */
Datum
streamq_live(PG_FUNCTION_ARGS)
{
	return show(fcinfo, show_live);
}

/*
 * streamq.verify(name text, OUT difference text, OUT row_data jsonb,
 *		OUT explained_by_late_rows boolean) RETURNS SETOF record
 *
 * difference is "missing" for a row that the sink should have, and "unexpected"
 * for one that it should not.
 */
Datum
streamq_verify(PG_FUNCTION_ARGS)
{
	return show(fcinfo, show_differences);
}
