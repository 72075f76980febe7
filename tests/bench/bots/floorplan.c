/* SPDX-License-Identifier: MIT */
#include "tests/bench/bots/bots.h"

static void search(struct plan plan)
{
	for (int i = 0; i < plan_choices(&plan); i++)
		if (plan_fits(&plan, i))
			search(plan_with(&plan, i));
}

void bots_run(int threads)
{
	(void)threads;
	search(plan_empty);
}
