/* SPDX-License-Identifier: MIT */
/*
 * sample.c - samples the tasks that use the CPU, by a timer of CPU time for each worker
 *
 * For forkctl profile. A timer of the CPU clock of the worker's thread sends SAMPLE_SIGNAL. The
 * handler counts a sample for the newest task, as in a crash report (locate.h). A thread that waits
 * for a CPU is not sampled. Code of forkd itself is not counted. Each sample counts once, whatever
 * time has passed since the last one: if a hypervisor takes the CPU away, the thread's clock
 * continues, and one task would be charged for all of that.
 *
 * Threads: see sample.h. The handler runs on the worker, between any two instructions of a task or
 * of the runtime. It never interrupts the handler of the pool's signal, which changes the data that
 * it reads.
 *
 * INVARIANTS
 *   I1. A row of the board belongs to the worker that makes it NAMING, until that worker makes it
 *       NAMED. No handler waits for another: it skips a row that is being named, so two rows may
 *       have the same name.
 */
#include "daemon/core/sample.h"

#include <errno.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/log.h"
#include "common/options.h"
#include "common/relaxed.h"
#include "daemon/core/locate.h"
#include "daemon/core/pool_state.h"
#include "daemon/core/worker_state.h"
#include "shm/backtrace.h"
#include "shm/board.h"
#include "daemon/core/worker.h"

#ifndef sigev_notify_thread_id
#define sigev_notify_thread_id _sigev_un._tid
#endif

/* True if the row is the task's, or was free and is now. */
static bool sample_is(struct board_sample *row, const char *task)
{
	uint32_t state = BOARD_SAMPLE_FREE;

	/* ORDER sample/name [S1]: acquire, the name of a row that is NAMED. */
	if (!atomic_compare_exchange_strong_explicit(&row->state, &state, BOARD_SAMPLE_NAMING,
						     memory_order_acquire, memory_order_acquire))
		return state == BOARD_SAMPLE_NAMED && !strcmp(row->task, task);
	memcpy(row->task, task, sizeof(row->task));
	/* ORDER sample/name [S1]: release, the name before the state. */
	atomic_store_explicit(&row->state, BOARD_SAMPLE_NAMED, memory_order_release);
	return true;
}

static void sample_take(int signo, siginfo_t *info, void *context)
{
	struct worker *w = worker_self();
	char task[sizeof(w->pool->board->samples[0].task)] = "";
	struct backtrace trace = { 0 };
	int saved = errno;

	(void)signo;
	(void)info;
	if (!w)
		return;
	if (!locate_is_own(context)) {
		locate_code(&trace, context);
		locate_task(w, &trace, task, sizeof(task));
	}
	for (uint32_t i = 0; task[0] && i < BOARD_SAMPLES; i++) {
		struct board_sample *row = &w->pool->board->samples[i];

		if (!sample_is(row, task))
			continue;
		/* Relaxed: a counter. */
		add_relaxed(&row->n, 1);
		break;
	}
	errno = saved;
}

void sample_begin(struct worker *w)
{
	uint64_t period = w->pool->options->sample;
	struct sigaction action = {
		.sa_sigaction = sample_take,
		.sa_flags = SA_RESTART | SA_SIGINFO | SA_ONSTACK,
	};
	struct sigevent event = {
		.sigev_notify = SIGEV_THREAD_ID,
		.sigev_signo = SAMPLE_SIGNAL,
		.sigev_notify_thread_id = (pid_t)syscall(SYS_gettid),
	};
	struct itimerspec time = {
		.it_value = clock_to_timespec(period),
		.it_interval = clock_to_timespec(period),
	};
	timer_t timer; /* ends with the process */

	if (!period)
		return;
	sigaddset(&action.sa_mask, w->pool->signal);
	sigaction(SAMPLE_SIGNAL, &action, NULL);
	if (timer_create(CLOCK_THREAD_CPUTIME_ID, &event, &timer) < 0 ||
	    timer_settime(timer, 0, &time, NULL) < 0)
		log_warning("worker %u: tasks are not sampled: %s", w->index, strerror(errno));
}
