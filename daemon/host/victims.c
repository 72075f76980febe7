/* SPDX-License-Identifier: MIT */
#include "daemon/host/victims.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>

#include "common/cleanup.h"
#include "common/util.h"

#define VICTIMS_WHOLE 4294967296.0 /* 2^32 */

/* Temporary data for one worker at a time. */
struct victims_work {
	uint32_t *distance; /* to each worker */
	uint32_t *classes;  /* the different distances, ascending */
	uint32_t *count;    /* workers in each class */
	uint32_t *class;    /* of each worker */
	uint32_t *stack;    /* slots: too small ones from the left, too large ones from the right */
	double *part;	    /* of each slot: its probability times the number of slots */
	uint32_t n_classes;
};

struct victims *victims_free(struct victims *v)
{
	if (!v)
		return NULL;
	free(v->slots);
	free(v->order);
	free(v->levels);
	free(v);
	return NULL;
}

static void victims_work_fini(struct victims_work *work)
{
	free(work->distance);
	free(work->classes);
	free(work->count);
	free(work->class);
	free(work->stack);
	free(work->part);
}

DEFINE_CLEANUP(struct victims *, victims_free);

/* Returns the index of this distance among the classes, or where it would be. */
static uint32_t victims_class(const struct victims_work *work, uint32_t distance)
{
	uint32_t low = 0, high = work->n_classes;

	while (low < high) {
		uint32_t middle = (low + high) / 2;

		if (work->classes[middle] < distance)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static void victims_classify(const struct victims *v, uint32_t i, struct victims_work *work)
{
	work->n_classes = 0;
	for (uint32_t j = 0; j < v->n; j++) {
		uint32_t at;

		if (j == i)
			continue;
		at = victims_class(work, work->distance[j]);
		if (at < work->n_classes && work->classes[at] == work->distance[j])
			continue;
		for (uint32_t k = work->n_classes++; k > at; k--)
			work->classes[k] = work->classes[k - 1];
		work->classes[at] = work->distance[j];
	}
	for (uint32_t k = 0; k < work->n_classes; k++)
		work->count[k] = 0;
	for (uint32_t j = 0; j < v->n; j++) {
		if (j == i)
			continue;
		work->class[j] = victims_class(work, work->distance[j]);
		work->count[work->class[j]]++;
	}
}

/* I2: by class, and in a class from i on. */
static void victims_sort(struct victims *v, uint32_t i, const struct victims_work *work)
{
	uint16_t *order = &v->order[(uint64_t)i * (v->n - 1)];
	uint32_t *next = work->stack; /* unused now: next position of each class */
	uint32_t at = 0;

	for (uint32_t k = 0; k < work->n_classes; k++) {
		next[k] = at;
		at += work->count[k];
	}
	for (uint32_t k = 1; k < v->n; k++) {
		uint32_t j = (i + k) % v->n;

		order[next[work->class[j]]++] = (uint16_t)j;
	}
}

/* Fills worker i's slots. Each slot begins with its own victim's probability, in units of slots.
 * While one has too little, it is filled up from one that has too much, which then may have too
 * little itself. Each step completes a slot, so this ends. The rounding error at the end is less
 * than 2^-40 of a slot, and goes to the slot's own victim. */
static void victims_fill(struct victims *v, uint32_t i, struct victims_work *work)
{
	uint32_t m = v->n - 1;
	const uint16_t *order = victims_order(v, i);
	struct victims_slot *slots = &v->slots[(uint64_t)i * m];
	uint32_t small = 0, large = m; /* the stacks' ends */
	double sum = 0;

	for (uint32_t k = 0; k < work->n_classes; k++)
		sum += 1.0 / ((double)work->classes[k] * work->classes[k]);
	for (uint32_t k = 0; k < m; k++) {
		uint32_t j = order[k];
		double r = work->distance[j];

		work->part[k] = m / (work->count[work->class[j]] * r * r * sum);
		slots[k] = (struct victims_slot){ .below = UINT32_MAX,
						  .own = order[k],
						  .other = order[k] };
		if (work->part[k] < 1)
			work->stack[small++] = k;
		else
			work->stack[--large] = k;
	}
	while (small > 0 && large < m) {
		uint32_t less = work->stack[--small];
		uint32_t more = work->stack[large];

		/* Less than 1, so less than 2^32; rounded to the nearest. */
		slots[less].below =
			(uint32_t)min(work->part[less] * VICTIMS_WHOLE + 0.5, VICTIMS_WHOLE - 1);
		slots[less].other = slots[more].own;
		work->part[more] -= 1 - work->part[less];
		if (work->part[more] < 1) {
			large++;
			work->stack[small++] = more;
		}
	}
}

static void victims_set_levels(struct victims *v, uint32_t i, const struct victims_work *work,
			       uint32_t (*group)(void *ctx, uint32_t i), void *ctx)
{
	uint8_t *levels = &v->levels[(uint64_t)i * v->n];
	uint32_t own = group(ctx, i);
	uint32_t nearest = UINT32_MAX;

	for (uint32_t j = 0; j < v->n; j++) {
		levels[j] = j != i && group(ctx, j) != own;
		if (levels[j])
			nearest = min(nearest, work->distance[j]);
	}
	for (uint32_t j = 0; j < v->n; j++)
		if (levels[j] && work->distance[j] > nearest)
			levels[j] = 2;
}

static bool victims_allocate(struct victims *v, struct victims_work *work)
{
	/* Never 0 bytes: a worker that is alone has no victims. */
	uint64_t n = v->n, pairs = max(n * (n - 1), 1u);

	v->slots = calloc(pairs, sizeof(*v->slots));
	v->order = calloc(pairs, sizeof(*v->order));
	v->levels = calloc(n * n, sizeof(*v->levels));
	work->distance = calloc(n, sizeof(*work->distance));
	work->classes = calloc(n, sizeof(*work->classes));
	work->count = calloc(n, sizeof(*work->count));
	work->class = calloc(n, sizeof(*work->class));
	work->stack = calloc(n, sizeof(*work->stack));
	work->part = calloc(n, sizeof(*work->part));
	return v->slots && v->order && v->levels && work->distance && work->classes &&
	       work->count && work->class && work->stack && work->part;
}

int victims_new(uint32_t n, uint32_t (*distance)(void *ctx, uint32_t i, uint32_t j),
		uint32_t (*group)(void *ctx, uint32_t i), void *ctx, struct victims **ret_victims)
{
	_cleanup_(victims_freep) struct victims *v = NULL;
	_cleanup_(victims_work_fini) struct victims_work work = { 0 };

	if (!n || n > VICTIMS_MAX)
		return -EINVAL;
	v = calloc(1, sizeof(*v));
	if (!v)
		return -ENOMEM;
	v->n = n;
	if (!victims_allocate(v, &work))
		return -ENOMEM;
	for (uint32_t i = 0; i < n; i++) {
		for (uint32_t j = 0; j < n; j++)
			work.distance[j] = j == i ? 0 : max(distance(ctx, i, j), 1u);
		victims_classify(v, i, &work);
		victims_sort(v, i, &work);
		victims_fill(v, i, &work);
		if (group)
			victims_set_levels(v, i, &work, group, ctx);
	}
	*ret_victims = steal_ptr(v);
	return 0;
}
