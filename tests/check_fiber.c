/* SPDX-License-Identifier: MIT */
/*
 * Fibers on the workers of a pool in this process: what authors call does what forkd/fiber.h says,
 * on one worker and on several, told by results and counters.
 */
#include <check.h>
#include <errno.h>
#include <sched.h>
#include <stdlib.h>

#include <forkd/fiber.h>

#include "daemon/strand.h"
#include "tests/check_unit.h"
#include "tests/rig.h"
#include "tests/tasks.h"

static struct rig rig;

/* ------------------------------------------------------------------------ trees */

struct node {
	int64_t n;
	int64_t result;
};

static void fib_fiber(void *arg)
{
	struct node *self = arg, left, right;
	struct fk_counter both = FK_COUNTER;

	if (self->n < 2) {
		self->result = self->n;
		return;
	}
	left.n = self->n - 1;
	right.n = self->n - 2;
	if (fk_fiber_spawn(fib_fiber, &left, &both) < 0)
		return;
	if (fk_fiber_spawn(fib_fiber, &right, &both) < 0 && fk_counter_wait(&both, 0))
		return;
	if (fk_counter_wait(&both, 0) == 0)
		self->result = left.result + right.result;
}

FK_FIBER_TASK(int64_t, tree, (int64_t, n))
{
	struct node root = { .n = n };

	fib_fiber(&root);
	return root.result;
}
FK_EXPORT(tree, "n:i64 -> i64", 0, "The n-th Fibonacci number by fibers")

FK_MODULE(t, "What check_fiber runs")

START_TEST(a_tree_of_fibers_has_its_result)
{
	for (uint32_t workers = 1; workers <= 4; workers *= 2) {
		rig_start(&rig, workers, &fk_module, false);
		for (int i = 0; i < 20; i++)
			ck_assert_int_eq(rig_call(&rig, "t:tree", 12), 144);
		/* Of 465 calls each but the root's is a fiber, and the root is one as well. */
		ck_assert_uint_eq(rig_counter(&rig, fibers), 20 * 465);
		rig_stop(&rig);
	}
}
END_TEST

CHECK_MAIN("fiber", a_tree_of_fibers_has_its_result)
