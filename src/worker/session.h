/*
 * session.h
 *		The session of a worker: connecting as an owner, and transactions.
 */
#ifndef SQ_SESSION_H
#define SQ_SESSION_H

#include "streamq.h"

extern void sq_session_connect(Oid dbid, Oid owner, bool owner_can_login);
extern void sq_session_begin(void);
extern void sq_session_commit(void);
extern void sq_session_abort(void);

#endif							/* SQ_SESSION_H */
