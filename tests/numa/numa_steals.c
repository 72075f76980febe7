/* SPDX-License-Identifier: MIT */
/*
 * numa_steals.c - the distances of steal attempts, compared with the weights of victims
 *
 *	forkctl counters | numa_steals
 *
 * WHAT IT COMPARES
 *   Attempts: each is one independent draw from the thief's table of victims. So the levels of a
 *   worker's attempts have the shares of the formula of daemon/host/victims.h, which a chi-square
 *   test checks. The formula is computed here again, from the distances of this machine's topology.
 *   forkd must have one worker for each core.
 *   Steals are attempts at workers with public entries. Their shares are printed, and not compared:
 *   they depend on how often each victim has work. Each level must have some.
 *
 * Exit status: 0; 1 if attempts do not follow the weights, or are too few; 2 for invalid input.
 */
#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "daemon/host/topology.h"
#include "daemon/host/victims.h"

#define MAX	     16u   /* forkctl counters has no more columns */
#define EXPECTED_MIN 50.0  /* attempts in each level, for a valid chi-square test */
#define NORMAL	     4.753 /* the one-sided quantile of 1e-6 */

enum row { ATTEMPTS, ATTEMPTS_FAR, ATTEMPTS_FARTHER, STEALS, STEALS_FAR, STEALS_FARTHER, ROWS };

static const char *const names[ROWS] = {
	[ATTEMPTS] = "steal_attempts",
	[ATTEMPTS_FAR] = "attempts_far",
	[ATTEMPTS_FARTHER] = "attempts_farther",
	[STEALS] = "steals",
	[STEALS_FAR] = "steals_far",
	[STEALS_FARTHER] = "steals_farther",
};

struct input {
	uint64_t values[ROWS][MAX];
	uint32_t n[ROWS]; /* columns that were present */
};

DEFINE_CLEANUP(struct topology *, topology_free);
DEFINE_CLEANUP(struct victims *, victims_free);

/* A line of forkctl counters: COUNTER UNIT SUM POOL and one number for each worker. */
static void read_line(struct input *input, char *line)
{
	char *save, *name = strtok_r(line, " \n", &save);
	const char *cell;
	uint32_t row = 0;

	while (row < ROWS && (!name || strcmp(names[row], name) != 0))
		row++;
	if (row == ROWS)
		return;
	for (uint32_t i = 0; i < 3; i++)
		if (!strtok_r(NULL, " \n", &save))
			return;
	while (input->n[row] < MAX && (cell = strtok_r(NULL, " \n", &save)))
		input->values[row][input->n[row]++] = strtoull(cell, NULL, 10);
}

static bool read_counters(struct input *ret_input, uint32_t n)
{
	char line[512];

	memset(ret_input, 0, sizeof(*ret_input));
	while (fgets(line, sizeof(line), stdin))
		read_line(ret_input, line);
	for (uint32_t row = 0; row < ROWS; row++) {
		if (ret_input->n[row] == n)
			continue;
		fprintf(stderr, "numa_steals: %s: %u workers' numbers, not %u: %s\n", names[row],
			ret_input->n[row], n, "pipe what forkctl counters prints, of one per core");
		return false;
	}
	return true;
}

/* Returns the share of each level in worker i's picks, by the formula. */
static void share_levels(const struct topology *t, const struct victims *v, uint32_t i,
			 double ret_share[VICTIMS_LEVELS])
{
	uint32_t n = topology_n_workers(t);
	double sum = 0;

	for (uint32_t level = 0; level < VICTIMS_LEVELS; level++)
		ret_share[level] = 0;
	for (uint32_t j = 0; j < n; j++) {
		double r, part;
		uint32_t alike = 0;

		if (j == i)
			continue;
		r = topology_distance(t, i, j);
		for (uint32_t k = 0; k < n; k++)
			alike += k != i && topology_distance(t, i, k) == topology_distance(t, i, j);
		part = 1 / (alike * r * r);
		ret_share[victims_level(v, i, j)] += part;
		sum += part;
	}
	for (uint32_t level = 0; level < VICTIMS_LEVELS; level++)
		ret_share[level] /= sum;
}

/* Reads one worker's counts by level. */
static void take_levels(const struct input *input, uint32_t i, enum row first,
			double ret_count[VICTIMS_LEVELS])
{
	ret_count[1] = (double)input->values[first + 1][i];
	ret_count[2] = (double)input->values[first + 2][i];
	ret_count[0] = (double)input->values[first][i] - ret_count[1] - ret_count[2];
}

static void print_levels(const char *what, uint32_t node, const double share[VICTIMS_LEVELS],
			 const double tried[VICTIMS_LEVELS], const double taken[VICTIMS_LEVELS])
{
	double tries = tried[0] + tried[1] + tried[2], steals = taken[0] + taken[1] + taken[2];

	printf("%-6s %4" PRIu32 " %10.0f %8.0f", what, node, tries, steals);
	for (uint32_t level = 0; level < VICTIMS_LEVELS; level++)
		printf("  %6.2f %6.2f %6.2f", 100 * share[level], 100 * tried[level] / tries,
		       steals > 0 ? 100 * taken[level] / steals : 0);
	printf("\n");
}

/* Adds to chi-square and its degrees of freedom. Returns false if there are too few attempts. */
static bool add_chi(const double share[VICTIMS_LEVELS], const double tried[VICTIMS_LEVELS],
		    double *chi, uint32_t *freedom)
{
	double tries = tried[0] + tried[1] + tried[2];
	uint32_t levels = 0;

	for (uint32_t level = 0; level < VICTIMS_LEVELS; level++) {
		double expected = share[level] * tries, off = tried[level] - expected;

		if (share[level] == 0 && tried[level] == 0)
			continue;
		if (expected < EXPECTED_MIN)
			return false;
		*chi += off * off / expected;
		levels++;
	}
	*freedom += levels - 1;
	return true;
}

/* Wilson and Hilferty, 1931. */
static double chi_quantile(double freedom)
{
	double part = 2 / (9 * freedom);

	return freedom * pow(1 - part + NORMAL * sqrt(part), 3);
}

int main(void)
{
	_cleanup_(topology_freep) struct topology *t = NULL;
	_cleanup_(victims_freep) struct victims *v = NULL;
	double share[VICTIMS_LEVELS], tried[VICTIMS_LEVELS], taken[VICTIMS_LEVELS];
	double steals[VICTIMS_LEVELS] = { 0 }, possible[VICTIMS_LEVELS] = { 0 }, chi = 0;
	char error[256] = "no memory", worker[16];
	uint32_t n, freedom = 0;
	struct input input;
	bool good = true;

	if (topology_new(NULL, 0, 0, NULL, error, sizeof(error), &t) < 0 ||
	    topology_victims(t, &v) < 0) {
		fprintf(stderr, "numa_steals: %s\n", error);
		return 2;
	}
	n = topology_n_workers(t);
	if (!read_counters(&input, n))
		return 2;
	printf("%%: by the weights, of the attempts, of the steals\n%-6s %4s %10s %8s  %20s  %20s  "
	       "%20s\n",
	       "WORKER", "NODE", "ATTEMPTS", "STEALS", "OWN NODE", "NEAREST NODES", "BEYOND");
	for (uint32_t i = 0; i < n; i++) {
		share_levels(t, v, i, share);
		take_levels(&input, i, ATTEMPTS, tried);
		take_levels(&input, i, STEALS, taken);
		(void)snprintf(worker, sizeof(worker), "%" PRIu32, i);
		print_levels(worker, topology_place(t, i)->node, share, tried, taken);
		if (!add_chi(share, tried, &chi, &freedom)) {
			printf("worker %" PRIu32 ": too few attempts to tell\n", i);
			good = false;
		}
		for (uint32_t level = 0; level < VICTIMS_LEVELS; level++) {
			steals[level] += taken[level];
			possible[level] += share[level];
		}
	}
	for (uint32_t level = 0; level < VICTIMS_LEVELS; level++) {
		if (possible[level] > 0 && steals[level] == 0) {
			printf("no steal at level %" PRIu32 "\n", level);
			good = false;
		}
	}
	printf("attempts: chi-square %.1f of at most %.1f (%" PRIu32 " degrees of freedom)\n", chi,
	       freedom ? chi_quantile(freedom) : 0, freedom);
	return good && freedom && chi < chi_quantile(freedom) ? 0 : 1;
}
