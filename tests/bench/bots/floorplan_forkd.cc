/* SPDX-License-Identifier: MIT */
#include <forkd/pool.hpp>

#include "tests/bench/bots/bots.h"

static void search(const struct plan *from, int choice)
{
	struct plan plan;

	plan_with(from, choice, &plan);
	fk::parallel_for(0, plan_choices(&plan), [&](int i) {
		if (plan_fits(&plan, i))
			search(&plan, i);
	});
}

void bots_run(int threads)
{
	fk::pool pool(threads);

	pool.parallel_for(0, plan_choices(&plan_empty), [](int i) { search(&plan_empty, i); });
}
