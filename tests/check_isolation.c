/* SPDX-License-Identifier: MIT */
/*
 * isolation: what one uid tries to get at another's client, at the pool and at the manager
 *
 * Alice has a job that runs on a buffer of hers, and a record that she has filled and not
 * submitted. Mallory, another uid, tries one way in after the other; each attempt is counted, and
 * must be refused. In the end nothing of Alice's has changed. That the attempts on processes are
 * real ones is seen when root makes them.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/kcmp.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client/client.h"
#include "client/connect.h"
#include "common/cleanup.h"
#include "common/util.h"
#include "shm/layout.h"
#include "shm/wake.h"
#include "tests/daemon.h"
#define CHECK_TIMEOUT 120
#include "tests/check_unit.h"

#define ALICE	 65533u
#define MALLORY	 65531u
#define SECRET	 (64u << 10) /* bytes; the first is the gate of the job that runs on them */
#define FDS	 64	     /* descriptors that are asked for, of each process */
#define MAPPINGS 64u
#define LAST	 63u /* of alice's 64 records, the one that is never submitted */

enum { CLIENT, POOL, MANAGER, THIEF, PROCESSES };

struct process {
	const char *name;
	pid_t pid;
	uint64_t address; /* of alice's memory in it */
	uint32_t n_mappings;
	struct {
		uint64_t from, to, file;
		char name[32];
	} mappings[MAPPINGS]; /* of forkd's segments */
};

static struct shared {
	_Atomic uint32_t ready; /* alice is; mallory is connected */
	_Atomic uint32_t connected;
	_Atomic uint32_t noted; /* what stands below */
	_Atomic uint32_t done;	/* mallory is */
	uint32_t client;	/* alice's slot on the board */
	uint32_t generation;
	uint32_t job; /* that runs */
	uint32_t job_generation;
	uint64_t secret; /* where it is in her process, and in her segment */
	uint64_t offset;
	struct process processes[PROCESSES];
	uint32_t tried;
	uint32_t got_in;
	char first[200]; /* that got in, or did not */
} * shared;

static struct daemon d;

/* One attempt more. */
static void attempt(bool got_in, bool wanted, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

static void attempt(bool got_in, bool wanted, const char *format, ...)
{
	va_list ap;

	shared->tried++;
	shared->got_in += got_in;
	if (got_in == wanted || shared->first[0])
		return;
	va_start(ap, format);
	(void)vsnprintf(shared->first, sizeof(shared->first), format, ap);
	va_end(ap);
}

/* ------------------------------------------------------------------------ alice */

static unsigned char secret_byte(uint32_t i)
{
	return (unsigned char)(i * 2654435761u >> 24 | 1);
}

static struct job_ref whole_secret(void)
{
	return (struct job_ref){ .offset = shared->offset, .size = SECRET };
}

/* Ready to be submitted; whoever gets the pool to take it has called a task in her name. */
static void fill_record(fk_client *c, uint32_t index, const fk_task *task, struct job_ref ref)
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

static void alice(void)
{
	struct fk_open_options options = { .n_jobs = LAST + 1, .heap_size = 1 << 20 };
	struct fk_buffer secret = { .size = SECRET };
	const fk_task *hold, *invert;
	unsigned char *bytes;
	fk_client *c = NULL;
	int64_t looks;
	fk_job job;

	/* As a program is that has not come here by setuid(). */
	(void)prctl(PR_SET_DUMPABLE, 1UL);
	if (fk_open(d.socket, &options, &c) < 0 || fk_alloc(c, SECRET, &secret.data) < 0 ||
	    fk_task_find(c, "crash:hold", &hold) < 0 ||
	    fk_task_find(c, "bytes:invert", &invert) < 0)
		_exit(2);
	bytes = secret.data;
	for (uint32_t i = 1; i < SECRET; i++)
		bytes[i] = secret_byte(i);
	bytes[0] = 0;
	if (fk_submitv(c, hold, 0, &job, secret) < 0)
		_exit(3);
	shared->client = c->id;
	shared->generation = c->generation;
	shared->job = (uint32_t)(job & 0xffff);
	shared->job_generation = (uint32_t)(job >> 16);
	shared->secret = (uint64_t)(uintptr_t)bytes;
	shared->offset = (uint64_t)((char *)secret.data - c->heap.base);
	fill_record(c, LAST, invert, whole_secret());
	atomic_store(&shared->ready, 1);
	while (!atomic_load(&shared->done))
		(void)poll(NULL, 0, 1);

	if (fk_poll(c, job) != 0)
		_exit(4);
	if (job_outcome(&c->jobs[LAST]) != JOB_PENDING)
		_exit(5);
	for (uint32_t i = 1; i < SECRET; i++)
		if (bytes[i] != secret_byte(i))
			_exit(6);
	if (bytes[0])
		_exit(7);
	bytes[0] = 1;
	if (fk_wait(c, job, FK_FOREVER) < 0 || fk_result(c, job, &looks, sizeof(looks)) < 0)
		_exit(8);
	/* One job, and none that was hers by somebody else's doing. */
	while (!atomic_load(&c->board->clients[c->id].jobs))
		(void)poll(NULL, 0, 1);
	if (atomic_load(&c->board->clients[c->id].jobs) != 1)
		_exit(9);
	(void)fk_close(c);
}

/* ------------------------------------------------------------------------ processes */

static void try_file(const struct process *p, const char *file, int flags, bool wanted)
{
	_cleanup_close_ int fd = -1;
	char path[128];

	(void)snprintf(path, sizeof(path), "/proc/%d/%s", (int)p->pid, file);
	fd = open(path, flags | O_CLOEXEC | O_NONBLOCK);
	attempt(fd >= 0, wanted, "%s of the %s, %s", path, p->name,
		flags & O_ACCMODE ? "for writing" : "for reading");
}

static void try_link(const struct process *p, const char *file, bool wanted)
{
	char path[128], target[64];

	(void)snprintf(path, sizeof(path), "/proc/%d/%s", (int)p->pid, file);
	attempt(readlink(path, target, sizeof(target)) >= 0, wanted, "%s of the %s", path, p->name);
}

static void try_files(const struct process *p, bool wanted)
{
	static const char *const files[] = { "auxv", "environ", "maps", "mem", "pagemap", "smaps" };
	static const char *const folders[] = { "fd", "fdinfo", "map_files" };
	static const char *const links[] = { "cwd", "exe", "root", "ns/net" };

	for (size_t i = 0; i < ARRAY_SIZE(files); i++)
		try_file(p, files[i], O_RDONLY, wanted);
	try_file(p, "mem", O_RDWR, wanted);
	try_file(p, "clear_refs", O_WRONLY, wanted);
	for (size_t i = 0; i < ARRAY_SIZE(folders); i++)
		try_file(p, folders[i], O_RDONLY | O_DIRECTORY, wanted);
	for (size_t i = 0; i < ARRAY_SIZE(links); i++)
		try_link(p, links[i], wanted);
	for (uint32_t i = 0; i < p->n_mappings; i++) {
		char file[64];

		(void)snprintf(file, sizeof(file), "map_files/%" PRIx64 "-%" PRIx64,
			       p->mappings[i].from, p->mappings[i].to);
		try_link(p, file, wanted);
		try_file(p, file, O_RDONLY, wanted);
		try_file(p, file, O_RDWR, wanted);
	}
}

/* Whatever numbers its descriptors have. */
static void try_descriptors(const struct process *p)
{
	_cleanup_close_ int pidfd = pidfd_open(p->pid, 0);

	for (int i = 0; i < FDS; i++) {
		_cleanup_close_ int fd = -1;
		char file[32];

		(void)snprintf(file, sizeof(file), "fd/%d", i);
		try_file(p, file, O_RDONLY, false);
		try_file(p, file, O_RDWR, false);
		fd = pidfd >= 0 ? (int)syscall(SYS_pidfd_getfd, pidfd, i, 0) : -1;
		attempt(fd >= 0, false, "descriptor %d of the %s by pidfd_getfd", i, p->name);
	}
}

static void try_memory(const struct process *p, bool wanted)
{
	char bytes[16];
	struct iovec own = { .iov_base = bytes, .iov_len = sizeof(bytes) };
	struct iovec theirs = { .iov_base = (void *)(uintptr_t)p->address,
				.iov_len = sizeof(bytes) };
	bool got = process_vm_readv(p->pid, &own, 1, &theirs, 1, 0) == (ssize_t)sizeof(bytes);

	attempt(got, wanted, "process_vm_readv of the %s", p->name);
	/* What was read, if anything was. */
	attempt(got && process_vm_writev(p->pid, &own, 1, &theirs, 1, 0) == (ssize_t)sizeof(bytes),
		wanted, "process_vm_writev of the %s", p->name);
	if (!got)
		attempt(process_vm_writev(p->pid, &own, 1, &theirs, 1, 0) >= 0, false,
			"process_vm_writev of the %s, unseen", p->name);
}

static void try_control(const struct process *p, bool wanted)
{
	struct rlimit limit;
	cpu_set_t cpus;
	bool seized = ptrace(PTRACE_SEIZE, p->pid, NULL, NULL) == 0;

	attempt(seized, wanted, "ptrace of the %s", p->name);
	attempt(syscall(SYS_kcmp, getpid(), p->pid, KCMP_VM, 0, 0) >= 0, wanted, "kcmp with the %s",
		p->name);
	attempt(kill(p->pid, 0) == 0, wanted, "a signal to the %s", p->name);
	/* Root in a container need not have the capability for it. */
	if (!wanted)
		attempt(prlimit(p->pid, RLIMIT_NOFILE, NULL, &limit) == 0, wanted,
			"limits of the %s", p->name);
	attempt(sched_getaffinity(p->pid, sizeof(cpus), &cpus) == 0 &&
			sched_setaffinity(p->pid, sizeof(cpus), &cpus) == 0,
		wanted, "the CPUs of the %s", p->name);
	attempt(setpriority(PRIO_PROCESS, (id_t)p->pid, getpriority(PRIO_PROCESS, (id_t)p->pid)) ==
			0,
		wanted, "the nice value of the %s", p->name);
}

/* Root: that all of this is possible at all. */
static void root_looks(void)
{
	try_files(&shared->processes[CLIENT], true);
	try_memory(&shared->processes[CLIENT], true);
	try_control(&shared->processes[CLIENT], true);
}

/* ------------------------------------------------------------------------ descriptors */

/* A connection of its own, with what forkd gives to everybody; the code of a refusal, or 0. */
static int dial(const void *message, size_t size, int *ret_fd, int *ret_fds, uint32_t *ret_n_fds)
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

static void try_descriptor(int fd, const char *name, bool writable)
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

static struct proto_hello hello(void)
{
	return (struct proto_hello){
		.head = { PROTO_MAGIC, PROTO_HELLO },
		.version = PROTO_VERSION,
		.n_jobs = LAST + 1,
		.layout_hash = LAYOUT_HASH,
	};
}

/* True once forkd has ended the connection. */
static bool is_ended(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	char byte;

	return poll(&p, 1, 10000) == 1 && recv(fd, &byte, 1, MSG_DONTWAIT) <= 0;
}

static void try_messages(void)
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
	/* What only the manager and the pool say to each other, about alice; first and later. */
	for (size_t i = 0; i < 2 * ARRAY_SIZE(kinds); i++) {
		struct proto_pool m = {
			.head = { PROTO_MAGIC, kinds[i / 2] },
			.client = shared->client,
			.client_generation = shared->generation,
			.uid = ALICE,
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

/* Cancels of what are alice's numbers; alice sees whether one was hers. */
static void try_cancels(fk_client *c)
{
	/* Not of his own that he will submit. */
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
		if (streq(board_counter_rows[i].name, "garbage"))
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
	(void)publish_wake(c->board, c->n_workers, 0, NULL);
}

/* Words in mallory's rings that name alice's client: each is thrown away, and counted. */
static void try_words(fk_client *c)
{
	uint64_t before = garbage(c), end = clock_ns() + DAEMON_PATIENCE * NSEC_PER_SEC;
	uint64_t n = 0;

	for (uint32_t k = 0; k < 1u << RING_GEN_BITS; k++) {
		/* The right generation first. */
		uint32_t generation = (shared->generation + k) & ((1u << RING_GEN_BITS) - 1);

		push(c, shared->client, generation, LAST);
		push(c, shared->client, generation, shared->job);
		n += 2;
		while (garbage(c) < before + n && clock_ns() < end) {
			(void)publish_wake(c->board, c->n_workers, 0, NULL);
			(void)poll(NULL, 0, 0);
		}
		attempt(garbage(c) < before + n, false, "a word of generation %u", generation);
		attempt(garbage(c) < before + n, false, "a word of a job that runs, %u",
			generation);
	}
}

/* Submits record LAST as it is. */
static uint32_t submit(fk_client *c)
{
	uint64_t end = clock_ns() + DAEMON_PATIENCE * NSEC_PER_SEC;
	uint32_t outcome;

	push(c, c->id, c->generation, LAST);
	while ((outcome = job_outcome(&c->jobs[LAST])) == JOB_PENDING && clock_ns() < end) {
		(void)publish_wake(c->board, c->n_workers, 0, NULL);
		(void)poll(NULL, 0, 0);
	}
	return outcome;
}

/* Where the pool has the segment of this name, of this process if it has one. */
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

/* References that lead out of mallory's heap to what the pool has elsewhere: alice's buffer, where
 * it stands in the pool's memory, the arena, the board. */
static void try_references(fk_client *c)
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
		/* His own are taken. */
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
					atomic_load(&c->jobs[LAST].code) != -EFAULT,
				false,
				"%s at %" PRIx64 " and %" PRIu64 " bytes: outcome %u, code %d",
				names[i], ref.offset, ref.size, outcome,
				atomic_load(&c->jobs[LAST].code));
		}
	}
}

/* ------------------------------------------------------------------------ the test */

static void mallory(void)
{
	struct fk_open_options options = { .n_jobs = LAST + 1, .heap_size = 1 << 20 };
	const struct proto_hello h = hello();
	int fd = -1, fds[PROTO_MAX_FDS];
	fk_client *c = NULL;
	uint32_t n_fds = 0;

	(void)prctl(PR_SET_DUMPABLE, 1UL);
	if (fk_open(d.socket, &options, &c) < 0 || dial(&h, sizeof(h), &fd, fds, &n_fds) != 0 ||
	    n_fds != 3)
		_exit(32);
	atomic_store(&shared->connected, 1);
	while (!atomic_load(&shared->noted))
		(void)poll(NULL, 0, 1);
	for (int i = CLIENT; i <= MANAGER; i++) {
		try_files(&shared->processes[i], false);
		try_descriptors(&shared->processes[i]);
		try_memory(&shared->processes[i], false);
		try_control(&shared->processes[i], false);
	}
	try_descriptor(fds[0], "board", false);
	try_descriptor(fds[1], "tenant segment", true);
	try_descriptor(fds[2], "client segment", true);
	try_messages();
	try_cancels(c);
	try_words(c);
	try_references(c);
	_exit(0);
}

/* Notes where a process has forkd's segments. */
static void note(int which, const char *name, pid_t pid)
{
	struct process *p = &shared->processes[which];
	_cleanup_fclose_ FILE *f = NULL;
	char path[64], line[4400];

	p->name = name;
	p->pid = pid;
	p->n_mappings = 0;
	(void)snprintf(path, sizeof(path), "/proc/%d/maps", (int)pid);
	f = fopen(path, "re");
	ck_assert_ptr_nonnull(f);
	while (fgets(line, sizeof(line), f)) {
		ck_assert_uint_lt(p->n_mappings, MAPPINGS);
		if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %*s %*s %*s %" SCNu64 " /memfd:%31s",
			   &p->mappings[p->n_mappings].from, &p->mappings[p->n_mappings].to,
			   &p->mappings[p->n_mappings].file, p->mappings[p->n_mappings].name) == 4)
			p->n_mappings++;
	}
}

/* Where a process has alice's buffer. */
static uint64_t secret_in(int which, uint64_t offset)
{
	const struct process *alices = &shared->processes[CLIENT], *p = &shared->processes[which];

	for (uint32_t i = 0; i < alices->n_mappings; i++)
		for (uint32_t k = 0; k < p->n_mappings; k++)
			if (streq(alices->mappings[i].name, "forkd-client") &&
			    p->mappings[k].file == alices->mappings[i].file)
				return p->mappings[k].from + offset;
	ck_abort_msg("the %s does not have alice's segment", p->name);
	return 0;
}

START_TEST(another_uid_gets_at_nothing_of_a_client_the_pool_and_the_manager)
{
	pid_t client, thief, root, pool;
	uint64_t offset, jobs;
	int status;

	memset(&d, 0, sizeof(d));
	shared = daemon_share(sizeof(*shared));
	daemon_start(&d, "--workers=2", "--socket-mode=0666", NULL);
	pool = daemon_pool(&d);
	client = daemon_client(alice, ALICE);
	DAEMON_AWAIT(atomic_load(&shared->ready));
	DAEMON_AWAIT(daemon_counter(&d, "roots") == 1);
	thief = daemon_client(mallory, MALLORY);
	DAEMON_AWAIT(atomic_load(&shared->connected));
	note(CLIENT, "client", client);
	note(POOL, "pool", pool);
	note(MANAGER, "manager", d.manager);
	note(THIEF, "thief", thief);
	offset = shared->secret - secret_in(CLIENT, 0);
	for (int i = CLIENT; i <= MANAGER; i++)
		shared->processes[i].address = secret_in(i, offset) + 64;

	/* All of it is possible, but for who may. */
	root = daemon_client(root_looks, DAEMON_UID);
	ck_assert_int_eq(daemon_reap(root), 0);
	ck_assert_msg(!shared->first[0], "root did not get: %s", shared->first);
	ck_assert_uint_eq(shared->got_in, shared->tried);
	ck_assert_uint_gt(shared->tried, 20);
	printf("%u ways that root has\n", shared->tried);
	shared->tried = shared->got_in = 0;

	atomic_store(&shared->noted, 1);
	status = daemon_reap(thief);
	ck_assert_msg(!shared->first[0], "mallory got: %s", shared->first);
	ck_assert_int_eq(status, 0);
	ck_assert_uint_eq(shared->got_in, 0);
	ck_assert_uint_gt(shared->tried, 900);
	printf("%u attempts of another uid, none of them got anything\n", shared->tried);
	jobs = atomic_load(&d.board->clients[shared->client].jobs);
	ck_assert_uint_eq(jobs, 0);
	atomic_store(&shared->done, 1);
	ck_assert_int_eq(daemon_reap(client), 0);
	ck_assert_int_eq(daemon_pool(&d), pool);
	ck_assert_uint_eq(atomic_load(&d.board->manager.crashes), 0);
	ck_assert_int_eq(daemon_stop(&d), 0);
}
END_TEST

int main(void)
{
	const TTest *const tests[] = {
		another_uid_gets_at_nothing_of_a_client_the_pool_and_the_manager,
	};

	if (!daemon_may_all()) {
		puts("only root with all capabilities can be two other users");
		return 77;
	}
	return check_unit_main("isolation", tests, ARRAY_SIZE(tests));
}
