/*
 * run.c
 *		CALL streamq.run(): availableNow, in the caller's session.
 *
 * Each batch is a transaction of its own, so this is a procedure that commits,
 * and it cannot run in a transaction block.  It holds the query's lock for the
 * session meanwhile, and gives it back however it ends.
 *
 * A batch acts as the query's owner.  When that is somebody else than the
 * caller, the identity is given back before each commit, so nothing may be left
 * to be executed at commit (see runner.c and execute() in batch.c).
 */
#include "api/api.h"

#include "access/htup_details.h"
#include "access/xact.h"
#include "batch/runner.h"
#include "debug_point.h"
#include "executor/spi.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "nodes/parsenodes.h"
#include "utils/builtins.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"

PG_FUNCTION_INFO_V1(streamq_run);

#define SERIALIZATION_RETRIES_MAX 10

typedef struct RunResult
{
	int64		batches;
	int64		input_rows;
} RunResult;

static void
check_not_in_transaction(FunctionCallInfo fcinfo)
{
	CallContext *context = (CallContext *) fcinfo->context;

	if (context != NULL && IsA(context, CallContext) && !context->atomic &&
		!IsSubTransaction())
		return;
	ereport(ERROR,
			(errcode(ERRCODE_ACTIVE_SQL_TRANSACTION),
			 errmsg("streamq.run() cannot run inside a transaction block"),
			 errdetail("Each batch is committed in a transaction of its own."),
			 errhint("Call it outside of BEGIN ... COMMIT, and not from a function or a block with EXCEPTION.")));
}

/* one batch, up to but without its commit */
static SqBatchOutcome
run_batch(SqRunner *runner)
{
	SqIdentity	identity;
	SqBatchOutcome outcome;
	MemoryContext old;

	MemoryContextReset(runner->batch_context);
	old = MemoryContextSwitchTo(runner->batch_context);
	sq_runner_begin();
	/* it may have been given to somebody else since the batch before */
	sq_runner_become_owner(sq_query_load_owned(runner->name), &identity);
	MemoryContextSwitchTo(old);
	outcome = sq_batch_execute(runner);
	sq_runner_become_self(&identity);
	return outcome;
}

static bool
is_serialization_failure(void)
{
	int			code = geterrcode();

	return code == ERRCODE_T_R_SERIALIZATION_FAILURE ||
		code == ERRCODE_T_R_DEADLOCK_DETECTED;
}

/*
 * The same; a serialization failure is rolled back and tried again.  What the
 * error has left on the stacks of SPI and of active snapshots is removed first,
 * so that SPI_rollback() finds the procedure's own level.
 */
static SqBatchOutcome
run_batch_retrying(SqRunner *runner)
{
	volatile int tries = 0;

	for (;;)
	{
		volatile bool failed = false;
		volatile SqBatchOutcome outcome = SQ_BATCH_IDLE;

		PG_TRY();
		{
			outcome = run_batch(runner);
		}
		PG_CATCH();
		{
			if (++tries > SERIALIZATION_RETRIES_MAX || !is_serialization_failure())
				PG_RE_THROW();
			MemoryContextSwitchTo(runner->context);
			FlushErrorState();
			while (!SPI_inside_nonatomic_context())
				SPI_finish();
			while (ActiveSnapshotSet())
				PopActiveSnapshot();
			SPI_rollback();
			sq_runner_forget(runner);
			failed = true;
		}
		PG_END_TRY();
		if (!failed)
			return outcome;
		CHECK_FOR_INTERRUPTS();
	}
}

/* all batches; the caller holds the query's lock */
static void
run_batches(SqRunner *runner, RunResult *result)
{
	MemoryContext old = MemoryContextSwitchTo(runner->context);

	runner->goal_horizon = sq_horizon_now();
	runner->goal = sq_offset_now();
	MemoryContextSwitchTo(old);
	for (;;)
	{
		SPI_commit();
		if (run_batch_retrying(runner) != SQ_BATCH_DONE)
			break;
		SPI_commit();
		sq_debug_point("after-commit");
		result->batches++;
		result->input_rows += runner->input_rows;
		if (runner->reached)
			break;
	}
	if (runner->had_failures)
		sq_query_record_recovery(runner->name);
	/* what follows in the caller's block gets a transaction of his own kind */
	SPI_commit();
}

static Datum
make_result(FunctionCallInfo fcinfo, const RunResult *result)
{
	TupleDesc	desc;
	Datum		values[2];
	bool		nulls[2] = {false, false};

	if (get_call_result_type(fcinfo, NULL, &desc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");
	values[0] = Int64GetDatum(result->batches);
	values[1] = Int64GetDatum(result->input_rows);
	return HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(desc), values, nulls));
}

/*
 * CALL streamq.run(name text, INOUT batches bigint, INOUT input_rows bigint)
 *
 * Processes all that is committed at the call; what is given for the INOUT
 * arguments does not matter.  Waits while somebody else runs the query.
 */
Datum
streamq_run(PG_FUNCTION_ARGS)
{
	RunResult	result = {0, 0};
	SqQuery    *query;
	SqRunner   *volatile runner = NULL;
	SqQueryLock lock;

	check_not_in_transaction(fcinfo);
	PreventCommandDuringRecovery("streamq.run()");
	query = sq_query_load_owned(sq_api_name_argument(fcinfo));
	(void) sq_query_lock(query->query_id, true, true, &lock);
	PG_TRY();
	{
		runner = sq_runner_create(query->name, query->query_id, false, TopMemoryContext);
		SPI_connect_ext(SPI_OPT_NONATOMIC);
		run_batches(runner, &result);
		SPI_finish();
	}
	PG_FINALLY();
	{
		sq_query_unlock(&lock);
		if (runner != NULL)
			sq_runner_destroy(runner);
	}
	PG_END_TRY();
	return make_result(fcinfo, &result);
}
