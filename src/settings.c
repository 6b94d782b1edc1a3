/*
 * settings.c
 *		The configuration parameters of streamq, and the settings under which a
 *		query's statements are planned and run.
 */
#include "streamq.h"

#include <limits.h>

#include "debug_point.h"
#include "miscadmin.h"
#include "utils/guc.h"

#define POLL_INTERVAL_DEFAULT_MS	100
#define MAX_WORKERS_DEFAULT			4
#define MAX_WORKERS_LIMIT			64
#define RETRY_DELAY_MAX_DEFAULT_MS	60000
#define MAX_RETRIES_DEFAULT			8

int			sq_poll_interval_ms = POLL_INTERVAL_DEFAULT_MS;
int			sq_max_workers = MAX_WORKERS_DEFAULT;
int			sq_retry_delay_max_ms = RETRY_DELAY_MAX_DEFAULT_MS;
int			sq_max_retries = MAX_RETRIES_DEFAULT;

void
sq_settings_define(void)
{
	DefineCustomIntVariable("streamq.max_retries",
							"How often a failing query is tried again before it is given up.",
							"-1 means no limit.",
							&sq_max_retries, MAX_RETRIES_DEFAULT, -1, INT_MAX,
							PGC_SIGHUP, 0, NULL, NULL, NULL);
	DefineCustomIntVariable("streamq.max_workers",
							"Number of background workers that run streaming queries.",
							"They are taken from max_worker_processes.",
							&sq_max_workers, MAX_WORKERS_DEFAULT, 1, MAX_WORKERS_LIMIT,
							process_shared_preload_libraries_in_progress ?
							PGC_POSTMASTER : PGC_SIGHUP,
							0, NULL, NULL, NULL);
	DefineCustomIntVariable("streamq.poll_interval",
							"How often a waiting query looks for new rows.",
							NULL,
							&sq_poll_interval_ms, POLL_INTERVAL_DEFAULT_MS, 1, INT_MAX / 1000,
							PGC_SIGHUP, GUC_UNIT_MS, NULL, NULL, NULL);
	DefineCustomIntVariable("streamq.retry_delay_max",
							"Longest pause before a failing query is tried again.",
							"The first pause is short, each further one twice as long.",
							&sq_retry_delay_max_ms, RETRY_DELAY_MAX_DEFAULT_MS, 1, INT_MAX / 1000,
							PGC_SIGHUP, GUC_UNIT_MS, NULL, NULL, NULL);
	sq_debug_define();
	MarkGUCPrefixReserved("streamq");
}

static void
set_local(const char *name, const char *value)
{
	(void) set_config_option(name, value, PGC_USERSET, PGC_S_SESSION,
							 GUC_ACTION_SAVE, true, 0, false);
}

/*
 * Puts a query's own settings in force, until sq_settings_pop() with the level
 * returned.  What a SELECT means depends on search_path (in the functions that
 * it calls) and TimeZone; the rest fixes how constants look when statements
 * are shown.
 */
int
sq_settings_push(const char *search_path, const char *time_zone)
{
	int			nest_level = NewGUCNestLevel();

	set_local("search_path", search_path);
	set_local("TimeZone", time_zone);
	set_local("DateStyle", "ISO, YMD");
	set_local("IntervalStyle", "postgres");
	set_local("extra_float_digits", "3");
	return nest_level;
}

void
sq_settings_pop(int nest_level)
{
	AtEOXact_GUC(true, nest_level);
}
