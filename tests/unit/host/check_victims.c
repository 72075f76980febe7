/* SPDX-License-Identifier: MIT */
/* victims: the tables compared with the formula, which is computed here again in doubles and
 * without classes; and picked victims compared with both. */
#define CHECK_SETUP    NULL
#define CHECK_TEARDOWN end

#include "daemon/host/victims.h"

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "daemon/host/topology.h"
#include "tests/support/check_unit.h"

#define PICKS 1000000u

/* A synthetic machine: distance and group of workers i and j. */
struct machine {
	uint32_t n;
	uint32_t core, node, machine; /* workers of a core, a node, a package: a tree */
	uint32_t seed;		      /* instead: distances without order */
};

static uint32_t machine_distance(void *ctx, uint32_t i, uint32_t j)
{
	const struct machine *m = ctx;

	if (m->seed)
		return (i * 2654435761u ^ j * 40503u ^ m->seed) % 23;
	return i / m->core == j / m->core	? 1
	     : i / m->node == j / m->node	? 2
	     : i / m->machine == j / m->machine ? 3
						: 4;
}

static uint32_t machine_group(void *ctx, uint32_t i)
{
	const struct machine *m = ctx;

	return i / m->node;
}

static struct victims *v; /* that was created last */

static void end(void)
{
	v = victims_free(v);
}

static void make(struct machine *m)
{
	end();
	ck_assert_int_eq(victims_new(m->n, machine_distance, machine_group, m, &v), 0);
	ck_assert_uint_eq(v->n, m->n);
}

/* P(i picks each j) by the formula. */
static void formula(uint32_t n, uint32_t i, uint32_t (*distance)(void *, uint32_t, uint32_t),
		    void *ctx, double *ret_p)
{
	double sum = 0;

	for (uint32_t j = 0; j < n; j++) {
		double r = j == i ? 0 : fmax(distance(ctx, i, j), 1), alike = 0;

		ret_p[j] = 0;
		if (j == i)
			continue;
		for (uint32_t k = 0; k < n; k++)
			alike += k != i && fmax(distance(ctx, i, k), 1) == r;
		ret_p[j] = 1 / (alike * r * r);
		sum += ret_p[j];
	}
	for (uint32_t j = 0; j < n; j++)
		ret_p[j] /= sum;
}

/* Sums up the table's probability of each victim over its slots. */
static void check_table(uint32_t i, const double *p)
{
	uint32_t m = v->n - 1;
	double *got = calloc(v->n, sizeof(*got));

	for (uint32_t k = 0; k < m; k++) {
		const struct victims_slot *slot = &v->slots[(uint64_t)i * m + k];
		double below = slot->own == slot->other ? 1 : ldexp(slot->below, -32);

		ck_assert_uint_lt(slot->own, v->n);
		ck_assert_uint_lt(slot->other, v->n);
		got[slot->own] += below / m;
		got[slot->other] += (1 - below) / m;
	}
	ck_assert(got[i] == 0);
	for (uint32_t j = 0; j < v->n; j++)
		ck_assert_msg(fabs(got[j] - p[j]) <= ldexp(1, -30), "%u from %u: %.12f, not %.12f",
			      j, i, got[j], p[j]);
	free(got);
}

/* Checks that each other worker is included once, in order of distance. */
static void check_order(uint32_t i, uint32_t (*distance)(void *, uint32_t, uint32_t), void *ctx)
{
	const uint16_t *order = victims_order(v, i);
	bool *seen = calloc(v->n, sizeof(*seen));
	uint32_t last = 1;

	for (uint32_t k = 0; k + 1 < v->n; k++) {
		uint32_t r;

		ck_assert_uint_lt(order[k], v->n);
		ck_assert_uint_ne(order[k], i);
		ck_assert(!seen[order[k]]);
		seen[order[k]] = true;
		r = distance(ctx, i, order[k]);
		r = r ? r : 1;
		ck_assert_uint_ge(r, last);
		last = r;
	}
	free(seen);
}

static uint64_t next_random(uint64_t *state)
{
	/* splitmix64 (Steele, Lea and Flood, 2014); workers use another generator. */
	uint64_t z = (*state += UINT64_C(0x9e3779b97f4a7c15));

	z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
	return z ^ (z >> 31);
}

/* The 0.999 quantile of chi-square (Wilson and Hilferty, 1931). */
static double chi_quantile(double freedom)
{
	double part = 2 / (9 * freedom);

	return freedom * pow(1 - part + 3.0902 * sqrt(part), 3);
}

/* Picks victims, and compares the frequencies with p. */
static void check_picks(uint32_t i, const double *p, uint64_t seed)
{
	uint64_t *picked = calloc(v->n, sizeof(*picked));
	uint32_t wrong = 0;
	double chi = 0;

	for (uint32_t k = 0; k < PICKS; k++) {
		uint32_t j = victims_pick(v, i, next_random(&seed));

		wrong += j >= v->n || j == i;
		picked[j < v->n ? j : i]++;
	}
	ck_assert_uint_eq(wrong, 0);
	for (uint32_t j = 0; j < v->n; j++) {
		double expected = p[j] * PICKS;

		if (j == i)
			continue;
		/* Otherwise the approximation is invalid. */
		ck_assert(expected > 5);
		chi += (picked[j] - expected) * (picked[j] - expected) / expected;
	}
	if (v->n > 2)
		ck_assert_msg(chi < chi_quantile(v->n - 2), "worker %u: chi-square %.1f of %.1f", i,
			      chi, chi_quantile(v->n - 2));
	free(picked);
}

static void check_worker(uint32_t i, uint32_t (*distance)(void *, uint32_t, uint32_t), void *ctx,
			 bool picks)
{
	double *p = calloc(v->n, sizeof(*p));

	formula(v->n, i, distance, ctx, p);
	check_table(i, p);
	check_order(i, distance, ctx);
	if (picks)
		check_picks(i, p, 1000 * v->n + i);
	free(p);
}

static uint32_t topology_r(void *ctx, uint32_t i, uint32_t j)
{
	return topology_distance(ctx, i, j);
}

/* On a machine as topology_new() takes it. */
static void check_topology(const char *description, uint32_t workers, const char *name)
{
	char path[512], error[256] = "";
	const char *top = getenv("top_srcdir");
	struct topology *t = NULL;

	end();
	snprintf(path, sizeof(path), "xml:%s/tests/support/topologies/%s.xml", top ? top : ".",
		 name);
	ck_assert_msg(topology_new(description ? description : path, workers, 0, NULL, error,
				   sizeof(error), &t) == 0,
		      "%s", error);
	ck_assert_int_eq(topology_victims(t, &v), 0);
	ck_assert_uint_eq(v->n, topology_n_workers(t));
	for (uint32_t i = 0; i < v->n; i++) {
		/* Some of many for picks, all for the tables. */
		check_worker(i, topology_r, t, i % (v->n / 4 + 1) == 0);
		for (uint32_t j = 0; j < v->n; j++)
			ck_assert((victims_level(v, i, j) == 0) ==
				  (topology_place(t, i)->group == topology_place(t, j)->group));
	}
	topology_free(t);
}

START_TEST(frequencies_follow_the_formula_on_one_node)
{
	check_topology("core:8 pu:1", 0, "");
}
END_TEST

START_TEST(frequencies_follow_the_formula_on_two_nodes_of_56)
{
	check_topology("numa:2 core:56 pu:1", 0, "");
}
END_TEST

START_TEST(frequencies_follow_the_formula_on_eight_nodes)
{
	check_topology("numa:8 core:16 pu:1", 0, "");
}
END_TEST

START_TEST(frequencies_follow_the_formula_with_smt_and_with_more_workers_than_cpus)
{
	check_topology("numa:2 core:4 pu:2", 16, "");
	check_topology("numa:2 core:4 pu:2", 21, "");
}
END_TEST

START_TEST(frequencies_follow_the_formula_on_unlike_packages_and_in_a_ring)
{
	check_topology(NULL, 9, "asymmetric");
	check_topology(NULL, 0, "ring");
	check_topology(NULL, 0, "restricted");
}
END_TEST

START_TEST(tables_follow_the_formula_for_unordered_and_zero_distances)
{
	for (uint32_t n = 2; n <= 70; n += 17) {
		struct machine m = { .n = n, .node = 5, .seed = n + 1 };
		make(&m);
		for (uint32_t i = 0; i < n; i++)
			check_worker(i, machine_distance, &m, false);
	}
}
END_TEST

START_TEST(tables_follow_the_formula_on_the_largest_machine)
{
	struct machine m = { .n = 1024, .core = 2, .node = 128, .machine = 512 };

	make(&m);
	for (uint32_t i = 0; i < m.n; i += 341)
		check_worker(i, machine_distance, &m, false);
	check_worker(m.n - 1, machine_distance, &m, true);
}
END_TEST

START_TEST(class_is_picked_in_proportion_to_one_over_r_squared)
{
	/* From 0: 1 at 1, 2-3 at 2, 4-7 at 3, 8-31 at 4. */
	struct machine m = { .n = 32, .core = 2, .node = 4, .machine = 8 };
	const uint32_t from[] = { 1, 2, 4, 8, 32 };
	double sum = 1 + 1.0 / 4 + 1.0 / 9 + 1.0 / 16, p[32] = { 0 };

	make(&m);
	for (uint32_t k = 0; k < 4; k++)
		for (uint32_t j = from[k]; j < from[k + 1]; j++)
			p[j] = 1 / ((k + 1.0) * (k + 1)) / sum / (from[k + 1] - from[k]);
	check_table(0, p);
	check_picks(0, p, 7);
}
END_TEST

START_TEST(smallest_and_largest_random_numbers_give_victims)
{
	struct machine m = { .n = 56, .core = 1, .node = 28, .machine = 56 };

	make(&m);
	for (uint32_t i = 0; i < m.n; i++) {
		for (uint32_t bit = 0; bit <= 64; bit++) {
			uint64_t low = bit == 64 ? UINT64_MAX : (UINT64_C(1) << bit) - 1;

			ck_assert_uint_lt(victims_pick(v, i, low), m.n);
			ck_assert_uint_ne(victims_pick(v, i, low), i);
			ck_assert_uint_lt(victims_pick(v, i, ~low), m.n);
			ck_assert_uint_ne(victims_pick(v, i, ~low), i);
		}
	}
}
END_TEST

START_TEST(two_workers_pick_each_other_and_one_has_an_empty_order)
{
	struct machine m = { .n = 2, .core = 1, .node = 1, .machine = 1 };

	make(&m);
	ck_assert_uint_eq(victims_pick(v, 0, 0), 1);
	ck_assert_uint_eq(victims_pick(v, 1, UINT64_MAX), 0);
	ck_assert_uint_eq(victims_order(v, 0)[0], 1);
	ck_assert_uint_eq(victims_level(v, 0, 1), 1);
	m.n = 1;
	make(&m);
	ck_assert_uint_eq(victims_level(v, 0, 0), 0);
}
END_TEST

START_TEST(order_begins_after_the_worker_itself)
{
	struct machine m = { .n = 12, .core = 3, .node = 6, .machine = 12 };
	const uint16_t order[] = { 5, 3, 0, 1, 2, 6, 7, 8, 9, 10, 11 };

	make(&m);
	ck_assert(memcmp(victims_order(v, 4), order, sizeof(order)) == 0);
}
END_TEST

START_TEST(levels_are_own_node_nearest_others_and_the_rest)
{
	struct machine m = { .n = 16, .core = 2, .node = 4, .machine = 8 };

	make(&m);
	for (uint32_t i = 0; i < 16; i++)
		for (uint32_t j = 0; j < 16; j++)
			ck_assert_uint_eq(victims_level(v, i, j), i / 4 == j / 4   ? 0
								  : i / 8 == j / 8 ? 1
										   : 2);
	/* Without groups all are in the same one. */
	end();
	ck_assert_int_eq(victims_new(16, machine_distance, NULL, &m, &v), 0);
	for (uint32_t j = 0; j < 16; j++)
		ck_assert_uint_eq(victims_level(v, 3, j), 0);
}
END_TEST

START_TEST(no_worker_and_too_many_are_refused)
{
	struct machine m = { .core = 1, .node = 1, .machine = 1 };

	ck_assert_int_eq(victims_new(0, machine_distance, NULL, &m, &v), -EINVAL);
	ck_assert_int_eq(victims_new(VICTIMS_MAX + 1, machine_distance, NULL, &m, &v), -EINVAL);
	ck_assert_ptr_null(v);
	ck_assert_ptr_null(victims_free(NULL));
}
END_TEST

CHECK_MAIN("victims")
