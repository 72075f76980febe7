/* SPDX-License-Identifier: MIT */
/* pool_process.h - the pool's process as the manager sees it */
#pragma once

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

#include <sys/types.h>

#include "common/log.h"
#include "daemon/manager/fdstore.h"
#include "daemon/manager/gate.h"
#include "daemon/manager/loop.h"
#include "daemon/manager/pool_watchdog.h"

struct socket_closer;
struct options;
struct pool_process;
struct pool_process_message;
struct proto_pool;
struct runas;

#define POOL_PROCESS_ABANDONED 8u /* pools that do not end although they were killed, at most */

enum pool_process_state {
	POOL_PROCESS_DOWN,     /* there is no process, or none but abandoned ones */
	POOL_PROCESS_STARTING, /* until PROTO_POOL_READY */
	POOL_PROCESS_READY,
};

/* Something was short: a later try to start a pool may work. */
#define POOL_PROCESS_LATER 1

/* How a pool ended. */
struct pool_process_end {
	pid_t pid;
	uint32_t signo; /* that ended it, 0 if it exited */
	int status;	/* of its exit */
	bool was_ready;
	bool stopped;	   /* it had said PROTO_POOL_STOPPED */
	bool hung;	   /* it was killed because it did not answer: pool_watchdog.h */
	bool abandoned;	   /* it was killed and has not ended: pool_process.c, I7 */
	uint64_t lived_ns; /* since it was ready */
	/* of PROTO_POOL_FAILED, or what is known of one that had no say; else 0 and empty */
	int failed; /* POOL_PROCESS_LATER or a negative errno */
	char failed_text[224];
};

/* What the manager is told. None is called from within a pool_process function of the manager's. */
struct pool_process_events {
	void (*ready)(struct pool_process *pool);
	/* text: empty, or why the client cannot be served */
	void (*attached)(struct pool_process *pool, uint32_t client, uint32_t generation,
			 const char *text);
	void (*released)(struct pool_process *pool, uint32_t client, uint32_t generation);
	void (*tenant_released)(struct pool_process *pool, uint32_t tenant);
	void (*asks_cpus)(struct pool_process *pool);
	/* pool->heard has grown */
	void (*heard)(struct pool_process *pool);
	/* text: empty, or why it does not trace */
	void (*traced)(struct pool_process *pool, const char *text);
	/* Its answer to the last pool_process_load(). error: 0, or a negative errno and a line that
	 * says why it has loaded no module */
	void (*loaded)(struct pool_process *pool, int error, const char *text);
	void (*died)(struct pool_process *pool, const struct pool_process_end *end);
};

struct pool_process {
	struct loop *loop;
	struct socket_closer *closer;
	struct store *store;
	const struct pool_process_events *events;
	char **argv;
	const struct runas *runas; /* the user that each process becomes; NULL: the manager's */
	enum pool_process_state state;
	pid_t pid;
	int pidfd;     /* or, where there are none, the channel again */
	uint32_t ends; /* events by which that shows the end */
	int channel;
	int fds[2];    /* board and arena; borrowed */
	int spares[3]; /* for the next start; one while there is a process */
	bool stopped;
	bool hung;
	bool killed; /* by pool_process_kill(): limit is the time until its end */
	pid_t abandoned[POOL_PROCESS_ABANDONED];
	uint32_t n_abandoned;
	struct log_limit waits; /* a line: there are POOL_PROCESS_ABANDONED */
	uint64_t ready_ns;
	uint64_t modules;    /* which files it has loaded: struct modules, version */
	uint64_t joinable;   /* those of them that can join a pool that runs */
	uint32_t n_left_out; /* of them, that could not be loaded whole */
	uint32_t n_loads;    /* pool_process_load(): that it has not answered */
	uint64_t asked;	     /* PINGs so far, of all pools */
	uint64_t heard;	     /* up to which it has answered, or has died, which is as good */
	int failed;
	char failed_text[224];
	struct loop_source process;
	struct loop_source incoming;
	struct loop_source outgoing;
	struct loop_source limit;
	struct fdstore_put stored;
	struct gate gate;
	struct watchdog watchdog;
	struct pool_process_message *first; /* waiting to be sent */
	struct pool_process_message **last;
};

/* closer: gets the channel of each pool that has ended. store: it has the pidfd of each that runs,
 * as FDSTORE_POOL. Returns 0 or -ENOMEM. After it, pool_process_fini() may be called. */
int pool_process_init(struct pool_process *pool, struct socket_closer *closer, struct store *store,
		      const struct options *options, const struct pool_process_events *events);
/* A setting has changed: the next process gets these options. Returns 0 or -ENOMEM. */
int pool_process_set_options(struct pool_process *pool, const struct options *options);
/* Kills and reaps the process, if there is one. */
void pool_process_fini(struct pool_process *pool);

/*
 * Starts the process and sends it PROTO_POOL_START; it must be DOWN.
 * board_fd, arena_fd: borrowed until it has died. Returns 0; or, with a line in failed_text,
 * POOL_PROCESS_LATER or a negative errno.
 */
int pool_process_start(struct pool_process *pool, int board_fd, int arena_fd);

/*
 * Sends a message, in order with all others, at once or when the pool reads. Dropped unless READY.
 * fd: goes with it, -1 for none; borrowed until the pool has died, or has answered what was sent
 * last about it.
 */
void pool_process_send(struct pool_process *pool, const struct proto_pool *message, int fd);

/* It is to load the files that have come; version: of all files. The gate is open until it has
 * answered, or the caller closes it. */
void pool_process_load(struct pool_process *pool, uint64_t version);

/*
 * Asks whether all that was sent so far is in force. Returns a number: as soon as pool->heard is
 * not less it is so, or there is no pool, and the next one begins with what was sent. Where there
 * is none that is READY that is so at once.
 */
uint64_t pool_process_ask(struct pool_process *pool);

/* True if a message would go to the pool at once, as far as can be known: READY, none waits. */
static inline bool pool_process_is_free(const struct pool_process *pool)
{
	return pool->state == POOL_PROCESS_READY && !pool->first;
}

/* If there was no memory for the timer of its end, another call tries to set it again. */
void pool_process_kill(struct pool_process *pool);

/* The manager is awake anyway. */
void pool_process_glance(struct pool_process *pool);

/* The manager got SIGCHLD: the pool may have been stopped, or an abandoned pool has ended. stopped:
 * the process that was stopped, as the signal says, or 0. */
void pool_process_on_child(struct pool_process *pool, pid_t stopped);
