/* SPDX-License-Identifier: MIT */
/*
 * NUMA: on a machine with several nodes, the pages of each worker are on its own node.
 *
 * Needs two nodes with CPUs and memory, such as the machines of tests/numa/numa; otherwise it is
 * skipped.
 */
#include <check.h>
#include <stdio.h>
#include <sys/mman.h>

#include "daemon/core/worker.h"
#include "daemon/host/topology.h"
#include "tests/support/check_unit.h"
#include "tests/numa/numa_pages.h"
#include "tests/support/rig.h"
#include "tests/support/tasks.h"

static struct rig rig;

FK_MODULE(t, "test tasks")

extern const struct fk_module fk_module;

/* Checks that all resident pages of the range are on the node. Returns their number. */
static uint64_t check_range(const char *what, uint32_t index, const void *start, const void *end,
			    uint32_t node)
{
	struct numa_pages pages;
	uint64_t elsewhere = 0;

	ck_assert_int_eq(numa_pages_count(0, (uintptr_t)start, (uintptr_t)end, &pages), 0);
	for (uint32_t i = 0; i < NUMA_PAGES_NODES; i++)
		elsewhere += i == node ? 0 : pages.node[i];
	ck_assert_msg(elsewhere == 0, "%s %u: %llu pages not on node %u", what, index,
		      (unsigned long long)elsewhere, node);
	return pages.node[node];
}

START_TEST(pages_of_each_worker_are_on_its_node)
{
	/* Two workers on each CPU: enough for every node, whatever the machine. */
	uint32_t n;
	uint64_t entries = 0;

	rig_start(&rig, 2 * (uint32_t)sysconf(_SC_NPROCESSORS_ONLN), &fk_module, false);
	n = rig.pool->n_workers;
	for (int i = 0; i < 20; i++)
		ck_assert_int_eq(rig_call(&rig, "t:fib", 20), 6765);
	ck_assert_uint_ge(rig.pool->n_groups, 2);
	for (uint32_t i = 0; i < n; i++) {
		struct worker *w = &rig.pool->workers[i];
		uint32_t node = topology_memory(rig.pool->topology, w->group);

		ck_assert_uint_ge(check_range("struct of worker", i, w, w + 1, node), 1);
		/* Not every worker has run a job. */
		entries += check_range("deque of worker", i, w->engine.frames.entries,
				       w->engine.frames.entries + w->engine.frames.capacity, node);
	}
	ck_assert_uint_ge(entries, 1);
	for (uint32_t g = 0; g < rig.pool->n_groups; g++) {
		struct stack_arena *arena = &rig.pool->stacks[g];

		ck_assert_uint_ge(check_range("stacklets of group", g, arena->begin, arena->next,
					      topology_memory(rig.pool->topology, g)),
				  2);
	}
	rig_stop(&rig);
}
END_TEST

START_TEST(memory_of_each_worker_is_on_its_node_whichever_thread_touches_it)
{
	struct topology *t = NULL;
	size_t size = 16 << 20;
	char error[256] = "";

	ck_assert_int_eq(topology_new(NULL, 0, 0, NULL, error, sizeof(error), &t), 0);
	for (uint32_t i = 0; i < topology_n_workers(t); i++) {
		char *memory =
			mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

		ck_assert_ptr_ne(memory, MAP_FAILED);
		ck_assert_int_eq(topology_bind_memory(t, i, memory, size), 0);
		memset(memory, 1, size);
		ck_assert_uint_eq(check_range("memory of worker", i, memory, memory + size,
					      topology_memory(t, topology_place(t, i)->group)),
				  size / (size_t)sysconf(_SC_PAGESIZE));
		munmap(memory, size);
	}
	topology_free(t);
}
END_TEST

static uint32_t n_groups(void)
{
	struct topology *t = NULL;
	uint32_t n = 0;

	if (topology_new(NULL, 0, 0, NULL, NULL, 0, &t) == 0)
		n = topology_n_groups(t);
	topology_free(t);
	return n;
}

int main(void)
{
	if (n_groups() < 2) {
		puts("skipped: this machine has one NUMA node");
		return 77;
	}
	return check_unit_main("numa");
}
