/* SPDX-License-Identifier: MIT */
#include "tests/sim/dag.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/util.h"
#include "modules/uts_tree.h"
#include "tests/bench/work.h"

#define DAG_EPS	      1e-9
#define DAG_BLOCK     64u /* matmul: below this one leaf */
#define DAG_FIB_MAX   60u
#define DAG_LOOP_MAX  UINT64_C(10000000000)
#define DAG_MATRIX    (1u << 20)
#define DAG_CHUNK     (500 * (uint64_t)COSTS_PS_PER_NS)
#define DAG_CHAIN     UINT64_C(1)
#define DAG_MIDDLE(n) ((n) / 2)

DEFINE_CLEANUP(struct dag *, dag_free);

static void dag_leaf(uint64_t work, struct dag_step *ret_step)
{
	*ret_step = (struct dag_step){ .work = work, .act = DAG_RETURN };
}

/* FORK one half, CALL the other, JOIN, return. */
static void dag_halves(uint64_t *at, struct dag_task first, struct dag_task second, uint64_t work,
		       struct dag_step *ret_step)
{
	static const enum dag_act acts[] = { DAG_FORK, DAG_CALL, DAG_JOIN, DAG_RETURN };

	*ret_step = (struct dag_step){ .work = *at ? 0 : work,
				       .act = acts[*at],
				       .child = *at ? second : first };
	++*at;
}

/* fib(a): in closed form, work_fib_tasks(n) tasks below n. */
static void dag_fib(const struct dag *dag, const struct dag_task *task, uint64_t *at,
		    struct dag_step *ret_step)
{
	uint64_t work = (uint64_t)work_fib_tasks((int64_t)task->a) * dag->task;

	if (task->a < 2 || work <= dag->cutoff) {
		dag_leaf(work, ret_step);
		return;
	}
	dag_halves(at, (struct dag_task){ .a = task->a - 1 }, (struct dag_task){ .a = task->a - 2 },
		   dag->task, ret_step);
}

/* Returns the cost of the items [first, last): those below n_heavy are heavy. */
static uint64_t dag_items(const struct dag *dag, uint64_t first, uint64_t last)
{
	uint64_t heavy = min(last, dag->n_heavy) - min(first, dag->n_heavy);

	return heavy * dag->heavy + (last - first - heavy) * dag->light;
}

/* The flat loop forks one item after the other, and a thief gets one item and the rest of the loop.
 * So only items of less than DAG_CHUNK are combined into one fork. a: 0 for the loop, else one past
 * the first item of a chunk. */
static void dag_flat(const struct dag *dag, const struct dag_task *task, uint64_t *at,
		     struct dag_step *ret_step)
{
	uint64_t first = (*at)++ * dag->chunk;

	if (task->a) {
		first = task->a - 1;
		dag_leaf(dag_items(dag, first, min(first + dag->chunk, dag->n)), ret_step);
	} else if (first < dag->n) {
		*ret_step = (struct dag_step){ .act = DAG_FORK, .child = { .a = first + 1 } };
	} else {
		*ret_step = (struct dag_step){ .act = first < dag->n + dag->chunk ? DAG_JOIN
										  : DAG_RETURN };
	}
}

/* The range [a, b) is cut in halves, as for_each does. */
static void dag_for(const struct dag *dag, const struct dag_task *task, uint64_t *at,
		    struct dag_step *ret_step)
{
	uint64_t n = task->b - task->a, middle = task->a + DAG_MIDDLE(n);
	uint64_t work = dag_items(dag, task->a, task->b) + (n ? n - 1 : 0) * dag->fork;

	if (n <= 1 || work <= dag->cutoff) {
		dag_leaf(work, ret_step);
		return;
	}
	dag_halves(at, (struct dag_task){ .a = task->a, .b = middle },
		   (struct dag_task){ .a = middle, .b = task->b }, dag->fork, ret_step);
}

/*
 * a: m and k, 32 bits each; b: n. The largest of the three is halved. The halves of m and n run in
 * parallel, those of k one after the other, because they add to the same block (libfork's matmul).
 */
static void dag_matmul(const struct dag *dag, const struct dag_task *task, uint64_t *at,
		       struct dag_step *ret_step)
{
	uint64_t m = task->a >> 32, k = (uint32_t)task->a, n = task->b;
	uint64_t work = 2 * m * k * n * dag->task / COSTS_PS_PER_NS;
	uint64_t largest = max(m, n);
	struct dag_task first = *task, second = *task;
	bool start = !*at;

	largest = max(largest, k);

	if (largest <= DAG_BLOCK || work <= dag->cutoff) {
		dag_leaf(work, ret_step);
		return;
	}
	if (largest == m) {
		first.a = DAG_MIDDLE(m) << 32 | k;
		second.a = (m - DAG_MIDDLE(m)) << 32 | k;
	} else if (largest == n) {
		first.b = DAG_MIDDLE(n);
		second.b = n - DAG_MIDDLE(n);
	} else {
		first.a = m << 32 | DAG_MIDDLE(k);
		second.a = m << 32 | (k - DAG_MIDDLE(k));
	}
	dag_halves(at, first, second, 0, ret_step);
	if (largest != m && largest != n && start)
		ret_step->act = DAG_CALL;
}

/* A chain of n leaves, each called by the one before: there is nothing to steal. */
static void dag_serial(const struct dag *dag, const struct dag_task *task, uint64_t *at,
		       struct dag_step *ret_step)
{
	if (task->a == DAG_CHAIN)
		dag_leaf(dag->task, ret_step);
	else if ((*at)++ < dag->n)
		*ret_step = (struct dag_step){ .act = DAG_CALL, .child = { .a = DAG_CHAIN } };
	else
		dag_leaf(0, ret_step);
}

/* FORK of a short leaf, then of one as long as the n that follow, one fork each. While it runs,
 * they are hidden behind it. a: 0 for the task itself, else the length of a leaf in cutoffs. */
static void dag_hidden(const struct dag *dag, const struct dag_task *task, uint64_t *at,
		       struct dag_step *ret_step)
{
	if (task->a) {
		dag_leaf(task->a * dag->task, ret_step);
		return;
	}
	*ret_step = (struct dag_step){ .act = *at < dag->n + 2	? DAG_FORK
					    : *at == dag->n + 2 ? DAG_JOIN
								: DAG_RETURN,
				       .child = { .a = *at == 1 ? dag->n : 1 } };
	++*at;
}

/* a: a record. The position is the next child's, relative to the record after the task's own. */
static void dag_tree(const struct dag *dag, const struct dag_task *task, uint64_t *at,
		     struct dag_step *ret_step)
{
	const struct tree_record *records = dag->tree->records;
	uint64_t end = records[task->a].end, child = task->a + 1 + *at;

	if (end == task->a + 1) {
		dag_leaf(records[task->a].own, ret_step);
	} else if (child < end) {
		*ret_step = (struct dag_step){ .work = records[child].pre,
					       .act = records[child].called ? DAG_CALL : DAG_FORK,
					       .child = { .a = child } };
		*at = records[child].end - task->a - 1;
	} else if (child == end) {
		*ret_step = (struct dag_step){ .act = DAG_JOIN };
		++*at;
	} else {
		dag_leaf(records[task->a].own, ret_step);
	}
}

/* Walks the irregular computations as the modules do, with tree_work() for the costs. */
struct dag_walk {
	struct tree *tree;
	const struct uts_tree *uts;
	uint64_t cost;
	int32_t n;
};

static void dag_walk_uts(const struct dag_walk *walk, struct tree_cursor *parent,
			 const struct uts_node *node)
{
	int32_t n = uts_children(walk->uts, node);
	struct tree_cursor cursor;

	tree_begin(walk->tree, parent, false, &cursor);
	tree_work(&cursor, walk->cost);
	for (int32_t i = 0; i < n; i++) {
		struct uts_node child;

		uts_child(node, i, &child);
		dag_walk_uts(walk, &cursor, &child);
	}
	tree_end(walk->tree, parent, &cursor);
}

static void dag_walk_integrate(const struct dag_walk *walk, struct tree_cursor *parent,
			       const struct work_strip *strip, bool called)
{
	struct work_strip left, right;
	struct tree_cursor cursor;
	bool leaf = work_strip_halve(strip, DAG_EPS, &left, &right);

	tree_begin(walk->tree, parent, called, &cursor);
	tree_work(&cursor, walk->cost);
	if (!leaf) {
		dag_walk_integrate(walk, &cursor, &left, false);
		dag_walk_integrate(walk, &cursor, &right, true);
	}
	tree_end(walk->tree, parent, &cursor);
}

/* Returns the number of pairs that work_board_ok() compares for a board whose rows before the last
 * one do not conflict: each row with all that follow it, up to the first conflict. */
static int32_t dag_pairs(const struct work_board *board, int32_t row, bool *ret_ok)
{
	int32_t pairs = 0, q = board->column[row];

	for (int32_t i = 0; i < row; i++) {
		int32_t p = board->column[i];

		pairs += row - i;
		if (q == p || q == p - (row - i) || q == p + (row - i)) {
			*ret_ok = false;
			return pairs;
		}
	}
	*ret_ok = true;
	return pairs;
}

static void dag_walk_nqueens(const struct dag_walk *walk, struct tree_cursor *parent, int32_t row,
			     struct work_board *board)
{
	struct tree_cursor cursor;

	tree_begin(walk->tree, parent, false, &cursor);
	for (int32_t i = 0; row < walk->n && i < walk->n; i++) {
		bool ok;

		board->column[row] = (int8_t)i;
		/* The copy of the board and the call around the test: as much as a pair. */
		tree_work(&cursor, (uint64_t)(dag_pairs(board, row, &ok) + 1) * walk->cost);
		if (ok)
			dag_walk_nqueens(walk, &cursor, row + 1, board);
	}
	tree_end(walk->tree, parent, &cursor);
}

static int dag_plant(struct dag *dag, const char *kind, const char *size, uint64_t n)
{
	struct dag_walk walk = { .cost = dag->task, .n = (int32_t)n };

	dag->tree = calloc(1, sizeof(*dag->tree));
	if (!dag->tree)
		return -ENOMEM;
	tree_init(dag->tree, dag->cutoff);
	walk.tree = dag->tree;
	if (!strcmp(kind, "uts")) {
		struct uts_node root;

		walk.uts = uts_tree_find(size);
		if (!walk.uts)
			return -EINVAL;
		uts_root(walk.uts, &root);
		dag_walk_uts(&walk, NULL, &root);
	} else if (!strcmp(kind, "nqueens")) {
		struct work_board board = { { 0 } };

		if (n < 1 || n > WORK_BOARD_MAX)
			return -EINVAL;
		dag_walk_nqueens(&walk, NULL, 0, &board);
	} else {
		struct work_strip whole = work_strip_whole((double)n);

		dag_walk_integrate(&walk, NULL, &whole, false);
	}
	dag->next = dag_tree;
	return dag->tree->failed ? -ENOMEM : 0;
}

static int dag_fill(struct dag *dag, const struct costs *costs, const char *kind, const char *size,
		    uint64_t rounds)
{
	uint64_t n = strtoull(size, NULL, 10);

	dag->n = n;
	dag->fork = costs->fork;
	if (!strcmp(kind, "fib")) {
		dag->next = dag_fib;
		dag->task = costs->fib_task;
		dag->root.a = n;
		return n <= DAG_FIB_MAX ? 0 : -EINVAL;
	}
	if (!strcmp(kind, "flat")) {
		dag->next = dag_flat;
		dag->light = costs->flat_task + rounds * costs->flat_round;
		dag->chunk = max(min(dag->cutoff, DAG_CHUNK) / (dag->light + !dag->light), 1u);
		return n && n <= DAG_LOOP_MAX ? 0 : -EINVAL;
	}
	if (!strcmp(kind, "for") || !strcmp(kind, "imbalanced")) {
		dag->next = dag_for;
		dag->light = costs->for_item;
		dag->heavy = costs->for_heavy;
		dag->n_heavy = *kind == 'i' ? n / 10 : 0;
		dag->root.b = n;
		return n && n <= DAG_LOOP_MAX ? 0 : -EINVAL;
	}
	if (!strcmp(kind, "matmul")) {
		dag->next = dag_matmul;
		dag->task = costs->matmul_flop * COSTS_PS_PER_NS;
		dag->root = (struct dag_task){ .a = n << 32 | n, .b = n };
		return n && n <= DAG_MATRIX ? 0 : -EINVAL;
	}
	if (!strcmp(kind, "serial")) {
		dag->next = dag_serial;
		dag->task = dag->cutoff;
		return n ? 0 : -EINVAL;
	}
	if (!strcmp(kind, "hidden")) {
		dag->next = dag_hidden;
		dag->task = dag->cutoff;
		return n ? 0 : -EINVAL;
	}
	dag->task = !strcmp(kind, "uts")       ? costs->uts_node
		  : !strcmp(kind, "nqueens")   ? costs->nqueens_pair
		  : !strcmp(kind, "integrate") ? costs->integrate_task
					       : 0;
	return dag->task ? dag_plant(dag, kind, size, n) : -EINVAL;
}

struct dag *dag_free(struct dag *dag)
{
	if (!dag)
		return NULL;
	if (dag->tree)
		tree_fini(dag->tree);
	free(dag->tree);
	free(dag);
	return NULL;
}

int dag_new(const char *description, const struct costs *costs, uint64_t cutoff, char *error,
	    uint64_t error_size, struct dag **ret_dag)
{
	_cleanup_(dag_freep) struct dag *dag = calloc(1, sizeof(*dag));
	char kind[16] = "", size[16] = "";
	unsigned long long rounds = 0;
	int r;

	if (!dag)
		return -ENOMEM;
	dag->cutoff = cutoff;
	snprintf(dag->name, sizeof(dag->name), "%s", description);
	r = sscanf(description, "%15s %15s %llu", kind, size, &rounds) >= 2
		  ? dag_fill(dag, costs, kind, size, rounds)
		  : -EINVAL;
	if (r < 0) {
		snprintf(error, error_size, "%s: %s", description,
			 r == -EINVAL ? "not a computation that dag.h has, or of no such size"
				      : strerror(-r));
		return r;
	}
	*ret_dag = steal_ptr(dag);
	return 0;
}

/* The end of a path through a computation: its length, and its forks and calls. */
struct dag_way {
	uint64_t time, edges;
};

static struct dag_way dag_longer(struct dag_way a, struct dag_way b)
{
	return (struct dag_way){ .time = max(a.time, b.time), .edges = max(a.edges, b.edges) };
}

/* Returns how far after here the task ends; adds to the rest. */
static struct dag_way dag_walk_span(const struct dag *dag, const struct dag_task *task,
				    struct dag_way here, struct dag_measure *m)
{
	struct dag_way children = here, below = here;
	uint64_t at = 0, n = 0;
	struct dag_step step;

	for (;;) {
		dag->next(dag, task, &at, &step);
		here.time += step.work;
		m->work += step.work;
		switch (step.act) {
		case DAG_RETURN:
			m->leaves += !n;
			return here;
		case DAG_JOIN:
			here = dag_longer(here, children);
			continue;
		case DAG_FORK:
		case DAG_CALL:
			n++;
			here.edges++;
			below = dag_walk_span(dag, &step.child, here, m);
			break;
		}
		if (step.act == DAG_FORK) {
			m->forks++;
			children = dag_longer(children, below);
		} else {
			here = below;
		}
	}
}

void dag_measure(const struct dag *dag, struct dag_measure *ret_measure)
{
	struct dag_way way;

	*ret_measure = (struct dag_measure){ .work = 0 };
	way = dag_walk_span(dag, &dag->root, (struct dag_way){ .time = 0 }, ret_measure);
	ret_measure->span = way.time;
	ret_measure->depth = way.edges;
}
