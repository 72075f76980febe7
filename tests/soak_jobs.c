/* SPDX-License-Identifier: MIT */
/*
 * tests/soak_jobs.c - one job after another, of all shipped modules, each with a result to check
 *
 * WHAT IT IS
 *   A table of tasks with a function for each that draws its arguments, calls it and looks at what
 *   came back. Results are known beforehand (fib, nqueens, uts), follow from the arguments (sums,
 *   orders), or were computed here by the same sums in the same order (integrate): so every bit
 *   of them is compared. Some jobs would take hours, and are cancelled or have a deadline: they
 *   have to end by that, or they hang.
 *
 * WHO CALLS IT, ON WHICH THREAD
 *   The client processes of soak_stress.c, each with one thread.
 *
 * WHAT HAPPENS IF A PEER DIES HERE
 *   A client may be killed anywhere; its slot is cleared by who starts the next one.
 */
#include "tests/soak_jobs.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "common/clock.h"
#include "common/util.h"

#define SOAK_HEAP   (UINT64_C(4) << 20)
#define SOAK_BURST  96u
#define SOAK_NUMBER 30000u /* numbers in a buffer, at most */

struct soak {
	fk_client *client;
	struct soak_slot *slot;
	uint64_t random;
	double *integrals; /* computed once each; NAN before */
};

static uint64_t draw(struct soak *s, uint64_t below)
{
	return (xorshift64(&s->random) >> 11) % below;
}

/* Small ones are more likely than large ones, as they are with jobs. */
static uint64_t draw_size(struct soak *s, uint64_t below)
{
	return draw(s, draw(s, below) + 1);
}

static bool wrong(struct soak *s, const char *format, ...) __attribute__((format(printf, 2, 3)));

static bool wrong(struct soak *s, const char *format, ...)
{
	va_list ap;

	va_start(ap, format);
	(void)vsnprintf(s->slot->wrong, sizeof(s->slot->wrong), format, ap);
	va_end(ap);
	return false;
}

/* Waits for a job, which must be DONE, takes its result and releases it. */
static bool finish(struct soak *s, const char *what, fk_job job, void *result, size_t size)
{
	int r = fk_wait(s->client, job, FK_FOREVER);

	if (r == 0)
		r = fk_result(s->client, job, result, size);
	if (r < 0)
		return wrong(s, "%s: %s", what, fk_strerror(r));
	atomic_fetch_sub(&s->slot->outstanding, 1);
	atomic_fetch_add(&s->slot->done, 1);
	return fk_release(s->client, job) == 0 || wrong(s, "%s: cannot be released", what);
}

/* Calls a task. */
static bool call(struct soak *s, const char *task, void *result, size_t size,
		 const union fk_value *values, size_t n)
{
	unsigned int flags = FK_WAIT_ROOM | (draw(s, 2) ? FK_IDEMPOTENT : 0);
	const fk_task *found;
	fk_job job;
	int r = fk_task_find(s->client, task, &found);

	atomic_fetch_add(&s->slot->outstanding, 1);
	if (r == 0)
		r = fk_submit_values(s->client, found, values, n, flags, &job);
	if (r < 0)
		return wrong(s, "%s: %s", task, fk_strerror(r));
	return finish(s, task, job, result, size);
}

/* ------------------------------------------------------------------------ number to number */

static const int64_t fibs[] = {
	0,   1,	  1,   2,   3,	 5,    8,    13,   21,	 34,	55,    89,
	144, 233, 377, 610, 987, 1597, 2584, 4181, 6765, 10946, 17711, 28657
};
static const int64_t queens[] = { 1, 1, 0, 0, 2, 10, 4, 40, 92, 352, 724 };

struct number {
	const char *task;
	int64_t n;
	int64_t wanted;
};

/* A task from a number to a number, and what it makes of one. */
static struct number draw_number(struct soak *s)
{
	uint64_t n;

	switch (draw(s, 3)) {
	case 0:
		n = draw(s, ARRAY_SIZE(fibs));
		return (struct number){ "fib:fib", (int64_t)n, fibs[n] };
	case 1:
		n = draw_size(s, ARRAY_SIZE(queens));
		return (struct number){ "nqueens:nqueens", (int64_t)n, queens[n] };
	default:
		n = draw_size(s, 5000);
		return (struct number){ "deep:forked", (int64_t)n, (int64_t)n };
	}
}

static bool compare_number(struct soak *s, const struct number *number, int64_t found)
{
	return found == number->wanted ||
	       wrong(s, "%s %lld is %lld, not %lld", number->task, (long long)number->n,
		     (long long)found, (long long)number->wanted);
}

static bool run_number(struct soak *s, struct number number)
{
	int64_t n = -1;

	return call(s, number.task, &n, sizeof(n), &(union fk_value){ .i64 = number.n }, 1) &&
	       compare_number(s, &number, n);
}

static bool run_fib(struct soak *s)
{
	uint64_t n = draw(s, ARRAY_SIZE(fibs));

	return run_number(s, (struct number){ "fib:fib", (int64_t)n, fibs[n] });
}

static bool run_queens(struct soak *s)
{
	uint64_t n = draw(s, ARRAY_SIZE(queens));

	return run_number(s, (struct number){ "nqueens:nqueens", (int64_t)n, queens[n] });
}

/* Many at once, waited for in another order. */
static bool run_burst(struct soak *s)
{
	struct number numbers[SOAK_BURST];
	fk_job jobs[SOAK_BURST];
	uint32_t n = 1 + (uint32_t)draw_size(s, SOAK_BURST);

	for (uint32_t i = 0; i < n; i++) {
		const fk_task *task;
		int r;

		numbers[i] = draw_number(s);
		r = fk_task_find(s->client, numbers[i].task, &task);
		if (r == 0)
			r = fk_submitv(s->client, task, FK_WAIT_ROOM, &jobs[i], numbers[i].n);
		if (r < 0)
			return wrong(s, "%s: %s", numbers[i].task, fk_strerror(r));
		atomic_fetch_add(&s->slot->outstanding, 1);
	}
	while (n) {
		uint32_t i = (uint32_t)draw(s, n);
		int64_t found = -1;

		if (!finish(s, numbers[i].task, jobs[i], &found, sizeof(found)))
			return false;
		if (!compare_number(s, &numbers[i], found))
			return false;
		numbers[i] = numbers[--n];
		jobs[i] = jobs[n];
	}
	return true;
}

/* ------------------------------------------------------------------------ ended early */

/* Jobs that would take minutes to hours, so that an end that does not come is seen. */
static const struct {
	const char *task;
	int64_t n;
} endless[] = { { "fib:fib", 70 }, { "nqueens:nqueens", 16 } };

/* Submits one of them, or as likely a short one, which has hours; timeout_ns 0: no deadline. */
static bool submit_with_deadline(struct soak *s, uint64_t timeout_ns, struct number *ret_number,
				 fk_job *ret_job)
{
	size_t i = draw(s, ARRAY_SIZE(endless));
	bool ends = timeout_ns && draw(s, 2);
	union fk_value value;
	struct fk_request request = { .values = &value, .size = 1, .timeout_ns = timeout_ns };
	int r;

	*ret_number = ends ? draw_number(s) : (struct number){ endless[i].task, endless[i].n, -1 };
	if (ends)
		request.timeout_ns = 3600 * NSEC_PER_SEC;
	value.i64 = ret_number->n;
	atomic_fetch_add(&s->slot->outstanding, 1);
	r = fk_task_find(s->client, ret_number->task, &request.task);
	if (r == 0)
		r = fk_submit_batch(s->client, &request, 1, FK_WAIT_ROOM, ret_job);
	return r == 0 || wrong(s, "%s: %s", ret_number->task, fk_strerror(r));
}

/* Waits for one that must end in this way, and releases it. */
static bool finish_as(struct soak *s, const struct number *number, fk_job job, int wanted)
{
	int r = fk_wait(s->client, job, FK_FOREVER);
	int outcome = r < 0 ? r : fk_outcome(s->client, job, NULL, NULL);

	if (outcome != wanted)
		return wrong(s, "%s %lld: %s, not %s", number->task, (long long)number->n,
			     outcome < 0 ? fk_strerror(outcome) : fk_outcome_name(outcome),
			     fk_outcome_name(wanted));
	atomic_fetch_sub(&s->slot->outstanding, 1);
	atomic_fetch_add(&s->slot->done, 1);
	return fk_release(s->client, job) == 0 || wrong(s, "%s: not released", number->task);
}

/* Up to a few milliseconds, so that it hits a job queued, starting or in full swing. */
static uint64_t draw_moment(struct soak *s)
{
	return draw_size(s, 5 * NSEC_PER_MSEC);
}

static bool run_cancelled(struct soak *s)
{
	struct timespec moment = clock_to_timespec(draw_moment(s));
	struct number number;
	fk_job job;
	int r;

	if (!submit_with_deadline(s, 0, &number, &job))
		return false;
	if (draw(s, 4))
		(void)nanosleep(&moment, NULL);
	do
		r = fk_cancel(s->client, job);
	while (r == -EAGAIN);
	if (r < 0)
		return wrong(s, "%s: cancel: %s", number.task, fk_strerror(r));
	return finish_as(s, &number, job, FK_CANCELLED);
}

static bool run_expired(struct soak *s)
{
	int64_t found = -1;
	struct number number;
	fk_job job;

	if (!submit_with_deadline(s, 1 + draw_moment(s), &number, &job))
		return false;
	if (number.wanted < 0)
		return finish_as(s, &number, job, FK_EXPIRED);
	return finish(s, number.task, job, &found, sizeof(found)) &&
	       compare_number(s, &number, found);
}

/* ------------------------------------------------------------------------ integrate */

static const struct {
	double n;
	double eps;
} integrals[] = { { 1, 1e-3 }, { 10, 1e-4 }, { 50, 1e-3 }, { 100, 1e-2 }, { 200, 1e-2 } };

static double curve(double x)
{
	return (x * x + 1.0) * x;
}

static double trapezoid(double y1, double y2, double width)
{
	return (y1 + y2) / 2 * width;
}

/* The sums of daemon/modules/integrate.c in their order. */
static double integral(double x1, double half, double y1, double y2, double area, double eps)
{
	double x0 = x1 + half;
	double y0 = curve(x0);
	double left = trapezoid(y1, y0, half);
	double right = trapezoid(y0, y2, half);

	if (!(fabs(left + right - area) >= eps))
		return left + right;
	left = integral(x1, half / 2, y1, y0, left, eps);
	return left + integral(x0, half / 2, y0, y2, right, eps);
}

static bool run_integrate(struct soak *s)
{
	size_t i = draw(s, ARRAY_SIZE(integrals));
	double n = integrals[i].n, eps = integrals[i].eps, found = 0;
	const union fk_value values[] = { { .f64 = n }, { .f64 = eps } };

	if (isnan(s->integrals[i]))
		s->integrals[i] = integral(0, n / 2, curve(0), curve(n), 0, eps);
	if (!call(s, "integrate:integrate", &found, sizeof(found), values, 2))
		return false;
	return !memcmp(&found, &s->integrals[i], sizeof(found)) ||
	       wrong(s, "integrate %g %g is %.17g, not %.17g", n, eps, found, s->integrals[i]);
}

/* ------------------------------------------------------------------------ trees */

static bool run_uts(struct soak *s)
{
	static const struct {
		const char *name;
		int64_t wanted[3];
	} trees[] = { { "T1", { 4130071, 10, 3305118 } }, { "T3", { 4112897, 1572, 3599034 } } };
	size_t i = draw(s, ARRAY_SIZE(trees));
	int64_t found[3] = { 0 };

	/* A second of both CPUs each: now and then. */
	if (draw(s, 40))
		return true;
	if (!call(s, "uts:uts", found, sizeof(found), &(union fk_value){ .str = trees[i].name }, 1))
		return false;
	return !memcmp(found, trees[i].wanted, sizeof(found)) ||
	       wrong(s, "uts %s has %lld nodes, depth %lld, %lld leaves", trees[i].name,
		     (long long)found[0], (long long)found[1], (long long)found[2]);
}

/* ------------------------------------------------------------------------ arrays */

struct array {
	union {
		void *data;
		int64_t *i64;
		double *f64;
	};
	size_t n;
	int64_t sum;
	int64_t min;
	int64_t max;
};

/* Whole numbers, so that sums of doubles are exact in whatever order. */
static bool new_array(struct soak *s, struct array *ret_array, bool doubles)
{
	struct array a = { .n = 1 + draw_size(s, SOAK_NUMBER), .min = INT64_MAX, .max = INT64_MIN };
	int r = fk_alloc(s->client, a.n * 8, &a.data);

	if (r < 0)
		return wrong(s, "%zu bytes of heap: %s", a.n * 8, fk_strerror(r));
	for (size_t i = 0; i < a.n; i++) {
		int64_t x = (int64_t)draw(s, 1 << 20) - (1 << 19);

		a.sum += x;
		a.min = min(a.min, x);
		a.max = max(a.max, x);
		if (doubles)
			a.f64[i] = (double)x;
		else
			a.i64[i] = x;
	}
	*ret_array = a;
	return true;
}

static union fk_value as_value(const struct array *a)
{
	return (union fk_value){ .buf = { a->data, a->n * 8 } };
}

/* Gives it back, right or wrong. */
static bool end_array(struct soak *s, struct array *a, const char *task, bool called, bool right)
{
	if (called && !right)
		(void)wrong(s, "%s: wrong for %zu numbers", task, a->n);
	return fk_free(s->client, a->data) == 0 && called && right;
}

static bool run_sort(struct soak *s, const char *task, bool doubles)
{
	struct array a = { 0 };
	bool called, right = true;
	int64_t sum = 0;
	union fk_value value;

	if (!new_array(s, &a, doubles))
		return false;
	value = as_value(&a);
	called = call(s, task, NULL, 0, &value, 1);
	for (size_t i = 0; called && i < a.n; i++) {
		sum += doubles ? (int64_t)a.f64[i] : a.i64[i];
		right = right &&
			(!i || (doubles ? a.f64[i - 1] <= a.f64[i] : a.i64[i - 1] <= a.i64[i]));
	}
	return end_array(s, &a, task, called, right && sum == a.sum);
}

static bool run_sort_i64(struct soak *s)
{
	return run_sort(s, "sort:i64", false);
}

static bool run_sort_f64(struct soak *s)
{
	return run_sort(s, "sort:f64", true);
}

static bool run_sum(struct soak *s, const char *task, bool doubles)
{
	union {
		int64_t i64;
		double f64;
	} found = { 0 };
	struct array a = { 0 };
	union fk_value value;
	bool called;

	if (!new_array(s, &a, doubles))
		return false;
	value = as_value(&a);
	called = call(s, task, &found, sizeof(found), &value, 1);
	return end_array(s, &a, task, called,
			 doubles ? found.f64 == (double)a.sum : found.i64 == a.sum);
}

static bool run_sum_i64(struct soak *s)
{
	return run_sum(s, "array:sum_i64", false);
}

static bool run_sum_f64(struct soak *s)
{
	return run_sum(s, "array:sum_f64", true);
}

static bool run_minmax(struct soak *s)
{
	int64_t found[2] = { 0 };
	struct array a = { 0 };
	union fk_value value;
	bool called;

	if (!new_array(s, &a, false))
		return false;
	value = as_value(&a);
	called = call(s, "array:minmax_i64", found, sizeof(found), &value, 1);
	return end_array(s, &a, "array:minmax_i64", called, found[0] == a.min && found[1] == a.max);
}

static bool run_stats(struct soak *s)
{
	struct {
		int64_t n;
		double min, max, mean, sd;
	} found = { 0 };
	struct array a = { 0 };
	union fk_value value;
	double squares = 0, mean, sd;
	bool called;

	if (!new_array(s, &a, true))
		return false;
	mean = (double)a.sum / (double)a.n;
	for (size_t i = 0; i < a.n; i++)
		squares += (a.f64[i] - mean) * (a.f64[i] - mean);
	sd = a.n > 1 ? sqrt(squares / (double)(a.n - 1)) : 0;
	value = as_value(&a);
	called = call(s, "array:stats_f64", &found, sizeof(found), &value, 1);
	/* Its sums are in another order than these: equal but for rounding. */
	return end_array(s, &a, "array:stats_f64", called,
			 found.n == (int64_t)a.n && found.min == (double)a.min &&
				 found.max == (double)a.max && fabs(found.mean - mean) < 1e-6 &&
				 fabs(found.sd - sd) < 1e-6);
}

static bool run_prefix(struct soak *s)
{
	static int64_t before[SOAK_NUMBER + 1];
	int64_t found = 0, sum = 0;
	struct array a = { 0 };
	union fk_value value;
	bool called, right;

	if (!new_array(s, &a, false))
		return false;
	memcpy(before, a.data, a.n * 8);
	value = as_value(&a);
	called = call(s, "array:prefix_i64", &found, sizeof(found), &value, 1);
	right = found == a.sum;
	for (size_t i = 0; called && i < a.n; i++) {
		sum += before[i];
		right = right && a.i64[i] == sum;
	}
	return end_array(s, &a, "array:prefix_i64", called, right);
}

static bool run_scale(struct soak *s)
{
	union fk_value values[2];
	struct array a = { 0 };
	double sum = 0;
	bool called;

	if (!new_array(s, &a, true))
		return false;
	values[0] = as_value(&a);
	values[1] = (union fk_value){ .f64 = 4 };
	called = call(s, "array:scale_f64", NULL, 0, values, 2);
	for (size_t i = 0; called && i < a.n; i++)
		sum += a.f64[i];
	return end_array(s, &a, "array:scale_f64", called, sum == 4 * (double)a.sum);
}

static bool run_histogram(struct soak *s)
{
	enum { BINS = 16 };
	int64_t wanted[BINS] = { 0 }, outside = 0, found = -1;
	union fk_value values[4];
	struct array a = { 0 };
	void *counts = NULL;
	bool called, right;

	if (!new_array(s, &a, true))
		return false;
	/* Bins of 2^15 from -2^18 on: no rounding. */
	for (size_t i = 0; i < a.n; i++) {
		double bin = floor((a.f64[i] + 262144.0) / 32768.0);

		if (bin >= 0 && bin < BINS)
			wanted[(int)bin]++;
		else
			outside++;
	}
	if (fk_alloc(s->client, sizeof(wanted), &counts) < 0)
		return end_array(s, &a, "array:histogram_f64", true, false);
	values[0] = as_value(&a);
	values[1] = (union fk_value){ .f64 = -262144.0 };
	values[2] = (union fk_value){ .f64 = 262144.0 };
	values[3] = (union fk_value){ .buf = { counts, sizeof(wanted) } };
	called = call(s, "array:histogram_f64", &found, sizeof(found), values, 4);
	right = called && found == outside && !memcmp(counts, wanted, sizeof(wanted));
	right = fk_free(s->client, counts) == 0 && right;
	return end_array(s, &a, "array:histogram_f64", called, right);
}

/* ------------------------------------------------------------------------ all of them */

static const struct {
	const char *name; /* of the task; or of several */
	bool (*run)(struct soak *s);
} rows[] = {
	{ "fib:fib", run_fib },
	{ "nqueens:nqueens", run_queens },
	{ "integrate:integrate", run_integrate },
	{ "uts:uts", run_uts },
	{ "sort:i64", run_sort_i64 },
	{ "sort:f64", run_sort_f64 },
	{ "array:sum_i64", run_sum_i64 },
	{ "array:sum_f64", run_sum_f64 },
	{ "array:minmax_i64", run_minmax },
	{ "array:stats_f64", run_stats },
	{ "array:prefix_i64", run_prefix },
	{ "array:scale_f64", run_scale },
	{ "array:histogram_f64", run_histogram },
	{ "many at once", run_burst },
	{ "one to be cancelled", run_cancelled },
	{ "one with a deadline", run_expired },
};

const char *soak_jobs_name(uint32_t row)
{
	return row < ARRAY_SIZE(rows) ? rows[row].name : "nothing";
}

static bool has_row(const char *task)
{
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		if (streq(rows[i].name, task))
			return true;
	return false;
}

static bool is_of(const char *task, const char *const *modules)
{
	for (; *modules; modules++)
		if (!strncmp(task, *modules, strlen(*modules)) && task[strlen(*modules)] == ':')
			return true;
	return false;
}

bool soak_jobs_cover(const struct board *board, const char *const *foreign, const char **ret_task)
{
	for (uint32_t i = 0; i < LIMIT_TASKS; i++) {
		const char *name = board->tasks[i].name;

		if (!*name || has_row(name) || is_of(name, foreign))
			continue;
		*ret_task = name;
		return false;
	}
	return true;
}

int soak_jobs_run(const char *socket, struct soak_slot *slot, uint64_t seed,
		  const _Atomic uint32_t *stop)
{
	struct fk_open_options options = { .n_jobs = 2 * SOAK_BURST, .heap_size = SOAK_HEAP };
	double known[ARRAY_SIZE(integrals)];
	struct soak s = { .slot = slot, .random = seed, .integrals = known };
	int r = fk_open(socket, &options, &s.client);
	bool right = true;

	if (r < 0) {
		(void)wrong(&s, "%s", fk_open_error());
		return 1;
	}
	for (size_t i = 0; i < ARRAY_SIZE(integrals); i++)
		known[i] = NAN;
	while (right && !atomic_load(stop)) {
		uint32_t row = (uint32_t)draw(&s, ARRAY_SIZE(rows));

		atomic_store(&slot->job, row);
		right = rows[row].run(&s);
	}
	r = fk_close(s.client);
	if (right && r < 0)
		right = wrong(&s, "the end: %s", fk_strerror(r));
	return right ? 0 : 1;
}
