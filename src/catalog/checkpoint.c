/*
 * checkpoint.c
 *		The checkpoint of a query: tables streamq.offsets and streamq.commits.
 *
 * Invariant EO-1: a batch's offsets and commit record are written in the
 * transaction that writes its sink rows, by sq_checkpoint_commit() and by
 * nobody else.  A record must be new: the primary keys see to it that no batch
 * is committed twice.
 *
 * Old records are trimmed now and then, but never the newest offsets of a
 * relation: a partition that is detached now may be attached again.
 */
#include "catalog/checkpoint.h"

#include "catalog/pg_type.h"
#include "lookup.h"
#include "spi.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/memutils.h"
#include "utils/pg_lsn.h"
#include "utils/xid8.h"

#define TRIM_EVERY 16			/* batches */

#define INSERT_OFFSETS \
	"INSERT INTO streamq.offsets (name, batch_id, relation, start_offset, end_offset," \
	" target, end_lsn, end_next_xid, partial_xid, partial_upto, partial_filenode)" \
	" VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)"

#define INSERT_COMMIT \
	"INSERT INTO streamq.commits (name, batch_id, started_at, duration_ms, planning_ms," \
	" execution_ms, input_rows, late_rows, output_rows, state_rows, watermark," \
	" max_event_time, source_max_event_time, total_input_rows, total_late_rows," \
	" total_output_rows, batch_watermark, trimmed_rows, total_trimmed_rows," \
	" open_span, open_times, open_rows)" \
	" VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16," \
	" $17, $18, $19, $20, $21, $22)"

/* now and then */
#define TRIM_COMMITS \
	"DELETE FROM streamq.commits WHERE name = $1 AND batch_id <= $2"
#define TRIM_OFFSETS \
	"DELETE FROM streamq.offsets WHERE name = $1 AND relation = $2" \
	" AND batch_id BETWEEN 0 AND $3"

/* what sq_checkpoint_commit() executes, to be shown */
const char *const sq_checkpoint_statements[] = {
	INSERT_OFFSETS, INSERT_COMMIT, TRIM_COMMITS, TRIM_OFFSETS, NULL
};

/* a column of offsets, copied */
static SqOffset *
offset_column(SqLookup *row, const char *column)
{
	bool		isnull;

	return sq_offset_copy(DatumGetSqOffset(sq_lookup_value(row, column, &isnull)));
}

/* elements of an array column without NULLs */
static Datum *
array_elements(SqLookup *row, const char *column, Oid type, int *n)
{
	bool		isnull;
	Datum		value = sq_lookup_value(row, column, &isnull);
	Datum	   *elements;
	bool	   *nulls;

	deconstruct_array(DatumGetArrayTypeP(value), type, 8, true, TYPALIGN_DOUBLE,
					  &elements, &nulls, n);
	return elements;
}

/* rows of open groups by event time */
static void
load_open_rows(SqLookup *row, SqCheckpoint *checkpoint)
{
	bool		isnull;
	Datum		span = sq_lookup_value(row, "open_span", &isnull);
	Datum	   *times;
	Datum	   *rows;
	int			n;

	if (isnull)
		return;
	times = array_elements(row, "open_times", TIMESTAMPTZOID, &n);
	rows = array_elements(row, "open_rows", INT8OID, &n);
	checkpoint->open_rows = sq_time_counts_create(DatumGetInt64(span));
	for (int i = 0; i < n; i++)
		sq_time_counts_add(checkpoint->open_rows, DatumGetTimestampTz(times[i]),
						   DatumGetInt64(rows[i]));
}

/* the greatest event times of the sources */
static void
load_source_times(Datum array, SqCheckpoint *checkpoint)
{
	Datum	   *elements;
	bool	   *nulls;

	deconstruct_array(DatumGetArrayTypeP(array), TIMESTAMPTZOID, 8, true, TYPALIGN_DOUBLE,
					  &elements, &nulls, &checkpoint->nsources);
	checkpoint->source_times = palloc(sizeof(TimestampTz) * (checkpoint->nsources + 1));
	for (int i = 0; i < checkpoint->nsources; i++)
		checkpoint->source_times[i] = nulls[i] ? PG_INT64_MIN : DatumGetTimestampTz(elements[i]);
}

/* the commit record of the last batch */
static void
load_commit(SqLookup *row, SqCheckpoint *checkpoint)
{
	Datum		column;
	bool		isnull;

	checkpoint->batch_id = DatumGetInt64(sq_lookup_value(row, "batch_id", &isnull));
	checkpoint->state_rows = DatumGetInt64(sq_lookup_value(row, "state_rows", &isnull));
	column = sq_lookup_value(row, "watermark", &isnull);
	checkpoint->has_watermark = !isnull;
	checkpoint->watermark = isnull ? 0 : DatumGetTimestampTz(column);
	column = sq_lookup_value(row, "source_max_event_time", &isnull);
	if (!isnull)
		load_source_times(column, checkpoint);
	checkpoint->total_input_rows = DatumGetInt64(sq_lookup_value(row, "total_input_rows", &isnull));
	checkpoint->total_late_rows = DatumGetInt64(sq_lookup_value(row, "total_late_rows", &isnull));
	checkpoint->total_output_rows = DatumGetInt64(sq_lookup_value(row, "total_output_rows", &isnull));
	column = sq_lookup_value(row, "batch_watermark", &isnull);
	checkpoint->had_watermark = !isnull;
	checkpoint->batch_watermark = isnull ? 0 : DatumGetTimestampTz(column);
	checkpoint->total_trimmed_rows = DatumGetInt64(sq_lookup_value(row, "total_trimmed_rows", &isnull));
	load_open_rows(row, checkpoint);
}

/* what the row says of a relation */
static void
load_offset(SqLookup *row, SqRelationOffset *relation)
{
	bool		isnull;
	Datum		column;

	relation->position.offset = offset_column(row, "end_offset");
	relation->target = offset_column(row, "target");
	column = sq_lookup_value(row, "end_lsn", &isnull);
	if (!isnull)
	{
		relation->position.horizon.lsn = DatumGetLSN(column);
		column = sq_lookup_value(row, "end_next_xid", &isnull);
		relation->position.horizon.xid =
			U64FromFullTransactionId(DatumGetFullTransactionId(column));
	}
	column = sq_lookup_value(row, "partial_xid", &isnull);
	if (isnull)
		return;
	relation->position.partial_xid =
		U64FromFullTransactionId(DatumGetFullTransactionId(column));
	column = sq_lookup_value(row, "partial_upto", &isnull);
	relation->position.partial_upto = *(ItemPointer) DatumGetPointer(column);
	relation->partial_filenode = DatumGetObjectId(sq_lookup_value(row, "partial_filenode", &isnull));
}

/*
 * Finds the newest offsets of a relation.  Mostly they are of the last batch; to look
 * for those alone spares the index a walk over all that are kept.
 */
static bool
find_offset(Datum name, Oid relid, int64 last_batch, SqLookup *lookup)
{
	SqLookupKey keys[3] = {{"name", TEXTOID, name},
	{"relation", REGCLASSOID, ObjectIdGetDatum(relid)},
	{"batch_id", INT8OID, Int64GetDatum(last_batch)}};

	if (sq_lookup_begin(lookup, "offsets", keys, 3))
		return true;
	sq_lookup_end(lookup);
	return sq_lookup_begin(lookup, "offsets", keys, 2);
}

/* the newest offsets of the relations given */
static void
load_offsets(Datum name, List *relids, SqCheckpoint *checkpoint)
{
	ListCell   *lc;

	checkpoint->nrelations = 0;
	checkpoint->relations = palloc0(sizeof(SqRelationOffset) * (list_length(relids) + 1));
	foreach(lc, relids)
	{
		SqRelationOffset *relation = &checkpoint->relations[checkpoint->nrelations];
		SqLookup	lookup;

		if (find_offset(name, lfirst_oid(lc), checkpoint->batch_id, &lookup))
		{
			relation->relid = lfirst_oid(lc);
			load_offset(&lookup, relation);
			checkpoint->nrelations++;
		}
		sq_lookup_end(&lookup);
	}
}

/*
 * What the last committed batch of a query left of the relations given, in the
 * current context.  To be relied upon only while the caller holds the query's
 * lock.
 */
SqCheckpoint *
sq_checkpoint_load(const char *name, List *relids)
{
	SqCheckpoint *checkpoint = palloc0(sizeof(SqCheckpoint));
	SqLookupKey key = {"name", TEXTOID, CStringGetTextDatum(name)};
	SqLookup	lookup;

	checkpoint->batch_id = -1;
	if (sq_lookup_begin(&lookup, "commits", &key, 1))
		load_commit(&lookup, checkpoint);
	sq_lookup_end(&lookup);
	load_offsets(key.value, relids, checkpoint);
	return checkpoint;
}

/* The offset from which a query has read a relation. */
SqOffset *
sq_checkpoint_first(const char *name, Oid relid)
{
	SqLookupKey keys[3] = {{"name", TEXTOID, CStringGetTextDatum(name)},
	{"relation", REGCLASSOID, ObjectIdGetDatum(relid)},
	{"batch_id", INT8OID, Int64GetDatum(-1)}};
	SqOffset   *result = NULL;
	SqLookup	lookup;

	if (sq_lookup_begin(&lookup, "offsets", keys, 3))
		result = offset_column(&lookup, "end_offset");
	sq_lookup_end(&lookup);
	return result ? result : sq_offset_empty();
}

/* The offsets of a relation, or NULL if nothing of it has been read. */
const SqRelationOffset *
sq_checkpoint_find(const SqCheckpoint *checkpoint, Oid relid)
{
	for (int i = 0; i < checkpoint->nrelations; i++)
		if (checkpoint->relations[i].relid == relid)
			return &checkpoint->relations[i];
	return NULL;
}

static void
insert_offsets(const char *name, int64 batch_id, const SqOffsetRecord *record)
{
	static SqSql sql = {
		INSERT_OFFSETS,
		11, {TEXTOID, INT8OID, REGCLASSOID, PG_SNAPSHOTOID, PG_SNAPSHOTOID,
		PG_SNAPSHOTOID, LSNOID, XID8OID, XID8OID, TIDOID, OIDOID}, NULL
	};
	ItemPointerData upto = record->end.partial_upto;
	Datum		values[11];
	char		nulls[11];

	memset(nulls, ' ', sizeof(nulls));
	values[0] = CStringGetTextDatum(name);
	values[1] = Int64GetDatum(batch_id);
	values[2] = ObjectIdGetDatum(record->relid);
	values[3] = SqOffsetGetDatum(record->start);
	values[4] = SqOffsetGetDatum(record->end.offset);
	values[5] = SqOffsetGetDatum(record->target);
	values[6] = LSNGetDatum(record->end.horizon.lsn);
	values[7] = FullTransactionIdGetDatum(FullTransactionIdFromU64(record->end.horizon.xid));
	values[8] = FullTransactionIdGetDatum(FullTransactionIdFromU64(record->end.partial_xid));
	values[9] = PointerGetDatum(&upto);
	values[10] = ObjectIdGetDatum(record->filenode);
	if (XLogRecPtrIsInvalid(record->end.horizon.lsn))
		nulls[6] = nulls[7] = 'n';
	if (record->end.partial_xid == 0)
		nulls[8] = nulls[9] = nulls[10] = 'n';
	sq_engine_exec(&sql, values, nulls);
}

static Datum
times_array(const TimestampTz *times, int n)
{
	Datum	   *elements = palloc(sizeof(Datum) * (n + 1));
	bool	   *nulls = palloc(sizeof(bool) * (n + 1));
	int			lower = 1;

	for (int i = 0; i < n; i++)
	{
		elements[i] = TimestampTzGetDatum(times[i]);
		nulls[i] = times[i] == PG_INT64_MIN;
	}
	return PointerGetDatum(construct_md_array(elements, nulls, 1, &n, &lower,
											  TIMESTAMPTZOID, 8, true, TYPALIGN_DOUBLE));
}

/* columns open_span, open_times, open_rows */
static void
set_open_rows(const SqTimeCounts *counts, Datum *values, char *nulls)
{
	Datum	   *times;
	Datum	   *rows;

	if (counts == NULL)
	{
		memset(nulls, 'n', 3);
		return;
	}
	times = palloc(sizeof(Datum) * (counts->ncounts + 1));
	rows = palloc(sizeof(Datum) * (counts->ncounts + 1));
	for (int i = 0; i < counts->ncounts; i++)
	{
		times[i] = TimestampTzGetDatum(counts->counts[i].start);
		rows[i] = Int64GetDatum(counts->counts[i].rows);
	}
	values[0] = Int64GetDatum(counts->width_us);
	values[1] = PointerGetDatum(construct_array(times, counts->ncounts, TIMESTAMPTZOID, 8, true,
												TYPALIGN_DOUBLE));
	values[2] = PointerGetDatum(construct_array(rows, counts->ncounts, INT8OID, 8, true,
												TYPALIGN_DOUBLE));
}

static void
insert_commit(const char *name, const SqCheckpoint *last, const SqCommitRecord *commit)
{
	static SqSql sql = {
		INSERT_COMMIT,
		22, {TEXTOID, INT8OID, TIMESTAMPTZOID, FLOAT8OID, FLOAT8OID, FLOAT8OID,
			INT8OID, INT8OID, INT8OID, INT8OID, TIMESTAMPTZOID, TIMESTAMPTZOID,
			TIMESTAMPTZARRAYOID, INT8OID, INT8OID, INT8OID, TIMESTAMPTZOID, INT8OID,
		INT8OID, INT8OID, TIMESTAMPTZARRAYOID, INT8ARRAYOID}, NULL
	};
	Datum		values[22];
	char		nulls[22];

	memset(nulls, ' ', sizeof(nulls));
	values[0] = CStringGetTextDatum(name);
	values[1] = Int64GetDatum(commit->batch_id);
	values[2] = TimestampTzGetDatum(commit->started_at);
	values[3] = Float8GetDatum(commit->duration_ms);
	values[4] = Float8GetDatum(commit->planning_ms);
	values[5] = Float8GetDatum(commit->execution_ms);
	values[6] = Int64GetDatum(commit->input_rows);
	values[7] = Int64GetDatum(commit->late_rows);
	values[8] = Int64GetDatum(commit->output_rows);
	values[9] = Int64GetDatum(commit->state_rows);
	values[10] = TimestampTzGetDatum(commit->watermark);
	values[11] = TimestampTzGetDatum(commit->max_event_time);
	values[12] = times_array(commit->source_times, commit->nsources);
	values[13] = Int64GetDatum(last->total_input_rows + commit->input_rows);
	values[14] = Int64GetDatum(last->total_late_rows + commit->late_rows);
	values[15] = Int64GetDatum(last->total_output_rows + commit->output_rows);
	values[16] = TimestampTzGetDatum(commit->batch_watermark);
	values[17] = Int64GetDatum(commit->trimmed_rows);
	values[18] = Int64GetDatum(last->total_trimmed_rows + commit->trimmed_rows);
	set_open_rows(commit->open_rows, &values[19], &nulls[19]);
	if (!commit->had_watermark)
		nulls[16] = 'n';
	if (!commit->has_watermark)
		nulls[10] = 'n';
	if (commit->max_event_time == PG_INT64_MIN)
		nulls[11] = 'n';
	sq_engine_exec(&sql, values, nulls);
}

/*
 * Forgets records up to a batch, that nothing needs any more: of each relation that
 * this batch has written a newer one of.
 */
static void
trim(const char *name, int64 batch_id, const SqOffsetRecord *offsets, int noffsets)
{
	static SqSql trim_commits = {
		TRIM_COMMITS,
		2, {TEXTOID, INT8OID}, NULL
	};
	static SqSql trim_offsets = {
		TRIM_OFFSETS,
		3, {TEXTOID, REGCLASSOID, INT8OID}, NULL
	};
	Datum		commits[2] = {CStringGetTextDatum(name), Int64GetDatum(batch_id)};
	int			nest_level = sq_settings_push_indexes();

	sq_engine_exec(&trim_commits, commits, NULL);
	for (int i = 0; i < noffsets; i++)
	{
		Datum		values[3] = {commits[0], ObjectIdGetDatum(offsets[i].relid), commits[1]};

		sq_engine_exec(&trim_offsets, values, NULL);
	}
	sq_settings_pop(nest_level);
}

/*
 * Writes the offsets and the commit record of a batch.  The caller holds the
 * query's lock and is in the transaction that has written the sink.
 */
void
sq_checkpoint_commit(const char *name, const SqCheckpoint *last,
					 const SqCommitRecord *commit,
					 const SqOffsetRecord *offsets, int noffsets)
{
	SqEngine	engine;

	Assert(commit->batch_id == last->batch_id + 1);
	sq_engine_begin(&engine);
	for (int i = 0; i < noffsets; i++)
	{
		/* an offset that goes back would have rows read twice */
		if (!sq_offset_sees_all(offsets[i].end.offset, offsets[i].start))
			elog(ERROR, "offset of relation %u would go back", offsets[i].relid);
		insert_offsets(name, commit->batch_id, &offsets[i]);
	}
	insert_commit(name, last, commit);
	if (commit->batch_id % TRIM_EVERY == 0 && commit->batch_id > SQ_BATCHES_KEPT)
		trim(name, commit->batch_id - SQ_BATCHES_KEPT, offsets, noffsets);
	sq_engine_end(&engine);
}

/* Makes a query without a checkpoint start at an offset in one relation. */
void
sq_checkpoint_start_at(const char *name, Oid relation, const SqOffset *offset,
					   SqHorizon horizon)
{
	SqOffsetRecord record;
	SqEngine	engine;

	memset(&record, 0, sizeof(record));
	record.relid = relation;
	record.start = sq_offset_empty();
	record.end.offset = offset;
	record.end.horizon = horizon;
	record.target = offset;
	sq_engine_begin(&engine);
	insert_offsets(name, -1, &record);
	sq_engine_end(&engine);
}

/* Forgets the checkpoint of a query. */
void
sq_checkpoint_delete(const char *name)
{
	static SqSql offsets = {
		"DELETE FROM streamq.offsets WHERE name = $1", 1, {TEXTOID}, NULL
	};
	static SqSql commits = {
		"DELETE FROM streamq.commits WHERE name = $1", 1, {TEXTOID}, NULL
	};
	Datum		value = CStringGetTextDatum(name);

	(void) sq_engine_run(&offsets, &value, NULL);
	(void) sq_engine_run(&commits, &value, NULL);
}

/* Forgets a relation that has been dropped; its oid may be used again. */
void
sq_checkpoint_forget_relation(Oid relation)
{
	static SqSql sql = {
		"DELETE FROM streamq.offsets WHERE relation = $1", 1, {REGCLASSOID}, NULL
	};
	Datum		value = ObjectIdGetDatum(relation);

	(void) sq_engine_run(&sql, &value, NULL);
}
