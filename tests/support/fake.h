/* SPDX-License-Identifier: MIT */
/*
 * fake.h - a fake daemon made of threads of the test, for libforkclient
 *
 * The fake daemon answers HELLO with real segments, and its workers drain the rings by the rules of
 * shm/wake.h. So both ends of every protocol run in one process, and ThreadSanitizer sees them. Its
 * tasks: add, len and inc work; fail and crash fail; hold keeps its worker busy until the test
 * releases it; drop never ends.
 *
 * With a local pool in its place (tests/support/local.h), crash does nothing. Its workers run. If
 * n_running is 0, each job waits in its task until the test runs it, and so does a job of drop in
 * any case.
 */
#pragma once

#include <pthread.h>
#include <stdint.h>

#include "client/lib/client.h"

#define FAKE_CLIENTS 4u
#define FAKE_WORKERS 4u
#define FAKE_PENDING 4096u

union proto_message;

struct fake {
	char directory[32];
	char path[64];
	int listen_fd;
	int connections[FAKE_CLIENTS];
	_Atomic uint32_t n_connections;
	uint32_t n_workers;
	uint32_t n_running; /* threads; with 0 the test runs the jobs */
	int fds[2];	    /* of board and tenant */
	struct board *board;
	struct tenant_segment *tenant;
	_Atomic(struct client_segment *) clients[FAKE_CLIENTS];
	pthread_mutex_t lock; /* protects the consumer role, the next three fields */
	uint64_t heads[FAKE_WORKERS];
	uint32_t pending[FAKE_PENDING]; /* payloads of jobs that arrived in chains */
	uint32_t n_pending;
	_Atomic uint32_t stop;
	_Atomic uint32_t hold; /* 1: jobs of test:hold keep running */
	_Atomic uint32_t held;
	_Atomic uint32_t dispatched;
	pthread_t acceptor;
	pthread_t workers[FAKE_WORKERS];
	pthread_t dispatcher;
	const char *refuse; /* answer HELLO with this error text */
	uint32_t n_jobs;
};

extern struct fake fake;

/* Starts n_workers rings and words, served by n_running threads, or by none. n_jobs: 64. */
void fake_start(uint32_t n_workers, uint32_t n_running);
void fake_stop(void);

/* Creates board and tenant only, without a daemon. */
void fake_segments(uint32_t n_workers);

/* Creates a socket in a new directory; it accepts no connection. */
void fake_listen(void);

/* Receives a client's next message that is not a ring request. A client sends those if the fake's
 * threads get no CPU time. Returns as proto_recv() does. */
int fake_recv(uint32_t client, union proto_message *ret_message, int flags);

/* Closes all connections. */
void fake_hang_up(void);

/* Checks that the daemon has the end of a client's connection. */
void fake_see_close(uint32_t client);

/* fake_let_go() releases the jobs of test:hold. fake_await_held() waits until n of them are
 * held. */
void fake_let_go(void);
void fake_await_held(uint32_t n);

/* fake_take() takes a job off any ring, or only looks for one if ret_payload is NULL. Returns the
 * ring, or -1 if there is no job. fake_run() ends a job as the pool does; it never ends a job of
 * drop. */
int fake_take(uint32_t *ret_payload);
void fake_run(uint32_t payload);

/* Gives a job this outcome as the pool does. */
void fake_end(fk_job job, uint32_t outcome);

/* Waits until the pool has begun a job of drop, or any job if n_running is 0. */
void fake_await_begun(fk_job job);

/* Returns the task of this name on the board. */
struct board_task *fake_task(const char *name);

/* Returns the error of a buffer outside of the heap that is not copied, and does not start at a
 * multiple of 8 bytes: a local job may refer to all other memory. */
int fake_outside(void);

/* Stores the outcome of a job and does nothing else, as a pool that dies then. Returns as
 * job_finish() does. */
uint32_t fake_finish(fk_job job, uint32_t outcome);

/* Waits until *tid is set and that thread of this process sleeps in the kernel. */
void fake_await_sleep(const _Atomic uint32_t *tid);

/* These functions fail the test on error. */
fk_client *must_open(void);
const fk_task *must_find(fk_client *client, const char *name);
/* Opens with one worker and submits a job that never ends. */
fk_job must_drop(void);

/* The client of the test; fake_open() opens it and fake_close() closes it. */
extern fk_client *client;

void fake_open(uint32_t n_workers, uint32_t n_running);
void fake_close(void);
