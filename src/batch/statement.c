/*
 * statement.c
 *		Executing the statements of a batch.
 *
 * SPI takes text, and would analyse it anew, under whatever search_path, when
 * the plan has to be renewed.  The statements here are analysed queries, so
 * they are planned (plan.c) and run directly, as COPY (query) TO and CREATE
 * TABLE AS do (copyto.c, createas.c).
 *
 * The caller has set the current user and the query's settings.
 */
#include "batch/statement.h"

#include "access/xact.h"
#include "batch/plan.h"
#include "executor/executor.h"
#include "executor/tstoreReceiver.h"
#include "tcop/dest.h"
#include "tcop/pquery.h"
#include "utils/snapmgr.h"

static QueryDesc *
make_query_desc(PlannedStmt *plan, const SqStatement *statement, ParamListInfo params,
				DestReceiver *receiver)
{
	return CreateQueryDesc(plan, statement->source_text, GetActiveSnapshot(),
						   InvalidSnapshot, receiver, params, NULL, 0);
}

/* executes a statement; returns how many rows it wrote or gave */
static int64
execute(const SqStatement *statement, ParamListInfo params, DestReceiver *receiver)
{
	int64		rows = 0;
	ListCell   *lc;

	foreach(lc, sq_plan_statement(statement, params))
	{
		PlannedStmt *plan = lfirst_node(PlannedStmt, lc);
		QueryDesc  *desc;

		/* see what the statement before has done */
		CommandCounterIncrement();
		PushCopiedSnapshot(GetActiveSnapshot());
		UpdateActiveSnapshotCommandId();
		desc = make_query_desc(plan, statement, params, receiver);
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
 * Executes a statement and returns how many rows it wrote.  A statement of the
 * sink's rules runs along, but does not count.
 */
int64
sq_statement_execute(const SqStatement *statement, ParamListInfo params)
{
	return execute(statement, params, None_Receiver);
}

/* Executes a SELECT; its rows are put into the store. */
void
sq_statement_rows(const SqStatement *statement, ParamListInfo params, Tuplestorestate *rows)
{
	DestReceiver *receiver = CreateDestReceiver(DestTuplestore);

	SetTuplestoreDestReceiverParams(receiver, rows, CurrentMemoryContext, false, NULL, NULL);
	(void) execute(statement, params, receiver);
	receiver->rDestroy(receiver);
}

/* takes the numbers of one row */
typedef struct NumbersReceiver
{
	DestReceiver pub;
	int64	   *numbers;
	int			n;
} NumbersReceiver;

static bool
receive_numbers(TupleTableSlot *slot, DestReceiver *self)
{
	NumbersReceiver *receiver = (NumbersReceiver *) self;

	for (int i = 0; i < receiver->n; i++)
	{
		bool		isnull;

		receiver->numbers[i] = DatumGetInt64(slot_getattr(slot, i + 1, &isnull));
	}
	return true;
}

static void
receiver_startup(DestReceiver *self, int operation, TupleDesc desc)
{
	SQ_UNUSED(self);
	SQ_UNUSED(operation);
	SQ_UNUSED(desc);
}

static void
receiver_nothing(DestReceiver *self)
{
	SQ_UNUSED(self);
}

/* Executes a SELECT that gives one row of n numbers of type bigint. */
void
sq_statement_numbers(const SqStatement *statement, ParamListInfo params,
					 int64 *numbers, int n)
{
	NumbersReceiver receiver;

	memset(&receiver, 0, sizeof(receiver));
	receiver.pub.receiveSlot = receive_numbers;
	receiver.pub.rStartup = receiver_startup;
	receiver.pub.rShutdown = receiver_nothing;
	receiver.pub.rDestroy = receiver_nothing;
	receiver.pub.mydest = DestNone;
	receiver.numbers = numbers;
	receiver.n = n;
	memset(numbers, 0, sizeof(int64) * n);
	(void) execute(statement, params, &receiver.pub);
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

	foreach(lc, sq_plan_statement(statement, params))
	{
		PlannedStmt *plan = lfirst_node(PlannedStmt, lc);
		QueryDesc  *desc = make_query_desc(plan, statement, params, None_Receiver);
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
