/*
 * notice.c
 *		Noticing other people's commands that concern queries which wait.
 *
 * A query waits for commits into the relations that it reads, of which indexes on
 * them tell.  Commands after which it may have others to read, or nobody would tell
 * any more, make it look again.  So does COMMIT PREPARED, as nobody knows what the
 * transaction that it ends has inserted.
 *
 * All queries of the database are woken: which of them are concerned is their
 * business.  Installed only when the library is preloaded.
 */
#include "worker/notice.h"

#include "arrivals/arrivals.h"
#include "catalog/objectaccess.h"
#include "catalog/pg_class.h"
#include "progress/wakeup.h"
#include "tcop/utility.h"

static ProcessUtility_hook_type previous_utility_hook = NULL;
static object_access_hook_type previous_access_hook = NULL;

/* true of commands that may give a query further relations to read, or an owner */
static bool
changes_queries(const Node *parsetree)
{
	switch (nodeTag(parsetree))
	{
		case T_AlterTableStmt:
			/* attach a partition; of a view, change the owner */
		case T_ReassignOwnedStmt:
			return true;
		case T_CreateStmt:
			/* a partition */
			return ((const CreateStmt *) parsetree)->inhRelations != NIL;
		default:
			return false;
	}
}

static bool
is_commit_prepared(const Node *parsetree)
{
	return IsA(parsetree, TransactionStmt) &&
		((const TransactionStmt *) parsetree)->kind == TRANS_STMT_COMMIT_PREPARED;
}

static void
notice_utility(PlannedStmt *pstmt, const char *queryString, bool readOnlyTree,
			   ProcessUtilityContext context, ParamListInfo params,
			   QueryEnvironment *queryEnv, DestReceiver *dest, QueryCompletion *qc)
{
	bool		commits_prepared = is_commit_prepared(pstmt->utilityStmt);

	if (changes_queries(pstmt->utilityStmt))
		sq_wakeup_database_at_commit();

	if (previous_utility_hook)
		previous_utility_hook(pstmt, queryString, readOnlyTree, context, params,
							  queryEnv, dest, qc);
	else
		standard_ProcessUtility(pstmt, queryString, readOnlyTree, context, params,
								queryEnv, dest, qc);
	if (commits_prepared)
		sq_wakeup_database();
}

/* an index that is dropped will not tell of commits any more */
static void
notice_access(ObjectAccessType access, Oid classId, Oid objectId, int subId, void *arg)
{
	if (previous_access_hook)
		previous_access_hook(access, classId, objectId, subId, arg);
	if (access == OAT_DROP && classId == RelationRelationId && subId == 0 &&
		sq_arrivals_is_map(objectId))
		sq_wakeup_database_at_commit();
}

void
sq_notice_install(void)
{
	previous_utility_hook = ProcessUtility_hook;
	ProcessUtility_hook = notice_utility;
	previous_access_hook = object_access_hook;
	object_access_hook = notice_access;
}
