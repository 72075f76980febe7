/* SPDX-License-Identifier: MIT */
/* The trace that forkctl trace makes of events: all expected events are in it, and it is valid for
 * any events. tests/support/trace.py checks the file. */
#include "client/forkctl/trace/timeline.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "client/forkctl/output.h"
#include "common/util.h"
#include "shm/job.h"
#include "shm/wake.h"
#include "tests/support/check_unit.h"

#define MAX_JOBS 100u
#define ROW	 (7 * MAX_JOBS + 3) /* of client 7 */

static struct board *board;
static struct timeline *t;
static uint64_t now;
static uint32_t generation;
static char text[1 << 16];

static void make(uint32_t n_workers)
{
	board = mmap(NULL, sizeof(*board), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
		     0);
	ck_assert_ptr_ne(board, MAP_FAILED);
	out_init();
	board->manager.jobs_max = MAX_JOBS;
	board->manager.n_workers = n_workers;
	atomic_store(&board->manager.pool_pid, 4000);
	for (uint32_t i = 0; i < n_workers; i++) {
		atomic_store(&board->workers[i].tid, 4001 + i);
		atomic_store(&board->workers[i].cpu, i);
		atomic_store(&board->workers[i].wake, WAKE_LOOKING);
		atomic_store(&board->running[i].job, UINT32_MAX);
	}
	atomic_store(&board->n_tasks, 2);
	strcpy(board->tasks[0].name, "a:zero");
	strcpy(board->tasks[1].name, "a:\"one\"\377");
	atomic_store(&board->clients[7].pid, 123);
	strcpy(board->clients[7].comm, "prog");
	t = timeline_new(board, n_workers);
	now = clock_ns();
	generation = 5;
}

static void tell(uint32_t worker, uint32_t kind, uint32_t peer, uint64_t value, uint64_t lost)
{
	struct trace_event e = {
		.time_ns = now += 1000,
		.row = ROW,
		.generation = generation,
		.task = 1,
		.kind = (uint16_t)kind,
		.peer = (uint16_t)peer,
		.value = value,
	};

	timeline_add(t, worker, &e, 1, lost);
}

/* Writes the trace, runs trace.py on it, and keeps the text. */
static void see_that_it_is_one(void)
{
	char path[] = "/tmp/check-timeline-XXXXXX", command[4096];
	int fd = mkstemp(path);
	FILE *file = fdopen(fd, "w+");
	size_t n;

	ck_assert_ptr_nonnull(file);
	ck_assert_int_eq(timeline_write(t, now + 1000, "a test", file), 0);
	rewind(file);
	n = fread(text, 1, sizeof(text) - 1, file);
	text[n] = '\0';
	(void)snprintf(command, sizeof(command), "python3 '%s/tests/support/trace.py' %s >%s.said",
		       getenv("top_srcdir"), path, path);
	ck_assert_int_eq(system(command), 0);
	(void)fclose(file);
	(void)unlink(path);
	(void)snprintf(command, sizeof(command), "%s.said", path);
	(void)unlink(command);
	t = timeline_free(t);
}

static uint32_t times(const char *what)
{
	uint32_t n = 0;

	for (const char *at = text; (at = strstr(at, what)); at++)
		n++;
	return n;
}

START_TEST(job_is_queued_runs_and_is_stolen_from)
{
	make(2);
	tell(0, TRACE_ROOT, 0, now - 100, 0);
	tell(0, TRACE_TASK, 0, 0, 0);
	tell(1, TRACE_STEAL, 0, 0, 0);
	tell(1, TRACE_STRAND, 0, 0, 0);
	tell(0, TRACE_STRAND_END, 0, 0, 0);
	tell(0, TRACE_REST, 0, TRACE_NAP, 0);
	tell(1, TRACE_JOB_END, 0, trace_outcome(JOB_FAILED, -22), 0);
	tell(1, TRACE_STRAND_END, 0, 0, 0);
	tell(1, TRACE_WAKE, 0, 0, 0);
	tell(0, TRACE_AWAKE, 0, TRACE_NAP, 0);
	see_that_it_is_one();
	ck_assert_uint_eq(times("\"ph\":\"B\""), 3);
	ck_assert_uint_eq(times("\"ph\":\"s\",\"pid\":4000,\"tid\":4001"), 1);
	ck_assert_uint_eq(times("\"ph\":\"f\",\"pid\":4000,\"tid\":4002"), 1);
	ck_assert_uint_eq(times("\"name\":\"a:\\\"one\\\"?\",\"cat\":\"strand\""), 2);
	ck_assert_uint_eq(times("\"id\":\"7.327683\",\"pid\":123"), 6);
	ck_assert_uint_eq(times("{\"outcome\":\"FAILED\",\"code\":-22}"), 1);
	ck_assert_uint_eq(times("\"args\":{\"name\":\"prog\"}"), 1);
	ck_assert_uint_eq(times("\"name\":\"timed sleep\""), 1);
	ck_assert_uint_eq(times("\"name\":\"wake\""), 1);
}
END_TEST

/* Viewers do not draw an arrow that begins between two slices. */
START_TEST(steal_from_an_ended_strand_has_no_arrow)
{
	make(2);
	tell(0, TRACE_STRAND, 0, 0, 0);
	tell(0, TRACE_STRAND_END, 0, 0, 0);
	tell(1, TRACE_STEAL, 0, 0, 0);
	tell(1, TRACE_STRAND, 0, 0, 0);
	tell(0, TRACE_REST, 0, TRACE_NAP, 0);
	tell(1, TRACE_STEAL, 0, 0, 0);
	tell(1, TRACE_STRAND, 0, 0, 0);
	see_that_it_is_one();
	ck_assert_uint_eq(times("\"name\":\"steal\",\"s\":\"t\""), 2);
	ck_assert_uint_eq(times("\"ph\":\"s\""), 0);
	ck_assert_uint_eq(times("\"ph\":\"f\""), 0);
}
END_TEST

START_TEST(jobs_of_a_former_client_are_not_those_of_the_next_in_its_slot)
{
	make(1);
	for (uint32_t i = 0; i < 2; i++) {
		tell(0, TRACE_ROOT, 0, now, 0);
		tell(0, TRACE_TASK, 0, 0, 0);
		tell(0, TRACE_JOB_END, 0, trace_outcome(JOB_DONE, 0), 0);
		tell(0, TRACE_STRAND_END, 0, 0, 0);
		/* Another client gets the slot. */
		if (i == 0)
			atomic_store(&board->clients[7].connected_ns, now + 1);
		generation++;
	}
	see_that_it_is_one();
	ck_assert_uint_eq(times("\"id\":\"7.327683\",\"pid\":1073741824"), 6);
	ck_assert_uint_eq(times("\"id\":\"7.393219\",\"pid\":123"), 6);
	ck_assert_uint_eq(times("\"args\":{\"name\":\"clients that have left\"}"), 1);
	ck_assert_uint_eq(times("\"args\":{\"name\":\"prog\"}"), 1);
	ck_assert_uint_eq(times("\"args\":{\"job\":\"7.327683\"}"), 1);
	ck_assert_uint_eq(times("\"args\":{\"pid\":123,\"job\":\"7.393219\"}"), 1);
}
END_TEST

START_TEST(strands_begun_before_the_trace_begin_with_it)
{
	make(6);
	/* From the next events. */
	tell(0, TRACE_JOB_END, 0, trace_outcome(JOB_DONE, 0), 0);
	tell(0, TRACE_STRAND_END, 0, 0, 0);
	tell(1, TRACE_AWAKE, 0, TRACE_PARK, 0);
	tell(2, TRACE_WAKE, 1, 0, 0);
	tell(2, TRACE_REST, 0, TRACE_SLEEP, 0);
	/* From the board, for workers without events. */
	t = timeline_free(t);
	atomic_store(&board->workers[3].wake, WAKE_SLEEPING);
	atomic_store(&board->workers[4].wake, WAKE_BUSY);
	atomic_store(&board->running[4].job, ROW);
	board_show_task(board, ROW, 0);
	t = timeline_new(board, 6);
	now = clock_ns();
	tell(0, TRACE_JOB_END, 0, trace_outcome(JOB_DONE, 0), 0);
	tell(0, TRACE_STRAND_END, 0, 0, 0);
	tell(1, TRACE_AWAKE, 0, TRACE_PARK, 0);
	tell(2, TRACE_REST, 0, TRACE_SLEEP, 0);
	see_that_it_is_one();
	ck_assert_uint_eq(times("\"ph\":\"B\""), 5);
	ck_assert_uint_eq(times("\"tid\":4001,\"ts\":0.0,\"name\":\"a:\\\"one\\\"?\""), 1);
	ck_assert_uint_eq(times("\"tid\":4002,\"ts\":0.0,\"name\":\"offline\""), 1);
	ck_assert_uint_eq(times("\"tid\":4003,\"ts\":0.0"), 0);
	ck_assert_uint_eq(times("\"tid\":4004,\"ts\":0.0,\"name\":\"sleep\""), 1);
	ck_assert_uint_eq(times("\"tid\":4005,\"ts\":0.0,\"name\":\"a:zero\""), 1);
	ck_assert_uint_eq(times("\"tid\":4006,\"ts\""), 0);
	ck_assert_uint_eq(times("{\"outcome\":\"DONE\""), 1);
}
END_TEST

START_TEST(lost_events_are_shown_where_they_are_missing)
{
	make(1);
	tell(0, TRACE_STRAND, 0, 0, 0);
	tell(0, TRACE_STRAND_END, 0, 0, 7);
	tell(0, TRACE_REST, 0, TRACE_SLEEP, 0);
	tell(0, TRACE_STRAND, 0, 0, 100);
	/* A steal from an unknown strand has no arrow. */
	tell(0, TRACE_STRAND_END, 0, 0, 0);
	tell(0, TRACE_STEAL, 0, 0, 0);
	tell(0, TRACE_STRAND, 0, 0, 1);
	timeline_add(t, 0, NULL, 0, 3);
	ck_assert_uint_eq(timeline_lost(t), 111);
	see_that_it_is_one();
	ck_assert_uint_eq(times("\"name\":\"events lost\""), 4);
	/* Slices that end after a gap had begun in it. */
	ck_assert_uint_eq(times("\"ph\":\"B\""), 5);
	ck_assert_uint_eq(times("\"ph\":\"s\""), 0);
	ck_assert_uint_eq(times("\"lost\":111"), 1);
}
END_TEST

/* Traced from before the workers had begun, or until after they had ended. */
START_TEST(workers_of_unknown_threads_are_distinguished)
{
	make(3);
	t = timeline_free(t);
	for (uint32_t i = 0; i < 3; i++)
		atomic_store(&board->workers[i].tid, 0);
	t = timeline_new(board, 3);
	atomic_store(&board->workers[1].tid, 4002);
	for (uint32_t i = 0; i < 3; i++)
		tell(i, TRACE_STRAND, 0, 0, 0);
	see_that_it_is_one();
	ck_assert_uint_eq(times("\"ph\":\"B\",\"pid\":4000,\"tid\":1,"), 1);
	ck_assert_uint_eq(times("\"ph\":\"B\",\"pid\":4000,\"tid\":4002,"), 1);
	ck_assert_uint_eq(times("\"ph\":\"B\",\"pid\":4000,\"tid\":3,"), 1);
}
END_TEST

/* Events as a task's stray writes might leave them. */
START_TEST(random_events_give_a_valid_trace)
{
	uint64_t random = 88172645463325252;

	make(3);
	for (uint32_t i = 0; i < 20000; i++) {
		struct trace_event e;
		uint64_t x = xorshift64(&random);

		for (size_t k = 0; k < sizeof(e) / 8; k++) {
			uint64_t word = xorshift64(&random);

			memcpy((char *)&e + 8 * k, &word, 8);
		}
		/* Most of them look like real events. */
		if (x % 8) {
			e.time_ns = now += x >> 8 & 0xfff;
			e.kind %= 12;
			e.peer %= 4;
			e.row = ROW + e.row % 8;
			e.generation %= 4;
			e.task %= 3;
			e.value %= 5;
		} else {
			e.time_ns %= now + 1;
		}
		timeline_add(t, (uint32_t)(x >> 32) % 3, &e, 1, x % 97 ? 0 : x >> 40);
	}
	see_that_it_is_one();
}
END_TEST

START_TEST(empty_trace_is_valid)
{
	make(2);
	see_that_it_is_one();
	ck_assert_uint_eq(times("\"ph\":\"M\""), 6);
	ck_assert_uint_eq(times("\"ended\":\"a test\""), 1);
}
END_TEST

int main(void)
{
	if (system("python3 -c 'import json' 2>/dev/null") != 0) {
		printf("not installed: python3\n");
		return 77;
	}
	return check_unit_main("timeline");
}
