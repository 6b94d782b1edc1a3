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

/* The trigger on the table itself, owned by the relcache entry, or NULL. */
const Trigger *
sq_source_guard(Relation rel)
{
	TriggerDesc *triggers = rel->trigdesc;
	Oid			function = LookupFuncName(list_make2(makeString(SQ_SCHEMA),
													 makeString("refuse_update")),
										  0, NULL, false);

	for (int i = 0; triggers != NULL && i < triggers->numtriggers; i++)
		if (triggers->triggers[i].tgfoid == function && !triggers->triggers[i].tgisclone)
			return &triggers->triggers[i];
	return NULL;
}

/* Errors if the trigger of a source, which the caller has locked, is not armed. */
void
sq_source_check_guard(Oid relid)
{
	Relation	rel = table_open(relid, NoLock);
	const Trigger *trigger = sq_source_guard(rel);

	if (trigger == NULL || trigger->tgenabled != TRIGGER_FIRES_ALWAYS)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("source \"%s\" is not protected against UPDATE",
						RelationGetRelationName(rel)),
				 errdetail("The trigger that streamq.add_source() has put on it is disabled or gone."),
				 errhint("Use ALTER TABLE ... ENABLE ALWAYS TRIGGER.  If rows have been updated meanwhile, they will be read once more.")));
	table_close(rel, NoLock);
}
