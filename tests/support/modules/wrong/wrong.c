/* SPDX-License-Identifier: MIT */
/*
 * wrong.c - tasks with the mistakes that forkctl check finds
 *
 * Each gives the right result as long as nothing is stolen, and breaks one rule of forkd/task.h.
 * They have their own directory: nothing else loads them.
 */
#include <time.h>

#include <forkd/task.h>

/* An array: for a plain number gcc warns that it may be used uninitialized. */
static __attribute__((noinline)) void weigh(int64_t *ret_weight, int64_t n)
{
	*ret_weight = 1000 * n;
	__asm__ volatile("" : : "r"(ret_weight) : "memory");
}

/* An ordinary variable, used across a fork. */
FK_TASK(int64_t, local, (int64_t, n), int64_t x; int64_t y;)
{
	if (n < 2)
		FK_LEAF(n);
}
FK_BODY(local)
{
	int64_t mine[1];

	weigh(mine, self->n);

	FK_FORK(x, local, self->n - 1);
	FK_CALL(y, local, self->n - 2);
	FK_JOIN();
	FK_RETURN(self->x + self->y + mine[0]);
}
FK_END(local)

/* A result that is read before the join. */
FK_TASK(int64_t, early, (int64_t, n), int64_t x; int64_t y; int64_t sum;)
{
	if (n < 2)
		FK_LEAF(n);
}
FK_BODY(early)
{
	self->x = -1;
	FK_FORK(x, early, self->n - 1);
	FK_CALL(y, early, self->n - 2);
	self->sum = self->x + self->y;
	FK_JOIN();
	FK_RETURN(self->sum);
}
FK_END(early)

/* Children that change the same number, in any order. */
FK_TASK(fk_void, mix, (uint64_t *, sum, int64_t, from, int64_t, to), )
{
	if (to - from == 1) {
		*sum = *sum * 31 + (uint64_t)from;
		FK_LEAF();
	}
}
FK_BODY(mix)
{
	FK_FORK_VOID(mix, self->sum, self->from, self->from + (self->to - self->from) / 2);
	FK_CALL_VOID(mix, self->sum, self->from + (self->to - self->from) / 2, self->to);
	FK_JOIN();
	FK_RETURN();
}
FK_END(mix)

FK_TASK(fk_void, order, (struct fk_iobuf, data), )
{
	if (data.size < 8)
		FK_LEAF();
}
FK_BODY(order)
{
	FK_CALL_VOID(mix, self->data.data, 0, 100);
	FK_RETURN();
}
FK_END(order)

/* Stack memory, allocated while a fork is outstanding. */
FK_TASK(int64_t, scope, (int64_t, n), int64_t x; int64_t * memory;)
{
	if (n < 1)
		FK_LEAF(1);
}
FK_BODY(scope)
{
	FK_FORK(x, scope, self->n - 1);
	FK_ALLOC(memory, 64);
	if (!self->memory)
		FK_FAIL(1);
	*self->memory = self->n;
	FK_JOIN();
	FK_RETURN(self->x + *self->memory);
}
FK_END(scope)

/* A task without a mistake. */
FK_TASK(int64_t, right, (int64_t, n), int64_t x; int64_t y; int64_t mine;)
{
	if (n < 2)
		FK_LEAF(n);
}
FK_BODY(right)
{
	weigh(&self->mine, self->n);
	FK_FORK(x, right, self->n - 1);
	FK_CALL(y, right, self->n - 2);
	FK_JOIN();
	FK_RETURN(self->x + self->y + self->mine);
}
FK_END(right)

/* Also without a mistake: a job that fails leaves its in-place buffer as it is, and the contents
 * depend on the schedule. */
FK_TASK(fk_void, mark, (char *, data, int64_t, from, int64_t, to), )
{
	if (to - from == 1) {
		data[from] = 1;
		if (from == 1)
			FK_LEAF_FAIL(7);
		FK_LEAF();
	}
}
FK_BODY(mark)
{
	FK_FORK_VOID(mark, self->data, self->from, self->from + (self->to - self->from) / 2);
	FK_CALL_VOID(mark, self->data, self->from + (self->to - self->from) / 2, self->to);
	FK_JOIN();
	FK_RETURN();
}
FK_END(mark)

FK_TASK(fk_void, fails, (struct fk_iobuf, data), )
{
	if (data.size < 16)
		FK_LEAF();
}
FK_BODY(fails)
{
	FK_CALL_VOID(mark, self->data.data, 0, 16);
	FK_RETURN();
}
FK_END(fails)

/* Without a mistake: a NaN, with other bits in each call. */
FK_TASK(double, nan, (int64_t, n), )
{
	union {
		uint64_t bits;
		double number;
	} quiet = { .bits = UINT64_C(0x7ff8) << 48 };
	struct timespec now;

	(void)n;
	(void)clock_gettime(CLOCK_MONOTONIC, &now);
	quiet.bits |= (uint64_t)now.tv_nsec + 1;
	FK_LEAF(quiet.number);
}
FK_BODY(nan)
{
	FK_RETURN(0);
}
FK_END(nan)

FK_EXPORT(local, 0, "An ordinary variable across a fork")
FK_EXPORT(early, 0, "A result that is read before the join")
FK_EXPORT(order, 0, "Children that change the same number")
FK_EXPORT(scope, 0, "FK_ALLOC where a fork is outstanding")
FK_EXPORT(right, 0, "As it should be")
FK_EXPORT(fails, FK_EXPORT_IN_PLACE, "Fails, and has no mistake")
FK_EXPORT(nan, 0, "A NaN, with other bits in each call")
FK_MODULE(wrong, "Mistakes that forkctl check finds")
