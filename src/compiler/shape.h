/*
 * shape.h
 *		Bringing a query into the shape that the compiler works on.
 */
#ifndef SQ_SHAPE_H
#define SQ_SHAPE_H

#include "streamq.h"
#include "nodes/parsenodes.h"

extern bool sq_shape_aggregates(const Query *query);
extern bool sq_shape_stands_alone(Query *query);
extern void sq_shape_normalise(Query *query);

#endif							/* SQ_SHAPE_H */
