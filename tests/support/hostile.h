/* SPDX-License-Identifier: MIT */
/*
 * hostile.h - a hostile client, an honest one of another uid, and one that connects later
 *
 * They are processes with their own uids, so that the hostile client spoils only its own rings.
 * Only root can start them. Without root the same attacks run without the honest client, because
 * clients of one uid share rings.
 */
#pragma once

#include "client/lib/client.h"
#include "tests/support/daemon.h"

#define HOSTILE_UID  65533u
#define HONEST_UID   65531u
#define FRESH_UID    65532u
#define HOSTILE_HEAP 65536u
#define HOSTILE_HANG (30 * NSEC_PER_SEC) /* a longer wait counts as a hang */

/* Memory that the honest client shares with the test. */
struct honest {
	_Atomic uint64_t good; /* correct results */
	_Atomic uint64_t told; /* its jobs that did not end as DONE while the pool was killed */
	_Atomic uint32_t killing;
	_Atomic uint32_t stop;
};

extern struct honest *honest;

/* Starts a forkd for all of them. Returns false if there is only one uid. */
bool hostile_setup(struct daemon *d);

/* For daemon_client(). honest_run() works until honest->stop; honest_late() checks that everything
 * is in order. Their exit statuses name the error. */
void honest_run(void);
void honest_late(void);

/* The hostile client's connection, in its process. */
fk_client *hostile_open(void);
