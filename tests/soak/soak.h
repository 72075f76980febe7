/* SPDX-License-Identifier: MIT */
/* soak.h - shared by the jobs of soak_stress, which soak_jobs.c defines */
#pragma once

#include <errno.h>
#include <forkd/client.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "common/util.h"
#include "tests/soak/soak_jobs.h"

#define SOAK_HEAP (UINT64_C(4) << 20)

struct soak {
	fk_client *client;
	struct soak_slot *slot;
	uint64_t random;
	void *taken[4]; /* of the heap, until this row ends */
	uint32_t n_taken;
};

struct soak_row {
	const char *name; /* names of the tasks that it calls, separated by blanks, or its action */
	bool (*run)(struct soak *s);
};

/* Each ends with a row without a name. */
extern const struct soak_row soak_arrays[];
extern const struct soak_row soak_modules[];

static inline uint64_t draw(struct soak *s, uint64_t below)
{
	return (xorshift64(&s->random) >> 11) % below;
}

/* Small sizes are more likely than large ones, as with real jobs. */
static inline uint64_t draw_size(struct soak *s, uint64_t below)
{
	return draw(s, draw(s, below) + 1);
}

static inline bool wrong(struct soak *s, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

static inline bool wrong(struct soak *s, const char *format, ...)
{
	va_list ap;

	va_start(ap, format);
	(void)vsnprintf(s->slot->wrong, sizeof(s->slot->wrong), format, ap);
	va_end(ap);
	return false;
}

/* Takes memory of the heap, which is freed when the row ends. NULL: an error. */
static inline void *take(struct soak *s, size_t size)
{
	void *data = NULL;
	int r = s->n_taken < ARRAY_SIZE(s->taken) ? fk_alloc(s->client, size, &data) : -ENOSPC;

	if (r < 0)
		(void)wrong(s, "%zu bytes of heap: %s", size, fk_strerror(r));
	else
		s->taken[s->n_taken++] = data;
	return data;
}

/* Submits a task, for finish(). */
static inline bool begin(struct soak *s, const char *task, const union fk_value *values, size_t n,
			 fk_job *ret_job)
{
	unsigned int flags = FK_WAIT_ROOM | (draw(s, 2) ? FK_IDEMPOTENT : 0);
	const fk_task *found;
	int r = fk_task_find(s->client, task, &found);

	atomic_fetch_add(&s->slot->outstanding, 1);
	if (r == 0)
		r = fk_submit_values(s->client, found, values, n, flags, ret_job);
	return r == 0 || wrong(s, "%s: %s", task, fk_strerror(r));
}

/* Waits for a job, which must be DONE, takes its result and releases it. */
static inline bool finish(struct soak *s, const char *what, fk_job job, void *result, size_t size)
{
	int r = fk_wait(s->client, job, FK_FOREVER);

	if (r == 0)
		r = fk_result(s->client, job, result, size);
	if (r < 0)
		return wrong(s, "%s: %s", what, fk_strerror(r));
	atomic_fetch_sub(&s->slot->outstanding, 1);
	atomic_fetch_add(&s->slot->done, 1);
	return fk_release(s->client, job) == 0 || wrong(s, "%s: cannot be released", what);
}

static inline bool call(struct soak *s, const char *task, void *result, size_t size,
			const union fk_value *values, size_t n)
{
	fk_job job;

	return begin(s, task, values, n, &job) && finish(s, task, job, result, size);
}

static inline union fk_value as_buffer(const void *data, size_t size)
{
	return (union fk_value){ .buf = { (void *)(uintptr_t)data, size } };
}
