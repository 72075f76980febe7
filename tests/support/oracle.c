/* SPDX-License-Identifier: MIT */
#include "tests/support/oracle.h"

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/util.h"
#include "tests/support/daemon.h"

#define ORACLE_CHAIN 128u

/* ------------------------------------------------------------------------ the files */

static int oracle_file(const char *path, int flags)
{
	int fd = open(path, O_CREAT | O_APPEND | O_CLOEXEC | flags, 0666);

	ck_assert_msg(fd >= 0, "%s: %s", path, strerror(errno));
	/* Whatever the umask is. */
	ck_assert_int_eq(fchmod(fd, 0666), 0);
	return fd;
}

void oracle_init(struct oracle *o, const char *directory)
{
	char path[128];

	memset(o, 0, sizeof(*o));
	o->shared = mmap(NULL, sizeof(*o->shared), PROT_READ | PROT_WRITE,
			 MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	ck_assert_ptr_ne(o->shared, MAP_FAILED);
	(void)snprintf(path, sizeof(path), "%s/journal", directory);
	o->journal = oracle_file(path, O_RDWR);
	(void)snprintf(o->runs, sizeof(o->runs), "%s/runs", directory);
	(void)close(oracle_file(o->runs, O_WRONLY));
}

void oracle_fini(struct oracle *o)
{
	(void)close(o->journal);
	(void)munmap(o->shared, sizeof(*o->shared));
}

static void oracle_write(struct oracle *o, const struct oracle_entry *entries, uint32_t n)
{
	size_t size = n * sizeof(*entries);

	if (write(o->journal, entries, size) != (ssize_t)size) {
		perror("the oracle's journal");
		_exit(91);
	}
}

/* Reads a whole file; the caller frees it. */
static void *oracle_read(int fd, size_t *ret_size)
{
	struct stat st;
	void *data;

	ck_assert_int_eq(fstat(fd, &st), 0);
	data = malloc((size_t)st.st_size + 1);
	ck_assert_ptr_nonnull(data);
	ck_assert_int_eq(pread(fd, data, (size_t)st.st_size, 0), st.st_size);
	*ret_size = (size_t)st.st_size;
	return data;
}

/* ------------------------------------------------------------------------ clients */

int64_t oracle_work(uint64_t id)
{
	/* Some jobs are large enough to be stolen from. */
	return id % 64 == 63 ? 20 : (int64_t)(id % 13);
}

int64_t oracle_result(uint64_t id)
{
	static const int64_t fib[] = { 0, 1, 1, 2, 3, 5, 8, 13, 21, 34, 55, 89, 144, [20] = 6765 };

	return (int64_t)id + fib[oracle_work(id)];
}

int oracle_submit(struct oracle *o, fk_client *c, uint32_t n, const fk_group groups[2],
		  unsigned int flags, struct oracle_job *ret_jobs)
{
	uint64_t id = atomic_fetch_add(&o->shared->ids, n);
	struct oracle_entry entries[ORACLE_CHAIN];
	struct fk_request requests[ORACLE_CHAIN] = { 0 };
	union fk_value values[ORACLE_CHAIN][3];
	fk_job jobs[ORACLE_CHAIN];
	const fk_task *task;
	int r;

	if (n > ORACLE_CHAIN)
		return -E2BIG;
	r = fk_task_find(c, "count:once", &task);
	if (r < 0)
		return r;
	for (uint32_t i = 0; i < n; i++) {
		values[i][0] = (union fk_value){ .str = o->runs };
		values[i][1] = (union fk_value){ .i64 = (int64_t)(id + i) };
		values[i][2] = (union fk_value){ .i64 = oracle_work(id + i) };
		requests[i] = (struct fk_request){
			.task = task,
			.values = values[i],
			.size = 3,
			.options.group = groups ? groups[i >= (n + 1) / 2] : 0,
			.options.flags = flags & FK_IDEMPOTENT,
		};
		entries[i] = (struct oracle_entry){
			.id = id + i,
			.pid = getpid(),
			.event = ORACLE_SUBMIT,
			.value = (flags & FK_IDEMPOTENT) != 0,
		};
	}
	oracle_write(o, entries, n);
	if (n == 1 && !groups)
		r = fk_submit_values(c, task, values[0], 3, flags, jobs);
	else
		r = fk_submit_batch(c, requests, n, flags & FK_WAIT_ROOM, jobs);
	for (uint32_t i = 0; i < n; i++) {
		ret_jobs[i] = (struct oracle_job){ .job = jobs[i], .id = id + i };
		entries[i].event = ORACLE_REFUSED;
		entries[i].value = r;
	}
	if (r < 0)
		oracle_write(o, entries, n);
	return r;
}

int oracle_end(struct oracle *o, fk_client *c, const struct oracle_job *job)
{
	struct oracle_entry entry = {
		.id = job->id,
		.pid = getpid(),
		.event = ORACLE_OUTCOME,
	};
	int r = fk_wait(c, job->job, FK_FOREVER);
	int outcome;

	if (r < 0)
		return r;
	outcome = fk_outcome(c, job->job, NULL, NULL);
	if (outcome == FK_DONE)
		r = fk_result(c, job->job, &entry.value, sizeof(entry.value));
	if (r < 0)
		return r;
	entry.outcome = (uint16_t)outcome;
	oracle_write(o, &entry, 1);
	r = fk_release(c, job->job);
	return r < 0 ? r : outcome;
}

int oracle_serve(struct oracle *o, const char *socket, _Atomic uint64_t *ended)
{
	struct oracle_job jobs[16];
	fk_client *c = NULL;
	fk_group groups[2];
	int r = fk_open(socket, NULL, &c);

	if (r < 0) {
		(void)fprintf(stderr, "oracle %d: %s\n", (int)getpid(), fk_error_text());
		return 92;
	}
	for (uint32_t i = 0; i < ARRAY_SIZE(groups) && r >= 0; i++)
		r = fk_group_new(c, &groups[i]);
	for (uint32_t round = 0; r >= 0 && !atomic_load(&o->shared->stop); round++) {
		uint32_t n = round % 4 ? 1 : ARRAY_SIZE(jobs);
		/* Half of each kind. */
		uint32_t odd = round + round / 4 + round / 8;

		r = oracle_submit(o, c, n, round % 8 ? NULL : groups,
				  FK_WAIT_ROOM | (odd % 2 ? FK_IDEMPOTENT : 0), jobs);
		for (uint32_t i = 0; round % 8 == 0 && i < ARRAY_SIZE(groups) && r >= 0; i++)
			r = fk_group_wait(c, groups[i], FK_FOREVER);
		for (uint32_t i = 0; i < n && r >= 0; i++) {
			r = oracle_end(o, c, &jobs[i]);
			atomic_fetch_add(ended, 1);
		}
	}
	if (r < 0)
		(void)fprintf(stderr, "oracle %d: %s\n", (int)getpid(), fk_strerror(r));
	return r < 0 || fk_close(c) < 0 ? 93 : 0;
}

void oracle_await_each(const _Atomic uint64_t *ended, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		uint64_t seen = atomic_load(&ended[i]);

		DAEMON_AWAIT(atomic_load(&ended[i]) > seen + 1);
	}
}

void oracle_note_killed(struct oracle *o, pid_t pid)
{
	struct oracle_entry entry = { .event = ORACLE_KILLED, .pid = pid };

	oracle_write(o, &entry, 1);
}

/* ------------------------------------------------------------------------ the judgement */

/* State of a job. */
struct oracle_case {
	uint32_t submitted;
	uint32_t refused;
	uint32_t outcomes;
	uint32_t runs;
	int32_t pid;
	uint16_t outcome;
	bool idempotent;
	int64_t result;
};

static void oracle_wrong(struct oracle_verdict *v, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* Keeps the first error only. */
static void oracle_wrong(struct oracle_verdict *v, const char *format, ...)
{
	va_list ap;

	if (v->wrong[0])
		return;
	va_start(ap, format);
	(void)vsnprintf(v->wrong, sizeof(v->wrong), format, ap);
	va_end(ap);
}

static void oracle_note(struct oracle_verdict *v, struct oracle_case *c,
			const struct oracle_entry *e)
{
	switch (e->event) {
	case ORACLE_SUBMIT:
		c->submitted++;
		c->pid = e->pid;
		c->idempotent = e->value != 0;
		break;
	case ORACLE_REFUSED:
		c->refused++;
		break;
	case ORACLE_OUTCOME:
		c->outcomes++;
		c->outcome = e->outcome;
		c->result = e->value;
		break;
	default:
		oracle_wrong(v, "the journal has an event %u", e->event);
	}
	if (!c->submitted)
		oracle_wrong(v, "job %" PRIu64 " was never submitted", e->id);
}

static void oracle_judge_one(struct oracle_verdict *v, const struct oracle_case *c, uint64_t id,
			     bool killed)
{
	if (c->submitted > 1 || c->refused > 1)
		oracle_wrong(v, "job %" PRIu64 " was submitted %u times", id, c->submitted);
	if (c->refused + c->outcomes > 1)
		oracle_wrong(v, "job %" PRIu64 " has %u outcomes", id, c->refused + c->outcomes);
	if (c->refused + c->outcomes == 0 && !killed)
		oracle_wrong(v, "job %" PRIu64 " has no outcome", id);
	if (c->runs && c->refused)
		oracle_wrong(v, "job %" PRIu64 " was refused, and has run", id);
	if (c->runs > 1 && !c->idempotent)
		oracle_wrong(v, "job %" PRIu64 " has run %u times", id, c->runs);
	if (!c->outcomes)
		return;
	if (c->outcome != FK_DONE && c->outcome != FK_CANCELLED && c->outcome != FK_LOST)
		oracle_wrong(v, "job %" PRIu64 ": %s", id, fk_outcome_name(c->outcome));
	if (c->outcome == FK_DONE && !c->runs)
		oracle_wrong(v, "job %" PRIu64 " is done, and has not run", id);
	if (c->outcome == FK_DONE && c->result != oracle_result(id))
		oracle_wrong(v, "job %" PRIu64 ": %" PRId64 " for %" PRId64, id, c->result,
			     oracle_result(id));
}

static void oracle_add(struct oracle_verdict *v, const struct oracle_case *c)
{
	v->submitted += c->submitted != 0;
	v->refused += c->refused != 0;
	v->outcomes[c->outcome % ARRAY_SIZE(v->outcomes)] += c->outcomes != 0;
	v->lost_idempotent += c->idempotent && c->outcomes && c->outcome == FK_LOST;
	v->orphans += c->submitted && !c->refused && !c->outcomes;
	v->runs += c->runs;
	v->again += c->idempotent && c->runs > 1 ? c->runs - 1 : 0;
}

/* killed: sorted. */
static bool oracle_is_killed(const int32_t *killed, size_t n, int32_t pid)
{
	size_t low = 0, high = n;

	while (low < high) {
		size_t middle = (low + high) / 2;

		if (killed[middle] < pid)
			low = middle + 1;
		else
			high = middle;
	}
	return low < n && killed[low] == pid;
}

static int oracle_compare(const void *a, const void *b)
{
	const int32_t *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

bool oracle_judge(struct oracle *o, struct oracle_verdict *ret_verdict)
{
	struct oracle_verdict v = { 0 };
	uint64_t ids = atomic_load(&o->shared->ids);
	_cleanup_free_ struct oracle_case *cases = calloc(ids + 1, sizeof(*cases));
	_cleanup_free_ struct oracle_entry *journal = NULL;
	_cleanup_free_ int32_t *killed = NULL;
	_cleanup_free_ uint64_t *runs = NULL;
	_cleanup_close_ int fd = open(o->runs, O_RDONLY | O_CLOEXEC);
	size_t n_journal, n_runs, n_killed = 0;

	ck_assert_int_ge(fd, 0);
	journal = oracle_read(o->journal, &n_journal);
	runs = oracle_read(fd, &n_runs);
	if (n_journal % sizeof(*journal) || n_runs % sizeof(*runs))
		oracle_wrong(&v, "an entry was torn");
	n_journal /= sizeof(*journal);
	n_runs /= sizeof(*runs);
	killed = calloc(n_journal + 1, sizeof(*killed));
	ck_assert(cases && killed);
	for (size_t i = 0; i < n_journal; i++) {
		if (journal[i].event == ORACLE_KILLED)
			killed[n_killed++] = journal[i].pid;
		else if (journal[i].id < ids)
			oracle_note(&v, &cases[journal[i].id], &journal[i]);
		else
			oracle_wrong(&v, "the journal has a job %" PRIu64, journal[i].id);
	}
	qsort(killed, n_killed, sizeof(*killed), oracle_compare);
	for (size_t i = 0; i < n_runs; i++) {
		if (runs[i] >= ids || !cases[runs[i]].submitted)
			oracle_wrong(&v, "job %" PRIu64 " has run, and was never submitted",
				     runs[i]);
		else
			cases[runs[i]].runs++;
	}
	for (uint64_t id = 0; id < ids; id++) {
		oracle_judge_one(&v, &cases[id], id,
				 !cases[id].submitted ||
					 oracle_is_killed(killed, n_killed, cases[id].pid));
		oracle_add(&v, &cases[id]);
	}
	*ret_verdict = v;
	return !v.wrong[0];
}
