/*
 * session.c
 *		The session of a worker: connecting as an owner, and transactions in
 *		which nothing of his gets more rights than he has (invariant S-1).
 *
 * A worker connects as the owner whose queries it serves.  An owner who cannot
 * log in is one for whom the session, opened by the bootstrap superuser, is
 * handed over, and may not be taken back: transactions then run as a local change
 * of user, under which SET ROLE and SET SESSION AUTHORIZATION are refused, up to
 * and including the commit.
 */
#include "worker/session.h"

#include "access/table.h"
#include "access/xact.h"
#include "catalog/pg_db_role_setting.h"
#include "compat.h"
#include "miscadmin.h"
#include "postmaster/bgworker.h"
#include "utils/acl.h"
#include "utils/snapmgr.h"

#define DEADLOCK_TIMEOUT_OF_WORKERS "10ms"

static Oid	session_owner = InvalidOid;
static bool handed_over = false;

static void
apply_settings_of(Oid role)
{
	Relation	rel = table_open(DbRoleSettingRelationId, AccessShareLock);
	Snapshot	snapshot = RegisterSnapshot(GetCatalogSnapshot(DbRoleSettingRelationId));

	/* as process_settings() in utils/init/postinit.c: the first one wins */
	ApplySetting(snapshot, MyDatabaseId, role, rel, PGC_S_DATABASE_USER);
	ApplySetting(snapshot, InvalidOid, role, rel, PGC_S_USER);
	UnregisterSnapshot(snapshot);
	table_close(rel, AccessShareLock);
}

/*
 * Connects to a database, as the owner or for him; with InvalidOid as owner, as
 * the bootstrap superuser, to read the list of queries.
 */
void
sq_session_connect(Oid dbid, Oid owner, bool owner_can_login)
{
	session_owner = owner;
	handed_over = OidIsValid(owner) && !owner_can_login;
	/* nor is statement_timeout in force: a batch is nobody's statement */
	sq_ignore_transaction_timeout();

	/*
	 * It waits for a lock however long that takes, whatever timeout the owner
	 * has for his sessions.  In a deadlock with somebody's DDL it looks first
	 * and gives way, as its batch is done again by itself.
	 */
	SetConfigOption("lock_timeout", "0", PGC_SUSET, PGC_S_OVERRIDE);
	SetConfigOption("deadlock_timeout", DEADLOCK_TIMEOUT_OF_WORKERS, PGC_SUSET, PGC_S_OVERRIDE);
	BackgroundWorkerInitializeConnectionByOid(dbid, handed_over ? InvalidOid : owner, 0);
	if (!handed_over)
		return;
	StartTransactionCommand();
	apply_settings_of(owner);
	SetSessionAuthorization(owner, superuser_arg(owner));
	CommitTransactionCommand();
}

/* Begins a transaction as the owner. */
void
sq_session_begin(void)
{
	SetCurrentStatementStartTimestamp();
	StartTransactionCommand();
	/* also undoes what a function of the owner's may have set in the session */
	SetUserIdAndSecContext(session_owner, handed_over ? SECURITY_LOCAL_USERID_CHANGE : 0);
}

/* Commits it. */
void
sq_session_commit(void)
{
	CommitTransactionCommand();
	/* outside of transactions there must be no local change of user */
	SetUserIdAndSecContext(session_owner, 0);
}

/* Gets out of a transaction after an error. */
void
sq_session_abort(void)
{
	AbortOutOfAnyTransaction();
	SetUserIdAndSecContext(session_owner, 0);
}
