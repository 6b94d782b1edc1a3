/*
 * physical.c
 *		The physical relations of a source: the table itself, or the leaves of a
 *		partitioned table.
 *
 * Offsets are kept for each of them, so that a partition attached with rows in
 * it is read once, whole.
 */
#include "source/physical.h"

#include "access/attnum.h"
#include "catalog/pg_class.h"
#include "catalog/pg_inherits.h"
#include "storage/lmgr.h"
#include "utils/lsyscache.h"

/*
 * The oids of all relations that hold rows of a source, ascending; each is
 * locked (ACCESS SHARE, to the end of the transaction).  Errors on a partition
 * that is a foreign table: what came since an offset cannot be asked there.
 */
List *
sq_physical_relations(Oid source, bool with_children)
{
	List	   *all;
	List	   *result = NIL;
	ListCell   *lc;

	if (with_children && get_rel_relkind(source) == RELKIND_PARTITIONED_TABLE)
		all = find_all_inheritors(source, AccessShareLock, NULL);
	else
	{
		LockRelationOid(source, AccessShareLock);
		all = list_make1_oid(source);
	}

	foreach(lc, all)
	{
		Oid			relid = lfirst_oid(lc);

		switch (get_rel_relkind(relid))
		{
			case RELKIND_RELATION:
				result = lappend_oid(result, relid);
				break;
			case RELKIND_FOREIGN_TABLE:
				ereport(ERROR,
						(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
						 errmsg("source \"%s\" has the foreign table \"%s\" as a partition",
								get_rel_name(source), get_rel_name(relid)),
						 errdetail("Increments can be read only of tables of this database."),
						 errhint("Detach the partition, or stream another table.")));
				break;
			default:
				break;
		}
	}
	list_sort(result, list_oid_cmp);
	return result;
}

/*
 * Errors if a table has inheritance children other than partitions: UPDATE on
 * those cannot be refused.
 */
void
sq_physical_check_children(Oid source)
{
	if (get_rel_relkind(source) == RELKIND_RELATION &&
		list_length(find_all_inheritors(source, AccessShareLock, NULL)) > 1)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("source \"%s\" has inheritance children", get_rel_name(source)),
				 errdetail("UPDATE on the children could not be refused."),
				 errhint("Use declarative partitioning, or read FROM ONLY.")));
}

/* True if a table and a source have rows in common: one is part of the other. */
bool
sq_physical_overlap(Oid relation, Oid source)
{
	return list_member_oid(find_all_inheritors(source, AccessShareLock, NULL), relation) ||
		list_member_oid(find_all_inheritors(relation, AccessShareLock, NULL), source);
}

/* The number that a column of the source has in one of its relations. */
AttrNumber
sq_physical_column(Oid source, AttrNumber attnum, Oid relation)
{
	if (relation == source || attnum == InvalidAttrNumber)
		return attnum;
	return get_attnum(relation, get_attname(source, attnum, false));
}
