/* SPDX-License-Identifier: MIT */
/* fdstore.h - descriptors that the service manager keeps for the next forkd */
#ifndef DAEMON_MANAGER_FDSTORE_H
#define DAEMON_MANAGER_FDSTORE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/list.h"
#include "daemon/manager/loop.h"
#include "shm/limits.h"

struct socket_closer;
struct store_item;

#define STORE_NAME     8u /* bytes of a name with its end: "c1023" */
#define STORE_PER_NAME 3u /* descriptors that go under one name, at most */

/* The names of forkd's own, one descriptor each. */
#define STORE_POOL   "pool"
#define STORE_BOARD  "board"
#define STORE_ARENA  "arena"
#define STORE_ROSTER "roster"
#define STORE_OWN    4u /* so many */

/* The arena's other name: the next one is put under it before the last one is removed. */
#define STORE_ARENA_NEXT "arenab"

/* How the others begin, which have a slot's number. */
enum store_letter {
	STORE_CLIENT = 'c',
	STORE_TENANT = 't',
};

/* What it is to hold for so many clients, whoever they are. */
#define STORE_NEEDS(n_clients) (STORE_OWN + LIMIT_TENANTS + STORE_PER_NAME * (n_clients))

/* What a descriptor is, as the kernel says. */
enum store_kind {
	STORE_OTHER,
	STORE_LISTENER, /* a socket that listens */
	STORE_SOCKET,	/* any other */
	STORE_MEMFD,
	STORE_PIDFD,
};

/* One that the service manager has passed. */
struct store_inherited {
	char name[STORE_NAME]; /* empty: it is none of ours, a unit's socket */
	enum store_kind kind;
	bool gone; /* its client was let go of: nobody takes it */
	int fd;	   /* -1: it was taken */
};

/* What store_put() may have to wait for; it lives inside its owner, zeroed with call set. */
struct store_put {
	/* result: 0, they are in the store; or a negative errno: they are not, and will not be */
	void (*call)(struct store_put *put, int result);
	struct store_item *item; /* NULL: it waits for nothing */
};

struct store {
	struct loop *loop;
	int fd;	      /* connected to the service manager; -1: there is no store */
	uint32_t max; /* descriptors that it may hold; 0: what is in it leaves it */
	uint32_t n;   /* that it holds, or will when the queue is sent */
	struct list_link items;
	struct list_link queue; /* items that have something to be sent, in this order */
	bool emptied;
	struct loop_source outgoing;
	struct store_inherited *inherited; /* by name, the oldest first */
	uint32_t n_inherited;
};

#define STORE_INIT                                                                                 \
	{                                                                                          \
		.fd = -1                                                                           \
	}

/*
 * Takes what the service manager has passed, and whether it has a store for us: $FDSTORE, the
 * unit's FileDescriptorStoreMax=, which systemd sets from 254 on, and the unit itself. Without one,
 * or with one that is too small for anybody, or without a service manager, nothing below does
 * anything, and nothing fails; but what was inherited all the same leaves it. Of one that is
 * smaller than it was clients are let go of.
 * Returns 0 or a negative errno. After it, store_fini() may be called.
 */
int store_init(struct store *store, struct loop *loop);

static inline bool store_is_there(const struct store *store)
{
	return store->fd >= 0 && store->max > 0;
}

/*
 * Puts n descriptors into the store under one name that is not in it, all or none; in the order of
 * all store_put() and store_remove(). Names with a number leave the others their places. fds:
 * borrowed for the call alone.
 * Returns 0: they are there, also if there is no store.
 * Returns 1: the service manager does not read just now; put->call() follows from the loop.
 * Or returns a negative errno: they are not there. -ENOSPC: the store is full. Whoever is to
 * outlive this forkd by them cannot be served.
 */
int store_put(struct store *store, struct store_put *put, const char *name, const int *fds,
	      uint32_t n);
/* put->call() does not come any more. What was to be put is put; it can be removed. */
void store_forget(struct store_put *put);

/* Takes a name out of the store, now or when the service manager reads. Fine if it is not there. */
void store_remove(struct store *store, const char *name);
/* All names. */
void store_empty(struct store *store);

/* True if the name is in it, or will be when the service manager reads. */
bool store_has(const struct store *store, const char *name);

/* The name of a slot's client or tenant. */
void store_name(char ret_name[STORE_NAME], enum store_letter letter, uint32_t slot);

/* One that was inherited under this name: the descriptor, the caller's now, or -1. The name stays
 * in the store. */
int store_take(struct store *store, const char *name, enum store_kind kind);
/* The same, of a unit's sockets: whatever has none of our names. ret_n: how many there are. */
int store_take_socket(struct store *store, uint32_t *ret_n);
/* What nobody has taken is closed. A name of which nothing was taken leaves the store. */
void store_drop_rest(struct store *store, struct socket_closer *closer);

/* Sends what waits, for some seconds at most, and lets go of everything; what is in the store stays
 * there. If it was emptied: returns when the service manager has closed it all. */
void store_fini(struct store *store);

#endif
