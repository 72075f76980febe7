/* SPDX-License-Identifier: MIT */
/*
 * hostile.h - a hostile client, an honest one of another uid, and one that comes later
 *
 * They are processes with uids of their own, so that the rings that are spoilt are the hostile
 * one's. Only root can start such two: without root the same attacks run without the honest one,
 * because clients of one uid share its rings.
 */
#pragma once

#include "client/lib/client.h"
#include "tests/support/daemon.h"

#define HOSTILE_UID  65533u
#define HONEST_UID   65531u
#define FRESH_UID    65532u
#define HOSTILE_HEAP 65536u
#define HOSTILE_HANG (30 * NSEC_PER_SEC) /* a longer wait hangs */

/* What the honest client shares with the test. */
struct honest {
	_Atomic uint64_t good; /* right results */
	_Atomic uint64_t told; /* of its jobs that were not DONE while the pool was killed */
	_Atomic uint32_t killing;
	_Atomic uint32_t stop;
};

extern struct honest *honest;

/* Starts a forkd for all of them. False: there is one uid only. */
bool hostile_setup(struct daemon *d);

/* For daemon_client(): one that works until honest->stop; and one that finds everything in order.
 * Their exit statuses say what went wrong. */
void honest_run(void);
void honest_late(void);

/* The hostile client's connection, in its process. */
fk_client *hostile_open(void);
