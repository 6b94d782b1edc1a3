/*
 * tree.h
 *		Making analysed statements: from text, and from pieces of a query.
 */
#ifndef SQ_TREE_H
#define SQ_TREE_H

#include "streamq.h"
#include "lib/stringinfo.h"
#include "nodes/parsenodes.h"
#include "nodes/primnodes.h"

extern char *sq_tree_relation(Oid relid);
extern char *sq_tree_type(Oid type, int32 typmod, Oid collation);
extern char *sq_tree_null(Oid type, int32 typmod, Oid collation);
extern char *sq_tree_aggregate(Oid aggregate);
extern char *sq_tree_equal(Oid type, const char *left, const char *right);
extern char *sq_tree_both_null(const char *left, const char *right);
extern char *sq_tree_is_null(const char *value);
extern Query *sq_tree_analyse(const char *text, List *param_types);
extern RangeTblEntry *sq_tree_find(Query *query, const char *alias);
extern char *sq_tree_placeholder(List *targets);
extern char *sq_tree_show(const Query *query);
extern void sq_tree_give_rights(Query *query, const Query *level, RangeTblEntry *table);
extern void sq_tree_add_qual(Query *query, Node *qual);
extern Expr *sq_tree_compare(const char *op, Expr *left, Expr *right);

#endif							/* SQ_TREE_H */
