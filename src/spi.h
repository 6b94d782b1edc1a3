/*
 * spi.h
 *		The one way in which the engine runs SQL on its own tables.
 */
#ifndef SQ_SPI_H
#define SQ_SPI_H

#include "streamq.h"
#include "catalog/pg_type.h"
#include "executor/spi.h"
#include "utils/snapshot.h"

#define SQ_SQL_MAX_ARGS 24

/* a statement on the engine's tables; static, one for each text */
typedef struct SqSql
{
	const char *text;
	int			nargs;
	Oid			types[SQ_SQL_MAX_ARGS];
	SPIPlanPtr	plan;			/* kept for the life of the backend */
} SqSql;

/* state to come back to after working on the engine's tables */
typedef struct SqEngine
{
	Oid			user_id;
	int			sec_context;
	int			nest_level;
} SqEngine;

extern Snapshot sq_engine_snapshot;

extern Oid	sq_engine_schema(void);
extern Snapshot sq_engine_newest_snapshot(void);
extern void sq_engine_check_tablespace(bool partitioned);
extern void sq_engine_begin(SqEngine *engine);
extern void sq_engine_end(SqEngine *engine);
extern void sq_engine_command(const char *command);
extern uint64 sq_engine_exec(SqSql *sql, Datum *values, const char *nulls);
extern uint64 sq_engine_run(SqSql *sql, Datum *values, const char *nulls);
extern uint64 sq_engine_query(SqSql *sql, Datum *values, const char *nulls);
extern Datum sq_engine_value(uint64 row, int column, bool *isnull);
extern char *sq_engine_text(uint64 row, int column);
extern List *sq_engine_oids(SqSql *sql, Datum *values);
extern List *sq_engine_texts(SqSql *sql, Datum *values);
extern bool sq_engine_finds(SqSql *sql, Datum *values);
extern Datum sq_regclass_array(List *oids);
extern void sq_execute_as_user(const char *command);

#endif							/* SQ_SPI_H */
