/* SPDX-License-Identifier: MIT */
/* fdstore.h - descriptors that the service manager keeps for the next forkd */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "common/list.h"
#include "daemon/manager/loop.h"
#include "shm/limits.h"

struct socket_closer;
struct fdstore_item;

#define FDSTORE_NAME	 8u /* bytes of a name with its end: "c1023" */
#define FDSTORE_PER_NAME 3u /* descriptors that go under one name, at most */

/* The names of forkd's own, one descriptor each. */
#define FDSTORE_POOL	    "pool"
#define FDSTORE_BOARD	    "board"
#define FDSTORE_ARENA	    "arena"
#define FDSTORE_SAVED_STATE "roster"
#define FDSTORE_OWN	    4u /* their number */

/* The arena's other name: the next one is put under it before the last one is removed. */
#define FDSTORE_ARENA_NEXT "arenab"

/* How the others begin, which have a slot's number. */
enum fdstore_letter {
	FDSTORE_CLIENT = 'c',
	FDSTORE_TENANT = 't',
};

/* Descriptors for n_clients, of as many users as there can be. */
#define FDSTORE_NEEDS(n_clients) (FDSTORE_OWN + LIMIT_TENANTS + FDSTORE_PER_NAME * (n_clients))

/* What a descriptor is, as the kernel says. */
enum fdstore_kind {
	FDSTORE_OTHER,
	FDSTORE_LISTENER, /* a socket that listens */
	FDSTORE_SOCKET,	  /* any other */
	FDSTORE_MEMFD,
	FDSTORE_PIDFD,
};

/* One that the service manager has passed. */
struct fdstore_inherited {
	char name[FDSTORE_NAME]; /* empty: it is none of ours, a unit's socket */
	enum fdstore_kind kind;
	bool gone; /* its client was let go of: it is not taken any more */
	int fd;	   /* -1: it was taken */
};

/* What fdstore_put() may have to wait for; it lives inside its owner, zeroed with call set. */
struct fdstore_put {
	/* result: 0, they are in the store; or a negative errno: they are not, and will not be */
	void (*call)(struct fdstore_put *put, int result);
	struct fdstore_item *item; /* NULL: it waits for nothing */
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
	struct fdstore_inherited *inherited; /* by name, the oldest first */
	uint32_t n_inherited;
};

#define FDSTORE_INIT ((struct store){ .fd = -1 })

/*
 * Takes what the service manager has passed, and whether it has a store for us: $FDSTORE, the
 * unit's FileDescriptorStoreMax=, which systemd sets from 254 on, and the unit itself. Without one,
 * or with one that is too small for a client, or without a service manager, nothing below does
 * anything, and nothing fails; but what was inherited leaves it. If it is smaller than it was,
 * clients are let go of.
 * Returns 0 or a negative errno. After it, fdstore_fini() may be called.
 */
int fdstore_init(struct store *store, struct loop *loop);

static inline bool fdstore_is_there(const struct store *store)
{
	return store->fd >= 0 && store->max > 0;
}

/*
 * Puts n descriptors into the store under one name that is not in it, all or none; in the order of
 * all fdstore_put() and fdstore_remove(). Names with a number leave the others their places. fds:
 * borrowed for the call alone.
 * Returns 0: they are there, also if there is no store.
 * Returns 1: the service manager does not read just now; put->call() follows from the loop.
 * Or returns a negative errno: they are not there. -ENOSPC: the store is full. A client that needs
 * them to outlive this forkd cannot be served.
 */
int fdstore_put(struct store *store, struct fdstore_put *put, const char *name, const int *fds,
		uint32_t n);
/* put->call() does not come any more. What was to be put is put; it can be removed. */
void fdstore_forget(struct fdstore_put *put);

/* Takes a name out of the store, now or when the service manager reads. Fine if it is not there. */
void fdstore_remove(struct store *store, const char *name);
/* All names. */
void fdstore_empty(struct store *store);

/* True if the name is in it, or will be when the service manager reads. */
bool fdstore_has(const struct store *store, const char *name);

/* The name of a slot's client or tenant. */
void fdstore_name(char ret_name[FDSTORE_NAME], enum fdstore_letter letter, uint32_t slot);

/* One that was inherited under this name: the descriptor, the caller's now, or -1. The name stays
 * in the store. */
int fdstore_take(struct store *store, const char *name, enum fdstore_kind kind);
/* The same, of a unit's sockets: whatever has none of our names. ret_n: how many there are. */
int fdstore_take_socket(struct store *store, uint32_t *ret_n);
/* Closes what was not taken. A name of which nothing was taken leaves the store. */
void fdstore_drop_rest(struct store *store, struct socket_closer *closer);

/* Sends what waits, for some seconds at most, and lets go of everything; what is in the store stays
 * there. If it was emptied: returns when the service manager has closed it all. */
void fdstore_fini(struct store *store);
