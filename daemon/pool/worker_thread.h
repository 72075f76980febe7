/* SPDX-License-Identifier: MIT */
/* worker_thread.h - the life of a worker's thread */
#ifndef DAEMON_POOL_WORKER_THREAD_H
#define DAEMON_POOL_WORKER_THREAD_H

struct worker;

/* Runs jobs and strands until the pool stops. The worker's thread. */
void worker_loop(struct worker *worker);

#endif
