/* SPDX-License-Identifier: MIT */
/* work_search.h - how a worker finds work */
#pragma once

#include <stdint.h>

struct worker;

/* What worker_find() found. */
enum worker_found {
	WORKER_FRAME, /* worker->next is to be resumed */
	WORKER_ROOT,  /* a queued job is to be started */
	WORKER_STOP,  /* the pool stops */
};

/* Blocks until there is something to run. */
enum worker_found worker_find(struct worker *worker, uint32_t *ret_row);
