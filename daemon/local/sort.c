/* SPDX-License-Identifier: MIT */
/*
 * sort.c - fk_sort(): the parallel merge sort of forkd/algorithm.h for elements of any size
 *
 * Elements of 4 and 8 bytes are moved themselves. For others, pointers to them are sorted, and then
 * the elements are moved once.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <forkd/algorithm.h>
#include <forkd/pool.h>

#include "client/lib/client.h"
#include "common/cleanup.h"
#include "common/util.h"

struct order {
	int (*compare)(const void *a, const void *b, void *context);
	void *context;
};

static bool less_4(const uint32_t *a, const uint32_t *b, const struct order *order)
{
	return order->compare(a, b, order->context) < 0;
}

static bool less_8(const uint64_t *a, const uint64_t *b, const struct order *order)
{
	return order->compare(a, b, order->context) < 0;
}

struct pointer {
	const char *to;
};

static bool less_pointed(const struct pointer *a, const struct pointer *b,
			 const struct order *order)
{
	return order->compare(a->to, b->to, order->context) < 0;
}

FK_SORT(sort_4, uint32_t, less_4, const struct order *)
FK_SORT(sort_8, uint64_t, less_8, const struct order *)
FK_SORT(sort_pointers, struct pointer, less_pointed, const struct order *)

/* Elements, pointers to them in their order, and a buffer for the elements. */
struct moves {
	char *array;
	size_t size;
	struct pointer *pointers;
	char *buffer;
};

static void moves_point(int64_t first, int64_t last, void *context)
{
	const struct moves *m = context;

	for (int64_t i = first; i < last; i++)
		m->pointers[i].to = m->array + (size_t)i * m->size;
}

static void moves_collect(int64_t first, int64_t last, void *context)
{
	const struct moves *m = context;

	for (int64_t i = first; i < last; i++)
		memcpy(m->buffer + (size_t)i * m->size, m->pointers[i].to, m->size);
}

static void moves_return(int64_t first, int64_t last, void *context)
{
	const struct moves *m = context;

	memcpy(m->array + (size_t)first * m->size, m->buffer + (size_t)first * m->size,
	       (size_t)(last - first) * m->size);
}

static int sort_by_pointers(fk_client *client, char *array, size_t n, size_t size,
			    const struct order *order)
{
	_cleanup_free_ struct pointer *pointers = malloc(2 * n * sizeof(*pointers));
	_cleanup_free_ char *buffer = malloc(n * size);
	struct moves moves = { array, size, pointers, buffer };
	int err;

	if (!pointers || !buffer)
		return error_of_task(client, -ENOMEM, "");
	err = fk_for(client, 0, (int64_t)n, moves_point, &moves);
	if (!err)
		err = FK_RUN(client, (void *)NULL, sort_pointers, pointers, pointers + n, n, 0,
			     order);
	if (!err)
		err = fk_for(client, 0, (int64_t)n, moves_collect, &moves);
	return err ? err : fk_for(client, 0, (int64_t)n, moves_return, &moves);
}

static int sort_any(fk_client *client, void *array, size_t n, size_t size,
		    const struct order *order)
{
	_cleanup_free_ void *buffer = NULL;
	size_t bytes;

	if (__builtin_mul_overflow(n, max(size, 2 * sizeof(char *)), &bytes))
		return error_of_task(client, -ENOMEM, "");
	if ((size != 4 && size != 8) || (uintptr_t)array % size)
		return sort_by_pointers(client, array, n, size, order);
	buffer = malloc(bytes);
	if (!buffer)
		return error_of_task(client, -ENOMEM, "");
	return size == 4 ? FK_RUN(client, (void *)NULL, sort_4, array, buffer, n, 0, order)
			 : FK_RUN(client, (void *)NULL, sort_8, array, buffer, n, 0, order);
}

int fk_sort(fk_client *client, void *array, size_t n, size_t size,
	    int (*compare)(const void *a, const void *b, void *context), void *context)
{
	const struct order order = { compare, context };
	int err = n < 2 || !size ? 0 : sort_any(client, array, n, size, &order);

	return err ? error_name(err, "fk_sort") : 0;
}
