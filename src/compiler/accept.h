/*
 * accept.h
 *		What streams, and why not.
 */
#ifndef SQ_ACCEPT_H
#define SQ_ACCEPT_H

#include "streamq.h"
#include "nodes/parsenodes.h"

extern Query *sq_accept(Query *query, const char *output_mode);

#endif							/* SQ_ACCEPT_H */
