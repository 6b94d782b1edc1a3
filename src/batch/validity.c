/*
 * validity.c
 *		Whether what is kept between batches, a query taken apart and the plans of
 *		its statements, still holds.
 *
 * Owns the backend's callbacks for invalidation messages.  What is kept says which
 * relations and domains it was made of; a message about one of them, or about any
 * function, operator, cast, schema, foreign server or role, makes it invalid.
 * That is as plancache.c does it, but coarser: a query is taken apart by what
 * functions are, too, not only by what they are inlined to.
 *
 * A callback only lowers a flag.  Whoever keeps something looks at it when he has
 * the locks that he needs, by which time all messages that matter have arrived, and
 * throws away what is not valid.
 */
#include "batch/validity.h"

#include "nodes/plannodes.h"
#include "optimizer/optimizer.h"
#include "utils/inval.h"
#include "utils/memutils.h"
#include "utils/syscache.h"

static dlist_head all = DLIST_STATIC_INIT(all);
static bool registered = false;

/* catalogs of which any change counts */
static const int whole_catalogs[] = {
	PROCOID, OPEROID, AMOPOPID, CLAOID, CASTSOURCETARGET, NAMESPACEOID,
	FOREIGNSERVEROID, FOREIGNDATAWRAPPEROID, AUTHOID, AUTHMEMROLEMEM
};

/* a relation has changed; InvalidOid: any may have */
static void
relation_changed(Datum arg, Oid relid)
{
	dlist_iter	iter;

	SQ_UNUSED(arg);
	dlist_foreach(iter, &all)
	{
		SqValidity *validity = dlist_container(SqValidity, node, iter.cur);

		if (validity->valid && (validity->making || !OidIsValid(relid) ||
								list_member_oid(validity->relations, relid)))
			validity->valid = false;
	}
}

static void
catalog_changed(Datum arg, int cacheid, uint32 hash)
{
	SQ_UNUSED(arg);
	SQ_UNUSED(cacheid);
	SQ_UNUSED(hash);
	relation_changed((Datum) 0, InvalidOid);
}

/* a type has changed, or is new: temporary tables have types, and are made often */
static void
type_changed(Datum arg, int cacheid, uint32 hash)
{
	dlist_iter	iter;

	SQ_UNUSED(arg);
	SQ_UNUSED(cacheid);
	dlist_foreach(iter, &all)
	{
		SqValidity *validity = dlist_container(SqValidity, node, iter.cur);

		if (validity->making || hash == 0 || list_member_int(validity->types, (int) hash))
			validity->valid = false;
	}
}

static void
register_callbacks(void)
{
	if (registered)
		return;
	registered = true;
	CacheRegisterRelcacheCallback(relation_changed, (Datum) 0);
	CacheRegisterSyscacheCallback(TYPEOID, type_changed, (Datum) 0);
	for (size_t i = 0; i < lengthof(whole_catalogs); i++)
		CacheRegisterSyscacheCallback(whole_catalogs[i], catalog_changed, (Datum) 0);
}

static void
forget(void *arg)
{
	dlist_delete(&((SqValidity *) arg)->node);
}

/*
 * Begins to watch over something that is going to be made, in a memory context that
 * lives as long as it.  Until the maker says by clearing "making" that all has been
 * added which it was made of, any change makes it invalid.
 */
void
sq_validity_init(SqValidity *validity, MemoryContext context)
{
	register_callbacks();
	validity->context = context;
	validity->valid = true;
	validity->making = true;
	validity->relations = validity->types = NIL;
	dlist_push_tail(&all, &validity->node);
	validity->at_end.func = forget;
	validity->at_end.arg = validity;
	MemoryContextRegisterResetCallback(context, &validity->at_end);
}

/* Adds oids of relations; those that are no oids are left out. */
void
sq_validity_add_relations(SqValidity *validity, const List *relations)
{
	MemoryContext old = MemoryContextSwitchTo(validity->context);
	ListCell   *lc;

	foreach(lc, relations)
	{
		if (OidIsValid(lfirst_oid(lc)))
			validity->relations = list_append_unique_oid(validity->relations, lfirst_oid(lc));
	}
	MemoryContextSwitchTo(old);
}

/* domains; functions count in any case */
static void
add_items(SqValidity *validity, const List *items)
{
	MemoryContext old = MemoryContextSwitchTo(validity->context);
	ListCell   *lc;

	foreach(lc, items)
	{
		PlanInvalItem *item = lfirst_node(PlanInvalItem, lc);

		if (item->cacheId == TYPEOID)
			validity->types = list_append_unique_int(validity->types, (int) item->hashValue);
	}
	MemoryContextSwitchTo(old);
}

/* Adds what an analysed query depends on. */
void
sq_validity_add_query(SqValidity *validity, Query *query)
{
	List	   *relations;
	List	   *items;
	bool		has_row_security;

	extract_query_dependencies((Node *) query, &relations, &items, &has_row_security);
	sq_validity_add_relations(validity, relations);
	add_items(validity, items);
}

/* Adds what a plan depends on: more than its query, as views and rules are expanded. */
void
sq_validity_add_plan(SqValidity *validity, const PlannedStmt *plan)
{
	sq_validity_add_relations(validity, plan->relationOids);
	add_items(validity, plan->invalItems);
}
