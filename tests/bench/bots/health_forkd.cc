/* SPDX-License-Identifier: MIT */
#include <forkd/pool.hpp>

#include "tests/bench/bots/bots.h"

static void simulate(struct village *village)
{
	fk::parallel_for(0, village->n_children, [&](int i) { simulate(&village->children[i]); });
	health_treat(village);
	health_population(village);
}

void bots_run(int threads)
{
	fk::pool pool(threads);

	pool.parallel_invoke([] {
		for (int step = 0; step < HEALTH_STEPS; step++)
			simulate(&health_root);
	});
}
