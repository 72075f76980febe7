/* SPDX-License-Identifier: MIT */
#include "tests/bench/bots/bots.h"

static void search(const struct plan *from, int choice)
{
	struct plan plan;

	plan_with(from, choice, &plan);
	for (int i = 0; i < plan_choices(&plan); i++)
		if (plan_fits(&plan, i))
#pragma omp task shared(plan)
			search(&plan, i);
#pragma omp taskwait
}

void bots_run(int threads)
{
#pragma omp parallel num_threads(threads)
#pragma omp single
	for (int i = 0; i < plan_choices(&plan_empty); i++)
		search(&plan_empty, i);
}
