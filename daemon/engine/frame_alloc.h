/* SPDX-License-Identifier: MIT */
/* frame_alloc.h - temporary memory for tasks; fk_rt_alloc() and fk_rt_free() are
 * in forkd/task.h */
#pragma once

#include "daemon/core/worker.h"

/* Owner: frees all allocations of the frame on top of the worker's stack, which ends. */
void alloc_end(struct worker *worker, struct fk_frame *frame);
