/* SPDX-License-Identifier: MIT */
#include "tests/bench/bots/bots.h"

static void simulate(struct village *village)
{
	for (int i = 0; i < village->n_children; i++)
		simulate(&village->children[i]);
	health_treat(village);
	health_population(village);
}

void bots_run(int threads)
{
	(void)threads;
	for (int step = 0; step < HEALTH_STEPS; step++)
		simulate(&health_root);
}
