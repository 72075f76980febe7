/* SPDX-License-Identifier: MIT */
#include "daemon/core/trace.h"

#include <errno.h>
#include <sys/mman.h>

#include "common/clock.h"
#include "common/relaxed.h"
#include "daemon/core/mapping.h"
#include "daemon/core/pool_state.h"
#include "daemon/core/worker_state.h"
#include "daemon/host/topology.h"
#include "shm/board.h"
#include "shm/ledger.h"
#include "shm/segment.h"
#include "shm/trace.h"

void trace_write(struct worker *w, uint32_t kind, uint32_t row, uint32_t peer, uint64_t value)
{
	/* Read once: it may become NULL. */
	struct trace_ring *ring = load_relaxed(&w->trace);
	struct trace_event event = {
		.time_ns = clock_ns(),
		.row = row,
		.task = UINT32_MAX,
		.kind = (uint16_t)kind,
		.peer = (uint16_t)peer,
		.value = value,
	};

	if (!ring)
		return;
	if (row != WORKER_NO_JOB) {
		struct ledger_row job = ledger_row(w->pool->arena, row);

		event.generation = job.generation;
		event.task = job.task - 1;
	}
	trace_put(ring, &event);
}

/* Relaxed: a ring is as the manager has made it, and all threads share the mapping (I1). */
static void trace_tell(struct pool *pool, struct trace *trace)
{
	for (uint32_t i = 0; i < pool->n_workers; i++)
		store_relaxed(&pool->workers[i].trace, trace ? &trace->rings[i] : NULL);
}

/* Moves the segment mapped at from to its fixed place: I1. Returns 0 or a negative errno. */
static int trace_settle(struct pool *pool, void *from, uint64_t size)
{
	int r;

	if (!pool->trace) {
		pool->trace = from;
		return 0;
	}
	if (mremap(from, size, size, MREMAP_MAYMOVE | MREMAP_FIXED, pool->trace) != MAP_FAILED)
		return 0;
	r = -errno;
	(void)munmap(from, size);
	/* mremap() may have unmapped the old segment before it failed; a late writer then writes
	 * here. */
	(void)mmap(pool->trace, size, PROT_READ | PROT_WRITE,
		   MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
	return r;
}

/* Allocates each ring's pages on the node of its worker, in advance, if possible. */
static void trace_prepare(struct pool *pool, struct trace *trace)
{
	for (uint32_t i = 0; i < pool->n_workers; i++) {
		struct trace_ring *ring = &trace->rings[i];

		(void)topology_bind_memory(pool->topology, i, ring, sizeof(*ring));
		(void)madvise(ring, sizeof(*ring), MADV_POPULATE_WRITE);
	}
}

int trace_begin(struct pool *pool, int fd)
{
	uint64_t size;
	void *base;
	int r;

	trace_end(pool);
	r = segment_map(fd, SEGMENT_TRACE, 1, pool->board->head.epoch, &base, &size);
	if (r < 0)
		return r;
	r = size == trace_size(pool->n_workers) ? layout_withhold(base, size, true) : -EBADMSG;
	if (r < 0) {
		segment_unmap(base, size);
		return r;
	}
	trace_prepare(pool, base);
	r = trace_settle(pool, base, size);
	if (r == 0)
		trace_tell(pool, pool->trace);
	return r;
}

void trace_end(struct pool *pool)
{
	if (!pool->trace)
		return;
	trace_tell(pool, NULL);
	/* I2. The tracer has read it: the trace ends with its connection. */
	(void)madvise(pool->trace, trace_size(pool->n_workers), MADV_REMOVE);
}

void trace_fini(struct pool *pool)
{
	segment_unmap(pool->trace, trace_size(pool->n_workers));
}
