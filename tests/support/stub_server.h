/* SPDX-License-Identifier: MIT */
/*
 * stub_server.h - a job server with gateways, in the process of the test, which controls them
 *
 * The gateways have the module "stub":
 *	stub:add   n:i64, m:i64 -> i64               n + m
 *	stub:args  a:str, b:buf, x:f64 -> i64, f64   the lengths of a and b; x
 *	stub:turn  data:iobuf -> i64                 inverts each byte; the size
 *	stub:say   line:str -> i64                   an exception with this line
 *	stub:hold  n:i64 -> i64                      ends when the test lets it: n
 *	stub:fail  n:i64 -> i64                      fails without a text n times; then 7
 *	stub:full  n:i64 -> i64                      the server is full n times; then 7
 *	stub:junk  n:i64 -> i64                      an answer that is no frame
 * and functions of others. One job server: a port of 127.0.0.1. Any thread, except as said.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct payload;
struct signature;

#define STUB_SERVER_GATEWAYS 2u
#define STUB_SERVER_JOBS     3u /* of a gateway */

struct stub_server;

/* A call of a task, which the user of stub_server_calls() ends. */
struct stub_call {
	struct stub_call *next; /* the user's */
	struct stub_server *server;
	int fd;
	char handle[64];
	char unique[64];
	char task[64];
	void *data; /* the payload, aligned */
	size_t size;
	uint64_t received_ns;
};

/* What the server has received so far. */
struct stub_server_counts {
	uint32_t calls;
	uint32_t high, low;  /* of these, with another priority than normal */
	uint32_t idempotent; /* with that flag */
	uint32_t timeouts;   /* with a time limit */
	uint32_t weight;     /* of the last call */
	uint32_t held;	     /* calls of stub:hold that have not ended */
	uint32_t options;    /* connections that have asked for exceptions */
	uint32_t searches;   /* requests for the functions */
};

/* Starts a server. port: 0 chooses a free one. */
struct stub_server *stub_server_start(uint16_t port);

struct stub_task {
	const char *name, *signature;
};

/* The module has these tasks, 16 at most, in place of its own. Each call goes to take(), on a
 * thread of the server. Before the first client. */
void stub_server_calls(struct stub_server *server, const struct stub_task *tasks, uint32_t n,
		       void (*take)(struct stub_call *call));

/* End a call, and free it: with packed results, after iobufs were changed in place; or with an
 * exception. */
void stub_call_answer(struct stub_call *call, struct payload *payload,
		      const struct signature *signature, const void *results);
void stub_call_raise(struct stub_call *call, const char *line);

uint16_t stub_server_port(const struct stub_server *server);

/* Ends the server as a crash does: with all connections and held calls. */
void stub_server_stop(struct stub_server *server);

/* Ends the connections only. */
void stub_server_cut(struct stub_server *server);

/* Ends the calls of stub:hold. */
void stub_server_release(struct stub_server *server);

struct stub_server_counts stub_server_counts(struct stub_server *server);

/* Waits until this many calls are held. */
void stub_server_wait_held(struct stub_server *server, uint32_t n);

/* Changes the signature of stub:add, as another version of the module. */
void stub_server_change(struct stub_server *server);

/* Adds a task stub:later n:i64 -> i64, which returns n. */
void stub_server_add_task(struct stub_server *server);

/* The gateway answers the next questions for its tasks with its progress, and never ends. */
void stub_server_drip(struct stub_server *server);

/* The module has left all gateways, for this number of searches. */
void stub_server_leave(struct stub_server *server, uint32_t searches);
