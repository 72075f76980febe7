/* SPDX-License-Identifier: MIT */
/* counters.h - the forms of forkctl counters */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <forkd/client.h>

#include "shm/board.h"

/* What `forkctl counters --http` answers to a request. */
struct http_request {
	int status;	 /* 200: to GET or HEAD /metrics; what else is wrong: 400, 404, ... */
	int head_only;	 /* the body is not wanted */
	int openmetrics; /* Accept has it */
};

/* Prints all of it. openmetrics: as OpenMetrics text 1.0; 0: in Prometheus's text format 0.0.4. */
void metrics_print(const struct board *board, FILE *file, int openmetrics);

/*
 * Counters per second, until forkd is gone: every interval_ns, count times (0: without end). json:
 * one object a line. Returns an exit code.
 */
int watch_run(fk_client *client, uint64_t interval_ns, uint32_t count, int json);

/* Reads the head of one HTTP request, of limited size and in limited time. */
struct http_request http_read(int fd);

/* Writes the answer, and ends what is said on fd. type: of the body. Returns 0 or a negative
 * errno. */
int http_answer(int fd, const struct http_request *request, const char *type, const char *body,
		size_t size);
