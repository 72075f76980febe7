/* SPDX-License-Identifier: MIT */
#include <forkd/pool.h>
#include <forkd/task.h>

#include "tests/bench/bots/bots.h"

FK_TASK(fk_void, search, (const struct plan *, from, int, choice), struct plan plan; int i;)
FK_NO_LEAF(search)
{
	plan_with(self->from, self->choice, &self->plan);
	for (self->i = 0; self->i < plan_choices(&self->plan); self->i++)
		if (plan_fits(&self->plan, self->i))
			FK_FORK_VOID(search, &self->plan, self->i);
	FK_JOIN();
	FK_RETURN();
}
FK_END(search)

void bots_run(int threads)
{
	fk_client *pool;

	fk_open_local(&(struct fk_local_options){ .workers = (uint32_t)threads }, &pool);
	for (int i = 0; i < plan_choices(&plan_empty); i++)
		FK_RUN(pool, NULL, search, &plan_empty, i);
	fk_close(pool);
}
