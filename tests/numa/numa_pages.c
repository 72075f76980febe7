/* SPDX-License-Identifier: MIT */
/*
 * numa_pages.c - the NUMA nodes of the pages of a running pool
 *
 *	numa_pages PID [START-END ...]
 *
 * Prints a line for each range (hexadecimal, as in /proc/PID/maps): the range, NODE:PAGES for each
 * node with pages, and the number of absent pages. The default ranges are those of the arena. The
 * kernel splits it by policy, so by the workers' nodes, and each line then has the node of the
 * policy as well.
 *
 * Exit status 1 if a page is on another node; if the policies have fewer than two nodes (the pool
 * has bound nothing, or this machine has one node); or if a node of a policy has no page of its
 * ranges. check_numa checks the memory of each worker.
 */
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/cleanup.h"
#include "tests/numa/numa_pages.h"

#define ARENA "/memfd:forkd-arena"
#define NONE  UINT32_MAX

/* wanted: the node, or NONE. Adds to ret_there its pages that are on that node. */
static int show(pid_t pid, const char *range, uint32_t wanted, uint64_t *ret_there)
{
	uint64_t elsewhere = 0;
	struct numa_pages pages;
	uint64_t start, end;
	int r;

	if (sscanf(range, "%" SCNx64 "-%" SCNx64, &start, &end) != 2) {
		fprintf(stderr, "numa_pages: %s: not START-END in hexadecimal\n", range);
		return EXIT_FAILURE;
	}
	r = numa_pages_count(pid, start, end, &pages);
	if (r < 0) {
		fprintf(stderr, "numa_pages: pages of process %d: %s\n", (int)pid, strerror(-r));
		return EXIT_FAILURE;
	}
	printf("%" PRIx64 "-%" PRIx64, start, end);
	if (wanted != NONE)
		printf(" for %u:", wanted);
	for (uint32_t i = 0; i < NUMA_PAGES_NODES; i++) {
		if (pages.node[i])
			printf(" %u:%" PRIu64, i, pages.node[i]);
		if (i != wanted)
			elsewhere += pages.node[i];
	}
	printf(" absent:%" PRIu64 "\n", pages.absent);
	if (wanted == NONE)
		return EXIT_SUCCESS;
	*ret_there += pages.node[wanted];
	if (!elsewhere)
		return EXIT_SUCCESS;
	printf("%" PRIu64 " pages are not on node %u\n", elsewhere, wanted);
	return EXIT_FAILURE;
}

/* Returns the node of the policy of the range at start, such as "prefer:1"; NONE for the default
 * policy, or several nodes. */
static uint32_t wanted_node(pid_t pid, uint64_t start)
{
	_cleanup_fclose_ FILE *maps = NULL;
	char path[64], line[512], rest[8];

	(void)snprintf(path, sizeof(path), "/proc/%d/numa_maps", (int)pid);
	maps = fopen(path, "re");
	while (maps && fgets(line, sizeof(line), maps)) {
		uint64_t at;
		uint32_t node;

		if (sscanf(line, "%" SCNx64, &at) != 1 || at != start)
			continue;
		/* NODE and a blank: otherwise it is a list, as in "interleave:0-3". */
		if (sscanf(line, "%*x %*[^:=]:%" SCNu32 "%1[ ]", &node, rest) == 2 &&
		    node < NUMA_PAGES_NODES)
			return node;
		return NONE;
	}
	return NONE;
}

static int show_arena(pid_t pid)
{
	_cleanup_fclose_ FILE *maps = NULL;
	char path[64], line[512];
	bool asked[NUMA_PAGES_NODES] = { false };
	uint64_t there[NUMA_PAGES_NODES] = { 0 };
	uint32_t n = 0, n_wanted = 0;
	int r = EXIT_SUCCESS;

	(void)snprintf(path, sizeof(path), "/proc/%d/maps", (int)pid);
	maps = fopen(path, "re");
	if (!maps) {
		fprintf(stderr, "numa_pages: %s: %s\n", path, strerror(errno));
		return EXIT_FAILURE;
	}
	while (fgets(line, sizeof(line), maps)) {
		uint32_t wanted;

		if (!strstr(line, ARENA))
			continue;
		n++;
		wanted = wanted_node(pid, strtoull(line, NULL, 16));
		if (wanted != NONE)
			asked[wanted] = true;
		if (show(pid, line, wanted, wanted == NONE ? NULL : &there[wanted]) != EXIT_SUCCESS)
			r = EXIT_FAILURE;
	}
	if (!n) {
		fprintf(stderr, "numa_pages: process %d maps no arena: give the pool's pid\n",
			(int)pid);
		return EXIT_FAILURE;
	}
	for (uint32_t node = 0; node < NUMA_PAGES_NODES; node++) {
		n_wanted += asked[node];
		if (!asked[node] || there[node])
			continue;
		printf("no page of those for node %u is there\n", node);
		r = EXIT_FAILURE;
	}
	if (n_wanted >= 2)
		return r;
	printf("the arena is for %u nodes, not for two or more\n", n_wanted);
	return EXIT_FAILURE;
}

int main(int argc, char **argv)
{
	pid_t pid = argc > 1 ? atoi(argv[1]) : 0;
	int r = EXIT_SUCCESS;

	if (pid <= 0) {
		fputs("usage: numa_pages PID [START-END ...]\n", stderr);
		return 2;
	}
	if (argc == 2)
		return show_arena(pid);
	for (int i = 2; i < argc && r == EXIT_SUCCESS; i++)
		r = show(pid, argv[i], NONE, NULL);
	return r;
}
