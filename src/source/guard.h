/*
 * guard.h
 *		The trigger that keeps a source append-only.
 */
#ifndef SQ_GUARD_H
#define SQ_GUARD_H

#include "streamq.h"
#include "nodes/pg_list.h"
#include "utils/relcache.h"
#include "utils/reltrigger.h"

extern const Trigger *sq_source_guard(Relation rel);
extern bool sq_source_is_guarded(Relation rel);
extern void sq_source_check_guard(List *relations);

#endif							/* SQ_GUARD_H */
