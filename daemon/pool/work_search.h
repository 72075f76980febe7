/* SPDX-License-Identifier: MIT */
/* work_search.h - how a worker finds work */
#pragma once

#include <stdint.h>

struct worker;

/* Result of worker_find(). */
enum worker_found {
	WORKER_FRAME, /* resume worker->next */
	WORKER_ROOT,  /* start a queued job */
	WORKER_STOP,  /* the pool stops */
};

/* Blocks until there is work to run. */
enum worker_found worker_find(struct worker *worker, uint32_t *ret_row);
