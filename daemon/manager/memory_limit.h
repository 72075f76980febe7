/* SPDX-License-Identifier: MIT */
/* memory_limit.h - how much memory forkd may use, according to the kernel */
#pragma once

#include <stdint.h>

struct memory_limit {
	uint64_t bytes;
	char where[256]; /* the file of the limit, or words, for a message */
};

/*
 * Finds the least of the machine's memory and the limits of the control groups of this process, up
 * to their root.
 * root: a directory with proc and sys; "" for the system's. machine: bytes of the machine's memory.
 */
void memory_limit_find(const char *root, uint64_t machine, struct memory_limit *ret);

/* Bytes of memory of the machine. */
uint64_t memory_limit_machine(void);
