/*
 * compact.c
 *		Keeping the tables of a query's state from growing beyond what they hold.
 *
 * Groups come and go under a watermark.  Pages prune themselves, but the space of
 * groups that are gone is used again only after a VACUUM, and a stream of many
 * small batches is faster than autovacuum.  So every now and then a batch looks,
 * and when a table is several times as large as its rows it is rewritten, within
 * the batch's transaction (CLUSTER keeps what older snapshots see).  If somebody
 * is looking at the table just then, it is left for the next time.
 *
 * To be called as the query's owner, to whom the tables belong.
 */
#include "state/state.h"

#include "access/table.h"
#include "commands/trigger.h"
#include "executor/spi.h"
#include "spi.h"
#include "storage/bufmgr.h"
#include "storage/lmgr.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"

#define CHECK_SMALL_EVERY 32	/* batches */
#define CHECK_EVERY 256
#define SMALL_PAGES 64
#define SAMPLE_PAGES 128
#define PAGES_ALLOWED 3			/* and */
#define TIMES_ALLOWED 2			/* times what the rows need */
#define TUPLE_OVERHEAD 32		/* header, line pointer, alignment */

static BlockNumber
pages_of(Oid relid)
{
	Relation	rel = table_open(relid, AccessShareLock);
	BlockNumber pages = RelationGetNumberOfBlocks(rel);

	table_close(rel, NoLock);
	return pages;
}

static char *
name_of(Oid relid)
{
	return quote_qualified_identifier(SQ_STATE_SCHEMA, get_rel_name(relid));
}

/* pages that the rows of a table of that many pages need, as far as a sample tells */
static double
pages_needed(Oid relid, BlockNumber pages)
{
	double		fraction = Min(1.0, (double) SAMPLE_PAGES / pages);
	double		bytes;
	bool		isnull;

	if (SPI_connect() != SPI_OK_CONNECT)
		elog(ERROR, "SPI_connect failed");
	if (SPI_execute(psprintf("SELECT coalesce(pg_catalog.sum(pg_catalog.pg_column_size(s.*) OPERATOR(pg_catalog.+) %d), 0)::pg_catalog.float8"
							 " FROM %s s TABLESAMPLE pg_catalog.system (%.6f)",
							 TUPLE_OVERHEAD, name_of(relid), 100 * fraction), false, 1) != SPI_OK_SELECT)
		elog(ERROR, "SPI_execute failed");
	bytes = DatumGetFloat8(SPI_getbinval(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, 1, &isnull));
	SPI_finish();
	return bytes / fraction / BLCKSZ;
}

/* the index by which a table is put in order: its only one, or the first */
static char *
index_of(Oid relid)
{
	Relation	rel = table_open(relid, NoLock);
	List	   *indexes = RelationGetIndexList(rel);
	char	   *name = indexes != NIL ? pstrdup(get_rel_name(linitial_oid(indexes))) : NULL;

	table_close(rel, NoLock);
	return name;
}

static void
compact(Oid relid)
{
	char	   *index = index_of(relid);

	/* its owner may have put a deferred trigger on it */
	if (index == NULL || AfterTriggerPendingOnRel(relid) ||
		!ConditionalLockRelationOid(relid, AccessExclusiveLock))
		return;
	sq_execute_as_user(psprintf("CLUSTER %s USING %s", name_of(relid), quote_identifier(index)));
}

/*
 * Looks, in some batches, at the tables of a query, and rewrites those that have
 * grown too large.
 */
void
sq_state_compact(int32 query_id, int64 batch_id)
{
	ListCell   *lc;

	if (batch_id % CHECK_SMALL_EVERY != 0)
		return;
	foreach(lc, sq_state_relations(query_id))
	{
		Oid			relid = lfirst_oid(lc);
		BlockNumber pages = pages_of(relid);

		if (pages <= PAGES_ALLOWED || (pages > SMALL_PAGES && batch_id % CHECK_EVERY != 0))
			continue;
		if (pages > PAGES_ALLOWED + TIMES_ALLOWED * pages_needed(relid, pages))
			compact(relid);
	}
}
