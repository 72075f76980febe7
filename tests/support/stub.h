/* SPDX-License-Identifier: MIT */
/*
 * stub.h - what the manager starts in the place of a pool, in tests of the manager
 *
 * The manager starts /proc/self/exe as its pool, so that a test of it is also this stub.
 */
#pragma once

/* Its tasks, by their index. */
#define STUB_DONE  0u /* ends at once */
#define STUB_CRASH 1u /* a segmentation fault, on worker 0 */
#define STUB_HANG  2u /* runs for ever, on worker 1 */
#define STUB_QUEUE 3u /* is drained, and not started by the first pool */
#define STUB_WILD  4u /* fills the front of the arena with garbage, and ends */
#define STUB_WRECK 5u /* the same with that of the board, and then STUB_CRASH */
#define STUB_LATE  6u /* is found to hang on worker 1, and ends at last */
#define STUB_KILL  7u /* begins on worker 1, where the kernel's SIGKILL finds it */

/*
 * main() with --pool; returns an exit status. $FORKD_STUB says what kind of pool it is:
 *	die	ends before it says anything
 *	fail	says that it cannot start
 *	once	the second one dies
 *	unloaded the same, as if in its loader
 *	short	the second one cannot start, each of STUB_SHORT tries in another way
 *	refuse	cannot map any client
 *	refuse-others	cannot map any but the first
 *	forget	the second one cannot map the first client that it is told of
 *	stray	says that it has released what was not to be
 *	stuck	does not stop when told
 *	dying	the first one leaves word of a fault and does not end: it reads, and answers nothing
 *	""	none of it
 */
#define STUB_SHORT 6u
/* Number of the manager's questions that the stub has answered. The macros below use other fields
 * of the profile that nothing else writes. */
#define STUB_PINGS(board) ((board)->profile.span_reads)
/* So often it was told of a tenant. */
#define STUB_TOLD(board) ((board)->profile.forks)
/* The weight of a tenant or a client's tenant that it was told last. */
#define STUB_WEIGHT(board) ((board)->profile.span_forks)
int stub_run(void);
