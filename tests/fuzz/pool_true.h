/* SPDX-License-Identifier: MIT */
/* pool_true.h - conditions that hold after each step of fuzz_pool.c: see its essay */
#pragma once

#include "shm/ledger.h"
#include "tests/fuzz/pool_rig.h"

static uint64_t counted(uint64_t (*of)(const struct board_counters *counters))
{
	uint64_t sum = of(&pool->board->counters[BOARD_POOL]);

	for (uint32_t i = 0; i < WORKERS; i++)
		sum += of(&pool->board->counters[i]);
	return sum;
}

static uint64_t drained(const struct board_counters *counters)
{
	return counters->drained;
}

/* Marks the rows of a worker's deque. */
static void mark_roots(struct worker *w, uint32_t *places)
{
	uint64_t n = deque_size(&w->roots.deque),
		 first = w->roots.deque.split - n - w->roots.deque.shift;

	for (uint64_t i = 0; i < n; i++) {
		uint64_t row = w->roots.deque.entries[first + i].word;

		FUZZ_ASSERT(row < ROWS);
		places[row]++;
	}
}

static void check_rows(void)
{
	uint32_t places[ROWS] = { 0 }, active[SLOTS] = { 0 }, queued = 0;
	uint64_t left = 0, ended = 0;
	struct fair *fair = pool->fair;

	for (uint32_t i = 0; i < WORKERS; i++)
		mark_roots(&pool->workers[i], places);
	for (uint32_t row = 0; row < ROWS; row++) {
		struct ledger_row now = ledger_row(pool->arena, row);

		queued += fair->rows[row].in != 0;
		places[row] += (fair->rows[row].in != 0) + hand[row];
		FUZZ_ASSERT(now.state != LEDGER_FINISHING);
		FUZZ_ASSERT(places[row] == (now.state != LEDGER_FREE));
		active[row / JOBS] += now.state != LEDGER_FREE;
		left += now.state != LEDGER_FREE;
	}
	FUZZ_ASSERT(queued == fair_queued(fair) + fair_placed(fair));
	for (uint32_t c = 0; c < SLOTS; c++) {
		FUZZ_ASSERT(pool->clients.entries[c].active == active[c]);
		ended += pool->board->clients[c].jobs;
	}
	FUZZ_ASSERT(carried + counted(drained) == left + ended);
}

static void check_rings(void)
{
	for (uint32_t t = 0; t < TENANTS; t++)
		for (uint32_t i = 0; i < WORKERS; i++) {
			struct ledger_ring *side = &pool->arena->rings[t][i];

			FUZZ_ASSERT(!side->consumer && side->head >= heads[t][i]);
			heads[t][i] = side->head;
		}
}

/* An honest client checks its jobs. */
static void check_honest(void)
{
	for (uint32_t c = 0; c < CLIENTS; c++)
		for (uint32_t i = 0; i < JOBS; i++) {
			struct wanted *w = &wanted[c][i];
			uint32_t state = job_of(c, i)->state;

			if (c == HOSTILE || !w->pending)
				continue;
			FUZZ_ASSERT(state >> JOB_GEN_SHIFT == (w->generation & JOB_GEN_MASK));
			w->pending = (state & JOB_OUTCOME_MASK) == JOB_PENDING;
		}
}

static void check(void)
{
	check_rows();
	check_rings();
	check_honest();
}
