/*
 * api.h
 *		What the SQL-callable functions share.
 */
#ifndef SQ_API_H
#define SQ_API_H

#include "streamq.h"
#include "fmgr.h"
#include "nodes/pg_list.h"
#include "utils/timestamp.h"

extern void sq_api_null_argument(const char *argument) pg_attribute_noreturn();
extern char *sq_api_name_argument(FunctionCallInfo fcinfo);
extern char *sq_api_starting_position(FunctionCallInfo fcinfo, int argument);
extern int	sq_api_compare_intervals(const Interval *a, const Interval *b);
extern void sq_api_add_source(Oid relid, const char *column, Interval *delay);
extern void sq_api_remake_maps(Oid relid);
extern void sq_api_forget_query(const char *name);
extern void sq_api_start_latest(const char *name, List *sources);

#endif							/* SQ_API_H */
