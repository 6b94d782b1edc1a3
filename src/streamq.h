/*
 * streamq.h
 *		What every file of streamq shares: the name of the extension's schemas,
 *		the settings, and a mark for arguments that an interface imposes.
 *
 * Layers and folders are described in src/README.md.
 */
#ifndef STREAMQ_H
#define STREAMQ_H

#include "postgres.h"

#include "nodes/pg_list.h"

#define SQ_SCHEMA "streamq"
#define SQ_QUERY_SCHEMA "streamq_query"
#define SQ_STATE_SCHEMA "streamq_state"

/* of tables whose rows are updated again and again: percent of a page first filled */
#define SQ_FILLFACTOR 85

/* an argument or variable that an interface asks for and we do not need */
#define SQ_UNUSED(x) ((void) (x))

/* settings.c */
extern int	sq_poll_interval_ms;
extern int	sq_max_workers;
extern int	sq_retry_delay_max_ms;
extern int	sq_max_retries;

extern void sq_settings_define(void);
extern List *sq_settings_capture(void);
extern int	sq_settings_push_catalog_path(void);
extern int	sq_settings_push_indexes(void);
extern int	sq_settings_push(List *settings);
extern void sq_settings_pop(int nest_level);

#endif							/* STREAMQ_H */
