/* SPDX-License-Identifier: MIT */
/*
 * tests/numa_pages.c - where the pages of a running pool are
 *
 *	numa_pages PID [START-END ...]
 *
 * For each range (hexadecimal, as in /proc/PID/maps) a line: the range, NODE:PAGES for each node
 * that has some, and how many pages are not there. Without ranges: those of the arena, which the
 * kernel splits where the policy changes, so by the workers' nodes.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/cleanup.h"
#include "tests/numa_pages.h"

#define ARENA "/memfd:forkd-arena"

static int show(pid_t pid, const char *range)
{
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
	for (uint32_t i = 0; i < NUMA_PAGES_NODES; i++)
		if (pages.node[i])
			printf(" %u:%" PRIu64, i, pages.node[i]);
	printf(" absent:%" PRIu64 "\n", pages.absent);
	return EXIT_SUCCESS;
}

static int show_arena(pid_t pid)
{
	_cleanup_fclose_ FILE *maps = NULL;
	char path[64], line[512];
	int r = EXIT_FAILURE;

	(void)snprintf(path, sizeof(path), "/proc/%d/maps", (int)pid);
	maps = fopen(path, "re");
	if (!maps) {
		fprintf(stderr, "numa_pages: %s: %s\n", path, strerror(errno));
		return EXIT_FAILURE;
	}
	while (fgets(line, sizeof(line), maps)) {
		if (!strstr(line, ARENA))
			continue;
		r = show(pid, line);
		if (r != EXIT_SUCCESS)
			return r;
	}
	if (r != EXIT_SUCCESS)
		fprintf(stderr, "numa_pages: process %d maps no arena: give the pool's pid\n",
			(int)pid);
	return r;
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
		r = show(pid, argv[i]);
	return r;
}
