/* SPDX-License-Identifier: MIT */
/*
 * io_work.h - a thread that writes to many pipes, and threads that read in epoll loops
 *
 * The writer is a separate thread, with the same code for each way to read. It writes messages of
 * IO_MESSAGE bytes, to each pipe in turn ("rounds") or to random pipes ("random"). At the end it
 * closes all pipes. It blocks only if a pipe is full.
 */
#pragma once

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/clock.h"

#define IO_MESSAGE 64u

struct io_pipe {
	int ends[2];
	uint64_t messages; /* messages read */
	uint64_t sum;
};

struct io_work {
	struct io_pipe *pipes;
	uint64_t n, messages;
	bool random;
	uint64_t start_ns;
	uint64_t sent; /* the sum of their contents */
	pthread_t writer;
};

/* Makes the pipes. Returns 0 or a negative errno. */
static inline int io_begin(struct io_work *work, uint64_t n, uint64_t messages, bool random)
{
	*work = (struct io_work){ .n = n, .messages = messages, .random = random };
	work->pipes = calloc(n, sizeof(*work->pipes));
	if (!work->pipes)
		return -ENOMEM;
	for (uint64_t i = 0; i < n; i++)
		if (pipe(work->pipes[i].ends) < 0)
			return -errno;
	return 0;
}

static inline void *io_writer(void *arg)
{
	struct io_work *work = arg;
	uint64_t message[IO_MESSAGE / 8] = { 0 }, random = 88172645463325252;
	cpu_set_t all;

	(void)pthread_setname_np(pthread_self(), "writer");
	/* The calling worker is bound to one CPU. */
	memset(&all, 0xff, sizeof(all));
	(void)sched_setaffinity(0, sizeof(all), &all);
	for (uint64_t i = 0; i < work->messages; i++) {
		uint64_t to = i % work->n;

		if (work->random) {
			random ^= random << 13;
			random ^= random >> 7;
			random ^= random << 17;
			to = random % work->n;
		}
		message[0] = i * (to + 1);
		work->sent += message[0];
		if (write(work->pipes[to].ends[1], message, sizeof(message)) != sizeof(message))
			break;
	}
	for (uint64_t i = 0; i < work->n; i++)
		(void)close(work->pipes[i].ends[1]);
	return NULL;
}

/* Call it when all readers are ready. Returns 0 or a negative errno. */
static inline int io_write(struct io_work *work)
{
	work->start_ns = clock_ns();
	return -pthread_create(&work->writer, NULL, io_writer, work);
}

/* Call it when all have read to the end. Returns the time in ns, or 0 if data is missing. */
static inline uint64_t io_end(struct io_work *work)
{
	uint64_t ns = clock_ns() - work->start_ns, messages = 0, sum = 0;

	pthread_join(work->writer, NULL);
	for (uint64_t i = 0; i < work->n; i++) {
		(void)close(work->pipes[i].ends[0]);
		messages += work->pipes[i].messages;
		sum += work->pipes[i].sum;
	}
	free(work->pipes);
	return messages == work->messages && sum == work->sent ? ns : 0;
}
