/* SPDX-License-Identifier: MIT */
/*
 * sim_run.c - runs simulations from the command line, one line of JSON each
 *
 * 	sim_run [OPTION...] COMPUTATION
 *
 * 	COMPUTATION         as dag.h has it, in one argument: "fib 42", "uts T1L"
 * 	--machine TEXT      hwloc's synthetic form: "numa:2 core:56 pu:1" (the default)
 * 	--workers LIST      1,2,4: the first N cores; 0 for all (the default)
 * 	--cutoff NS         the longest coarse leaf (4000)
 * 	--costs FILE        lines of "name value" that override costs.def
 * 	--cost NAME=NS      one of them
 * 	--seed N  --seeds N the first seed, and how many of them (1 and 1)
 * 	--spin NS           a thief's search before it sleeps (forkd's default, 50000)
 * 	--public N          D, the entries made public by a request
 * 	--spread N          number of others that a woken thief wakes after a steal
 * 	--recall            what if: a thief first checks the victim of its last request
 * 	--timid             what if: thieves begin as they are after many searches in vain
 * 	--busy              the busy scheduler
 * 	--warm  --both      a pool that was busy a moment ago; and then an idle one
 * 	--check             the invariants after every event
 *
 *   Exit status: 0; 1 if an invariant was broken or memory ran out; 2 for a wrong command line.
 *
 * Callers: tests/sim/simulate, for `make sim`; people.
 */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/cleanup.h"
#include "tests/sim/sim.h"

#define RUN_SPIN_NS   50000u
#define RUN_CUTOFF_NS 4000u

struct run {
	const char *machine;
	const char *workers;
	uint64_t cutoff; /* ns */
	uint64_t seeds;
	bool both;
	struct sim_options options;
	struct costs costs;
};

DEFINE_CLEANUP(struct dag *, dag_free);
DEFINE_CLEANUP(struct machine *, machine_free);

static void run_print(const struct run *run, const struct dag *dag, const struct dag_measure *m,
		      uint32_t workers, const struct sim_stats *s, double seconds)
{
	double t_p = (double)s->t_p;
	uint64_t steals = s->steals[0] + s->steals[1] + s->steals[2];

	printf("{\"dag\": \"%s\", \"machine\": \"%s\", \"workers\": %u, \"seed\": %llu, "
	       "\"cutoff_ns\": %llu, \"public\": %u, \"scheduler\": \"%s\", \"warm\": %s, ",
	       dag->name, run->machine, workers, (unsigned long long)run->options.seed,
	       (unsigned long long)run->cutoff, run->options.publish,
	       run->options.busy ? "busy" : "lazy", run->options.warm ? "true" : "false");
	printf("\"t_1_ns\": %.3f, \"t_inf_ns\": %.3f, \"depth\": %llu, \"t_p_ns\": %.3f, "
	       "\"speedup\": %.4f, ",
	       (double)m->work / 1e3, (double)m->span / 1e3, (unsigned long long)m->depth,
	       t_p / 1e3, (double)m->work / t_p);
	printf("\"leaves\": %llu, \"forks\": %llu, \"attempts\": %llu, \"races\": %llu, "
	       "\"steals\": %llu, \"steals_near\": %llu, \"steals_mid\": %llu, "
	       "\"steals_far\": %llu, ",
	       (unsigned long long)m->leaves, (unsigned long long)s->forks,
	       (unsigned long long)s->attempts, (unsigned long long)s->races,
	       (unsigned long long)steals, (unsigned long long)s->steals[0],
	       (unsigned long long)s->steals[1], (unsigned long long)s->steals[2]);
	printf("\"steal_requests\": %llu, \"steal_signals\": %llu, \"published_by_signal\": %llu, "
	       "\"requests_served\": %llu, "
	       "\"frames_materialized\": %llu, \"published\": %llu, "
	       "\"unpublished\": %llu, \"forks_stolen\": %llu, \"joins_last\": %llu, "
	       "\"joins_waited\": %llu, \"wakes\": %llu, \"wakes_extra\": %llu, "
	       "\"sleeps\": %llu, \"timed_sleeps\": %llu, ",
	       (unsigned long long)s->steal_requests, (unsigned long long)s->steal_signals,
	       (unsigned long long)s->published_by_signal, (unsigned long long)s->requests_served,
	       (unsigned long long)s->frames_materialized, (unsigned long long)s->published,
	       (unsigned long long)s->unpublished, (unsigned long long)s->forks_stolen,
	       (unsigned long long)s->joins_last, (unsigned long long)s->joins_waited,
	       (unsigned long long)s->wakes, (unsigned long long)s->wakes_extra,
	       (unsigned long long)s->sleeps, (unsigned long long)s->timed_sleeps);
	printf("\"busy\": %.4f, \"looking\": %.4f, \"sleeping\": %.4f, \"peak_busy\": %u, ",
	       (double)s->busy_ps / t_p, (double)s->looking_ps / t_p, (double)s->sleeping_ps / t_p,
	       s->peak_busy);
	printf("\"half_at_ns\": %.3f, \"most_at_ns\": %.3f, \"events\": %llu, "
	       "\"seconds\": %.3f}\n",
	       s->half_at == SIM_NEVER ? -1.0 : (double)s->half_at / 1e3,
	       s->most_at == SIM_NEVER ? -1.0 : (double)s->most_at / 1e3,
	       (unsigned long long)s->events, seconds);
	fflush(stdout);
}

static double run_now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static int run_workers(struct run *run, const struct dag *dag, const struct dag_measure *m,
		       uint32_t workers)
{
	_cleanup_(machine_freep) struct machine *machine = NULL;
	uint64_t first = run->options.seed;
	char error[256] = "";

	if (machine_new(run->machine, workers, &run->costs, error, sizeof(error), &machine) < 0) {
		fprintf(stderr, "sim_run: %s\n", error);
		return 1;
	}
	for (uint64_t i = 0; i < run->seeds; i++) {
		struct sim_stats stats;
		double since = run_now();

		run->options.seed = first + i;
		if (sim_run(machine, dag, &run->options, &stats) < 0) {
			fprintf(stderr, "sim_run: out of memory\n");
			return 1;
		}
		if (!stats.broken && stats.work != m->work)
			stats.broken = "S1: the work done is not T_1";
		run_print(run, dag, m, machine->n_workers, &stats, run_now() - since);
		if (stats.broken) {
			fprintf(stderr, "sim_run: %s, %u workers: %s\n", dag->name,
				machine->n_workers, stats.broken);
			return 1;
		}
	}
	run->options.seed = first;
	return 0;
}

/* Runs all sizes of --workers. Returns an exit status. */
static int run_list(struct run *run, const struct dag *dag, const struct dag_measure *m)
{
	for (const char *at = run->workers; *at;) {
		char *end;
		unsigned long workers = strtoul(at, &end, 10);

		if (end == at || workers > VICTIMS_MAX || (*end && *end != ',')) {
			fprintf(stderr, "sim_run: --workers %s: numbers with commas\n",
				run->workers);
			return 2;
		}
		if (run_workers(run, dag, m, (uint32_t)workers))
			return 1;
		at = *end ? end + 1 : end;
	}
	return 0;
}

static int run_cost(struct run *run, char *text)
{
	char *value = strchr(text, '=');

	if (!value)
		return -EINVAL;
	*value++ = '\0';
	return costs_set(&run->costs, text, atof(value));
}

enum {
	RUN_MACHINE = 256,
	RUN_WORKERS,
	RUN_CUTOFF,
	RUN_COSTS,
	RUN_COST,
	RUN_SEED,
	RUN_SEEDS,
	RUN_SPIN,
	RUN_PUBLIC,
	RUN_SPREAD,
	RUN_RECALL,
	RUN_TIMID,
	RUN_BUSY,
	RUN_WARM,
	RUN_BOTH,
	RUN_CHECK,
};

static int run_option(struct run *run, int option)
{
	char error[512];

	switch (option) {
	case RUN_MACHINE:
		run->machine = optarg;
		return 0;
	case RUN_WORKERS:
		run->workers = optarg;
		return 0;
	case RUN_CUTOFF:
		run->cutoff = strtoull(optarg, NULL, 10);
		return run->cutoff && run->cutoff < 1000000 ? 0 : -EINVAL;
	case RUN_COSTS:
		if (costs_read(&run->costs, optarg, error, sizeof(error)) == 0)
			return 0;
		fprintf(stderr, "sim_run: %s\n", error);
		return -EINVAL;
	case RUN_COST:
		return run_cost(run, optarg);
	case RUN_SEED:
		run->options.seed = strtoull(optarg, NULL, 10);
		return 0;
	case RUN_SEEDS:
		run->seeds = strtoull(optarg, NULL, 10);
		return 0;
	case RUN_SPIN:
		run->options.spin = strtoull(optarg, NULL, 10);
		return 0;
	case RUN_PUBLIC:
		run->options.publish = (uint32_t)strtoul(optarg, NULL, 10);
		return 0;
	case RUN_SPREAD:
		run->options.spread = (uint32_t)strtoul(optarg, NULL, 10);
		if (!run->options.spread)
			run->options.spread = SIM_NONE;
		return 0;
	case RUN_RECALL:
		run->options.recall = true;
		return 0;
	case RUN_TIMID:
		run->options.timid = true;
		return 0;
	case RUN_BUSY:
		run->options.busy = true;
		return 0;
	case RUN_WARM:
		run->options.warm = true;
		return 0;
	case RUN_BOTH:
		run->both = run->options.warm = true;
		return 0;
	case RUN_CHECK:
		run->options.check = true;
		return 0;
	default:
		return -EINVAL;
	}
}

int main(int argc, char **argv)
{
	static const struct option options[] = {
		{ "machine", required_argument, NULL, RUN_MACHINE },
		{ "workers", required_argument, NULL, RUN_WORKERS },
		{ "cutoff", required_argument, NULL, RUN_CUTOFF },
		{ "costs", required_argument, NULL, RUN_COSTS },
		{ "cost", required_argument, NULL, RUN_COST },
		{ "seed", required_argument, NULL, RUN_SEED },
		{ "seeds", required_argument, NULL, RUN_SEEDS },
		{ "spin", required_argument, NULL, RUN_SPIN },
		{ "public", required_argument, NULL, RUN_PUBLIC },
		{ "spread", required_argument, NULL, RUN_SPREAD },
		{ "recall", no_argument, NULL, RUN_RECALL },
		{ "timid", no_argument, NULL, RUN_TIMID },
		{ "busy", no_argument, NULL, RUN_BUSY },
		{ "warm", no_argument, NULL, RUN_WARM },
		{ "both", no_argument, NULL, RUN_BOTH },
		{ "check", no_argument, NULL, RUN_CHECK },
		{ NULL, 0, NULL, 0 },
	};
	struct run run = { .machine = "numa:2 core:56 pu:1",
			   .workers = "0",
			   .cutoff = RUN_CUTOFF_NS,
			   .seeds = 1,
			   .options = { .seed = 1, .spin = RUN_SPIN_NS } };
	_cleanup_(dag_freep) struct dag *dag = NULL;
	struct dag_measure measure;
	char error[256] = "";
	int option, status;

	costs_init(&run.costs);
	while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (run_option(&run, option) < 0) {
			fprintf(stderr,
				"sim_run: %s: not an option with such a value; see "
				"tests/sim/sim_run.c\n",
				argv[optind - 1]);
			return 2;
		}
	}
	if (optind + 1 != argc) {
		fprintf(stderr, "sim_run: name one computation, such as 'fib 42'\n");
		return 2;
	}
	if (dag_new(argv[optind], &run.costs, run.cutoff * COSTS_PS_PER_NS, error, sizeof(error),
		    &dag) < 0) {
		fprintf(stderr, "sim_run: %s\n", error);
		return 2;
	}
	dag_measure(dag, &measure);
	status = run_list(&run, dag, &measure);
	if (status || !run.both)
		return status;
	run.options.warm = false;
	return run_list(&run, dag, &measure);
}
