/*
 * arrivals.c
 *		SQL functions that look at arrival maps: what a query still has to read, and
 *		the map itself.
 *
 * The former must not get in anybody's way, nor wait: streamq.status calls it.  So a
 * table that is locked gives NULL, as does a map that cannot be read, and no more than
 * a few pages of a table are read.
 */
#include "api/api.h"

#include <math.h>

#include "access/genam.h"
#include "access/relation.h"
#include "access/table.h"
#include "access/xact.h"
#include "access/xlog.h"
#include "arrivals/arrivals.h"
#include "arrivals/map.h"
#include "catalog/checkpoint.h"
#include "catalog/objectaddress.h"
#include "catalog/pg_class.h"
#include "catalog/pg_inherits.h"
#include "catalog/querydef.h"
#include "compat.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "source/survey.h"
#include "storage/bufmgr.h"
#include "storage/lmgr.h"
#include "utils/acl.h"
#include "utils/xid8.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/resowner.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"
#include "utils/tuplestore.h"

PG_FUNCTION_INFO_V1(streamq_pending);
PG_FUNCTION_INFO_V1(streamq_arrivals);

/* blocks of a table that are looked at, at most, for each of two estimates */
#define BLOCKS_READ_MAX ((BlockNumber) 64)

typedef struct Pending
{
	double		pages;
	double		rows;
} Pending;

/* ------------------------------------------------------------------- pending */

/* the physical relations of a query's sources, locked; false if one cannot be had now */
static bool
lock_relations(const SqQuery *query, List **relations)
{
	ListCell   *lc;
	ListCell   *lc2;

	*relations = NIL;
	foreach(lc, query->sources)
	{
		Oid			source = lfirst_oid(lc);
		List	   *all = get_rel_relkind(source) == RELKIND_PARTITIONED_TABLE ?
		find_all_inheritors(source, NoLock, NULL) : list_make1_oid(source);

		foreach(lc2, all)
		{
			Oid			relid = lfirst_oid(lc2);

			if (get_rel_relkind(relid) != RELKIND_RELATION)
				continue;
			if (!ConditionalLockRelationOid(relid, AccessShareLock) ||
				!SearchSysCacheExists1(RELOID, ObjectIdGetDatum(relid)))
				return false;
			*relations = lappend_oid(*relations, relid);
		}
	}
	return true;
}

/*
 * Looks at blocks, at some of them if they are many: how many hold rows of the range, and
 * how many rows.
 */
static Pending
look_at(Relation rel, const SqPosition *start, const SqPosition *end,
		const BlockNumber *blocks, BlockNumber nblocks)
{
	BlockNumber count = Min(nblocks, BLOCKS_READ_MAX / 2);
	BlockNumber chosen[BLOCKS_READ_MAX / 2];
	SqSurveyRequest request;
	SqSurvey	survey;
	Pending		found = {0, 0};

	if (count == 0)
		return found;
	for (BlockNumber i = 0; i < count; i++)
		chosen[i] = blocks[i * (uint64) nblocks / count];
	memset(&request, 0, sizeof(request));
	request.start = *start;
	request.end = *end;
	request.snapshot = GetActiveSnapshot();
	request.is_estimate = true;
	request.only_blocks = chosen;
	request.nonly_blocks = count;
	sq_survey_init(&survey);
	sq_survey_relation(rel, &request, &survey);
	found.pages = (double) survey.nblocks * nblocks / count;
	found.rows = (double) survey.rows * nblocks / count;
	return found;
}

/* the same; the last blocks, where new rows mostly are, are counted one by one */
static Pending
look_at_last(Relation rel, const SqPosition *start, const SqPosition *end,
			 const SqArrivalBlocks *blocks)
{
	BlockNumber last = Min(blocks->nblocks, BLOCKS_READ_MAX / 2);
	BlockNumber rest = blocks->nblocks - last;
	Pending		found = look_at(rel, start, end, blocks->blocks, rest);
	Pending		more;

	if (last == 0)
		return found;
	more = look_at(rel, start, end, blocks->blocks + rest, last);
	found.pages += more.pages;
	found.rows += more.rows;
	return found;
}

/* adds what is pending of a relation; false if it has no map, or cannot be read */
static bool
add_relation(Oid relid, const SqCheckpoint *checkpoint, const SqPosition *end,
			 Pending *pending)
{
	const SqRelationOffset *last = sq_checkpoint_find(checkpoint, relid);
	Relation	rel = table_open(relid, NoLock);
	SqPosition	start = {0};
	SqArrivalBlocks sure;
	SqArrivalBlocks doubtful;
	bool		has_map;

	if (last != NULL)
		start = last->position;
	else
		start.offset = sq_offset_empty();
	has_map = !sq_offset_is_too_old(start.offset,
									U64FromFullTransactionId(ReadNextFullTransactionId())) &&
		sq_arrivals_blocks(rel, &start, end, RelationGetNumberOfBlocks(rel), &sure, &doubtful);
	if (has_map)
	{
		Pending		more = look_at_last(rel, &start, end, &doubtful);

		pending->pages += sure.nblocks + more.pages;
		pending->rows += look_at_last(rel, &start, end, &sure).rows + more.rows;
	}
	table_close(rel, NoLock);
	return has_map;
}

/* what is pending of a query; false if that cannot be said */
static bool
find_pending(const SqQuery *query, Pending *pending)
{
	List	   *relations;
	SqCheckpoint *checkpoint;
	SqPosition	end = {0};
	ListCell   *lc;

	if (query->is_restored || !lock_relations(query, &relations))
		return false;
	checkpoint = sq_checkpoint_load(query->name, relations);
	end.offset = sq_offset_capture(GetActiveSnapshot());
	foreach(lc, relations)
	{
		if (!add_relation(lfirst_oid(lc), checkpoint, &end, pending))
			return false;
	}
	return true;
}

/* errors that are about a query's data; who looks at all queries is not to get them */
static bool
is_of_query(int sqlstate)
{
	return sqlstate == ERRCODE_INDEX_CORRUPTED || sqlstate == ERRCODE_DATA_CORRUPTED ||
		sqlstate == ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE;
}

/* The same; such an error counts as "cannot be said". */
static bool
try_to_find_pending(const SqQuery *query, Pending *pending)
{
	MemoryContext context = CurrentMemoryContext;
	ResourceOwner owner = CurrentResourceOwner;
	volatile bool found = false;

	BeginInternalSubTransaction(NULL);
	MemoryContextSwitchTo(context);
	PG_TRY();
	{
		found = find_pending(query, pending);
		ReleaseCurrentSubTransaction();
	}
	PG_CATCH();
	{
		if (!is_of_query(geterrcode()))
			PG_RE_THROW();
		RollbackAndReleaseCurrentSubTransaction();
		FlushErrorState();
	}
	PG_END_TRY();
	MemoryContextSwitchTo(context);
	CurrentResourceOwner = owner;
	return found;
}

/*
 * streamq.pending(name text, OUT pages bigint, OUT rows bigint)
 *
 * Pages of the sources that may hold rows not yet read, and an estimate of how many
 * rows these are.  NULL if a source has no arrival map or is locked, and for those
 * who do not have the rights of the query's owner.
 */
Datum
streamq_pending(PG_FUNCTION_ARGS)
{
	SqQuery    *query = sq_query_load(sq_api_name_argument(fcinfo), true);
	TupleDesc	desc;
	Pending		pending = {0, 0};
	Datum		values[2];
	bool		nulls[2] = {true, true};

	if (get_call_result_type(fcinfo, NULL, &desc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");
	/* a query that streamq.status sees may be gone by now */
	if (query != NULL && OidIsValid(query->owner) && has_privs_of_role(GetUserId(), query->owner) &&
		try_to_find_pending(query, &pending))
	{
		nulls[0] = nulls[1] = false;
		values[0] = Int64GetDatum((int64) rint(pending.pages));
		values[1] = Int64GetDatum((int64) rint(pending.rows));
	}
	PG_RETURN_DATUM(HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(desc), values, nulls)));
}

/* ----------------------------------------------------------------- arrivals */

/*
 * streamq.arrivals(relation regclass, OUT block bigint, OUT least_xid xid8,
 *					OUT greatest_xid xid8)
 *
 * The arrival map of a table: for each of its blocks with an entry the transactions
 * between which all are that have inserted there.  For the table's owner.
 */
Datum
streamq_arrivals(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *result = (ReturnSetInfo *) fcinfo->resultinfo;
	Oid			relid;
	Relation	heap;
	Relation	index;
	Oid			map;

	if (PG_ARGISNULL(0))
		sq_api_null_argument("relation");
	relid = PG_GETARG_OID(0);
	if (!object_ownercheck(RelationRelationId, relid, GetUserId()))
		aclcheck_error(ACLCHECK_NOT_OWNER, get_relkind_objtype(get_rel_relkind(relid)),
					   get_rel_name(relid));
	InitMaterializedSRF(fcinfo, 0);
	heap = relation_open(relid, AccessShareLock);
	map = heap->rd_rel->relkind == RELKIND_RELATION ? sq_arrivals_find(heap) : InvalidOid;
	if (!OidIsValid(map))
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_OBJECT),
				 errmsg("\"%s\" has no arrival map", RelationGetRelationName(heap)),
				 errhint("streamq.add_source() makes one, as does CREATE INDEX ... USING %s ((1)).",
						 SQ_ARRIVALS_AM)));
	index = index_open(map, NoLock);
	for (BlockNumber block = 0; block < RelationGetNumberOfBlocks(heap); block++)
	{
		SqArrival	arrival;
		Datum		values[3];
		bool		nulls[3] = {false, false, false};

		CHECK_FOR_INTERRUPTS();
		if (!sq_arrivals_entry(index, block, &arrival))
			continue;
		values[0] = Int64GetDatum(block);
		values[1] = FullTransactionIdGetDatum(FullTransactionIdFromU64(arrival.least));
		values[2] = FullTransactionIdGetDatum(FullTransactionIdFromU64(sq_arrival_upto(&arrival)));
		tuplestore_putvalues(result->setResult, result->setDesc, values, nulls);
	}
	index_close(index, NoLock);
	relation_close(heap, NoLock);
	return (Datum) 0;
}
