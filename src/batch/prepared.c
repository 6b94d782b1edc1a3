/*
 * prepared.c
 *		A query taken apart, and its statements, kept between batches.
 *
 * Owns what a backend keeps of the queries that it runs, be it a worker or a session
 * that calls streamq.run(): for each, in a memory context of its own, the compiled
 * query and the statements that batches have executed so far, with their plans
 * (plan.c).  A small batch would otherwise spend most of its time on making them.
 *
 * What is kept is used only if nothing has changed of what it was made of: what
 * PostgreSQL tells of its catalogs (validity.c), the rows of the query and its
 * sources in the engine's own tables, and who executes it, and how.  A batch finds
 * that out when it has locked the relations that the query reads, and does not look
 * again: what changes later cannot be anything that these locks keep, and counts from
 * the next batch on.  Only plans are looked at before each execution.
 *
 * After an error nothing is used again.
 */
#include "batch/prepared.h"

#include "batch/plan.h"
#include "catalog/pg_inherits.h"
#include "catalog/sourcedef.h"
#include "commands/trigger.h"
#include "compiler/groups.h"
#include "compiler/streams.h"
#include "compiler/strategy.h"
#include "debug_point.h"
#include "miscadmin.h"
#include "sink/sink.h"
#include "storage/lmgr.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rls.h"

#define KEPT_MAX 64				/* queries */

/* the most recently used first */
static dlist_head all = DLIST_STATIC_INIT(all);
static int	nkept = 0;

/* statements of one place, of one variant */
typedef struct Place
{
	SqPlace		place;
	SqVariant	variant;
	List	   *statements;		/* SqStatement */
} Place;

static SqPrepared *
find(int32 query_id)
{
	dlist_iter	iter;

	dlist_foreach(iter, &all)
	{
		SqPrepared *prepared = dlist_container(SqPrepared, node, iter.cur);

		if (prepared->compiled->query->query_id == query_id)
			return prepared;
	}
	return NULL;
}

static void
discard(SqPrepared *prepared)
{
	dlist_delete(&prepared->node);
	nkept--;
	MemoryContextDelete(prepared->context);
}

/* makes room for one more; what cannot be used again goes first */
static void
make_room(void)
{
	dlist_mutable_iter iter;

	dlist_foreach_modify(iter, &all)
	{
		SqPrepared *prepared = dlist_container(SqPrepared, node, iter.cur);

		if (!prepared->validity.valid || prepared->in_use)
			discard(prepared);
	}
	if (nkept == KEPT_MAX)
		discard(dlist_container(SqPrepared, node, dlist_tail_node(&all)));
}

/* true if it is for such a batch, as far as messages have arrived */
static bool
is_for(const SqPrepared *prepared, const SqQuery *query)
{
	return prepared->validity.valid && !prepared->in_use &&
		sq_query_same(prepared->compiled->query, query) &&
		prepared->user == GetUserId() && prepared->row_security == row_security &&
		prepared->replication_role == SessionReplicationRole;
}

static bool
has_same_sources(const SqPrepared *prepared, const SqQuery *query)
{
	ListCell   *lc;
	ListCell   *lc2;

	forboth(lc, sq_compile_sources(query), lc2, prepared->compiled->sources)
	{
		if (!sq_source_same(lfirst(lc), lfirst(lc2)))
			return false;
	}
	return true;
}

/*
 * Locks the tables and views that a query reads, if it is known from the batch before
 * which those are.
 */
bool
sq_prepared_lock(const SqQuery *query)
{
	SqPrepared *prepared = find(query->query_id);
	ListCell   *lc;

	if (prepared == NULL || !is_for(prepared, query))
		return false;
	foreach(lc, prepared->relations)
	{
		LockRelationOid(lfirst_oid(lc), AccessShareLock);
	}
	if (!prepared->validity.valid)
		return false;
	foreach(lc, prepared->relations)
	{
		(void) find_all_inheritors(lfirst_oid(lc), AccessShareLock, NULL);
	}
	return true;
}

/* ------------------------------------------------------------------- making */

static void
add_dependencies(SqPrepared *prepared, const SqQuery *query)
{
	sq_validity_add_relations(&prepared->validity, prepared->relations);
	sq_validity_add_relations(&prepared->validity,
							  list_make3_oid(query->definition, query->sink, query->late_sink));
	sq_validity_add_query(&prepared->validity, prepared->compiled->select);
}

static SqPrepared *
make(const SqQuery *query)
{
	MemoryContext context = AllocSetContextCreate(CurrentMemoryContext, "streamq prepared query",
												  ALLOCSET_DEFAULT_SIZES);
	MemoryContext old = MemoryContextSwitchTo(context);
	SqPrepared *prepared = palloc0(sizeof(SqPrepared));

	sq_debug_count(SQ_COUNT_COMPILED);
	/* with a clearer error than INSERT has */
	sq_sink_check_columns(query->sink, query->definition);
	prepared->context = context;
	sq_validity_init(&prepared->validity, context);
	prepared->kept = true;
	prepared->user = GetUserId();
	prepared->row_security = row_security;
	prepared->replication_role = SessionReplicationRole;
	prepared->relations = sq_streams_relations(sq_streams_definition(query->definition));
	prepared->compiled = sq_compile(sq_query_copy(query));
	add_dependencies(prepared, query);
	prepared->validity.making = false;
	MemoryContextSwitchTo(old);
	return prepared;
}

/*
 * The query to be executed by a batch, which has locked the relations that it reads;
 * until sq_prepared_end().  To be called as its owner, under its settings.
 */
SqPrepared *
sq_prepared_begin(const SqQuery *query)
{
	SqPrepared *prepared = find(query->query_id);

	if (prepared != NULL && is_for(prepared, query) && has_same_sources(prepared, query))
		dlist_move_head(&all, &prepared->node);
	else
	{
		if (prepared != NULL)
			discard(prepared);
		make_room();
		prepared = make(query);
		MemoryContextSetParent(prepared->context, TopMemoryContext);
		dlist_push_head(&all, &prepared->node);
		nkept++;
	}
	prepared->in_use = true;
	return prepared;
}

/* To be called when a batch has come to its end without an error. */
void
sq_prepared_end(SqPrepared *prepared)
{
	prepared->in_use = false;
}

/* A compiled query of which nothing is kept, in the current context. */
SqPrepared *
sq_prepared_once(const SqCompiled *compiled)
{
	SqPrepared *prepared = palloc0(sizeof(SqPrepared));

	prepared->context = CurrentMemoryContext;
	prepared->compiled = compiled;
	return prepared;
}

/* --------------------------------------------------------------- statements */

/* the query over groups that are final */
static Query *
closing_result(const SqCompiled *compiled, bool has_closed)
{
	char	   *key;

	if (sq_strategy_is_source(compiled))
		return sq_emit_closing(compiled, has_closed);
	key = psprintf("s.k%d", compiled->aggregation->time_key->number);
	return sq_groups_result(compiled, sq_delta_final(compiled, key, SQ_PARAM_WATERMARK));
}

static List *
emit(const SqCompiled *compiled, SqPlace place, SqVariant variant)
{
	switch (place)
	{
		case SQ_PLACE_INSERT:
			return list_make1(sq_emit_insert(compiled, copyObject(compiled->select)));
		case SQ_PLACE_DUE:
			return list_make1(sq_emit_due(compiled));
		case SQ_PLACE_LATE:
			return list_make1(sq_emit_late(compiled));
		case SQ_PLACE_INPUTS:
			return sq_emit_inputs(compiled, variant.lateness);
		case SQ_PLACE_MERGE:
			return list_make1(sq_emit_merge(compiled, variant.lateness, variant.empty));
		case SQ_PLACE_UPSERT:
			return list_make1(sq_emit_upsert(compiled, variant.lateness, variant.empty));
		case SQ_PLACE_REPLACE:
			return list_make1(sq_emit_replace(compiled));
		case SQ_PLACE_CLOSE:
			return list_make1(sq_emit_insert(compiled, closing_result(compiled, variant.has_closed)));
		case SQ_PLACE_EVICT:
			return sq_emit_evict(compiled);
		case SQ_PLACE_COUNT_RANGE:
			return list_make1(sq_emit_count_range(compiled, variant.has_closed));
	}
	return NIL;
}

/*
 * True if what the plan of a statement should be depends on how far the watermark has
 * moved, which no size tells: it is planned for each batch.
 */
static bool
is_range_of_time(SqPlace place)
{
	return place == SQ_PLACE_CLOSE || place == SQ_PLACE_EVICT || place == SQ_PLACE_COUNT_RANGE;
}

/* a copy of a statement that has just been made, in the current context, to be kept */
static SqStatement *
keep(SqPrepared *prepared, const SqStatement *made, SqPlace place)
{
	SqStatement *statement = palloc0(sizeof(SqStatement));

	statement->query = copyObject(made->query);
	statement->source_text = pstrdup(made->source_text);
	if (!is_range_of_time(place))
	{
		statement->kept = palloc0(sizeof(SqKeptPlan));
		statement->kept->validity = &prepared->validity;
	}
	return statement;
}

static List *
make_statements(SqPrepared *prepared, SqPlace place, SqVariant variant)
{
	List	   *made;
	Place	   *result;
	MemoryContext old;
	ListCell   *lc;

	prepared->validity.making = true;
	made = emit(prepared->compiled, place, variant);
	foreach(lc, made)
	{
		sq_validity_add_query(&prepared->validity, ((SqStatement *) lfirst(lc))->query);
	}
	old = MemoryContextSwitchTo(prepared->context);
	result = palloc0(sizeof(Place));
	result->place = place;
	result->variant = variant;
	foreach(lc, made)
	{
		result->statements = lappend(result->statements, keep(prepared, lfirst(lc), place));
	}
	prepared->places = lappend(prepared->places, result);
	MemoryContextSwitchTo(old);
	prepared->validity.making = false;
	return result->statements;
}

static bool
is_same_variant(SqVariant a, SqVariant b)
{
	return a.lateness == b.lateness && a.empty == b.empty && a.has_closed == b.has_closed;
}

/* The statements (SqStatement) of a place, in their order. */
List *
sq_prepared_statements(SqPrepared *prepared, SqPlace place, SqVariant variant)
{
	ListCell   *lc;

	if (!prepared->kept)
		return emit(prepared->compiled, place, variant);
	foreach(lc, prepared->places)
	{
		Place	   *found = lfirst(lc);

		if (found->place == place && is_same_variant(found->variant, variant))
			return found->statements;
	}
	return make_statements(prepared, place, variant);
}

/* The statement of a place that has one. */
const SqStatement *
sq_prepared_statement(SqPrepared *prepared, SqPlace place, SqVariant variant)
{
	return linitial(sq_prepared_statements(prepared, place, variant));
}
