/*
 * probe.h
 *		Finding calls that fail whatever the row.
 */
#ifndef SQ_PROBE_H
#define SQ_PROBE_H

#include "streamq.h"
#include "nodes/parsenodes.h"

extern void sq_probe_times(const Query *query);

#endif							/* SQ_PROBE_H */
