/* SPDX-License-Identifier: MIT */
#include "common/low_latency.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/util.h"

#define LOW_LATENCY_SLICE  100000 /* ns, the shortest there is */
#define LOW_LATENCY_NICE   (-15)
#define LOW_LATENCY_RLIMIT 35		/* RLIMIT_NICE that allows it: 20 - nice */
#define LOW_LATENCY_ALONE  1		/* SCHED_FLAG_RESET_ON_FORK */
#define LOW_LATENCY_WORD   "FORKD_NICE" /* the nice value before */

/* As in the kernel; its own header conflicts with libc's. */
struct low_latency_attr {
	uint32_t size;
	uint32_t policy;
	uint64_t flags;
	int32_t nice;
	uint32_t priority;
	uint64_t runtime;
	uint64_t deadline;
	uint64_t period;
};

/* Settings of the urgent thread before; size 0: none. */
static struct low_latency_attr before;

static void low_latency_set(struct low_latency_attr attr, int32_t nice, uint64_t slice)
{
	attr.runtime = slice;
	(void)syscall(SYS_sched_setattr, 0, &attr, 0);
	/* A separate call: the slice is available even if the nice value is not permitted. */
	attr.nice = nice;
	(void)syscall(SYS_sched_setattr, 0, &attr, 0);
}

void low_latency_begin(bool alone)
{
	struct low_latency_attr attr = { .size = sizeof(attr) };

	if (syscall(SYS_sched_getattr, 0, &attr, sizeof(attr), 0) < 0 || attr.policy != 0)
		return;
	before = attr;
	if (alone)
		attr.flags |= LOW_LATENCY_ALONE;
	low_latency_set(attr, min(attr.nice, LOW_LATENCY_NICE), LOW_LATENCY_SLICE);
}

void low_latency_end(void)
{
	/* A slice of 0 is the default. */
	if (before.size)
		low_latency_set(before, before.nice, 0);
}

void low_latency_hand_over(void)
{
	char text[16];

	(void)unsetenv(LOW_LATENCY_WORD);
	if (!before.size)
		return;
	(void)snprintf(text, sizeof(text), "%d", before.nice);
	if (setenv(LOW_LATENCY_WORD, text, 1) < 0)
		low_latency_end();
	else
		low_latency_set(before, min(before.nice, LOW_LATENCY_NICE), LOW_LATENCY_SLICE);
}

void low_latency_take_over(void)
{
	struct low_latency_attr attr = { .size = sizeof(attr) };
	const char *text = getenv(LOW_LATENCY_WORD);

	if (!text || syscall(SYS_sched_getattr, 0, &attr, sizeof(attr), 0) < 0)
		return;
	attr.nice = atoi(text);
	before = attr;
	(void)unsetenv(LOW_LATENCY_WORD);
}

void low_latency_allow(void)
{
	struct rlimit limit = { LOW_LATENCY_RLIMIT, LOW_LATENCY_RLIMIT };

	(void)setrlimit(RLIMIT_NICE, &limit);
}

void low_latency_settle(void)
{
	struct rlimit limit = { 0, 0 };

	(void)setrlimit(RLIMIT_NICE, &limit);
}
