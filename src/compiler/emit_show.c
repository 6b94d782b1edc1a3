/*
 * emit_show.c
 *		The statements behind streamq.state(), live() and verify().
 *
 * The plain SELECT over the rows processed so far is the query itself, its streams
 * made to read from the beginning up to the checkpoint.  live() puts it, or the
 * groups that are held, beside the sink; verify() compares.
 */
#include "compiler/emit.h"

#include "access/table.h"
#include "catalog/pg_type.h"
#include "catalog/sourcedef.h"
#include "compiler/groups.h"
#include "compiler/strategy.h"
#include "compiler/streams.h"
#include "compiler/tree.h"
#include "nodes/nodeFuncs.h"
#include "parser/parsetree.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"

/* the result's columns, from the sink, as what the query makes of them */
static char *
sink_columns(const SqCompiled *compiled)
{
	StringInfoData list;
	ListCell   *lc;

	initStringInfo(&list);
	foreach(lc, compiled->select->targetList)
	{
		TargetEntry *tle = lfirst_node(TargetEntry, lc);
		Node	   *expr = (Node *) tle->expr;

		if (!tle->resjunk)
			appendStringInfo(&list, "%sCAST(t.%s AS %s) AS %s", list.len > 0 ? ", " : "",
							 quote_identifier(tle->resname),
							 sq_tree_type(exprType(expr), exprTypmod(expr), InvalidOid),
							 quote_identifier(tle->resname));
	}
	return list.data;
}

/* The statement of streamq.state(). */
SqStatement *
sq_emit_held(const SqCompiled *compiled)
{
	SqStatement *statement = palloc0(sizeof(SqStatement));

	statement->source_text = "streamq.state()";
	statement->query = sq_groups_values(compiled);
	return statement;
}

/* The statement of streamq.live(). */
SqStatement *
sq_emit_live(const SqCompiled *compiled)
{
	bool		appends = compiled->aggregation != NULL &&
	strcmp(compiled->query->output_mode, "append") == 0;
	StringInfoData text;
	SqStatement *statement;

	initStringInfo(&text);
	appendStringInfo(&text, "SELECT %s FROM %s t", sink_columns(compiled),
					 sq_tree_relation(compiled->query->sink));
	if (appends)
		appendStringInfo(&text, " UNION ALL SELECT * FROM %s q",
						 sq_tree_placeholder(compiled->select->targetList));
	statement = sq_emit_statement(compiled, text.data);
	if (appends)
		sq_tree_find(statement->query, "q")->subquery = sq_strategy_is_source(compiled) ?
			sq_emit_plain(compiled, SQ_GROUPS_OPEN) : sq_groups_result(compiled, NULL);
	return statement;
}

/* -------------------------------------------------------------------- verify */

/* the group of a row has been final, as far as the row shows its time */
static char *
final_condition(const SqCompiled *compiled)
{
	const SqAggregation *aggregation = compiled->aggregation;
	ListCell   *lc;

	foreach(lc, compiled->select->targetList)
	{
		TargetEntry *tle = lfirst_node(TargetEntry, lc);
		char	   *column;

		if (tle->resjunk || aggregation == NULL || aggregation->time_key == NULL ||
			!equal(tle->expr, aggregation->time_key->expr))
			continue;
		column = psprintf("CAST(d.%s AS %s)", quote_identifier(tle->resname),
						  sq_tree_type(aggregation->time_key->type, -1, InvalidOid));
		return psprintf("(%s) IS TRUE", sq_delta_final(compiled, column, SQ_PARAM_CLOSED));
	}
	return "true";
}

/* rows of a table x, equal ones numbered */
static char *
numbered(const char *values, const char *from)
{
	return psprintf("SELECT y.*, pg_catalog.row_number() OVER (PARTITION BY y.\"streamq image\") AS \"streamq copy\""
					" FROM (SELECT x.*, streamq.row_image(ROW(%s)) AS \"streamq image\" FROM %s) y",
					values, from);
}

/* the stream of a level without the rows that lie in the late sink, each with one partner there */
static Query *
stream_without_late(const SqCompiled *compiled, const Query *level, RangeTblEntry *stream)
{
	Relation	rel = table_open(stream->relid, NoLock);
	TupleDesc	desc = RelationGetDescr(rel);
	StringInfoData columns;
	StringInfoData values;
	StringInfoData text;
	Query	   *query;

	initStringInfo(&columns);
	initStringInfo(&values);
	for (int i = 0; i < desc->natts; i++)
	{
		Form_pg_attribute column = TupleDescAttr(desc, i);
		const char *name = quote_identifier(NameStr(column->attname));

		appendStringInfoString(&columns, i > 0 ? ", " : "");
		if (column->attisdropped)
		{
			appendStringInfoString(&columns, "NULL::pg_catalog.int4");
			continue;
		}
		appendStringInfo(&columns, "s.%s", name);
		/* only what a late row was kept by tells it */
		if (column->attgenerated == '\0' &&
			get_attnum(compiled->query->late_sink, NameStr(column->attname)) > 0)
			appendStringInfo(&values, "%sx.%s", values.len > 0 ? ", " : "", name);
	}
	table_close(rel, NoLock);
	initStringInfo(&text);
	appendStringInfo(&text, "SELECT %s FROM (%s) s", columns.data,
					 numbered(values.data, psprintf("%s%s x TABLESAMPLE streamq.since($1, $2)",
													stream->inh ? "" : "ONLY ",
													sq_tree_relation(stream->relid))));
	appendStringInfo(&text, " WHERE NOT EXISTS (SELECT FROM (%s) l"
					 " WHERE l.\"streamq image\" OPERATOR(pg_catalog.=) s.\"streamq image\""
					 " AND l.\"streamq copy\" OPERATOR(pg_catalog.=) s.\"streamq copy\")",
					 numbered(values.data, psprintf("%s x", sq_tree_relation(compiled->query->late_sink))));
	query = sq_tree_analyse(text.data, sq_compiled_param_types(compiled));
	sq_tree_give_rights(query, level, stream);
	return query;
}

/*
 * The plain SELECT, of final groups only in append mode.  without_late says
 * whether rows in the late sink are left out.
 */
static Query *
plain_select(const SqCompiled *compiled, bool without_late)
{
	bool		appends = compiled->aggregation != NULL &&
	strcmp(compiled->query->output_mode, "append") == 0;
	Query	   *query = sq_emit_plain(compiled, appends ? SQ_GROUPS_FINAL : SQ_GROUPS_ALL);
	int			rtindex;
	Query	   *reader;

	if (without_late)
	{
		reader = sq_emit_find_stream(query, &rtindex);
		sq_emit_replace_stream(reader, rtindex,
							   stream_without_late(compiled, reader, rt_fetch(rtindex, reader->rtable)));
	}
	return query;
}

/* True if verify() can leave out exactly the rows that were late. */
bool
sq_emit_knows_late(const SqCompiled *compiled)
{
	return OidIsValid(compiled->query->late_sink) && !sq_strategy_uses_rows(compiled);
}

/*
 * The statement of streamq.verify(): difference, row, and whether late rows may
 * explain it; some_late says that there have been any.
 */
SqStatement *
sq_emit_verify(const SqCompiled *compiled, bool some_late)
{
	bool		knows_late = sq_emit_knows_late(compiled);
	StringInfoData text;
	SqStatement *statement;

	(void) sq_emit_check_sink(compiled, NIL);
	initStringInfo(&text);
	appendStringInfo(&text, "WITH wanted AS (SELECT y.*, pg_catalog.row_number() OVER (PARTITION BY y.\"streamq image\")"
					 " AS \"streamq copy\" FROM (SELECT x.*, %s AS \"streamq image\" FROM"
					 " (SELECT %s FROM %s r) x) y)",
					 sq_emit_image(compiled, "x.", true), sq_emit_as_in_sink(compiled, "r."),
					 sq_tree_placeholder(compiled->select->targetList));
	appendStringInfo(&text, ", held AS (SELECT y.*, pg_catalog.row_number() OVER (PARTITION BY y.\"streamq image\")"
					 " AS \"streamq copy\" FROM (SELECT %s, %s AS \"streamq image\" FROM %s t) y)",
					 sq_emit_columns(compiled, "t."), sq_emit_image(compiled, "t.", true),
					 sq_tree_relation(compiled->query->sink));
	for (int side = 0; side < 2; side++)
		appendStringInfo(&text, "%s SELECT '%s'::pg_catalog.text, pg_catalog.to_jsonb(d.*)"
						 " OPERATOR(pg_catalog.-) '{streamq image,streamq copy}'::pg_catalog.text[], %s"
						 " FROM %s d WHERE NOT EXISTS (SELECT FROM %s o"
						 " WHERE o.\"streamq image\" OPERATOR(pg_catalog.=) d.\"streamq image\""
						 " AND o.\"streamq copy\" OPERATOR(pg_catalog.=) d.\"streamq copy\")",
						 side == 0 ? "" : " UNION ALL",
						 side == 0 ? "missing" : "unexpected",
						 some_late && !knows_late ? final_condition(compiled) : "false",
						 side == 0 ? "wanted" : "held", side == 0 ? "held" : "wanted");
	statement = sq_emit_statement(compiled, text.data);
	sq_tree_find(statement->query, "r")->subquery = plain_select(compiled, knows_late);
	return statement;
}

/*
 * The statement that counts the rows of a source that have been processed.  NULL if it
 * cannot be told, as the query does not use them.
 */
SqStatement *
sq_emit_count(const SqCompiled *compiled, int source)
{
	Oid			relid = list_nth_oid(compiled->query->sources, source);
	bool		with_children = false;
	Query	   *level;
	RangeTblEntry *stream = sq_streams_find(compiled->select, relid, &level);
	SqStatement *statement;
	ListCell   *lc;

	if (stream == NULL)
		return NULL;
	foreach(lc, compiled->uses)
	{
		SqStreamUse *use = lfirst(lc);

		with_children |= use->source == source && use->with_children;
	}
	statement = sq_emit_statement(compiled,
								  psprintf("SELECT pg_catalog.count(*) FROM %s%s s TABLESAMPLE streamq.since($%d, $%d)",
										   with_children ? "" : "ONLY ", sq_tree_relation(relid),
										   2 * source + 1, 2 * source + 2));
	sq_tree_give_rights(statement->query, level, stream);
	return statement;
}
