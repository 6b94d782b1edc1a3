/*
 * time_counts.c
 *		Numbers of rows by spans of event time.
 *
 * Where groups are read from the source when they close, a few numbers tell
 * whether all rows are still there that were read before: rows are added when
 * they arrive and subtracted when their group closes.
 *
 * When there are too many spans all of them become twice as wide.  Rows at
 * -infinity have a span of their own.
 */
#include "time_counts.h"

#include "utils/memutils.h"

#define SPANS_MAX 2000
#define FIRST_SIZE 32

SqTimeCounts *
sq_time_counts_create(int64 width_us)
{
	SqTimeCounts *counts = palloc0(sizeof(SqTimeCounts));

	counts->context = CurrentMemoryContext;
	counts->width_us = width_us;
	counts->not_before = PG_INT64_MIN;
	return counts;
}

static TimestampTz
span_start(const SqTimeCounts *counts, TimestampTz time)
{
	int64		rest = time % counts->width_us;

	if (time == PG_INT64_MIN)
		return time;
	return rest < 0 ? time - rest - counts->width_us : time - rest;
}

/* index of the first span that does not start before a time */
static int
find(const SqTimeCounts *counts, TimestampTz start)
{
	int			low = 0;
	int			high = counts->ncounts;

	while (low < high)
	{
		int			middle = (low + high) / 2;

		if (counts->counts[middle].start < start)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static void
insert_at(SqTimeCounts *counts, int place, TimestampTz start)
{
	if (counts->ncounts == counts->size)
	{
		bool		first = counts->size == 0;

		counts->size = first ? FIRST_SIZE : counts->size * 2;
		counts->counts = first ?
			MemoryContextAlloc(counts->context, sizeof(SqTimeCount) * FIRST_SIZE) :
			repalloc(counts->counts, sizeof(SqTimeCount) * counts->size);
	}
	memmove(&counts->counts[place + 1], &counts->counts[place],
			sizeof(SqTimeCount) * (counts->ncounts - place));
	counts->counts[place].start = start;
	counts->counts[place].rows = 0;
	counts->ncounts++;
}

static void
widen_to(SqTimeCounts *counts, int64 width_us)
{
	int			kept = -1;

	counts->width_us = width_us;
	for (int i = 0; i < counts->ncounts; i++)
	{
		SqTimeCount count = counts->counts[i];

		count.start = span_start(counts, count.start);
		if (kept >= 0 && counts->counts[kept].start == count.start)
			counts->counts[kept].rows += count.rows;
		else
			counts->counts[++kept] = count;
	}
	counts->ncounts = kept + 1;
	counts->last = 0;
}

/* Makes the spans at least as wide as others are. */
void
sq_time_counts_widen(SqTimeCounts *counts, int64 width_us)
{
	if (counts->width_us < width_us)
		widen_to(counts, width_us);
}

/* Counts rows of one event time, which is finite or -infinity. */
void
sq_time_counts_add(SqTimeCounts *counts, TimestampTz time, int64 rows)
{
	TimestampTz start;
	int			place;

	if (time < counts->not_before)
		return;
	start = span_start(counts, time);
	if (counts->last < counts->ncounts && counts->counts[counts->last].start == start)
	{
		counts->counts[counts->last].rows += rows;
		return;
	}
	place = find(counts, start);
	if (place == counts->ncounts || counts->counts[place].start != start)
		insert_at(counts, place, start);
	counts->counts[place].rows += rows;
	counts->last = place;
	while (counts->ncounts > SPANS_MAX && counts->width_us < PG_INT64_MAX / 4)
		widen_to(counts, counts->width_us * 2);
}

/* Removes the spans that end before a time; returns how many rows they had left. */
int64
sq_time_counts_take_before(SqTimeCounts *counts, TimestampTz bound)
{
	int64		rows = 0;
	int			n = 0;

	if (bound < PG_INT64_MIN + counts->width_us)
		return 0;
	while (n < counts->ncounts && counts->counts[n].start <= bound - counts->width_us)
		rows += counts->counts[n++].rows;
	if (n > 0)
		memmove(counts->counts, &counts->counts[n],
				sizeof(SqTimeCount) * (counts->ncounts - n));
	counts->ncounts -= n;
	counts->last = 0;
	return rows;
}
