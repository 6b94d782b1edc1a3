/*
 * origin.h
 *		Whether a checkpoint belongs to this database.
 */
#ifndef SQ_ORIGIN_H
#define SQ_ORIGIN_H

#include "streamq.h"
#include "utils/uuid.h"

extern void sq_origin_ensure(void);
extern bool sq_origin_is(const pg_uuid_t *origin);

#endif							/* SQ_ORIGIN_H */
