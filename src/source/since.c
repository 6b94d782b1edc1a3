/*
 * since.c
 *		The table sampling method streamq.since(start, stop): the rows that
 *		became visible after the offset start and up to the offset stop.
 *
 * NextSampleBlock chooses the pages, NextSampleTuple looks at the raw xmin of
 * the tuples that core has found visible on the pinned page.  Executed by a
 * batch, the method takes range and pages from the batch's read plan; executed
 * by anybody else, it asks the arrival map, and without one reads every page.
 *
 * Assumes heap: the current page is found in the scan descriptor, which is an
 * internal of heapam, the only one used.
 */
#include "streamq.h"

#include "access/heapam.h"
#include "access/htup_details.h"
#include "access/tableam.h"
#include "access/tsmapi.h"
#include "arrivals/arrivals.h"
#include "catalog/pg_type.h"
#include "fmgr.h"
#include "nodes/execnodes.h"
#include "nodes/pathnodes.h"
#include "source/guard.h"
#include "source/range.h"
#include "source/readplan.h"
#include "storage/bufmgr.h"
#include "utils/rel.h"

PG_FUNCTION_INFO_V1(streamq_since);

typedef struct SinceState
{
	SqRange		range;
	bool		planned;		/* by a batch, that has counted the rows */
	bool		exact;			/* cf. SqReadPlan */
	const SqRelationRead *read; /* what is planned; NULL: nothing */
	int64		rows;			/* found so far */
	bool		listed;			/* only the blocks listed */
	const BlockNumber *blocks;
	BlockNumber nblocks;
	BlockNumber next_block;
	int			next_tuple;		/* index into the visible tuples of the page */
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

/* what a batch has planned for a relation */
static void
begin_planned(SinceState *state, Relation rel, const SqReadPlan *plan)
{
	const SqRelationRead *read = sq_readplan_find(plan, RelationGetRelid(rel));

	state->read = read;
	state->exact = plan->exact;
	state->planned = state->listed = read == NULL || !read->unsurveyed;
	state->blocks = read ? read->blocks : NULL;
	state->nblocks = read ? read->nblocks : 0;
	if (read != NULL)
		sq_range_open(&state->range, rel, &read->start, &read->end);
}

/* what anybody else asks for */
static void
begin_unplanned(SinceState *state, SampleScanState *node, Datum *params)
{
	Relation	rel = node->ss.ss_currentRelation;
	MemoryContext old = MemoryContextSwitchTo(node->ss.ps.state->es_query_cxt);
	SqPosition	start = {0};
	SqPosition	end = {0};
	SqArrivalBlocks found;

	/* the arguments live no longer than until the first row */
	start.offset = sq_offset_copy(DatumGetSqOffset(params[0]));
	end.offset = sq_offset_copy(DatumGetSqOffset(params[1]));
	sq_range_open(&state->range, rel, &start, &end);
	check_snapshot(node->ss.ps.state->es_snapshot, end.offset);

	/* an UPDATE that keeps the row on its page (HOT) is not in the map */
	state->listed = sq_source_is_guarded(rel) &&
		sq_arrivals_blocks(rel, &start, &end, RelationGetNumberOfBlocks(rel), &found, NULL);
	if (state->listed)
	{
		state->blocks = found.blocks;
		state->nblocks = found.nblocks;
	}
	MemoryContextSwitchTo(old);
}

static void
since_begin(SampleScanState *node, Datum *params, int nparams, uint32 seed)
{
	SinceState *state = node->tsm_state;
	const SqReadPlan *plan = engine_plan(node->ss.ps.state->es_param_list_info,
										 ((SampleScan *) node->ss.ps.plan)->tablesample->args);

	SQ_UNUSED(nparams);
	SQ_UNUSED(seed);
	state->next_block = 0;
	state->rows = 0;
	state->next_tuple = 0;
	if (plan != NULL)
		begin_planned(state, node->ss.ss_currentRelation, plan);
	else
		begin_unplanned(state, node, params);
	node->use_bulkread = !state->listed || state->nblocks > (BlockNumber) NBuffers / 4;
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

	if (!state->listed)
	{
		if (state->next_block < nblocks)
			block = state->next_block++;
	}
	else if (state->next_block < state->nblocks && state->blocks[state->next_block] < nblocks)
		block = state->blocks[state->next_block++];
	else if (state->planned)
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
	while (state->next_tuple < scan->rs_ntuples)
	{
		OffsetNumber offnum = scan->rs_vistuples[state->next_tuple++];
		HeapTupleHeader tuple = (HeapTupleHeader)
		PageGetItem(page, PageGetItemId(page, offnum));
		ItemPointerData tid;
		uint64		xid;

		ItemPointerSet(&tid, blockno, offnum);
		if (sq_range_has(&state->range, scan->rs_cbuf, tuple, &tid, &xid))
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
