/* SPDX-License-Identifier: MIT */
#include "daemon/core/bell.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "common/log.h"
#include "common/relaxed.h"
#include "common/util.h"
#include "common/valgrind.h"
#include "shm/futex.h"

/* Constant once the pool has other threads. */
static bool bell_is_alone;

void bell_begin(void)
{
	/* valgrind has no futex_waitv, and warns of it. */
	int r = on_valgrind() ? -ENOSYS : futex_can_wait_two();

	bell_is_alone = r < 0;
	if (r < 0)
		log_warning("futex_waitv: %s: idle workers and the I/O of fibers poll every %u ms: "
			    "use Linux 5.16 or later and a seccomp filter that allows futex_waitv",
			    strerror(-r), (unsigned int)(BELL_TIMED_SLEEP / NSEC_PER_MSEC));
}

void bell_wait(const _Atomic uint32_t *word, uint32_t value, const _Atomic uint32_t *bell,
	       uint32_t heard, uint64_t deadline_ns)
{
	int r = -ENOSYS;

	if (!bell_is_alone)
		r = futex_wait_two(bell, heard, word, value, deadline_ns);
	/* Otherwise, as after ENOMEM, the thread has not slept; sleep here, so that callers do not
	 * spin. */
	if (r && r != -EAGAIN && r != -EINTR && r != -ETIMEDOUT) {
		uint64_t end = clock_ns() + BELL_TIMED_SLEEP;

		(void)futex_wait(word, value, deadline_ns ? min(deadline_ns, end) : end);
	}
}

void bell_ring(const _Atomic uint32_t *word, _Atomic uint32_t *bell)
{
	/* Relaxed: after the caller's fence. The kernel compares the value for the sleeping
	 * thread. */
	(void)add_relaxed(bell, 1);
	(void)futex_wake(bell, INT32_MAX);
	if (bell_is_alone)
		(void)futex_wake(word, INT32_MAX);
}
