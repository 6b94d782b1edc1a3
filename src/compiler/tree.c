/*
 * tree.c
 *		Making analysed statements: from text, and from pieces of a query.
 *
 * A statement over the engine's tables and the sink is written as text in which
 * every name is qualified and quoted, and analysed at once with only pg_catalog
 * on the search_path.  Where a piece of the user's query belongs, the text has a
 * subquery with the same columns, all NULL, which is replaced by the piece: that
 * has been analysed when the query was created, and its text must not be
 * analysed again, when names in it could mean something else.
 */
#include "compiler/tree.h"

#include "access/htup_details.h"
#include "catalog/pg_collation.h"
#include "catalog/pg_operator.h"
#include "catalog/pg_type.h"
#include "compat.h"
#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "parser/analyze.h"
#include "parser/parse_oper.h"
#include "parser/parser.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/regproc.h"
#include "utils/ruleutils.h"
#include "utils/syscache.h"
#include "utils/typcache.h"

/* Schema-qualified and quoted name of a relation. */
char *
sq_tree_relation(Oid relid)
{
	char	   *name = get_rel_name(relid);

	if (name == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_TABLE),
				 errmsg("relation with OID %u does not exist", relid)));
	return quote_qualified_identifier(get_namespace_name(get_rel_namespace(relid)), name);
}

/* schema-qualified and quoted name of a collation */
static char *
collation_name(Oid collation)
{
	HeapTuple	tuple = SearchSysCache1(COLLOID, ObjectIdGetDatum(collation));
	Form_pg_collation form;
	char	   *name;

	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for collation %u", collation);
	form = (Form_pg_collation) GETSTRUCT(tuple);
	name = quote_qualified_identifier(get_namespace_name(form->collnamespace),
									  NameStr(form->collname));
	ReleaseSysCache(tuple);
	return name;
}

/* A type as text, its collation, if it has one, included. */
char *
sq_tree_type(Oid type, int32 typmod, Oid collation)
{
	char	   *name = format_type_extended(type, typmod,
											FORMAT_TYPE_TYPEMOD_GIVEN | FORMAT_TYPE_FORCE_QUALIFY);

	if (OidIsValid(collation))
		name = psprintf("%s COLLATE %s", name, collation_name(collation));
	return name;
}

/* NULL of a type. */
char *
sq_tree_null(Oid type, int32 typmod, Oid collation)
{
	char	   *name = psprintf("CAST(NULL AS %s)", sq_tree_type(type, typmod, InvalidOid));

	if (OidIsValid(collation))
		name = psprintf("(%s COLLATE %s)", name, collation_name(collation));
	return name;
}

/* An aggregate as a constant of type regprocedure. */
char *
sq_tree_aggregate(Oid aggregate)
{
	return psprintf("%s::pg_catalog.regprocedure",
					quote_literal_cstr(format_procedure_qualified(aggregate)));
}

/* left = right, by the type's own equality */
char *
sq_tree_equal(Oid type, const char *left, const char *right)
{
	TypeCacheEntry *entry = lookup_type_cache(type, TYPECACHE_EQ_OPR);
	HeapTuple	tuple;
	Form_pg_operator form;
	char	   *text;

	if (!OidIsValid(entry->eq_opr))
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_FUNCTION),
				 errmsg("could not identify an equality operator for type %s",
						format_type_be(type))));
	tuple = SearchSysCache1(OPEROID, ObjectIdGetDatum(entry->eq_opr));
	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for operator %u", entry->eq_opr);
	form = (Form_pg_operator) GETSTRUCT(tuple);
	text = psprintf("%s OPERATOR(%s.%s) %s", left,
					quote_identifier(get_namespace_name(form->oprnamespace)),
					NameStr(form->oprname), right);

	ReleaseSysCache(tuple);
	return text;
}

/*
 * A value is NULL.  IS NULL would also be true for a composite value whose fields
 * are all NULL, which is another group than NULL.
 */
char *
sq_tree_is_null(const char *value)
{
	return psprintf("%s IS NOT DISTINCT FROM NULL", value);
}

char *
sq_tree_both_null(const char *left, const char *right)
{
	return psprintf("(%s AND %s)", sq_tree_is_null(left), sq_tree_is_null(right));
}

/*
 * Analyses a statement, with only pg_catalog on the search_path.  param_types
 * are the types of $1, $2 and so on.
 */
Query *
sq_tree_analyse(const char *text, List *param_types)
{
	int			nest_level = sq_settings_push_catalog_path();
	Oid		   *types = palloc(sizeof(Oid) * (list_length(param_types) + 1));
	List	   *parsetrees;
	Query	   *query;
	ListCell   *lc;

	foreach(lc, param_types)
	{
		types[foreach_current_index(lc)] = lfirst_oid(lc);
	}
	parsetrees = raw_parser(text, RAW_PARSE_DEFAULT);
	query = parse_analyze_fixedparams(linitial_node(RawStmt, parsetrees), text, types,
									  list_length(param_types), NULL);
	sq_settings_pop(nest_level);
	return query;
}

typedef struct FindContext
{
	const char *alias;
	RangeTblEntry *found;
} FindContext;

static bool
find_walker(Node *node, FindContext *context)
{
	if (node == NULL)
		return false;
	if (IsA(node, RangeTblEntry))
	{
		RangeTblEntry *rte = (RangeTblEntry *) node;

		if (rte->rtekind == RTE_SUBQUERY && rte->alias != NULL &&
			strcmp(rte->alias->aliasname, context->alias) == 0)
			context->found = rte;
		return context->found != NULL;
	}
	if (IsA(node, Query))
		return query_tree_walker((Query *) node, find_walker, context,
								 QTW_EXAMINE_RTES_BEFORE);
	return expression_tree_walker(node, find_walker, context);
}

/*
 * The range table entry of the subquery of that alias, to be filled with a piece of
 * the user's query.  All entries of a statement have to be found before any is
 * filled, as a piece may have such an alias inside.
 */
RangeTblEntry *
sq_tree_find(Query *query, const char *alias)
{
	FindContext context = {alias, NULL};

	(void) find_walker((Node *) query, &context);
	if (context.found == NULL)
		elog(ERROR, "no subquery \"%s\"", alias);
	return context.found;
}

/* (SELECT NULL AS ...), with the columns of a target list (TargetEntry). */
char *
sq_tree_placeholder(List *targets)
{
	StringInfoData text;
	ListCell   *lc;
	bool		first = true;

	initStringInfo(&text);
	appendStringInfoString(&text, "(SELECT ");
	foreach(lc, targets)
	{
		TargetEntry *tle = lfirst_node(TargetEntry, lc);
		Node	   *expr = (Node *) tle->expr;

		if (tle->resjunk)
			continue;
		appendStringInfo(&text, "%s%s AS %s", first ? "" : ", ",
						 sq_tree_null(exprType(expr), exprTypmod(expr), exprCollation(expr)),
						 quote_identifier(tle->resname));
		first = false;
	}
	appendStringInfoChar(&text, ')');
	return text.data;
}

/* A statement as SQL text, every name outside pg_catalog qualified. */
char *
sq_tree_show(const Query *query)
{
	int			nest_level = sq_settings_push_catalog_path();
	char	   *shown;

	shown = pg_get_querydef(copyObject(unconstify(Query *, query)), true);
	sq_settings_pop(nest_level);
	return shown;
}

static bool
give_rights_walker(Node *node, RTEPermissionInfo *given)
{
	ListCell   *lc;

	if (node == NULL)
		return false;
	if (!IsA(node, Query))
		return expression_tree_walker(node, give_rights_walker, given);
	foreach(lc, ((Query *) node)->rtable)
	{
		RangeTblEntry *rte = lfirst_node(RangeTblEntry, lc);
		RTEPermissionInfo *rights = sq_rights((Query *) node, rte);

		if (rte->rtekind == RTE_RELATION && rte->relid == given->relid && rights != NULL)
		{
			rights->checkAsUser = given->checkAsUser;
			rights->selectedCols = bms_copy(given->selectedCols);
		}
	}
	return query_tree_walker((Query *) node, give_rights_walker, given, 0);
}

/*
 * Has the right to read a table checked as it was where a level of the user's query
 * read it: behind a view as the view's owner, and for the columns used there.
 */
void
sq_tree_give_rights(Query *query, const Query *level, RangeTblEntry *table)
{
	RTEPermissionInfo *rights = sq_rights(level, table);

	Assert(rights != NULL);
	(void) give_rights_walker((Node *) query, rights);
}

/* Adds a condition to a query's WHERE clause. */
void
sq_tree_add_qual(Query *query, Node *qual)
{
	query->jointree->quals = make_and_qual(query->jointree->quals, qual);
}

/* left op right, with an operator of pg_catalog or the types' own */
Expr *
sq_tree_compare(const char *op, Expr *left, Expr *right)
{
	TypeCacheEntry *entry = lookup_type_cache(exprType((Node *) left),
											  TYPECACHE_BTREE_OPFAMILY);
	int16		strategy = strcmp(op, "<") == 0 ? 1 : strcmp(op, "<=") == 0 ? 2 : 4;
	Oid			operator = get_opfamily_member(entry->btree_opf, entry->btree_opintype,
											   entry->btree_opintype, strategy);

	if (!OidIsValid(operator))
		elog(ERROR, "no operator %s for type %u", op, exprType((Node *) left));
	return make_opclause(operator, BOOLOID, false, left, right, InvalidOid,
						 exprCollation((Node *) left));
}
