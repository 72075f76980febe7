/* SPDX-License-Identifier: MIT */
/* stall.c - tasks that stop the whole pool */
#include <dirent.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <forkd/task.h>

#include "tests/support/modules/maps.h"

/* Stays 1; volatile, so that the compiler does not know it. */
static volatile int64_t on = 1;

/* Returns n; -1 if the pool may not do that. */
FK_LEAF_TASK(int64_t, stop, (int64_t, n))
{
	for (int64_t i = 0; on && i < n; i++)
		if (kill(getpid(), SIGSTOP) < 0)
			return -1;
	return n;
}

/* Returns ms; -1 if there is no such timer. */
FK_LEAF_TASK(int64_t, stop_later, (int64_t, ms))
{
	struct sigevent event = { .sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGSTOP };
	const struct itimerspec once = { .it_value = { .tv_nsec = ms * 1000000 } };
	timer_t timer;

	if (timer_create(CLOCK_MONOTONIC, &event, &timer) < 0 ||
	    timer_settime(timer, 0, &once, NULL) < 0)
		return -1;
	return ms;
}

static void stay(int signo)
{
	(void)signo;
	for (;;)
		(void)poll(NULL, 0, -1);
}

/* All threads of the pool sleep forever, this one in the task. The signal that the manager sends
 * wakes none of them. */
FK_LEAF_TASK(int64_t, doze, (int64_t, ignored))
{
	struct sigaction action = { .sa_handler = stay };
	DIR *dir = opendir("/proc/self/task");
	struct dirent *e;

	if (!dir || sigaction(SIGUSR2, &action, NULL) < 0 || signal(SIGURG, SIG_IGN) == SIG_ERR)
		return -1;
	while ((e = readdir(dir)))
		if (atoi(e->d_name) > 0 && atoi(e->d_name) != gettid())
			(void)syscall(SYS_tgkill, getpid(), atoi(e->d_name), SIGUSR2);
	(void)closedir(dir);
	stay(0);
	return 0;
}

FK_EXPORT(doze, 0, "All threads of the pool sleep for ever, and SIGURG wakes none")

/* Clears words of the board 300 ms later, when all threads sleep (0 is BUSY). words: the first;
 * stride: bytes to the next; n: their number. */
struct hush {
	_Atomic uint32_t *words;
	int64_t stride, n;
};

static void *hush_later(void *arg)
{
	struct hush *hush = arg;

	(void)poll(NULL, 0, 300);
	for (int64_t i = 0; i < hush->n; i++)
		hush->words[i * hush->stride / 4] = 0;
	free(hush);
	return NULL;
}

FK_LEAF_TASK(int64_t, hush, (int64_t, from, int64_t, stride, int64_t, n))
{
	struct hush *hush = calloc(1, sizeof(*hush));
	struct maps_range board;
	pthread_t thread;

	if (!hush || !maps_find("forkd-board", &board, 1))
		return -1;
	*hush = (struct hush){ (void *)(board.from + (uintptr_t)from), stride, n };
	return -pthread_create(&thread, NULL, hush_later, hush);
}

FK_EXPORT(hush, 0, "Clears words of the board at a distance in bytes, after 300 ms; 0")
FK_EXPORT(stop_later, 0, "A timer stops the pool by SIGSTOP, once; ms")
FK_EXPORT(stop, 0, "Stops the pool by SIGSTOP n times; n")
FK_MODULE(stall, "Tasks that keep the pool from running")
