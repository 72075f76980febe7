/* SPDX-License-Identifier: MIT */
/* hog.c - tasks that allocate as much memory from malloc() as they can get */
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include <forkd/task.h>

/* If there is no limit, allocation stops here, not when the machine has no memory left. */
#define HOG_STOP (INT64_C(1) << 30)

static _Atomic int64_t kept; /* bytes that hog:keep holds */

/* Allocates, touches and links pieces of this size. Returns true if malloc() has failed. */
static int take(int64_t piece, void **all, int64_t *bytes)
{
	while (*bytes < HOG_STOP) {
		void **p = malloc((size_t)piece);

		if (!p)
			return 1;
		memset(p, 1, (size_t)piece);
		*p = *all;
		*all = p;
		*bytes += piece;
	}
	return 0;
}

static void give_back(void *all)
{
	while (all) {
		void *next = *(void **)all;

		free(all);
		all = next;
	}
}

FK_LEAF_TASK(int64_t, eat, (int64_t, piece))
{
	void *all = NULL;
	int64_t bytes = 0;
	int full = take(piece, &all, &bytes);

	give_back(all);
	if (full)
		FK_LEAF_FAIL(-ENOMEM);
	return bytes;
}

/* Takes everything, by smaller and smaller pieces. */
FK_LEAF_TASK(int64_t, keep, (struct fk_buf, gate))
{
	const volatile unsigned char *open = gate.data;
	void *all = NULL;
	int64_t bytes = 0;

	for (int64_t piece = 1 << 20; piece >= 16; piece /= 2)
		(void)take(piece, &all, &bytes);
	atomic_store(&kept, bytes);
	while (!*open)
		;
	atomic_store(&kept, 0);
	give_back(all);
	return bytes;
}

FK_LEAF_TASK(int64_t, held, (int64_t, ignored))
{
	return atomic_load(&kept);
}

FK_LEAF_TASK(int64_t, some, (int64_t, bytes))
{
	volatile unsigned char *p = malloc((size_t)bytes);

	if (!p)
		FK_LEAF_FAIL(-ENOMEM);
	for (int64_t i = 0; i < bytes; i += 4096)
		p[i] = 1;
	free((void *)p);
	return bytes;
}

FK_EXPORT(eat, 0, "Takes pieces of this size until there are none, gives them back and fails")
FK_EXPORT(keep, FK_EXPORT_IN_PLACE,
	  "Takes all there is and keeps it until the first byte is not 0; how much it was")
FK_EXPORT(held, 0, "What keep keeps; 0 before it has all and when it ends")
FK_EXPORT(some, 0, "Allocates this much, touches it and frees it")
FK_MODULE(hog, "Tasks that want memory")
