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

/* the event time of a row as a timestamp; PG_INT64_MIN if it has none */
static TimestampTz
event_time(FunctionCallInfo fcinfo, int argument)
{
	if (PG_ARGISNULL(argument))
		return PG_INT64_MIN;
	if (get_fn_expr_argtype(fcinfo->flinfo, argument) == DATEOID)
	{
		DateADT		date = PG_GETARG_DATEADT(argument);

		return DATE_NOT_FINITE(date) || date >= TIMESTAMP_END_JULIAN - POSTGRES_EPOCH_JDATE ?
			PG_INT64_MIN : (TimestampTz) date * USECS_PER_DAY;
	}
	return TIMESTAMP_NOT_FINITE(PG_GETARG_TIMESTAMP(argument)) ? PG_INT64_MIN :
		PG_GETARG_TIMESTAMP(argument);
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
	time = event_time(fcinfo, 4);
	if (time != PG_INT64_MIN)
		sq_time_counts_add(context->counts, time, 1);
	PG_RETURN_BOOL(true);
}
