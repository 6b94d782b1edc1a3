/*
 * pending.h
 *		What the transaction at hand has inserted, not yet in the arrival maps.
 */
#ifndef SQ_PENDING_H
#define SQ_PENDING_H

#include "streamq.h"

#include "storage/itemptr.h"
#include "utils/relcache.h"

extern void sq_pending_define(void);
extern void sq_pending_note(Relation index, Relation heap, ItemPointer tid, bool any_xid);

#endif							/* SQ_PENDING_H */
