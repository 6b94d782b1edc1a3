/*
 * pause.c
 *		Keeping workers out of the way of other people's DDL.
 *
 * DROP DATABASE and its kin fail while somebody is connected to the database;
 * DROP EXTENSION streamq would wait for running batches.  A ProcessUtility hook
 * makes the workers leave the database before such a command; they come back when
 * its transaction has ended.  Installed only when the library is preloaded: only then are
 * there workers.
 */
#include "worker/pause.h"

#include "access/xact.h"
#include "catalog/pg_database.h"
#include "catalog/pg_extension.h"
#include "commands/dbcommands.h"
#include "commands/extension.h"
#include "compat.h"
#include "miscadmin.h"
#include "progress/shared.h"
#include "tcop/utility.h"
#include "utils/acl.h"

static ProcessUtility_hook_type previous_utility_hook = NULL;

static bool
drops_streamq(const DropStmt *stmt)
{
	ListCell   *lc;

	if (stmt->removeType != OBJECT_EXTENSION)
		return false;
	foreach(lc, stmt->objects)
	{
		if (strcmp(strVal(lfirst(lc)), "streamq") == 0)
			return OidIsValid(get_extension_oid("streamq", true));
	}
	return false;
}

/* the template of CREATE DATABASE, which nobody may use meanwhile */
static const char *
template_of(const CreatedbStmt *stmt)
{
	ListCell   *lc;

	foreach(lc, stmt->options)
	{
		DefElem    *option = lfirst_node(DefElem, lc);

		if (strcmp(option->defname, "template") == 0 && option->arg && IsA(option->arg, String))
			return strVal(option->arg);
	}
	return NULL;
}

/*
 * The database that a command needs without workers, or InvalidOid.  Who may
 * not execute the command does not disturb the workers.
 */
static Oid
database_to_pause(const Node *parsetree)
{
	const char *name = NULL;
	Oid			dbid;

	switch (nodeTag(parsetree))
	{
		case T_DropStmt:
			if (!drops_streamq((const DropStmt *) parsetree) ||
				!object_ownercheck(ExtensionRelationId, get_extension_oid("streamq", true), GetUserId()))
				return InvalidOid;
			return MyDatabaseId;
		case T_DropdbStmt:
			name = ((const DropdbStmt *) parsetree)->dbname;
			break;
		case T_CreatedbStmt:
			name = template_of((const CreatedbStmt *) parsetree);
			break;
		case T_RenameStmt:
			if (((const RenameStmt *) parsetree)->renameType == OBJECT_DATABASE)
				name = ((const RenameStmt *) parsetree)->subname;
			break;
		case T_AlterDatabaseStmt:
			/* SET TABLESPACE; other options are harmless and rare */
			name = ((const AlterDatabaseStmt *) parsetree)->dbname;
			break;
		default:
			break;
	}
	dbid = name ? get_database_oid(name, true) : InvalidOid;
	if (!OidIsValid(dbid) || !object_ownercheck(DatabaseRelationId, dbid, GetUserId()))
		return InvalidOid;
	return dbid;
}

static void
pause_before_utility(PlannedStmt *pstmt, const char *queryString, bool readOnlyTree,
					 ProcessUtilityContext context, ParamListInfo params,
					 QueryEnvironment *queryEnv, DestReceiver *dest, QueryCompletion *qc)
{
	Oid			dbid = InvalidOid;

	if (sq_shared_available() && IsTransactionState())
		dbid = database_to_pause(pstmt->utilityStmt);
	if (OidIsValid(dbid))
		sq_shared_pause(dbid);

	if (previous_utility_hook)
		previous_utility_hook(pstmt, queryString, readOnlyTree, context, params,
							  queryEnv, dest, qc);
	else
		standard_ProcessUtility(pstmt, queryString, readOnlyTree, context, params,
								queryEnv, dest, qc);
}

void
sq_pause_install(void)
{
	previous_utility_hook = ProcessUtility_hook;
	ProcessUtility_hook = pause_before_utility;
}
