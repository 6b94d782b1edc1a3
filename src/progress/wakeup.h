/* stub until the merge */
#ifndef SQ_WAKEUP_H
#define SQ_WAKEUP_H
static inline void
sq_wakeup_committed(const Oid *relids, int n)
{
	(void) relids;
	(void) n;
}
static inline void
sq_wakeup_database_at_commit(void)
{
}
#endif
