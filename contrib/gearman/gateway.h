/* SPDX-License-Identifier: MIT */
/*
 * gateway.h - the state that the threads of forkd-gearman share
 *
 * The main thread connects to forkd, reads which functions there are, and stops the gateway. The
 * threads of connections (gateway_connection.h) serve the jobs. They hold what they use of the
 * state by references.
 *
 * INVARIANTS
 *   I1. A link is closed by the thread that drops its last reference. The gateway holds one
 *       reference to the link that it hands out.
 *   I2. Only the main thread opens a link and replaces the functions.
 *   I3. epoch changes after each change of functions and stopping, so a thread that reads an old
 *       one reads the change later. It decides nothing else, so it is relaxed.
 */
#pragma once

#include <forkd/client.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "contrib/gearman/gateway_options.h"

struct functions;
struct journal;
struct gateway_metrics;
struct gateway_server;

/* The connections to one forkd: one for each job server, so that none waits for the jobs of
 * another. */
struct link {
	fk_client *clients[GATEWAY_SERVERS];
	uint32_t n_clients;
	uint32_t users; /* references; under the lock of the gateway */
};

struct gateway {
	/* constant while connections run */
	const struct gateway_options *options;
	struct journal *journal; /* NULL: none */
	struct gateway_metrics *metrics;
	_Atomic uint32_t epoch; /* I3 */
	pthread_mutex_t lock;
	pthread_cond_t changed; /* link, functions or stopping */
	/* under the lock */
	struct link *link;	     /* NULL: forkd is not there */
	struct functions *functions; /* NULL: as link */
	bool stopping;
	uint32_t settled; /* connections that were tried */
};

int gateway_init(struct gateway *gateway, const struct gateway_options *options);
void gateway_fini(struct gateway *gateway);

/* The main thread: opens a link if there is none. Returns 0 or the error of fk_open(). */
int gateway_connect(struct gateway *gateway);

/* The main thread: drops the link if forkd has gone, and reads the functions again if they have
 * changed. Returns true if there is a link. */
bool gateway_refresh(struct gateway *gateway);

/* The main thread: no connection takes another job. */
void gateway_stop(struct gateway *gateway);

/* Returns a reference to the link, or NULL. */
struct link *gateway_link(struct gateway *gateway);

/* Waits for a link that is not lost. Returns a reference, or NULL: the gateway stops. */
struct link *gateway_wait_link(struct gateway *gateway);

/* True if the forkd of a client ends all jobs because it stops. */
bool gateway_is_stopping(const fk_client *client);

/* True if forkd has closed a link, or stops. */
bool gateway_is_lost(const struct link *link);

/* Reports that a link is lost: it is handed out no more. */
void gateway_lost_link(struct gateway *gateway, const struct link *link);

/* Returns one more reference to a link; NULL is fine. */
struct link *gateway_use_link(struct gateway *gateway, struct link *link);

/* Drops a reference; NULL is fine. */
void gateway_put_link(struct gateway *gateway, struct link *link);

/* Waits for functions. Returns a reference and their epoch, or NULL: the gateway stops. */
struct functions *gateway_wait_functions(struct gateway *gateway, uint32_t *ret_epoch);

/* Drops a reference. */
void gateway_put_functions(struct gateway *gateway, struct functions *functions);

/* Counts a connection that has registered its functions, or cannot reach its server. */
void gateway_settled(struct gateway *gateway);

/* Waits for n connections to settle, for at most ns. */
void gateway_wait_settled(struct gateway *gateway, uint32_t n, uint64_t ns);

/* Sleeps, unless the gateway stops. Returns true if it does. */
bool gateway_sleep(struct gateway *gateway, uint64_t ns);
