/*
 * querydef.c
 *		The table streamq.queries, which only this file reads and writes, and
 *		the lock that whoever runs a query holds.
 *
 * A query belongs to the owner of its definition, a view in schema
 * streamq_query: so ALTER VIEW ... OWNER, REASSIGN OWNED and DROP OWNED do
 * with a query what they do with any object.
 *
 * Invariant EO-3: two backends never run one query at the same time.  Whoever
 * runs, resets or drops it holds an exclusive heavyweight lock on the object
 * (streamq.queries, query_id); runners hold it for the session, across the
 * transactions of their batches, and look before each commit whether they have
 * it.
 */
#include "catalog/querydef.h"

#include "access/htup_details.h"
#include "access/xact.h"
#include "catalog/namespace.h"
#include "catalog/origin.h"
#include "catalog/pg_type.h"
#include "compat.h"
#include "lookup.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "spi.h"
#include "utils/acl.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/datum.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"

#define ERROR_LEN_MAX		8192	/* bytes kept of a message, and of its
									 * detail */

/* The owner of the query with this definition, or InvalidOid. */
Oid
sq_query_owner(Oid definition)
{
	HeapTuple	tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(definition));
	Oid			owner;

	if (!HeapTupleIsValid(tuple))
		return InvalidOid;
	owner = ((Form_pg_class) GETSTRUCT(tuple))->relowner;
	ReleaseSysCache(tuple);
	return owner;
}

static List *
oid_list(Datum array)
{
	Datum	   *elements;
	bool	   *nulls;
	int			n;
	List	   *result = NIL;

	deconstruct_array(DatumGetArrayTypeP(array), REGCLASSOID, sizeof(Oid), true,
					  TYPALIGN_INT, &elements, &nulls, &n);
	for (int i = 0; i < n; i++)
		result = lappend_oid(result, DatumGetObjectId(elements[i]));
	return result;
}

static List *
number_list(Datum array)
{
	Datum	   *elements;
	bool	   *nulls;
	int			n;
	List	   *result = NIL;

	deconstruct_array(DatumGetArrayTypeP(array), INT2OID, sizeof(int16), true,
					  TYPALIGN_SHORT, &elements, &nulls, &n);
	for (int i = 0; i < n; i++)
		result = lappend_int(result, DatumGetInt16(elements[i]));
	return result;
}

static Datum
number_array(List *numbers)
{
	Datum	   *elements = palloc(sizeof(Datum) * (list_length(numbers) + 1));
	ListCell   *lc;

	foreach(lc, numbers)
	{
		elements[foreach_current_index(lc)] = Int16GetDatum(lfirst_int(lc));
	}
	return PointerGetDatum(construct_array(elements, list_length(numbers), INT2OID,
										   sizeof(int16), true, TYPALIGN_SHORT));
}

static List *
text_list(Datum array)
{
	Datum	   *elements;
	bool	   *nulls;
	int			n;
	List	   *result = NIL;

	deconstruct_array(DatumGetArrayTypeP(array), TEXTOID, -1, false, TYPALIGN_INT,
					  &elements, &nulls, &n);
	for (int i = 0; i < n; i++)
		result = lappend(result, TextDatumGetCString(elements[i]));
	return result;
}

static Datum
text_array(List *strings)
{
	Datum	   *elements = palloc(sizeof(Datum) * (list_length(strings) + 1));
	ListCell   *lc;
	int			n = 0;

	foreach(lc, strings)
	{
		elements[n++] = CStringGetTextDatum(lfirst(lc));
	}
	return PointerGetDatum(construct_array(elements, n, TEXTOID, -1, false, TYPALIGN_INT));
}

/* the query in the row that has been looked up */
static SqQuery *
read_query(SqLookup *row)
{
	SqQuery    *query = palloc0(sizeof(SqQuery));
	bool		isnull;
	Datum		value;

	query->name = sq_lookup_text(row, "name");
	query->query_id = DatumGetInt32(sq_lookup_value(row, "query_id", &isnull));
	query->definition = DatumGetObjectId(sq_lookup_value(row, "definition", &isnull));
	query->owner = sq_query_owner(query->definition);
	query->sink = DatumGetObjectId(sq_lookup_value(row, "sink", &isnull));
	query->sources = oid_list(sq_lookup_value(row, "sources", &isnull));
	query->output_mode = sq_lookup_text(row, "output_mode");
	query->starting_position = sq_lookup_text(row, "starting_position");
	value = sq_lookup_value(row, "max_rows_per_batch", &isnull);
	query->max_rows_per_batch = isnull ? 0 : DatumGetInt64(value);
	query->settings = text_list(sq_lookup_value(row, "settings", &isnull));
	query->strategy = sq_lookup_text(row, "strategy");
	query->strategy_reason = sq_lookup_text(row, "strategy_reason");
	query->state_keys = number_list(sq_lookup_value(row, "state_keys", &isnull));
	query->state_calls = number_list(sq_lookup_value(row, "state_calls", &isnull));
	value = sq_lookup_value(row, "late_sink", &isnull);
	query->late_sink = isnull ? InvalidOid : DatumGetObjectId(value);
	query->is_restored =
		!sq_origin_is(DatumGetUUIDP(sq_lookup_value(row, "checkpoint_origin", &isnull))) ||
		DatumGetObjectId(sq_lookup_value(row, "checkpoint_definition", &isnull)) != query->definition;
	query->active = !query->is_restored && DatumGetBool(sq_lookup_value(row, "active", &isnull));
	value = sq_lookup_value(row, "trigger_interval", &isnull);
	if (!isnull)
		query->trigger_interval = DatumGetIntervalP(datumCopy(value, false, sizeof(Interval)));
	query->failed = !query->is_restored && DatumGetBool(sq_lookup_value(row, "failed", &isnull));
	query->retries = DatumGetInt32(sq_lookup_value(row, "retries", &isnull));
	query->last_error = sq_lookup_text(row, "last_error");
	query->place = row->row->t_self;
	query->xmin = HeapTupleHeaderGetRawXmin(row->row->t_data);
	return query;
}

/* The query of that name as it is now committed, in the current context. */
SqQuery *
sq_query_load(const char *name, bool missing_ok)
{
	SqLookupKey key = {"name", TEXTOID, CStringGetTextDatum(name)};
	SqQuery    *query = NULL;
	SqLookup	lookup;

	if (sq_lookup_begin(&lookup, "queries", &key, 1))
		query = read_query(&lookup);
	sq_lookup_end(&lookup);

	if (query == NULL && !missing_ok)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_OBJECT),
				 errmsg("streaming query \"%s\" does not exist", name)));
	return query;
}

/* The same, refused to those who have not the rights of its owner. */
SqQuery *
sq_query_load_owned(const char *name)
{
	SqQuery    *query = sq_query_load(name, false);

	if (OidIsValid(query->owner) ? !has_privs_of_role(GetUserId(), query->owner) :
		!superuser())
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("must be owner of streaming query \"%s\"", name)));
	return query;
}

static char *
copy_string(const char *string)
{
	return string ? pstrdup(string) : NULL;
}

/* A copy in the current context. */
SqQuery *
sq_query_copy(const SqQuery *query)
{
	SqQuery    *copy = palloc(sizeof(SqQuery));
	ListCell   *lc;

	*copy = *query;
	copy->name = pstrdup(query->name);
	copy->sources = list_copy(query->sources);
	copy->output_mode = pstrdup(query->output_mode);
	copy->starting_position = pstrdup(query->starting_position);
	copy->settings = NIL;
	foreach(lc, query->settings)
	{
		copy->settings = lappend(copy->settings, pstrdup(lfirst(lc)));
	}
	copy->strategy = copy_string(query->strategy);
	copy->strategy_reason = copy_string(query->strategy_reason);
	copy->state_keys = list_copy(query->state_keys);
	copy->state_calls = list_copy(query->state_calls);
	if (query->trigger_interval != NULL)
		copy->trigger_interval = DatumGetIntervalP(datumCopy(IntervalPGetDatum(query->trigger_interval),
															 false, sizeof(Interval)));
	copy->last_error = copy_string(query->last_error);
	return copy;
}

/* True if two have been read from the same version of a row, and have the same owner. */
bool
sq_query_same(const SqQuery *a, const SqQuery *b)
{
	return a->query_id == b->query_id && a->definition == b->definition &&
		a->owner == b->owner && a->xmin == b->xmin &&
		ItemPointerEquals(unconstify(ItemPointerData *, &a->place),
						  unconstify(ItemPointerData *, &b->place));
}

/* Names of the queries that workers are to run. */
List *
sq_query_names_active(void)
{
	static SqSql sql = {
		"SELECT name FROM streamq.queries WHERE active ORDER BY query_id", 0, {0}, NULL
	};

	return sq_engine_texts(&sql, NULL);
}

/* Names of all queries. */
List *
sq_query_names_all(void)
{
	static SqSql sql = {
		"SELECT name FROM streamq.queries ORDER BY query_id", 0, {0}, NULL
	};

	return sq_engine_texts(&sql, NULL);
}

/* Names of the queries that read a source. */
List *
sq_query_names_reading(Oid source)
{
	static SqSql sql = {
		"SELECT name FROM streamq.queries WHERE $1 = ANY (sources) ORDER BY name",
		1, {REGCLASSOID}, NULL
	};
	Datum		value = ObjectIdGetDatum(source);

	return sq_engine_texts(&sql, &value);
}

/* Names of the queries whose definition or sink, for late rows too, is the relation. */
List *
sq_query_names_using(Oid relation)
{
	static SqSql sql = {
		"SELECT name FROM streamq.queries WHERE definition = $1 OR sink = $1 OR late_sink = $1",
		1, {REGCLASSOID}, NULL
	};
	Datum		value = ObjectIdGetDatum(relation);

	return sq_engine_texts(&sql, &value);
}

/* Stores a new query and sets its query_id. */
void
sq_query_insert(SqQuery *query)
{
	static SqSql sql = {
		"INSERT INTO streamq.queries (name, definition, sink, sources, output_mode,"
		" starting_position, max_rows_per_batch, settings, checkpoint_origin,"
		" checkpoint_definition, strategy, strategy_reason, state_keys, state_calls, late_sink)"
		" VALUES ($1, $2, $3, $4, $5, $6, $7, $8, (SELECT id FROM streamq.origin), $2,"
		" $9, $10, $11, $12, $13) RETURNING query_id",
		13, {TEXTOID, REGCLASSOID, REGCLASSOID, REGCLASSARRAYOID, TEXTOID,
			TEXTOID, INT8OID, TEXTARRAYOID, TEXTOID, TEXTOID, INT2ARRAYOID,
		INT2ARRAYOID, REGCLASSOID}, NULL
	};
	Datum		values[13];
	char		nulls[13];
	bool		isnull;
	SqEngine	engine;

	memset(nulls, ' ', sizeof(nulls));
	values[0] = CStringGetTextDatum(query->name);
	values[1] = ObjectIdGetDatum(query->definition);
	values[2] = ObjectIdGetDatum(query->sink);
	values[3] = sq_regclass_array(query->sources);
	values[4] = CStringGetTextDatum(query->output_mode);
	values[5] = CStringGetTextDatum(query->starting_position);
	values[6] = Int64GetDatum(query->max_rows_per_batch);
	if (query->max_rows_per_batch == 0)
		nulls[6] = 'n';
	values[7] = text_array(query->settings);
	if (query->strategy == NULL)
		nulls[8] = nulls[9] = 'n';
	else
	{
		values[8] = CStringGetTextDatum(query->strategy);
		values[9] = CStringGetTextDatum(query->strategy_reason);
	}
	values[10] = number_array(query->state_keys);
	values[11] = number_array(query->state_calls);
	values[12] = ObjectIdGetDatum(query->late_sink);
	if (!OidIsValid(query->late_sink))
		nulls[12] = 'n';
	sq_origin_ensure();
	sq_engine_begin(&engine);
	sq_engine_exec(&sql, values, nulls);
	query->query_id = DatumGetInt32(sq_engine_value(0, 1, &isnull));
	sq_engine_end(&engine);
}

/* Stores another definition for a query, and the columns of the state that it uses. */
void
sq_query_set_definition(const SqQuery *query)
{
	static SqSql sql = {
		"UPDATE streamq.queries SET definition = $2, checkpoint_definition = $2,"
		" state_keys = $3, state_calls = $4 WHERE name = $1",
		4, {TEXTOID, REGCLASSOID, INT2ARRAYOID, INT2ARRAYOID}, NULL
	};
	Datum		values[4] = {CStringGetTextDatum(query->name), ObjectIdGetDatum(query->definition),
	number_array(query->state_keys), number_array(query->state_calls)};

	(void) sq_engine_run(&sql, values, NULL);
}

void
sq_query_delete(const char *name)
{
	static SqSql sql = {
		"DELETE FROM streamq.queries WHERE name = $1", 1, {TEXTOID}, NULL
	};
	Datum		value = CStringGetTextDatum(name);

	(void) sq_engine_run(&sql, &value, NULL);
}

/* False if somebody else has started it meanwhile. */
bool
sq_query_set_started(const char *name, Interval *trigger_interval)
{
	static SqSql sql = {
		"UPDATE streamq.queries SET active = true, failed = false, retries = 0,"
		" last_error = NULL, last_error_detail = NULL, trigger_interval = $2"
		" WHERE name = $1 AND NOT active",
		2, {TEXTOID, INTERVALOID}, NULL
	};
	Datum		values[2] = {CStringGetTextDatum(name), IntervalPGetDatum(trigger_interval)};

	return sq_engine_run(&sql, values, NULL) > 0;
}

void
sq_query_set_stopped(const char *name)
{
	static SqSql sql = {
		"UPDATE streamq.queries SET active = false, failed = false, retries = 0"
		" WHERE name = $1",
		1, {TEXTOID}, NULL
	};
	Datum		value = CStringGetTextDatum(name);

	(void) sq_engine_run(&sql, &value, NULL);
}

/*
 * Makes the checkpoint belong to what is here, from the position given; false if
 * somebody has started the query since it was loaded.
 */
bool
sq_query_set_fresh(const char *name, const char *starting_position)
{
	static SqSql sql = {
		"UPDATE streamq.queries SET starting_position = $2,"
		" checkpoint_origin = (SELECT id FROM streamq.origin), checkpoint_definition = definition,"
		" active = false, failed = false, retries = 0, last_error = NULL, last_error_detail = NULL"
		" WHERE name = $1 AND (NOT active OR checkpoint_definition <> definition"
		" OR checkpoint_origin <> (SELECT id FROM streamq.origin))",
		2, {TEXTOID, TEXTOID}, NULL
	};
	Datum		values[2] = {CStringGetTextDatum(name), CStringGetTextDatum(starting_position)};

	sq_origin_ensure();
	return sq_engine_run(&sql, values, NULL) > 0;
}

/* a text as the tables keep it: an error may quote a value of any size */
static Datum
clipped_text(const char *string)
{
	int			len = strlen(string);

	return PointerGetDatum(cstring_to_text_with_len(string, pg_mbcliplen(string, len, ERROR_LEN_MAX)));
}

static void
add_line(StringInfo text, const char *label, const char *value)
{
	if (value != NULL && value[0] != '\0')
		appendStringInfo(text, "%s%s:  %s", text->len > 0 ? "\n" : "", label, value);
}

/* what an error says beyond its message, as the server log has it */
static char *
error_detail(const ErrorData *error)
{
	StringInfoData text;

	initStringInfo(&text);
	add_line(&text, "SQLSTATE", unpack_sql_state(error->sqlerrcode));
	add_line(&text, "DETAIL", error->detail_log ? error->detail_log : error->detail);
	add_line(&text, "HINT", error->hint);
	add_line(&text, "QUERY", error->internalquery);
	add_line(&text, "CONTEXT", error->context);
	return text.data;
}

/*
 * Notes that a batch has failed.  Returns the number of failures in a row, or
 * -1 if that is one too many (or the caller gives up at once), and the query is
 * failed now.
 */
int
sq_query_record_failure(const char *name, const ErrorData *error, bool give_up_now)
{
	static SqSql sql = {
		"UPDATE streamq.queries SET retries = retries + 1, last_error = $2,"
		" last_error_detail = $5,"
		" failed = $4 OR ($3 >= 0 AND retries >= $3),"
		" active = active AND NOT ($4 OR ($3 >= 0 AND retries >= $3))"
		" WHERE name = $1 RETURNING retries, failed",
		5, {TEXTOID, TEXTOID, INT4OID, BOOLOID, TEXTOID}, NULL
	};
	Datum		values[5] = {CStringGetTextDatum(name), clipped_text(error->message),
		Int32GetDatum(sq_max_retries), BoolGetDatum(give_up_now),
	clipped_text(error_detail(error))};
	int			result = -1;
	bool		isnull;
	SqEngine	engine;

	/* the owner may have ALTER ROLE ... SET default_transaction_read_only */
	XactReadOnly = false;
	sq_engine_begin(&engine);
	if (sq_engine_exec(&sql, values, NULL) > 0 &&
		!DatumGetBool(sq_engine_value(0, 2, &isnull)))
		result = DatumGetInt32(sq_engine_value(0, 1, &isnull));
	sq_engine_end(&engine);
	return result;
}

/* Notes that a batch has gone well after failures. */
void
sq_query_record_recovery(const char *name)
{
	static SqSql sql = {
		"UPDATE streamq.queries SET retries = 0, failed = false WHERE name = $1",
		1, {TEXTOID}, NULL
	};
	Datum		value = CStringGetTextDatum(name);

	(void) sq_engine_run(&sql, &value, NULL);
}

/* The oid of streamq.queries. */
Oid
sq_query_table(void)
{
	Oid			relid = get_relname_relid("queries", get_namespace_oid(SQ_SCHEMA, false));

	if (!OidIsValid(relid))
		elog(ERROR, "table \"%s.queries\" does not exist", SQ_SCHEMA);
	return relid;
}

/*
 * The tag of a query's lock.  It is put under the lock method of advisory locks
 * (on an object, where no advisory lock can be): a session's lock has to
 * survive an abort and to be gone at the end of the process, both of which holds
 * for that method only (ProcReleaseLocks(), ShutdownPostgres()).
 */
static SqQueryLock
query_lock_tag(int32 query_id)
{
	SqQueryLock lock;

	SET_LOCKTAG_OBJECT(lock.tag, MyDatabaseId, sq_query_table(), query_id, 0);
	lock.tag.locktag_lockmethodid = USER_LOCKMETHOD;
	return lock;
}

/* the query that this session runs, or 0 */
static int32 run_here = 0;

/*
 * Takes the lock of whoever runs a query, for the session or the transaction.
 * Without wait, returns false if somebody else has it.
 */
bool
sq_query_lock(int32 query_id, bool session, bool wait, SqQueryLock *lock)
{
	*lock = query_lock_tag(query_id);
	if (LockAcquire(&lock->tag, ExclusiveLock, session, !wait) == LOCKACQUIRE_NOT_AVAIL)
		return false;
	if (session)
		run_here = query_id;
	return true;
}

/* Gives back a session's lock; also in the course of an error. */
void
sq_query_unlock(const SqQueryLock *lock)
{
	run_here = 0;
	/* it may have been given back by pg_advisory_unlock_all() */
	if (LockHeldByMe(&lock->tag, ExclusiveLock, false))
		LockRelease(&lock->tag, ExclusiveLock, true);
}

/*
 * Errors if a batch of the query is being executed in this session, so that it is a
 * function called by the batch that asks.  It would wait for itself, or pull away what
 * the batch stands on: the session has the lock already.
 */
void
sq_query_check_outside(const SqQuery *query)
{
	if (query->query_id == run_here)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_IN_USE),
				 errmsg("cannot control streaming query \"%s\" from within its own batch", query->name),
				 errdetail("A function called by the query or its sink has tried to.")));
}

/*
 * Errors if the query, whose definition the caller has locked, has been given to
 * somebody else since it was loaded: what he may have put into it must not be executed
 * with the rights of the former owner (invariant S-1).
 */
void
sq_query_check_owner(const SqQuery *query)
{
	if (sq_query_owner(query->definition) != query->owner)
		ereport(ERROR,
				(errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
				 errmsg("streaming query \"%s\" has been given to another owner meanwhile", query->name),
				 errhint("Try again.")));
}

/*
 * Errors if something that a batch executed has given back the lock, or has
 * dropped the query: its checkpoint must not be written then.
 */
void
sq_query_check_mine(const SqQuery *query)
{
	SqQueryLock lock = query_lock_tag(query->query_id);
	SqQuery    *now = sq_query_load(query->name, true);

	if (now == NULL || now->query_id != query->query_id || now->definition != query->definition)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_IN_USE),
				 errmsg("streaming query \"%s\" has been dropped by its own batch", query->name),
				 errdetail("A function called by the query or its sink has dropped it.")));
	if (!LockHeldByMe(&lock.tag, ExclusiveLock, false))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("the lock on streaming query \"%s\" has been released", query->name),
				 errdetail("A function called by the query or its sink has called pg_advisory_unlock_all().")));
}
