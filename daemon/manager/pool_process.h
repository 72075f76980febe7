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

#define POOL_PROCESS_ABANDONED 8u /* at most: killed pools that have not ended */

enum pool_process_state {
	POOL_PROCESS_DOWN,     /* no process, except abandoned ones */
	POOL_PROCESS_STARTING, /* until PROTO_POOL_READY */
	POOL_PROCESS_READY,
};

/* Memory or descriptors are short: a later try to start a pool may work. */
#define POOL_PROCESS_LATER 1

struct pool_process_end {
	pid_t pid;
	uint32_t signo; /* signal that ended it, 0 if it exited */
	int status;	/* exit status */
	bool was_ready;
	bool stopped;	   /* it had sent PROTO_POOL_STOPPED */
	bool hung;	   /* killed because it did not answer: pool_watchdog.h */
	bool abandoned;	   /* killed, but it has not ended: pool_process.c, I7 */
	uint64_t lived_ns; /* since READY */
	/* from PROTO_POOL_FAILED; or what the manager knows of a pool that sent none; else 0 and
	 * "" */
	int failed; /* POOL_PROCESS_LATER or a negative errno */
	char failed_text[224];
};

/* Calls for the manager. None is made from within a pool_process function that the manager
 * called. */
struct pool_process_events {
	void (*ready)(struct pool_process *pool);
	/* text: empty, or why the client cannot be served */
	void (*attached)(struct pool_process *pool, uint32_t client, uint32_t generation,
			 const char *text);
	/* index: of an import; text: empty, or why it is not mapped */
	void (*imported)(struct pool_process *pool, uint32_t client, uint32_t generation,
			 uint32_t index, const char *text);
	void (*released)(struct pool_process *pool, uint32_t client, uint32_t generation);
	void (*tenant_released)(struct pool_process *pool, uint32_t tenant);
	void (*asks_cpus)(struct pool_process *pool);
	/* pool->heard has grown */
	void (*heard)(struct pool_process *pool);
	/* text: empty, or why it does not trace */
	void (*traced)(struct pool_process *pool, const char *text);
	/* The answer to the last pool_process_load(). error: 0, or a negative errno and a line that
	 * says why no module was loaded. */
	void (*loaded)(struct pool_process *pool, int error, const char *text);
	void (*died)(struct pool_process *pool, const struct pool_process_end *end);
};

struct pool_process {
	struct loop *loop;
	struct socket_closer *closer;
	struct store *store;
	const struct pool_process_events *events;
	char **argv;
	const struct runas *runas; /* the user that each pool becomes; NULL: the manager's */
	enum pool_process_state state;
	pid_t pid;
	int pidfd;     /* without pidfds: a copy of the channel */
	uint32_t ends; /* poll events of pidfd that show the end */
	int channel;
	int fds[2];    /* board and arena; borrowed */
	int spares[3]; /* for the next start; one while a process exists */
	bool stopped;
	bool hung;
	bool killed; /* by pool_process_kill(): limit is the time until its end */
	pid_t abandoned[POOL_PROCESS_ABANDONED];
	uint32_t n_abandoned;
	struct log_limit waits; /* for the line about POOL_PROCESS_ABANDONED */
	uint64_t ready_ns;
	uint64_t modules;    /* which files it has loaded: struct modules, version */
	uint64_t joinable;   /* those of them that a running pool can load */
	uint32_t n_left_out; /* modules that could not be loaded completely */
	uint32_t n_loads;    /* pool_process_load() calls that it has not answered */
	uint64_t asked;	     /* PINGs so far, to all pools */
	uint64_t heard;	     /* last PING that the pool has answered; its death counts as answer */
	int failed;
	char failed_text[224];
	struct loop_source process;
	struct loop_source incoming;
	struct loop_source outgoing;
	struct loop_source limit;
	struct fdstore_put stored;
	struct gate gate;
	struct watchdog watchdog;
	struct pool_process_message *first; /* waits to be sent */
	struct pool_process_message **last;
};

/* closer: gets the channel of each ended pool. store: keeps the pidfd of each running pool, as
 * FDSTORE_POOL. Returns 0 or -ENOMEM. After it, pool_process_fini() may be called. */
int pool_process_init(struct pool_process *pool, struct socket_closer *closer, struct store *store,
		      const struct options *options, const struct pool_process_events *events);
/* A setting has changed: the next process gets these options. Returns 0 or -ENOMEM. */
int pool_process_set_options(struct pool_process *pool, const struct options *options);
/* Kills and reaps the process, if there is one. */
void pool_process_fini(struct pool_process *pool);

/* Starts the process, which must be DOWN, and sends it PROTO_POOL_START. board_fd, arena_fd:
 * borrowed until it has died. Returns 0; or, with a line in failed_text, POOL_PROCESS_LATER or a
 * negative errno. */
int pool_process_start(struct pool_process *pool, int board_fd, int arena_fd);

/*
 * Sends a message in order, at once or when the pool reads. Dropped unless READY.
 * fd: sent with it, -1 for none; borrowed until the pool has died, or has answered the last message
 * about it.
 */
void pool_process_send(struct pool_process *pool, const struct proto_pool *message, int fd);

/* Tells the pool to load the new files; version: of all files. The gate is open until the pool has
 * answered, or the caller closes it. */
void pool_process_load(struct pool_process *pool, uint64_t version);

/* Asks the pool whether all messages so far are in force. Returns a number: they are when
 * pool->heard has reached it, or there is no pool, and the next one begins with them. If no pool is
 * READY, that is at once. */
uint64_t pool_process_ask(struct pool_process *pool);

/* True if a message would probably go to the pool at once: READY, and no message waits. */
static inline bool pool_process_is_free(const struct pool_process *pool)
{
	return pool->state == POOL_PROCESS_READY && !pool->first;
}

/* Also tries again to set the timer of its end, if there was no memory for it. */
void pool_process_kill(struct pool_process *pool);

/* Checks the pool; for a caller that has woken the manager anyway. */
void pool_process_glance(struct pool_process *pool);

/* The manager got SIGCHLD: the pool may have been stopped, or an abandoned pool has ended. stopped:
 * the stopped process that the signal reports, or 0. */
void pool_process_on_child(struct pool_process *pool, pid_t stopped);
