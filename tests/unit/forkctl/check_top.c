/* SPDX-License-Identifier: MIT */
/* forkctl top: differences between two samples of a board, order and filter of rows, keys */
#include "tests/support/top_rig.h"

/* ------------------------------------------------------------------------ rates */

START_TEST(first_sample_has_no_rates_and_the_second_has)
{
	ended(0, 10, 0, S);
	look(10 * S);
	ck_assert(json_is_null(json_object_get(row(TOP_CLIENTS, 0), "jobs_rate")));
	ck_assert(json_is_null(json_object_get(row(TOP_WORKERS, 0), "run")));
	ck_assert(json_is_null(json_object_get(frame.head, "jobs_rate")));
	ended(0, 10, 1, S);
	atomic_fetch_add(&board->counters[2].jobs_done, 9);
	atomic_fetch_add(&board->counters[2].jobs_failed, 1);
	look(12 * S);
	ck_assert_double_eq(value(row(TOP_CLIENTS, 0), "jobs_rate"), 5);
	ck_assert_double_eq(value(row(TOP_CLIENTS, 0), "failed_rate"), 0.5);
	ck_assert_double_eq(value(row(TOP_CLIENTS, 0), "mean_ns"), S / 5);
	ck_assert_double_eq(value(row(TOP_CLIENTS, 0), "mean_wait_ns"), S / 20);
	/* One of four workers, half of the time. */
	ck_assert_double_eq(value(row(TOP_CLIENTS, 0), "share"), 0.125);
	ck_assert_double_eq(value(row(TOP_WORKERS, 2), "jobs_rate"), 5);
	ck_assert_double_eq(value(row(TOP_WORKERS, 1), "jobs_rate"), 0);
	ck_assert_double_eq(value(frame.head, "jobs_rate"), 5);
	ck_assert_double_eq(value(frame.head, "failed_rate"), 0.5);
}
END_TEST

START_TEST(worker_runs_searches_or_rests)
{
	uint64_t at = clock_ns();

	look(at - 4 * S);
	/* The test sets the stopwatches of this board. */
	stopwatch_set(&board->running[0].busy, true, 1);
	stopwatch_set(&board->running[0].busy, false, 1 + 2 * S);
	stopwatch_set(&board->running[0].asleep, true, 1);
	stopwatch_set(&board->running[0].asleep, false, 1 + S);
	stopwatch_set(&board->running[1].asleep, true, 1);
	stopwatch_set(&board->running[1].asleep, false, 1 + 5 * S);
	atomic_store(&board->workers[0].wake, WAKE_LOOKING);
	atomic_store(&board->workers[2].wake, WAKE_PARKED);
	look(at);
	ck_assert_double_eq(value(row(TOP_WORKERS, 0), "run"), 0.5);
	ck_assert_double_eq(value(row(TOP_WORKERS, 0), "search"), 0.25);
	ck_assert_str_eq(string(row(TOP_WORKERS, 0), "state"), "searching");
	/* Never more than 100 percent in total. */
	ck_assert_double_eq(value(row(TOP_WORKERS, 1), "run"), 0);
	ck_assert_double_eq(value(row(TOP_WORKERS, 1), "search"), 0);
	ck_assert_str_eq(string(row(TOP_WORKERS, 1), "state"), "sleeping");
	ck_assert_str_eq(string(row(TOP_WORKERS, 2), "state"), "offline");
	ck_assert_double_eq(value(frame.head, "run"), 0.125);
}
END_TEST

START_TEST(new_pool_has_no_rates_and_no_count_decreases)
{
	atomic_store(&board->counters[0].steals, 1000);
	ended(1, 1000, 0, S);
	look(10 * S);
	atomic_store(&board->manager.pool_generation, 2);
	atomic_store(&board->counters[0].steals, 10);
	look(11 * S);
	ck_assert(json_is_null(json_object_get(row(TOP_THIEVES, 0), "near")));
	ck_assert(json_is_null(json_object_get(row(TOP_CLIENTS, 1), "jobs_rate")));
	/* Another client has its slot now. */
	atomic_store(&board->clients[1].pid, 555);
	atomic_store(&board->clients[1].jobs, 30);
	look(12 * S);
	ck_assert_double_eq(value(row(TOP_CLIENTS, 1), "jobs_rate"), 30);
	atomic_store(&board->clients[1].jobs, 20);
	look(13 * S);
	ck_assert_double_eq(value(row(TOP_CLIENTS, 1), "jobs_rate"), 0);
}
END_TEST

START_TEST(steals_are_counted_by_distance)
{
	struct board_counters *c = &board->counters[3];

	look(10 * S);
	atomic_store(&c->steals, 100);
	atomic_store(&c->steals_far, 20);
	atomic_store(&c->steals_farther, 5);
	atomic_store(&c->steal_attempts, 1000);
	atomic_store(&c->attempts_far, 200);
	atomic_store(&c->attempts_farther, 100);
	look(15 * S);
	ck_assert_str_eq(string(row(TOP_STEALS, 0), "level"), "near");
	ck_assert_double_eq(value(row(TOP_STEALS, 0), "steals"), 15);
	ck_assert_double_eq(value(row(TOP_STEALS, 0), "attempts"), 140);
	ck_assert_double_eq_tol(value(row(TOP_STEALS, 0), "found"), 75. / 700, 1e-9);
	ck_assert_double_eq(value(row(TOP_STEALS, 0), "share"), 0.75);
	ck_assert_double_eq(value(row(TOP_STEALS, 1), "steals"), 4);
	ck_assert_double_eq(value(row(TOP_STEALS, 2), "attempts"), 20);
	ck_assert_double_eq(value(row(TOP_THIEVES, 3), "near"), 15);
	ck_assert_double_eq(value(row(TOP_THIEVES, 3), "farther"), 1);
	ck_assert_double_eq(value(row(TOP_THIEVES, 2), "near"), 0);
}
END_TEST

/* ------------------------------------------------------------------------ users, tasks */

START_TEST(tenant_is_the_sum_of_its_connections)
{
	uint64_t at = clock_ns();

	atomic_store(&board->settled_ns, at - S);
	look(at - S);
	ended(0, 10, 0, S / 2);
	ended(2, 30, 3, S / 2);
	ended(1, 5, 0, S / 10);
	/* Two workers run one job of the first connection, a third worker a job of the other
	 * connection of that uid; a fourth is idle. Three more jobs of the first connection are
	 * queued. */
	run(0, 0, 7, 0, at + S);
	run(1, 0, 7, 0, at + S);
	run(2, 2, 1, 1, at + S);
	atomic_fetch_add(&board->clients[0].accepted, 4);
	atomic_fetch_add(&board->clients[2].accepted, 1);
	look(at);
	ck_assert_uint_eq(json_array_size(frame.rows[TOP_USERS]), 2);
	ck_assert_double_eq(value(row(TOP_USERS, 0), "jobs_rate"), 40);
	ck_assert_double_eq(value(row(TOP_USERS, 0), "failed_rate"), 3);
	ck_assert_double_eq(value(row(TOP_USERS, 0), "share"), 0.25);
	ck_assert_double_eq(value(row(TOP_USERS, 0), "clients"), 2);
	ck_assert_double_eq(value(row(TOP_USERS, 0), "workers"), 3);
	ck_assert_double_eq(value(row(TOP_USERS, 0), "running"), 2);
	ck_assert_double_eq(value(row(TOP_USERS, 0), "queued"), 3);
	ck_assert_double_eq(value(row(TOP_USERS, 0), "weight"), (uint32_t)(100 * 4000000001));
	ck_assert_double_eq(value(row(TOP_USERS, 0), "mean_ns"), S / 20);
	ck_assert_double_eq(value(row(TOP_USERS, 1), "jobs_rate"), 5);
	ck_assert_double_eq(value(frame.head, "running"), 2);
	ck_assert_double_eq(value(frame.head, "queued"), 3);
}
END_TEST

/* Client 2 uses half of the pool and leaves. Another process gets slot 3, uses a quarter of the
 * pool and leaves, too. */
START_TEST(usage_of_an_ended_connection_belongs_to_its_user)
{
	atomic_store(&board->clients[2].cpu_ns, S);
	look(10 * S);
	atomic_store(&board->clients[2].cpu_ns, S + N_WORKERS * S / 2);
	atomic_store(&board->clients[2].left_ns, 10 * S + S / 2);
	client(3, 103, 4000000001, "four");
	atomic_store(&board->clients[3].cpu_ns, N_WORKERS * S / 4);
	atomic_store(&board->clients[3].left_ns, 10 * S + S / 2);
	look(11 * S);
	ck_assert_double_eq(value(row(TOP_USERS, 0), "share"), 0.75);
	ck_assert_double_eq(value(row(TOP_USERS, 0), "clients"), 1);
	ck_assert_uint_eq(json_array_size(frame.rows[TOP_CLIENTS]), 2);
	look(12 * S);
	ck_assert_double_eq(value(row(TOP_USERS, 0), "share"), 0);
	/* A user without connections is shown as long as the interval has usage of that user. */
	atomic_store(&board->clients[1].left_ns, 12 * S + S / 2);
	atomic_store(&board->clients[1].cpu_ns, S);
	look(13 * S);
	ck_assert_uint_eq(json_array_size(frame.rows[TOP_USERS]), 2);
	look(14 * S);
	ck_assert_uint_eq(json_array_size(frame.rows[TOP_USERS]), 1);
}
END_TEST

/* One worker has 98 waits of a microsecond and two of a second, all since the first sample. */
START_TEST(wait_times_are_those_of_jobs_begun_between_samples)
{
	struct board_times *times = board->times[5];

	atomic_store(&board->tenants[5].uid, 4000000002);
	atomic_store(&board->tenants[5].since_ns, S);
	atomic_store(&times[1].counts[TIMES_WAIT][histogram_bucket(60 * S)], 1000);
	look(10 * S);
	ck_assert_ptr_null(json_object_get(row(TOP_USERS, 1), "wait_p50_ns"));
	atomic_store(&times[3].counts[TIMES_WAIT][histogram_bucket(NSEC_PER_USEC)], 98);
	atomic_store(&times[3].counts[TIMES_WAIT][histogram_bucket(S)], 2);
	atomic_store(&times[3].max_ns[TIMES_WAIT], S);
	atomic_store(&times[3].counts[TIMES_RUN][histogram_bucket(60 * S)], 100);
	look(11 * S);
	ck_assert_str_eq(string(row(TOP_USERS, 1), "user"), "4000000002");
	ck_assert_double_lt(value(row(TOP_USERS, 1), "wait_p50_ns"), 2. * NSEC_PER_USEC);
	ck_assert_double_ge(value(row(TOP_USERS, 1), "wait_p99_ns"), S / 2.);
	ck_assert_double_lt(value(row(TOP_USERS, 1), "wait_p99_ns"), 2. * S);
	ck_assert_ptr_null(json_object_get(row(TOP_USERS, 0), "wait_p50_ns"));
	/* No job has begun. */
	look(12 * S);
	ck_assert_ptr_null(json_object_get(row(TOP_USERS, 1), "wait_p50_ns"));
}
END_TEST

/* The board's sum is as old as the last settlement. */
START_TEST(uncharged_time_of_a_running_job_counts_for_its_client)
{
	uint64_t at = clock_ns();

	run(0, 1, 3, 0, at - 10 * S);
	atomic_store(&board->settled_ns, at - 4 * S);
	ck_assert_uint_eq(board_client_cpu(board, 1, at), 4 * S);
	atomic_store(&board->settled_ns, at - 20 * S);
	ck_assert_uint_eq(board_client_cpu(board, 1, at), 10 * S);
	atomic_store(&board->clients[1].cpu_ns, S);
	ck_assert_uint_eq(board_client_cpu(board, 1, at), 11 * S);
	ck_assert_uint_eq(board_client_cpu(board, 0, at), 0);
	atomic_store(&board->clients[1].left_ns, at);
	ck_assert_uint_eq(board_client_cpu(board, 1, at), S);
}
END_TEST

START_TEST(tasks_are_those_run_by_this_pool)
{
	look(10 * S);
	ck_assert_uint_eq(json_array_size(frame.rows[TOP_TASKS]), 0);
	run(1, 0, 2, 1, clock_ns());
	look(11 * S);
	ck_assert_uint_eq(json_array_size(frame.rows[TOP_TASKS]), 1);
	ck_assert_str_eq(string(row(TOP_TASKS, 0), "task"), "sort:i64");
	ck_assert_double_eq(value(row(TOP_TASKS, 0), "running"), 1);
	ck_assert(json_is_null(json_object_get(row(TOP_TASKS, 0), "mean_ns")));
	atomic_store(&board->loads[1][1].jobs, 4);
	atomic_store(&board->loads[1][1].run_ns, 4000);
	atomic_store(&board->loads[3][1].jobs, 6);
	atomic_store(&board->loads[3][1].run_ns, 26000);
	look(12 * S);
	ck_assert_double_eq(value(row(TOP_TASKS, 0), "jobs_rate"), 10);
	ck_assert_double_eq(value(row(TOP_TASKS, 0), "mean_ns"), 3000);
	/* The mean of all jobs so far, as no job has ended since. */
	look(13 * S);
	ck_assert_double_eq(value(row(TOP_TASKS, 0), "jobs_rate"), 0);
	ck_assert_double_eq(value(row(TOP_TASKS, 0), "mean_ns"), 3000);
}
END_TEST

/* Two records share an index: the board has the job that began last. */
START_TEST(task_of_a_job_is_its_own_or_unknown)
{
	uint32_t other = BOARD_STARTED + 3;

	board_show_task(board, 3, 1);
	ck_assert_uint_eq(board_job_task(board, 3), 1);
	ck_assert_uint_eq(board_job_task(board, other), UINT32_MAX);
	board_show_task(board, other, 0);
	ck_assert_uint_eq(board_job_task(board, other), 0);
	ck_assert_uint_eq(board_job_task(board, 3), UINT32_MAX);
	board_show_task(board, other, UINT32_MAX);
	ck_assert_uint_eq(board_job_task(board, other), UINT32_MAX);
	ck_assert_uint_eq(board_job_task(board, UINT32_MAX), UINT32_MAX);
}
END_TEST

/* ------------------------------------------------------------------------ order, filter, keys */

/* Returns the pids of the shown clients, in order. */
static const char *pids(void)
{
	static char text[128];
	json_t *rows = top_rows(&top, &frame, TOP_CLIENTS), *r;
	size_t i;

	*text = '\0';
	json_array_foreach(rows, i, r)
	{
		size_t n = strlen(text);

		(void)snprintf(text + n, sizeof(text) - n, "%s%.0f", i ? " " : "", value(r, "pid"));
	}
	json_decref(rows);
	return text;
}

/* Presses keys until the clients are sorted by this column. */
static void sort_by(const char *title)
{
	int column = top_find_column(TOP_CLIENTS, title);

	ck_assert_int_ge(column, 0);
	while (top.order[TOP_CLIENTS].column != (uint32_t)column)
		ck_assert(top_key(&top, TOP_KEY_RIGHT));
}

START_TEST(rows_are_sorted_by_the_chosen_column)
{
	look(10 * S);
	ended(1, 3, 0, 3 * S);
	ended(2, 9, 0, S);
	look(11 * S);
	keys("5");
	ck_assert_int_eq(top.view, TOP_VIEW_CLIENTS);
	ck_assert_str_eq(pids(), "101 102 100");
	keys("r");
	ck_assert_str_eq(pids(), "100 102 101");
	sort_by("jobs/s");
	ck_assert_str_eq(pids(), "102 101 100");
	sort_by("PID");
	ck_assert_str_eq(pids(), "100 101 102");
	sort_by("COMMAND");
	ck_assert_str_eq(pids(), "100 102 101");
	/* Nothing to compare: the order is unchanged. */
	sort_by("QUEUED");
	ck_assert_str_eq(pids(), "100 101 102");
	ck_assert(top_key(&top, TOP_KEY_LEFT));
	ck_assert_str_eq(top_tables[TOP_CLIENTS].columns[top.order[TOP_CLIENTS].column].data.title,
			 "RUN");
	/* The order of other tables has not changed, and each view is found by its name. */
	ck_assert_uint_eq(top.order[TOP_WORKERS].column, 0);
	ck_assert_int_eq(top_find_view("users"), TOP_VIEW_USERS);
	ck_assert_int_eq(top_find_view("nothing"), -1);
}
END_TEST

START_TEST(filter_keeps_the_rows_that_show_its_text)
{
	look(10 * S);
	look(11 * S);
	keys("5/THRE");
	ck_assert(top.editing);
	ck_assert_str_eq(pids(), "102");
	ck_assert(top_key(&top, TOP_KEY_ERASE));
	ck_assert_str_eq(top.filter, "THR");
	/* Keys are text during that. */
	keys("q");
	ck_assert(!top.quit);
	ck_assert_str_eq(pids(), "");
	ck_assert(top_key(&top, TOP_KEY_ESCAPE));
	ck_assert(!top.editing);
	ck_assert_str_eq(pids(), "100 101 102");
	keys("/4000000001");
	ck_assert(top_key(&top, TOP_KEY_ENTER));
	ck_assert_str_eq(pids(), "100 102");
	/* A character of two bytes is deleted as one; the filter has a maximum length. */
	keys("/");
	for (uint32_t i = 0; i < 100; i++)
		(void)top_key(&top, 'x');
	ck_assert_uint_eq(strlen(top.filter), sizeof(top.filter) - 1);
	*top.filter = '\0';
	ck_assert(top_key(&top, 0xc3));
	ck_assert(top_key(&top, 0xa4));
	ck_assert(top_key(&top, TOP_KEY_ERASE));
	ck_assert_str_eq(top.filter, "");
	ck_assert(!top_key(&top, TOP_KEY_UP));
}
END_TEST

START_TEST(keys_change_view_interval_and_pause)
{
	ck_assert(!top_key(&top, TOP_KEY_NONE));
	ck_assert_int_eq(top.view, TOP_VIEW_ALL);
	keys("\t");
	ck_assert_int_eq(top.view, TOP_VIEW_WORKERS);
	ck_assert(top_key(&top, TOP_KEY_BACK_TAB));
	ck_assert(top_key(&top, TOP_KEY_BACK_TAB));
	ck_assert_int_eq(top.view, TOP_VIEW_STEALS);
	keys("p");
	ck_assert(top.paused);
	keys(" ");
	ck_assert(!top.paused);
	keys("+");
	ck_assert_uint_eq(top.interval_ns, 2 * S);
	keys("--");
	ck_assert_uint_eq(top.interval_ns, S / 2);
	for (uint32_t i = 0; i < 20; i++)
		keys("-");
	ck_assert_uint_eq(top.interval_ns, TOP_INTERVAL_MIN);
	for (uint32_t i = 0; i < 20; i++)
		keys("+");
	ck_assert_uint_eq(top.interval_ns, TOP_INTERVAL_MAX);
	keys("?");
	ck_assert(top.help);
	keys("z");
	ck_assert(!top.help);
	ck_assert_ptr_nonnull(strstr(top.message, "no function"));
	ck_assert(top_key(&top, TOP_KEY_QUIT));
	ck_assert(top.quit);
}
END_TEST

CHECK_MAIN("top")
