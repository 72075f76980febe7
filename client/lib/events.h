/* SPDX-License-Identifier: MIT */
/* events.h - the thread of the library that feeds an eventfd */
#pragma once

#include <forkd/client.h>

void events_init(struct fk_client *client);

/* True if the completion of a job with these options is to be reported. */
static inline int events_wanted(const struct fk_job_options *options)
{
	return options->on_completion || options->flags & FK_WATCH;
}

/*
 * Watches those of n jobs whose options request it, before they are published. Returns 0, or
 * -ENOMEM: then none is watched.
 */
int events_watch_batch(struct fk_client *client, const struct fk_request *requests,
		       const fk_job *jobs, uint32_t n);

/* Must be called after the publication of such jobs: wakes sleepers if a wake is in doubt (I6). */
void events_published(struct fk_client *client);

/*
 * Must be called if the publication of such jobs has failed. Returns 0: they will not be reported;
 * or 1: the daemon is gone, so they are reported and count as submitted (I7).
 */
int events_unpublished(struct fk_client *client, const fk_job *jobs, uint32_t n);

/* Ends the thread, and frees the entries. */
void events_fini(struct fk_client *client);

/* In a child of fork(): closes its copy of the eventfd. */
void events_forget(struct fk_client *client);
