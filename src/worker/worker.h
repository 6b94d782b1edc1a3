/*
 * worker.h
 *		Background processes: the launcher and its workers.
 */
#ifndef SQ_WORKER_H
#define SQ_WORKER_H

#include "streamq.h"

extern void sq_launcher_register(void);
extern bool sq_worker_may_go_on(int32 query_id);

/* entry points of background workers, looked up by name */
extern PGDLLEXPORT void streamq_launcher_main(Datum arg);
extern PGDLLEXPORT void streamq_worker_main(Datum arg);

#endif							/* SQ_WORKER_H */
