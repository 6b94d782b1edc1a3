/*
 * emit.h
 *		The statements that a batch executes.
 */
#ifndef SQ_EMIT_H
#define SQ_EMIT_H

#include "compiler/compile.h"
#include "compiler/delta.h"

/* which groups */
typedef enum SqGroupsShown
{
	SQ_GROUPS_ALL,
	SQ_GROUPS_FINAL,			/* under SQ_PARAM_CLOSED */
	SQ_GROUPS_OPEN				/* those that were not */
} SqGroupsShown;

/* emit.c */
extern SqStatement *sq_emit_statement(const SqCompiled *compiled, const char *text);
extern char *sq_emit_show(const SqStatement *statement);

extern List *sq_emit_all(const SqCompiled *compiled);

/* emit_state.c: each returns the number of groups added */
extern List *sq_emit_inputs(const SqCompiled *compiled, SqLateness lateness);
extern SqStatement *sq_emit_merge(const SqCompiled *compiled, SqLateness lateness, bool empty);
extern char *sq_emit_merge_text(const SqCompiled *compiled, Query *states, bool empty);
extern SqStatement *sq_emit_due(const SqCompiled *compiled);
extern List *sq_emit_evict(const SqCompiled *compiled);

/* emit_sink.c */
extern SqStatement *sq_emit_insert(const SqCompiled *compiled, Query *result);
extern SqStatement *sq_emit_upsert(const SqCompiled *compiled, SqLateness lateness, bool empty);
extern SqStatement *sq_emit_replace(const SqCompiled *compiled);
extern bool sq_emit_check_sink(const SqCompiled *compiled, List *key_names);
extern List *sq_emit_key_columns(const SqCompiled *compiled);

extern char *sq_emit_columns(const SqCompiled *compiled, const char *prefix);
extern char *sq_emit_image(const SqCompiled *compiled, const char *prefix, bool rounded);
extern char *sq_emit_as_in_sink(const SqCompiled *compiled, const char *prefix);

/* emit_show.c */
extern SqStatement *sq_emit_held(const SqCompiled *compiled);
extern SqStatement *sq_emit_live(const SqCompiled *compiled);
extern SqStatement *sq_emit_verify(const SqCompiled *compiled, bool some_late);
extern bool sq_emit_knows_late(const SqCompiled *compiled);
extern SqStatement *sq_emit_count(const SqCompiled *compiled, int source);

/* emit_late.c */
extern SqStatement *sq_emit_late(const SqCompiled *compiled);

/* emit_source.c */
extern Query *sq_emit_find_stream(Query *query, int *rtindex);
extern void sq_emit_replace_stream(Query *reader, int rtindex, Query *replacement);
extern Expr *sq_emit_bound(const SqCompiled *compiled, SqParam param);
extern Query *sq_emit_closing(const SqCompiled *compiled, bool closed_before);
extern SqStatement *sq_emit_count_range(const SqCompiled *compiled, bool closed_before);
extern Query *sq_emit_plain(const SqCompiled *compiled, SqGroupsShown which);

#endif							/* SQ_EMIT_H */
