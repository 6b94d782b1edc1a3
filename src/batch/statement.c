/*
 * statement.c
 *		Planning and executing the statements of a batch.
 *
 * SPI takes text, and would analyse it anew, under whatever search_path, when
 * the plan has to be renewed.  The statements here are analysed queries, so
 * they are rewritten, planned and run directly, as COPY (query) TO and CREATE
 * TABLE AS do (copyto.c, createas.c).
 *
 * The caller has set the current user and the query's settings.
 */
#include "batch/statement.h"

#include "access/xact.h"
#include "executor/executor.h"
#include "rewrite/rewriteHandler.h"
#include "tcop/dest.h"
#include "tcop/pquery.h"
#include "tcop/tcopprot.h"
#include "utils/snapmgr.h"

/* rewrites and plans; returns a list of PlannedStmt */
static List *
plan_statement(const SqStatement *statement, ParamListInfo params)
{
	Query	   *query = copyObject(statement->query);
	List	   *plans = NIL;
	ListCell   *lc;

	AcquireRewriteLocks(query, true, false);
	foreach(lc, QueryRewrite(query))
	{
		Query	   *rewritten = lfirst_node(Query, lc);

		if (rewritten->commandType == CMD_UTILITY)
			ereport(ERROR,
					(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
					 errmsg("a rule on the sink executes a utility command"),
					 errhint("Use a trigger instead.")));
		plans = lappend(plans, pg_plan_query(rewritten, statement->source_text,
											 CURSOR_OPT_PARALLEL_OK, params));
	}
	return plans;
}

static QueryDesc *
make_query_desc(PlannedStmt *plan, const SqStatement *statement, ParamListInfo params)
{
	return CreateQueryDesc(plan, statement->source_text, GetActiveSnapshot(),
						   InvalidSnapshot, None_Receiver, params, NULL, 0);
}

/*
 * Executes a statement and returns how many rows it wrote.  A statement of the
 * sink's rules runs along, but does not count.
 */
int64
sq_statement_execute(const SqStatement *statement, ParamListInfo params)
{
	int64		rows = 0;
	ListCell   *lc;

	foreach(lc, plan_statement(statement, params))
	{
		PlannedStmt *plan = lfirst_node(PlannedStmt, lc);
		QueryDesc  *desc;

		/* see what the statement before has done */
		CommandCounterIncrement();
		PushCopiedSnapshot(GetActiveSnapshot());
		UpdateActiveSnapshotCommandId();
		desc = make_query_desc(plan, statement, params);
		ExecutorStart(desc, 0);
		ExecutorRun(desc, ForwardScanDirection, 0, true);
		ExecutorFinish(desc);
		if (plan->canSetTag)
			rows += desc->estate->es_processed;
		ExecutorEnd(desc);
		FreeQueryDesc(desc);
		PopActiveSnapshot();
	}
	CommandCounterIncrement();
	return rows;
}

/*
 * Plans a statement and starts its executor without running it, so that every
 * error that depends on rights or definitions comes up.  Returns the oids of
 * the tables that it would write.
 */
List *
sq_statement_try(const SqStatement *statement, ParamListInfo params)
{
	List	   *written = NIL;
	ListCell   *lc;

	foreach(lc, plan_statement(statement, params))
	{
		PlannedStmt *plan = lfirst_node(PlannedStmt, lc);
		QueryDesc  *desc = make_query_desc(plan, statement, params);
		ListCell   *lc2;

		ExecutorStart(desc, EXEC_FLAG_EXPLAIN_ONLY);
		ExecutorEnd(desc);
		foreach(lc2, plan->resultRelations)
		{
			written = lappend_oid(written,
								  list_nth_node(RangeTblEntry, plan->rtable,
												lfirst_int(lc2) - 1)->relid);
		}
		FreeQueryDesc(desc);
	}
	return written;
}
