/*
 * aggregate.c
 *		A batch of a query that aggregates.
 *
 * The watermark in force is the one that the batch before has left.  Rows whose
 * group is final under it are late and are left out.  The others are combined
 * with the state.  Then groups that are final are given out (append) and
 * forgotten (append and update).  As late rows are left out, a group that closes
 * has got nothing of this batch; so it may as well be read from the source, as
 * of the start of the batch (strategy.c).
 */
#include "batch/aggregate.h"

#include "batch/finality.h"
#include "batch/statement.h"
#include "compiler/emit.h"
#include "compiler/strategy.h"
#include "debug_point.h"
#include "miscadmin.h"
#include "utils/lsyscache.h"
#include "utils/snapmgr.h"

#define SPANS_PER_DELAY 32
#define SPAN_MIN_US USECS_PER_SEC

/* one batch */
typedef struct Work
{
	SqPrepared *prepared;
	const SqCompiled *compiled;
	const SqCheckpoint *last;
	SqCommitRecord *commit;
	SqTimes		times;
	ParamListInfo params;
	SqWasRead	was_read;
	SqVariant	variant;		/* of the statements */
	int64		added;			/* groups */
	int64		removed;
} Work;

static SqTimes
times_of(const SqCheckpoint *last)
{
	SqTimes		times;

	times.has_watermark = last->has_watermark;
	times.watermark = last->watermark;
	times.has_closed = last->had_watermark;
	times.closed = last->batch_watermark;
	return times;
}

/* true if the watermark in force is another one than in the last batch */
static bool
has_moved(const SqCheckpoint *last)
{
	return last->has_watermark &&
		(!last->had_watermark || last->watermark > last->batch_watermark);
}

/*
 * True if groups that are held are final under the watermark left by the last
 * batch, so that a batch has something to do even without new rows.  If not, groups
 * final under that watermark count as closed all the same: whatever comes to them
 * from now on is late.  So with strategy "source" the numbers of open rows must never
 * be too low.
 */
bool
sq_aggregate_is_due(SqPrepared *prepared, const SqCheckpoint *last)
{
	static const SqReadPlan nothing = {NULL, 0, false};
	static const SqVariant any = {SQ_LATE_UNKNOWN, false, false};
	const SqCompiled *compiled = prepared->compiled;
	SqTimes		times = times_of(last);
	int64		due;

	if (!sq_compiled_has_watermark(compiled) || !has_moved(last))
		return false;
	if (sq_strategy_is_source(compiled))
		return last->open_rows != NULL && last->open_rows->ncounts > 0 &&
			last->open_rows->counts[0].start < sq_finality_bound(compiled, times.watermark);
	sq_statement_numbers(sq_prepared_statement(prepared, SQ_PLACE_DUE, any),
						 sq_finality_params(compiled, &nothing, sq_offset_empty(), &times, NULL),
						 &due, 1);
	return due != 0;
}

static const SqStatement *
statement_of(const Work *work, SqPlace place)
{
	return sq_prepared_statement(work->prepared, place, work->variant);
}

/* executes a statement that gives the number of groups added */
static void
add_groups(Work *work, const SqStatement *statement)
{
	int64		added;

	sq_statement_numbers(statement, work->params, &added, 1);
	work->added += added;
}

static void
handle_late(Work *work)
{
	const SqStatement *statement = statement_of(work, SQ_PLACE_LATE);

	if (OidIsValid(work->compiled->query->late_sink))
		work->commit->late_rows = sq_statement_execute(statement, work->params);
	else
		sq_statement_numbers(statement, work->params, &work->commit->late_rows, 1);
}

/* new rows into the state, and in update mode into the sink */
static void
keep_rows(Work *work)
{
	const SqCompiled *compiled = work->compiled;
	bool		upserts = strcmp(compiled->query->output_mode, "update") == 0 &&
	!sq_compiled_replaces(compiled);
	List	   *inputs = sq_prepared_statements(work->prepared, SQ_PLACE_INPUTS, work->variant);
	int64		numbers[2];
	ListCell   *lc;

	foreach(lc, inputs)
	{
		SqStatement *statement = lfirst(lc);

		if (statement->query->commandType == CMD_SELECT)
			add_groups(work, statement);
		else
			(void) sq_statement_execute(statement, work->params);
	}
	work->variant.empty = work->last->state_rows == 0 && inputs == NIL;
	sq_debug_point("before-sink");
	if (!upserts)
	{
		add_groups(work, statement_of(work, SQ_PLACE_MERGE));
		return;
	}
	sq_statement_numbers(statement_of(work, SQ_PLACE_UPSERT), work->params, numbers, 2);
	work->added += numbers[0];
	work->commit->output_rows += numbers[1];
}

/* the whole result into the sink */
static void
replace_result(Work *work)
{
	int64		numbers[2];

	sq_statement_numbers(statement_of(work, SQ_PLACE_REPLACE), work->params, numbers, 2);
	work->commit->output_rows += numbers[1];
}

/* rows that were there before the query started at "latest" have never been read */
static void
load_first(Work *work)
{
	const SqReadPlan *plan = work->was_read.plan;
	const SqQuery *query = work->compiled->query;

	if (strcmp(query->starting_position, "latest") != 0)
		return;
	work->was_read.first = palloc(sizeof(SqOffset *) * (plan->nrelations + 1));
	for (int i = 0; i < plan->nrelations; i++)
		work->was_read.first[i] = sq_checkpoint_first(query->name, plan->relations[i].relid);
}

/* groups that are final: to the sink, and out of the state */
static void
close_groups(Work *work)
{
	bool		from_source = sq_strategy_is_source(work->compiled);
	ListCell   *lc;

	if (from_source)
		load_first(work);
	if (strcmp(work->compiled->query->output_mode, "append") == 0)
		work->commit->output_rows +=
			sq_statement_execute(statement_of(work, SQ_PLACE_CLOSE), work->params);
	if (from_source)
		return;
	sq_debug_point("after-close");
	foreach(lc, sq_prepared_statements(work->prepared, SQ_PLACE_EVICT, work->variant))
	{
		int64		rows = sq_statement_execute(lfirst(lc), work->params);

		if (foreach_current_index(lc) == 0)
			work->removed += rows;
	}
}

/* ------------------------------------------------------ rows of open groups */

/* spans so wide that a delay has a few of them, a power of two */
static int64
span_width(const SqCompiled *compiled)
{
	const SqSource *source = linitial(compiled->sources);
	const Interval *delay = source->watermark_delay;
	int64		wanted = (delay->time + (delay->day + delay->month * (int64) DAYS_PER_MONTH) * USECS_PER_DAY) / SPANS_PER_DELAY;
	int64		width = SPAN_MIN_US;

	while (width < wanted)
		width *= 2;
	return width;
}

/* rows of open groups before the batch; those found by was_read() are taken off */
static SqTimeCounts *
open_rows_before(const Work *work)
{
	SqTimeCounts *counts;
	const SqTimeCounts *last = work->last->open_rows;

	counts = sq_time_counts_create(last ? last->width_us : span_width(work->compiled));
	for (int i = 0; last != NULL && i < last->ncounts; i++)
		sq_time_counts_add(counts, last->counts[i].start, last->counts[i].rows);
	return counts;
}

/* what the groups that have closed should have found and have not; taken off counts */
static int64
take_missing(Work *work, SqTimeCounts *counts, TimestampTz bound)
{
	const SqTimeCounts *closed = work->was_read.counts;

	sq_time_counts_widen(counts, closed->width_us);
	for (int i = 0; i < closed->ncounts; i++)
		sq_time_counts_add(counts, closed->counts[i].start, -closed->counts[i].rows);
	return sq_time_counts_take_before(counts, bound);
}

/* a closing query that had no need to look has found nothing, so the rows are counted */
static int64
count_missing(Work *work, SqTimeCounts *counts, TimestampTz bound)
{
	int64		rows;

	work->was_read.counts = sq_time_counts_create(counts->width_us);
	sq_statement_numbers(statement_of(work, SQ_PLACE_COUNT_RANGE), work->params, &rows, 1);
	return take_missing(work, counts, bound);
}

/*
 * Accounts for the rows of open groups: what the groups that have closed should
 * have found in the source and have not is gone.
 */
static void
account_open_rows(Work *work, const SqBacklog *backlog, const SqCut *cut, bool due)
{
	SqTimeCounts *counts = open_rows_before(work);
	TimestampTz bound = PG_INT64_MIN;
	int64		missing = 0;

	if (work->times.has_watermark)
		bound = sq_finality_bound(work->compiled, work->times.watermark);
	if (due)
		missing = take_missing(work, counts, bound);
	if (missing > 0)
	{
		counts = open_rows_before(work);
		missing = count_missing(work, counts, bound);
	}
	if (missing > 0 && sq_strategy_is_filtered(work->compiled))
		missing = 0;			/* hidden by row-level security */
	if (missing > 0)
		ereport(WARNING,
				(errmsg("rows of source \"%s\" were gone before their groups were final",
						get_rel_name(linitial_oid(work->compiled->query->sources))),
				 errdetail_plural("%lld row that streaming query \"%s\" had read was no longer there when it computed the row's group.",
								  "%lld rows that streaming query \"%s\" had read were no longer there when it computed their groups.",
								  missing, (long long) missing, work->compiled->query->name),
				 errhint("Delete rows only when the watermark in streamq.status has passed the end of their groups.")));
	work->commit->trimmed_rows = Max(missing, 0);
	counts->not_before = bound;
	if (cut->rows > 0)
		sq_backlog_count_times(backlog, cut, GetActiveSnapshot(), counts);
	work->commit->open_rows = counts;
}

/* -------------------------------------------------------------------- batch */

/* true if there may be late rows among the batch's */
static bool
may_be_late(const Work *work, const SqCut *cut, int nsources)
{
	TimestampTz earliest = PG_INT64_MAX;

	if (!sq_compiled_has_watermark(work->compiled) || !work->times.has_watermark)
		return false;
	for (int i = 0; i < nsources; i++)
		earliest = Min(earliest, cut->source_times[i].min);
	return earliest != PG_INT64_MAX &&
		sq_finality_is_late(work->compiled, earliest, work->times.watermark);
}

/*
 * Executes the statements of a batch and fills in the figures of its commit
 * record.  due is what sq_aggregate_is_due() has said.
 */
void
sq_aggregate_execute(SqPrepared *prepared, const SqBacklog *backlog, const SqCut *cut,
					 bool due, const SqCheckpoint *last, SqCommitRecord *commit)
{
	const SqCompiled *compiled = prepared->compiled;
	bool		from_source = sq_strategy_is_source(compiled);
	Work		work;

	memset(&work, 0, sizeof(work));
	work.prepared = prepared;
	work.compiled = compiled;
	work.last = last;
	work.commit = commit;
	work.times = times_of(last);
	work.was_read.plan = &cut->plan;
	work.was_read.next_xid = U64FromFullTransactionId(ReadNextFullTransactionId());
	work.was_read.counts = sq_time_counts_create(last->open_rows ? last->open_rows->width_us :
												 from_source ? span_width(compiled) : 1);
	work.params = sq_finality_params(compiled, &cut->plan, backlog->target, &work.times,
									 &work.was_read);
	work.variant.lateness = may_be_late(&work, cut, list_length(compiled->sources)) ?
		SQ_LATE_LEFT_OUT : SQ_LATE_UNKNOWN;
	work.variant.has_closed = work.times.has_closed;

	if (cut->rows > 0 && work.variant.lateness != SQ_LATE_UNKNOWN)
		handle_late(&work);
	if (cut->rows > 0 && !from_source)
		keep_rows(&work);
	if (cut->rows > 0 && sq_compiled_replaces(compiled))
		replace_result(&work);
	if (due)
		close_groups(&work);
	if (from_source)
		account_open_rows(&work, backlog, cut, due);
	sq_debug_point("after-sink");
	commit->state_rows = last->state_rows + work.added - work.removed;
}
