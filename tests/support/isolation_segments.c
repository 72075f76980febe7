/* SPDX-License-Identifier: MIT */
/* isolation_segments.c - attempts with the descriptors and memory that forkd gives to a client */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <forkd/client.h>

#include "client/lib/connect.h"
#include "client/lib/wake_worker.h"
#include "common/cleanup.h"
#include "shm/layout.h"
#include "shm/wake.h"
#include "tests/support/isolation.h"

/* ------------------------------------------------------------------------ descriptors */

int dial(const void *message, size_t size, int *ret_fd, int *ret_fds, uint32_t *ret_n_fds)
{
	union proto_message answer = { .head = { 0 } };
	int r;

	*ret_n_fds = 0;
	if (connect_socket(d.socket, ret_fd) < 0)
		_exit(20);
	r = connect_ask(*ret_fd, d.socket, message, size, &answer, ret_fds, ret_n_fds);
	if (r < 0 && answer.head.type == PROTO_ERROR)
		return answer.error.code;
	return r < 0 ? r : 0;
}

void try_descriptor(int fd, const char *name, bool writable)
{
	static const int flags[] = { O_WRONLY, O_RDWR, O_RDWR | O_TRUNC };
	struct stat st;
	char path[64];
	void *base;

	if (fstat(fd, &st) < 0)
		_exit(21);
	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	for (size_t i = 0; i < ARRAY_SIZE(flags); i++) {
		_cleanup_close_ int again = open(path, flags[i] | O_CLOEXEC);

		attempt(again >= 0, false, "the %s opened again", name);
	}
	attempt(fchmod(fd, 0666) == 0, false, "the mode of the %s", name);
	attempt(fchown(fd, MALLORY, MALLORY) == 0, false, "the owner of the %s", name);
	attempt(ftruncate(fd, 0) == 0, false, "the %s made shorter", name);
	attempt(ftruncate(fd, st.st_size * 2) == 0, false, "the %s made longer", name);
	attempt(fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE) == 0, false, "the %s sealed", name);
	if (writable)
		return;
	attempt(pwrite(fd, path, 1, 0) == 1, false, "a write to the %s", name);
	attempt(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4096) == 0, false,
		"a hole in the %s", name);
	base = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	attempt(base != MAP_FAILED, false, "the %s mapped for writing", name);
	base = mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0);
	if (base == MAP_FAILED)
		_exit(22);
	attempt(mprotect(base, 4096, PROT_READ | PROT_WRITE) == 0, false,
		"the %s made writable where it is mapped", name);
	attempt(madvise(base, 4096, MADV_REMOVE) == 0, false, "a hole in the %s by its mapping",
		name);
}

/* ------------------------------------------------------------------------ messages */

struct proto_hello hello(void)
{
	return (struct proto_hello){
		.head = { PROTO_MAGIC, PROTO_HELLO },
		.version = PROTO_VERSION,
		.n_jobs = LAST + 1,
		.layout_hash = LAYOUT_HASH,
	};
}

/* Returns true once forkd has ended the connection. */
static bool is_ended(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	char byte;

	return poll(&p, 1, 10000) == 1 && recv(fd, &byte, 1, MSG_DONTWAIT) <= 0;
}

void try_messages(void)
{
	const uint32_t kinds[] = { PROTO_POOL_START,   PROTO_POOL_TENANT, PROTO_POOL_CLIENT,
				   PROTO_POOL_GONE,    PROTO_POOL_STOP,	  PROTO_POOL_CANCEL,
				   PROTO_POOL_SET,     PROTO_POOL_READY,  PROTO_POOL_RELEASED,
				   PROTO_POOL_STOPPED, PROTO_POOL_FAILED, PROTO_POOL_ATTACHED,
				   PROTO_POOL_ATTACHED };
	struct proto_set set = { .head = { PROTO_MAGIC, PROTO_SET }, .name = "spin", .value = "0" };
	const struct proto_hello h = hello();
	int fd = -1, fds[PROTO_MAX_FDS];
	uint32_t n_fds;

	attempt(dial(&set, sizeof(set), &fd, fds, &n_fds) != -EPERM, false, "a setting");
	(void)close(fd);
	/* Messages of manager and pool, about alice, as the first and as a later message. */
	for (size_t i = 0; i < 2 * ARRAY_SIZE(kinds); i++) {
		struct proto_pool m = {
			.head = { PROTO_MAGIC, kinds[i / 2] },
			.client = shared->client,
			.client_generation = shared->generation,
			.weight = 10000,
			.pid = (uint32_t)shared->processes[CLIENT].pid,
			.job = shared->job,
			.job_generation = shared->job_generation,
		};

		if (i % 2 == 0) {
			attempt(dial(&m, sizeof(m), &fd, fds, &n_fds) != -EBADMSG, false,
				"message %u", kinds[i / 2]);
		} else {
			if (dial(&h, sizeof(h), &fd, fds, &n_fds) != 0 ||
			    proto_send(fd, &m, sizeof(m), NULL, 0) < 0)
				_exit(23);
			attempt(!is_ended(fd), false, "message %u after HELLO", kinds[i / 2]);
		}
		while (n_fds)
			(void)close(fds[--n_fds]);
		(void)close(fd);
	}
	/* A second HELLO. */
	if (dial(&h, sizeof(h), &fd, fds, &n_fds) != 0 ||
	    proto_send(fd, &h, sizeof(h), NULL, 0) < 0)
		_exit(24);
	attempt(!is_ended(fd), false, "another HELLO");
	while (n_fds)
		(void)close(fds[--n_fds]);
	(void)close(fd);
}

/* Cancels jobs by alice's numbers; alice checks whether a job of hers was cancelled. */
void try_cancels(fk_client *c)
{
	/* Leaves its own later jobs uncancelled. */
	for (uint32_t i = 0; i < LAST; i++) {
		struct proto_cancel cancel = {
			.head = { PROTO_MAGIC, PROTO_CANCEL },
			.job = i,
			.generation = shared->job_generation,
		};

		if (proto_send(c->fd, &cancel, sizeof(cancel), NULL, 0) < 0)
			_exit(25);
		attempt(false, false, "a cancel");
	}
}

/* ------------------------------------------------------------------------ shared memory */

static uint64_t garbage(const fk_client *c)
{
	for (uint32_t i = 0; i < board_n_counters; i++)
		if (streq(board_counter_rows[i].name, "malformed_slots"))
			return board_counter_sum(c->board, &board_counter_rows[i]);
	_exit(26);
}

static void push(fk_client *c, uint32_t client, uint32_t generation, uint32_t job)
{
	uint64_t position;

	if (ring_push(&c->tenant->rings[0], ring_payload(client, generation, job), &position) !=
	    RING_OK)
		_exit(27);
	tenant_mark(c->tenant, 0);
	wake_published();
	(void)waker_wake(c->board, c->n_workers, 0, NULL);
}

/* Puts words that name alice's client into mallory's rings. Each must be discarded and counted. */
void try_words(fk_client *c)
{
	uint64_t before = garbage(c), end = clock_ns() + DAEMON_PATIENCE * NSEC_PER_SEC;
	uint64_t n = 0;

	for (uint32_t k = 0; k < 1u << RING_GEN_BITS; k++) {
		/* The right generation comes first. */
		uint32_t generation = (shared->generation + k) & ((1u << RING_GEN_BITS) - 1);

		push(c, shared->client, generation, LAST);
		push(c, shared->client, generation, shared->job);
		n += 2;
		while (garbage(c) < before + n && clock_ns() < end) {
			(void)waker_wake(c->board, c->n_workers, 0, NULL);
			(void)poll(NULL, 0, 0);
		}
		attempt(garbage(c) < before + n, false, "a word of generation %u", generation);
		attempt(garbage(c) < before + n, false, "a word of a job that runs, %u",
			generation);
	}
}

void fill_record(fk_client *c, uint32_t index, const fk_task *task, struct job_ref ref)
{
	struct job *job = &c->jobs[index];

	memset(job->args, 0, sizeof(job->args));
	memcpy(job->args, &ref, sizeof(ref));
	atomic_store(&job->task, task->index);
	atomic_store(&job->task_hash, task->hash);
	atomic_store(&job->args_size, task->signature.args_size);
	atomic_store(&job->flags, 0);
	atomic_store(&job->next, 0);
	atomic_store(&job->generation, atomic_load(&job->generation) + 1);
	atomic_store(&job->state, job_state(atomic_load(&job->generation), JOB_PENDING));
}

/* Submits record LAST as it is. */
static uint32_t submit(fk_client *c)
{
	uint64_t end = clock_ns() + DAEMON_PATIENCE * NSEC_PER_SEC;
	uint32_t outcome;

	push(c, c->id, c->generation, LAST);
	while ((outcome = job_outcome(&c->jobs[LAST])) == JOB_PENDING && clock_ns() < end) {
		(void)waker_wake(c->board, c->n_workers, 0, NULL);
		(void)poll(NULL, 0, 0);
	}
	return outcome;
}

/* Returns the address of the segment of this name in the pool, of this process's segment if it has
 * one. */
static uint64_t in_pool(const struct process *of, const char *name)
{
	const struct process *pool = &shared->processes[POOL];
	uint64_t file = 0;

	for (uint32_t i = 0; i < of->n_mappings; i++)
		if (streq(of->mappings[i].name, name))
			file = of->mappings[i].file;
	for (uint32_t i = 0; i < pool->n_mappings; i++)
		if (pool->mappings[i].file == file)
			return pool->mappings[i].from;
	return 0;
}

/* References from mallory's heap to other memory of the pool: alice's buffer, the arena, the
 * board. */
void try_references(fk_client *c)
{
	static const char *const names[] = { "bytes:sum", "bytes:invert", "bytes:spoil" };
	uint64_t heap = in_pool(&shared->processes[THIEF], "forkd-client") +
			(uint64_t)(c->heap.base - (char *)c->segment);
	const uint64_t targets[] = {
		shared->processes[POOL].address,
		in_pool(&shared->processes[CLIENT], "forkd-client"),
		in_pool(&shared->processes[CLIENT], "forkd-tenant"),
		in_pool(&shared->processes[POOL], "forkd-arena"),
		in_pool(&shared->processes[POOL], "forkd-board"),
	};
	const uint64_t sizes[] = { 1, 8, 64, SECRET };

	for (size_t i = 0; i < ARRAY_SIZE(targets); i++)
		if (!targets[i] || !heap)
			_exit(31);

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		const fk_task *task;
		uint32_t outcome;

		if (fk_task_find(c, names[i], &task) < 0)
			_exit(28);
		/* References to its own heap are accepted. */
		fill_record(c, LAST, task, (struct job_ref){ .offset = 0, .size = 64 });
		if (submit(c) == JOB_PENDING)
			_exit(29);
		if (i == 0 && job_outcome(&c->jobs[LAST]) != JOB_DONE)
			_exit(30);
		for (size_t k = 0; k < ARRAY_SIZE(targets) * ARRAY_SIZE(sizes); k++) {
			struct job_ref ref = {
				.offset = targets[k / ARRAY_SIZE(sizes)] - heap,
				.size = sizes[k % ARRAY_SIZE(sizes)],
			};

			fill_record(c, LAST, task, ref);
			outcome = submit(c);
			attempt(outcome != JOB_FAILED ||
					atomic_load(&c->jobs[LAST].code) != -FK_E_REFERENCE,
				false,
				"%s at %" PRIx64 " and %" PRIu64 " bytes: outcome %u, code %d",
				names[i], ref.offset, ref.size, outcome,
				atomic_load(&c->jobs[LAST].code));
		}
	}
}
