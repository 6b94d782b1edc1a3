/*
 * handler.c
 *		The index access method streamq_arrivals.
 *
 * An index that finds no rows: it has no scan, so the planner never takes it.  It is an
 * index because that is where PostgreSQL tells of every row inserted, by whatever
 * way, gives a table's partitions what their parent has, and makes it anew with the
 * table.
 */
#include "streamq.h"

#include "access/amapi.h"
#include "access/genam.h"
#include "access/heapam.h"
#include "access/reloptions.h"
#include "access/tableam.h"
#include "arrivals/arrivals.h"
#include "arrivals/map.h"
#include "arrivals/pending.h"
#include "commands/vacuum.h"
#include "fmgr.h"
#include "nodes/execnodes.h"
#include "nodes/pathnodes.h"
#include "progress/wakeup.h"
#include "storage/bufmgr.h"
#include "utils/rel.h"

PG_FUNCTION_INFO_V1(streamq_arrivals_handler);

#define COST_NEVER 1.0e20

static IndexBuildResult *
arrivals_build(Relation heap, Relation index, IndexInfo *info)
{
	IndexBuildResult *result = palloc0(sizeof(IndexBuildResult));

	if (info->ii_Predicate != NIL)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("access method \"%s\" does not support partial indexes",
						SQ_ARRIVALS_AM)));
	if (heap->rd_tableam != GetHeapamTableAmRoutine())
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("table \"%s\" does not use the access method \"heap\"",
						RelationGetRelationName(heap))));
	if (RelationGetNumberOfBlocks(index) != 0)
		elog(ERROR, "index \"%s\" already contains data", RelationGetRelationName(index));
	sq_map_fill(index, RelationGetNumberOfBlocks(heap));
	/* the table may be a new partition of a source */
	sq_wakeup_database_at_commit();

	/* not counted: what pg_class says of the table is to stay */
	result->heap_tuples = result->index_tuples = -1;
	return result;
}

/* an unlogged table begins without pages after a crash, and so does its map */
static void
arrivals_buildempty(Relation index)
{
	SQ_UNUSED(index);
}

static bool
arrivals_insert(Relation index, Datum *values, bool *isnull, ItemPointer tid, Relation heap,
				IndexUniqueCheck check_unique, bool index_unchanged, IndexInfo *info)
{
	SQ_UNUSED(values);
	SQ_UNUSED(isnull);
	SQ_UNUSED(check_unique);
	SQ_UNUSED(index_unchanged);
	/* CREATE INDEX CONCURRENTLY goes over the rows of others, after the build */
	sq_pending_note(index, heap, tid, info->ii_Concurrent);
	return false;
}

/* nothing in it points to rows */
static IndexBulkDeleteResult *
arrivals_bulkdelete(IndexVacuumInfo *info, IndexBulkDeleteResult *stats,
					IndexBulkDeleteCallback callback, void *callback_state)
{
	SQ_UNUSED(info);
	SQ_UNUSED(callback);
	SQ_UNUSED(callback_state);
	return stats ? stats : palloc0(sizeof(IndexBulkDeleteResult));
}

static IndexBulkDeleteResult *
arrivals_vacuumcleanup(IndexVacuumInfo *info, IndexBulkDeleteResult *stats)
{
	if (info->analyze_only)
		return stats;
	if (stats == NULL)
		stats = palloc0(sizeof(IndexBulkDeleteResult));
	stats->num_pages = RelationGetNumberOfBlocks(info->index);
	stats->num_index_tuples = info->num_heap_tuples;
	stats->estimated_count = info->estimated_count;
	return stats;
}

static void
arrivals_costestimate(PlannerInfo *root, IndexPath *path, double loop_count,
					  Cost *startup_cost, Cost *total_cost, Selectivity *selectivity,
					  double *correlation, double *pages)
{
	SQ_UNUSED(root);
	SQ_UNUSED(path);
	SQ_UNUSED(loop_count);
	*startup_cost = *total_cost = COST_NEVER;
	*selectivity = 1;
	*correlation = 0;
	*pages = 1;
}

/* there are no parameters */
static bytea *
arrivals_options(Datum reloptions, bool validate)
{
	return (bytea *) build_reloptions(reloptions, validate, (relopt_kind) 0, 0, NULL, 0);
}

static bool
arrivals_validate(Oid opclass)
{
	SQ_UNUSED(opclass);
	return true;
}

static IndexScanDesc
arrivals_beginscan(Relation index, int nkeys, int norderbys)
{
	SQ_UNUSED(nkeys);
	SQ_UNUSED(norderbys);
	elog(ERROR, "index \"%s\" cannot be scanned", RelationGetRelationName(index));
	return NULL;
}

static void
arrivals_rescan(IndexScanDesc scan, ScanKey keys, int nkeys, ScanKey orderbys, int norderbys)
{
	SQ_UNUSED(scan);
	SQ_UNUSED(keys);
	SQ_UNUSED(nkeys);
	SQ_UNUSED(orderbys);
	SQ_UNUSED(norderbys);
}

static void
arrivals_endscan(IndexScanDesc scan)
{
	SQ_UNUSED(scan);
}

/* The handler: CREATE ACCESS METHOD ... TYPE INDEX HANDLER. */
Datum
streamq_arrivals_handler(PG_FUNCTION_ARGS)
{
	IndexAmRoutine *am = makeNode(IndexAmRoutine);

	SQ_UNUSED(fcinfo);
	/* makeNode has set all else to zero: no strategies, no scans, no order */
	am->amoptionalkey = true;
	am->amsearchnulls = true;
	am->amparallelvacuumoptions = VACUUM_OPTION_NO_PARALLEL;
	am->ambuild = arrivals_build;
	am->ambuildempty = arrivals_buildempty;
	am->aminsert = arrivals_insert;
	am->ambulkdelete = arrivals_bulkdelete;
	am->amvacuumcleanup = arrivals_vacuumcleanup;
	am->amcostestimate = arrivals_costestimate;
	am->amoptions = arrivals_options;
	am->amvalidate = arrivals_validate;
	am->ambeginscan = arrivals_beginscan;
	am->amrescan = arrivals_rescan;
	am->amendscan = arrivals_endscan;
	PG_RETURN_POINTER(am);
}
