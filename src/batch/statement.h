/*
 * statement.h
 *		Planning and executing the statements of a batch.
 */
#ifndef SQ_STATEMENT_H
#define SQ_STATEMENT_H

#include "compiler/emit.h"
#include "nodes/params.h"

extern int64 sq_statement_execute(const SqStatement *statement, ParamListInfo params);
extern List *sq_statement_try(const SqStatement *statement, ParamListInfo params);

#endif							/* SQ_STATEMENT_H */
