/*
 * debug_point.h
 *		Points at which a test build can fail, crash or wait, rules that it can
 *		switch off, and what it counts.  In a release build all of it vanishes.
 */
#ifndef SQ_DEBUG_POINT_H
#define SQ_DEBUG_POINT_H

#include "streamq.h"

/* rules of reading that a test can switch off, to show that it notices */
#define SQ_RULE_OWN_XID			1	/* own xids belong into an offset */
#define SQ_RULE_SUBXIDS			2	/* overflowed snapshots are expanded */
#define SQ_RULE_END				4	/* the end of a range is tested, not only
									 * its start */

/* what a test build counts, backend by backend */
typedef enum SqDebugCount
{
	SQ_COUNT_COMPILED,			/* queries */
	SQ_COUNT_PLANNED,			/* statements of batches */
	SQ_NCOUNTS
} SqDebugCount;

#ifdef STREAMQ_TEST_HOOKS
extern void sq_debug_point(const char *point);
extern void sq_debug_count(SqDebugCount what);
extern bool sq_debug_rule(int rule);
extern int	sq_debug_runs_max(int limit);
extern void sq_debug_define(void);
#else
#define sq_debug_point(point) ((void) 0)
#define sq_debug_count(what) ((void) 0)
#define sq_debug_rule(rule) (true)
#define sq_debug_runs_max(limit) (limit)
#define sq_debug_define() ((void) 0)
#endif

#endif							/* SQ_DEBUG_POINT_H */
