/* SPDX-License-Identifier: MIT */
/*
 * gateway_slot.h - a thread that runs one job at a time, of one job server
 *
 * Each slot has a connection of its own to one server. So a server that does not answer keeps no
 * slot of another server waiting. One slot of each server, the listing slot, has the functions
 * "MODULE:". It also reports whether the server can be reached.
 */
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "contrib/gearman/memory.h"
#include "contrib/gearman/peer.h"

struct gateway;
struct server_name;

/* A job server. */
struct slot_server {
	const struct server_name *address;
	_Atomic uint32_t connected; /* the listing slot is connected */
	/* The slot that sleeps until there is a job has the turn: for one job the server wakes all
	 * workers that sleep. */
	pthread_mutex_t lock;
	pthread_cond_t freed;
	bool taken;
};

struct slot {
	/* constant */
	struct gateway *gateway;
	struct slot_server *server;
	bool listing;
	pthread_t thread;
	/* of the thread */
	struct peer peer;
	struct memory memory;
	uint32_t epoch; /* of the functions of this connection */
	uint32_t tries; /* failed connections in a row */
	bool settled;	/* gateway_settled() was called */
	bool reported;	/* the listing slot has logged that the server cannot be reached */
};

int slot_server_init(struct slot_server *server, const struct server_name *address);

/* Wakes the slots that wait for their turn, after a change of the epoch. */
void slot_server_wake(struct slot_server *server);

/* Starts the thread of a slot. It ends after gateway_stop(). Returns 0 or a negative errno. */
int slot_start(struct slot *slot, struct gateway *gateway, struct slot_server *server,
	       bool listing);
