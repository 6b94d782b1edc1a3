/*
 * backlog.c
 *		What a query still has to read, and cutting it into batches.
 *
 * Without a limit a batch reads everything up to its target.  With one, the
 * transactions of the backlog are taken in the order of their xids, as many as
 * fit: the offset after the batch is a synthetic snapshot (sq_offset_cut()).  A
 * transaction that alone is larger than the limit is read by position: the
 * offset stays before it, and the place of the last row read is kept.
 *
 * Only that place depends on where rows lie.  It is valid as long as the
 * relation keeps its file; VACUUM FULL or CLUSTER in the middle of such a
 * transaction is noticed and is an error.
 */
#include "batch/backlog.h"

#include "access/table.h"
#include "catalog/sourcedef.h"
#include "compat.h"
#include "source/physical.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"

/* a quarter of what is safe */
#define OFFSET_AGE_MAX (UINT64CONST(1) << 29)

/* looking at so many blocks in vain costs as much as a batch without rows */
#define VAIN_BLOCKS_MAX 256

static SqSurveyRequest
make_request(const SqPosition *start, const SqOffset *end, Snapshot snapshot)
{
	SqSurveyRequest request;

	memset(&request, 0, sizeof(request));
	request.start = *start;
	request.end.offset = end;
	request.snapshot = snapshot;
	return request;
}

/* what is known of a transaction in a relation; NULL: it has no rows there */
static SqXidRows *
find_transaction(const SqBacklogRelation *relation, uint64 xid)
{
	const SqSurvey *survey = &relation->survey;
	SqXidRows  *entry = sq_survey_find_xid(survey, xid);

	return entry < survey->xids + survey->nxids && entry->xid == xid ? entry : NULL;
}

/* rows of a transaction that are left to read in a relation */
static int64
rows_left(const SqBacklogRelation *relation, uint64 xid)
{
	SqXidRows  *entry = find_transaction(relation, xid);

	return entry ? entry->rows : 0;
}

/*
 * A position inside a transaction is worthless once the relation has got a new
 * file, unless nothing of that transaction is left to read.
 */
static void
check_position(SqBacklogRelation *relation, Oid filenode, Relation rel,
			   Snapshot snapshot)
{
	SqSurveyRequest request;
	SqSurvey	survey;
	uint64		xid = relation->position.partial_xid;
	SqPosition	start = relation->position;

	if (xid == 0 || filenode == relation->filenode)
		return;
	start.partial_xid = 0;
	request = make_request(&start, sq_offset_cut(start.offset, sq_offset_upto(xid + 1), xid + 1),
						   snapshot);
	request.stop_after = 1;
	sq_survey_init(&survey);
	sq_survey_relation(rel, &request, &survey);
	if (survey.rows > 0)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("cannot continue in the middle of transaction %llu of table \"%s\"",
						(unsigned long long) xid, RelationGetRelationName(rel)),
				 errdetail("The table has been rewritten (VACUUM FULL, CLUSTER) after a part of the transaction's rows had been read, which max_rows_per_batch had cut."),
				 errhint("Use streamq.reset() for a fresh start, after emptying the sink.")));
	relation->position.partial_xid = 0;
}

/*
 * When nothing is left of the transaction that the position is in, the position
 * moves past it.  The target has to be the one up to which that transaction was
 * cut: a later one sees transactions with lower xids that were in progress then.
 */
static void
leave_finished_transaction(SqBacklogRelation *relation, const SqOffset *target)
{
	uint64		xid = relation->position.partial_xid;

	if (xid == 0 || rows_left(relation, xid) > 0)
		return;
	relation->position.offset = sq_offset_cut(relation->position.offset, target, xid + 1);
	relation->position.partial_xid = 0;
}

static void
survey_one(SqBacklog *backlog, SqBacklogRelation *relation, const SqSource *source,
		   const SqCheckpoint *checkpoint, Snapshot snapshot)
{
	const SqRelationOffset *last = sq_checkpoint_find(checkpoint, relation->relid);
	Relation	rel = table_open(relation->relid, NoLock);
	SqSurveyRequest request;

	relation->event_time = sq_physical_column(source->relid, source->event_time,
											  relation->relid);
	relation->filenode = sq_relation_file(rel);
	if (last != NULL)
	{
		relation->position = last->position;
		relation->position.offset = sq_offset_copy(last->position.offset);
		check_position(relation, last->partial_filenode, rel, snapshot);
	}
	else
		relation->position.offset = sq_offset_empty();

	request = make_request(&relation->position, backlog->target, snapshot);
	request.event_time = relation->event_time;
	request.by_xid = backlog->by_xid;
	sq_survey_init(&relation->survey);
	sq_survey_relation(rel, &request, &relation->survey);
	table_close(rel, NoLock);
	sq_survey_sort_xids(&relation->survey);
	if (backlog->by_xid && last != NULL)
		leave_finished_transaction(relation, last->target);
}

static int
compare_relations(const void *a, const void *b)
{
	Oid			x = ((const SqBacklogRelation *) a)->relid;
	Oid			y = ((const SqBacklogRelation *) b)->relid;

	return (x > y) - (x < y);
}

/* true if a relation takes part in what is requested */
static bool
takes_part(Oid relid, const SqCheckpoint *checkpoint, const SqBacklogRequest *request)
{
	const SqRelationOffset *last;

	if (!request->begun)
		return true;
	last = sq_checkpoint_find(checkpoint, relid);
	return last != NULL && sq_offset_equal(last->target, request->target);
}

/* puts the relations of all sources into the backlog, sorted by oid */
static void
collect_relations(SqBacklog *backlog, List *inputs, const SqCheckpoint *checkpoint,
				  const SqBacklogRequest *request)
{
	int			n = 0;
	ListCell   *lc;
	ListCell   *lc2;

	foreach(lc, inputs)
	{
		n += list_length(((SqInput *) lfirst(lc))->relations);
	}
	backlog->relations = palloc0(sizeof(SqBacklogRelation) * (n + 1));
	foreach(lc, inputs)
	{
		foreach(lc2, ((SqInput *) lfirst(lc))->relations)
		{
			SqBacklogRelation *relation = &backlog->relations[backlog->nrelations];

			if (!takes_part(lfirst_oid(lc2), checkpoint, request))
				continue;
			relation->relid = lfirst_oid(lc2);
			relation->source = foreach_current_index(lc);
			backlog->nrelations++;
		}
	}
	qsort(backlog->relations, backlog->nrelations, sizeof(SqBacklogRelation),
		  compare_relations);
	for (int i = 1; i < backlog->nrelations; i++)
		if (backlog->relations[i].relid == backlog->relations[i - 1].relid)
			ereport(ERROR,
					(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
					 errmsg("table \"%s\" belongs to two sources of the query",
							get_rel_name(backlog->relations[i].relid)),
					 errhint("Read the table only as a part of the one or of the other.")));
}

/*
 * Surveys what lies between the checkpoint and the target, as of the snapshot.
 * The result lives in a context of its own below the one given.
 */
SqBacklog *
sq_backlog_survey(List *inputs, const SqCheckpoint *checkpoint,
				  const SqBacklogRequest *request, Snapshot snapshot,
				  MemoryContext parent)
{
	MemoryContext context = AllocSetContextCreate(parent, "streamq backlog",
												  ALLOCSET_DEFAULT_SIZES);
	MemoryContext old = MemoryContextSwitchTo(context);
	SqBacklog  *backlog = palloc0(sizeof(SqBacklog));

	backlog->context = context;
	backlog->target = sq_offset_copy(request->target);
	backlog->target_horizon = request->horizon;
	backlog->by_xid = request->by_xid;
	backlog->untouched = true;
	backlog->batch_id = checkpoint->batch_id;
	sq_survey_init(&backlog->xids);
	collect_relations(backlog, inputs, checkpoint, request);

	for (int i = 0; i < backlog->nrelations; i++)
	{
		SqBacklogRelation *relation = &backlog->relations[i];
		SqInput    *input = list_nth(inputs, relation->source);
		SqSurvey   *survey = &relation->survey;

		survey_one(backlog, relation, input->source, checkpoint, snapshot);
		backlog->rows += survey->rows;
		for (size_t k = 0; k < survey->nxids; k++)
			sq_survey_add_xid(&backlog->xids, survey->xids[k].xid, survey->xids[k].rows,
							  survey->xids[k].times);
	}
	sq_survey_sort_xids(&backlog->xids);
	MemoryContextSwitchTo(old);
	return backlog;
}

/* true if a relation has been read as far as the checkpoint says */
static bool
is_at_checkpoint(const SqBacklogRelation *relation, const SqCheckpoint *checkpoint)
{
	const SqPosition *position = &relation->position;
	const SqRelationOffset *last = sq_checkpoint_find(checkpoint, relation->relid);

	if (last == NULL)
		return sq_offset_is_empty(position->offset) && position->partial_xid == 0;
	return sq_offset_equal(position->offset, last->position.offset) &&
		position->partial_xid == last->position.partial_xid &&
		(position->partial_xid == 0 ||
		 ItemPointerEquals((ItemPointer) &position->partial_upto,
						   (ItemPointer) &last->position.partial_upto));
}

/*
 * True if a kept backlog still fits: the checkpoint is where its last batch has
 * left it, and its relations are there, in the same files.
 */
bool
sq_backlog_is_current(const SqBacklog *backlog, List *inputs,
					  const SqCheckpoint *checkpoint)
{
	if (backlog->batch_id != checkpoint->batch_id)
		return false;
	for (int i = 0; i < backlog->nrelations; i++)
	{
		const SqBacklogRelation *relation = &backlog->relations[i];
		SqInput    *input = list_nth(inputs, relation->source);
		Relation	rel;
		Oid			filenode;

		if (!list_member_oid(input->relations, relation->relid) ||
			!is_at_checkpoint(relation, checkpoint))
			return false;
		rel = table_open(relation->relid, NoLock);
		filenode = sq_relation_file(rel);
		table_close(rel, NoLock);
		if (filenode != relation->filenode)
			return false;
	}
	return true;
}

/* ------------------------------------------------------------------- cutting */

static void
note_rows(SqCut *cut, int source, int64 rows, SqTimeRange times)
{
	cut->rows += rows;
	sq_add_times(&cut->source_times[source], times);
}

/*
 * Makes a relation be read up to the end of a transaction of the backlog, or of
 * the whole backlog.  A relation that is inside a later transaction has read all
 * that comes before, and stays where it is.
 */
static void
read_upto(SqRelationRead *read, const SqBacklog *backlog, bool whole, uint64 xid)
{
	if (!whole && read->start.partial_xid > xid)
		return;
	read->end.partial_xid = 0;
	if (!whole)
		read->end.offset = sq_offset_cut(read->start.offset, backlog->target, xid + 1);
	else
	{
		read->end.offset = backlog->target;
		if (!XLogRecPtrIsInvalid(backlog->target_horizon.lsn))
			read->end.horizon = backlog->target_horizon;
	}
}

/* the whole backlog */
static void
cut_all(SqBacklog *backlog, SqCut *cut)
{
	for (int i = 0; i < backlog->nrelations; i++)
	{
		SqBacklogRelation *relation = &backlog->relations[i];
		SqRelationRead *read = &cut->plan.relations[i];

		read_upto(read, backlog, true, 0);
		read->blocks = relation->survey.blocks;
		read->nblocks = relation->survey.nblocks;
		read->rows = relation->survey.rows;
		note_rows(cut, relation->source, relation->survey.rows, relation->survey.times);
	}
	cut->next_xid = backlog->xids.nxids;
}

/* the blocks of a relation that may hold rows of transactions from low to high */
static void
select_blocks(const SqSurvey *survey, uint64 low, uint64 high, SqRelationRead *read)
{
	read->blocks = MemoryContextAllocHuge(CurrentMemoryContext,
										  sizeof(BlockNumber) * ((Size) survey->nblocks + 1));
	read->nblocks = 0;
	for (BlockNumber i = 0; i < survey->nblocks; i++)
		if (survey->block_xids[i].min_xid <= high && survey->block_xids[i].max_xid >= low)
			read->blocks[read->nblocks++] = survey->blocks[i];
}

/* the transactions from the backlog's next one to the one before end */
static void
cut_by_xid(SqBacklog *backlog, size_t end, SqCut *cut)
{
	uint64		low = backlog->xids.xids[backlog->next_xid].xid;
	uint64		high = backlog->xids.xids[end - 1].xid;
	bool		whole = end == backlog->xids.nxids;

	for (int i = 0; i < backlog->nrelations; i++)
	{
		SqBacklogRelation *relation = &backlog->relations[i];
		SqRelationRead *read = &cut->plan.relations[i];
		SqXidRows  *xid = sq_survey_find_xid(&relation->survey, low);

		read_upto(read, backlog, whole, high);
		select_blocks(&relation->survey, low, high, read);
		for (; xid < relation->survey.xids + relation->survey.nxids && xid->xid <= high; xid++)
		{
			read->rows += xid->rows;
			note_rows(cut, relation->source, xid->rows, xid->times);
		}
	}
	cut->next_xid = end;
}

/*
 * A part of the backlog's next transaction, of max_rows rows at most.  Whatever
 * of it lies in earlier relations is read, in later ones not yet.
 */
static void
cut_by_position(SqBacklog *backlog, int64 max_rows, Snapshot snapshot, SqCut *cut)
{
	uint64		xid = backlog->xids.xids[backlog->next_xid].xid;
	bool		last = backlog->next_xid + 1 == backlog->xids.nxids;
	int64		missing = backlog->xids.xids[backlog->next_xid].rows;
	int64		left = max_rows;

	for (int i = 0; i < backlog->nrelations && left > 0; i++)
	{
		SqBacklogRelation *relation = &backlog->relations[i];
		SqRelationRead *read = &cut->plan.relations[i];
		SqSurveyRequest request;
		SqSurvey	survey;
		SqRelationRead candidates;
		Relation	rel;

		if (read->start.partial_xid > xid)
			continue;			/* has nothing of it, see read_upto() */
		Assert(read->start.partial_xid == 0 || read->start.partial_xid == xid);
		read_upto(read, backlog, last, xid);
		request = make_request(&read->start, read->end.offset, snapshot);
		rel = table_open(relation->relid, NoLock);
		memset(&candidates, 0, sizeof(candidates));
		select_blocks(&relation->survey, xid, xid, &candidates);
		request.event_time = relation->event_time;
		request.stop_after = left;
		request.only_blocks = candidates.blocks;
		request.nonly_blocks = candidates.nblocks;
		if (read->start.partial_xid == xid)
		{
			BlockNumber done = ItemPointerGetBlockNumber(&read->start.partial_upto);

			while (request.nonly_blocks > 0 && *request.only_blocks < done)
			{
				request.only_blocks++;
				request.nonly_blocks--;
			}
		}
		sq_survey_init(&survey);
		sq_survey_relation(rel, &request, &survey);
		table_close(rel, NoLock);

		left -= survey.rows;
		missing -= survey.rows;
		read->blocks = survey.blocks;
		read->nblocks = survey.nblocks;
		read->rows = survey.rows;
		note_rows(cut, relation->source, survey.rows, survey.times);
		if (left <= 0 && survey.rows < rows_left(relation, xid))
		{
			/* not to its end */
			read->end = read->start;
			read->end.partial_xid = xid;
			read->end.partial_upto = survey.last;
		}
	}
	/* when the limit was not reached, what was counted has been deleted since */
	cut->partial_xid = xid;
	cut->next_xid = backlog->next_xid + (left > 0 || missing <= 0 ? 1 : 0);
}

/* true if a part of a transaction has been read before */
static bool
is_partly_read(const SqBacklog *backlog, uint64 xid)
{
	for (int i = 0; i < backlog->nrelations; i++)
		if (backlog->relations[i].position.partial_xid == xid)
			return true;
	return false;
}

/* index of the first transaction, from the next one on, that does not fit */
static size_t
count_whole_transactions(const SqBacklog *backlog, int64 max_rows)
{
	size_t		end = backlog->next_xid;
	int64		rows = 0;

	while (end < backlog->xids.nxids &&
		   rows + backlog->xids.xids[end].rows <= max_rows &&
		   !is_partly_read(backlog, backlog->xids.xids[end].xid))
		rows += backlog->xids.xids[end++].rows;
	return end;
}

/*
 * Cuts the next batch from a backlog, of max_rows rows at most; 0 stands for no
 * limit.  The result is in the current context and refers to the backlog.
 */
SqCut *
sq_backlog_cut(SqBacklog *backlog, int nsources, int64 max_rows, Snapshot snapshot)
{
	SqCut	   *cut = palloc0(sizeof(SqCut));
	size_t		end;

	cut->source_times = palloc(sizeof(SqTimeRange) * (nsources + 1));
	for (int i = 0; i < nsources; i++)
		cut->source_times[i] = sq_no_times();
	cut->plan.nrelations = backlog->nrelations;
	cut->plan.exact = backlog->untouched;
	cut->plan.relations = palloc0(sizeof(SqRelationRead) * (backlog->nrelations + 1));
	for (int i = 0; i < backlog->nrelations; i++)
	{
		cut->plan.relations[i].relid = backlog->relations[i].relid;
		cut->plan.relations[i].start = backlog->relations[i].position;
		cut->plan.relations[i].end = backlog->relations[i].position;
	}

	if (max_rows == 0 || (backlog->untouched && backlog->rows <= max_rows))
	{
		cut_all(backlog, cut);
		return cut;
	}
	if (backlog->next_xid == backlog->xids.nxids)
		return cut;				/* nothing left */
	end = count_whole_transactions(backlog, max_rows);
	if (end == backlog->next_xid)
		cut_by_position(backlog, max_rows, snapshot, cut);
	else
		cut_by_xid(backlog, end, cut);
	return cut;
}

/* Counts the rows of a cut by their event time. */
void
sq_backlog_count_times(const SqBacklog *backlog, const SqCut *cut, Snapshot snapshot,
					   SqTimeCounts *counts)
{
	for (int i = 0; i < backlog->nrelations; i++)
	{
		const SqRelationRead *read = &cut->plan.relations[i];
		SqSurveyRequest request = make_request(&read->start, read->end.offset, snapshot);
		SqSurvey	survey;
		Relation	rel;

		if (read->rows == 0)
			continue;
		request.end = read->end;
		request.event_time = backlog->relations[i].event_time;
		request.only_blocks = read->blocks;
		request.nonly_blocks = read->nblocks;
		request.time_counts = counts;
		sq_survey_init(&survey);
		rel = table_open(read->relid, NoLock);
		sq_survey_relation(rel, &request, &survey);
		table_close(rel, NoLock);
	}
}

/* takes the rows of a cut by position out of the counts by transaction */
static void
count_partial(SqBacklog *backlog, const SqCut *cut)
{
	backlog->xids.xids[backlog->next_xid].rows -= cut->rows;
	for (int i = 0; i < backlog->nrelations; i++)
	{
		SqXidRows  *entry = find_transaction(&backlog->relations[i], cut->partial_xid);

		if (entry == NULL)
			continue;
		entry->rows -= cut->plan.relations[i].rows;
		if (entry->rows <= 0)
			entry->times = sq_no_times();
	}
}

/* Notes that a cut has been committed, as the batch of that id. */
void
sq_backlog_advance(SqBacklog *backlog, const SqCut *cut, int64 batch_id)
{
	MemoryContext old = MemoryContextSwitchTo(backlog->context);

	for (int i = 0; i < backlog->nrelations; i++)
	{
		SqPosition *position = &backlog->relations[i].position;
		SqOffset   *before = unconstify(SqOffset *, position->offset);

		*position = cut->plan.relations[i].end;
		position->offset = sq_offset_copy(position->offset);
		pfree(before);
	}
	if (cut->partial_xid != 0)
		count_partial(backlog, cut);
	backlog->next_xid = cut->next_xid;
	backlog->untouched = false;
	backlog->batch_id = batch_id;
	MemoryContextSwitchTo(old);
}

/*
 * True if offsets should be renewed even without new rows.  Because one is old, long
 * before 32-bit xids can no longer be told from it; or because the arrival map has named
 * many blocks in which there was nothing, and would name them again: it has been made
 * anew since, or their rows are gone.
 */
bool
sq_backlog_wants_renewal(const SqBacklog *backlog)
{
	uint64		next_xid = U64FromFullTransactionId(ReadNextFullTransactionId());

	for (int i = 0; i < backlog->nrelations; i++)
	{
		const SqOffset *offset = backlog->relations[i].position.offset;

		if (backlog->relations[i].survey.mapped_blocks > VAIN_BLOCKS_MAX)
			return true;
		if (!sq_offset_is_empty(offset) &&
			next_xid - offset->xmin.value > OFFSET_AGE_MAX)
			return true;
	}
	return false;
}

/* True if everything up to the target has been read. */
bool
sq_backlog_is_finished(const SqBacklog *backlog)
{
	return !backlog->by_xid || backlog->next_xid >= backlog->xids.nxids;
}
