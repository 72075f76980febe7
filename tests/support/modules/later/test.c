/* SPDX-License-Identifier: MIT */
/* test.c - the tasks of the fake daemon (tests/support/fake.h), for a local pool in its place */
#include <linux/futex.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <forkd/fiber.h>

static struct {
	_Atomic uint32_t *hold, *held;
	/* of fake.c; returns 0 or a code to fail with */
	int (*await_turn)(int drops);
} fake;

/* The environment has the addresses. */
static void __attribute__((constructor)) begin(void)
{
	const char *text = getenv("FORKD_TEST_HOLD");

	if (!text || sscanf(text, "%p %p %p", (void **)&fake.hold, (void **)&fake.held,
			    (void **)&fake.await_turn) != 3)
		abort();
}

static void await_turn(int drops)
{
	int code = fake.await_turn(drops);

	if (code)
		(void)fk_fiber_fail(code);
}

FK_FIBER_TASK(int64_t, add, (int64_t, a, int64_t, b))
{
	await_turn(0);
	return (int64_t)((uint64_t)a + (uint64_t)b);
}

struct length {
	int64_t length;
	double half;
};

FK_FIBER_TASK(struct length, len, (struct fk_str, t))
{
	await_turn(0);
	return (struct length){ (int64_t)t.size, (double)t.size / 2 };
}

FK_FIBER_TASK(fk_void, inc, (struct fk_iobuf, d))
{
	unsigned char *bytes = d.data;

	await_turn(0);
	for (uint64_t i = 0; i < d.size; i++)
		bytes[i]++;
	return (fk_void){};
}

FK_FIBER_TASK(int64_t, fail, (int64_t, code))
{
	await_turn(0);
	(void)fk_fiber_fail((int)code);
	return 0;
}

FK_FIBER_TASK(fk_void, crash, ())
{
	await_turn(0);
	return (fk_void){};
}

/* Keeps its worker while struct fake.hold is 1. */
FK_LEAF_TASK(fk_void, hold, ())
{
	const struct timespec nap = { .tv_nsec = 100000 };

	atomic_fetch_add(fake.held, 1);
	(void)syscall(SYS_futex, fake.held, FUTEX_WAKE, INT32_MAX);
	while (atomic_load(fake.hold))
		(void)nanosleep(&nap, NULL);
}

/* Ends only when its job is cancelled, or the test ends it. */
FK_FIBER_TASK(fk_void, drop, ())
{
	await_turn(1);
	return (fk_void){};
}

FK_EXPORT(add, 0, "")
FK_EXPORT_RESULTS(len, (int64_t, length, double, half), 0, "")
FK_EXPORT(inc, 0, "")
FK_EXPORT(fail, 0, "")
FK_EXPORT(crash, 0, "")
FK_EXPORT(hold, 0, "")
FK_EXPORT(drop, 0, "")
FK_MODULE(test, "Tasks of the fake daemon")
