/* SPDX-License-Identifier: MIT */
/* events.h - what a client keeps of watched jobs, and of the thread that feeds an eventfd */
#ifndef CLIENT_LIB_EVENTS_H
#define CLIENT_LIB_EVENTS_H

#include <pthread.h>
#include <stdint.h>
#include <sys/queue.h>

#include <forkd/client.h>

/* Where an entry is. */
enum events_list {
	EVENTS_NONE,
	EVENTS_WATCHED, /* has not ended */
	EVENTS_FETCH,	/* has ended: for fk_next_ended() */
	EVENTS_CALL,	/* has ended: for fk_dispatch() */
	EVENTS_LISTS,
};

/* One for each record of the job table, and for each spilled job. */
struct events_entry {
	TAILQ_ENTRY(events_entry) link;
	enum events_list list;
	fk_job job;
	void (*ended)(fk_client *client, fk_job job, void *data);
	void *data;
};

TAILQ_HEAD(events_head, events_entry);

struct events {
	pthread_mutex_t lock;	      /* of all that follows, and of the spilled jobs */
	struct events_entry *entries; /* NULL until the first use */
	struct events_head lists[EVENTS_LISTS];
	uint32_t n[EVENTS_LISTS];
	int fd;	    /* -1 until fk_event_fd() */
	int raised; /* fd is readable */
	int idle;   /* the thread sleeps, and does not look now and then */
	int stop;   /* it is to end */
	pthread_t thread;
	_Atomic uint64_t kicked_ns; /* when sleepers were last sent to look sooner, I6 */
};

void events_init(struct fk_client *client);

/* Ends the thread, and frees what there is. */
void events_fini(struct fk_client *client);

/* Sends all threads that sleep on the count of ends to look again. */
void events_kick(struct fk_client *client);

/*
 * With the lock held. Moves what a job in the table is watched with to the entry of its spilled
 * copy (spill.c); to free that, drops the entry from its list.
 */
void events_move(struct fk_client *client, fk_job job, struct events_entry *to);
void events_drop(struct fk_client *client, struct events_entry *entry);

/* In a child of fork(): its copy of the descriptor. */
void events_forget(struct fk_client *client);

#endif
