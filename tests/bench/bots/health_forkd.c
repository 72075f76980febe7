/* SPDX-License-Identifier: MIT */
#include <forkd/pool.h>
#include <forkd/task.h>

#include "tests/bench/bots/bots.h"

FK_TASK(fk_void, simulate, (struct village *, village), int i;)
FK_NO_LEAF(simulate)
{
	for (self->i = 0; self->i < self->village->n_children; self->i++)
		FK_FORK_VOID(simulate, &self->village->children[self->i]);
	health_treat(self->village);
	FK_JOIN();
	health_population(self->village);
	FK_RETURN();
}
FK_END(simulate)

FK_TASK(fk_void, run, (), int step;)
FK_NO_LEAF(run)
{
	for (self->step = 0; self->step < HEALTH_STEPS; self->step++)
		FK_CALL_VOID(simulate, &health_root);
	FK_RETURN();
}
FK_END(run)

void bots_run(int threads)
{
	fk_client *pool;

	fk_open_local(&(struct fk_local_options){ .workers = (uint32_t)threads }, &pool);
	FK_RUN(pool, NULL, run);
	fk_close(pool);
}
