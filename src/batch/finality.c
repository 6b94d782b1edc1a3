/*
 * finality.c
 *		Times that statements and batches ask about: the parameters of statements,
 *		and the compiler's rule of finality evaluated on single times.
 *
 * Times are kept as timestamps; a time of a column of type date is a midnight,
 * so the time's day decides.
 */
#include "batch/finality.h"

#include "catalog/pg_type.h"
#include "compiler/delta.h"
#include "compiler/emit.h"
#include "executor/executor.h"
#include "nodes/execnodes.h"
#include "utils/date.h"

/* a time as a value of the event-time column's type */
static Datum
as_event_time(const SqCompiled *compiled, TimestampTz time)
{
	int64		day;

	if (compiled->aggregation->event.column_type != DATEOID)
		return TimestampTzGetDatum(time);
	if (TIMESTAMP_IS_NOBEGIN(time))
		return DateADTGetDatum(DATEVAL_NOBEGIN);
	day = time / USECS_PER_DAY;
	if (time % USECS_PER_DAY < 0)
		day--;
	return DateADTGetDatum((DateADT) day);
}

static void
set_time(const SqCompiled *compiled, ParamListInfo params, SqParam which, bool present,
		 TimestampTz time)
{
	ParamExternData *param = &params->params[sq_compiled_param(compiled, which) - 1];

	param->ptype = list_nth_oid(sq_compiled_param_types(compiled),
								sq_compiled_param(compiled, which) - 1);
	param->pflags = PARAM_FLAG_CONST;
	param->isnull = true;
	param->value = (Datum) 0;
	if (!present || compiled->aggregation == NULL || compiled->aggregation->time_key == NULL)
		return;
	param->isnull = false;
	param->value = as_event_time(compiled, time);
}

/*
 * The parameters of a batch's statements.  value is the offset in those of the
 * sources, see sq_readplan_params(); was_read may be NULL.
 */
ParamListInfo
sq_finality_params(const SqCompiled *compiled, const SqReadPlan *plan, const SqOffset *value,
				   const SqTimes *times, SqWasRead *was_read)
{
	ParamListInfo params = sq_readplan_params(plan, sq_compiled_nparams(compiled), value);
	ParamExternData *read = &params->params[sq_compiled_param(compiled, SQ_PARAM_READ) - 1];

	set_time(compiled, params, SQ_PARAM_WATERMARK, times->has_watermark, times->watermark);
	set_time(compiled, params, SQ_PARAM_CLOSED, times->has_closed, times->closed);
	read->ptype = INTERNALOID;
	read->isnull = was_read == NULL;
	read->value = PointerGetDatum(was_read);
	return params;
}

/* evaluates an expression over the times; NULL if it is */
static Datum
evaluate(const SqCompiled *compiled, Expr *expr, const SqTimes *times, bool *isnull)
{
	static const SqReadPlan nothing = {NULL, 0, false};
	EState	   *estate = CreateExecutorState();
	ExprContext *context = GetPerTupleExprContext(estate);
	Datum		result;

	context->ecxt_param_list_info = sq_finality_params(compiled, &nothing, sq_offset_empty(),
													   times, NULL);
	estate->es_param_list_info = context->ecxt_param_list_info;
	/* all types are passed by value, so the result outlives the context */
	result = ExecEvalExprSwitchContext(ExecPrepareExpr(expr, estate), context, isnull);
	FreeExecutorState(estate);
	return result;
}

/* True if a row with that event time is late under a watermark. */
bool
sq_finality_is_late(const SqCompiled *compiled, TimestampTz time, TimestampTz watermark)
{
	SqTimes		times = {true, watermark, true, time};
	Expr	   *key = sq_event_time_bound(&compiled->aggregation->event,
										  sq_compiled_param(compiled, SQ_PARAM_CLOSED));
	bool		isnull;
	Datum		result = evaluate(compiled, sq_delta_final_expr(compiled, key, SQ_PARAM_WATERMARK),
								  &times, &isnull);

	return !isnull && DatumGetBool(result);
}

/*
 * The time before which all groups are final under a watermark, with a key that
 * is a floor of the time.
 */
TimestampTz
sq_finality_bound(const SqCompiled *compiled, TimestampTz watermark)
{
	SqTimes		times = {true, watermark, false, 0};
	bool		isnull;
	Datum		bound;
	TimestampTz time;

	bound = evaluate(compiled, sq_emit_bound(compiled, SQ_PARAM_WATERMARK), &times, &isnull);
	if (isnull)
		return PG_INT64_MIN;
	if (compiled->aggregation->event.column_type == DATEOID)
	{
		DateADT		date = DatumGetDateADT(bound);

		time = DATE_NOT_FINITE(date) ? PG_INT64_MIN : (TimestampTz) date * USECS_PER_DAY;
	}
	else
		time = DatumGetTimestampTz(bound);
	/* a group of a single moment is final when the watermark is there */
	return compiled->aggregation->event.injective ? time + 1 : time;
}
