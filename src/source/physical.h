/*
 * physical.h
 *		The physical relations of a source: the table itself or its partitions.
 */
#ifndef SQ_PHYSICAL_H
#define SQ_PHYSICAL_H

#include "streamq.h"
#include "access/attnum.h"
#include "nodes/pg_list.h"

extern List *sq_physical_relations(Oid source, bool with_children);
extern void sq_physical_check_children(Oid source);
extern bool sq_physical_overlap(Oid relation, Oid source);
extern AttrNumber sq_physical_column(Oid source, AttrNumber attnum, Oid relation);

#endif							/* SQ_PHYSICAL_H */
