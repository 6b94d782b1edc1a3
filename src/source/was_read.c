/*
 * was_read.c
 *		Which rows of a source earlier batches have read: streamq.was_read().
 *
 * A condition on rows found by an index, where the table sampling method, which
 * visits pages, is of no use.  The offset decides as it does there (invariant
 * EO-2): a row has been read when the position at the start of the batch covers
 * its inserting transaction.
 *
 * The first argument is of type internal, so that only statements of the engine
 * can call it.
 */
#include "source/was_read.h"

#include "access/transam.h"
#include "catalog/pg_type.h"
#include "fmgr.h"
#include "utils/date.h"
#include "utils/timestamp.h"

PG_FUNCTION_INFO_V1(streamq_was_read);

/* the event time of a row as a timestamp; false if it has none, or infinity */
static bool
event_time(FunctionCallInfo fcinfo, int argument, TimestampTz *time)
{
	if (PG_ARGISNULL(argument))
		return false;
	if (get_fn_expr_argtype(fcinfo->flinfo, argument) == DATEOID)
	{
		DateADT		date = PG_GETARG_DATEADT(argument);

		if (date >= TIMESTAMP_END_JULIAN - POSTGRES_EPOCH_JDATE)
			return false;
		*time = DATE_IS_NOBEGIN(date) ? DT_NOBEGIN : (TimestampTz) date * USECS_PER_DAY;
		return true;
	}
	*time = PG_GETARG_TIMESTAMP(argument);
	return !TIMESTAMP_IS_NOEND(*time);
}

/*
 * streamq.was_read(internal, relation oid, place tid, inserted xid, event_time "any")
 *		RETURNS boolean
 */
Datum
streamq_was_read(PG_FUNCTION_ARGS)
{
	SqWasRead  *context = (SqWasRead *) PG_GETARG_POINTER(0);
	const SqRelationRead *read = sq_readplan_find(context->plan, PG_GETARG_OID(1));
	uint64		xid = sq_offset_widen(PG_GETARG_TRANSACTIONID(3), context->next_xid);
	TimestampTz time;

	if (read == NULL || !sq_position_covers(&read->start, xid, (ItemPointer) PG_GETARG_POINTER(2)))
		PG_RETURN_BOOL(false);
	if (context->first != NULL)
	{
		SqPosition	never = {0};

		never.offset = context->first[read - context->plan->relations];
		if (sq_position_covers(&never, xid, (ItemPointer) PG_GETARG_POINTER(2)))
			PG_RETURN_BOOL(false);
	}
	if (event_time(fcinfo, 4, &time))
		sq_time_counts_add(context->counts, time, 1);
	PG_RETURN_BOOL(true);
}
