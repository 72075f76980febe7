/* SPDX-License-Identifier: MIT */
/*
 * peer_local.c - the benchmarks in this process, by libforkpool
 *
 * The tasks are those of the modules of bench_forkd, compiled into the program and called by
 * FK_RUN() on memory of the program. The loops are fk_for().
 */
#include <stdio.h>
#include <stdlib.h>

#include <forkd/fiber.h>
#include <forkd/pool.h>
#include <forkd/task.h>

#include "tests/bench/peer.h"

/* The modules are no modules here. */
#undef FK_MODULE
#define FK_MODULE(name, help)

#include "modules/fib.c"
#include "modules/integrate.c"
#include "modules/nqueens.c"
#include "modules/uts.c"
#include "tests/bench/forkpath_leaf.c"
#include "tests/bench/modules/matmul.c"
#include "tests/bench/modules/msort.c"
#undef EDGE_MAX
#include "tests/bench/modules/steps.c"
#include "tests/support/modules/flat.c"

static fk_client *client;

static void must(int err, const char *what)
{
	if (!err)
		return;
	fprintf(stderr, "%s: %s\n", what, fk_strerror(err));
	exit(1);
}

static void local_start(int threads)
{
	const struct fk_local_options options = { .workers = (uint32_t)threads };

	must(fk_open_local(&options, &client), "fk_open_local");
}

static void local_stop(void)
{
	must(fk_close(client), "fk_close");
}

static int64_t local_fib(int64_t n)
{
	int64_t result;

	must(FK_RUN(client, &result, fib, n), "fib");
	return result;
}

static void local_flat(uint32_t *out, int64_t n, int64_t rounds)
{
	const struct fk_iobuf slots = { out, (size_t)n * sizeof(*out) };

	must(FK_RUN(client, (void *)NULL, fill, slots, rounds), "flat");
}

static double local_integrate(double n, double eps)
{
	double result;

	must(FK_RUN(client, &result, integrate, n, eps), "integrate");
	return result;
}

static int64_t local_nqueens(int32_t n)
{
	int64_t result;

	must(FK_RUN(client, &result, nqueens, n), "nqueens");
	return result;
}

static struct uts_count local_uts(const struct uts_tree *tree)
{
	const struct fk_str name = { .data = tree->name };
	struct result result;

	must(FK_RUN(client, &result, uts, name), "uts");
	return (struct uts_count){ .nodes = result.nodes,
				   .leaves = result.leaves,
				   .depth = result.depth };
}

static void local_sort(int64_t *a, int64_t *tmp, int64_t n)
{
	must(FK_RUN(client, (void *)NULL, halves, a, tmp, n, false), "sort");
}

static void local_matmul(const float *a, const float *b, float *c, int64_t n)
{
	must(FK_RUN(client, (void *)NULL, multiply, a, b, c, n, n, n, n), "matmul");
}

static int64_t local_steps(struct kernel_job *job)
{
	int64_t result;

	must(FK_RUN(client, &result, run, job), "steps");
	return result;
}

static int64_t local_blocks(int64_t n)
{
	int64_t result;

	must(FK_RUN(client, &result, fresh, n), "blocks");
	return result;
}

static void local_range(int64_t n, void (*body)(int64_t first, int64_t last, void *context),
			void *context)
{
	must(fk_for(client, 0, n, body, context), "fk_for");
}

int main(int argc, char **argv)
{
	static const struct peer peer = {
		.name = "local",
		.start = local_start,
		.fib = local_fib,
		.flat = local_flat,
		.integrate = local_integrate,
		.nqueens = local_nqueens,
		.uts = local_uts,
		.sort = local_sort,
		.matmul = local_matmul,
		.steps = local_steps,
		.blocks = local_blocks,
		.range = local_range,
		.stop = local_stop,
	};

	return peer_main(&peer, argc, argv);
}
