/*
 * define.h
 *		Parts of defining a query that changing one needs, too.
 */
#ifndef SQ_DEFINE_H
#define SQ_DEFINE_H

#include "streamq.h"
#include "catalog/querydef.h"
#include "nodes/parsenodes.h"

extern Query *sq_define_analyse(const char *text);
extern Oid	sq_define_store(const char *name, Query *query);
extern void sq_define_depend(const SqQuery *query);
extern void sq_define_live_view(const SqQuery *query, const char *name);
extern void sq_define_try(const SqQuery *query);

#endif							/* SQ_DEFINE_H */
