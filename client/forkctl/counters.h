/* SPDX-License-Identifier: MIT */
/* counters.h - the forms of forkctl counters */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <forkd/client.h>

#include "shm/board.h"

/* The parts of an HTTP request that determine the answer of `forkctl counters --http`. */
struct http_request {
	int status;	 /* 200 for GET or HEAD /metrics; otherwise 400, 404, ... */
	int head_only;	 /* answer without the body */
	int openmetrics; /* Accept has OpenMetrics */
};

/* Prints all metrics as OpenMetrics text 1.0; with openmetrics 0, in Prometheus's format 0.0.4. */
void metrics_print(const struct board *board, FILE *file, int openmetrics);

/* Prints counters per second every interval_ns, count times (0: without end), or until forkd is
 * gone. json: one object per line. Returns an exit code. */
int watch_run(fk_client *client, uint64_t interval_ns, uint32_t count, int json);

/* Reads the head of one HTTP request, with limits on its size and time (http.c, I1). */
struct http_request http_read(int fd);

/* Writes the answer, and shuts down fd. type: media type of the body. Returns 0 or a negative
 * errno. */
int http_answer(int fd, const struct http_request *request, const char *type, const char *body,
		size_t size);
