/*
 * emit.c
 *		The statements that a batch executes: what they have in common.
 */
#include "compiler/emit.h"

#include "compiler/groups.h"
#include "compiler/strategy.h"
#include "compiler/tree.h"

/* A statement analysed from text; parts of it may still have to be replaced. */
SqStatement *
sq_emit_statement(const SqCompiled *compiled, const char *text)
{
	SqStatement *statement = palloc0(sizeof(SqStatement));

	statement->source_text = text;

	statement->query = sq_tree_analyse(text, sq_compiled_param_types(compiled));
	return statement;
}

/* what gives out groups that are final, and forgets them */
static List *
closing_statements(const SqCompiled *compiled)
{
	char	   *key;
	List	   *result = NIL;

	if (sq_strategy_is_source(compiled))
		return list_make1(sq_emit_insert(compiled, sq_emit_closing(compiled, true)));
	key = psprintf("s.k%d", compiled->aggregation->time_key->number);
	if (strcmp(compiled->query->output_mode, "append") == 0)
		result = list_make1(sq_emit_insert(compiled,
										   sq_groups_result(compiled, sq_delta_final(compiled, key, SQ_PARAM_WATERMARK))));
	return list_concat(result, sq_emit_evict(compiled));
}

/*
 * All statements that batches of a query execute, in their order; some only when
 * rows are late, or groups final.
 */
List *
sq_emit_all(const SqCompiled *compiled)
{
	SqLateness	lateness = SQ_LATE_UNKNOWN;
	List	   *result = NIL;

	if (compiled->aggregation == NULL)
		return list_make1(sq_emit_insert(compiled, copyObject(compiled->select)));
	if (sq_compiled_has_watermark(compiled))
	{
		lateness = SQ_LATE_LEFT_OUT;
		result = lappend(result, sq_emit_late(compiled));
	}
	if (!sq_strategy_is_source(compiled))
	{
		result = list_concat(result, sq_emit_inputs(compiled, lateness));
		if (strcmp(compiled->query->output_mode, "update") == 0 && !sq_compiled_replaces(compiled))
			result = lappend(result, sq_emit_upsert(compiled, lateness, false));
		else
			result = lappend(result, sq_emit_merge(compiled, lateness, false));
	}
	if (sq_compiled_replaces(compiled))
		result = lappend(result, sq_emit_replace(compiled));
	if (sq_compiled_has_watermark(compiled))
		result = list_concat(result, closing_statements(compiled));
	return result;
}

/* The statement as SQL text, every name outside pg_catalog qualified. */
char *
sq_emit_show(const SqStatement *statement)
{
	return sq_tree_show(statement->query);
}
