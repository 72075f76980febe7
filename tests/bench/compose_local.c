/* SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <stdlib.h>

#include <forkd/pool.h>

#include "tests/bench/compose.h"

/* With a pool in this process: libforkpool, with its defaults. */

static fk_client *client;

static void must(int err)
{
	if (!err)
		return;
	fprintf(stderr, "libforkpool: %s\n", fk_strerror(err));
	exit(1);
}

void compose_start(const char *socket)
{
	(void)socket;
	must(fk_open_local(NULL, &client));
}

static void add_part(int64_t first, int64_t last, void *sum, void *context)
{
	int64_t rounds = *(const int64_t *)context;

	for (int64_t i = first; i < last; i++)
		*(int64_t *)sum += compose_leaf(i, rounds);
}

static void add_sums(void *left, const void *right, void *context)
{
	(void)context;
	*(int64_t *)left += *(const int64_t *)right;
}

int64_t compose_sum(int64_t leaves, int64_t rounds)
{
	static const int64_t zero;
	static const struct fk_reduction reduction = {
		.size = sizeof(zero),
		.identity = &zero,
		.body = add_part,
		.combine = add_sums,
	};
	int64_t sum;

	must(fk_reduce(client, 0, leaves, &reduction, &sum, &rounds));
	return sum;
}
