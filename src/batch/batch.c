/*
 * batch.c
 *		One micro-batch of a query: find out what is new, run the statements,
 *		record the commit.
 *
 * Runs inside a transaction that the caller has begun, REPEATABLE READ and as
 * yet without a snapshot, and commits if the outcome is SQ_BATCH_DONE (invariant
 * EO-1: all or nothing).  The caller holds the query's lock, and acts as the
 * query's owner.  An error leaves nothing behind; the runner's memory of a
 * backlog has to be thrown away then (sq_runner_forget()).
 */
#include "batch/batch.h"

#include "access/xlog.h"
#include "arrivals/arrivals.h"
#include "catalog/pg_inherits.h"
#include "batch/aggregate.h"
#include "batch/finality.h"
#include "batch/prepared.h"
#include "batch/statement.h"
#include "batch/watermark.h"
#include "commands/trigger.h"
#include "compiler/streams.h"
#include "debug_point.h"
#include "miscadmin.h"
#include "nodes/nodes.h"
#include "portability/instr_time.h"
#include "compiler/strategy.h"
#include "sink/sink.h"
#include "state/state.h"
#include "source/guard.h"
#include "source/physical.h"
#include "storage/lmgr.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"

static bool
keeps_state(const SqQuery *query)
{
	return query->strategy != NULL && strcmp(query->strategy, SQ_STRATEGY_STATE) == 0;
}

/*
 * Errors if a query's checkpoint is not of this database: it counts the transactions
 * of the cluster in which it was made, for the relations that were there.
 */
void
sq_batch_check_checkpoint(const SqQuery *query)
{
	if (query->checkpoint_cluster != GetSystemIdentifier() ||
		query->checkpoint_definition != query->definition)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("the checkpoint of streaming query \"%s\" belongs to another database",
						query->name),
				 errdetail("The query has been restored from a dump; its offsets count the transactions of the cluster in which it ran."),
				 errhint("Use streamq.reset() to begin anew, from \"earliest\" with an empty sink, or from \"latest\".")));
}

/*
 * The sources of a query with their physical relations, as they are now.
 */
List *
sq_batch_inputs(const SqCompiled *compiled)
{
	List	   *inputs = NIL;
	ListCell   *lc;
	ListCell   *lc2;

	foreach(lc, compiled->sources)
	{
		SqInput    *input = palloc0(sizeof(SqInput));
		Oid			relid;

		input->source = lfirst(lc);
		relid = input->source->relid;
		foreach(lc2, compiled->uses)
		{
			SqStreamUse *use = lfirst(lc2);

			if (use->source == foreach_current_index(lc))
				input->with_children |= use->with_children;
		}
		input->relations = sq_physical_relations(relid, input->with_children);
		if (input->with_children)
			sq_physical_check_children(relid);
		sq_source_check_guard(input->relations);
		inputs = lappend(inputs, input);
	}
	return inputs;
}

static List *
all_relations(List *inputs)
{
	List	   *result = NIL;
	ListCell   *lc;

	foreach(lc, inputs)
	{
		result = list_concat_copy(result, ((SqInput *) lfirst(lc))->relations);
	}
	return result;
}

/*
 * The target of a backlog that earlier batches have begun, or NULL; the next one
 * after the one given.  There can be several: a partition that was detached in
 * the middle of one and attached again is behind the others.
 */
static const SqOffset *
unfinished_target(const SqCheckpoint *checkpoint, const SqOffset *after)
{
	bool		found = after == NULL;

	for (int i = 0; i < checkpoint->nrelations; i++)
	{
		const SqRelationOffset *relation = &checkpoint->relations[i];

		if (relation->position.partial_xid == 0 &&
			sq_offset_equal(relation->position.offset, relation->target))
			continue;
		if (found && (after == NULL || !sq_offset_equal(relation->target, after)))
			return relation->target;
		found |= relation->target == after;
	}
	return NULL;
}

/* Throws away what a runner remembers of its backlog. */
void
sq_batch_forget_backlog(SqRunner *runner)
{
	if (runner->backlog != NULL)
		MemoryContextDelete(runner->backlog->context);
	runner->backlog = NULL;
}

/*
 * Cuts the next batch from what there is to read.  A backlog that earlier
 * batches have begun is finished before we look further.
 */
static SqCut *
plan_offsets(SqRunner *runner, const SqQuery *query, List *inputs,
			 const SqCheckpoint *checkpoint, const SqOffset *newest,
			 SqHorizon newest_horizon)
{
	bool		limited = query->max_rows_per_batch > 0;
	Snapshot	snapshot = GetActiveSnapshot();
	SqHorizon	unknown = {InvalidXLogRecPtr, 0};
	const SqOffset *begun = limited ? unfinished_target(checkpoint, NULL) : NULL;
	SqCut	   *cut;

	if (runner->backlog != NULL && limited &&
		sq_backlog_is_current(runner->backlog, inputs, checkpoint))
	{
		cut = sq_backlog_cut(runner->backlog, list_length(inputs),
							 query->max_rows_per_batch, snapshot);
		if (cut->rows > 0)
			return cut;
	}
	for (;;)
	{
		SqBacklogRequest request = {newest, newest_horizon, false, limited};

		if (begun != NULL)
		{
			request.target = begun;
			request.horizon = unknown;
			request.begun = true;
		}
		sq_batch_forget_backlog(runner);
		runner->backlog = sq_backlog_survey(inputs, checkpoint, &request, snapshot,
											runner->context);
		cut = sq_backlog_cut(runner->backlog, list_length(inputs),
							 query->max_rows_per_batch, snapshot);
		if (cut->rows > 0 || begun == NULL)
			return cut;
		/* of that backlog nothing is left */
		begun = unfinished_target(checkpoint, begun);
	}
}

/*
 * A partition detached while the batch ran was surveyed but perhaps not read.
 * Locks keep that from happening except with DETACH CONCURRENTLY.
 */
static void
check_relations(const SqCut *cut, List *inputs)
{
	List	   *now = NIL;
	ListCell   *lc;

	foreach(lc, inputs)
	{
		SqInput    *input = lfirst(lc);

		now = list_concat(now, sq_physical_relations(input->source->relid,
													 input->with_children));
	}

	for (int i = 0; i < cut->plan.nrelations; i++)
		if (cut->plan.relations[i].rows > 0 &&
			!list_member_oid(now, cut->plan.relations[i].relid))
			ereport(ERROR,
					(errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
					 errmsg("a partition of a source was detached while the batch ran")));
}

/* the statement of a query without state */
static int64
execute_stateless(SqPrepared *prepared, const SqBacklog *backlog, const SqCut *cut)
{
	static const SqTimes none = {false, 0, false, 0};
	static const SqVariant any = {SQ_LATE_UNKNOWN, false, false};
	ParamListInfo params = sq_finality_params(prepared->compiled, &cut->plan, backlog->target,
											  &none, NULL);
	int64		rows;

	sq_debug_point("before-sink");
	rows = sq_statement_execute(sq_prepared_statement(prepared, SQ_PLACE_INSERT, any), params);
	sq_debug_point("after-sink");
	return rows;
}

/* the statements of a batch; due: also groups that are final */
static void
execute(SqPrepared *prepared, const SqBacklog *backlog, const SqCut *cut, bool due,
		const SqCheckpoint *checkpoint, SqCommitRecord *commit)
{
	/* deferred triggers would fire at commit, with other rights than these */
	if (InSecurityRestrictedOperation())
		AfterTriggerSetState(makeNode(ConstraintsSetStmt));
	if (prepared->compiled->aggregation != NULL)
		sq_aggregate_execute(prepared, backlog, cut, due, checkpoint, commit);
	else if (cut->rows > 0)
		commit->output_rows = execute_stateless(prepared, backlog, cut);
}

static void
record_commit(const SqQuery *query, const SqCheckpoint *checkpoint,
			  const SqBacklog *backlog, const SqCut *cut, SqCommitRecord *commit)
{
	SqOffsetRecord *offsets = palloc0(sizeof(SqOffsetRecord) * (backlog->nrelations + 1));

	for (int i = 0; i < backlog->nrelations; i++)
	{
		const SqRelationRead *read = &cut->plan.relations[i];

		offsets[i].relid = read->relid;
		offsets[i].start = read->start.offset;
		offsets[i].end = read->end;
		offsets[i].target = backlog->target;
		offsets[i].filenode = backlog->relations[i].filenode;
	}
	sq_checkpoint_commit(query->name, checkpoint, commit, offsets, backlog->nrelations);
}

static double
elapsed_ms(instr_time since)
{
	instr_time	now;

	INSTR_TIME_SET_CURRENT(now);
	INSTR_TIME_SUBTRACT(now, since);
	return INSTR_TIME_GET_MILLISEC(now);
}

/* true if the batch has moved a watermark under which groups may be final */
static bool
may_follow_up(const SqCompiled *compiled, const SqCommitRecord *commit)
{
	return sq_compiled_has_watermark(compiled) && commit->has_watermark &&
		(!commit->had_watermark || commit->watermark > commit->batch_watermark);
}

/* tells a runner what it has to wait for when it has read everything */
static void
note_relations(SqRunner *runner, List *relations)
{
	ListCell   *lc;

	if (!equal(relations, runner->relations))
	{
		MemoryContext old = MemoryContextSwitchTo(runner->context);

		list_free(runner->relations);
		runner->relations = list_copy(relations);
		MemoryContextSwitchTo(old);
	}
	runner->commits_are_told = true;
	foreach(lc, relations)
		runner->commits_are_told &= sq_arrivals_covers(lfirst_oid(lc));
}

/* a batch of a query whose statements are at hand */
static SqBatchOutcome
execute_prepared(SqRunner *runner, SqPrepared *prepared, const SqQuery *query,
				 const SqOffset *newest, SqHorizon newest_horizon, SqCommitRecord *commit)
{
	const SqCompiled *compiled = prepared->compiled;
	List	   *inputs;
	List	   *relations;
	SqCheckpoint *checkpoint;
	instr_time	began;
	SqCut	   *cut;
	bool		due;

	INSTR_TIME_SET_CURRENT(began);
	inputs = sq_batch_inputs(compiled);
	/* it may have become a partition of a source */
	sq_sink_check_sources(query->sink, query->sources);
	relations = all_relations(inputs);
	note_relations(runner, relations);
	checkpoint = sq_checkpoint_load(query->name, relations);
	cut = plan_offsets(runner, query, inputs, checkpoint, newest, newest_horizon);
	due = sq_aggregate_is_due(prepared, checkpoint);
	if (cut->rows == 0)
	{
		if (!due && !sq_backlog_wants_renewal(runner->backlog))
			return SQ_BATCH_IDLE;
		/* a batch without rows, that renews the offsets */
		cut = sq_backlog_cut(runner->backlog, list_length(inputs), 0,
							 GetActiveSnapshot());
	}
	commit->planning_ms += elapsed_ms(began);

	INSTR_TIME_SET_CURRENT(began);
	execute(prepared, runner->backlog, cut, due, checkpoint, commit);
	if (keeps_state(query))
		sq_state_compact(query->query_id, checkpoint->batch_id + 1);
	check_relations(cut, inputs);
	commit->execution_ms = elapsed_ms(began);

	/* a row counts once, also if the query reads it in several places */
	commit->input_rows = cut->rows;
	sq_query_check_mine(query);
	commit->batch_id = checkpoint->batch_id + 1;
	sq_watermark_advance(checkpoint, inputs, cut->source_times, commit);
	commit->duration_ms =
		(double) (GetCurrentTimestamp() - commit->started_at) / 1000.0;
	record_commit(query, checkpoint, runner->backlog, cut, commit);
	sq_debug_point("before-commit");

	sq_backlog_advance(runner->backlog, cut, commit->batch_id);
	runner->reached = sq_backlog_is_finished(runner->backlog) &&
		sq_offset_equal(runner->backlog->target, newest) &&
		!may_follow_up(compiled, commit);
	if (sq_backlog_is_finished(runner->backlog))
		sq_batch_forget_backlog(runner);
	return SQ_BATCH_DONE;
}

/* the part of a batch that runs under the query's settings */
static SqBatchOutcome
execute_batch(SqRunner *runner, const SqQuery *query, const SqOffset *newest,
			  SqHorizon newest_horizon, SqCommitRecord *commit)
{
	instr_time	began;
	SqPrepared *prepared;
	SqBatchOutcome outcome;

	INSTR_TIME_SET_CURRENT(began);
	prepared = sq_prepared_begin(query);
	commit->planning_ms = elapsed_ms(began);
	outcome = execute_prepared(runner, prepared, query, newest, newest_horizon, commit);
	sq_prepared_end(prepared);
	return outcome;
}

/*
 * True if the runner is still to run the query: it is not another one of the
 * same name, and if it is run in the background, not stopped, nor given to
 * another owner, whom another worker serves.
 */
static bool
may_run(const SqRunner *runner, const SqQuery *query)
{
	if (query == NULL || query->query_id != runner->query_id)
		return false;
	return !runner->background || (query->active && query->owner == GetUserId());
}

/*
 * Locks the tables that a query reads, and its state.  That has to come before the
 * snapshot: rows that somebody has put into a table while we waited for him, having
 * emptied or rewritten it, would not be seen.
 */
static void
lock_tables(const SqQuery *query)
{
	ListCell   *lc;

	if (!sq_prepared_lock(query))
		foreach(lc, sq_streams_tables(sq_streams_definition(query->definition)))
			(void) find_all_inheritors(lfirst_oid(lc), AccessShareLock, NULL);
	if (keeps_state(query))
		sq_state_lock(query);
}

/*
 * The query, with what it needs locked; NULL, or an error in the foreground, if it
 * is not there.
 */
static SqQuery *
load_query(const SqRunner *runner)
{
	SqQuery    *query = sq_query_load(runner->name, runner->background);
	ListCell   *lc;

	if (query == NULL)
		return NULL;
	/* in the order in which DROP ... CASCADE takes them */
	foreach(lc, query->sources)
	{
		LockRelationOid(lfirst_oid(lc), AccessShareLock);
	}
	LockRelationOid(query->sink, RowExclusiveLock);
	LockRelationOid(query->definition, AccessShareLock);
	if (SearchSysCacheExists1(RELOID, ObjectIdGetDatum(query->definition)))
		lock_tables(query);
	/* somebody may have dropped it, and the query with it, while we waited */
	if (!SearchSysCacheExists1(RELOID, ObjectIdGetDatum(query->definition)))
		query = sq_query_load(runner->name, runner->background);
	if (query != NULL && !OidIsValid(query->owner))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("the definition of streaming query \"%s\" is gone", query->name),
				 errhint("Use streamq.drop_query() and create it again.")));
	return query;
}

/*
 * Executes the next batch of a query, up to the commit.
 */
SqBatchOutcome
sq_batch_execute(SqRunner *runner)
{
	MemoryContext old;
	SqBatchOutcome outcome;
	SqCommitRecord commit;
	SqQuery    *query;
	SqOffset   *newest;
	SqHorizon	newest_horizon;
	int			nest_level;

	MemoryContextReset(runner->batch_context);
	old = MemoryContextSwitchTo(runner->batch_context);
	memset(&commit, 0, sizeof(commit));
	commit.started_at = GetCurrentTimestamp();
	/* before the transaction has a snapshot */
	newest_horizon = runner->goal ? runner->goal_horizon : sq_horizon_now();
	sq_debug_point("batch-start");

	query = load_query(runner);
	if (!may_run(runner, query))
	{
		MemoryContextSwitchTo(old);
		return SQ_BATCH_STOPPED;
	}
	sq_batch_check_checkpoint(query);
	sq_state_set_owner(query);
	runner->had_failures = query->retries > 0;

	PushActiveSnapshot(GetTransactionSnapshot());
	newest = runner->goal ? runner->goal : sq_offset_capture(GetActiveSnapshot());
	if (runner->idle_offset != NULL && sq_offset_equal(runner->idle_offset, newest))
		outcome = SQ_BATCH_IDLE;
	else
	{
		nest_level = sq_settings_push(query->settings);
		outcome = execute_batch(runner, query, newest, newest_horizon, &commit);
		sq_settings_pop(nest_level);
	}
	PopActiveSnapshot();

	if (runner->idle_offset != NULL)
		pfree(runner->idle_offset);
	runner->idle_offset = NULL;
	if (outcome == SQ_BATCH_IDLE)
	{
		MemoryContextSwitchTo(runner->context);
		runner->idle_offset = sq_offset_copy(newest);
	}
	runner->input_rows = commit.input_rows;
	MemoryContextSwitchTo(old);
	return outcome;
}
