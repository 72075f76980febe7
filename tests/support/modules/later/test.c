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

FK_LEAF_TASK(int64_t, add, (int64_t, a, int64_t, b))
{
	return (int64_t)((uint64_t)a + (uint64_t)b);
}

struct length {
	int64_t length;
	double half;
};

FK_LEAF_TASK(struct length, len, (struct fk_str, t))
{
	return (struct length){ (int64_t)t.size, (double)t.size / 2 };
}

FK_LEAF_TASK(fk_void, inc, (struct fk_iobuf, d))
{
	unsigned char *bytes = d.data;

	for (uint64_t i = 0; i < d.size; i++)
		bytes[i]++;
}

FK_LEAF_TASK(int64_t, fail, (int64_t, code))
{
	FK_LEAF_FAIL((int)code);
	return 0;
}

FK_LEAF_TASK(fk_void, crash, ())
{
}

/* Keeps its worker while struct fake.hold, whose address is in the environment, is 1. */
FK_LEAF_TASK(fk_void, hold, ())
{
	const struct timespec nap = { .tv_nsec = 100000 };
	_Atomic uint32_t *hold = NULL, *held = NULL;

	if (sscanf(getenv("FORKD_TEST_HOLD"), "%p %p", (void **)&hold, (void **)&held) != 2)
		abort();
	atomic_fetch_add(held, 1);
	(void)syscall(SYS_futex, held, FUTEX_WAKE, INT32_MAX);
	while (atomic_load(hold))
		(void)nanosleep(&nap, NULL);
}

/* Ends only when its job is cancelled. */
FK_FIBER_TASK(fk_void, drop, ())
{
	while (fk_fiber_sleep(UINT64_C(3600000000000)) == 0)
		;
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
