/* SPDX-License-Identifier: MIT */
/*
 * gateway_connection.h - a connection to a job server, which carries any number of jobs
 *
 * Each server has two. One has the functions of the tasks, and --jobs places for jobs. The listing
 * connection has the functions "MODULE:", one place, and reports whether the server can be reached.
 * So it answers while all places of the other are taken.
 *
 * A connection has a thread that reads: it receives jobs, starts them and requests more. The
 * finisher waits for the ends of jobs at forkd, and sends the answers (gateway_finisher.h). The
 * enterers wait for the disk of the journal (gateway_enterer.h). So large payloads, answers and
 * entries do not wait for each other, and small answers and requests share a packet of the network.
 *
 * The functions of an open connection do not change: CANT_DO makes version 1.1.20 of the server end
 * the running jobs of a function as if their worker had died. So after a change the reader connects
 * again. The last session stays open, without requests, for the answers of its jobs.
 *
 * INVARIANTS
 *   I1. A session that works is closed only when it has no job and no request without an answer.
 *       The server may assign a job to each request. A session that is left with jobs does not
 *       sleep: the server would wake it in place of another worker. A request ends its sleep.
 *   I2. requests <= n_free: each job that the server may assign has a place.
 *   I3. The server must answer a request. A connection that sleeps requests a job after each time
 *       limit. So one that was cut without an end is detected, and replaced (peer.c, I2). Nothing
 *       is requested before the server has answered once: a server that is silent for long would
 *       assign jobs to all sessions that were tried in vain.
 *   I4. Requests and PACKET_PRE_SLEEP are decided and sent in one hold of sends. After
 *       PACKET_PRE_SLEEP nothing is requested until the server wakes the connection, or the time
 *       limit has passed.
 *   I5. An answer is sent by the session that has received the job. It lives until its last job has
 *       ended.
 *   I6. Locks are taken in the order starts, sends, lock.
 */
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#include "contrib/gearman/gateway_job.h"
#include "contrib/gearman/peer.h"

struct gateway;
struct link;
struct server_name;

#define CONNECTION_ENTERERS 4u /* at most: they wait for the disk, or a network, at the same time */

/* A job server. */
struct gateway_server {
	const struct server_name *address;
	_Atomic uint32_t connected; /* the listing connection is open */
};

/* An open connection. */
struct session {
	struct peer peer; /* The reader receives; sends is held to send. fd -1: it has ended. */
	uint32_t users;	  /* its jobs and the reader; under lock */
};

struct connection {
	/* constant */
	struct gateway *gateway;
	struct gateway_server *server;
	uint32_t client; /* its index in links */
	bool is_listing;
	struct gateway_job *jobs; /* the places */
	uint32_t n_jobs;
	_Atomic uint32_t in_flight; /* jobs that were started; relaxed, but see memory.c */
	pthread_t threads[2 + CONNECTION_ENTERERS];
	uint32_t n_threads;
	/* of the reader */
	uint32_t epoch; /* of the functions of its session */
	uint32_t tries; /* failed sessions in a row */
	bool settled;	/* gateway_settled() was called */
	bool reported;	/* an error was logged */
	/* Each submission holds starts. */
	pthread_mutex_t starts;
	struct link *link;	   /* for submissions; NULL: wait for the next one */
	bool is_closed;		   /* no link follows */
	struct gateway_job *again; /* jobs that wait for a link */
	/* Jobs that forkd has not reported. Relaxed: increases are with the lock starts. */
	_Atomic uint32_t n_running;
	/* Each thread that sends holds sends. */
	pthread_mutex_t sends;
	struct session *session; /* that the reader uses, and sets; or NULL */
	uint32_t n_sent;	 /* answers since the last flush */
	/* under lock */
	pthread_mutex_t lock;
	pthread_cond_t freed, entering;
	struct gateway_job *enter, *enter_last; /* jobs that wait for an enterer, or NULL */
	struct gateway_job *free;		/* places without a job */
	uint32_t n_free;
	uint32_t requests; /* without an answer */
	uint32_t window;   /* requests without an answer at most: grows with each job, as the
			    * window of a TCP connection in slow start (RFC 5681) */
	bool is_new;	   /* the server has not answered yet (I3) */
	bool is_paused;	   /* nothing is requested: the functions have changed */
	bool is_empty;	   /* the server had no job for a request */
	bool is_asleep;	   /* the server wakes the connection when there is a job */
	bool is_done;	   /* the finisher and the enterers are to end */
	uint64_t heard_ns; /* a packet was received, or the first of requests was sent */
};

/* Starts the threads of a connection. They end after gateway_stop(). Returns 0 or a negative errno;
 * connection_join() is needed in any case. */
int connection_start(struct connection *connection, struct gateway *gateway,
		     struct gateway_server *server, uint32_t client, bool is_listing);

/* Waits until the threads have ended; until: of CLOCK_REALTIME. Returns false after that. */
bool connection_join(struct connection *connection, const struct timespec *until);

/* The next ones are for the threads of the connection. */

/* Begins to send. */
void connection_begin(struct connection *connection);

/* Sends the answer of a job, and frees its place. Between begin and flush. */
void connection_answer(struct connection *connection, struct gateway_job *job,
		       enum verdict verdict);

/* Requests jobs for places that are free, and sends everything. Returns 0 or a negative errno: the
 * reader closes the session. */
int connection_flush(struct connection *connection);

/* Starts n jobs; answers those that have ended at once. Those that need another link wait for it.
 * Returns true if there are such. */
bool connection_run(struct connection *connection, struct gateway_job *const *jobs, size_t n);
