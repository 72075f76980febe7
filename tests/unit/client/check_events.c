/* SPDX-License-Identifier: MIT */
/* events: watched jobs are reported once each, by a fetch or a callback, and a descriptor is
 * readable if there are any. Uses tests/support/fake.h. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/requests.h"
#include "tests/support/threads.h"

static int fd;

static int must_event_fd(void)
{
	int event = -1;

	ck_assert_int_eq(fk_event_fd(client, &event), 0);
	ck_assert_int_ge(event, 0);
	return event;
}

static void await_readable(void)
{
	struct pollfd look = { .fd = fd, .events = POLLIN };

	ck_assert_int_eq(poll(&look, 1, -1), 1);
}

/* Checks that nothing is left to report, and that the descriptor is not readable. */
static void must_be_quiet(void)
{
	fk_job job;

	ck_assert_int_eq(fk_next_completion(client, 0, &job, NULL), -ETIMEDOUT);
	ck_assert_int_eq(fk_dispatch(client, 0), 0);
	ck_assert(!is_readable(fd));
}

static void submit(uint32_t n)
{
	ck_assert_int_eq(fk_submit_batch(client, requests, n, 0, jobs), 0);
}

static void watch(uint32_t i)
{
	ck_assert_int_eq(fk_watch(client, jobs[i], NULL, &numbers[i]), 0);
}

/* Returns the index of a job in its batch. */
static uint32_t index_of(fk_job job)
{
	uint32_t i = 0;

	while (i < JOBS && jobs[i] != job)
		i++;
	ck_assert_uint_lt(i, JOBS);
	return i;
}

START_TEST(watched_job_is_reported_once)
{
	fk_job job = 0;
	void *data;

	start(1, 0);
	submit(3);
	for (uint32_t i = 0; i < 3; i++)
		watch(i);
	ck_assert_int_eq(fk_watch(client, jobs[1], NULL, NULL), -EALREADY);
	ck_assert_int_eq(fk_next_completion(client, 0, &job, &data), -ETIMEDOUT);
	ck_assert_int_eq(fk_next_completion(client, 1000, &job, &data), -ETIMEDOUT);
	ck_assert_uint_eq(job, 0);
	for (uint32_t i = 0; i < 3; i++) {
		run_one();
		ck_assert_int_eq(fk_next_completion(client, i ? FK_FOREVER : 0, &job, &data), 0);
		ck_assert_int_eq(fk_poll(client, job), 1);
		ck_assert_ptr_eq(data, &numbers[index_of(job)]);
		ck_assert_int_eq(fk_release(client, job), 0);
		ck_assert_int_eq(fk_next_completion(client, 0, &job, &data), -ETIMEDOUT);
		ck_assert_int_eq(fk_watch(client, job, NULL, NULL), -ESTALE);
	}
	/* No thread was needed. */
	ck_assert_int_eq(client->events.fd, -1);
	stop();
}
END_TEST

START_TEST(job_that_had_ended_before_is_reported)
{
	fk_job job;

	start(1, 0);
	fd = must_event_fd();
	submit(1);
	run_all();
	watch(0);
	ck_assert(is_readable(fd));
	ck_assert_int_eq(fk_next_completion(client, 0, &job, NULL), 0);
	must_be_quiet();
	/* And again, if it is watched again. */
	watch(0);
	ck_assert_int_eq(fk_next_completion(client, FK_FOREVER, &job, NULL), 0);
	ck_assert_uint_eq(job, jobs[0]);
	must_be_quiet();
	ck_assert_int_eq(fk_release(client, job), 0);
	stop();
}
END_TEST

START_TEST(released_job_is_not_reported)
{
	fk_job job;

	start(1, 0);
	submit(4);
	for (uint32_t i = 0; i < 4; i++)
		watch(i);
	run_all();
	/* One job before its end was found. The first fetch finds all ends, in order of the
	 * watches. */
	ck_assert_int_eq(fk_release(client, jobs[0]), 0);
	ck_assert_int_eq(fk_next_completion(client, 0, &job, NULL), 0);
	ck_assert_uint_eq(job, jobs[1]);
	fd = must_event_fd();
	/* One job after that. The record of another one holds a new job by now, which is
	 * watched. */
	ck_assert_int_eq(fk_release(client, jobs[2]), 0);
	ck_assert_int_eq(fk_release(client, jobs[3]), 0);
	ck_assert_int_eq(fk_release(client, jobs[1]), 0);
	submit(1);
	ck_assert_uint_eq(jobs[0] & 0xffff, jobs[1] & 0xffff);
	watch(0);
	await_readable();
	while (is_readable(fd))
		ck_assert_int_eq(fk_next_completion(client, 0, &job, NULL), -ETIMEDOUT);
	run_all();
	ck_assert_int_eq(fk_next_completion(client, FK_FOREVER, &job, NULL), 0);
	ck_assert_uint_eq(job, jobs[0]);
	must_be_quiet();
	ck_assert_int_eq(fk_release(client, job), 0);
	stop();
}
END_TEST

static void never(fk_client *of, fk_job job, void *data)
{
	(void)of;
	(void)data;
	ck_abort_msg("job %llx was called back", (unsigned long long)job);
}

START_TEST(cancelled_watch_is_not_reported)
{
	fk_job job;

	start(1, 0);
	submit(4);
	ck_assert_int_eq(fk_unwatch(client, jobs[0]), -FK_E_NOT_WATCHED);
	fd = must_event_fd();
	watch(0);
	watch(1);
	ck_assert_int_eq(fk_watch(client, jobs[2], never, NULL), 0);
	ck_assert_int_eq(fk_unwatch(client, jobs[3]), -FK_E_NOT_WATCHED);
	/* One before its job has ended. */
	ck_assert_int_eq(fk_unwatch(client, jobs[1]), 0);
	ck_assert_int_eq(fk_unwatch(client, jobs[1]), -FK_E_NOT_WATCHED);
	run_all();
	ck_assert_int_eq(fk_next_completion(client, FK_FOREVER, &job, NULL), 0);
	ck_assert_uint_eq(job, jobs[0]);
	ck_assert_int_eq(fk_unwatch(client, jobs[0]), -FK_E_NOT_WATCHED);
	/* And one whose end was found: the descriptor shows that nothing else is left. */
	ck_assert(is_readable(fd));
	ck_assert_int_eq(fk_unwatch(client, jobs[2]), 0);
	ck_assert(!is_readable(fd));
	must_be_quiet();
	/* It can be watched again. */
	watch(1);
	ck_assert_int_eq(fk_next_completion(client, 0, &job, NULL), 0);
	ck_assert_uint_eq(job, jobs[1]);
	must_be_quiet();
	/* The next job of the record is another job. */
	watch(3);
	ck_assert_int_eq(fk_release(client, jobs[0]), 0);
	ck_assert_int_eq(fk_release(client, jobs[3]), 0);
	ck_assert_int_eq(fk_unwatch(client, jobs[3]), -ESTALE);
	submit(1);
	ck_assert_uint_eq(jobs[0] & 0xffff, jobs[3] & 0xffff);
	ck_assert_int_eq(fk_unwatch(client, jobs[0]), -FK_E_NOT_WATCHED);
	run_all();
	must_be_quiet();
	for (uint32_t i = 0; i < 3; i++)
		ck_assert_int_eq(fk_release(client, jobs[i]), 0);
	stop();
}
END_TEST

/* Also for a loop that fetches one job per turn. */
START_TEST(descriptor_is_readable_while_there_is_a_job_to_report)
{
	fk_job job;

	start(1, 0);
	fd = must_event_fd();
	ck_assert_int_eq(must_event_fd(), fd);
	must_be_quiet();
	submit(JOBS);
	for (uint32_t i = 0; i < JOBS; i++)
		watch(i);
	must_be_quiet();
	run_one();
	await_readable();
	run_all();
	for (uint32_t i = 0; i < JOBS; i++) {
		await_readable();
		ck_assert_int_eq(fk_next_completion(client, 0, &job, NULL), 0);
		ck_assert_int_eq(fk_release(client, job), 0);
	}
	must_be_quiet();
	stop();
}
END_TEST

/* ------------------------------------------------------------------------ an event loop */

static pthread_t loop_thread;
static uint32_t calls[JOBS];
static uint32_t n_calls;
static uint32_t n_more; /* number of jobs that callbacks still submit */

static void count_call(fk_client *of, fk_job job, void *data)
{
	uint32_t i = (uint32_t)((int64_t(*)[2])data - numbers);
	int64_t sum = 0;

	ck_assert_ptr_eq(of, client);
	ck_assert(pthread_equal(pthread_self(), loop_thread));
	ck_assert_int_eq(fk_result(client, job, &sum, sizeof(sum)), 0);
	ck_assert_int_eq(sum, i + 1000);
	ck_assert_int_eq(fk_release(client, job), 0);
	calls[i]++;
	n_calls++;
	if (n_more) {
		n_more--;
		ck_assert_int_eq(fk_submit_batch(client, &requests[i], 1, FK_WAIT_ROOM, &jobs[i]),
				 0);
		if (!fake.n_running)
			run_all();
		ck_assert_int_eq(fk_watch(client, jobs[i], count_call, data), 0);
	}
}

START_TEST(callbacks_run_on_the_thread_that_dispatches_once_for_each_job)
{
	loop_thread = pthread_self();
	start(3, 3);
	fd = must_event_fd();
	for (uint32_t round = 0; round < 50; round++) {
		n_calls = 0;
		n_more = JOBS;
		memset(calls, 0, sizeof(calls));
		submit(JOBS);
		for (uint32_t i = 0; i < JOBS; i++)
			ck_assert_int_eq(fk_watch(client, jobs[i], count_call, &numbers[i]), 0);
		while (n_calls < 2 * JOBS) {
			await_readable();
			ck_assert_int_ge(fk_dispatch(client, 0), 0);
		}
		must_be_quiet();
		ck_assert_uint_eq(n_calls, 2 * JOBS);
		for (uint32_t i = 0; i < JOBS; i++)
			ck_assert_uint_ge(calls[i], 1);
	}
	stop();
}
END_TEST

/* ------------------------------------------------------------------ watched by its options */

/* Adds up the results of jobs that it does not release. */
static void add_result(fk_client *of, fk_job job, void *data)
{
	int64_t sum = 0;

	ck_assert_int_eq(fk_result(of, job, &sum, sizeof(sum)), 0);
	*(int64_t *)data += sum;
	n_calls++;
}

START_TEST(job_is_watched_by_the_options_of_its_submission)
{
	const fk_task *task;
	int64_t sum = 0, other;
	fk_job job;
	void *data;

	start(1, 0);
	fd = must_event_fd();
	task = requests[0].task;
	n_calls = 0;
	ck_assert_int_eq(fk_submit_opts(client, task,
					FK_OPTIONS(.on_completion = add_result, .data = &sum,
						   .flags = FK_RELEASE),
					NULL, 1, 2),
			 0);
	ck_assert_int_eq(fk_submit_opts(client, task, FK_OPTIONS(.flags = FK_WATCH, .data = &other),
					&job, 3, 4),
			 0);
	ck_assert_int_eq(fk_watch(client, job, NULL, NULL), -EALREADY);
	must_be_quiet();
	run_all();
	await_readable();
	ck_assert_int_eq(fk_dispatch(client, FK_FOREVER), 1);
	ck_assert_int_eq(sum, 3);
	ck_assert_int_eq(fk_next_completion(client, FK_FOREVER, &jobs[0], &data), 0);
	ck_assert_uint_eq(jobs[0], job);
	ck_assert_ptr_eq(data, &other);
	ck_assert_int_eq(fk_release(client, job), 0);
	must_be_quiet();
	/* The callback of a job that was released before is not called. */
	ck_assert_int_eq(
		fk_submit_opts(client, task, FK_OPTIONS(.on_completion = never), &job, 5, 6), 0);
	run_all();
	ck_assert_int_eq(fk_release(client, job), 0);
	ck_assert_int_eq(fk_dispatch(client, 0), 0);
	stop();
}
END_TEST

START_TEST(asynchronous_call_is_reported_and_released)
{
	int64_t sum = 0;

	start(1, 0);
	fd = must_event_fd();
	n_calls = 0;
	ck_assert_int_eq(fk_call_async(client, "test:add", add_result, &sum, 1, 2), 0);
	ck_assert_int_eq(fk_call_async(client, "test:add", add_result, &sum, 3, 4), 0);
	must_be_quiet();
	run_all();
	await_readable();
	/* The library's thread may have found one end only so far. */
	while (n_calls < 2)
		ck_assert_int_gt(fk_dispatch(client, FK_FOREVER), 0);
	ck_assert_uint_eq(n_calls, 2);
	ck_assert_int_eq(sum, 10);
	ck_assert_int_eq(fk_call_async(client, "test:none", add_result, &sum, 1), -FK_E_NO_TASK);
	ck_assert_int_eq(fk_call_async(client, "test:add", add_result, &sum, 1), -FK_E_SIGNATURE);
	ck_assert_ptr_nonnull(strstr(fk_error_text(), "called as (i64)"));
	ck_assert_int_eq(fk_call_async(client, "test:add", NULL, &sum, 1, 2), -FK_E_NULL);
	must_be_quiet();
	stop();
}
END_TEST

/* Workers end jobs while others are being submitted. */
START_TEST(each_job_of_a_batch_is_reported_as_its_options_say)
{
	int64_t sum = 0;
	fk_job job;

	start(3, 3);
	fd = must_event_fd();
	for (uint32_t i = 0; i < JOBS; i++)
		requests[i].options = (struct fk_job_options){
			.flags = i % 2 ? FK_WATCH : FK_RELEASE,
			.on_completion = i % 2 ? NULL : add_result,
			.data = &sum,
		};
	for (uint32_t round = 0; round < 50; round++) {
		uint32_t fetched = 0;

		n_calls = 0;
		submit(JOBS);
		while (n_calls + fetched < JOBS) {
			await_readable();
			ck_assert_int_ge(fk_dispatch(client, 0), 0);
			while (fk_next_completion(client, 0, &job, NULL) == 0) {
				ck_assert_uint_eq(index_of(job) % 2, 1);
				ck_assert_int_eq(fk_release(client, job), 0);
				fetched++;
			}
		}
		must_be_quiet();
		ck_assert_uint_eq(fetched, JOBS / 2);
	}
	/* 1000 + i of every other i. */
	ck_assert_int_eq(sum, 50 * (JOBS / 2 * 1000 + JOBS / 2 * (JOBS / 2 - 1)));
	stop();
}
END_TEST

/* All rings have as many words as they have room for. */
static void fill_rings(void)
{
	LOCAL_REFUSE("words of no job");
	for (uint32_t w = 0; w < fake.n_workers; w++)
		for (uint64_t position, i = 0; i < RING_SLOTS; i++)
			ck_assert_int_eq(ring_push(&fake.tenant->rings[w], 0, &position), RING_OK);
}

START_TEST(job_that_was_not_published_is_not_reported)
{
	start(2, 0);
	fd = must_event_fd();
	requests[1].options = (struct fk_job_options){ .on_completion = never };
	requests[2].options = (struct fk_job_options){ .flags = FK_WATCH };
	fill_rings();
	ck_assert_int_eq(fk_submit_batch(client, requests, 4, 0, jobs), -FK_E_RINGS_FULL);
	must_be_quiet();
	/* The next jobs of the records are not watched. */
	must_be_clean();
	fake_close();
}
END_TEST

START_TEST(job_is_reported_once_if_the_daemon_goes_away_during_its_submission)
{
	fk_job job;

	start(2, 0);
	requests[1].options = (struct fk_job_options){ .flags = FK_WATCH };
	fill_rings();
	fake_hang_up();
	ck_assert_int_eq(fk_submit_batch(client, requests, 2, 0, jobs), 0);
	ck_assert_int_eq(fk_next_completion(client, FK_FOREVER, &job, NULL), 0);
	ck_assert_uint_eq(job, jobs[1]);
	ck_assert_int_eq(fk_outcome(client, job, NULL, NULL), -ECONNRESET);
	ck_assert_int_eq(fk_next_completion(client, FK_FOREVER, &job, NULL), -ECONNRESET);
	ck_assert_int_eq(fk_wait(client, jobs[0], FK_FOREVER), -ECONNRESET);
	/* Without a watch it is an error. */
	requests[1].options.flags = 0;
	ck_assert_int_eq(fk_submit_batch(client, requests, 2, 0, jobs), -ECONNRESET);
	fake_close();
}
END_TEST

/* Jobs watched by a callback have ended by then, but the call returns all the same. */
START_TEST(dispatch_calls_only_for_jobs_ended_before)
{
	loop_thread = pthread_self();
	start(1, 0);
	fd = must_event_fd();
	submit(2);
	run_all();
	for (uint32_t i = 0; i < 2; i++)
		ck_assert_int_eq(fk_watch(client, jobs[i], count_call, &numbers[i]), 0);
	n_more = 1;
	ck_assert_int_eq(fk_dispatch(client, FK_FOREVER), 2);
	ck_assert(is_readable(fd));
	ck_assert_int_eq(fk_dispatch(client, FK_FOREVER), 1);
	must_be_quiet();
	stop();
}
END_TEST

START_TEST(fetching_and_dispatching_threads_get_their_own_events)
{
	fk_job job;

	loop_thread = pthread_self();
	start(1, 0);
	fd = must_event_fd();
	submit(2);
	watch(0);
	ck_assert_int_eq(fk_watch(client, jobs[1], count_call, &numbers[1]), 0);
	run_all();
	ck_assert_int_eq(fk_next_completion(client, FK_FOREVER, &job, NULL), 0);
	ck_assert_uint_eq(job, jobs[0]);
	ck_assert_int_eq(fk_next_completion(client, 0, &job, NULL), -ETIMEDOUT);
	ck_assert(is_readable(fd));
	ck_assert_int_eq(fk_dispatch(client, 0), 1);
	must_be_quiet();
	ck_assert_int_eq(fk_release(client, jobs[0]), 0);
	stop();
}
END_TEST

/* Two threads fetch jobs of a third one, as from a completion queue. */
static _Atomic uint32_t n_fetched;

static void *fetch(void *number)
{
	while (atomic_fetch_add(&n_fetched, 1) < 20 * JOBS) {
		void *data = NULL;
		int64_t sum = 0;
		fk_job job;

		if (fk_next_completion(client, FK_FOREVER, &job, &data) ||
		    fk_result(client, job, &sum, sizeof(sum)) ||
		    sum != ((int64_t(*)[2])data - numbers) + 1000 || fk_release(client, job))
			return number;
	}
	return NULL;
}

START_TEST(threads_fetch_what_others_watch)
{
	pthread_t threads[2];

	start(2, 2);
	threads_start(threads, 2, fetch);
	for (uint32_t i = 0; i < 20 * JOBS; i++) {
		fk_job job;

		ck_assert_int_eq(
			fk_submit_batch(client, &requests[i % JOBS], 1, FK_WAIT_ROOM, &job), 0);
		ck_assert_int_eq(fk_watch(client, job, NULL, &numbers[i % JOBS]), 0);
	}
	threads_join(threads, 2);
	stop();
}
END_TEST

/* ------------------------------------------------------------------------ the thread */

static bool is_idle(void)
{
	bool idle;

	pthread_mutex_lock(&client->events.lock);
	idle = client->events.idle;
	pthread_mutex_unlock(&client->events.lock);
	return idle;
}

START_TEST(thread_sleeps_while_no_job_is_watched)
{
	fk_job job;

	start(1, 0);
	fd = must_event_fd();
	for (int i = 0; i < 3; i++) {
		while (!is_idle())
			sched_yield();
		submit(1);
		watch(0);
		ck_assert(!is_idle());
		/* The thread polls again: no wake arrives for this job. */
		(void)fake_finish(jobs[0], JOB_DONE);
		await_readable();
		ck_assert_int_eq(fk_next_completion(client, 0, &job, NULL), 0);
		ck_assert_int_eq(fk_release(client, job), 0);
	}
	fake_close();
}
END_TEST

START_TEST(uncounted_end_is_reported)
{
	start(1, 0);
	fd = must_event_fd();
	submit(1);
	watch(0);
	run_all();
	await_readable();
	ck_assert_int_eq(fk_next_completion(client, 0, &jobs[0], NULL), 0);
	ck_assert_int_eq(fk_release(client, jobs[0]), 0);
	submit(1);
	watch(0);
	/* The pool dies before it counts the end. */
	ck_assert_uint_eq(fake_finish(jobs[0], JOB_CRASHED), JOB_WATCHED);
	await_readable();
	ck_assert_int_eq(fk_next_completion(client, 0, &jobs[0], NULL), 0);
	ck_assert_int_eq(fk_release(client, jobs[0]), 0);
	fake_close();
}
END_TEST

/* Finds the thread of this name and a line of its status. Returns false if there is none. */
static bool find_thread(const char *line, char *text, size_t size)
{
	DIR *directory = opendir("/proc/self/task");
	struct dirent *entry;
	bool found = false;

	ck_assert_ptr_nonnull(directory);
	while (!found && (entry = readdir(directory))) {
		char path[300], content[4096] = "";
		const char *at;
		FILE *f;

		(void)snprintf(path, sizeof(path), "/proc/self/task/%s/status", entry->d_name);
		f = fopen(path, "re");
		if (!f)
			continue;
		content[fread(content, 1, sizeof(content) - 1, f)] = '\0';
		(void)fclose(f);
		found = !strncmp(content, "Name:\tforkd-events\n", 19);
		at = strstr(content, line);
		if (found && at)
			(void)snprintf(text, size, "%.*s", (int)strcspn(at, "\n"), at);
	}
	(void)closedir(directory);
	return found;
}

START_TEST(thread_exists_only_after_a_request_and_blocks_all_signals)
{
	char text[64] = "";

	start(1, 0);
	submit(1);
	watch(0);
	ck_assert(!find_thread("Sig", text, sizeof(text)));
	fd = must_event_fd();
	/* Waits until the thread runs: before that, the C library blocks its own signals as
	 * well. */
	while (!atomic_load(&watch_of(client->groups)->sleepers))
		sched_yield();
	ck_assert(find_thread("SigBlk:", text, sizeof(text)));
	/* All except SIGKILL, SIGSTOP and the two signals of the C library: with those blocked,
	 * setuid() would never return. */
	ck_assert_str_eq(text, "SigBlk:\tfffffffe7ffbfeff");
	run_all();
	await_readable();
	ck_assert_int_eq(fk_next_completion(client, 0, &jobs[0], NULL), 0);
	ck_assert_int_eq(fk_release(client, jobs[0]), 0);
	stop();
	ck_assert(!find_thread("Sig", text, sizeof(text)));
	ck_assert_int_eq(fcntl(fd, F_GETFD), -1);
}
END_TEST

START_TEST(child_has_neither_thread_nor_descriptor_and_its_parent_continues)
{
	int status;
	pid_t pid;

	start(1, 0);
	fd = must_event_fd();
	submit(1);
	watch(0);
	pid = fork();
	if (pid == 0) {
		bool bad = fcntl(fd, F_GETFD) != -1 || errno != EBADF;
		fk_job job;

		bad |= fk_watch(client, jobs[0], NULL, NULL) != -EPERM;
		bad |= fk_unwatch(client, jobs[0]) != -EPERM;
		bad |= fk_next_completion(client, 0, &job, NULL) != -EPERM;
		bad |= fk_dispatch(client, 0) != -EPERM;
		bad |= fk_event_fd(client, &fd) != -EPERM;
		bad |= fk_wait_any(client, jobs, 1, 0, &(size_t){ 0 }) != -EPERM;
		bad |= fk_wait_all(client, jobs, 1, 0) != -EPERM;
		bad |= fk_close(client) != -EPERM;
		_exit(bad);
	}
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_int_eq(status, 0);
	run_all();
	await_readable();
	ck_assert_int_eq(fk_next_completion(client, 0, &jobs[0], NULL), 0);
	must_be_quiet();
	ck_assert_int_eq(fk_release(client, jobs[0]), 0);
	stop();
}
END_TEST

/* ------------------------------------------------------------------------ the daemon's end */

static uint32_t n_told;

static void tell(fk_client *of, fk_job job, void *data)
{
	(void)data;
	n_told += fk_outcome(of, job, NULL, NULL) == -ECONNRESET;
}

START_TEST(when_the_daemon_is_gone_every_watched_job_is_reported)
{
	fk_job job;

	start(1, 0);
	fd = must_event_fd();
	submit(3);
	watch(0);
	watch(1);
	ck_assert_int_eq(fk_watch(client, jobs[2], tell, NULL), 0);
	(void)fake_finish(jobs[1], JOB_DONE);
	fake_hang_up();
	await_readable();
	/* The last outcome of the daemon was found by then, or is found now. */
	for (uint32_t i = 0; i < 2; i++) {
		ck_assert_int_eq(fk_next_completion(client, FK_FOREVER, &job, NULL), 0);
		ck_assert_int_eq(fk_outcome(client, job, NULL, NULL),
				 job == jobs[1] ? FK_DONE : -ECONNRESET);
	}
	ck_assert_int_eq(fk_next_completion(client, FK_FOREVER, &job, NULL), -ECONNRESET);
	ck_assert_int_eq(fk_next_completion(client, 0, &job, NULL), -ECONNRESET);
	ck_assert_int_eq(fk_dispatch(client, 0), 1);
	ck_assert_uint_eq(n_told, 1);
	ck_assert_int_eq(fk_dispatch(client, FK_FOREVER), -ECONNRESET);
	ck_assert_int_eq(fk_dispatch(client, 0), -ECONNRESET);
	/* As with a socket whose other end is closed. */
	ck_assert(is_readable(fd));
	watch(0);
	ck_assert_int_eq(fk_next_completion(client, 0, &job, NULL), 0);
	fake_close();
}
END_TEST

/* A wait without a timeout. */
START_TEST(wait_for_the_next_event_ends_when_the_daemon_is_gone)
{
	fk_job job;

	start(1, 0);
	fake_hang_up();
	ck_assert_int_eq(fk_next_completion(client, FK_FOREVER, &job, NULL), -ECONNRESET);
	fake_close();
}
END_TEST

CHECK_MAIN("events")
