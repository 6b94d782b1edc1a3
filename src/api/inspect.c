/*
 * inspect.c
 *		SQL functions that show things: explain, and what the views need.
 */
#include "api/api.h"

#include "access/htup_details.h"
#include "batch/runner.h"
#include "catalog/checkpoint.h"
#include "catalog/pg_class.h"
#include "compiler/emit.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "progress/shared.h"
#include "utils/builtins.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"
#include "utils/tuplestore.h"

PG_FUNCTION_INFO_V1(streamq_explain);
PG_FUNCTION_INFO_V1(streamq_worker_activity);
PG_FUNCTION_INFO_V1(streamq_query_owner);

static void
put_line(ReturnSetInfo *result, const char *text)
{
	Datum		value = CStringGetTextDatum(text);
	bool		isnull = false;

	tuplestore_putvalues(result->setResult, result->setDesc, &value, &isnull);
}

/*
 * streamq.explain(name text) RETURNS SETOF text
 *
 * One row for each statement.
 */
Datum
streamq_explain(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *result = (ReturnSetInfo *) fcinfo->resultinfo;
	SqQuery    *query = sq_query_load_owned(sq_api_name_argument(fcinfo));
	SqIdentity	identity;
	int			nest_level;
	SqCompiled *compiled;
	ListCell   *lc;

	InitMaterializedSRF(fcinfo, MAT_SRF_USE_EXPECTED_DESC);
	sq_runner_become_owner(query, &identity);
	nest_level = sq_settings_push(query->settings);
	compiled = sq_compile(query);
	if (compiled->aggregation != NULL)
		put_line(result, psprintf("-- strategy \"%s\": %s", query->strategy, query->strategy_reason));
	foreach(lc, sq_emit_all(compiled))
	{
		put_line(result, psprintf("%s;", sq_emit_show(lfirst(lc))));
	}
	sq_settings_pop(nest_level);
	sq_runner_become_self(&identity);

	for (int i = 0; sq_checkpoint_statements[i] != NULL; i++)
		put_line(result, psprintf("%s;", sq_checkpoint_statements[i]));
	return (Datum) 0;
}

/* streamq.worker_activity(OUT query_id integer, OUT worker_pid integer) */
Datum
streamq_worker_activity(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *result = (ReturnSetInfo *) fcinfo->resultinfo;

	InitMaterializedSRF(fcinfo, 0);
	if (!sq_shared_available())
		return (Datum) 0;
	for (int i = 0; i < SQ_MAX_TASKS; i++)
	{
		SqTask		task;
		Datum		values[2];
		bool		nulls[2] = {false, false};

		LWLockAcquire(sq_shared->lock, LW_SHARED);
		task = sq_shared->tasks[i];
		LWLockRelease(sq_shared->lock);
		if (task.dbid != MyDatabaseId || task.worker_pid == 0)
			continue;
		values[0] = Int32GetDatum(task.query_id);
		values[1] = Int32GetDatum(task.worker_pid);
		tuplestore_putvalues(result->setResult, result->setDesc, values, nulls);
	}
	return (Datum) 0;
}

/* streamq.query_owner(definition regclass) RETURNS oid; NULL if it is gone */
Datum
streamq_query_owner(PG_FUNCTION_ARGS)
{
	HeapTuple	tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(PG_GETARG_OID(0)));
	Oid			owner;

	if (!HeapTupleIsValid(tuple))
		PG_RETURN_NULL();
	owner = ((Form_pg_class) GETSTRUCT(tuple))->relowner;
	ReleaseSysCache(tuple);
	PG_RETURN_OID(owner);
}
