/*
 * settings.c
 *		The configuration parameters of streamq, and the settings under which a
 *		query's statements are planned and run.
 */
#include "streamq.h"

#include <limits.h>

#include "catalog/namespace.h"
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
							"How often a waiting query looks for new rows where no commit wakes it.",
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
set_until_pop(const char *name, const char *value)
{
	(void) set_config_option(name, value, PGC_USERSET, PGC_S_SESSION,
							 GUC_ACTION_SAVE, true, 0, false);
}

/* the same, unless it has the value: some take long to set */
static void
set_until_other(const char *name, const char *value)
{
	if (strcmp(value, GetConfigOption(name, false, false)) != 0)
		set_until_pop(name, value);
}

/*
 * Lets names be found in pg_catalog only, and constants be written in one way, until
 * sq_settings_pop() with the level returned.
 */
int
sq_settings_push_catalog_path(void)
{
	int			nest_level = NewGUCNestLevel();

	set_until_pop("search_path", "pg_catalog, pg_temp");
	/* constants that are printed and read again have to come out the same */
	set_until_other("DateStyle", "ISO, YMD");
	set_until_other("IntervalStyle", "postgres");
	set_until_other("extra_float_digits", "1");
	return nest_level;
}

/*
 * Has statements planned with indexes, until sq_settings_pop() with the level returned:
 * tables that have grown since they were last analysed look too small for them.
 */
int
sq_settings_push_indexes(void)
{
	int			nest_level = NewGUCNestLevel();

	set_until_other("enable_seqscan", "off");
	return nest_level;
}

/* what the result of a SELECT can depend on */
static const char *const pinned_settings[] = {
	"array_nulls", "bytea_output", "DateStyle", "default_text_search_config",
	"extra_float_digits", "IntervalStyle", "lc_monetary", "lc_numeric", "lc_time",
	"search_path", "TimeZone", "timezone_abbreviations", "xmlbinary", "xmloption",
};

/*
 * The settings in force now, as a list of "name=value", to be stored with a
 * query.
 */
List *
sq_settings_capture(void)
{
	List	   *settings = NIL;

	for (size_t i = 0; i < lengthof(pinned_settings); i++)
		settings = lappend(settings, psprintf("%s=%s", pinned_settings[i],
											  GetConfigOption(pinned_settings[i], false, false)));
	return settings;
}

/*
 * A search_path under which a function of the query finds what it finds elsewhere, too,
 * even if the session that runs the query has temporary tables of such names.
 */
static char *
hide_temporary(char *path)
{
	Oid			schema;
	Oid			toast;

	GetTempNamespaceState(&schema, &toast);
	if (!OidIsValid(schema) || strstr(path, "pg_temp") != NULL)
		return path;
	return psprintf("%s, pg_temp", path[0] == '\0' ? "\"\"" : path);
}

/*
 * Puts a query's settings in force, until sq_settings_pop() with the level
 * returned: whoever runs it, and whatever he has set, gets the same result.
 */
int
sq_settings_push(List *settings)
{
	int			nest_level = NewGUCNestLevel();
	ListCell   *lc;

	foreach(lc, settings)
	{
		char	   *name = pstrdup(lfirst(lc));
		char	   *value = strchr(name, '=');

		if (value == NULL)
			elog(ERROR, "invalid setting \"%s\"", name);
		*value++ = '\0';
		if (strcmp(name, "search_path") == 0)
			value = hide_temporary(value);
		set_until_other(name, value);
	}
	/* see partial.c */
	set_until_pop("enable_partitionwise_aggregate", "off");

	/*
	 * nobody knows how few the groups of a batch are: compiling takes longer
	 * than it saves
	 */
	set_until_pop("jit", "off");
	return nest_level;
}

/*
 * Undoes a push, and whatever functions have set in between: a query's functions
 * must not leave settings to somebody else who runs it.
 */
void
sq_settings_pop(int nest_level)
{
	AtEOXact_GUC(false, nest_level);
}
