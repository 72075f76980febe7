/* SPDX-License-Identifier: MIT */
/*
 * gateway_slot.c - a thread that runs one job at a time, of one job server
 *
 *	functions -> connect -> grab -> job -> run -> answer -> grab ...
 *	                             -> no job -> turn { grab -> sleep -> grab -> job } -> run ...
 *
 * INVARIANTS
 *   I1. A slot closes a connection that works only when it has no job: after NO_JOB or an answer.
 *       Between its request and the server's answer the server may have assigned one.
 *   I2. A slot that sleeps requests a job after each time limit, and the server must answer. So a
 *       connection that was cut without an end is detected, and replaced (peer.c, I2).
 *   I3. The functions of a connection do not change: a slot connects again when they have changed.
 *   I4. Only the slot with the turn of a server sleeps there. It has the turn until it has a job,
 *       and gives it on before it receives the payload. The next one requests a job before it
 *       sleeps. So as long as the server has jobs, no slot waits for another.
 */
#include "contrib/gearman/gateway_slot.h"

#include <errno.h>
#include <string.h>

#include "common/clock.h"
#include "common/log.h"
#include "common/relaxed.h"
#include "common/util.h"
#include "contrib/gearman/functions.h"
#include "contrib/gearman/gateway.h"
#include "contrib/gearman/gateway_job.h"

#define SLOT_BACK_OFF	  (100 * NSEC_PER_MSEC)
#define SLOT_BACK_OFF_MAX NSEC_PER_SEC

/* The functions have changed, or the gateway stops. */
#define SLOT_CHANGED 1

/* A text that is the same for the whole thread, of fk_strerror() or the system. */
static const char *why_text(int err)
{
	return err == -EPROTO	    ? "the program that listens there is no job server"
	     : err == -EHOSTUNREACH ? "there is no such host, or no route to it"
	     : err == -ETIMEDOUT    ? "no answer within --server-timeout"
	     : err == -ECONNRESET   ? "the server has closed the connection"
				    : strerrordesc_np(-err);
}

static void report(struct slot *slot, int err)
{
	const struct server_name *address = slot->server->address;

	slot->tries = err ? slot->tries + 1 : 0;
	if (!slot->listing)
		return;
	store_relaxed(&slot->server->connected, !err);
	if (err && !slot->reported)
		log_warning("server %s:%u: no connection: %s: trying again", address->host,
			    address->port, why_text(err));
	if (!err && slot->reported)
		log_notice("server %s:%u: connected again", address->host, address->port);
	slot->reported = err;
}

static bool slot_changed(const void *context)
{
	const struct slot *slot = context;

	return load_relaxed(&slot->gateway->epoch) != slot->epoch;
}

/* Connects, and registers the functions. */
static int open_peer(struct slot *slot, const struct functions *functions)
{
	const struct server_name *address = slot->server->address;
	uint32_t n = slot->listing ? functions->n_modules : functions->n_tasks;
	int err = peer_open(&slot->peer, address->host, address->port,
			    slot->gateway->options->server_timeout_ns);

	for (uint32_t i = 0; i < n && !err; i++) {
		const char *name = slot->listing ? functions->modules[i] : functions->tasks[i];

		err = peer_send(&slot->peer, PACKET_CAN_DO,
				&(struct peer_part){ name, strlen(name) }, 1);
	}
	return err;
}

/* Reads a packet that has no job. An error is the answer to WORK_FAIL after an exception
 * (gateway_job.c). */
static int drop(struct slot *slot, int type)
{
	int err = peer_read(&slot->peer, NULL, NULL, 0);

	return err || type == PACKET_NO_JOB || type == PACKET_NOOP || type == PACKET_ERROR
		     ? err
		     : -EPROTO;
}

/* Requests a job. Returns 0 (the head of PACKET_ASSIGN is received), PACKET_NO_JOB, SLOT_CHANGED,
 * or a negative errno. */
static int request(struct slot *slot)
{
	int err = slot_changed(slot) ? SLOT_CHANGED : peer_send(&slot->peer, PACKET_GRAB, NULL, 0);

	/* A NOOP may arrive before the answer. */
	while (!err) {
		int type = peer_next(&slot->peer, false, slot_changed, slot);

		if (type < 0)
			return type;
		report(slot, 0);
		if (type == PACKET_ASSIGN)
			return 0;
		err = drop(slot, type);
		if (!err && type == PACKET_NO_JOB)
			return type;
	}
	return err;
}

/* Sleeps after NO_JOB, until there is a job or a time limit has passed. Returns 0, SLOT_CHANGED, or
 * a negative errno. */
static int sleep_idle(struct slot *slot)
{
	int err = peer_send(&slot->peer, PACKET_PRE_SLEEP, NULL, 0);

	while (!err) {
		int type = peer_next(&slot->peer, true, slot_changed, slot);

		if (type == -ETIME)
			return 0;
		if (type < 0)
			return type == -EINTR ? SLOT_CHANGED : type;
		err = drop(slot, type);
		if (type == PACKET_NOOP)
			break;
	}
	return err;
}

int slot_server_init(struct slot_server *server, const struct server_name *address)
{
	int err;

	*server = (struct slot_server){ .address = address };
	err = pthread_mutex_init(&server->lock, NULL);
	return err ? -err : -pthread_cond_init(&server->freed, NULL);
}

void slot_server_wake(struct slot_server *server)
{
	/* With the lock: a slot that has read the old epoch waits. */
	(void)pthread_mutex_lock(&server->lock);
	(void)pthread_cond_broadcast(&server->freed);
	(void)pthread_mutex_unlock(&server->lock);
}

/* Waits for the turn. Returns false if the functions change. */
static bool take_turn(struct slot *slot)
{
	struct slot_server *server = slot->server;
	bool taken;

	(void)pthread_mutex_lock(&server->lock);
	while (server->taken && !slot_changed(slot))
		(void)pthread_cond_wait(&server->freed, &server->lock);
	taken = !slot_changed(slot);
	server->taken |= taken;
	(void)pthread_mutex_unlock(&server->lock);
	return taken;
}

static void give_turn(struct slot *slot)
{
	(void)pthread_mutex_lock(&slot->server->lock);
	slot->server->taken = false;
	(void)pthread_cond_signal(&slot->server->freed);
	(void)pthread_mutex_unlock(&slot->server->lock);
}

/* Waits for a job. Returns as request(), but not PACKET_NO_JOB. */
static int grab(struct slot *slot)
{
	int err = request(slot);

	if (err != PACKET_NO_JOB)
		return err;
	/* The listing slot has other functions: it does not take turns. */
	if (!slot->listing && !take_turn(slot))
		return SLOT_CHANGED;
	while ((err = request(slot)) == PACKET_NO_JOB && !(err = sleep_idle(slot)))
		;
	if (!slot->listing)
		give_turn(slot);
	return err;
}

/* Runs jobs until the connection ends. Returns SLOT_CHANGED or a negative errno. */
static int work(struct slot *slot)
{
	int err = 0;

	while (!err) {
		err = grab(slot);
		if (!err) {
			err = gateway_job_run(slot);
			memory_trim(&slot->memory);
		}
	}
	return err;
}

static void *slot_run(void *context)
{
	struct slot *slot = context;
	struct functions *functions;

	while ((functions = gateway_wait_functions(slot->gateway, &slot->epoch))) {
		int err = open_peer(slot, functions);

		gateway_put_functions(slot->gateway, functions);
		if (!slot->settled)
			gateway_settled(slot->gateway);
		slot->settled = true;
		if (!err)
			err = work(slot);
		peer_close(&slot->peer);
		/* It may keep a link that is lost. */
		memory_fini(&slot->memory);
		if (err == SLOT_CHANGED)
			continue;
		report(slot, err);
		if (gateway_sleep(slot->gateway, min(SLOT_BACK_OFF << min(slot->tries - 1, 4u),
						     SLOT_BACK_OFF_MAX)))
			break;
	}
	return NULL;
}

int slot_start(struct slot *slot, struct gateway *gateway, struct slot_server *server, bool listing)
{
	slot->gateway = gateway;
	slot->server = server;
	slot->listing = listing;
	slot->memory.gateway = gateway;
	return -pthread_create(&slot->thread, NULL, slot_run, slot);
}
