/*
 * serialized.h
 *		See serialized.c.
 */
#ifndef AGGREGATE_SERIALIZED_H
#define AGGREGATE_SERIALIZED_H

#include "postgres.h"

extern bool sq_serialized_is_known(Oid deserialfn);
extern bool sq_serialized_is_valid(Oid deserialfn, const bytea *state);

#endif							/* AGGREGATE_SERIALIZED_H */
