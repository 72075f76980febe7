/* SPDX-License-Identifier: MIT */
#include "daemon/pool/worker_signal.h"

#include <errno.h>
#include <signal.h>

#include "daemon/core/pool_state.h"
#include "daemon/core/sample.h"
#include "daemon/core/worker.h"
#include "daemon/engine/slow_path.h"
#include "daemon/jobs/hang_detector.h"
#include "daemon/pool/slice_signal.h"

static void worker_on_signal(int signo, siginfo_t *info, void *context)
{
	struct worker *w = worker_self();
	int saved = errno;

	(void)signo;
	(void)context;
	if (w) {
		strand_publish_from_signal(w);
		hang_answer(w);
		if (info->si_code == SI_TIMER || slice_timer_is_due(w))
			slice_timer_ring(w);
	}
	errno = saved;
}

bool worker_catch_signal(struct pool *pool, int signo)
{
	struct sigaction action = {
		.sa_sigaction = worker_on_signal,
		/* Not on the stack of a fiber, which is small. */
		.sa_flags = SA_RESTART | SA_SIGINFO | SA_ONSTACK,
	};
	bool caught;

	sigaddset(&action.sa_mask, SAMPLE_SIGNAL);
	caught = sigaction(signo, &action, NULL) == 0;
	pool->signal = caught ? signo : 0;
	return caught;
}

bool worker_catch_free_signal(struct pool *pool, const sigset_t *waited)
{
	struct sigaction now;

	for (int signo = SIGRTMIN + WORKER_SIGNALS_LEFT; signo <= SIGRTMAX; signo++)
		if (!sigismember(waited, signo) && sigaction(signo, NULL, &now) == 0 &&
		    !(now.sa_flags & SA_SIGINFO) && now.sa_handler == SIG_DFL &&
		    worker_catch_signal(pool, signo))
			return true;
	return false;
}

void worker_release_signal(struct pool *pool)
{
	const struct sigaction usual = { .sa_handler = SIG_DFL };
	struct sigaction now;

	if (pool->signal && sigaction(pool->signal, NULL, &now) == 0 && now.sa_flags & SA_SIGINFO &&
	    now.sa_sigaction == worker_on_signal)
		(void)sigaction(pool->signal, &usual, NULL);
	pool->signal = 0;
}

void worker_signal_begin(struct pool *pool)
{
	sigset_t set;

	if (!pool->signal)
		return;
	sigemptyset(&set);
	sigaddset(&set, pool->signal);
	(void)pthread_sigmask(SIG_UNBLOCK, &set, NULL);
}
