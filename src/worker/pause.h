/*
 * pause.h
 *		Keeping workers out of the way of other people's DDL.
 */
#ifndef SQ_PAUSE_H
#define SQ_PAUSE_H

#include "streamq.h"

extern void sq_pause_install(void);

#endif							/* SQ_PAUSE_H */
