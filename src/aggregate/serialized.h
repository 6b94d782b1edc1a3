/*
 * serialized.h
 *		See serialized.c.
 */
#ifndef SQ_SERIALIZED_H
#define SQ_SERIALIZED_H

#include "postgres.h"

extern bool sq_serialized_is_known(Oid deserialfn);
extern bool sq_serialized_is_valid(Oid deserialfn, const bytea *state);

#endif							/* SQ_SERIALIZED_H */
