/* SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <stdlib.h>

#include <forkd/client.h>

#include "tests/bench/compose.h"

/* A client of the one forkd; modules/loop.c is the task. Options, job table and heap are the
 * defaults. */

static fk_client *client;

void compose_start(const char *socket)
{
	if (fk_open(socket, NULL, &client) < 0) {
		fprintf(stderr, "%s\n", fk_error_text());
		exit(1);
	}
}

int64_t compose_sum(int64_t leaves, int64_t rounds)
{
	int64_t sum;
	int r = fk_call(client, "loop:sum", &sum, leaves, rounds);

	if (r < 0) {
		fprintf(stderr, "loop:sum: %s\n", fk_strerror(r));
		exit(1);
	}
	return sum;
}
