/*
 * emit.c
 *		From a query's definition to the statements that a batch executes.
 *
 * A statement is written as text in which every name is qualified and quoted,
 * analysed at once with only pg_catalog on the search_path, and then kept as an
 * analysed query: nothing that somebody creates later can change what it means.
 */
#include "compiler/emit.h"

#include "access/table.h"
#include "compiler/accept.h"
#include "compiler/streams.h"
#include "parser/analyze.h"
#include "parser/parser.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/ruleutils.h"

/* schema-qualified and quoted name of a relation */
static char *
relation_name(Oid relid)
{
	char	   *name = get_rel_name(relid);

	if (name == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_TABLE),
				 errmsg("relation with OID %u does not exist", relid)));
	return quote_qualified_identifier(get_namespace_name(get_rel_namespace(relid)), name);
}

/* INSERT INTO sink (columns) SELECT columns FROM definition */
static char *
insert_text(const SqQuery *query)
{
	Relation	definition = table_open(query->definition, AccessShareLock);
	TupleDesc	desc = RelationGetDescr(definition);
	StringInfoData targets;
	StringInfoData columns;
	StringInfoData text;

	initStringInfo(&targets);
	initStringInfo(&columns);
	for (int i = 0; i < desc->natts; i++)
	{
		const char *name = quote_identifier(NameStr(TupleDescAttr(desc, i)->attname));

		appendStringInfo(&targets, "%s%s", i > 0 ? ", " : "", name);
		appendStringInfo(&columns, "%sq.%s", i > 0 ? ", " : "", name);
	}
	table_close(definition, NoLock);

	initStringInfo(&text);
	appendStringInfo(&text, "INSERT INTO %s (%s) SELECT %s FROM %s q",
					 relation_name(query->sink), targets.data, columns.data,
					 relation_name(query->definition));
	return text.data;
}

/* analyses a statement, with only pg_catalog on the search_path */
static Query *
analyse(const char *text)
{
	int			nest_level = sq_settings_push_catalog_path();
	List	   *parsetrees;
	Query	   *query;

	parsetrees = raw_parser(text, RAW_PARSE_DEFAULT);
	query = parse_analyze_fixedparams(linitial_node(RawStmt, parsetrees), text,
									  NULL, 0, NULL);
	sq_settings_pop(nest_level);
	return query;
}

/*
 * A view behind the definition may have been replaced since the query was
 * created, so what was acceptable then is checked anew.
 */
static void
accept_again(Query *insert, const char *output_mode)
{
	ListCell   *lc;

	foreach(lc, insert->rtable)
	{
		RangeTblEntry *rte = lfirst_node(RangeTblEntry, lc);

		if (rte->rtekind == RTE_SUBQUERY)
			sq_accept_stateless(rte->subquery, output_mode);
	}
}

/*
 * The statement that puts a batch's rows into the sink.  To be called as the
 * query's owner, whose rights on schemas it needs.
 */
SqStatement *
sq_emit_insert(const SqQuery *query)
{
	SqStatement *statement = palloc0(sizeof(SqStatement));

	statement->source_text = insert_text(query);
	statement->query = analyse(statement->source_text);
	statement->uses = sq_streams_expand(statement->query, query->sources);
	accept_again(statement->query, query->output_mode);
	statement->nparams = 2 * list_length(query->sources);
	return statement;
}

/* The statement as SQL text, every name outside pg_catalog qualified. */
char *
sq_emit_show(const SqStatement *statement)
{
	int			nest_level = sq_settings_push_catalog_path();
	char	   *shown;

	shown = pg_get_querydef(copyObject(statement->query), true);
	sq_settings_pop(nest_level);
	return shown;
}
