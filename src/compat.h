/*
 * compat.h
 *		What differs between the versions of PostgreSQL that streamq supports, 15 to 17.
 *
 * The only file of src/ that asks for the version (test/dev/check_versions).  Where
 * PostgreSQL has replaced a function by another, it is the newer one that is called
 * everywhere, and that is made here of the older one for the older version.  What
 * has been arranged in another way has a function with a name of ours, sq_rights_...
 * for instance.
 */
#ifndef SQ_COMPAT_H
#define SQ_COMPAT_H

#include "streamq.h"

#include "catalog/index.h"
#include "nodes/parsenodes.h"
#include "storage/lock.h"
#include "utils/acl.h"
#include "utils/guc.h"
#include "utils/regproc.h"
#include "utils/rel.h"

#if PG_VERSION_NUM < 150000 || PG_VERSION_NUM >= 180000
#error "streamq supports PostgreSQL 15, 16 and 17"
#endif

#if PG_VERSION_NUM >= 160000
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "parser/parse_relation.h"
#include "varatt.h"
#else
#include "catalog/pg_class.h"
#include "catalog/pg_database.h"
#include "catalog/pg_extension.h"
#include "catalog/pg_namespace.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_tablespace.h"
#include "catalog/pg_type.h"
#include "parser/parsetree.h"
#include "rewrite/prs2lock.h"
#endif

/* ------------------------------------------------------- functions of PostgreSQL */

#if PG_VERSION_NUM < 170000

/* or_stronger: whether a stronger lock will do, which nobody wants */
static inline bool
sq_lock_held_by_me(const LOCKTAG *tag, LOCKMODE mode, bool or_stronger)
{
	Assert(!or_stronger);
	SQ_UNUSED(or_stronger);
	return LockHeldByMe(tag, mode);
}
#define LockHeldByMe(tag, mode, or_stronger) sq_lock_held_by_me(tag, mode, or_stronger)

/* statement: for event triggers, which nobody wants */
static inline void
sq_reindex_index(const ReindexStmt *statement, Oid index, bool skip_constraint_checks,
				 char persistence, const ReindexParams *params)
{
	Assert(statement == NULL);
	SQ_UNUSED(statement);
	reindex_index(index, skip_constraint_checks, persistence, unconstify(ReindexParams *, params));
}
#define reindex_index(statement, index, skip_constraint_checks, persistence, params) \
	sq_reindex_index(statement, index, skip_constraint_checks, persistence, params)

#endif

#if PG_VERSION_NUM < 160000

/* for errors that are to be returned, which nobody wants */
static inline List *
sq_string_to_qualified_name_list(const char *string, Node *escontext)
{
	Assert(escontext == NULL);
	SQ_UNUSED(escontext);
	return stringToQualifiedNameList(string);
}
#define stringToQualifiedNameList(string, escontext) \
	sq_string_to_qualified_name_list(string, escontext)

static inline bool
object_ownercheck(Oid catalog, Oid object, Oid role)
{
	switch (catalog)
	{
		case RelationRelationId:
			return pg_class_ownercheck(object, role);
		case ProcedureRelationId:
			return pg_proc_ownercheck(object, role);
		case DatabaseRelationId:
			return pg_database_ownercheck(object, role);
		case ExtensionRelationId:
			return pg_extension_ownercheck(object, role);
		default:
			elog(ERROR, "no owners of catalog %u", catalog);
			return false;
	}
}

static inline AclResult
object_aclcheck(Oid catalog, Oid object, Oid role, AclMode mode)
{
	switch (catalog)
	{
		case ProcedureRelationId:
			return pg_proc_aclcheck(object, role, mode);
		case NamespaceRelationId:
			return pg_namespace_aclcheck(object, role, mode);
		case DatabaseRelationId:
			return pg_database_aclcheck(object, role, mode);
		case TableSpaceRelationId:
			return pg_tablespace_aclcheck(object, role, mode);
		case TypeRelationId:
			return pg_type_aclcheck(object, role, mode);
		default:
			elog(ERROR, "no rights of catalog %u", catalog);
			return ACLCHECK_NO_PRIV;
	}
}

#endif

/* Functions that older versions do not have. */
#if PG_VERSION_NUM < 170000
#define F_INTERVAL_AVG_DESERIALIZE InvalidOid
#endif

/* -------------------------------------------------------------------- settings */

/*
 * The session's transactions may take as long as they take, whatever is set; as are
 * autovacuum's.  There is nothing to be done before 17.
 */
static inline void
sq_ignore_transaction_timeout(void)
{
#if PG_VERSION_NUM >= 170000
	SetConfigOption("transaction_timeout", "0", PGC_SUSET, PGC_S_OVERRIDE);
#endif
}

/* ------------------------------------------------------------------- relations */

/* The number of the file that a relation is in. */
static inline Oid
sq_relation_file(Relation rel)
{
#if PG_VERSION_NUM >= 160000
	return rel->rd_locator.relNumber;
#else
	return rel->rd_node.relNode;
#endif
}

/* ---------------------------------------------------------------------- rights */

/*
 * What an entry of a range table says about rights: relid, requiredPerms,
 * checkAsUser, selectedCols.  Since 16 that is in a list of the query's; before, in
 * the entry itself.
 */
#if PG_VERSION_NUM < 160000
typedef RangeTblEntry RTEPermissionInfo;
#endif

/* The rights that an entry of a query asks for; NULL if it asks for none. */
static inline RTEPermissionInfo *
sq_rights(const Query *query, RangeTblEntry *rte)
{
#if PG_VERSION_NUM >= 160000
	return rte->perminfoindex == 0 ? NULL : getRTEPermissionInfo(query->rteperminfos, rte);
#else
	SQ_UNUSED(query);
	return rte->rtekind == RTE_RELATION && rte->requiredPerms != 0 ? rte : NULL;
#endif
}

/* An entry asks for no rights any more. */
static inline void
sq_rights_drop(RangeTblEntry *rte)
{
#if PG_VERSION_NUM >= 160000
	rte->perminfoindex = 0;
#else
	rte->requiredPerms = 0;
	rte->checkAsUser = InvalidOid;
	rte->selectedCols = NULL;
	rte->insertedCols = NULL;
	rte->updatedCols = NULL;
	rte->extraUpdatedCols = NULL;
#endif
}

/* Nothing is left of an older range table of a query, all entries are new. */
static inline void
sq_rights_drop_all(Query *query)
{
#if PG_VERSION_NUM >= 160000
	query->rteperminfos = NIL;
#else
	SQ_UNUSED(query);
#endif
}

/*
 * Moves the rights that a view asks for to an entry in the view's definition that
 * nothing refers to, as the view itself is going to be a subquery.  (From 16 on that
 * could keep them, but not be merged with others then.)
 */
static inline void
sq_rights_move_into_view(Query *query, RangeTblEntry *view, Query *definition)
{
#if PG_VERSION_NUM >= 160000
	RTEPermissionInfo *rights = sq_rights(query, view);
	RangeTblEntry *entry = makeNode(RangeTblEntry);
	RTEPermissionInfo *moved;

	if (rights == NULL)
		return;
	entry->rtekind = RTE_RELATION;
	entry->relid = view->relid;
	entry->relkind = view->relkind;
	entry->rellockmode = view->rellockmode;
	entry->eref = makeAlias("old", copyObject(view->eref->colnames));
	definition->rtable = lappend(definition->rtable, entry);
	moved = addRTEPermissionInfo(&definition->rteperminfos, entry);
	moved->requiredPerms = rights->requiredPerms;
	moved->checkAsUser = rights->checkAsUser;
	moved->selectedCols = bms_copy(rights->selectedCols);
#else
	RangeTblEntry *old = rt_fetch(PRS2_OLD_VARNO, definition->rtable);

	SQ_UNUSED(query);
	Assert(old->relid == view->relid);
	old->requiredPerms = view->requiredPerms;
	old->checkAsUser = view->checkAsUser;
	old->selectedCols = view->selectedCols;
	old->insertedCols = view->insertedCols;
	old->updatedCols = view->updatedCols;
	old->extraUpdatedCols = view->extraUpdatedCols;
#endif
	sq_rights_drop(view);
}

/* Adds an entry of a query, with the rights that it asks for, to another query. */
static inline void
sq_rights_add_entry(const Query *query, RangeTblEntry *rte, Query *other)
{
#if PG_VERSION_NUM >= 160000
	RangeTblEntry *entry = copyObject(rte);

	other->rtable = lappend(other->rtable, entry);
	other->rteperminfos = lappend(other->rteperminfos, copyObject(sq_rights(query, rte)));
	entry->perminfoindex = list_length(other->rteperminfos);
#else
	SQ_UNUSED(query);
	other->rtable = lappend(other->rtable, rte);
#endif
}

/* For comparing queries by what they compute: no entry knows which columns it reads. */
static inline void
sq_rights_forget_columns(Query *query)
{
	ListCell   *lc;

#if PG_VERSION_NUM >= 160000
	foreach(lc, query->rtable)
	{
		lfirst_node(RangeTblEntry, lc)->perminfoindex = 0;
	}
	query->rteperminfos = NIL;
#else
	foreach(lc, query->rtable)
	{
		lfirst_node(RangeTblEntry, lc)->selectedCols = NULL;
	}
#endif
}

/*
 * True if an entry of a plan's range table is of a relation that is to be locked
 * before the plan is executed; since 16 a view is one although it is a subquery.
 */
static inline bool
sq_plan_locks_entry(const RangeTblEntry *rte)
{
#if PG_VERSION_NUM >= 160000
	if (rte->rtekind == RTE_SUBQUERY)
		return OidIsValid(rte->relid);
#endif
	return rte->rtekind == RTE_RELATION;
}

/* ----------------------------------------------------------------- expressions */

#if PG_VERSION_NUM >= 160000
/* puts a value into the place of the CaseTestExpr of an expression */
static inline Node *
sq_fill_case_test(Node *node, Node *value)
{
	if (node == NULL)
		return NULL;
	if (IsA(node, CaseTestExpr))
		return (Node *) copyObject(value);
	return expression_tree_mutator(node, sq_fill_case_test, value);
}
#endif

/*
 * JSON_ARRAYAGG() or JSON_OBJECTAGG() (since 16) as what they are to the executor: an
 * ordinary aggregate, and a cast of its result.  PostgreSQL cannot show the
 * original when there is something else in the aggregate's place.  NULL for any
 * other node.
 */
static inline Node *
sq_json_aggregate(Node *node)
{
#if PG_VERSION_NUM >= 160000
	JsonConstructorExpr *json = (JsonConstructorExpr *) node;

	if (!IsA(node, JsonConstructorExpr) || json->func == NULL || !IsA(json->func, Aggref))
		return NULL;
	return json->coercion == NULL ? (Node *) json->func :
		sq_fill_case_test((Node *) json->coercion, (Node *) json->func);
#else
	SQ_UNUSED(node);
	return NULL;
#endif
}

#endif							/* SQ_COMPAT_H */
