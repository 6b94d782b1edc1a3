/*
 * circle.c
 *		Refusing queries that read each other's sinks in a circle.
 *
 * A circle of one query, whose sink is its own source, is sink.c's.  Here the queries
 * that are there are followed from sink to sink.  What triggers and rules write is
 * not known.
 */
#include "sink/sink.h"

#include "source/physical.h"
#include "spi.h"
#include "utils/lsyscache.h"

/* the relation, and all that is written when rows come into it */
static List *
fed_by(Oid relation)
{
	static SqSql sql = {
		"WITH RECURSIVE fed(relation) AS (SELECT $1 UNION"
		" SELECT w.relation FROM fed f, streamq.queries q,"
		" LATERAL (VALUES (q.sink), (q.late_sink)) w (relation)"
		" WHERE w.relation IS NOT NULL AND (f.relation = ANY (q.sources)"
		" OR EXISTS (SELECT FROM pg_catalog.pg_partition_ancestors(f.relation) a"
		" WHERE a.relid = ANY (q.sources))"
		" OR EXISTS (SELECT FROM pg_catalog.pg_partition_tree(f.relation) p"
		" WHERE p.relid = ANY (q.sources))))"
		" SELECT relation::pg_catalog.oid FROM fed",
		1, {REGCLASSOID}, NULL
	};
	Datum		value = ObjectIdGetDatum(relation);

	return sq_engine_oids(&sql, &value);
}

/* Refuses a relation to be written that feeds, through other queries, a source. */
void
sq_sink_check_circle(Oid relation, List *sources)
{
	ListCell   *lc;
	ListCell   *lc2;

	foreach(lc, fed_by(relation))
	{
		foreach(lc2, sources)
		{
			if (sq_physical_overlap(lfirst_oid(lc), lfirst_oid(lc2)))
				ereport(ERROR,
						(errcode(ERRCODE_INVALID_OBJECT_DEFINITION),
						 errmsg("sink \"%s\" feeds the query's own source \"%s\"",
								get_rel_name(relation), get_rel_name(lfirst_oid(lc2))),
						 errdetail("Other streaming queries would bring back what this one has written, without end."),
						 errhint("Name another sink, or read one of the tables as a static one with the argument \"sources\".")));
		}
	}
}
