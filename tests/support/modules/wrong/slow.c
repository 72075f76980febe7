/* SPDX-License-Identifier: MIT */
/*
 * slow.c - a task that is slow if nothing is stolen, one that is slow on many workers, and one
 * without either fault
 *
 * The first behaves as if the compiler had made slower code of one of its clones, the second as if
 * workers competed for memory.
 */
#include <stdlib.h>

#include <forkd/task.h>

#define TIMES 30

static __attribute__((noinline)) void turn(int64_t n)
{
	for (int64_t i = 0; i < n; i++)
		__asm__ volatile("");
}

FK_LEAF_TASK(fk_void, steady, (int64_t, n))
{
	turn(n);
}

FK_TASK(fk_void, sluggish, (int64_t, n))
FK_NO_LEAF(sluggish)
{
	turn(FK_IS_FRESH ? TIMES * self->n : self->n);
	FK_RETURN();
}
FK_END(sluggish)

/* The environment says whether there are many workers. */
FK_TASK(int64_t, crowded, (int64_t, n), int64_t i; int64_t turns;)
FK_NO_LEAF(crowded)
{
	self->turns = getenv("MANY_WORKERS") ? TIMES * self->n : self->n;
	for (self->i = 0; self->i < 20; self->i++)
		FK_FORK_VOID(steady, self->turns);
	FK_JOIN();
	FK_RETURN(self->n);
}
FK_END(crowded)

FK_TASK(int64_t, slow, (int64_t, n), int64_t i;)
FK_NO_LEAF(slow)
{
	for (self->i = 0; self->i < 20; self->i++) {
		FK_FORK_VOID(steady, self->n);
		FK_FORK_VOID(sluggish, self->n);
	}
	FK_JOIN();
	FK_RETURN(self->n);
}
FK_END(slow)

FK_TASK(int64_t, even, (int64_t, n), int64_t i;)
FK_NO_LEAF(even)
{
	for (self->i = 0; self->i < 200; self->i++)
		FK_FORK_VOID(steady, self->n);
	FK_JOIN();
	FK_RETURN(self->n);
}
FK_END(even)

FK_EXPORT(slow, 0, "Forks a task whose code is slow where nothing is stolen")
FK_EXPORT(crowded, 0, "Forks a task that is slow on many workers")
FK_EXPORT(even, 0, "Forks none")
FK_MODULE(slow, "A task that is slow as it is compiled")
