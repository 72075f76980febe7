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

#define FDSTORE_NAME	 8u /* bytes of a name with its NUL: "c1023" */
#define FDSTORE_PER_NAME 3u /* maximum number of descriptors of a name */

/* Names of forkd's own descriptors, one each. */
#define FDSTORE_POOL	    "pool"
#define FDSTORE_BOARD	    "board"
#define FDSTORE_ARENA	    "arena"
#define FDSTORE_SAVED_STATE "roster"
#define FDSTORE_OWN	    4u /* their number */

/* Second name of the arena: the next one is put under it before the last one is removed. */
#define FDSTORE_ARENA_NEXT "arenab"

/* First letters of the other names, which have a slot's number. */
enum fdstore_letter {
	FDSTORE_CLIENT = 'c',
	FDSTORE_TENANT = 't',
	FDSTORE_IMPORT = 'i', /* with the number slot * LIMIT_IMPORTS + index */
};

/* Descriptors for n_clients, with the maximum number of users. */
#define FDSTORE_NEEDS(n_clients) (FDSTORE_OWN + LIMIT_TENANTS + FDSTORE_PER_NAME * (n_clients))

/* Kind of a descriptor, as the kernel reports it. */
enum fdstore_kind {
	FDSTORE_OTHER,
	FDSTORE_LISTENER, /* a socket that listens */
	FDSTORE_SOCKET,	  /* any other */
	FDSTORE_MEMFD,
	FDSTORE_PIDFD,
};

/* A descriptor passed by the service manager. */
struct fdstore_inherited {
	char name[FDSTORE_NAME]; /* empty: a unit's socket */
	enum fdstore_kind kind;
	bool gone; /* its client was dropped: it is not taken any more */
	int fd;	   /* -1: it was taken */
};

/* A pending fdstore_put(); part of its owner, zeroed with call set. */
struct fdstore_put {
	/* result: 0, they are in the store; or a negative errno: they are not, and will not be */
	void (*call)(struct fdstore_put *put, int result);
	struct fdstore_item *item; /* NULL: it waits for nothing */
};

struct store {
	struct loop *loop;
	int fd;	      /* connected to the service manager; -1: no store */
	uint32_t max; /* descriptors that it may hold; 0: all are removed */
	uint32_t n;   /* that it holds, or will when the queue is sent */
	struct list_link items;
	struct list_link queue; /* items with a message to send, in this order */
	bool emptied;
	struct loop_source outgoing;
	struct fdstore_inherited *inherited; /* by name, then the oldest first */
	uint32_t n_inherited;
};

#define FDSTORE_INIT ((struct store){ .fd = -1 })

/*
 * Takes the descriptors that the service manager has passed, and determines whether it has a store:
 * $FDSTORE, the unit's FileDescriptorStoreMax=, which systemd sets from 254 on, and the unit
 * itself. Without a store, or with one that is too small for a client, or without a service
 * manager, the functions below do nothing and succeed; but inherited descriptors are removed from
 * it. If it has become smaller, clients are dropped. Returns 0 or a negative errno. Afterwards
 * fdstore_fini() may be called.
 */
int fdstore_init(struct store *store, struct loop *loop);

static inline bool fdstore_is_there(const struct store *store)
{
	return store->fd >= 0 && store->max > 0;
}

/*
 * Puts n descriptors into the store under one name that is not in it, all or none; in the order of
 * all fdstore_put() and fdstore_remove(). Names with a number leave room for the others. fds:
 * borrowed for the call only.
 * Returns 0: they are stored, or there is no store. Returns 1: the service manager does not read
 * now; put->call() follows from the loop. Or returns a negative errno: they are not stored.
 * -ENOSPC: the store is full. A client that needs them to survive this forkd cannot be served.
 */
int fdstore_put(struct store *store, struct fdstore_put *put, const char *name, const int *fds,
		uint32_t n);
/* put->call() will not be called. A pending put is still made; it can be removed. */
void fdstore_forget(struct fdstore_put *put);

/* Removes a name from the store, now or when the service manager reads. Does nothing if it is not
 * there. */
void fdstore_remove(struct store *store, const char *name);
/* Removes all names. */
void fdstore_empty(struct store *store);

/* True if the name is stored, or will be when the service manager reads. */
bool fdstore_has(const struct store *store, const char *name);

/* The name of a slot's client or tenant, or of an import. */
void fdstore_name(char ret_name[FDSTORE_NAME], enum fdstore_letter letter, uint32_t slot);

/* Returns a descriptor inherited under this name, which the caller owns now, or -1. The name stays
 * in the store. */
int fdstore_take(struct store *store, const char *name, enum fdstore_kind kind);
/* The same for a unit's sockets, which have none of our names. ret_n: their number. */
int fdstore_take_socket(struct store *store, uint32_t *ret_n);
/* Closes descriptors that were not taken. A name of which none was taken is removed from the
 * store. */
void fdstore_drop_rest(struct store *store, struct socket_closer *closer);

/* Sends queued messages, for some seconds at most, and frees everything; stored descriptors stay.
 * If the store was emptied: returns when the service manager has closed them all. */
void fdstore_fini(struct store *store);
