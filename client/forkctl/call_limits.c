/* SPDX-License-Identifier: MIT */
/*
 * call_limits.c - time limits and interrupts of a call
 *
 * SIGINT and SIGTERM are blocked, and a thread waits for them. The first signal cancels the running
 * job, and the command reports its outcome as usual. The second signal ends the program.
 *
 * Threads: the command's thread. The thread that waits for signals is never joined: it ends with
 * the process, so the client must not be closed before forkctl_interruptible(0).
 *
 * INVARIANTS
 *   I1. An interrupt cancels the current job, or else the next one. forkctl_interruptible() stores
 *       the job, then checks for an interrupt. The thread stores the interrupt, then checks for a
 *       job. So at least one of them sees the other. The lock prevents the release of the job
 *       while it is being cancelled.
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include "client/forkctl/common.h"

static struct {
	pthread_mutex_t lock;
	fk_client *client;
	fk_job job; /* 0 for none */
	int interrupted;
} limits = { .lock = PTHREAD_MUTEX_INITIALIZER };

void forkctl_cancel(fk_client *client, fk_job job)
{
	const struct timespec soon = { .tv_nsec = 1000000 };

	/* The socket is full until forkd has read a message. */
	while (fk_cancel(client, job) == -FK_E_REQUESTS_FULL)
		(void)nanosleep(&soon, NULL);
}

static void *limits_wait(void *set)
{
	int signo;

	while (sigwait(set, &signo) == 0) {
		pthread_mutex_lock(&limits.lock);
		if (limits.interrupted)
			_exit(128 + signo);
		limits.interrupted = 1;
		if (limits.job)
			forkctl_cancel(limits.client, limits.job);
		pthread_mutex_unlock(&limits.lock);
	}
	return NULL;
}

void forkctl_catch_interrupts(fk_client *client)
{
	static sigset_t set;
	pthread_t thread;

	limits.client = client;
	(void)sigemptyset(&set);
	(void)sigaddset(&set, SIGINT);
	(void)sigaddset(&set, SIGTERM);
	(void)pthread_sigmask(SIG_BLOCK, &set, NULL);
	/* Without the thread the signals end the program, as by default. */
	if (pthread_create(&thread, NULL, limits_wait, &set))
		(void)pthread_sigmask(SIG_UNBLOCK, &set, NULL);
	else
		(void)pthread_detach(thread);
}

int forkctl_interrupted(void)
{
	int interrupted;

	pthread_mutex_lock(&limits.lock);
	interrupted = limits.interrupted;
	pthread_mutex_unlock(&limits.lock);
	return interrupted;
}

void forkctl_interruptible(fk_job job)
{
	pthread_mutex_lock(&limits.lock);
	limits.job = job;
	if (job && limits.interrupted)
		forkctl_cancel(limits.client, job);
	pthread_mutex_unlock(&limits.lock);
}
