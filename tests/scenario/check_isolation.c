/* SPDX-License-Identifier: MIT */
/*
 * isolation: attempts of one uid to access another uid's client, the pool and the manager
 *
 * Alice has a job that runs on one of her buffers, and a filled record that is not submitted.
 * Mallory, another uid, makes one attempt after another. Each attempt is counted, and must be
 * refused. In the end none of Alice's data has changed. Root makes the same attempts on processes,
 * which must succeed: this shows that they are real.
 */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "tests/support/isolation.h"
#define CHECK_TIMEOUT 120
#include "tests/support/check_unit.h"

struct shared *shared;
struct daemon d;

void attempt(bool got_in, bool wanted, const char *format, ...)
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

static void alice(void)
{
	struct fk_open_options options = { .n_jobs = LAST + 1, .heap_size = 1 << 20 };
	struct fk_buffer secret = { .size = SECRET };
	const fk_task *hold, *invert;
	unsigned char *bytes;
	fk_client *c = NULL;
	int64_t looks;
	fk_job job;

	/* As a program that was not started by setuid(). */
	(void)prctl(PR_SET_DUMPABLE, 1UL);
	if (fk_open(d.socket, &options, &c) < 0 || fk_alloc(c, SECRET, &secret.data) < 0 ||
	    fk_task_find(c, "crash:hold", &hold) < 0 ||
	    fk_task_find(c, "bytes:invert", &invert) < 0)
		_exit(2);
	bytes = secret.data;
	for (uint32_t i = 1; i < SECRET; i++)
		bytes[i] = secret_byte(i);
	bytes[0] = 0;
	if (fk_submit(c, hold, 0, &job, secret) < 0)
		_exit(3);
	shared->client = c->id;
	shared->generation = c->generation;
	shared->job = (uint32_t)(job & 0xffff);
	shared->job_generation = (uint32_t)(job >> 16);
	shared->secret = (uint64_t)(uintptr_t)bytes;
	shared->offset = (uint64_t)((char *)secret.data - c->heap.base);
	/* If the pool takes it, a task was called in her name. */
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
	/* One job, and none that another process submitted in her name. */
	while (!atomic_load(&c->board->clients[c->id].jobs))
		(void)poll(NULL, 0, 1);
	if (atomic_load(&c->board->clients[c->id].jobs) != 1)
		_exit(9);
	(void)fk_close(c);
}

/* ------------------------------------------------------------------------ mallory */

/* Root: all these attempts are possible at all. */
static void root_looks(void)
{
	try_files(&shared->processes[CLIENT], true);
	try_memory(&shared->processes[CLIENT], true);
	try_control(&shared->processes[CLIENT], true);
}

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

/* ------------------------------------------------------------------------ the test */

/* Notes the addresses of forkd's segments in a process. */
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

/* Returns the address of alice's buffer in a process. */
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

START_TEST(another_uid_cannot_access_a_client_the_pool_and_the_manager)
{
	pid_t client, thief, root, pool;
	uint64_t offset, jobs;
	int status;

	shared = daemon_share(sizeof(*shared));
	daemon_start(&d, "--workers=2", "--socket-mode=0666", NULL);
	pool = daemon_pool(&d);
	client = daemon_client(alice, ALICE);
	DAEMON_AWAIT(atomic_load(&shared->ready));
	DAEMON_AWAIT(daemon_counter(&d, "jobs_started") == 1);
	thief = daemon_client(mallory, MALLORY);
	DAEMON_AWAIT(atomic_load(&shared->connected));
	note(CLIENT, "client", client);
	note(POOL, "pool", pool);
	note(MANAGER, "manager", d.manager);
	note(THIEF, "thief", thief);
	offset = shared->secret - secret_in(CLIENT, 0);
	for (int i = CLIENT; i <= MANAGER; i++)
		shared->processes[i].address = secret_in(i, offset) + 64;

	/* All of it is possible for root. */
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
	ck_assert_uint_eq(daemon_crashes(&d), 0);
	ck_assert_int_eq(daemon_stop(&d), 0);
}
END_TEST

int main(void)
{
	if (!daemon_may_all()) {
		puts("only root with all capabilities can be two other users");
		return 77;
	}
	return check_unit_main("isolation");
}
