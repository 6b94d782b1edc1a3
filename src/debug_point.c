/*
 * debug_point.c
 *		Points at which a test build can fail, crash or wait.
 *
 * Compiled in only with STREAMQ_TEST_HOOKS.  The setting streamq.debug_point
 * holds "<point>:<action>"; the actions are
 *
 *		error		raises an error
 *		serialize	raises a serialization failure, once
 *		crash		SIGKILL of the own process
 *		wait		takes and gives back advisory lock 7777, so that whoever holds
 *					it parks the process here
 */
#include "debug_point.h"

#ifdef STREAMQ_TEST_HOOKS

#include <limits.h>
#include <signal.h>
#include <unistd.h>

#include "fmgr.h"
#include "utils/fmgrprotos.h"
#include "utils/guc.h"

static char *debug_point = NULL;
static int	debug_rules_off = 0;
static int	debug_runs_max = 0;
static bool serialize_done = false;
static int	counts[SQ_NCOUNTS];

void
sq_debug_define(void)
{
	DefineCustomStringVariable("streamq.debug_point",
							   "Point of a batch and what happens there.",
							   NULL, &debug_point, "", PGC_SUSET, 0,
							   NULL, NULL, NULL);
	DefineCustomIntVariable("streamq.debug_rules_off",
							"Rules of exact reading that are switched off.",
							NULL, &debug_rules_off, 0, 0, 7, PGC_SUSET, 0,
							NULL, NULL, NULL);
	DefineCustomIntVariable("streamq.debug_compiled",
							"How many queries this backend has compiled for batches.",
							NULL, &counts[SQ_COUNT_COMPILED], 0, 0, INT_MAX, PGC_SUSET, 0,
							NULL, NULL, NULL);
	DefineCustomIntVariable("streamq.debug_planned",
							"How many statements this backend has planned for batches.",
							NULL, &counts[SQ_COUNT_PLANNED], 0, 0, INT_MAX, PGC_SUSET, 0,
							NULL, NULL, NULL);
	DefineCustomIntVariable("streamq.debug_runs_max",
							"After how many runs of blocks arrival maps are written early.",
							"0 means as many as ever.",
							&debug_runs_max, 0, 0, INT_MAX, PGC_SUSET, 0,
							NULL, NULL, NULL);
}

/* counts, for SHOW to tell */
void
sq_debug_count(SqDebugCount what)
{
	counts[what]++;
}

/* true if the rule is in force */
bool
sq_debug_rule(int rule)
{
	return (debug_rules_off & rule) == 0;
}

/* the limit that a test has set, or else the one given */
int
sq_debug_runs_max(int limit)
{
	return debug_runs_max > 0 ? debug_runs_max : limit;
}

void
sq_debug_point(const char *point)
{
	size_t		len = strlen(point);
	const char *action;

	if (debug_point == NULL || strncmp(debug_point, point, len) != 0 ||
		debug_point[len] != ':')
		return;
	action = debug_point + len + 1;

	if (strcmp(action, "crash") == 0)
		kill(getpid(), SIGKILL);
	else if (strcmp(action, "error") == 0)
		ereport(ERROR,
				(errcode(ERRCODE_INTERNAL_ERROR),
				 errmsg("debug point \"%s\"", point)));
	else if (strcmp(action, "serialize") == 0)
	{
		if (serialize_done)
			return;
		serialize_done = true;
		ereport(ERROR,
				(errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
				 errmsg("debug point \"%s\"", point)));
	}
	else if (strcmp(action, "wait") == 0)
	{
		DirectFunctionCall1(pg_advisory_lock_int8, Int64GetDatum(7777));
		DirectFunctionCall1(pg_advisory_unlock_int8, Int64GetDatum(7777));
	}
}

#endif							/* STREAMQ_TEST_HOOKS */
