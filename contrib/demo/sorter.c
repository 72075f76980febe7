/* SPDX-License-Identifier: MIT */
/*
 * sorter.c - sorts millions of numbers where they lie
 *
 * The numbers are written into the connection's shared heap, and sort:i64 sorts them there: nothing
 * is copied between the two processes. Order and sum are checked here afterwards.
 */
#include "contrib/demo/demo.h"

#include <inttypes.h>

#define SORTER_NUMBERS UINT64_C(4000000)

/* splitmix64 (Steele, Lea, Flood 2014). */
static uint64_t sorter_random(uint64_t *state)
{
	uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);

	z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
	return z ^ z >> 31;
}

int main(int argc, char *argv[])
{
	const size_t size = SORTER_NUMBERS * sizeof(int64_t);
	fk_client *client = demo_open(1, size + 65536);
	uint64_t state = 1, sum_before = 0, sum = 0;
	const char *order = "sorted";
	int64_t *numbers;
	char what[64], answer[64], right[64];
	void *data;

	demo_must(fk_alloc(client, size, &data), "sorter: room for the numbers");
	numbers = data;
	for (uint64_t i = 0; i < SORTER_NUMBERS; i++) {
		numbers[i] = (int64_t)sorter_random(&state);
		sum_before += (uint64_t)numbers[i];
	}
	demo_must(fk_call(client, "sort:i64", NULL, FK_BUFFER(data, size)), "sorter: sort:i64");
	for (uint64_t i = 0; i < SORTER_NUMBERS; i++) {
		if (i && numbers[i - 1] > numbers[i])
			order = "not sorted";
		sum += (uint64_t)numbers[i];
	}
	(void)snprintf(what, sizeof(what), "sort:i64, %" PRIu64 " numbers", SORTER_NUMBERS);
	(void)snprintf(answer, sizeof(answer), "%s, sum %016" PRIx64, order, sum);
	(void)snprintf(right, sizeof(right), "sorted, sum %016" PRIx64, sum_before);
	return demo_end(client, argc, argv, what, answer, right);
}
