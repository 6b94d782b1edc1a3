/*
 * guard.c
 *		The trigger that keeps a source append-only.
 *
 * streamq.add_source() puts it on the table; a table's owner can disable it, and
 * then a new version of a row would be taken for a new row.  So each batch looks
 * whether it is there.
 */
#include "source/guard.h"

#include "access/table.h"
#include "catalog/namespace.h"
#include "commands/trigger.h"
#include "parser/parse_func.h"
#include "utils/rel.h"

/* our trigger on a table, or as a clone on a partition; NULL if there is none */
static const Trigger *
find_guard(Relation rel, bool clones)
{
	TriggerDesc *triggers = rel->trigdesc;
	Oid			function = LookupFuncName(list_make2(makeString(SQ_SCHEMA),
													 makeString("refuse_update")),
										  0, NULL, false);

	for (int i = 0; triggers != NULL && i < triggers->numtriggers; i++)
		if (triggers->triggers[i].tgfoid == function &&
			(clones || !triggers->triggers[i].tgisclone))
			return &triggers->triggers[i];
	return NULL;
}

/* The trigger on the table itself, owned by the relcache entry, or NULL. */
const Trigger *
sq_source_guard(Relation rel)
{
	return find_guard(rel, false);
}

/* True if every UPDATE of a table is refused. */
bool
sq_source_is_guarded(Relation rel)
{
	const Trigger *trigger = find_guard(rel, true);

	return trigger != NULL && trigger->tgenabled == TRIGGER_FIRES_ALWAYS;
}

/*
 * Errors if the trigger of a source is not armed on one of its physical
 * relations, which the caller has locked.
 */
void
sq_source_check_guard(List *relations)
{
	ListCell   *lc;

	foreach(lc, relations)
	{
		Relation	rel = table_open(lfirst_oid(lc), NoLock);

		if (!sq_source_is_guarded(rel))
			ereport(ERROR,
					(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
					 errmsg("source \"%s\" is not protected against UPDATE",
							RelationGetRelationName(rel)),
					 errdetail("The trigger that streamq.add_source() has put on it is disabled or gone."),
					 errhint("Use ALTER TABLE ... ENABLE ALWAYS TRIGGER.  If rows have been updated meanwhile, they will be read once more.")));
		table_close(rel, NoLock);
	}
}
