/*
 * since.c
 *		The table sampling method streamq.since(start, stop): the rows that
 *		became visible after the offset start and up to the offset stop.
 *
 * NextSampleBlock chooses the pages, NextSampleTuple looks at the raw xmin of
 * the tuples that core has found visible on the pinned page.  Executed by a
 * batch, the method takes range and pages from the batch's read plan; executed
 * by anybody else, it reads every page.
 *
 * Assumes heap: the current page is found in the scan descriptor, which is an
 * internal of heapam, the only one used.
 */
#include "streamq.h"

#include "access/heapam.h"
#include "access/htup_details.h"
#include "access/tableam.h"
#include "access/tsmapi.h"
#include "catalog/pg_type.h"
#include "debug_point.h"
#include "fmgr.h"
#include "nodes/execnodes.h"
#include "nodes/pathnodes.h"
#include "source/readplan.h"
#include "storage/bufmgr.h"
#include "utils/rel.h"

PG_FUNCTION_INFO_V1(streamq_since);

typedef struct SinceState
{
	SqPosition	start;
	SqPosition	end;
	bool		test_end;
	bool		planned;		/* by a batch: only the blocks listed */
	bool		exact;			/* cf. SqReadPlan */
	const SqRelationRead *read; /* what is planned; NULL: nothing */
	int64		rows;			/* found so far */
	BlockNumber next_block;
	int			next_tuple;		/* index into the visible tuples of the page */
	bool		page_is_old;	/* see sq_in_range() */
	uint64		next_xid;
} SinceState;

/*
 * The plan of the batch that executes a scan, or NULL if the clause is not one
 * that the engine has put there, with its parameters, but the query's own.
 */
static const SqReadPlan *
engine_plan(ParamListInfo params, List *args)
{
	if (!IsA(linitial(args), Param) ||
		((Param *) linitial(args))->paramkind != PARAM_EXTERN)
		return NULL;
	return sq_readplan_of_params(params);
}

/* How much a scan will read: a batch knows, for others the table's size. */
static void
since_size(PlannerInfo *root, RelOptInfo *baserel, List *paramexprs,
		   BlockNumber *pages, double *tuples)
{
	const SqReadPlan *plan = engine_plan(root->glob->boundParams, paramexprs);
	const SqRelationRead *read;

	if (plan == NULL)
	{
		*pages = baserel->pages;
		*tuples = baserel->tuples;
		return;
	}
	read = sq_readplan_find(plan, root->simple_rte_array[baserel->relid]->relid);
	if (read != NULL && read->unsurveyed)
	{
		*pages = baserel->pages;
		*tuples = baserel->tuples;
		return;
	}
	*pages = read ? read->nblocks : 0;
	*tuples = read ? (double) read->rows : 0;
}

static void
since_init(SampleScanState *node, int eflags)
{
	SinceState *state = palloc0(sizeof(SinceState));

	SQ_UNUSED(eflags);
	if (node->ss.ss_currentRelation->rd_tableam != GetHeapamTableAmRoutine())
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("table \"%s\" does not use the access method \"heap\"",
						RelationGetRelationName(node->ss.ss_currentRelation)),
				 errdetail("Increments can be read only of heap tables.")));
	node->tsm_state = state;
}

/*
 * What the end sees and the statement's snapshot does not would be missed, now
 * and by whoever goes on from that end.
 */
static void
check_snapshot(Snapshot snapshot, const SqOffset *end)
{
	SqOffset   *seen = sq_offset_capture(snapshot);

	if (!sq_offset_sees_all(seen, end))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("offset is newer than the snapshot of the statement"),
				 errhint("Take the offset with streamq.current_offset() in the same transaction.")));
	pfree(seen);
}

static void
since_begin(SampleScanState *node, Datum *params, int nparams, uint32 seed)
{
	SinceState *state = node->tsm_state;
	const SqReadPlan *plan = engine_plan(node->ss.ps.state->es_param_list_info,
										 ((SampleScan *) node->ss.ps.plan)->tablesample->args);

	SQ_UNUSED(nparams);
	SQ_UNUSED(seed);
	state->next_xid = U64FromFullTransactionId(ReadNextFullTransactionId());
	state->next_block = 0;
	state->rows = 0;
	state->next_tuple = 0;
	state->test_end = sq_debug_rule(SQ_RULE_END);

	if (plan != NULL)
	{
		const SqRelationRead *read =
		sq_readplan_find(plan, RelationGetRelid(node->ss.ss_currentRelation));

		state->planned = read == NULL || !read->unsurveyed;
		state->read = read;
		state->exact = plan->exact;
		if (read)
		{
			state->start = read->start;
			state->end = read->end;
		}
	}
	else
	{
		memset(&state->start, 0, sizeof(SqPosition));
		memset(&state->end, 0, sizeof(SqPosition));
		/* the arguments live no longer than until the first row */
		state->start.offset = sq_offset_copy(DatumGetSqOffset(params[0]));
		state->end.offset = sq_offset_copy(DatumGetSqOffset(params[1]));
		sq_offset_check_readable(state->start.offset, state->end.offset,
								 state->next_xid);
		check_snapshot(node->ss.ps.state->es_snapshot, state->end.offset);
	}
	node->use_bulkread = !state->planned ||
		(state->read != NULL && state->read->nblocks > (BlockNumber) NBuffers / 4);
	node->use_pagemode = true;
}

/*
 * At the end of a scan: it has found what the survey has counted, or the batch
 * would move its offsets past rows that it has not read.
 */
static void
check_rows(const SinceState *state)
{
	int64		planned = state->read ? state->read->rows : 0;

	if (state->rows > planned || (state->exact && state->rows < planned))
		elog(ERROR, "batch was to read %lld rows of relation %u but has read %lld",
			 (long long) planned, state->read ? state->read->relid : InvalidOid,
			 (long long) state->rows);
}

static BlockNumber
since_next_block(SampleScanState *node, BlockNumber nblocks)
{
	SinceState *state = node->tsm_state;
	BlockNumber block = InvalidBlockNumber;

	if (!state->planned)
	{
		if (state->next_block < nblocks)
			block = state->next_block++;
	}
	else if (state->read != NULL && state->next_block < state->read->nblocks &&
			 state->read->blocks[state->next_block] < nblocks)
		block = state->read->blocks[state->next_block++];
	else
		check_rows(state);
	state->next_tuple = 0;
	return block;
}

static OffsetNumber
since_next_tuple(SampleScanState *node, BlockNumber blockno,
				 OffsetNumber maxoffset)
{
	SinceState *state = node->tsm_state;
	HeapScanDesc scan = (HeapScanDesc) node->ss.ss_currentScanDesc;
	Page		page = BufferGetPage(scan->rs_cbuf);

	SQ_UNUSED(maxoffset);
	if (state->next_tuple == 0)
	{
		/* the page is pinned only, and its LSN has two halves */
		LockBuffer(scan->rs_cbuf, BUFFER_LOCK_SHARE);
		state->page_is_old = sq_page_is_old(&state->start, page);
		LockBuffer(scan->rs_cbuf, BUFFER_LOCK_UNLOCK);
	}
	while (state->next_tuple < scan->rs_ntuples)
	{
		OffsetNumber offnum = scan->rs_vistuples[state->next_tuple++];
		HeapTupleHeader tuple = (HeapTupleHeader)
		PageGetItem(page, PageGetItemId(page, offnum));
		ItemPointerData tid;
		uint64		xid = sq_offset_widen(HeapTupleHeaderGetRawXmin(tuple),
										  state->next_xid);

		ItemPointerSet(&tid, blockno, offnum);
		if (sq_in_range(&state->start, &state->end, state->test_end,
						state->page_is_old, xid, &tid))
		{
			state->rows++;
			return offnum;
		}
	}
	return InvalidOffsetNumber;
}

/* The handler: CREATE FUNCTION ... RETURNS tsm_handler. */
Datum
streamq_since(PG_FUNCTION_ARGS)
{
	TsmRoutine *tsm = makeNode(TsmRoutine);

	SQ_UNUSED(fcinfo);
	tsm->parameterTypes = list_make2_oid(PG_SNAPSHOTOID, PG_SNAPSHOTOID);
	tsm->repeatable_across_queries = true;
	tsm->repeatable_across_scans = true;
	tsm->SampleScanGetSampleSize = since_size;
	tsm->InitSampleScan = since_init;
	tsm->BeginSampleScan = since_begin;
	tsm->NextSampleBlock = since_next_block;
	tsm->NextSampleTuple = since_next_tuple;
	tsm->EndSampleScan = NULL;
	PG_RETURN_POINTER(tsm);
}
