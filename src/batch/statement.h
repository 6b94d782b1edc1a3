/*
 * statement.h
 *		Executing the statements of a batch.
 */
#ifndef SQ_STATEMENT_H
#define SQ_STATEMENT_H

#include "compiler/compile.h"
#include "nodes/params.h"
#include "utils/tuplestore.h"

extern int64 sq_statement_execute(const SqStatement *statement, ParamListInfo params);
extern void sq_statement_numbers(const SqStatement *statement, ParamListInfo params,
								 int64 *numbers, int n);
extern void sq_statement_rows(const SqStatement *statement, ParamListInfo params,
							  Tuplestorestate *rows);
extern List *sq_statement_try(const SqStatement *statement, ParamListInfo params);

#endif							/* SQ_STATEMENT_H */
