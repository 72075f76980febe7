/* SPDX-License-Identifier: MIT */
/* events_list.h - the lists of watched jobs */
#pragma once

#include <pthread.h>
#include <stdint.h>

#include <forkd/client.h>

#include "common/list.h"

/* The list that an entry is in. */
enum events_list {
	EVENTS_NONE,
	EVENTS_WATCHED, /* has not ended */
	EVENTS_FETCH,	/* has ended: for fk_next_completion() */
	EVENTS_CALL,	/* has ended: for fk_dispatch() */
	EVENTS_LISTS,
};

/* One for each record of the job table, and for each spilled job. */
struct events_entry {
	struct list_link link;
	enum events_list list;
	fk_job job;
	void (*ended)(fk_client *client, fk_job job, void *data);
	void *data;
	int release; /* fk_dispatch() releases the job after ended() */
};

struct events {
	pthread_mutex_t lock;	      /* protects all that follows, and the spilled jobs */
	struct events_entry *entries; /* NULL until the first use */
	struct list_link lists[EVENTS_LISTS];
	uint32_t n[EVENTS_LISTS];
	int fd;	    /* -1 until fk_event_fd() */
	int raised; /* fd is readable */
	int idle;   /* the thread sleeps without periodic checks (events.c, I4) */
	int stop;   /* the thread must end */
	pthread_t thread;
	_Atomic uint64_t kicked_ns; /* last wake of all sleepers because of a doubt (I6); written
				     * before the increment of the count of ends */
};

/* All functions: with the lock held. */

/* Moves an entry to the end of a list, or out of the list that it is in. */
void events_link(struct events *events, struct events_entry *entry, enum events_list list);
void events_unlink(struct events *events, struct events_entry *entry);

/* The list of an entry whose job has ended. */
enum events_list events_list_of(const struct events_entry *entry);

/* Makes the eventfd readable or not (events.c, I3). */
void events_level(struct fk_client *client);

/*
 * events_move() moves the entry of a job in the table to its spilled copy (spill.c). events_drop()
 * removes an entry from its list, for example before the copy is freed.
 */
void events_move(struct fk_client *client, fk_job job, struct events_entry *to);
void events_drop(struct fk_client *client, struct events_entry *entry);
