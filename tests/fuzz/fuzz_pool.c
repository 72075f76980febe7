/* SPDX-License-Identifier: MIT */
/*
 * fuzz_pool.c - bytes as actions of clients on their rings and records, against pool and manager
 *
 * The path of a job in the pool, from the rings to its outcome, on real segments and without
 * threads. The actions of workers, dispatcher and clients are steps. Clients write, cancel, and
 * leave. A pool dies between two steps, or, with crash sites, in the middle of a drain, and the
 * next one takes over. Tasks are not run: a job is RUNNING until a step ends it
 * (tests/fuzz/fuzz_record.c has its arguments).
 *
 * 	client 0	tenant 0	hostile: writes records, words, tails, flags
 * 	client 1	tenant 0	honest, of the same uid
 * 	client 2	tenant 1	honest, another uid
 *
 * WHAT MUST BE TRUE
 *   After each step:
 *   - No worker holds a ring, and heads have only grown.
 *   - Each QUEUED row is in exactly one queue, deque or hand.
 *   - A client counts each of its rows. The number of ended jobs is that of accepted jobs minus
 *     those that exist.
 *   - A job of an honest client runs in the client's generation, and has no outcome yet.
 *   At the end, after the manager has had the rings checked:
 *   - Nothing is left, and clients that have left are released.
 *   - Every honest job has its outcome, unless a process of its own uid overwrote its word.
 */
#include "daemon/core/worker.h"
#include "daemon/jobs/attach.h"
#include "daemon/jobs/job_end.h"
#include "daemon/jobs/job_cancel.h"
#include "daemon/core/job_abort.h"
#include "daemon/jobs/job_batches.h"
#include "daemon/jobs/membership.h"
#include "daemon/jobs/pending.h"
#include "shm/ledger.h"
#include "tests/fuzz/pool_rig.h"
#include "tests/fuzz/pool_true.h"

/* ------------------------------------------------------------------------ clients */

static uint32_t take_client(void)
{
	return fuzz_u8(&input) % CLIENTS;
}

/* The same for all clients: an honest one fills a record whose job has ended. */
static bool fill(uint32_t client, uint32_t index, uint32_t next)
{
	struct wanted *w = &wanted[client][index];
	struct job *job = job_of(client, index);
	uint8_t how = fuzz_u8(&input);

	if (client != HOSTILE && w->pending)
		return false;
	w->generation++;
	*w = (struct wanted){ .generation = w->generation, .pending = client != HOSTILE };
	job->task = 0;
	job->flags = how & 1;
	job->generation = w->generation;
	job->next = next;
	job->weight = how & 2 ? fuzz_u16(&input) : 0;
	job->deadline_ns = how & 4 ? how & 8 ? 1 : UINT64_MAX - 1 : 0;
	job->place = how & 16 ? job_place(1 + (how >> 5 & 1), how >> 6 & 1, how >> 7) : 0;
	job->group = how & 1;
	job->cancel = 0;
	job->state = job_state(w->generation, JOB_PENDING);
	return true;
}

static void submit(uint32_t client)
{
	struct tenant_segment *tenant = tenants[tenant_of(client)];
	uint32_t first = fuzz_u8(&input) % JOBS, n = 1 + fuzz_u8(&input) % 4, filled = 0, ring;
	uint64_t position;

	/* From the last job of the chain on. */
	for (uint32_t i = n; i-- > 0 && attached[client] && !gone[client];) {
		uint32_t at = (first + i) % JOBS;

		if (!fill(client, at, filled ? at + 1 < JOBS ? at + 2 : 1 : 0))
			break;
		filled++;
	}
	if (!filled)
		return;
	first = (first + n - filled) % JOBS;
	ring = fuzz_u8(&input) % WORKERS;
	if (ring_push(&tenant->rings[ring], ring_payload(client, generations[client], first),
		      &position) == RING_OK)
		tenant_mark(tenant, ring);
	else
		for (uint32_t i = 0; i < filled; i++) {
			/* Only jobs of its own uid, or a missing slot, can prevent it. */
			FUZZ_ASSERT(client != 2 ||
				    tenant->rings[ring].tail >= heads[1][ring] + RING_SLOTS);
			wanted[client][(first + i) % JOBS].spoiled = true;
		}
}

/* A word of an honest client is overwritten, with the chain after it. */
static void spoil(uint64_t word)
{
	uint32_t payload = (uint32_t)(word & RING_PAYLOAD), steps = JOBS;
	uint32_t next = ring_payload_job(payload) + 1;

	if (!(word & RING_FULL_BIT) || ring_payload_client(payload) != 1)
		return;
	while (next && next <= JOBS && steps--) {
		wanted[1][next - 1].spoiled = true;
		next = job_of(1, next - 1)->next;
	}
}

static uint64_t take_position(uint64_t head)
{
	uint8_t how = fuzz_u8(&input);

	switch (how >> 6) {
	case 0:
		return head + (how & 63);
	case 1:
		return head + (uint64_t)(how & 63) * (RING_SLOTS / 4);
	case 2:
		return head - (how & 63);
	default:
		return fuzz_u64(&input);
	}
}

static void write_ring(void)
{
	uint32_t index = fuzz_u8(&input) % WORKERS;
	struct ring *ring = &tenants[0]->rings[index];
	uint64_t head = heads[0][index], position = take_position(head);
	uint8_t how = fuzz_u8(&input);
	uint64_t word = (position / RING_SLOTS) << 32;
	_Atomic uint64_t *slot = &ring->slots[position % RING_SLOTS];

	tampered = true;
	switch (how & 3) {
	case 0:
		ring->tail = position;
		return;
	case 1:
		ring->tail = (ring->tail & ~RING_ASTRAY) | (how & 4 ? RING_ASTRAY : 0);
		return;
	case 2:
		/* A valid word: a record of a client of this uid, or of none. */
		word |= RING_FULL_BIT |
			ring_payload(how >> 2 & 3, generations[HOSTILE], fuzz_u8(&input));
		break;
	case 3:
		word = how & 4 ? fuzz_u64(&input) : word;
		break;
	}
	spoil(*slot);
	*slot = word;
	if (how & 128)
		tenant_mark(tenants[0], index);
}

static void write_record(void)
{
	struct job *job = job_of(HOSTILE, fuzz_u8(&input) % JOBS);
	uint8_t what = fuzz_u8(&input);
	uint32_t value = what & 128 ? fuzz_u32(&input) : what >> 4 & 7;

	switch (what & 15) {
	case 0:
	case 1:
	case 2:
		/* In the table, or just beyond it. */
		job->next = what & 128 ? value : fuzz_u8(&input) % (JOBS + 4);
		break;
	case 3:
	case 4:
		job->generation = value;
		break;
	case 5:
		job->state = value;
		break;
	case 6:
		job->place = value;
		break;
	case 7:
		job->deadline_ns = value;
		break;
	case 8:
		job->cancel = value;
		break;
	case 9:
		job->group = value;
		break;
	case 10:
		job->weight = value;
		break;
	case 11:
		job->flags = value;
		break;
	case 12:
		job->drained_ns = (uint64_t)value << 32;
		break;
	default:
		tenants[0]->summary[value % TENANT_SUMMARY_WORDS] = fuzz_u64(&input);
		break;
	}
}

/* A connection ends; the manager has the rings of its uid checked: conn_gone(). */
static void leave(uint32_t client)
{
	if (!attached[client] || gone[client])
		return;
	gone[client] = true;
	for (uint32_t i = 0; i < JOBS; i++)
		wanted[client][i].pending = false;
	mark_rings(tenant_of(client));
	clients_gone(pool, client, generations[client]);
}

/* The slot of a released client is given to another. */
static void come(uint32_t client)
{
	if (attached[client])
		return;
	memset(clients[client] + 1, 0,
	       client_segment_heap_offset(JOBS) - sizeof(struct client_segment));
	memset(wanted[client], 0, sizeof(wanted[client]));
	for (uint32_t i = 0; i < JOBS; i++)
		atomic_store(&arena_rows(pool->arena)[client * JOBS + i], 0);
	generations[client]++;
	attached[client] = true;
	gone[client] = false;
	add_client(client);
}

/* ------------------------------------------------------------------------ the pool */

/* A worker has taken a row that it will start. */
static void take(uint32_t row)
{
	uint32_t client = row / JOBS;
	struct ledger_row now = ledger_row(pool->arena, row);

	FUZZ_ASSERT(row < ROWS && !hand[row] && now.state == LEDGER_QUEUED);
	hand[row] = true;
	if (client == HOSTILE || gone[client])
		return;
	FUZZ_ASSERT(wanted[client][row % JOBS].pending);
	FUZZ_ASSERT(now.generation == wanted[client][row % JOBS].generation);
}

static void worker_drain(struct worker *w)
{
	uint32_t row;

	/* As worker_find(): its own deque first. */
	if (!deque_size(&w->roots.deque) && intake_drain(w, &row))
		take(row);
}

/* From a deque, by its owner or a thief. */
static void worker_take(struct worker *w, bool steal)
{
	struct worker *victim = &pool->workers[steal ? 1 - w->index : w->index];
	uint64_t row, n;
	uint32_t first;

	if (steal && !deque_size(&w->roots.deque)) {
		if (intake_steal(w, victim, &first))
			take(first);
	} else if (deque_steal_share(&victim->roots.deque, DEQUE_ONE, &row, 1, &n) ==
		   DEQUE_STOLEN) {
		take((uint32_t)row);
	}
}

/* Returns one of the taken rows, from there on. */
static uint32_t take_hand(uint32_t from)
{
	for (uint32_t i = 0; i < ROWS; i++)
		if (hand[(from + i) % ROWS])
			return (from + i) % ROWS;
	return ROWS;
}

/* As job_run(): a cancelled job ends, others are RUNNING. */
static void start(uint32_t row, uint32_t worker)
{
	struct ledger_row now = ledger_row(pool->arena, row);
	struct client_entry *client = clients_of(pool, row);

	if (now.state != LEDGER_QUEUED)
		return;
	now.state = LEDGER_RUNNING;
	now.worker = worker;
	atomic_store(&arena_rows(pool->arena)[row], ledger_pack(now));
	abort_begin(pool, row, now.generation);
	if (client->state != CLIENT_LIVE || job_is_cancelled(pool, row, now.generation) ||
	    job_is_unwanted(&client->jobs[row % JOBS], now.generation)) {
		hand[row] = false;
		job_drop(pool, row, JOB_CANCELLED, 0);
	}
}

static void end(uint32_t row)
{
	struct verdict verdict;

	start(row, 0);
	if (!hand[row])
		return;
	verdict = abort_get(pool, row);
	hand[row] = false;
	job_drop(pool, row, verdict.outcome ? verdict.outcome : JOB_DONE, verdict.code);
}

static void release(void)
{
	(void)intake_release(pool);
	for (uint32_t c = 0; c < CLIENTS; c++)
		if (gone[c] && pool->clients.entries[c].state == CLIENT_NONE)
			attached[c] = gone[c] = false;
}

static void step(void)
{
	uint8_t what = fuzz_u8(&input);
	struct worker *w = &pool->workers[what >> 4 & 1];
	uint32_t row;

	switch (what & 15) {
	case 0:
	case 1:
		submit(take_client());
		break;
	case 2:
	case 3:
		write_ring();
		break;
	case 4:
		write_record();
		break;
	case 5:
	case 6:
		worker_drain(w);
		break;
	case 7:
		intake_collect(pool, rounds++);
		break;
	case 8:
		worker_take(w, what & 128);
		break;
	case 9:
		intake_recall(pool, w);
		break;
	case 10:
	case 11:
		row = take_hand(fuzz_u8(&input) % ROWS);
		if (row < ROWS && what & 128)
			start(row, w->index);
		else if (row < ROWS)
			end(row);
		break;
	case 12:
		row = fuzz_u8(&input) % (CLIENTS * JOBS);
		if (attached[row / JOBS])
			job_cancel(pool, row, fuzz_u8(&input));
		break;
	case 13:
		(void)deadlines_check(pool);
		release();
		break;
	case 14:
		if (what & 128)
			leave(take_client());
		else
			come(take_client());
		break;
	case 15:
		/* At once, or at one of the later sites. */
		if (what & 128)
			next_pool();
		else
			arm(what >> 4);
		break;
	}
}

static void look_at_everything(void)
{
	for (uint32_t looks = 0;; looks++) {
		uint32_t row;

		FUZZ_ASSERT(looks < LOOKS);
		(void)deadlines_check(pool);
		for (uint32_t i = 0; i < WORKERS; i++) {
			worker_drain(&pool->workers[i]);
			while (deque_size(&pool->workers[i].roots.deque))
				worker_take(&pool->workers[i], false);
		}
		while ((row = take_hand(0)) < ROWS)
			end(row);
		release();
		if (intake_is_empty(pool) && !pool->clients.n_leaving)
			break;
	}
	check();
}

static void begin(void)
{
	memset(&pool->arena->rings, 0, TENANTS * sizeof(pool->arena->rings[0]));
	memset((void *)arena_rows(pool->arena), 0, ROWS * sizeof(uint64_t));
	memset(heads, 0, sizeof(heads));
	memset(generations, 0, sizeof(generations));
	memset(attached, 0, sizeof(attached));
	memset(gone, 0, sizeof(gone));
	rounds = 0;
	disarm();
	tampered = false;
	for (uint32_t t = 0; t < TENANTS; t++) {
		memset((void *)tenants[t]->summary, 0, sizeof(tenants[t]->summary));
		memset(tenants[t]->rings, 0, WORKERS * sizeof(struct ring));
	}
	pool_begin();
	for (uint32_t t = 0; t < TENANTS; t++)
		add_tenant(t);
	for (uint32_t c = 0; c < CLIENTS; c++)
		come(c);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (!pool)
		set_up();
	input = (struct fuzz_input){ data, data + size };
	begin();
	if (setjmp(death)) /* in a drain */
		next_pool();
	while (fuzz_more(&input)) {
		step();
		check();
	}
	disarm();

	mark_rings(0);
	look_at_everything();
	for (uint32_t c = 1; c < CLIENTS; c++)
		for (uint32_t i = 0; i < JOBS; i++)
			FUZZ_ASSERT(!wanted[c][i].pending || wanted[c][i].spoiled);
	for (uint32_t c = 0; c < CLIENTS; c++)
		leave(c);
	look_at_everything();
	pool_end();
	return 0;
}
