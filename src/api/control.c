/*
 * control.c
 *		SQL functions that control the background: start, stop, wait.
 */
#include "api/api.h"
#include "api/define.h"

#include "access/table.h"
#include "batch/aggregate.h"
#include "batch/runner.h"
#include "catalog/checkpoint.h"
#include "catalog/querydef.h"
#include "miscadmin.h"
#include "progress/shared.h"
#include "source/physical.h"
#include "source/survey.h"
#include "state/state.h"
#include "storage/latch.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"
#include "utils/wait_event.h"

PG_FUNCTION_INFO_V1(streamq_start);
PG_FUNCTION_INFO_V1(streamq_stop);
PG_FUNCTION_INFO_V1(streamq_wait);

#define WAIT_NAP_MS 20			/* streamq.run() does not wake us */
#define LOOK_ANYWAY_MS 1000

/*
 * streamq.start(name text, trigger_interval interval)
 *
 * trigger_interval: 0 for a batch as soon as there is data.  Takes effect when
 * the transaction commits.
 */
Datum
streamq_start(PG_FUNCTION_ARGS)
{
	char	   *name = sq_api_name_argument(fcinfo);
	SqQuery    *query = sq_query_load_owned(name);
	Interval	zero = {0, 0, 0};
	Interval	longest = {0, 0, 100 * MONTHS_PER_YEAR};
	Interval   *interval;

	if (PG_ARGISNULL(1))
		sq_api_null_argument("trigger_interval");
	interval = PG_GETARG_INTERVAL_P(1);
	if (sq_api_compare_intervals(interval, &zero) < 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("trigger interval must not be negative")));
	if (sq_api_compare_intervals(interval, &longest) > 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("trigger interval must not be longer than 100 years")));
	if (!sq_shared_available())
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("streamq must be loaded via shared_preload_libraries to run queries in the background"),
				 errhint("Add streamq to shared_preload_libraries and restart the server, or use CALL streamq.run().")));
	sq_batch_check_checkpoint(query);
	/* and not by somebody else either, who has not committed when we look */
	if (query->active || !sq_query_set_started(name, interval))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_IN_USE),
				 errmsg("streaming query \"%s\" is already started", name),
				 errhint("Use streamq.stop() first.")));
	/* pg_upgrade has not taken that */
	sq_define_depend(query);
	sq_shared_sync_at_commit();
	PG_RETURN_VOID();
}

/*
 * streamq.stop(name text)
 *
 * A batch under way is abandoned; it will be done again.  Does nothing to a
 * query that is not started.
 */
Datum
streamq_stop(PG_FUNCTION_ARGS)
{
	char	   *name = sq_api_name_argument(fcinfo);
	SqQuery    *query = sq_query_load_owned(name);

	sq_query_check_outside(query);
	sq_shared_stop(query->query_id);
	if (query->active || query->failed)
		sq_query_set_stopped(name);
	PG_RETURN_VOID();
}

/* ------------------------------------------------------------------- wait */

/* true if a relation has no row up to the offset that has not been read */
static bool
relation_is_done(Oid relid, const SqCheckpoint *checkpoint, SqOffset *upto)
{
	const SqRelationOffset *last = sq_checkpoint_find(checkpoint, relid);
	Relation	rel = table_open(relid, NoLock);
	SqSurveyRequest request;
	SqSurvey	survey;

	memset(&request, 0, sizeof(request));
	if (last != NULL)
		request.start = last->position;
	else
		request.start.offset = sq_offset_empty();
	request.end.offset = upto;
	request.snapshot = GetActiveSnapshot();
	request.stop_after = 1;
	sq_survey_init(&survey);
	sq_survey_relation(rel, &request, &survey);
	table_close(rel, NoLock);
	return survey.rows == 0;
}

/* true if groups are final under the watermark that the last batch has left */
static bool
groups_are_due(const SqQuery *query, const SqCheckpoint *checkpoint)
{
	SqIdentity	identity;
	int			nest_level;
	bool		due;

	if (query->strategy == NULL)
		return false;
	sq_state_set_owner(query);
	sq_runner_become_owner(query, &identity);
	nest_level = sq_settings_push(query->settings);
	due = sq_aggregate_is_due(sq_prepared_once(sq_compile(query)), checkpoint);
	sq_settings_pop(nest_level);
	sq_runner_become_self(&identity);
	return due;
}

/*
 * True if a query has processed all rows up to an offset, and the batch without
 * rows that may have to follow.
 */
static bool
query_is_done(SqQuery *query, SqOffset *upto, int64 *batch_id, bool look_anyway)
{
	List	   *relations = NIL;
	SqCheckpoint *checkpoint;
	bool		done = true;
	ListCell   *lc;

	foreach(lc, query->sources)
	{
		relations = list_concat(relations, sq_physical_relations(lfirst_oid(lc), true));
	}
	checkpoint = sq_checkpoint_load(query->name, relations);

	/*
	 * Looking again is worth while after a further batch; now and then also
	 * without one, as rows may have been deleted instead of processed.
	 */
	if (checkpoint->batch_id == *batch_id && !look_anyway)
		return false;
	*batch_id = checkpoint->batch_id;

	PushActiveSnapshot(GetLatestSnapshot());
	foreach(lc, relations)
	{
		if (!relation_is_done(lfirst_oid(lc), checkpoint, upto))
		{
			done = false;
			break;
		}
	}
	if (done)
		done = !groups_are_due(query, checkpoint);
	PopActiveSnapshot();
	return done;
}

/* waits until a worker has run the query, or a little while */
static void
nap(int32 query_id, uint32 *slices)
{
	if (sq_shared_available())
		sq_shared_wait(query_id, slices, WAIT_NAP_MS);
	else
		(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH,
						 WAIT_NAP_MS, PG_WAIT_EXTENSION);
	ResetLatch(MyLatch);
	CHECK_FOR_INTERRUPTS();
}

/* an error if nobody is going to process anything */
static void
check_running(const SqQuery *query, bool may_time_out)
{
	if (query->failed)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("streaming query \"%s\" has failed", query->name),
				 errdetail("%s", query->last_error ? query->last_error : ""),
				 errhint("Mend the cause, then use streamq.start() to continue from the same offsets.")));
	if (!query->active && !may_time_out)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("streaming query \"%s\" is not started", query->name),
				 errhint("Use streamq.start(), or CALL streamq.run().")));
}

/*
 * streamq.wait(name text, timeout interval) RETURNS boolean
 *
 * timeout: NULL to wait as long as it takes.  True once all rows committed
 * before the call are processed, and groups that have become final by that are given
 * out; false on timeout.
 */
Datum
streamq_wait(PG_FUNCTION_ARGS)
{
	char	   *name = sq_api_name_argument(fcinfo);
	bool		has_timeout = !PG_ARGISNULL(1);
	TimestampTz until = 0;
	TimestampTz look_at = 0;
	SqOffset   *upto = sq_offset_now();
	int64		batch_id = -2;
	uint32		slices = 0;
	MemoryContext context;

	if (has_timeout)
		until = DatumGetTimestampTz(DirectFunctionCall2(timestamptz_pl_interval,
														TimestampTzGetDatum(GetCurrentTimestamp()),
														IntervalPGetDatum(PG_GETARG_INTERVAL_P(1))));
	context = AllocSetContextCreate(CurrentMemoryContext, "streamq wait",
									ALLOCSET_DEFAULT_SIZES);
	MemoryContextSwitchTo(context);
	for (;;)
	{
		SqQuery    *query = sq_query_load_owned(name);
		TimestampTz now = GetCurrentTimestamp();
		bool		look_anyway = now >= look_at;

		sq_query_check_outside(query);
		if (look_anyway)
			look_at = now + LOOK_ANYWAY_MS * INT64CONST(1000);
		sq_batch_check_checkpoint(query);
		if (query_is_done(query, upto, &batch_id, look_anyway))
			PG_RETURN_BOOL(true);
		check_running(query, has_timeout);
		if (has_timeout && now >= until)
			PG_RETURN_BOOL(false);
		nap(query->query_id, &slices);
		MemoryContextReset(context);
	}
}
