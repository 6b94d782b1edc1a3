/*
 * streamq.c
 *		Loading the library.
 *
 * Without preloading, SQL functions and streamq.run() work all the same; what
 * needs shared memory, a launcher and hooks in every backend is set up only
 * while shared_preload_libraries are loaded.
 */
#include "streamq.h"

#include "arrivals/pending.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "progress/shared.h"
#include "worker/notice.h"
#include "worker/pause.h"
#include "worker/worker.h"

PG_MODULE_MAGIC;

extern PGDLLEXPORT void _PG_init(void);

void
_PG_init(void)
{
	sq_settings_define();
	sq_pending_define();
	if (!process_shared_preload_libraries_in_progress)
		return;
	sq_shared_define();
	sq_pause_install();
	sq_notice_install();
	sq_launcher_register();
}
