/* SPDX-License-Identifier: MIT */
/*
 * memory.h - memory for the payload of a job
 *
 * A payload is received into a block of forkd's heap, in which tasks use it in place. The answer is
 * written over it.
 */
#pragma once

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

struct gateway;
struct link;

/* One thread at a time. */
struct memory {
	/* constant */
	struct gateway *gateway;
	uint32_t server;		   /* whose client of a link it uses */
	const _Atomic uint32_t *in_flight; /* jobs that will free memory of this client */
	/* of the job */
	struct link *link; /* of the block; NULL: the block is private, from malloc() */
	void *block;	   /* NULL: none */
};

/* Allocates a block for a payload of size bytes, not 0, in the heap of forkd; privately, if forkd
 * is not there. While the heap is full it waits for jobs in flight to end. text: text_size bytes
 * for the text of an error. Returns 0; -EFBIG (above --max-size), or an error of fk_alloc(). */
int memory_reserve(struct memory *memory, size_t size, char *text, size_t text_size);

/* Moves the block of size bytes to the heap of a link, if there is one elsewhere. Returns 0;
 * -EOWNERDEAD: its contents are lost; or an error of fk_alloc(): the block has not changed. */
int memory_move(struct memory *memory, struct link *link, size_t size);

/* Frees the block, if there is one. */
void memory_free(struct memory *memory);
