/* SPDX-License-Identifier: MIT */
/* A pool in the program: libforkpool, linked as a user links it. */
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <forkd/fiber.h>
#include <forkd/pool.h>
#include <forkd/task.h>

#include "common/util.h"
#include "tests/support/check_unit.h"
#include "tests/support/fib.h"

#define N 100000

static fk_client *pool;

static void open_pool(uint32_t workers)
{
	const struct fk_local_options options = { .workers = workers };

	ck_assert_int_eq(fk_open_local(&options, &pool), 0);
}

/* The pool's threads in this process. */
static uint32_t threads(void)
{
	DIR *tasks = opendir("/proc/self/task");
	char path[300], name[16] = "";
	struct dirent *task;
	uint32_t n = 0;
	FILE *file;

	ck_assert(tasks);
	while ((task = readdir(tasks))) {
		snprintf(path, sizeof(path), "/proc/self/task/%s/comm", task->d_name);
		file = fopen(path, "r");
		if (!file)
			continue;
		n += fgets(name, sizeof(name), file) && !strncmp(name, "forkd-", 6);
		fclose(file);
	}
	closedir(tasks);
	return n;
}

/* A task with pointers, and without a result. */
FK_LEAF_TASK(fk_void, fill, (int64_t *, to, int64_t, n, int64_t, value))
{
	for (int64_t i = 0; i < n; i++)
		to[i] = value;
}

FK_LEAF_TASK(int64_t, fails, (int64_t, code))
{
	FK_LEAF_FAIL((int)code);
	return 0;
}

static int64_t serial_fib(int64_t n)
{
	return n < 2 ? n : serial_fib(n - 1) + serial_fib(n - 2);
}

START_TEST(tasks_of_the_program_run_and_return_results)
{
	int64_t result = 0, numbers[5] = { 0 };
	fk_job jobs[20];
	int64_t results[20];

	open_pool(2);
	ck_assert_int_eq(FK_RUN(pool, &result, fib, 25), 0);
	ck_assert_int_eq(result, serial_fib(25));
	ck_assert_int_eq(FK_RUN(pool, NULL, fill, numbers, 5, 7), 0);
	ck_assert_int_eq(numbers[0], 7);
	ck_assert_int_eq(numbers[4], 7);
	for (int64_t i = 0; i < 20; i++)
		ck_assert_int_eq(FK_SUBMIT(pool, &jobs[i], &results[i], fib, i), 0);
	ck_assert_int_eq(fk_wait_all(pool, jobs, 20, FK_FOREVER), 0);
	for (int64_t i = 0; i < 20; i++) {
		ck_assert_int_eq(results[i], serial_fib(i));
		ck_assert_int_eq(fk_release(pool, jobs[i]), 0);
	}
	ck_assert_int_eq(FK_RUN(pool, &result, fails, -ENOTTY), -ENOTTY);
	ck_assert_int_eq(fk_close(pool), 0);
}
END_TEST

#define NO_CLIENT                                                                                  \
	": client is NULL: pass one of fk_open_local(), except for loops and calls within a task"

START_TEST(text_of_an_error_names_what_the_program_called)
{
	const fk_task *task = NULL;
	int64_t result, *numbers = &result;
	char path[4096];
	fk_job job;

	open_pool(2);
	ck_assert_int_eq(FK_RUN(pool, &result, fails, -ENOTTY), -ENOTTY);
	ck_assert_str_eq(fk_error_text(), "fails: FAILED: Inappropriate ioctl for device");
	ck_assert_int_eq(FK_RUN(pool, &result, fails, -EPROTO), -EPROTO);
	ck_assert_str_eq(fk_error_text(), "fails: FAILED: Protocol error: the task may break a "
					  "rule of forkd-modules(7)");
	ck_assert_int_eq(FK_RUN(pool, &result, fails, -5000), -EREMOTEIO);
	ck_assert_str_eq(fk_error_text(), "fails: FAILED with code -5000 of its own");
	ck_assert_int_eq(FK_SUBMIT(pool, &job, &result, fails, -ENOTTY), 0);
	ck_assert_int_eq(fk_wait(pool, job, FK_FOREVER), 0);
	ck_assert_int_eq(fk_result(pool, job, NULL, 0), -ENOTTY);
	ck_assert_str_eq(fk_error_text(), "FAILED: Inappropriate ioctl for device");
	ck_assert_int_eq(fk_release(pool, job), 0);
	ck_assert_int_eq(FK_SUBMIT((fk_client *)NULL, &job, &result, fails, 1), -FK_E_NULL);
	ck_assert_str_eq(fk_error_text(), "fails" NO_CLIENT);
	ck_assert_int_eq(fk_for(NULL, 0, 3, NULL, NULL), -FK_E_NULL);
	ck_assert_str_eq(fk_error_text(), "fk_for" NO_CLIENT);
	ck_assert_int_eq(fk_for_each(NULL, numbers, 1, 8, NULL, NULL), -FK_E_NULL);
	ck_assert_str_eq(fk_error_text(), "fk_for_each" NO_CLIENT);
	ck_assert_int_eq(fk_invoke(NULL, &(struct fk_function){ NULL, NULL }, 1), -FK_E_NULL);
	ck_assert_str_eq(fk_error_text(), "fk_invoke" NO_CLIENT);
	ck_assert_int_eq(fk_sort(pool, numbers, SIZE_MAX / 8, 16, NULL, NULL), -ENOMEM);
	ck_assert_ptr_eq(strstr(fk_error_text(), "fk_sort: "), fk_error_text());
	ck_assert_int_eq(fk_call(pool, "fib:fib", &result, 20), -FK_E_NO_TASK);
	ck_assert_ptr_nonnull(strstr(fk_error_text(), "fk_load()"));
	/* The tasks of the pool itself are not listed. */
	ck_assert_int_eq(fk_task_next(pool, &task), -FK_E_NO_MORE_TASKS);
	snprintf(path, sizeof(path), "%s/daemon/modules/.libs/fib.so", getenv("top_builddir"));
	ck_assert_int_eq(fk_load(pool, path), 0);
	ck_assert_int_eq(fk_task_next(pool, &task), 0);
	ck_assert_str_eq(fk_task_name(task), "fib:fib");
	ck_assert_int_eq(fk_task_next(pool, &task), -FK_E_NO_MORE_TASKS);
	ck_assert_int_eq(fk_close(pool), 0);
}
END_TEST

static void square(int64_t first, int64_t last, void *context)
{
	int64_t *x = context;

	ck_assert_int_lt(first, last);
	for (int64_t i = first; i < last; i++)
		x[i] += i * i;
}

static void increment(void *element, void *context)
{
	*(int64_t *)element += *(int64_t *)context;
}

static void add(int64_t first, int64_t last, void *result, void *context)
{
	const int64_t *x = context;

	for (int64_t i = first; i < last; i++)
		*(int64_t *)result += x[i];
}

static void combine(void *left, const void *right, void *context)
{
	(void)context;
	*(int64_t *)left += *(const int64_t *)right;
}

static const int64_t zero;
static const struct fk_reduction sum = { sizeof(int64_t), &zero, add, combine, 0 };

static int64_t x[N];

START_TEST(loops_and_reductions_cover_each_number_once)
{
	int64_t one = 1, result, expected = 0;

	open_pool(2);
	memset(x, 0, sizeof(x));
	ck_assert_int_eq(fk_for(pool, 0, N, square, x), 0);
	ck_assert_int_eq(fk_for_grain(pool, 0, N, 1, square, x), 0);
	ck_assert_int_eq(fk_for_each(pool, x, N, sizeof(x[0]), increment, &one), 0);
	for (int64_t i = 0; i < N; i++) {
		ck_assert_int_eq(x[i], 2 * i * i + 1);
		expected += x[i];
	}
	ck_assert_int_eq(fk_reduce(pool, 0, N, &sum, &result, x), 0);
	ck_assert_int_eq(result, expected);
	/* Nothing to do. */
	ck_assert_int_eq(fk_for(pool, 5, 5, square, NULL), 0);
	ck_assert_int_eq(fk_for(pool, 5, -5, square, NULL), 0);
	ck_assert_int_eq(fk_reduce(pool, 3, 3, &sum, &result, NULL), 0);
	ck_assert_int_eq(result, 0);
	ck_assert_int_eq(fk_invoke(pool, NULL, 0), 0);
	ck_assert_int_eq(fk_close(pool), 0);
}
END_TEST

/* A result that does not fit into a frame. */
struct counts {
	uint64_t n[50];
};

static void count_numbers(int64_t first, int64_t last, void *result, void *context)
{
	(void)context;
	for (int64_t i = first; i < last; i++)
		((struct counts *)result)->n[i % 50]++;
}

static void add_counts(void *left, const void *right, void *context)
{
	(void)context;
	for (size_t i = 0; i < 50; i++)
		((struct counts *)left)->n[i] += ((const struct counts *)right)->n[i];
}

START_TEST(large_results_are_reduced)
{
	static const struct counts none;
	const struct fk_reduction all = { sizeof(none), &none, count_numbers, add_counts, 7 };
	struct counts result;

	open_pool(2);
	ck_assert_int_eq(fk_reduce(pool, 0, 50 * 100, &all, &result, NULL), 0);
	for (size_t i = 0; i < 50; i++)
		ck_assert_uint_eq(result.n[i], 100);
	ck_assert_int_eq(fk_close(pool), 0);
}
END_TEST

/* A reduction whose order shows: text, of which each part is a piece. */
struct piece {
	int64_t first, last;
};

static void take_piece(int64_t first, int64_t last, void *result, void *context)
{
	struct piece *piece = result;

	(void)context;
	ck_assert_int_eq(piece->first, piece->last);
	*piece = (struct piece){ first, last };
}

static void join_pieces(void *left, const void *right, void *context)
{
	struct piece *a = left;
	const struct piece *b = right;

	(void)context;
	ck_assert_int_eq(a->last, b->first);
	a->last = b->last;
}

START_TEST(reduction_combines_neighbours_in_their_order)
{
	static const struct piece none;
	const struct fk_reduction order = { sizeof(none), &none, take_piece, join_pieces, 3 };
	struct piece result;

	open_pool(2);
	ck_assert_int_eq(fk_reduce(pool, -7, 1000, &order, &result, NULL), 0);
	ck_assert_int_eq(result.first, -7);
	ck_assert_int_eq(result.last, 1000);
	ck_assert_int_eq(fk_close(pool), 0);
}
END_TEST

/* The first four bytes of an element are its key, the rest of it is different in each. */
static int by_key(const void *a, const void *b, void *context)
{
	uint32_t x, y;

	ck_assert_ptr_eq(context, &pool);
	memcpy(&x, a, sizeof(x));
	memcpy(&y, b, sizeof(y));
	return x < y ? -1 : x > y;
}

static void check_sorted(uint32_t n, size_t size)
{
	unsigned char *array = calloc(n + 1, size);
	uint32_t seed = n, key, number, last = 0, last_number = 0;

	ck_assert(array);
	for (uint32_t i = 0; i < n; i++) {
		seed = seed * 1664525u + 1013904223u;
		key = seed >> 24;
		memcpy(array + i * size, &key, 4);
		if (size >= 8)
			memcpy(array + i * size + 4, &i, 4);
	}
	ck_assert_int_eq(fk_sort(pool, array, n, size, by_key, &pool), 0);
	for (uint32_t i = 0; i < n; i++) {
		memcpy(&key, array + i * size, 4);
		ck_assert_uint_le(last, key);
		if (size >= 8) {
			memcpy(&number, array + i * size + 4, 4);
			/* Stable. */
			ck_assert(key > last || !i || number > last_number);
			last_number = number;
		}
		last = key;
	}
	free(array);
}

START_TEST(elements_of_any_size_are_sorted_and_equal_ones_keep_their_order)
{
	static const uint32_t numbers[] = { 0, 1, 2, 3, 100, 513, 20000 };

	open_pool(2);
	for (size_t i = 0; i < ARRAY_SIZE(numbers); i++) {
		check_sorted(numbers[i], 4);
		check_sorted(numbers[i], 8);
		check_sorted(numbers[i], 13);
		check_sorted(numbers[i], 40);
	}
	ck_assert_int_eq(fk_close(pool), 0);
}
END_TEST

static _Atomic uint32_t called;
static _Atomic int go_on;

static void count(void *context)
{
	atomic_fetch_add(&called, *(uint32_t *)context);
}

START_TEST(functions_are_called_once_each)
{
	uint32_t values[100];
	struct fk_function functions[100];

	open_pool(2);
	for (uint32_t i = 0; i < 100; i++) {
		values[i] = i + 1;
		functions[i] = (struct fk_function){ count, &values[i] };
	}
	ck_assert_int_eq(fk_invoke(pool, functions, 100), 0);
	ck_assert_uint_eq(atomic_load(&called), 5050);
	ck_assert_int_eq(fk_close(pool), 0);
}
END_TEST

START_TEST(clients_share_the_pool_and_the_last_one_ends_its_threads)
{
	fk_client *other;
	int64_t result;
	uint32_t with;

	for (uint32_t i = 0; i < 20; i++) {
		open_pool(2);
		/* The names are set by the threads themselves. */
		while ((with = threads()) < 2)
			sched_yield();
		ck_assert_int_eq(fk_open_local(NULL, &other), 0);
		ck_assert_uint_eq(threads(), with);
		ck_assert_int_eq(fk_close(pool), 0);
		ck_assert_int_eq(FK_RUN(other, &result, fib, 10), 0);
		ck_assert_int_eq(result, 55);
		ck_assert_int_eq(fk_close(other), 0);
		/* The kernel removes a thread soon after pthread_join() has returned. */
		while (threads())
			sched_yield();
	}
}
END_TEST

static _Atomic uint32_t met;

/* Ends when two of them run. */
static void meet(void *context)
{
	(void)context;
	atomic_fetch_add(&met, 1);
	while (atomic_load(&met) < 2)
		sched_yield();
}

FK_LEAF_TASK(fk_void, meets, ())
{
	meet(NULL);
}

START_TEST(worker_has_a_thread_when_there_is_work_for_it)
{
	const struct fk_function both[] = { { meet, NULL }, { meet, NULL } };
	int64_t result;
	fk_job jobs[2];

	for (uint32_t i = 0; i < 120; i++) {
		open_pool(2);
		/* Otherwise a worker may find the job before it has searched in vain. */
		while (i >= 80 && threads() < 2)
			sched_yield();
		ck_assert_uint_le(threads(), 2);
		if (i % 4 < 2)
			ck_assert_int_eq(FK_RUN(pool, &result, fib, 1), 0);
		atomic_store(&met, 0);
		if (i % 2)
			ck_assert_int_eq(fk_invoke(pool, both, 2), 0);
		for (uint32_t j = 0; j < 2 && i % 2 == 0; j++)
			ck_assert_int_eq(FK_SUBMIT(pool, &jobs[j], NULL, meets), 0);
		for (uint32_t j = 0; j < 2 && i % 2 == 0; j++)
			ck_assert_int_eq(fk_wait(pool, jobs[j], FK_FOREVER), 0);
		ck_assert_uint_eq(threads(), 3);
		ck_assert_int_eq(fk_close(pool), 0);
		while (threads())
			sched_yield();
	}
}
END_TEST

#ifndef FK_SANITIZE			/* which has a pthread_create() of its own */
static _Atomic int creations = INT_MAX; /* that succeed */

/* In place of libc's, for libforkpool. */
__attribute__((visibility("default"))) int
pthread_create(pthread_t *ret_thread, const pthread_attr_t *attr, void *(*start)(void *), void *arg)
{
	static int (*real)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);

	if (!real)
		real = (__typeof__(real))(uintptr_t)dlsym(RTLD_NEXT, "pthread_create");
	return atomic_fetch_sub(&creations, 1) > 0 ? real(ret_thread, attr, start, arg) : EAGAIN;
}

START_TEST(pool_works_with_the_threads_that_there_are)
{
	int64_t result;

	for (int n = 2; n < 5; n++) {
		atomic_store(&creations, n);
		open_pool(4);
		for (uint32_t i = 0; i < 50; i++) {
			ck_assert_int_eq(FK_RUN(pool, &result, fib, 15), 0);
			ck_assert_int_eq(result, 610);
			ck_assert_int_eq(fk_for(pool, 0, N, square, x), 0);
		}
		ck_assert_uint_lt(threads(), (uint32_t)n + 1);
		atomic_store(&creations, INT_MAX);
		ck_assert_int_eq(fk_close(pool), 0);
	}
	atomic_store(&creations, 1);
	ck_assert_int_eq(fk_open_local(NULL, &pool), -EAGAIN);
	atomic_store(&creations, INT_MAX);
	open_pool(2);
	ck_assert_int_eq(fk_close(pool), 0);
}
END_TEST
#endif

START_TEST(slots_of_closed_clients_are_used_again)
{
	fk_client *clients[64], *more;
	int64_t result;

	open_pool(2);
	for (uint32_t round = 0; round < 3; round++) {
		for (uint32_t i = 0; i < 63; i++)
			ck_assert_int_eq(fk_open_local(NULL, &clients[i]), 0);
		ck_assert_int_eq(fk_open_local(NULL, &more), -EBUSY);
		for (uint32_t i = 0; i < 63; i++) {
			ck_assert_int_eq(FK_RUN(clients[i], &result, fib, 15), 0);
			ck_assert_int_eq(result, 610);
			ck_assert_int_eq(fk_close(clients[i]), 0);
		}
		/* The pool releases them soon. */
		while (fk_open_local(NULL, &more) == -EBUSY)
			sched_yield();
		ck_assert_int_eq(fk_close(more), 0);
	}
	ck_assert_int_eq(fk_close(pool), 0);
}
END_TEST

static void *loop_thread(void *arg)
{
	int64_t *y = calloc(1000, sizeof(*y)), result = 0;

	ck_assert(y);
	for (uint32_t i = 0; i < 50; i++) {
		memset(y, 0, 1000 * sizeof(*y));
		ck_assert_int_eq(fk_for_grain(pool, 0, 1000, 10, square, y), 0);
		ck_assert_int_eq(fk_reduce(pool, 0, 1000, &sum, &result, y), 0);
		ck_assert_int_eq(result, 332833500);
		ck_assert_int_eq(FK_RUN(pool, &result, fib, 12), 0);
		ck_assert_int_eq(result, 144);
	}
	free(y);
	return arg;
}

START_TEST(threads_of_the_program_use_the_pool_at_the_same_time)
{
	pthread_t thread[6];

	open_pool(2);
	for (size_t i = 0; i < ARRAY_SIZE(thread); i++)
		ck_assert_int_eq(pthread_create(&thread[i], NULL, loop_thread, NULL), 0);
	for (size_t i = 0; i < ARRAY_SIZE(thread); i++)
		pthread_join(thread[i], NULL);
	ck_assert_int_eq(fk_close(pool), 0);
}
END_TEST

/* ThreadSanitizer starts no threads in such a child. */
static bool child_opens_a_pool(void)
{
#ifdef FK_SANITIZE_THREAD
	return true;
#else
	fk_client *mine;
	int64_t result;

	return !fk_open_local(NULL, &mine) && !FK_RUN(mine, &result, fib, 20) && result == 6765 &&
	       !fk_close(mine);
#endif
}

START_TEST(child_of_fork_is_refused_and_can_open_a_pool_of_its_own)
{
	int64_t result = 0;
	int status;
	const struct fk_function both[] = { { meet, NULL }, { meet, NULL } };
	pid_t pid;

	open_pool(2);
	/* All threads have begun: none holds a lock of AddressSanitizer's allocator. */
	ck_assert_int_eq(fk_invoke(pool, both, 2), 0);
	for (uint32_t i = 0; i < 10; i++) {
		ck_assert_int_eq(FK_RUN(pool, &result, fib, 15), 0);
		pid = fork();
		ck_assert_int_ge(pid, 0);
		if (!pid) {
			bool fine = FK_RUN(pool, &result, fib, 10) == -EPERM &&
				    strstr(fk_error_text(), "fib: this client belongs to the") &&
				    fk_close(pool) == -EPERM && child_opens_a_pool();

			_exit(!fine);
		}
		ck_assert_int_eq(waitpid(pid, &status, 0), pid);
		ck_assert_int_eq(status, 0);
	}
	ck_assert_int_eq(FK_RUN(pool, &result, fib, 15), 0);
	ck_assert_int_eq(result, 610);
	ck_assert_int_eq(fk_close(pool), 0);
}
END_TEST

START_TEST(memory_of_the_program_stays_its_own_in_a_child)
{
	int *shared;
	int status;
	pid_t pid;

	open_pool(2);
	ck_assert_int_eq(fk_alloc(pool, 100, (void **)&shared), 0);
	*shared = 7;
	pid = fork();
	if (!pid) {
		status = *shared;
		*shared = 8;
		_exit(status);
	}
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_int_eq(WEXITSTATUS(status), 7);
	ck_assert_int_eq(*shared, 7);
	ck_assert_int_eq(fk_free(pool, shared), 0);
	ck_assert_int_eq(fk_close(pool), 0);
}
END_TEST

START_TEST(modules_are_loaded_and_use_any_memory_in_place)
{
	int64_t result = 0, *numbers = malloc(1000 * sizeof(*numbers));
	struct fk_buffer buffer = { numbers, 1000 * sizeof(*numbers) };
	char path[4096];

	open_pool(2);
	snprintf(path, sizeof(path), "%s/daemon/modules/.libs/fib.so", getenv("top_builddir"));
	ck_assert_int_eq(fk_call(pool, "fib:fib", &result, (int64_t)20), -FK_E_NO_TASK);
	ck_assert_int_eq(fk_load(pool, path), 0);
	ck_assert_int_eq(fk_call(pool, "fib:fib", &result, (int64_t)20), 0);
	ck_assert_int_eq(result, 6765);
	ck_assert_int_eq(fk_load(pool, path), -EEXIST);
	ck_assert_int_eq(fk_load(pool, "/nonexistent.so"), -ENOENT);
	snprintf(path, sizeof(path), "%s/daemon/modules/.libs/sort.so", getenv("top_builddir"));
	ck_assert_int_eq(fk_load(pool, path), 0);
	for (int64_t i = 0; i < 1000; i++)
		numbers[i] = (i * 7919) % 1000;
	ck_assert_int_eq(fk_call(pool, "sort:i64", NULL, buffer), 0);
	for (int64_t i = 0; i < 1000; i++)
		ck_assert_int_eq(numbers[i], i);
	free(numbers);
	ck_assert_int_eq(fk_close(pool), 0);
}
END_TEST

#ifndef FK_SANITIZE_THREAD /* has no modules of tests */
FK_LEAF_TASK(fk_void, forks_in_load, ())
{
	pid_t pid = fork();
	int status;

	if (!pid)
		_exit(0);
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_int_eq(status, 0);
}

/* Called by the constructor of a module. */
static void use_the_pool(void)
{
	fk_client *more;
	char path[4096];
	fk_job job;

	snprintf(path, sizeof(path), "%s/daemon/modules/.libs/fib.so", getenv("top_builddir"));
	ck_assert_int_eq(fk_open_local(NULL, &more), 0);
	ck_assert_int_eq(FK_SUBMIT(more, &job, NULL, fill, x, 5, 7), 0);
	ck_assert_int_eq(fk_cancel(more, job), 0);
	ck_assert_int_eq(fk_for(more, 0, N, square, x), 0);
	ck_assert_int_eq(FK_RUN(more, NULL, forks_in_load), 0);
	ck_assert_int_eq(fk_load(more, path), 0);
	ck_assert_int_eq(fk_close(more), 0);
}

START_TEST(constructor_of_a_module_uses_the_pool_and_forks)
{
	int64_t result = 0;
	char path[4096];

	open_pool(2);
	snprintf(path, sizeof(path), "%p", (void *)(uintptr_t)use_the_pool);
	ck_assert_int_eq(setenv("FORKS_CALL", path, 1), 0);
	snprintf(path, sizeof(path), "%s/tests/support/modules/later/.libs/forks.so",
		 getenv("top_builddir"));
	ck_assert_int_eq(fk_load(pool, path), 0);
	ck_assert_int_eq(fk_call(pool, "forks:next", &result, 20), 0);
	ck_assert_int_eq(result, 21);
	ck_assert_int_eq(fk_call(pool, "fib:fib", &result, 20), 0);
	ck_assert_int_eq(result, 6765);
	ck_assert_int_eq(fk_close(pool), 0);
}
END_TEST
#endif

/* A fiber calls frames. */
FK_FIBER_TASK(int64_t, fiber_sum, (int64_t, n))
{
	int64_t a = 0, b = 0;

	if (FK_RUN(NULL, &a, fib, n) < 0 || fk_for(NULL, 0, N, square, x) < 0 ||
	    fk_reduce(NULL, 0, N, &sum, &b, x) < 0)
		return -1;
	return a + b;
}

START_TEST(fibers_make_nested_calls)
{
	int64_t result = 0, expected = serial_fib(20);

	open_pool(2);
	memset(x, 0, sizeof(x));
	for (int64_t i = 0; i < N; i++)
		expected += i * i;
	ck_assert_int_eq(FK_RUN(pool, &result, fiber_sum, 20), 0);
	ck_assert_int_eq(result, expected);
	ck_assert_int_eq(fk_close(pool), 0);
}
END_TEST

struct on_shared {
	int loop, call, other;
	int64_t result;
};

/* The data of fk_for() is on the stack, which others use while the fiber waits. */
static void on_shared(void *arg)
{
	struct on_shared *to = arg;
	int64_t own;

	to->loop = fk_for(NULL, 0, N, square, x);
	to->other = FK_RUN(NULL, NULL, fill, &own, 1, 7);
	to->call = FK_RUN(NULL, &to->result, fib, 10);
}

FK_FIBER_TASK(int64_t, shares, (struct on_shared *, to))
{
	struct fk_counter counter = FK_COUNTER;

	if (fk_fiber_spawn_on(on_shared, to, &counter, FK_STACK_SHARED, FK_FIBER_STACK) < 0)
		return -1;
	return fk_counter_wait(&counter, 0);
}

START_TEST(fiber_on_a_shared_stack_cannot_pass_data_that_is_on_it)
{
	struct on_shared to = { 0 };
	int64_t result = -1;

	open_pool(2);
	ck_assert_int_eq(FK_RUN(pool, &result, shares, &to), 0);
	ck_assert_int_eq(result, 0);
	ck_assert_int_eq(to.loop, -EINVAL);
	ck_assert_int_eq(to.other, -EINVAL);
	ck_assert_int_eq(to.call, 0);
	ck_assert_int_eq(to.result, 55);
	ck_assert_int_eq(fk_close(pool), 0);
}
END_TEST

/* Plain functions that tasks call nest loops and tasks. */
static _Atomic uint64_t inner_sum;

static void inner(int64_t first, int64_t last, void *context)
{
	int64_t n = 0;

	for (int64_t i = first; i < last; i++)
		n += i * *(const int64_t *)context;
	atomic_fetch_add(&inner_sum, (uint64_t)n);
}

static void outer(int64_t first, int64_t last, void *context)
{
	(void)context;
	for (int64_t i = first; i < last; i++) {
		int64_t result = 0;

		ck_assert_int_eq(fk_for_grain(NULL, 0, 100, 5, inner, &i), 0);
		ck_assert_int_eq(FK_RUN(NULL, &result, fib, 10), 0);
		ck_assert_int_eq(result, 55);
	}
}

START_TEST(functions_of_tasks_make_nested_calls)
{
	for (uint32_t i = 0; i < 20; i++) {
		open_pool(1 + i % 2);
		atomic_store(&inner_sum, 0);
		ck_assert_int_eq(fk_for_grain(pool, 0, 100, 1, outer, NULL), 0);
		ck_assert_uint_eq(atomic_load(&inner_sum), 4950 * 4950);
		ck_assert_int_eq(fk_close(pool), 0);
	}
}
END_TEST

/* The only worker calls functions in turn, until one of them makes the job fail. */
static void first_fails(void *context)
{
	int64_t result;

	(void)context;
	if (atomic_fetch_add(&called, 1) == 0)
		ck_assert_int_eq(FK_RUN(NULL, &result, fails, -ENOSPC), -ECANCELED);
}

static void first_part_fails(int64_t first, int64_t last, void *context)
{
	ck_assert_int_eq(last - first, 2);
	first_fails(context);
}

static void call_in_turn(void *context)
{
	const struct fk_function function = { first_fails, NULL };
	const struct fk_function functions[] = { function, function, function, function };
	const bool *is_loop = context;

	if (*is_loop)
		ck_assert_int_eq(fk_for_grain(NULL, 0, 8, 2, first_part_fails, NULL), -ECANCELED);
	else
		ck_assert_int_eq(fk_invoke(NULL, functions, 4), -ECANCELED);
	ck_assert_int_eq(fk_invoke(NULL, functions, 1), -ECANCELED);
}

START_TEST(nested_calls_of_the_only_worker_end_with_their_job)
{
	open_pool(1);
	for (int i = 0; i < 2; i++) {
		bool is_loop = i;
		const struct fk_function first = { call_in_turn, &is_loop };

		atomic_store(&called, 0);
		ck_assert_int_eq(fk_invoke(pool, &first, 1), -ENOSPC);
		/* If a request was there before, the first two are a fork and a call after it. */
		ck_assert_uint_le(atomic_load(&called), is_loop ? 1 : 2);
	}
	ck_assert_int_eq(fk_close(pool), 0);
}
END_TEST

/* Its frames are pushed after those of the caller of a nested call. */
FK_TASK(fk_void, fails_below, (int64_t, n), )
{
	if (n == 0)
		FK_LEAF_FAIL(-EIO);
}
FK_BODY(fails_below)
{
	FK_FORK_VOID(fails_below, self->n - 1);
	FK_JOIN();
	FK_RETURN();
}
FK_END(fails_below)

static void fail_below(int64_t first, int64_t last, void *context)
{
	(void)first;
	(void)last;
	(void)context;
	ck_assert_int_eq(FK_RUN(NULL, NULL, fails_below, 4), -ECANCELED);
}

static void fail_two_below(int64_t first, int64_t last, void *context)
{
	ck_assert_int_eq(fk_for_grain(NULL, first, last + 2, 1, fail_below, context), -ECANCELED);
}

START_TEST(failure_in_a_nested_call_fails_the_whole_job)
{
	int64_t result;

	for (uint32_t workers = 1; workers <= 3; workers++) {
		open_pool(workers);
		for (uint32_t i = 0; i < 50; i++) {
			ck_assert_int_eq(fk_for_grain(pool, 0, 3, 1, fail_below, NULL), -EIO);
			ck_assert_int_eq(fk_for_grain(pool, 0, 3, 1, fail_two_below, NULL), -EIO);
			ck_assert_int_eq(FK_RUN(pool, &result, fib, 10), 0);
			ck_assert_int_eq(result, 55);
		}
		ck_assert_int_eq(fk_close(pool), 0);
	}
}
END_TEST

/* Depth. */
static void deeper(void *context)
{
	int64_t depth = *(const int64_t *)context - 1;
	const struct fk_function both[2] = { { deeper, &depth }, { deeper, &depth } };

	atomic_fetch_add(&called, 1);
	if (depth > 0)
		ck_assert_int_eq(fk_invoke(NULL, both, 2), 0);
}

START_TEST(nested_calls_recurse)
{
	int64_t depth = 12;
	const struct fk_function first = { deeper, &depth };

	for (uint32_t workers = 1; workers <= 2; workers++) {
		open_pool(workers);
		atomic_store(&called, 0);
		ck_assert_int_eq(fk_invoke(pool, &first, 1), 0);
		ck_assert_uint_eq(atomic_load(&called), 4095);
		ck_assert_int_eq(fk_close(pool), 0);
	}
}
END_TEST

static int stored;

/* Runs until it is told to end, forks, and writes to memory of the thread that closes. */
FK_LEAF_TASK(fk_void, forks_late, (int *, to))
{
	sigset_t blocked;
	int status;
	pid_t pid;

	atomic_store(&called, 1);
	while (!atomic_load(&go_on))
		sched_yield();
	pid = fork();
	if (!pid) {
		pthread_sigmask(SIG_SETMASK, NULL, &blocked);
		_exit(sigismember(&blocked, SIGTERM));
	}
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_int_eq(status, 0);
	ck_assert_int_eq(fk_close(pool), -EDEADLK);
	*to = 5;
}

static void *let_go_on(void *arg)
{
	/* The other thread is in fk_close() by then, or will find a task that has gone on. */
	for (uint32_t i = 0; i < 1000; i++)
		sched_yield();
	atomic_store(&go_on, 1);
	return arg;
}

START_TEST(close_waits_for_the_tasks_of_its_client_without_a_lock)
{
	pthread_t thread;
	fk_job job;

	open_pool(2);
	ck_assert_int_eq(FK_SUBMIT(pool, &job, NULL, forks_late, &stored), 0);
	while (!atomic_load(&called))
		sched_yield();
	ck_assert_int_eq(pthread_create(&thread, NULL, let_go_on, NULL), 0);
	ck_assert_int_eq(fk_close(pool), 0);
	ck_assert_int_eq(stored, 5);
	pthread_join(thread, NULL);
}
END_TEST

#ifndef FK_SANITIZE /* which needs much address space */
/* A child opens a pool and uses it, also with fibers. Returns its exit status. */
static int use_within(int resource, rlim_t most, bool locked)
{
	const struct rlimit limit = { most, most };
	struct rusage usage;
	int64_t result = 0;
	int status;
	pid_t pid = fork();

	if (!pid) {
		if (setrlimit(resource, &limit))
			_exit(1);
		/* The kernel may refuse it. */
		if (locked && mlockall(MCL_FUTURE))
			_exit(errno == EPERM || errno == ENOMEM ? 0 : 1);
		if (fk_open_local(NULL, &pool))
			_exit(2);
		memset(x, 0, sizeof(x));
		if (FK_RUN(pool, &result, fiber_sum, 15) || result < serial_fib(15))
			_exit(3);
		if (getrusage(RUSAGE_SELF, &usage) || usage.ru_maxrss > 512 << 10)
			_exit(4);
		_exit(fk_close(pool) ? 5 : 0);
	}
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert(WIFEXITED(status));
	return WEXITSTATUS(status);
}

START_TEST(pool_fits_into_the_limits_of_its_process)
{
	for (rlim_t mib = 4096; mib >= 512; mib /= 2) {
		ck_assert_int_eq(use_within(RLIMIT_AS, mib << 20, false), 0);
		ck_assert_int_eq(use_within(RLIMIT_DATA, mib << 20, false), 0);
	}
}
END_TEST

/* All that a pool reserves takes memory then. The limit is for a pool that takes too much. */
START_TEST(pool_of_a_locked_process_takes_little_memory)
{
	ck_assert_int_eq(use_within(RLIMIT_AS, (rlim_t)8 << 30, true), 0);
}
END_TEST
#endif

START_TEST(wrong_calls_are_refused)
{
	struct fk_local_options options = { .reserved[2] = 1 };
	int64_t result;

	ck_assert_int_eq(fk_open_local(&options, &pool), -FK_E_RESERVED);
	options = (struct fk_local_options){ .flags = 128 };
	ck_assert_int_eq(fk_open_local(&options, &pool), -FK_E_RESERVED);
	options = (struct fk_local_options){ .workers = 257 };
	ck_assert_int_eq(fk_open_local(&options, &pool), -EINVAL);
	options = (struct fk_local_options){ .n_jobs = 4097 };
	ck_assert_int_eq(fk_open_local(&options, &pool), -EINVAL);
	options = (struct fk_local_options){ .heap_size = UINT64_MAX };
	ck_assert_int_eq(fk_open_local(&options, &pool), -EINVAL);
	options = (struct fk_local_options){ .socket = "/nonexistent/socket" };
	ck_assert_int_eq(fk_open_local(&options, &pool), -ENOENT);
	ck_assert_ptr_nonnull(strstr(fk_error_text(), options.socket));
	ck_assert_int_eq(FK_RUN((fk_client *)NULL, &result, fib, 3), -FK_E_NULL);
	ck_assert_int_eq(fk_for(NULL, 0, 3, square, x), -FK_E_NULL);
}
END_TEST

START_TEST(a_name_of_fk_open_chooses_the_pool)
{
	struct fk_open_options options = { .n_jobs = 10 };
	struct fk_pool_info info;
	int64_t result;

	setenv("FORKD_SOCKET", "/nonexistent/forkd.sock", 1);
	ck_assert_int_eq(fk_open("local", &options, &pool), 0);
	ck_assert_int_eq(fk_pool_info(pool, &info), 0);
	ck_assert_uint_eq(info.n_jobs, 10);
	ck_assert_uint_eq(info.connections, 1);
	ck_assert_uint_eq(info.users, 1);
	ck_assert_int_eq(fk_close(pool), 0);
	ck_assert_int_eq(fk_open("auto:fib:fib", NULL, &pool), 0);
	ck_assert_int_eq(FK_RUN(pool, &result, fib, 3), 0);
	ck_assert_int_eq(fk_close(pool), 0);
	ck_assert_int_eq(fk_open(NULL, NULL, &pool), -FK_E_NOT_LISTENING);
	setenv("FORKD_SOCKET", "auto", 1);
	ck_assert_int_eq(fk_open(NULL, NULL, &pool), 0);
	ck_assert_int_eq(fk_close(pool), 0);
}
END_TEST

/* Memory beyond the end of a file, or of an import that was freed, is no fault of a task. */
START_TEST(import_is_within_its_file_and_reads_zeros_when_freed)
{
	int fd = memfd_create("import", MFD_CLOEXEC);
	int device = open("/dev/null", O_RDONLY | O_CLOEXEC);
	void *data = NULL;

	open_pool(1);
	ck_assert_int_eq(write(fd, "text", 4), 4);
	ck_assert_int_eq(fk_import(pool, fd, 0, 5, &data), -EINVAL);
	ck_assert_int_eq(fk_import(pool, fd, 4096, 1, &data), -EINVAL);
	ck_assert_int_eq(fk_import(pool, device, 0, 1, &data), -ENOTSUP);
	ck_assert_ptr_null(data);
	ck_assert_int_eq(fk_import(pool, fd, 0, 4, &data), 0);
	ck_assert_mem_eq(data, "text", 4);
	ck_assert_int_eq(fk_free(pool, data), 0);
	ck_assert_int_eq(*(volatile char *)data, 0);
	ck_assert_int_eq(close(device), 0);
	ck_assert_int_eq(close(fd), 0);
	ck_assert_int_eq(fk_close(pool), 0);
}
END_TEST

START_TEST(affinity_of_the_program_stays)
{
	cpu_set_t before, after;
	int64_t result;

	ck_assert_int_eq(sched_getaffinity(0, sizeof(before), &before), 0);
	open_pool(0);
	ck_assert_int_eq(FK_RUN(pool, &result, fib, 20), 0);
	ck_assert_int_eq(sched_getaffinity(0, sizeof(after), &after), 0);
	ck_assert(CPU_EQUAL(&before, &after));
	ck_assert_int_eq(fk_close(pool), 0);
}
END_TEST

static void actions(struct sigaction *ret)
{
	for (int signo = 1; signo <= SIGRTMAX; signo++)
		if (sigaction(signo, NULL, &ret[signo]) < 0)
			ret[signo].sa_handler = SIG_ERR;
}

/* The signals whose action differs. */
static int differing(const struct sigaction *a, const struct sigaction *b, int *ret_signo)
{
	int n = 0;

	for (int signo = 1; signo <= SIGRTMAX; signo++) {
		if (a[signo].sa_handler == b[signo].sa_handler)
			continue;
		*ret_signo = signo;
		n++;
	}
	return n;
}

static pthread_t program;
static _Atomic uint32_t elsewhere, heard;

static void hear(int signo)
{
	(void)signo;
	atomic_fetch_add(&heard, 1);
	if (!pthread_equal(pthread_self(), program))
		atomic_fetch_add(&elsewhere, 1);
}

START_TEST(one_real_time_signal_is_taken_and_given_back)
{
	const struct fk_local_options silent = { .workers = 2, .flags = FK_NO_SIGNAL };
	struct sigaction before[65], with[65];
	struct sigaction own = { .sa_handler = hear };
	int64_t result;
	int signo = 0;

	ck_assert_int_eq(sigaction(SIGUSR1, &own, NULL), 0);
	ck_assert_int_eq(sigaction(SIGSEGV, &own, NULL), 0);
	ck_assert_int_eq(sigaction(SIGRTMIN, &own, NULL), 0);
	ck_assert_int_eq(sigaction(SIGRTMIN + 8, &own, NULL), 0);
	actions(before);
	open_pool(2);
	actions(with);
	ck_assert_int_eq(differing(before, with, &signo), 1);
	ck_assert_int_gt(signo, SIGRTMIN + 8);
	ck_assert_int_eq(FK_RUN(pool, &result, fib, 20), 0);
	ck_assert_int_eq(fk_close(pool), 0);
	actions(with);
	ck_assert_int_eq(differing(before, with, &signo), 0);
	ck_assert_int_eq(fk_open_local(&silent, &pool), 0);
	actions(with);
	ck_assert_int_eq(differing(before, with, &signo), 0);
	ck_assert_int_eq(FK_RUN(pool, &result, fib, 20), 0);
	ck_assert_int_eq(result, 6765);
	ck_assert_int_eq(fk_close(pool), 0);
}
END_TEST

START_TEST(signals_of_the_program_are_handled_by_its_own_threads)
{
	struct sigaction own = { .sa_handler = hear };
	int64_t result;

	program = pthread_self();
	ck_assert_int_eq(sigaction(SIGUSR1, &own, NULL), 0);
	open_pool(2);
	for (uint32_t i = 0; i < 200; i++) {
		ck_assert_int_eq(kill(getpid(), SIGUSR1), 0);
		ck_assert_int_eq(FK_RUN(pool, &result, fib, 15), 0);
	}
	ck_assert_uint_gt(atomic_load(&heard), 0);
	ck_assert_uint_eq(atomic_load(&elsewhere), 0);
	ck_assert_int_eq(fk_close(pool), 0);
}
END_TEST

/* A fault in a task is the program's: its handler runs on the worker. */
static void on_fault(int signo)
{
	_exit(signo == SIGSEGV ? 42 : 1);
}

FK_LEAF_TASK(fk_void, faults, (int *, at))
{
	*(volatile int *)at = 1;
}

START_TEST(fault_of_a_task_reaches_the_handler_of_the_program)
{
	struct sigaction own = { .sa_handler = on_fault };
	int status;
	pid_t pid = fork();

	if (!pid) {
		if (sigaction(SIGSEGV, &own, NULL) || fk_open_local(NULL, &pool))
			_exit(2);
		(void)FK_RUN(pool, NULL, faults, (int *)8);
		_exit(3);
	}
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert(WIFEXITED(status));
	ck_assert_int_eq(WEXITSTATUS(status), 42);
}
END_TEST

FK_LEAF_TASK(fk_void, ends_its_thread, ())
{
	pthread_exit(NULL);
}

FK_FIBER_TASK(fk_void, fiber_ends_its_thread, ())
{
	pthread_exit(NULL);
}

static void run_leaf(void)
{
	(void)FK_RUN(pool, NULL, ends_its_thread);
}

static void run_fiber(void)
{
	(void)FK_RUN(pool, NULL, fiber_ends_its_thread);
}

START_TEST(task_that_ends_its_thread_ends_the_program)
{
	static void (*const runs[])(void) = { run_leaf, run_fiber };
	size_t n = ARRAY_SIZE(runs);
	int status;
	pid_t pid;

#ifdef FK_SANITIZE_THREAD
	n = 1; /* its runtime ends the program itself if a fiber does so */
#endif
	for (size_t i = 0; i < n; i++) {
		pid = fork();
		if (!pid) {
			if (fk_open_local(NULL, &pool))
				_exit(2);
			runs[i]();
			_exit(3);
		}
		ck_assert_int_eq(waitpid(pid, &status, 0), pid);
		ck_assert(WIFSIGNALED(status));
		ck_assert_int_eq(WTERMSIG(status), SIGABRT);
	}
}
END_TEST

/* Runs forkctl on the socket. Returns the first 256 KiB of its output. */
static const char *forkctl(const char *socket, const char *command)
{
	static char text[256 << 10];
	char line[512];
	FILE *pipe;
	size_t n;

	snprintf(line, sizeof(line), "%s/forkctl --socket %s %s 2>&1", getenv("top_builddir"),
		 socket, command);
	pipe = popen(line, "r");
	ck_assert(pipe);
	n = fread(text, 1, sizeof(text) - 1, pipe);
	text[n] = '\0';
	ck_assert_int_eq(pclose(pipe), 0);
	return text;
}

FK_LEAF_TASK(fk_void, waits, ())
{
	while (!atomic_load(&go_on))
		sched_yield();
}

START_TEST(forkctl_shows_the_pool_and_cannot_submit)
{
	char directory[] = "/tmp/forkd-local-XXXXXX", path[64];
	struct fk_local_options options = { .workers = 2 };
	struct fk_pool_info info;
	const fk_task *task;
	fk_client *observer;
	fk_job job, other;
	int64_t args[12] = { 0 };

	ck_assert(mkdtemp(directory));
	snprintf(path, sizeof(path), "%s/sock", directory);
	options.socket = path;
	/* A socket that a killed program has left is replaced. */
	ck_assert_int_eq(fk_open_local(&options, &pool), 0);
	ck_assert_int_eq(FK_SUBMIT(pool, &job, NULL, waits), 0);
	while (!strstr(forkctl(path, "jobs"), "program:start"))
		sched_yield();
	ck_assert(strstr(forkctl(path, "status"), "workers: 2"));
	ck_assert(strstr(forkctl(path, "counters"), "jobs_started"));
	ck_assert(strstr(forkctl(path, "trace --duration 100ms"), "traceEvents"));
	ck_assert_int_eq(fk_open(path, NULL, &observer), 0);
	ck_assert_int_eq(fk_pool_info(observer, &info), 0);
	ck_assert_uint_eq(info.workers, 2);
	ck_assert_uint_eq(info.connections, 1);
	ck_assert_int_eq(fk_task_find(observer, "program:start", &task), 0);
	if (fk_submit_packed(observer, task, args, sizeof(args), 0, &other) == 0)
		ck_assert_int_eq(fk_wait(observer, other, FK_FOREVER), -ECONNRESET);
	ck_assert_int_eq(fk_close(observer), 0);
	atomic_store(&go_on, 1);
	ck_assert_int_eq(fk_wait(pool, job, FK_FOREVER), 0);
	ck_assert_int_eq(fk_close(pool), 0);
	ck_assert_int_lt(access(path, F_OK), 0);
	ck_assert_int_eq(rmdir(directory), 0);
}
END_TEST

START_TEST(socket_of_another_process_is_refused_and_a_stale_one_replaced)
{
	char directory[] = "/tmp/forkd-local-XXXXXX", path[64];
	struct fk_local_options options = { .workers = 1 };
	int ready[2], status;
	char byte;
	pid_t pid;

	ck_assert(mkdtemp(directory));
	snprintf(path, sizeof(path), "%s/sock", directory);
	options.socket = path;
	ck_assert_int_eq(pipe(ready), 0);
	pid = fork();
	if (!pid) {
		byte = fk_open_local(&options, &pool) == 0;
		if (write(ready[1], &byte, 1) != 1)
			_exit(1);
		for (;;)
			pause();
	}
	ck_assert_int_eq(read(ready[0], &byte, 1), 1);
	ck_assert_int_eq(byte, 1);
	ck_assert_int_eq(fk_open_local(&options, &pool), -EADDRINUSE);
	ck_assert_int_eq(kill(pid, SIGKILL), 0);
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_int_eq(access(path, F_OK), 0);
	ck_assert_int_eq(fk_open_local(&options, &pool), 0);
	ck_assert_int_eq(fk_close(pool), 0);
	ck_assert_int_eq(rmdir(directory), 0);
}
END_TEST

CHECK_MAIN("local")
