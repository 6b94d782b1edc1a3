/*
 * sanitizer_first.c
 *		Has the address sanitizer start before all libraries of a program.
 *
 * A server that was not built for it loads the sanitizer by LD_PRELOAD, and this library
 * with it (scripts/test --sanitize).  Otherwise it starts at the first allocation, which
 * in PostgreSQL is in the constructor of libgpg-error, within bindtextdomain(): that
 * leaves a lock of glibc in disorder, and the server waits for it for ever.  Linked with
 * -z initfirst.
 */
#include <stdlib.h>

static void *volatile allocated;

__attribute__((constructor))
static void
allocate_first(void)
{
	allocated = malloc(1);
	free(allocated);
}
