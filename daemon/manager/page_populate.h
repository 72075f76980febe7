/* SPDX-License-Identifier: MIT */
/* page_populate.h - allocates and frees the pages of a shared segment in pieces */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "daemon/manager/loop.h"

#define PAGES_PIECE (UINT64_C(4) << 20) /* bytes of a piece */

struct pages {
	struct loop *loop;
	/* result: 0, or a negative errno */
	void (*call)(struct pages *pages, int result);
	struct loop_source source;
	int fd;
	int mode; /* of fallocate(2) */
	uint64_t end;
	uint64_t done;
	bool turned; /* the piece in progress has the other mode */
};

/*
 * Allocates all pages of a segment from byte start to end, then calls pages->call(). The caller has
 * set loop and call.
 * fd: borrowed until then, or until pages_stop(). -ENOSPC, -ENOMEM: some were allocated.
 * Returns 0; or -ENOMEM, without a call.
 */
int pages_make(struct pages *pages, int fd, uint64_t start, uint64_t end);

/* Frees these pages, even if a process has the segment mapped or open: they read as zeros then, and
 * an access allocates one. The size stays. If pages are still being allocated, that ends without a
 * call. */
int pages_drop(struct pages *pages, int fd, uint64_t start, uint64_t end);

/* Ends both without a call. The kernel may access the segment once more for the piece in progress:
 * only for a caller that no longer counts its pages. */
void pages_stop(struct pages *pages);
