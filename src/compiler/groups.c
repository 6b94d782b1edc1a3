/*
 * groups.c
 *		The query over its groups: keys and final values instead of rows.
 *
 * The level that aggregates becomes a plain SELECT from the state: a group key
 * becomes a column of it, an aggregate call its final value, HAVING a WHERE.
 * Whatever else there is in the level, and around it, stays as it is.
 */
#include "compiler/groups.h"

#include "catalog/pg_type.h"
#include "compat.h"
#include "compiler/accept.h"
#include "compiler/tree.h"
#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/optimizer.h"
#include "parser/parsetree.h"
#include "rewrite/rewriteManip.h"
#include "state/state.h"
#include "utils/builtins.h"
#include "utils/typcache.h"

/* ------------------------------------------------------- groups as a relation */

/* the final value of a call as text, from a row s of the state */
static char *
final_value(const SqCall *call)
{
	const Aggref *aggref = call->aggref;
	StringInfoData text;
	ListCell   *lc;

	if (call->kind == SQ_CALL_ROWS)
		return psprintf("v.v%d", call->number);
	if (call->is_value)
		return psprintf("s.s%d", call->number);
	initStringInfo(&text);
	appendStringInfo(&text, "streamq.finalize_state(%s, s.s%d, %s",
					 sq_tree_aggregate(aggref->aggfnoid), call->number,
					 sq_tree_null(aggref->aggtype, -1, aggref->aggcollid));
	foreach(lc, call->final_wants_arguments ? aggref->args : NIL)
	{
		Node	   *expr = (Node *) lfirst_node(TargetEntry, lc)->expr;

		appendStringInfo(&text, ", %s", sq_tree_null(exprType(expr), -1, InvalidOid));
	}
	appendStringInfoChar(&text, ')');
	return text.data;
}

/* The group keys of a row as a hash, as text; the same for all where a type has none. */
char *
sq_groups_hash(const SqAggregation *aggregation, const char *row)
{
	StringInfoData text;
	ListCell   *lc;

	initStringInfo(&text);
	foreach(lc, aggregation->keys)
	{
		SqKey	   *key = lfirst(lc);
		TypeCacheEntry *entry = lookup_type_cache(key->type, TYPECACHE_HASH_EXTENDED_PROC);

		if (key->clause == NULL)
			continue;
		if (!OidIsValid(entry->hash_extended_proc))
			return "0::pg_catalog.int8";
		appendStringInfo(&text, "%s%s.k%d", text.len > 0 ? ", " : "", row, key->number);
	}
	if (text.len == 0)
		return "0::pg_catalog.int8";
	return psprintf("pg_catalog.hash_record_extended(ROW(%s), 0)", text.data);
}

/* The condition, as text, that two rows have the same group keys, NULLs included. */
char *
sq_groups_same(const SqAggregation *aggregation, const char *left, const char *right)
{
	StringInfoData text;
	ListCell   *lc;

	initStringInfo(&text);
	foreach(lc, aggregation->keys)
	{
		SqKey	   *key = lfirst(lc);
		char	   *a = psprintf("%s.k%d", left, key->number);
		char	   *b = psprintf("%s.k%d", right, key->number);

		if (key->clause == NULL)
			continue;
		appendStringInfo(&text, "%s(%s OR %s)", text.len > 0 ? " AND " : "",
						 sq_tree_equal(key->type, a, b), sq_tree_both_null(a, b));
	}
	return text.len > 0 ? text.data : "true";
}

/* FROM item: the kept inputs of a group s, computed to the values v<n> */
static char *
rows_values(const SqCompiled *compiled)
{
	const SqAggregation *aggregation = compiled->aggregation;
	StringInfoData text;
	bool		first = true;
	ListCell   *lc;

	if (!sq_aggregation_has(aggregation, SQ_CALL_ROWS))
		return "";
	initStringInfo(&text);
	appendStringInfoString(&text, " CROSS JOIN LATERAL (SELECT ");
	foreach(lc, aggregation->calls)
	{
		SqCall	   *call = lfirst(lc);

		if (call->kind != SQ_CALL_ROWS)
			continue;
		/* replaced by the call itself, see patch_values() */
		appendStringInfo(&text, "%s%s AS v%d", first ? "" : ", ",
						 sq_tree_null(call->aggref->aggtype, -1, call->aggref->aggcollid),
						 call->number);
		first = false;
	}
	appendStringInfo(&text, " FROM (SELECT r.* FROM %s r WHERE r.h = %s AND %s ORDER BY r.place) i) v",
					 sq_tree_relation(sq_state_relation(compiled->query, SQ_STATE_ROWS, 0)),
					 sq_groups_hash(aggregation, "s"), sq_groups_same(aggregation, "r", "s"));
	return text.data;
}

/* SELECT k<n>, v<n> FROM the groups in from, with the alias s */
static char *
groups_text(const SqCompiled *compiled, const char *from, const char *condition)
{
	StringInfoData columns;
	ListCell   *lc;

	initStringInfo(&columns);
	foreach(lc, compiled->aggregation->keys)
	{
		SqKey	   *key = lfirst(lc);

		appendStringInfo(&columns, "%ss.k%d", columns.len > 0 ? ", " : "", key->number);
	}
	foreach(lc, compiled->aggregation->calls)
	{
		SqCall	   *call = lfirst(lc);

		appendStringInfo(&columns, "%s%s AS v%d", columns.len > 0 ? ", " : "",
						 final_value(call), call->number);
	}
	return psprintf("SELECT %s FROM %s s%s%s%s", columns.data, from, rows_values(compiled),
					condition ? " WHERE " : "", condition ? condition : "");
}

static AttrNumber
column_number(const RangeTblEntry *rte, const char *name)
{
	ListCell   *lc;

	foreach(lc, rte->eref->colnames)
	{
		if (strcmp(strVal(lfirst(lc)), name) == 0)
			return foreach_current_index(lc) + 1;
	}
	elog(ERROR, "no column \"%s\" in \"%s\"", name, rte->eref->aliasname);
	return 0;
}

/* a column of an entry of the range table, levelsup levels further out */
static Var *
column_var(Query *query, const char *alias, const char *name, const Node *like, int levelsup)
{
	ListCell   *lc;

	foreach(lc, query->rtable)
	{
		RangeTblEntry *rte = lfirst_node(RangeTblEntry, lc);

		if (rte->eref != NULL && strcmp(rte->eref->aliasname, alias) == 0)
			return makeVar(foreach_current_index(lc) + 1, column_number(rte, name),
						   exprType(like), exprTypmod(like), exprCollation(like), levelsup);
	}
	elog(ERROR, "no relation \"%s\"", alias);
	return NULL;
}

typedef struct OverGroups
{
	const SqAggregation *aggregation;
	Query	   *query;			/* whose range table has the alias */
	const char *alias;
	int			levelsup;		/* how far out that is */
	int			depth;			/* below the level that aggregated */
} OverGroups;

/* keys become columns k<n>, aggregate calls columns v<n> of the alias */
static Node *
over_groups_mutator(Node *node, OverGroups *context)
{
	const SqAggregation *aggregation = context->aggregation;
	Node	   *aggregate;
	SqKey	   *key;

	if (node == NULL)
		return NULL;
	aggregate = sq_json_aggregate(node);
	if (aggregate != NULL)
		return over_groups_mutator(aggregate, context);
	if (!IsA(node, Query) && !IsA(node, List) && !IsA(node, TargetEntry))
	{
		key = sq_aggregation_find_key(aggregation, node, context->depth);
		if (key != NULL)
			return (Node *) column_var(context->query, context->alias,
									   psprintf("k%d", key->number), (Node *) key->expr,
									   context->levelsup + context->depth);
	}
	if (IsA(node, Aggref) && (int) ((Aggref *) node)->agglevelsup == context->depth)
	{
		SqCall	   *call = sq_aggregation_find_call(aggregation, (Aggref *) node, context->depth);

		if (call == NULL)
			elog(ERROR, "unknown aggregate call");
		return (Node *) column_var(context->query, context->alias, psprintf("v%d", call->number),
								   (Node *) call->aggref, context->levelsup + context->depth);
	}
	/* without grouping sets nothing is left out of a group's key */
	if (IsA(node, GroupingFunc) && (int) ((GroupingFunc *) node)->agglevelsup == context->depth)
		return (Node *) makeConst(INT4OID, -1, InvalidOid, sizeof(int32), Int32GetDatum(0), false, true);
	if (IsA(node, Query))
	{
		Query	   *result;

		context->depth++;
		result = query_tree_mutator((Query *) node, over_groups_mutator, context, 0);
		context->depth--;
		return (Node *) result;
	}
	return expression_tree_mutator(node, over_groups_mutator, context);
}

/* a call over the kept inputs of its group */
static Aggref *
call_over_inputs(const SqCompiled *compiled, const SqCall *call, Query *inner, Query *outer)
{
	Aggref	   *aggref = copyObject(call->aggref);
	OverGroups	context = {compiled->aggregation, outer, "s", 1, 0};
	ListCell   *lc;

	foreach(lc, aggref->args)
	{
		TargetEntry *tle = lfirst_node(TargetEntry, lc);

		tle->expr = (Expr *) column_var(inner, "i",
										psprintf("a%d_%d", call->number, foreach_current_index(lc) + 1),
										(Node *) tle->expr, 0);
	}
	if (aggref->aggfilter != NULL)
		aggref->aggfilter = (Expr *) column_var(inner, "i", psprintf("f%d", call->number),
												(Node *) aggref->aggfilter, 0);
	/* those of an ordered-set aggregate are made of group keys */
	aggref->aggdirectargs = (List *) over_groups_mutator((Node *) aggref->aggdirectargs, &context);
	return aggref;
}

/* puts the calls into the place of the NULLs in rows_values() */
static void
patch_values(const SqCompiled *compiled, Query *groups)
{
	Query	   *inner;
	ListCell   *lc;

	if (!sq_aggregation_has(compiled->aggregation, SQ_CALL_ROWS))
		return;
	inner = sq_tree_find(groups, "v")->subquery;
	foreach(lc, compiled->aggregation->calls)
	{
		SqCall	   *call = lfirst(lc);
		ListCell   *lc2;

		if (call->kind != SQ_CALL_ROWS)
			continue;
		foreach(lc2, inner->targetList)
		{
			TargetEntry *tle = lfirst_node(TargetEntry, lc2);

			if (strcmp(tle->resname, psprintf("v%d", call->number)) == 0)
				tle->expr = (Expr *) call_over_inputs(compiled, call, inner, groups);
		}
	}
	inner->hasAggs = true;
	inner->hasSubLinks = checkExprHasSubLink((Node *) inner->targetList);
}

/* ------------------------------------------------------ the query over them */

/* the level that aggregated, reading an entry g of groups instead */
static void
read_groups(const SqCompiled *compiled, Query *level, RangeTblEntry *groups)
{
	OverGroups	context = {compiled->aggregation, level, "g", 0, 0};
	RangeTblRef *from = makeNode(RangeTblRef);

	level->rtable = list_make1(groups);
	sq_rights_drop_all(level);
	from->rtindex = 1;
	level->targetList = (List *) over_groups_mutator((Node *) level->targetList, &context);
	level->jointree = makeFromExpr(list_make1(from),
								   over_groups_mutator(level->havingQual, &context));
	level->havingQual = NULL;
	level->groupClause = NIL;
	level->hasAggs = false;
	level->hasTargetSRFs = expression_returns_set((Node *) level->targetList);
	level->windowClause = (List *) over_groups_mutator((Node *) level->windowClause, &context);
	level->hasForUpdate = false;
}

static RangeTblEntry *
groups_entry(const SqCompiled *compiled, const char *text)
{
	Query	   *query = sq_tree_analyse(text, sq_compiled_param_types(compiled));
	RangeTblEntry *entry = sq_tree_find(query, "g");

	patch_values(compiled, entry->subquery);
	return entry;
}

/* The columns of the state that a group's row is made of, each after a prefix. */
char *
sq_groups_state_columns(const SqAggregation *aggregation, const char *prefix)
{
	StringInfoData list;
	ListCell   *lc;

	initStringInfo(&list);
	foreach(lc, aggregation->keys)
	{
		appendStringInfo(&list, "%s%sk%d", list.len > 0 ? ", " : "", prefix,
						 ((SqKey *) lfirst(lc))->number);
	}
	foreach(lc, aggregation->calls)
	{
		SqCall	   *call = lfirst(lc);

		if (OidIsValid(call->state_type))
			appendStringInfo(&list, "%s%ss%d", list.len > 0 ? ", " : "", prefix, call->number);
	}
	return list.data;
}

/*
 * The whole query over the groups that are held; condition, as text over a row s
 * of the state, says which, NULL means all.
 */
Query *
sq_groups_result(const SqCompiled *compiled, const char *condition)
{
	Query	   *copy = copyObject(compiled->select);
	char	   *from = sq_tree_relation(sq_state_relation(compiled->query,
														  SQ_STATE_GROUPS, 0));

	read_groups(compiled, sq_accept(copy, compiled->query->output_mode),
				groups_entry(compiled, psprintf("SELECT g.* FROM (%s) g",
												groups_text(compiled, from, condition))));
	return copy;
}

/*
 * The level that aggregates, over all groups that are held, HAVING or not and in
 * no order.
 */
Query *
sq_groups_values(const SqCompiled *compiled)
{
	Query	   *copy = copyObject(compiled->aggregation->level);
	char	   *from = sq_tree_relation(sq_state_relation(compiled->query,
														  SQ_STATE_GROUPS, 0));

	copy->havingQual = NULL;
	copy->sortClause = copy->distinctClause = NIL;
	copy->limitCount = copy->limitOffset = NULL;
	read_groups(compiled, copy,
				groups_entry(compiled, psprintf("SELECT g.* FROM (%s) g",
												groups_text(compiled, from, NULL))));
	return copy;
}

/* SELECT NULL AS k<n>, ... NULL AS s<n>: what "kept" returns */
static char *
state_placeholder(const SqAggregation *aggregation)
{
	StringInfoData text;
	ListCell   *lc;

	initStringInfo(&text);
	appendStringInfoString(&text, "SELECT ");
	foreach(lc, aggregation->keys)
	{
		SqKey	   *key = lfirst(lc);

		appendStringInfo(&text, "%s AS k%d, ",
						 sq_tree_null(key->type, key->typmod, key->collation), key->number);
	}
	foreach(lc, aggregation->calls)
	{
		SqCall	   *call = lfirst(lc);

		if (OidIsValid(call->state_type))
			appendStringInfo(&text, "%s AS s%d, ",
							 sq_tree_null(call->state_type, -1, call->state_collation),
							 call->number);
	}
	appendStringInfoString(&text, "true AS added");
	return text.data;
}

/*
 * The query over the groups that a WITH query "kept" returns, to be used in a
 * WITH query beside it.  having says whether those that HAVING lets pass, or the
 * others; inserted, that it is the source of an INSERT.
 */
Query *
sq_groups_touched(const SqCompiled *compiled, bool having, bool inserted)
{
	Query	   *copy = copyObject(compiled->select);

	/* as deep below the WITH clause as where it is going to be */
	const char *text = psprintf("WITH kept AS (%s), written AS (SELECT 1 FROM %s(SELECT g.* FROM (%s) g) r%s)"
								" SELECT 1 FROM written",
								state_placeholder(compiled->aggregation),
								inserted ? "(SELECT 1 FROM " : "",
								groups_text(compiled, "kept", NULL),
								inserted ? ") i" : "");

	if (!having)
	{
		BooleanTest *test = makeNode(BooleanTest);

		test->arg = (Expr *) copy->havingQual;
		test->booltesttype = IS_NOT_TRUE;
		test->location = -1;
		copy->havingQual = (Node *) test;
	}
	read_groups(compiled, copy, groups_entry(compiled, text));
	return copy;
}
