/* SPDX-License-Identifier: MIT */
/*
 * soak_jobs.c - one job after another, of all shipped modules, each with a result to check
 *
 * A table of tasks, each with a function that draws its arguments, calls it and checks the results,
 * bit by bit. Results are known constants (fib, nqueens, uts), or follow from the arguments (sums,
 * orders). Those of integrate are computed here by the same sums in the same order. Jobs that would
 * take hours are cancelled or have a deadline, and must end by that.
 * Fibers, frames with fibers, and fibers with frames are tasks of the tests' module fiber;
 * SOAK_FIBERS in the environment adds them. Jobs on arrays are in soak_arrays.c, on other buffers
 * in soak_modules.c.
 *
 * If a peer dies: a client may be killed anywhere; starting the next one clears its slot.
 */
#include "tests/soak/soak_jobs.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/clock.h"
#include "common/util.h"
#include "tests/support/maze.h"
#include "tests/soak/soak.h"

#define SOAK_BURST 96u

/* ------------------------------------------------------------------------ number to number */

static const int64_t fibs[] = {
	0,   1,	  1,   2,   3,	 5,    8,    13,   21,	 34,	55,    89,
	144, 233, 377, 610, 987, 1597, 2584, 4181, 6765, 10946, 17711, 28657
};
static const int64_t queens[] = { 1, 1, 0, 0, 2, 10, 4, 40, 92, 352, 724 };

#define SOAK_MAZE_DEPTH 5

struct number {
	const char *task;
	int64_t n;
	int64_t wanted;
	int64_t depth; /* of a maze, which is a task of two numbers; else 0 */
};

/* A task that is made of fibers. */
static struct number draw_fibers(struct soak *s)
{
	static const struct {
		const char *task;
		int64_t times;
	} trees[] = { { "fiber:tree", 1 }, { "fiber:calls", 10 }, { "fiber:both", 11 } };
	uint64_t place, n = draw_size(s, 15);
	size_t i = draw(s, ARRAY_SIZE(trees) + 5);

	if (i < ARRAY_SIZE(trees))
		return (struct number){ trees[i].task, (int64_t)n, trees[i].times * fibs[n], 0 };
	if (i == ARRAY_SIZE(trees))
		return (struct number){ "fiber:talk", (int64_t)n, 8 * (int64_t)(n * (n + 1)), 0 };
	if (i == ARRAY_SIZE(trees) + 1)
		return (struct number){ "fiber:naps", (int64_t)n % 3, 0, 0 };
	place = draw(s, INT32_MAX);
	n = draw(s, SOAK_MAZE_DEPTH + 1);
	return (struct number){ "fiber:maze", (int64_t)place,
				(int64_t)maze_value(place, (int64_t)n), (int64_t)n };
}

/* A task from a number to a number, and its result. */
static struct number draw_number(struct soak *s)
{
	uint64_t n;

	switch (draw(s, 6)) {
	case 0:
		n = draw(s, ARRAY_SIZE(fibs));
		return (struct number){ "fib:fib", (int64_t)n, fibs[n], 0 };
	case 1:
		n = draw_size(s, ARRAY_SIZE(queens));
		return (struct number){ "nqueens:nqueens", (int64_t)n, queens[n], 0 };
	case 2:
		n = draw_size(s, 5000);
		return (struct number){ "deep:forked", (int64_t)n, (int64_t)n, 0 };
	default:
		return draw_fibers(s);
	}
}

/* Sets its arguments, which are valid as long as the number. Returns their number. */
static size_t number_values(const struct number *number, union fk_value ret_values[2])
{
	ret_values[0].i64 = number->n;
	ret_values[1].i64 = number->depth;
	return streq(number->task, "fiber:maze") ? 2 : 1;
}

static bool compare_number(struct soak *s, const struct number *number, int64_t found)
{
	return found == number->wanted ||
	       wrong(s, "%s %lld is %lld, not %lld", number->task, (long long)number->n,
		     (long long)found, (long long)number->wanted);
}

static bool run_number(struct soak *s, struct number number)
{
	union fk_value values[2];
	size_t size = number_values(&number, values);
	int64_t n = -1;

	return call(s, number.task, &n, sizeof(n), values, size) && compare_number(s, &number, n);
}

static bool run_fib(struct soak *s)
{
	const char *task = draw(s, 2) ? "fib:fib" : "fiber:fib";
	uint64_t n = draw(s, ARRAY_SIZE(fibs));

	return run_number(s, (struct number){ task, (int64_t)n, fibs[n], 0 });
}

static bool run_queens(struct soak *s)
{
	uint64_t n = draw(s, ARRAY_SIZE(queens));

	return run_number(s, (struct number){ "nqueens:nqueens", (int64_t)n, queens[n], 0 });
}

static bool run_fibers(struct soak *s)
{
	return run_number(s, draw_fibers(s));
}

/* Many jobs at the same time; the waits have another order. */
static bool run_burst(struct soak *s)
{
	struct number numbers[SOAK_BURST];
	fk_job jobs[SOAK_BURST];
	uint32_t n = 1 + (uint32_t)draw_size(s, SOAK_BURST);

	for (uint32_t i = 0; i < n; i++) {
		union fk_value values[2];
		const fk_task *task;
		int r;

		numbers[i] = draw_number(s);
		r = fk_task_find(s->client, numbers[i].task, &task);
		if (r == 0)
			r = fk_submit_values(s->client, task, values,
					     number_values(&numbers[i], values), FK_WAIT_ROOM,
					     &jobs[i]);
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

/* Jobs that would take minutes to hours, so that a missing end is detected. */
static const struct number endless[] = {
	{ "fib:fib", 70, -1, 0 },	 { "nqueens:nqueens", 16, -1, 0 },
	{ "fiber:forever", 100, -1, 0 }, { "fiber:reading", 100, -1, 0 },
	{ "fiber:maze", 1, -1, 100 },	 { "fiber:maze", 2, -1, 100 }
};

/* Submits one of them, or with the same probability a short job with a deadline in hours.
 * timeout_ns 0: no deadline. */
static bool submit_with_deadline(struct soak *s, uint64_t timeout_ns, struct number *ret_number,
				 bool *ret_ends, fk_job *ret_job)
{
	size_t i = draw(s, ARRAY_SIZE(endless));
	bool ends = timeout_ns && draw(s, 2);
	union fk_value values[2];
	struct fk_request request = { .values = values, .options.timeout_ns = timeout_ns };
	int r;

	*ret_number = ends ? draw_number(s) : endless[i];
	*ret_ends = ends;
	if (ends)
		request.options.timeout_ns = 3600 * NSEC_PER_SEC;
	request.size = number_values(ret_number, values);
	atomic_fetch_add(&s->slot->outstanding, 1);
	r = fk_task_find(s->client, ret_number->task, &request.task);
	if (r == 0)
		r = fk_submit_batch(s->client, &request, 1, FK_WAIT_ROOM, ret_job);
	return r == 0 || wrong(s, "%s: %s", ret_number->task, fk_strerror(r));
}

/* Waits for one that must end in this way, and releases it. */
static bool finish_as(struct soak *s, const struct number *number, fk_job job, int wanted)
{
	int r = fk_wait(s->client, job, FK_FOREVER), code = 0;
	int outcome = r < 0 ? r : fk_outcome(s->client, job, &code, NULL);

	if (outcome != wanted)
		return wrong(s, "%s %lld: %s (%d), not %s", number->task, (long long)number->n,
			     outcome < 0 ? fk_strerror(outcome) : fk_outcome_name(outcome), code,
			     fk_outcome_name(wanted));
	atomic_fetch_sub(&s->slot->outstanding, 1);
	atomic_fetch_add(&s->slot->done, 1);
	return fk_release(s->client, job) == 0 || wrong(s, "%s: not released", number->task);
}

/* Up to a few milliseconds, so that the job is queued, starting or running then. */
static uint64_t draw_moment(struct soak *s)
{
	return draw_size(s, 5 * NSEC_PER_MSEC);
}

static bool run_cancelled(struct soak *s)
{
	struct timespec moment = clock_to_timespec(draw_moment(s));
	struct number number;
	bool ends;
	fk_job job;
	int r;

	if (!submit_with_deadline(s, 0, &number, &ends, &job))
		return false;
	if (draw(s, 4))
		(void)nanosleep(&moment, NULL);
	do
		r = fk_cancel(s->client, job);
	while (r == -FK_E_REQUESTS_FULL);
	if (r < 0)
		return wrong(s, "%s: cancel: %s", number.task, fk_strerror(r));
	return finish_as(s, &number, job, FK_CANCELLED);
}

static bool run_expired(struct soak *s)
{
	int64_t found = -1;
	struct number number;
	bool ends;
	fk_job job;

	if (!submit_with_deadline(s, 1 + draw_moment(s), &number, &ends, &job))
		return false;
	if (!ends)
		return finish_as(s, &number, job, FK_EXPIRED);
	return finish(s, number.task, job, &found, sizeof(found)) &&
	       compare_number(s, &number, found);
}

/* Fails while other fibers wait. */
static bool run_failing(struct soak *s)
{
	static const struct number failing = { "fiber:ends", 4, -1, 0 };
	union fk_value values[2];
	fk_job job;

	return begin(s, failing.task, values, number_values(&failing, values), &job) &&
	       finish_as(s, &failing, job, FK_FAILED);
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
	static double known[ARRAY_SIZE(integrals)]; /* 0: not yet */
	size_t i = draw(s, ARRAY_SIZE(integrals));
	double n = integrals[i].n, eps = integrals[i].eps, found = 0;
	const union fk_value values[] = { { .f64 = n }, { .f64 = eps } };

	if (known[i] == 0)
		known[i] = integral(0, n / 2, curve(0), curve(n), 0, eps);
	if (!call(s, "integrate:integrate", &found, sizeof(found), values, 2))
		return false;
	return !memcmp(&found, &known[i], sizeof(found)) ||
	       wrong(s, "integrate %g %g is %.17g, not %.17g", n, eps, found, known[i]);
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

	/* Each takes a second of both CPUs: rarely. */
	if (draw(s, 40))
		return true;
	if (!call(s, "uts:uts", found, sizeof(found), &(union fk_value){ .str = trees[i].name }, 1))
		return false;
	return !memcmp(found, trees[i].wanted, sizeof(found)) ||
	       wrong(s, "uts %s has %lld nodes, depth %lld, %lld leaves", trees[i].name,
		     (long long)found[0], (long long)found[1], (long long)found[2]);
}

/* ------------------------------------------------------------------------ all of them */

static const struct soak_row soak_numbers[] = {
	{ "fib:fib fiber:fib", run_fib },
	{ "nqueens:nqueens", run_queens },
	{ "integrate:integrate", run_integrate },
	{ "uts:uts", run_uts },
	{ "many at once", run_burst },
	{ "one to be cancelled", run_cancelled },
	{ "one with a deadline", run_expired },
	{ NULL, NULL },
};

/* Frames are among the many jobs, and those that end early. */
static const struct soak_row soak_fibers[] = {
	{ "fiber:tree fiber:calls fiber:both fiber:maze fiber:talk fiber:naps", run_fibers },
	{ "fiber:ends", run_failing },
	{ "many at once, fibers too", run_burst },
	{ "one to be cancelled, fiber:forever and fiber:reading too", run_cancelled },
	{ "one with a deadline, a fiber too", run_expired },
	{ NULL, NULL },
};

static const struct soak_row *const tables[] = { soak_fibers, soak_numbers, soak_arrays,
						 soak_modules };

/* Returns row n of all tables together, or NULL if there are fewer. */
static const struct soak_row *row_at(uint32_t n)
{
	for (size_t i = 0; i < ARRAY_SIZE(tables); i++)
		for (const struct soak_row *row = tables[i]; row->name; row++)
			if (!n--)
				return row;
	return NULL;
}

/* All tables have the same probability, whatever their lengths, so most jobs fork. Or the table is
 * always that of fibers. */
static uint32_t draw_row(struct soak *s)
{
	uint64_t table = getenv("SOAK_FIBERS") ? 0 : draw(s, ARRAY_SIZE(tables));
	uint32_t first = 0, n = 0;

	for (size_t i = 0; i <= table; i++)
		for (first += n, n = 0; tables[i][n].name;)
			n++;
	return first + (uint32_t)draw(s, n);
}

const char *soak_jobs_name(uint32_t row)
{
	const struct soak_row *found = row_at(row);

	return found ? found->name : "nothing";
}

/* Returns true if it is one of the words of a row's name. */
static bool is_named(const char *name, const char *task)
{
	size_t n = strlen(task);

	for (const char *at = name; (at = strstr(at, task)); at += n)
		if ((at == name || at[-1] == ' ') && (!at[n] || at[n] == ' '))
			return true;
	return false;
}

static bool has_row(const char *task)
{
	const struct soak_row *row;

	for (uint32_t i = 0; (row = row_at(i)); i++)
		if (is_named(row->name, task))
			return true;
	return false;
}

static bool is_of(const char *task, const char *const *modules)
{
	for (; *modules; modules++) {
		size_t length = strlen(*modules);

		if (!strncmp(task, *modules, length) && (!task[length] || task[length] == ':'))
			return true;
	}
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

static bool run_row(struct soak *s, uint32_t row)
{
	bool right;

	atomic_store(&s->slot->job, row);
	right = row_at(row)->run(s);
	while (s->n_taken)
		if (fk_free(s->client, s->taken[--s->n_taken]) < 0 && right)
			right = wrong(s, "its memory is not given back");
	return right;
}

int soak_jobs_run(const char *socket, struct soak_slot *slot, uint64_t seed,
		  const _Atomic uint32_t *stop)
{
	struct fk_open_options options = { .n_jobs = 2 * SOAK_BURST, .heap_size = SOAK_HEAP };
	struct soak s = { .slot = slot, .random = seed };
	int r = fk_open(socket, &options, &s.client);
	bool right = true;

	if (r < 0) {
		(void)wrong(&s, "%s", fk_error_text());
		return 1;
	}
	while (right && !atomic_load(stop))
		right = run_row(&s, draw_row(&s));
	r = fk_close(s.client);
	if (right && r < 0)
		right = wrong(&s, "the end: %s", fk_strerror(r));
	return right ? 0 : 1;
}
