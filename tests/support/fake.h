/* SPDX-License-Identifier: MIT */
/*
 * fake.h - a daemon that is threads of the test, for libforkclient
 *
 * The fake daemon answers HELLO with real segments, and its workers drain the rings by the rules of
 * shm/wake.h, so both ends of every protocol run in one process, and ThreadSanitizer sees them. Its
 * tasks: add, len, inc work; fail and crash end badly; hold keeps its worker busy until it is let
 * go; drop never ends.
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
	char folder[32];
	char path[64];
	int listen_fd;
	int connections[FAKE_CLIENTS];
	_Atomic uint32_t n_connections;
	uint32_t n_workers;
	uint32_t n_running; /* threads; 0 leaves the words to the test */
	int fds[2];	    /* board, tenant */
	struct board *board;
	struct tenant_segment *tenant;
	_Atomic(struct client_segment *) clients[FAKE_CLIENTS];
	pthread_mutex_t lock; /* the consumer role, of the next four */
	uint64_t heads[FAKE_WORKERS];
	uint32_t n_words;		/* taken off the rings */
	uint32_t pending[FAKE_PENDING]; /* payloads of jobs that came in chains */
	uint32_t n_pending;
	_Atomic uint32_t stop;
	_Atomic uint32_t hold; /* 1: jobs of test:hold stay */
	_Atomic uint32_t held;
	_Atomic uint32_t dispatched;
	pthread_t acceptor;
	pthread_t workers[FAKE_WORKERS];
	pthread_t dispatcher;
	const char *refuse; /* answer HELLO with this text */
	uint32_t n_jobs;
};

extern struct fake fake;

/* n_workers rings and words, and so many threads that serve them, or none. n_jobs: 64. */
void fake_start(uint32_t n_workers, uint32_t n_running);
void fake_stop(void);

/* Board and tenant only, with no daemon. */
void fake_segments(uint32_t n_workers);

/* A socket in a new folder, which accepts no connection. */
void fake_listen(void);

/*
 * Receives the next message of a client that is no ring. A client rings if the fake's threads get
 * no CPU time. Returns as proto_recv() does.
 */
int fake_recv(uint32_t client, union proto_message *ret_message, int flags);

/* Ends all connections. */
void fake_hang_up(void);

/* Lets the jobs of test:hold go, and waits until there are n of them that stay. */
void fake_let_go(void);
void fake_await_held(uint32_t n);

/*
 * Takes a job off any ring, or with ret_payload NULL looks for one. Returns the ring; -1: there is
 * none. And ends a job as the pool would; drop ends none.
 */
int fake_take(uint32_t *ret_payload);
void fake_run(uint32_t payload);

/* Gives a job its outcome, and nothing else. Returns as job_finish() does. */
uint32_t fake_finish(fk_job job, uint32_t outcome);

/* Waits until a thread of this process, whose id is set by then, sleeps in the kernel. */
void fake_await_sleep(const _Atomic uint32_t *tid);

/* These fail the test if they cannot. */
fk_client *must_open(void);
const fk_task *must_find(fk_client *client, const char *name);
/* Opens with one worker, and submits a job that never ends. */
fk_job must_drop(void);

/* A client of the test, which fake_open() opens and fake_close() closes. */
extern fk_client *client;

void fake_open(uint32_t n_workers, uint32_t n_running);
void fake_close(void);
