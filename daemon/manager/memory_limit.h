/* SPDX-License-Identifier: MIT */
/* memory_limit.h - how much memory there is for forkd, by the kernel's word */
#pragma once

#include <stdint.h>

struct memory_limit {
	uint64_t bytes;
	char where[256]; /* the file of the limit, or words, for a message */
};

/*
 * The least of what the machine has and what the control groups of this process may have, up to
 * their root.
 * root: a folder with proc and sys; "" for the system's. machine: bytes that the machine has.
 */
void memory_limit_find(const char *root, uint64_t machine, struct memory_limit *ret);

/* Bytes of memory that the machine has. */
uint64_t memory_limit_machine(void);
