/* SPDX-License-Identifier: MIT */
/* frame_alloc.h - temporary memory for tasks; fk_rt_alloc() and fk_rt_free() are
 * in forkd/task.h */
#pragma once

#include "daemon/core/worker.h"

/* Owner: the frame on top of the worker's stack ends; gives all that it has allocated back. */
void alloc_end(struct worker *worker, struct fk_frame *frame);
