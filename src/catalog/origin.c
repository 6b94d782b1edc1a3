/*
 * origin.c
 *		The table streamq.origin: whether a checkpoint belongs to this database.
 *
 * A checkpoint counts the transactions by which the rows of its database were
 * inserted.  It holds wherever the files are taken, with the transactions in them: in
 * a physical copy, on a standby, after pg_upgrade.  It means nothing where pg_dump has
 * taken the rows, which then belong to other transactions.
 *
 * What tells the two apart is a random value in a table that pg_dump leaves out, as
 * it does with all tables of an extension that are not named by
 * pg_extension_config_dump().  pg_upgrade takes its file.  The value is made with the
 * first query, so that it does not get into databases that are made from a template
 * with nothing but the extension.
 */
#include "catalog/origin.h"

#include "lookup.h"
#include "spi.h"

/* Makes the value, if this database has none. */
void
sq_origin_ensure(void)
{
	static SqSql sql = {
		"INSERT INTO streamq.origin VALUES (pg_catalog.gen_random_uuid())"
		" ON CONFLICT DO NOTHING",
		0, {0}, NULL
	};

	(void) sq_engine_run(&sql, NULL, NULL);
}

/* True if the value is that of this database. */
bool
sq_origin_is(const pg_uuid_t *origin)
{
	SqLookup	lookup;
	bool		isnull;
	bool		result = false;

	if (sq_lookup_begin(&lookup, "origin", NULL, 0))
		result = memcmp(origin, DatumGetUUIDP(sq_lookup_value(&lookup, "id", &isnull)),
						sizeof(pg_uuid_t)) == 0;
	sq_lookup_end(&lookup);
	return result;
}
