/*
 * sink.h
 *		The sink of a query: finding, creating and checking it.
 */
#ifndef SQ_SINK_H
#define SQ_SINK_H

#include "streamq.h"
#include "nodes/pg_list.h"

extern Oid	sq_sink_find(const char *sink, const char *query_name);
extern Oid	sq_sink_create(const char *sink, const char *query_name, Oid definition);
extern bool sq_sink_is_ours(Oid relid);
extern void sq_sink_check_kind(Oid sink);
extern void sq_sink_check_columns(Oid sink, Oid definition);
extern void sq_sink_check_sources(Oid relation, List *sources);
extern void sq_sink_create_key(Oid sink, List *columns);
extern bool sq_sink_check_key(Oid sink, Oid definition, List *columns);
extern void sq_sink_check_replaceable(Oid sink);
extern void sq_sink_check_updatable(Oid sink, const char *output_mode);
extern void sq_sink_drop(Oid sink);

#endif							/* SQ_SINK_H */
