/* SPDX-License-Identifier: MIT */
/*
 * mpi_uts.c - Unbalanced Tree Search on several ranks, each with a pool of forkd
 *
 * The ranks share the tree by bulk_steal.c; an item is the root of a subtree. Within a rank one job
 * (explore.c) walks all subtrees of the rank's stock, and the pool's workers share it by fork and
 * join. The main thread polls MPI in the meantime. If another rank asks for work it stops the job,
 * sorts the rest by depth, pushes it to the stock, and starts the next job.
 *
 * INVARIANTS
 *   I1. A node that was found and not visited is in the stock, in the running job, or in a
 *       message: I1 of bulk_steal.c and explore.c. The rest of a job is pushed before the rank
 *       counts as not busy.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "contrib/mpi/bulk_steal.h"
#include "contrib/mpi/explore.h"
#include "contrib/mpi/rank.h"

/* Nodes of a job: at its start, and in its rest. */
#define NODES_MAX 65536u
/* Time between two polls, while a job runs and while the rank has no work. */
#define BUSY_POLL_NS 200000
#define IDLE_POLL_NS 20000
/* Nodes that a rank without a pool visits between two polls. */
#define PLAIN_NODES 256

static const char help[] =
	"Usage: mpirun -n RANKS mpi_uts [OPTION...]\n"
	"Walks a tree of the Unbalanced Tree Search benchmark.\n"
	"  --tree=NAME            T1, T1L, T1XXL, T3, T3L or T3XXL; default: T1\n";

struct search {
	struct rank rank;
	const struct uts_tree *tree;
	struct bulk_steal *steal;
	struct uts_count count;
	uint64_t jobs;

	struct uts_node *roots; /* of the job */
	struct explore_rest *rest;
	fk_job job; /* 0: none */
};

static int compare_depth(const void *a, const void *b)
{
	return ((const struct uts_node *)a)->depth - ((const struct uts_node *)b)->depth;
}

static void start_job(struct search *s)
{
	size_t n = bulk_steal_take(s->steal, s->roots, NODES_MAX);
	size_t room = sizeof(*s->rest) + NODES_MAX * sizeof(s->roots[0]);

	if (!n)
		return;
	atomic_store_explicit(&s->rest->stop, 0, memory_order_relaxed);
	atomic_store_explicit(&s->rest->n, 0, memory_order_relaxed);
	if (fk_submit(s->rank.client, s->rank.task, 0, &s->job, s->tree->name,
		      FK_BUFFER(s->roots, n * sizeof(s->roots[0])), FK_BUFFER(s->rest, room)))
		rank_fail("cannot submit a job: %s", fk_error_text());
	s->jobs++;
}

static void end_job(struct search *s)
{
	uint32_t n = atomic_load_explicit(&s->rest->n, memory_order_relaxed);
	struct uts_count part;

	rank_result(&s->rank, s->job, &part, sizeof(part));
	s->job = 0;
	uts_count_add(&s->count, &part);
	qsort(s->rest->nodes, n, sizeof(s->rest->nodes[0]), compare_depth);
	rank_check(bulk_steal_push(s->steal, s->rest->nodes, n), "keep the rest of a job");
}

/* Visits nodes on this thread, depth first. */
static void walk_plain(struct search *s)
{
	struct uts_node node, child;

	for (int i = 0; i < PLAIN_NODES && bulk_steal_take(s->steal, &node, 1); i++) {
		int32_t n = uts_children(s->tree, &node);
		struct uts_count count = { 1, !n, node.depth };

		uts_count_add(&s->count, &count);
		while (n) {
			uts_child(&node, --n, &child);
			rank_check(bulk_steal_push(s->steal, &child, 1), "keep a node");
		}
	}
}

static void search(struct search *s)
{
	bool asked, ended;

	for (;;) {
		rank_check(bulk_steal_poll(s->steal, s->job, &asked, &ended), "exchange work");
		if (ended)
			return;
		if (s->job) {
			int err;

			if (asked)
				atomic_store_explicit(&s->rest->stop, 1, memory_order_relaxed);
			err = fk_wait(s->rank.client, s->job, BUSY_POLL_NS);
			if (!err)
				end_job(s);
			else if (err != -ETIMEDOUT)
				rank_check_pool(err, "wait for a job");
			continue;
		}
		if (!bulk_steal_n(s->steal))
			nanosleep(&(const struct timespec){ .tv_nsec = IDLE_POLL_NS }, NULL);
		else if (s->rank.client)
			start_job(s);
		else
			walk_plain(s);
	}
}

/* The report of a rank; rank 0 gathers them. */
struct report {
	struct uts_count count;
	struct bulk_steal_counts steal;
	uint64_t jobs;
};

/* Prints a row for each rank, and returns the sum. */
static struct uts_count print_reports(const struct report *reports, int n)
{
	struct uts_count sum = { 0, 0, 0 };

	printf("rank      nodes  jobs  requests  answered  refused  nodes-out   nodes-in  messages"
	       "      bytes  idle-s\n");
	for (int i = 0; i < n; i++) {
		const struct bulk_steal_counts *c = &reports[i].steal;

		uts_count_add(&sum, &reports[i].count);
		printf("%4d %10" PRId64 " %5" PRIu64 " %9" PRIu64 " %9" PRIu64 " %8" PRIu64
		       " %10" PRIu64 " %10" PRIu64 " %9" PRIu64 " %10" PRIu64 " %7.4f\n",
		       i, reports[i].count.nodes, reports[i].jobs, c->requests, c->answered,
		       c->refused, c->items_sent, c->items_received, c->messages, c->bytes,
		       c->idle);
	}
	return sum;
}

static bool is_known(int64_t value, int64_t known)
{
	return known < 0 || value == known;
}

/* Prints all on rank 0. Returns the exit status. */
static int report(const struct search *s, double seconds)
{
	const struct report mine = { s->count, *bulk_steal_counts(s->steal), s->jobs };
	struct report *all = calloc((size_t)s->rank.size, sizeof(*all));
	const struct uts_count *known = &s->tree->known;
	struct uts_count sum;
	bool right;

	if (!all)
		rank_fail("no memory for the reports");
	rank_check(MPI_Gather(&mine, sizeof(mine), MPI_BYTE, all, sizeof(mine), MPI_BYTE, 0,
			      MPI_COMM_WORLD),
		   "gather the reports");
	if (s->rank.rank) {
		free(all);
		return 0;
	}
	sum = print_reports(all, s->rank.size);
	free(all);
	right = is_known(sum.nodes, known->nodes) && is_known(sum.leaves, known->leaves) &&
		is_known(sum.depth, known->depth);
	printf("%s: nodes %" PRId64 ", leaves %" PRId64 ", depth %" PRId64 ": %s; %.4f s\n",
	       s->tree->name, sum.nodes, sum.leaves, sum.depth, right ? "right" : "WRONG", seconds);
	return !right;
}

int main(int argc, char *argv[])
{
	const char *name = "T1";
	const struct rank_option options[] = { { "tree", &name }, { NULL, NULL } };
	struct search s = {
		.rank = rank_start(argc, argv, help, options, true),
	};
	struct uts_node root;
	bool asked, ended;
	double start;
	int status;

	s.tree = uts_tree_find(name);
	if (!s.tree)
		rank_usage("--tree: there is no tree '%s'", name);
	rank_open(&s.rank, EXPLORE_MODULE, "explore:explore", UINT64_C(16) << 20);
	if (s.rank.client) {
		s.roots = rank_alloc(&s.rank, NODES_MAX * sizeof(s.roots[0]));
		s.rest =
			rank_alloc(&s.rank, sizeof(*s.rest) + NODES_MAX * sizeof(s.rest->nodes[0]));
	}
	rank_check(bulk_steal_new(MPI_COMM_WORLD, sizeof(root), &s.steal), "start");
	uts_root(s.tree, &root);
	if (!s.rank.rank)
		rank_check(bulk_steal_push(s.steal, &root, 1), "keep the root");
	/* The other ranks ask for work before the search begins. */
	rank_check(bulk_steal_poll(s.steal, false, &asked, &ended), "ask for work");
	rank_check(MPI_Barrier(MPI_COMM_WORLD), "meet the other ranks");
	start = MPI_Wtime();
	search(&s);
	status = report(&s, MPI_Wtime() - start);
	bulk_steal_free(s.steal);
	rank_free(&s.rank, s.roots);
	rank_free(&s.rank, s.rest);
	rank_end(&s.rank);
	return status;
}
