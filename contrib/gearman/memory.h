/* SPDX-License-Identifier: MIT */
/*
 * memory.h - the memory of one slot for the payload of its job
 *
 * A payload is received into a block of forkd's heap, in which tasks use it in place. The answer is
 * written over it. The block is kept for the next job, unless it is large.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct gateway;
struct link;

/* One thread. */
struct memory {
	struct gateway *gateway;
	struct link *link; /* of the block; NULL: the block is private, from malloc() */
	void *block;
	size_t room; /* bytes of the block */
};

/* Makes room for a payload in the heap of forkd; privately, if forkd is not there. While the heap
 * is full it waits for other jobs to end. text: size bytes for the text of an error. Returns 0;
 * -EFBIG (above --max-size), or an error of fk_alloc(). */
int memory_reserve(struct memory *memory, size_t payload, char *text, size_t size);

/* Moves the first size bytes of the block to the heap of a link, if they are elsewhere. Returns 0;
 * -EOWNERDEAD: their contents are lost; or an error of fk_alloc(): the block has not changed. */
int memory_move(struct memory *memory, struct link *link, size_t size);

/* After a job: frees what the next one does not need. */
void memory_trim(struct memory *memory);

/* Frees everything. */
void memory_fini(struct memory *memory);
