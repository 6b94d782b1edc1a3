/*
 * emit_source.c
 *		The query over rows of the source that have been read before: groups that
 *		have just become final, and the plain result for comparison.
 */
#include "compiler/emit.h"

#include "access/sysattr.h"
#include "access/table.h"
#include "catalog/pg_type.h"
#include "catalog/sourcedef.h"
#include "compat.h"
#include "compiler/accept.h"
#include "compiler/streams.h"
#include "compiler/tree.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "parser/parse_coerce.h"
#include "parser/parse_func.h"
#include "parser/parsetree.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/ruleutils.h"

/* The level at which a query reads its only stream, and where; NULL if it does not. */
Query *
sq_emit_find_stream(Query *query, int *rtindex)
{
	ListCell   *lc;

	foreach(lc, query->rtable)
	{
		RangeTblEntry *rte = lfirst_node(RangeTblEntry, lc);
		Query	   *found;

		if (sq_streams_is_stream(rte))
		{
			*rtindex = foreach_current_index(lc) + 1;
			return query;
		}
		if (rte->rtekind != RTE_SUBQUERY)
			continue;
		found = sq_emit_find_stream(rte->subquery, rtindex);
		if (found != NULL)
			return found;
	}
	return NULL;
}

/*
 * A key's bound as a value of the event-time column's type: a key that is a floor
 * of the time is never beyond it.
 */
Expr *
sq_emit_bound(const SqCompiled *compiled, SqParam param)
{
	const SqEventKey *event = &compiled->aggregation->event;
	Node	   *bound = (Node *) sq_event_time_bound(event, sq_compiled_param(compiled, param));

	bound = coerce_to_target_type(NULL, bound, exprType(bound), event->column_type, -1,
								  COERCION_EXPLICIT, COERCE_EXPLICIT_CAST, -1);
	if (bound == NULL)
		elog(ERROR, "event-time key cannot be cast to type %u", event->column_type);
	return (Expr *) bound;
}

/* the columns of a source, by their numbers, as a SELECT list */
static char *
all_columns(Oid relid)
{
	Relation	rel = table_open(relid, NoLock);
	TupleDesc	desc = RelationGetDescr(rel);
	StringInfoData list;

	initStringInfo(&list);
	for (int i = 0; i < desc->natts; i++)
	{
		Form_pg_attribute column = TupleDescAttr(desc, i);

		if (column->attisdropped)
			appendStringInfo(&list, "%sNULL::pg_catalog.int4", i > 0 ? ", " : "");
		else
			appendStringInfo(&list, "%ss.%s", i > 0 ? ", " : "",
							 quote_identifier(NameStr(column->attname)));
	}
	table_close(rel, NoLock);
	return list.data;
}

/* streamq.was_read(parameter, tableoid, ctid, xmin, event time) of the entry 1 */
static Expr *
was_read(const SqCompiled *compiled)
{
	const SqSource *source = linitial(compiled->sources);
	Oid			types[5] = {INTERNALOID, OIDOID, TIDOID, XIDOID, ANYOID};
	Param	   *param = makeNode(Param);

	param->paramkind = PARAM_EXTERN;
	param->paramid = sq_compiled_param(compiled, SQ_PARAM_READ);
	param->paramtype = INTERNALOID;
	param->paramtypmod = -1;
	param->location = -1;
	return (Expr *) makeFuncExpr(LookupFuncName(list_make2(makeString(SQ_SCHEMA), makeString("was_read")),
												5, types, false), BOOLOID,
								 list_make5(param,
											makeVar(1, TableOidAttributeNumber, OIDOID, -1, InvalidOid, 0),
											makeVar(1, SelfItemPointerAttributeNumber, TIDOID, -1, InvalidOid, 0),
											makeVar(1, MinTransactionIdAttributeNumber, XIDOID, -1, InvalidOid, 0),
											makeVar(1, source->event_time, compiled->aggregation->event.column_type,
													-1, InvalidOid, 0)),
								 InvalidOid, InvalidOid, COERCE_EXPLICIT_CALL);
}

/*
 * The rows that have been read before and belong to groups that close now, in
 * place of the stream that a level of the query reads.  OFFSET 0 keeps the query's own
 * conditions out, so that was_read() sees, and counts, each row of the range.
 */
static Query *
rows_of_range(const SqCompiled *compiled, const Query *level, RangeTblEntry *stream, bool closed_before)
{
	const SqSource *source = linitial(compiled->sources);
	char	   *time = psprintf("s.%s", quote_identifier(get_attname(source->relid, source->event_time, false)));
	int			nest_level = sq_settings_push_catalog_path();
	bool		injective = compiled->aggregation->event.injective;
	StringInfoData text;
	Query	   *query;

	initStringInfo(&text);
	appendStringInfo(&text, "SELECT %s FROM %s%s s WHERE %s OPERATOR(pg_catalog.%s) %s",
					 all_columns(source->relid), stream->inh ? "" : "ONLY ",
					 sq_tree_relation(source->relid), time, injective ? "<=" : "<",
					 deparse_expression((Node *) sq_emit_bound(compiled, SQ_PARAM_WATERMARK),
										NIL, false, false));
	if (closed_before)
		appendStringInfo(&text, " AND %s OPERATOR(pg_catalog.%s) %s", time, injective ? ">" : ">=",
						 deparse_expression((Node *) sq_emit_bound(compiled, SQ_PARAM_CLOSED),
											NIL, false, false));
	appendStringInfoString(&text, " OFFSET 0");
	sq_settings_pop(nest_level);

	query = sq_tree_analyse(text.data, sq_compiled_param_types(compiled));
	sq_tree_add_qual(query, (Node *) was_read(compiled));
	sq_tree_give_rights(query, level, stream);
	return query;
}

/* Makes a level read a query, with all columns of the stream, instead of the stream. */
void
sq_emit_replace_stream(Query *reader, int rtindex, Query *replacement)
{
	RangeTblEntry *rte = rt_fetch(rtindex, reader->rtable);

	rte->subquery = replacement;
	rte->rtekind = RTE_SUBQUERY;
	rte->tablesample = NULL;
	rte->relid = InvalidOid;
	rte->relkind = 0;
	rte->rellockmode = 0;
	rte->inh = false;
	sq_rights_drop(rte);
}

/*
 * The query over the groups that are final under the watermark and were not
 * under the one before (SQ_PARAM_CLOSED; closed_before says that there was one),
 * from rows that earlier batches have read.
 */
Query *
sq_emit_closing(const SqCompiled *compiled, bool closed_before)
{
	Query	   *copy = copyObject(compiled->select);
	Query	   *level = sq_accept(copy, compiled->query->output_mode);
	int			rtindex;
	Query	   *reader = sq_emit_find_stream(level, &rtindex);

	Assert(reader != NULL);
	sq_emit_replace_stream(reader, rtindex,
						   rows_of_range(compiled, reader, rt_fetch(rtindex, reader->rtable), closed_before));
	sq_delta_restrict(compiled, level, SQ_PARAM_WATERMARK, true);
	if (closed_before)
		sq_delta_restrict(compiled, level, SQ_PARAM_CLOSED, false);
	return copy;
}

/* The statement that counts the rows of the range that closes. */
SqStatement *
sq_emit_count_range(const SqCompiled *compiled, bool closed_before)
{
	Query	   *level;
	RangeTblEntry *stream = sq_streams_find(compiled->select, linitial_oid(compiled->query->sources), &level);
	Query	   *rows = rows_of_range(compiled, level, stream, closed_before);
	SqStatement *statement = sq_emit_statement(compiled, "SELECT pg_catalog.count(*) FROM (SELECT 1) r");

	sq_tree_find(statement->query, "r")->subquery = rows;
	return statement;
}

/*
 * The query over all rows that its streams are made to give, restricted to
 * groups that were final under a time, or to those that were not; or to neither.
 */
Query *
sq_emit_plain(const SqCompiled *compiled, SqGroupsShown which)
{
	Query	   *copy = copyObject(compiled->select);

	if (which != SQ_GROUPS_ALL)
		sq_delta_restrict(compiled, sq_accept(copy, compiled->query->output_mode),
						  SQ_PARAM_CLOSED, which == SQ_GROUPS_FINAL);
	return copy;
}
