/* SPDX-License-Identifier: MIT */
#include "daemon/fault.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "common/util.h"
#include "daemon/pool.h"

#define FAULT_STACK 65536u

/* The one of this process: neither a handler nor a hook gets an argument. */
static struct pool *fault_pool;

static void fault_blame(int signo, uint64_t address)
{
	struct worker *w = fault_pool ? worker_self() : NULL;
	struct ledger_fault *fault = w ? &fault_pool->arena->fault : NULL;
	uint32_t nobody = 0;

	if (!fault || !atomic_compare_exchange_strong(&fault->worker, &nobody, w->index + 1))
		return;
	atomic_store(&fault->signo, (uint32_t)signo);
	atomic_store(&fault->address, address);
}

/* True if it was this thread that made the signal: the kernel for what it did, or it for itself, as
 * abort() does. Else it was sent to the process, and comes to whatever thread the kernel picks: an
 * operator's kill(2), systemd's watchdog, and what a task sends to the pool's pid. */
static bool fault_is_own(const siginfo_t *info)
{
	return info->si_code > 0 || (info->si_code == SI_TKILL && info->si_pid == getpid());
}

/* Async-signal-safe: atomics, and the default action again. */
static void fault_on_signal(int signo, siginfo_t *info, void *context)
{
	(void)context;
	if (fault_is_own(info))
		fault_blame(signo, info->si_code > 0 ? (uint64_t)(uintptr_t)info->si_addr : 0);
	signal(signo, SIG_DFL);
	raise(signo);
}

/* A task called exit(): no signal, but somebody is to blame. */
static void fault_on_exit(void)
{
	if (fault_pool && worker_self())
		fault_blame(0, 0);
}

/* In the child of a task that forks: it is no pool, and goes with the one that made it. */
static void fault_on_fork(void)
{
	struct pool *pool = fault_pool;

	fault_pool = NULL;
	if (!pool)
		return;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != pool->pid)
		_exit(EXIT_FAILURE);
	close(pool->channel.fd);
}

void fault_begin(struct pool *pool)
{
	static const int signals[] = { SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGTRAP, SIGSYS };
	struct sigaction action = { .sa_sigaction = fault_on_signal,
				    .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESETHAND };
	sigset_t set;

	fault_pool = pool;
	for (uint32_t i = 0; i < ARRAY_SIZE(signals); i++)
		sigaction(signals[i], &action, NULL);
	atexit(fault_on_exit);
	pthread_atfork(NULL, NULL, fault_on_fork);
	/* The manager decides when this process ends. */
	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGHUP);
	sigaddset(&set, SIGPIPE);
	pthread_sigmask(SIG_BLOCK, &set, NULL);
}

void fault_end(void)
{
	fault_pool = NULL;
}

void *fault_stack_begin(void)
{
	stack_t alt = { .ss_sp = malloc(FAULT_STACK), .ss_size = FAULT_STACK };

	if (alt.ss_sp)
		sigaltstack(&alt, NULL);
	return alt.ss_sp;
}

void fault_stack_end(void *stack)
{
	stack_t alt = { .ss_flags = SS_DISABLE };

	sigaltstack(&alt, NULL);
	free(stack);
}
