/* SPDX-License-Identifier: MIT */
/* Short runs of the scale model: checks that hold in every simulation, for any costs. Simulated
 * times are determined by the costs and the seed, not by this machine. */
#define CHECK_TIMEOUT 300

#include <check.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/util.h"
#include "modules/uts_tree.h"
#include "tests/bench/work.h"
#include "tests/support/check_unit.h"
#include "tests/sim/sim.h"

#define PS	  COSTS_PS_PER_NS
#define CUTOFF	  (4000 * PS)
#define SPIN_NS	  50000u
#define TWO_BY_56 "numa:2 core:56 pu:1"
#define EIGHT_128 "pack:2 numa:4 core:128 pu:1"
#define FOUR_BY_2 "numa:4 core:2 pu:2"
/* The c of the bound: the cost of a steal, a join and a wake together, at most, on the span. */
#define BURDEN_PS (20000 * (uint64_t)PS)
/* Steals for each worker and each level of the computation. */
#define STEALS_C 4u

static const char *const computations[] = {
	"fib 30",     "integrate 100",	   "nqueens 9",	 "uts T1",    "flat 20000 1000",
	"for 100000", "imbalanced 100000", "matmul 512", "serial 40",
};

static struct dag *dag_of(const char *description, uint64_t cutoff, struct dag_measure *ret_measure)
{
	struct costs costs;
	struct dag *dag;
	char error[256] = "";

	costs_init(&costs);
	ck_assert_msg(dag_new(description, &costs, cutoff, error, sizeof(error), &dag) == 0, "%s",
		      error);
	dag_measure(dag, ret_measure);
	return dag;
}

static struct machine *machine_of(const char *description, uint32_t workers)
{
	struct costs costs;
	struct machine *machine;
	char error[256] = "";

	costs_init(&costs);
	ck_assert_msg(machine_new(description, workers, &costs, error, sizeof(error), &machine) ==
			      0,
		      "%s", error);
	return machine;
}

static struct sim_stats run(const struct machine *machine, const struct dag *dag,
			    struct sim_options options)
{
	struct sim_stats stats;

	options.spin = SPIN_NS;
	ck_assert_int_eq(sim_run(machine, dag, &options, &stats), 0);
	return stats;
}

static uint64_t steals(const struct sim_stats *s)
{
	return s->steals[0] + s->steals[1] + s->steals[2];
}

/* Checks that hold for every run. */
static void check_run(const char *name, uint32_t workers, const struct dag_measure *m,
		      const struct sim_stats *s)
{
	uint64_t share = m->work / workers, c = m->span + m->depth * BURDEN_PS;

	ck_assert_msg(!s->broken, "%s, %u workers: %s", name, workers, s->broken);
	ck_assert_msg(s->work == m->work, "%s, %u workers: work was lost or done twice", name,
		      workers);
	ck_assert_uint_eq(s->forks, m->forks);
	ck_assert_msg(s->t_p >= share && s->t_p >= m->span, "%s, %u workers: faster than can be",
		      name, workers);
	ck_assert_msg(s->t_p <= share + c + 2 * BURDEN_PS * workers,
		      "%s, %u workers: T_P %llu ps, T_1/P %llu, T_inf %llu, depth %llu", name,
		      workers, (unsigned long long)s->t_p, (unsigned long long)share,
		      (unsigned long long)m->span, (unsigned long long)m->depth);
	ck_assert_msg(steals(s) <= STEALS_C * (uint64_t)workers * (m->depth + 1),
		      "%s, %u workers: %llu steals, depth %llu", name, workers,
		      (unsigned long long)steals(s), (unsigned long long)m->depth);
	/* The thief of either joined last, or handed the frame over; each loss is joined. */
	ck_assert_uint_eq(s->forks_stolen, steals(s));
	ck_assert_uint_le(s->published, s->forks + s->unpublished);
	ck_assert_uint_le(s->peak_busy, workers);
}

static void check_on(const struct dag *dag, const struct dag_measure *m, const char *description,
		     uint32_t workers, bool busy)
{
	struct machine *machine = machine_of(description, workers);

	for (uint64_t seed = 1; seed <= 2; seed++) {
		struct sim_options options = {
			.seed = seed, .busy = busy, .warm = true, .check = true
		};
		struct sim_stats s = run(machine, dag, options);

		check_run(dag->name, workers, m, &s);
	}
	machine_free(machine);
}

START_TEST(work_is_conserved_and_time_is_bounded)
{
	static const uint32_t workers[] = { 1, 2, 3, 8, 40, 112 };

	for (size_t i = 0; i < ARRAY_SIZE(computations); i++) {
		struct dag_measure m;
		struct dag *dag = dag_of(computations[i], CUTOFF, &m);

		for (size_t k = 0; k < ARRAY_SIZE(workers); k++)
			check_on(dag, &m, TWO_BY_56, workers[k], false);
		dag_free(dag);
	}
}
END_TEST

START_TEST(model_holds_on_other_machines_and_with_the_busy_scheduler)
{
	struct dag_measure m;
	struct dag *dag = dag_of("uts T1", CUTOFF, &m);

	check_on(dag, &m, FOUR_BY_2, 16, false);
	check_on(dag, &m, FOUR_BY_2, 8, true);
	check_on(dag, &m, TWO_BY_56, 57, true);
	dag_free(dag);
	dag = dag_of("fib 33", CUTOFF, &m);
	check_on(dag, &m, FOUR_BY_2, 5, false);
	check_on(dag, &m, EIGHT_128, 1024, false);
	dag_free(dag);
}
END_TEST

START_TEST(seed_determines_a_run)
{
	struct machine *machine = machine_of(TWO_BY_56, 24);
	struct dag_measure m;
	struct dag *dag = dag_of("uts T1", CUTOFF, &m);
	struct sim_stats a = run(machine, dag, (struct sim_options){ .seed = 5 });
	struct sim_stats b = run(machine, dag, (struct sim_options){ .seed = 5 });
	struct sim_stats other = run(machine, dag, (struct sim_options){ .seed = 6 });

	ck_assert_mem_eq(&a, &b, sizeof(a));
	ck_assert_uint_ne(a.t_p, other.t_p);
	dag_free(dag);
	machine_free(machine);
}
END_TEST

START_TEST(t_1_is_exact_for_any_cutoff_and_t_inf_within_a_leaf)
{
	static const uint64_t cutoffs[] = { 300 * PS, 4000 * PS, 50000 * PS };

	for (size_t i = 0; i < ARRAY_SIZE(computations) - 1; i++) {
		struct dag_measure fine;

		dag_free(dag_of(computations[i], cutoffs[0], &fine));
		for (size_t k = 1; k < ARRAY_SIZE(cutoffs); k++) {
			struct dag_measure m;

			dag_free(dag_of(computations[i], cutoffs[k], &m));
			ck_assert_msg(m.work == fine.work, "%s", computations[i]);
			ck_assert_uint_le(m.span, fine.span + cutoffs[k]);
			ck_assert_uint_le(m.leaves, fine.leaves);
		}
	}
}
END_TEST

START_TEST(computations_equal_those_of_the_benchmarks)
{
	struct costs costs;
	struct dag_measure m;

	costs_init(&costs);
	dag_free(dag_of("fib 25", CUTOFF, &m));
	ck_assert_uint_eq(m.work, (uint64_t)work_fib_tasks(25) * costs.fib_task);
	dag_free(dag_of("uts T1", CUTOFF, &m));
	ck_assert_uint_eq(m.work, (uint64_t)uts_tree_find("T1")->known.nodes * costs.uts_node);
	dag_free(dag_of("integrate 50", CUTOFF, &m));
	ck_assert_uint_eq(m.work, (uint64_t)work_integrate_tasks(work_strip_whole(50), 1e-9) *
					  costs.integrate_task);
	dag_free(dag_of("for 1000", CUTOFF, &m));
	ck_assert_uint_eq(m.work, 1000 * costs.for_item + 999 * costs.fork);
	dag_free(dag_of("matmul 256", CUTOFF, &m));
	ck_assert_uint_eq(m.work, UINT64_C(2) * 256 * 256 * 256 * costs.matmul_flop);
}
END_TEST

/* As work_board_ok(), with a count. */
static bool count_pairs(const struct work_board *board, int32_t rows, uint64_t *pairs)
{
	for (int32_t i = 0; i < rows; i++) {
		for (int32_t j = i + 1; j < rows; j++) {
			int32_t p = board->column[i], q = board->column[j];

			++*pairs;
			if (q == p || q == p - (j - i) || q == p + (j - i))
				return false;
		}
	}
	return true;
}

static void count_boards(int32_t n, int32_t row, struct work_board board, uint64_t *pairs)
{
	for (int32_t i = 0; row < n && i < n; i++) {
		board.column[row] = (int8_t)i;
		++*pairs;
		if (count_pairs(&board, row + 1, pairs))
			count_boards(n, row + 1, board, pairs);
	}
}

START_TEST(nqueens_is_charged_for_the_pairs_that_the_benchmark_compares)
{
	struct work_board board = { { 0 } };
	struct costs costs;
	struct dag_measure m;
	uint64_t pairs = 0;

	costs_init(&costs);
	dag_free(dag_of("nqueens 8", CUTOFF, &m));
	count_boards(8, 0, board, &pairs);
	ck_assert_uint_eq(m.work, pairs * costs.nqueens_pair);
}
END_TEST

START_TEST(job_that_never_forks_wakes_no_worker)
{
	struct machine *machine = machine_of(TWO_BY_56, 112);
	struct dag_measure m;
	struct dag *dag = dag_of("serial 1000", CUTOFF, &m);
	struct sim_stats s = run(machine, dag, (struct sim_options){ .seed = 1, .check = true });

	ck_assert_ptr_null(s.broken);
	ck_assert_uint_eq(s.wakes, 0);
	ck_assert_uint_eq(s.steal_requests, 0);
	ck_assert_uint_eq(s.peak_busy, 1);
	dag_free(dag);
	machine_free(machine);
}
END_TEST

static struct sim_stats run_hidden(enum sim_mutant mutant, struct dag_measure *ret_measure)
{
	struct machine *machine = machine_of(TWO_BY_56, 2);
	struct dag *dag = dag_of("hidden 1000", CUTOFF, ret_measure);
	struct sim_options options = { .seed = 1, .warm = true, .check = true, .mutant = mutant };
	struct sim_stats s = run(machine, dag, options);

	ck_assert_ptr_null(s.broken);
	ck_assert_uint_eq(s.work, ret_measure->work);
	dag_free(dag);
	machine_free(machine);
	return s;
}

START_TEST(continuation_below_a_long_leaf_is_stolen)
{
	struct dag_measure m;
	struct sim_stats s = run_hidden(SIM_SOUND, &m);

	ck_assert_uint_ge(s.published_by_signal, 1);
	ck_assert_uint_lt(s.t_p, m.work / 100 * 55);
	s = run_hidden(SIM_NO_SIGNALS, &m);
	ck_assert_uint_eq(s.published_by_signal, 0);
	ck_assert_uint_ge(s.t_p, m.work / 100 * 75);
}
END_TEST

START_TEST(sufficient_parallelism_gives_nearly_linear_speedup)
{
	struct machine *machine = machine_of(TWO_BY_56, 112);
	struct dag_measure m;
	struct dag *dag = dag_of("fib 42", CUTOFF, &m);
	struct sim_stats s = run(machine, dag, (struct sim_options){ .seed = 1, .warm = true });

	ck_assert_ptr_null(s.broken);
	/* 90 of 112, in simulated time. */
	ck_assert_uint_lt(s.t_p, m.work / 90);
	/* Thieves prefer near victims: 1 / (n r^2). */
	ck_assert_uint_gt(s.steals[0], s.steals[1]);
	ck_assert_uint_gt(s.steals[1], 0);
	ck_assert_uint_eq(s.steals[2], 0);
	dag_free(dag);
	machine_free(machine);
}
END_TEST

START_TEST(sleeping_machine_wakes_up_soon)
{
	struct machine *machine = machine_of(TWO_BY_56, 112);
	struct dag_measure m;
	struct dag *dag = dag_of("uts T1", CUTOFF, &m);
	struct sim_options tree = { .seed = 1, .check = true }, chain = tree;
	struct sim_stats s, one_by_one;

	chain.spread = SIM_NONE;
	s = run(machine, dag, tree);
	one_by_one = run(machine, dag, chain);
	ck_assert_ptr_null(s.broken);
	ck_assert_ptr_null(one_by_one.broken);
	ck_assert_uint_gt(s.wakes_extra, 0);
	ck_assert_uint_eq(one_by_one.wakes_extra, 0);
	/* Simulated time. */
	ck_assert_uint_lt(s.t_p, one_by_one.t_p / 3 * 2);
	ck_assert_uint_lt(s.half_at, one_by_one.half_at / 2);
	dag_free(dag);
	machine_free(machine);
}
END_TEST

static const char *broken_by(enum sim_mutant mutant)
{
	struct machine *machine = machine_of(TWO_BY_56, 112);
	struct dag_measure m;
	struct dag *dag = dag_of("uts T1", CUTOFF, &m);
	struct sim_options options = { .seed = 1, .warm = true, .check = true, .mutant = mutant };
	struct sim_stats s = run(machine, dag, options);

	dag_free(dag);
	machine_free(machine);
	return s.broken;
}

START_TEST(broken_scheduler_is_detected)
{
	ck_assert_ptr_null(broken_by(SIM_SOUND));
	ck_assert_str_eq(broken_by(SIM_NO_CHARGE), "S4: the lazy invariant");
	ck_assert_msg(!strncmp(broken_by(SIM_NEWEST), "S", 1), "S2 or S3 is broken");
}
END_TEST

START_TEST(line_changed_by_two_workers_at_once_costs_both)
{
	struct machine *m = machine_of(TWO_BY_56, 112);
	struct line line = { .owner = 0, .reader = 0 };

	/* Its own line. */
	ck_assert_uint_eq(line_write(m, &line, 0, 1000), 1000 + m->costs.rmw);
	/* Two at the same time: one after the other. */
	uint64_t first = line_write(m, &line, 1, 10000), second = line_write(m, &line, 60, 10000);

	ck_assert_uint_eq(first, 10000 + m->costs.line_near + m->costs.rmw);
	ck_assert_uint_eq(second, first + m->costs.line_mid + m->costs.rmw);
	/* Reading it once is enough; writing it again fetches it from the reader. */
	uint64_t read = line_read(m, &line, 0, second);

	ck_assert_uint_eq(read, second + m->costs.line_mid);
	ck_assert_uint_eq(line_read(m, &line, 0, read), read);
	ck_assert_uint_gt(line_write(m, &line, 60, read), read + m->costs.rmw);
	machine_free(m);
}
END_TEST

START_TEST(unreadable_file_is_named)
{
	char path[] = "/tmp/check_sim_XXXXXX", error[512] = "";
	int fd = mkstemp(path);
	struct costs costs;
	struct dag *dag;

	costs_init(&costs);
	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(dprintf(fd, "# measured\nrmw 7.5\n\nsteel 3\n"), 28);
	ck_assert_int_eq(costs_read(&costs, path, error, sizeof(error)), -ENOENT);
	ck_assert_ptr_nonnull(strstr(error, ":4: "));
	ck_assert_uint_eq(costs.rmw, 7500);
	close(fd);
	unlink(path);
	ck_assert_int_eq(costs_read(&costs, path, error, sizeof(error)), -ENOENT);
	ck_assert_int_eq(costs_set(&costs, "rmw", -1), -EINVAL);
	ck_assert_int_eq(dag_new("fibs 3", &costs, CUTOFF, error, sizeof(error), &dag), -EINVAL);
	ck_assert_int_eq(dag_new("fib 99", &costs, CUTOFF, error, sizeof(error), &dag), -EINVAL);
	ck_assert_int_eq(dag_new("uts T9", &costs, CUTOFF, error, sizeof(error), &dag), -EINVAL);
	ck_assert_int_eq(dag_new("nqueens 99", &costs, CUTOFF, error, sizeof(error), &dag),
			 -EINVAL);
	ck_assert_int_eq(dag_new("fib", &costs, CUTOFF, error, sizeof(error), &dag), -EINVAL);
}
END_TEST

CHECK_MAIN("sim")
