/* SPDX-License-Identifier: MIT */
/*
 * demo.h - what the demonstration programs share
 *
 * Each of them submits its jobs, checks the answers by itself, and prints one line of three
 * columns, separated by tabs: what was computed, the answer, the known right one. With --hold it
 * then keeps its connection until its standard input ends, so that its row stays on the board.
 */
#ifndef CONTRIB_DEMO_H
#define CONTRIB_DEMO_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <forkd/client.h>

/* Ends the program with one line if something has failed. */
static inline void demo_must(int err, const char *what)
{
	if (!err)
		return;
	(void)fprintf(stderr, "%s: %s\n", what, fk_strerror(err));
	exit(EXIT_FAILURE);
}

static inline fk_client *demo_open(uint32_t n_jobs, uint64_t heap_size)
{
	struct fk_open_options options = { .n_jobs = n_jobs, .heap_size = heap_size };
	fk_client *client;

	if (!fk_open(NULL, &options, &client))
		return client;
	(void)fprintf(stderr, "%s\n", fk_error_text());
	exit(EXIT_FAILURE);
}

/* Prints the line, holds, closes. Returns the exit code. */
static inline int demo_end(fk_client *client, int argc, char *argv[], const char *what,
			   const char *answer, const char *right)
{
	char unused[64];

	printf("%s\t%s\t%s\n", what, answer, right);
	(void)fflush(stdout);
	if (argc > 1 && strcmp(argv[1], "--hold") == 0)
		while (read(STDIN_FILENO, unused, sizeof(unused)) > 0)
			;
	(void)fk_close(client);
	return strcmp(answer, right) == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

#endif
