/* SPDX-License-Identifier: MIT */
/* entries.h - dummy functions for a module's table that is never called */
#pragma once

#include <forkd/task.h>

static inline void enter(struct fk_worker *w, char *sp, void *result, const void *args)
{
	(void)w, (void)sp, (void)result, (void)args;
}

static inline struct fk_frame *resume(struct fk_worker *w, struct fk_frame *frame)
{
	(void)w;
	return frame;
}

static inline void describe(struct fk_frame *frame, struct fk_child *ret_child)
{
	(void)frame, (void)ret_child;
}
