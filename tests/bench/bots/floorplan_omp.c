/* SPDX-License-Identifier: MIT */
#include "tests/bench/bots/bots.h"

static void search(struct plan plan)
{
	for (int i = 0; i < plan_choices(&plan); i++)
		if (plan_fits(&plan, i))
#pragma omp task shared(plan)
			search(plan_with(&plan, i));
#pragma omp taskwait
}

void bots_run(int threads)
{
#pragma omp parallel num_threads(threads)
#pragma omp single
	search(plan_empty);
}
