/* SPDX-License-Identifier: MIT */
/* page_populate.h - the pages of a shared segment, made and given back piece by piece */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "daemon/manager/loop.h"

#define PAGES_PIECE (UINT64_C(4) << 20) /* bytes at a time */

struct pages {
	struct loop *loop;
	/* result: 0, or a negative errno */
	void (*call)(struct pages *pages, int result);
	struct loop_source source;
	int fd;
	int mode; /* of fallocate(2) */
	uint64_t size;
	uint64_t done;
	bool turned; /* what is under way is of another mode */
};

/*
 * Makes all pages of a segment of size bytes, then calls pages->call(); loop and call are set.
 * fd: borrowed until then, or until pages_stop(). -ENOSPC, -ENOMEM: some were made.
 * Returns 0 or a negative errno, with no call: -ENOMEM.
 */
int pages_make(struct pages *pages, int fd, uint64_t size);

/*
 * Gives all of them back, even if a process has the segment mapped or open: they read as zeros
 * then, and a touch makes one. Its size stays. If they are still being made, that ends, without a
 * call.
 */
int pages_drop(struct pages *pages, int fd, uint64_t size);

/* Neither continues, and there is no call. What is under way in the kernel touches the segment once
 * more: only for a caller that does not count its pages any more. */
void pages_stop(struct pages *pages);
