/*
 * circle.c
 *		Refusing queries that read each other's sinks in a circle: their batches would go
 *		on without end.
 *
 * A circle of one query, whose sink is its own source, is sink.c's.  Here the queries
 * that are there are followed from sink to sink.  What triggers and rules write is
 * not known.
 */
#include "sink/sink.h"

#include "catalog/partition.h"
#include "catalog/querydef.h"
#include "utils/lsyscache.h"

/* true if two tables are one, or one is a part of the other; takes no locks */
static bool
have_rows_in_common(Oid a, Oid b)
{
	return a == b || list_member_oid(get_partition_ancestors(a), b) ||
		list_member_oid(get_partition_ancestors(b), a);
}

static bool
is_among(Oid relid, List *tables)
{
	ListCell   *lc;

	foreach(lc, tables)
	{
		if (have_rows_in_common(relid, lfirst_oid(lc)))
			return true;
	}
	return false;
}

/* what a query writes */
static List *
sinks_of(const SqQuery *query)
{
	return OidIsValid(query->late_sink) ? list_make2_oid(query->sink, query->late_sink) :
		list_make1_oid(query->sink);
}

/* adds what a query writes to the tables reached; an error if that is a source of ours */
static List *
follow(const SqQuery *query, const SqQuery *other, List *reached)
{
	ListCell   *lc;

	foreach(lc, sinks_of(other))
	{
		if (is_among(lfirst_oid(lc), query->sources))
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_OBJECT_DEFINITION),
					 errmsg("streaming query \"%s\" would close a circle of queries", query->name),
					 errdetail("What it writes comes back to it by streaming query \"%s\", which writes its source \"%s\"; their batches would go on without end.",
							   other->name, get_rel_name(lfirst_oid(lc))),
					 errhint("Name another sink with the argument \"sink\".")));
		reached = list_append_unique_oid(reached, lfirst_oid(lc));
	}
	return reached;
}

/* Refuses a query that others, reading what it writes, lead back to its sources. */
void
sq_sink_check_circle(const SqQuery *query)
{
	List	   *reached = sinks_of(query);
	List	   *names = sq_query_names_all();
	ListCell   *lc;

	for (int i = 0; i < list_length(reached); i++)
	{
		foreach(lc, names)
		{
			SqQuery    *other = sq_query_load(lfirst(lc), true);

			if (other != NULL && is_among(list_nth_oid(reached, i), other->sources))
				reached = follow(query, other, reached);
		}
	}
}
