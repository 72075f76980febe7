/* SPDX-License-Identifier: MIT */
/*
 * stub.c - the program that the manager starts instead of a pool, in tests of the manager
 *
 * A process that implements the pool's side of the channel, keeps the ledger as a pool does, and
 * runs no task. The index of a job's task (stub.h) decides how the job ends.
 */
#include "tests/support/stub.h"

#include <dirent.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/util.h"
#include "shm/board.h"
#include "shm/futex.h"
#include "shm/job.h"
#include "shm/ledger.h"
#include "shm/proto.h"
#include "shm/tenant.h"

#define STUB_TENANTS LIMIT_TENANTS
#define STUB_CLIENTS LIMIT_CLIENTS
#define STUB_STRAYS  20u
#define STUB_GARBAGE 0x5a /* an invalid offset; 0xff would be the byte before */

static struct {
	struct board *board;
	struct arena *arena;
	struct tenant_segment *tenants[STUB_TENANTS];
	struct client_segment *clients[STUB_CLIENTS];
	uint32_t generation;
	uint32_t n_told; /* clients received so far */
	uint32_t n_workers;
	uint32_t jobs_max;
} stub;

static void stub_send(uint32_t type, const struct proto_pool *about, const char *text)
{
	struct proto_pool m = { .head = { PROTO_MAGIC, type } };

	if (about) {
		m.client = about->client;
		m.client_generation = about->client_generation;
		m.tenant = about->tenant;
		m.task_hash = about->task_hash; /* of a PING */
	}
	(void)snprintf(m.text, sizeof(m.text), "%s", text);
	(void)proto_send(3, &m, sizeof(m), NULL, 0);
}

/* Checks that only descriptors 0 to 3 are open, and none of the service manager. */
static bool stub_is_clean(void)
{
	_cleanup_closedir_ DIR *d = opendir("/proc/self/fd");
	struct dirent *e;
	bool clean = !getenv("NOTIFY_SOCKET") && !getenv("LISTEN_FDS");

	while (d && (e = readdir(d)))
		if (e->d_name[0] != '.' && atoi(e->d_name) > 3 && atoi(e->d_name) != dirfd(d))
			clean = false;
	return d && clean;
}

/* Stores a fault report of a worker. */
static void stub_fault(uint32_t worker, uint32_t signo, uint32_t reason, uint32_t row,
		       uint32_t generation)
{
	struct ledger_fault *fault = &stub.arena->fault;

	fault->signo = signo;
	fault->reason = reason;
	fault->row = row + 1;
	fault->generation = generation;
	fault->address = 0xabc;
	fault->worker = worker + 1;
}

static void stub_run_row(struct client_segment *client, uint32_t slot, uint32_t job)
{
	struct job *record = (struct job *)(void *)((char *)client + client->jobs_offset) + job;
	uint32_t index = slot * stub.jobs_max + job;
	_Atomic uint64_t *word = &arena_rows(stub.arena)[index];
	struct ledger_row row = {
		.generation = record->generation,
		.state = LEDGER_QUEUED,
		.flags = record->flags & JOB_IDEMPOTENT ? LEDGER_FLAG_IDEMPOTENT : 0,
	};
	uint32_t task = record->task;

	if (stub.generation > 1)
		task = STUB_DONE;
	if (task == STUB_QUEUE) {
		*word = ledger_pack(row);
		return;
	}
	row.state = LEDGER_RUNNING;
	row.worker = task == STUB_CRASH || task == STUB_WRECK ? 0 : 1;
	row.task = task + 1;
	*word = ledger_pack(row);
	stub.arena->workers[row.worker].job = index;
	if (task == STUB_WILD || task == STUB_WRECK)
		memset(stub.arena, STUB_GARBAGE, offsetof(struct arena, fault));
	if (task == STUB_WRECK)
		memset(stub.board, STUB_GARBAGE, offsetof(struct board, counters));
	if (task == STUB_CRASH || task == STUB_WRECK) {
		stub_fault(0, SIGSEGV, LEDGER_FAULT_CRASH, index, row.generation);
		(void)signal(SIGSEGV, SIG_DFL); /* a sanitizer would report it */
		(void)raise(SIGSEGV);
	}
	if (task == STUB_HANG)
		return;
	if (task == STUB_KILL)
		(void)raise(SIGKILL);
	if (task == STUB_LATE)
		stub_fault(1, SIGKILL, LEDGER_FAULT_HANG, index, row.generation);
	if (job_finish(record, row.generation, JOB_DONE))
		(void)futex_wake(&record->state, 1);
	row.state = LEDGER_FREE;
	*word = ledger_pack(row);
}

static void stub_drain(uint32_t tenant)
{
	for (uint32_t i = 0; i < stub.n_workers; i++) {
		_Atomic uint64_t *head = &stub.arena->rings[tenant][i].head;
		struct ring *ring = &stub.tenants[tenant]->rings[i];
		uint32_t payload;

		while (ring_peek(ring, *head, &payload) == RING_OK) {
			uint32_t slot = ring_payload_client(payload);
			uint64_t at = *head;

			if (!stub.clients[slot])
				break; /* the client comes with the next message */
			*head = at + 1;
			ring_consume(ring, at);
			stub_run_row(stub.clients[slot], slot, ring_payload_job(payload));
		}
	}
}

/* Takes a client. In a later pool its queued jobs are run now. */
static void stub_client(const struct proto_pool *m, void *base)
{
	const _Atomic uint64_t *rows = arena_rows(stub.arena) + (size_t)m->client * stub.jobs_max;

	stub.clients[m->client] = base;
	for (uint32_t i = 0; i < stub.clients[m->client]->n_jobs; i++)
		if (ledger_unpack(rows[i]).state == LEDGER_QUEUED)
			stub_run_row(stub.clients[m->client], m->client, i);
}

/* Reports again and again that it has released a client that does not exist. */
static void stub_stray(void)
{
	const struct proto_pool nobody = {
		.client = LIMIT_CLIENTS - 1,
		.tenant = LIMIT_TENANTS - 1,
	};

	for (uint32_t i = 0; i < STUB_STRAYS; i++) {
		stub_send(PROTO_POOL_RELEASED, &nobody, "");
		stub_send(PROTO_POOL_TENANT_RELEASED, &nobody, "");
	}
}

static bool stub_message(const char *mode)
{
	union proto_message m;
	int fds[PROTO_MAX_FDS];
	uint32_t n = 0;
	void *base = NULL;

	if (proto_recv(3, &m, fds, &n, 0) <= 0)
		_exit(0);
	switch (m.head.type) {
	case PROTO_POOL_TENANT:
		if (n != 1 || segment_map(fds[0], SEGMENT_TENANT, 1, 0, &base, NULL) < 0)
			_exit(11);
		stub.tenants[m.pool.tenant] = base;
		STUB_TOLD(stub.board)++;
		STUB_WEIGHT(stub.board) = m.pool.weight;
		break;
	case PROTO_POOL_CLIENT:
		STUB_WEIGHT(stub.board) = m.pool.weight;
		if (n != 1 || segment_map(fds[0], SEGMENT_CLIENT, 1, 0, &base, NULL) < 0)
			_exit(12);
		if (streq(mode, "refuse") || (streq(mode, "refuse-others") && stub.n_told++) ||
		    (streq(mode, "forget") && stub.generation == 2 && !stub.n_told++)) {
			stub_send(PROTO_POOL_ATTACHED, &m.pool, "no address space");
			break;
		}
		if (streq(mode, "stray"))
			stub_stray();
		stub_send(PROTO_POOL_ATTACHED, &m.pool, "");
		stub_client(&m.pool, base);
		break;
	case PROTO_POOL_GONE:
		stub_send(PROTO_POOL_RELEASED, &m.pool, "");
		break;
	case PROTO_POOL_PING:
		if (streq(mode, "dying") && stub.generation == 1) {
			stub_fault(1, SIGSEGV, LEDGER_FAULT_CRASH, UINT32_MAX, 0);
			break;
		}
		STUB_PINGS(stub.board)++;
		stub_send(PROTO_POOL_PONG, &m.pool, "");
		break;
	case PROTO_POOL_TENANT_GONE:
		stub.tenants[m.pool.tenant] = NULL;
		stub_send(PROTO_POOL_TENANT_RELEASED, &m.pool, "");
		break;
	case PROTO_POOL_HALT:
	case PROTO_POOL_STOP:
		if (streq(mode, "stuck"))
			break;
		stub_send(PROTO_POOL_STOPPED, NULL, "");
		return false;
	}
	return true;
}

/* How a pool ends that lacks resources to start. */
static int stub_is_short(uint64_t try)
{
	struct proto_pool failed = { .head = { PROTO_MAGIC, PROTO_POOL_FAILED }, .error = -EAGAIN };

	if (try % 3 == 0)
		(void)raise(SIGKILL);
	if (try % 3 == 1)
		return 126; /* POOL_PROCESS_SHORT */
	(void)snprintf(failed.text, sizeof(failed.text), "no thread");
	(void)proto_send(3, &failed, sizeof(failed), NULL, 0);
	return 1;
}

int stub_run(void)
{
	const char *mode = getenv("FORKD_STUB") ? getenv("FORKD_STUB") : "";
	struct pollfd p = { .fd = 3, .events = POLLIN };
	union proto_message m;
	int fds[PROTO_MAX_FDS];
	uint32_t n = 0;
	void *base;

	if (!stub_is_clean())
		return 10;
	if (streq(mode, "die"))
		return 3;
	if (streq(mode, "fail")) {
		stub_send(PROTO_POOL_FAILED, NULL, "there is no module");
		return 1;
	}
	if (proto_recv(3, &m, fds, &n, 0) <= 0 || m.head.type != PROTO_POOL_START || n != 2)
		return 13;
	if (segment_map(fds[0], SEGMENT_BOARD, 1, 0, &base, NULL) < 0)
		return 14;
	stub.board = base;
	if (segment_map(fds[1], SEGMENT_ARENA, 1, 0, &base, NULL) < 0)
		return 15;
	stub.arena = base;
	stub.generation = stub.board->manager.pool_generation;
	stub.n_workers = stub.arena->n_workers;
	stub.jobs_max = stub.arena->jobs_max;
	if (streq(mode, "once") && stub.generation > 1)
		return 3;
	if (streq(mode, "unloaded") && stub.generation > 1)
		return 127; /* as the loader does */
	/* No other code writes this counter in that mode. */
	if (streq(mode, "short") && stub.generation > 1 && stub.board->profile.jobs < STUB_SHORT)
		return stub_is_short(stub.board->profile.jobs++);
	(void)snprintf(stub.board->tasks[STUB_CRASH].name, 64, "stub:crash");
	stub_send(PROTO_POOL_READY, NULL, "");
	for (;;) {
		if (poll(&p, 1, 1) > 0 && !stub_message(mode))
			return 0;
		for (uint32_t i = 0; i < STUB_TENANTS; i++)
			if (stub.tenants[i])
				stub_drain(i);
	}
}
