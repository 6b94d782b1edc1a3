/*
 * watermark.c
 *		The watermark of a query, from the greatest event times of its sources.
 *
 * Spark's rules (Structured Streaming guide, "Handling Late Data and
 * Watermarking"): a source's watermark is the greatest event time seen so far
 * minus the delay; with several sources the least of them counts; it is moved
 * at the end of a batch, from all rows read, and never back.  Until each source
 * with a delay has had a row, there is none.
 */
#include "batch/watermark.h"

#include "batch/backlog.h"
#include "catalog/pg_type.h"
#include "fmgr.h"
#include "utils/fmgrprotos.h"
#include "utils/lsyscache.h"

/*
 * Greatest event time minus delay, by the arithmetic of the column's type; or
 * PG_INT64_MIN if that is before all time.
 */
static TimestampTz
subtract_delay(const SqSource *source, TimestampTz time)
{
	const Interval *interval = source->watermark_delay;
	Datum		delay = IntervalPGetDatum(interval);
	double		longest = (interval->month * 31.0 + interval->day + 1) * USECS_PER_DAY +
	(double) interval->time;

	if ((double) time - longest < (double) MIN_TIMESTAMP)
		return PG_INT64_MIN;

	if (get_atttype(source->relid, source->event_time) == TIMESTAMPTZOID)
		return DatumGetTimestampTz(DirectFunctionCall2(timestamptz_mi_interval,
													   TimestampTzGetDatum(time), delay));
	return DatumGetTimestamp(DirectFunctionCall2(timestamp_mi_interval,
												 TimestampGetDatum(time), delay));
}

/*
 * Fills in the event times and the watermark of a batch's commit record.
 * batch_times holds the event times in the batch by source.
 */
void
sq_watermark_advance(const SqCheckpoint *last, List *inputs,
					 const SqTimeRange *batch_times, SqCommitRecord *commit)
{
	bool		complete = true;
	bool		found = false;
	TimestampTz least = PG_INT64_MAX;
	ListCell   *lc;

	commit->nsources = list_length(inputs);
	commit->source_times = palloc(sizeof(TimestampTz) * (commit->nsources + 1));
	commit->max_event_time = PG_INT64_MIN;
	foreach(lc, inputs)
	{
		int			i = foreach_current_index(lc);
		const SqSource *source = ((SqInput *) lfirst(lc))->source;
		TimestampTz time = i < last->nsources ? last->source_times[i] : PG_INT64_MIN;

		time = Max(time, batch_times[i].max);
		commit->source_times[i] = time;
		commit->max_event_time = Max(commit->max_event_time, batch_times[i].max);
		if (source->watermark_delay == NULL)
			continue;
		found = true;
		if (time != PG_INT64_MIN)
			time = subtract_delay(source, time);
		if (time == PG_INT64_MIN)
			complete = false;
		else
			least = Min(least, time);
	}

	commit->had_watermark = last->has_watermark;
	commit->batch_watermark = last->watermark;
	commit->has_watermark = last->has_watermark;
	commit->watermark = last->watermark;
	if (found && complete && (!commit->has_watermark || least > commit->watermark))
	{
		commit->has_watermark = true;
		commit->watermark = least;
	}
}
