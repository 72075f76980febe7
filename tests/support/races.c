/* SPDX-License-Identifier: MIT */
/*
 * races.c - a module for tests/cli/check-races: tasks with a race and tasks without one
 *
 * A comment RACE NAME marks a line that the report on task NAME must have.
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/personality.h>

#include <forkd/algorithm.h>

static int64_t plain, shared[2];
static _Atomic int64_t word;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* ------------------------------------------------------------------------ what children do */

FK_LEAF_TASK(fk_void, add_plain, (int64_t, n))
{
	plain += n; /* RACE counter */
}

FK_LEAF_TASK(fk_void, add_atomic, (int64_t, n))
{
	atomic_fetch_add_explicit(&word, n, memory_order_relaxed);
}

FK_LEAF_TASK(fk_void, add_locked, (int64_t, n))
{
	pthread_mutex_lock(&lock);
	plain += n;
	pthread_mutex_unlock(&lock);
}

FK_LEAF_TASK(fk_void, put, (int64_t *, to, int64_t, n))
{
	*to = n; /* RACE element, RACE cousins */
}

FK_LEAF_TASK(int64_t, get, (const int64_t *, from))
{
	return *from; /* RACE between */
}

/* ------------------------------------------------------------------------ with a race */

FK_TASK(int64_t, counter, (int64_t, n), int64_t i;)
FK_NO_LEAF(counter)
{
	for (self->i = 0; self->i < self->n; self->i++)
		FK_FORK_VOID(add_plain, 1);
	FK_JOIN();
	FK_RETURN(plain);
}
FK_END(counter)

FK_TASK(fk_void, element, (int64_t, n))
FK_NO_LEAF(element)
{
	FK_FORK_VOID(put, &shared[0], self->n);
	FK_FORK_VOID(put, &shared[0], self->n + 1);
	FK_JOIN();
	FK_RETURN();
}
FK_END(element)

FK_TASK(int64_t, between, (int64_t, n), int64_t x;)
FK_NO_LEAF(between)
{
	FK_FORK(x, get, &shared[0]);
	shared[0] = self->n; /* RACE between */
	FK_JOIN();
	FK_RETURN(self->x);
}
FK_END(between)

/* A result that is read too early. */
FK_TASK(int64_t, early, (int64_t, n), int64_t x;)
FK_NO_LEAF(early)
{
	FK_FORK(x, get, &shared[0]);
	self->n += self->x; /* RACE early */
	FK_JOIN();
	FK_RETURN(self->n);
}
FK_END(early)

/* The child has joined the grandchild, but its parent has not joined the child. */
FK_TASK(fk_void, put_below, (int64_t *, to))
FK_NO_LEAF(put_below)
{
	FK_FORK_VOID(put, self->to, 1);
	FK_JOIN();
	FK_RETURN();
}
FK_END(put_below)

FK_TASK(fk_void, cousins, (int64_t, n))
FK_NO_LEAF(cousins)
{
	FK_FORK_VOID(put_below, &shared[1]);
	FK_CALL_VOID(put_below, &shared[1]);
	FK_JOIN();
	FK_RETURN();
}
FK_END(cousins)

static void put_index(int64_t i)
{
	shared[0] = i; /* RACE loop */
}
FK_FOR_RANGE(put_indices, put_index)

FK_TASK(fk_void, loop, (int64_t, n))
FK_NO_LEAF(loop)
{
	FK_CALL_VOID(put_indices, 0, self->n, 1);
	FK_RETURN();
}
FK_END(loop)

/* ------------------------------------------------------------------------ without one */

FK_TASK(int64_t, atomic, (int64_t, n), int64_t i;)
FK_NO_LEAF(atomic)
{
	for (self->i = 0; self->i < self->n; self->i++)
		FK_FORK_VOID(add_atomic, 1);
	FK_JOIN();
	FK_RETURN(word);
}
FK_END(atomic)

FK_TASK(int64_t, locked, (int64_t, n), int64_t i;)
FK_NO_LEAF(locked)
{
	for (self->i = 0; self->i < self->n; self->i++)
		FK_FORK_VOID(add_locked, 1);
	FK_JOIN();
	FK_RETURN(plain);
}
FK_END(locked)

/* The loop reads joined results; forks of the next iteration write them again. */
FK_TASK(int64_t, rounds, (int64_t, n), int64_t i; int64_t sum;)
FK_NO_LEAF(rounds)
{
	for (self->i = self->sum = 0; self->i < self->n; self->i++) {
		FK_FORK_VOID(put, &shared[self->i % 2], self->i);
		FK_CALL_VOID(put, &shared[(self->i + 1) % 2], self->i);
		FK_JOIN();
		self->sum += shared[0] + shared[1];
		shared[self->i % 2] = 0;
	}
	FK_RETURN(self->sum);
}
FK_END(rounds)

/* Halves of an array, and memory on the stacks of tasks that have ended. */
FK_TASK(int64_t, halves, (int64_t *, data, int64_t, n), int64_t *copy; int64_t x; int64_t y;)
{
	if (n == 1) {
		data[0]++;
		FK_LEAF(data[0]);
	}
}
FK_BODY(halves)
{
	FK_ALLOC(copy, (size_t)self->n * sizeof(*self->copy));
	memcpy(self->copy, self->data, (size_t)self->n * sizeof(*self->copy));
	FK_FORK(x, halves, self->copy, self->n / 2);
	FK_CALL(y, halves, self->copy + self->n / 2, self->n - self->n / 2);
	FK_JOIN();
	memcpy(self->data, self->copy, (size_t)self->n * sizeof(*self->copy));
	if (self->n % 3)
		FK_FREE(copy);
	FK_RETURN(self->x + self->y);
}
FK_END(halves)

/* Thread-local variables, in leaves. */
FK_LEAF_TASK(int64_t, digits, (int64_t, n))
{
	static _Thread_local char text[24];
	char *end = text;
	int64_t value;

	errno = 0;
	for (int64_t i = 0; i < n; i++)
		*end++ = '7';
	*end = '\0';
	value = strtol(text, &end, 10);
	return errno || *end ? -1 : value;
}

FK_TASK(int64_t, own, (int64_t, n), int64_t x; int64_t y;)
FK_NO_LEAF(own)
{
	FK_FORK(x, digits, self->n);
	FK_CALL(y, digits, self->n + 1);
	FK_JOIN();
	if (self->x != 77 || self->y != 777)
		FK_FAIL(-EBADMSG);
	FK_RETURN(0);
}
FK_END(own)

/* Arguments of each type, with the values that tests/cli/check-races passes. */
FK_TASK(int64_t, types,
	(int64_t, n, double, x, struct fk_str, text, struct fk_buf, in, struct fk_iobuf, out),
	int64_t sum;)
FK_NO_LEAF(types)
{
	if (self->n != -3 || self->x != 0.5 || strcmp(self->text.data, "a b") ||
	    self->text.size != 3 || self->in.size != 24 || self->out.size != 80 ||
	    memcmp(self->in.data, "123456781234567812345678", 24))
		FK_FAIL(-EBADMSG);
	FK_GO_TO_WORKER(0);
	FK_CALL(sum, halves, self->out.data, (int64_t)(self->out.size / sizeof(int64_t)));
	FK_RETURN(self->sum);
}
FK_END(types)

/* ------------------------------------------------------------------------ ends of other kinds */

FK_LEAF_TASK(int64_t, fail, (int64_t, n))
{
	if (n)
		FK_LEAF_FAIL(-EDOM);
	return 0;
}

FK_TASK(int64_t, unjoined, (int64_t, n), int64_t x;)
FK_NO_LEAF(unjoined)
{
	FK_FORK(x, get, &shared[0]);
	FK_RETURN(self->n);
}
FK_END(unjoined)

FK_TASK(int64_t, calls, (int64_t, n), int64_t x;)
{
	if (!n)
		FK_LEAF(0);
}
FK_BODY(calls)
{
	FK_CALL(x, calls, self->n - 1);
	FK_RETURN(self->x);
}
FK_END(calls)

/* A frame that is larger than a stack. */
FK_TASK(int64_t, large, (int64_t, n), char data[3 << 20];)
FK_NO_LEAF(large)
{
	self->data[0] = 0;
	FK_RETURN(self->n);
}
FK_END(large)

FK_TASK(int64_t, chain, (int64_t, n), int64_t x;)
{
	if (!n)
		FK_LEAF(0);
}
FK_BODY(chain)
{
	FK_FORK(x, chain, self->n - 1);
	FK_JOIN();
	FK_RETURN(self->x);
}
FK_END(chain)

FK_LEAF_TASK(int64_t, crash, (int64_t, n))
{
	volatile int64_t *volatile nowhere = NULL;

	*nowhere = n; /* RACE crash */
	return 0;
}

FK_LEAF_TASK(int64_t, stop, (int64_t, n))
{
	if (n < 0)
		(void)raise((int)-n);
	exit((int)n);
}

FK_LEAF_TASK(fk_void, endless, (int64_t, n))
{
	for (volatile int64_t i = n;; i++)
		;
}

/* Checks that the program runs without address space randomization. */
FK_LEAF_TASK(int64_t, fixed, (int64_t, n))
{
	if (!(personality(0xffffffff) & ADDR_NO_RANDOMIZE))
		FK_LEAF_FAIL(-EFAULT);
	return n;
}

FK_EXPORT(counter, 0, "n children add to a variable")
FK_EXPORT(element, 0, "Two children write the same element")
FK_EXPORT(between, 0, "The parent writes what a child reads, between fork and join")
FK_EXPORT(early, 0, "The parent reads a result before the join")
FK_EXPORT(cousins, 0, "Two grandchildren write the same element")
FK_EXPORT(loop, 0, "All steps of a loop write the same element")
FK_EXPORT(atomic, 0, "n children add to an atomic variable")
FK_EXPORT(locked, 0, "n children add to a variable under a lock")
FK_EXPORT(rounds, 0, "n rounds of children write the same elements")
FK_EXPORT(own, 0, "Two children use errno and a variable of the thread")
FK_EXPORT(types, 0, "Arguments of each type, and halves of an array")
FK_EXPORT(fail, 0, "Fails with EDOM")
FK_EXPORT(unjoined, 0, "Ends without a join")
FK_EXPORT(calls, 0, "n calls, one in the other")
FK_EXPORT(large, 0, "Has a frame of 3 MiB")
FK_EXPORT(chain, 0, "n forks, one in the other")
FK_EXPORT(crash, 0, "Writes to NULL")
FK_EXPORT(stop, 0, "Exits with code n, or ends by signal -n")
FK_EXPORT(endless, 0, "Does not end")
FK_EXPORT(fixed, 0, "Fails if memory is placed at random")
FK_MODULE(races, "Tasks with and without races")
