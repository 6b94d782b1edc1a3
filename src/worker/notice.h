/*
 * notice.h
 *		Noticing other people's commands that concern queries which wait.
 */
#ifndef SQ_NOTICE_H
#define SQ_NOTICE_H

#include "streamq.h"

extern void sq_notice_install(void);

#endif							/* SQ_NOTICE_H */
