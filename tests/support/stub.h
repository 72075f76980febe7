/* SPDX-License-Identifier: MIT */
/*
 * stub.h - the program that the manager starts instead of a pool, in tests of the manager
 *
 * The manager starts /proc/self/exe as its pool, so a test of it is also this stub.
 */
#pragma once

/* Its tasks, by index. */
#define STUB_DONE  0u /* ends at once */
#define STUB_CRASH 1u /* a segmentation fault, on worker 0 */
#define STUB_HANG  2u /* runs forever, on worker 1 */
#define STUB_QUEUE 3u /* is drained, but not started by the first pool */
#define STUB_WILD  4u /* overwrites the start of the arena, and ends */
#define STUB_WRECK 5u /* the same with the board, and then STUB_CRASH */
#define STUB_LATE  6u /* is reported to hang on worker 1, and ends finally */
#define STUB_KILL  7u /* begins on worker 1, and is running when SIGKILL ends the pool */

/*
 * main() with --pool; returns an exit status. $FORKD_STUB selects the kind of pool:
 * 	die ends before it sends a message
 * 	fail reports that it cannot start
 * 	once the second one dies
 * 	unloaded the same, as if in its loader
 * 	short the second one cannot start; each of STUB_SHORT tries fails in another way
 * 	refuse cannot map any client
 * 	refuse-others cannot map any client except the first
 * 	forget the second one cannot map the first client that it receives
 * 	stray reports the release of a client that it must not release
 * 	stuck does not stop when told
 * 	dying the first one stores a fault report and does not end: it reads, but never answers
 * 	"" none of these
 */
#define STUB_SHORT 6u
/* Number of the manager's PINGs that the stub has answered. The macros below use other fields of
 * the profile that nothing else writes. */
#define STUB_PINGS(board) ((board)->profile.span_reads)
/* Number of tenants that it was told of. */
#define STUB_TOLD(board) ((board)->profile.forks)
/* Last weight received for a tenant or for a client's tenant. */
#define STUB_WEIGHT(board) ((board)->profile.span_forks)
int stub_run(void);
