/* SPDX-License-Identifier: MIT */
/* options: defaults, setting by name, changes while forkd runs, weights of users. */
#include "common/options.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/log.h"
#include "tests/support/options.h"

#define MS UINT64_C(1000000)

static void note_setting(void *context, const char *name, const char *value)
{
	(void)fprintf(context, "%s=%s\n", name, value);
}

START_TEST(defaults_are_those_of_the_table)
{
	ck_assert_str_eq(o.socket, FK_SOCKET_PATH);
	ck_assert_str_eq(o.module_dir, FK_MODULE_DIR);
	ck_assert_uint_eq(o.socket_mode, 0666);
	ck_assert_uint_eq(o.workers, 0);
	ck_assert_ptr_null(o.cpus);
	ck_assert_uint_eq(o.scheduler, OPTIONS_SCHEDULER_LAZY);
	ck_assert_uint_eq(o.sandbox, OPTIONS_SANDBOX_NORMAL);
	ck_assert_uint_eq(o.connection_weight, 100);
	ck_assert_ptr_null(o.user_weights);
	ck_assert_uint_eq(o.clients_max, 256);
	ck_assert_uint_eq(o.jobs_max, 1024);
	ck_assert_uint_eq(o.heap_max, 0); /* auto */
	ck_assert_uint_eq(o.memory_max, 0);
	ck_assert_uint_eq(o.shared_memory_max, 0);
	ck_assert_ptr_null(o.allow);
	ck_assert_ptr_null(o.deny);
	ck_assert_ptr_null(o.allow_tasks);
	ck_assert_ptr_null(o.user_clients_max);
	ck_assert_ptr_null(o.user_jobs_max);
	ck_assert_ptr_null(o.user_shared_memory_max);
	ck_assert_uint_eq(o.arena_max, 0);
	ck_assert_uint_eq(o.stack_max, UINT64_C(2) << 30);
	ck_assert_uint_eq(o.worker_stack, UINT64_C(2) << 20);
	ck_assert_uint_eq(o.module_memory_max, 0);
	ck_assert_uint_eq(o.quarantine_task_crashes, 3);
	ck_assert_uint_eq(o.quarantine_user_crashes, 10);
	ck_assert_uint_eq(o.quarantine_window, 60000 * MS);
	ck_assert_uint_eq(o.quarantine_time, 600000 * MS);
	ck_assert_uint_eq(o.hang_timeout, 10000 * MS);
	ck_assert_uint_eq(o.stop_timeout, 5000 * MS);
	ck_assert_uint_eq(o.spin, 50000);
	ck_assert_uint_eq(o.blocking_max, 64);
	ck_assert_int_eq(options_log_level(&o), LOG_LEVEL_NOTICE);
	ck_assert_int_eq(options_check(&o, &error), 0);
}
END_TEST

static uint32_t weight(uint32_t uid)
{
	const struct options_peer peer = { .uid = uid };

	return options_weight(&o, &peer);
}

START_TEST(weights_are_looked_up_by_user)
{
	ck_assert_uint_eq(weight(1000), 100);
	ck_assert_int_eq(set("user-weights", "1000:200,root:50,4294967294:10000"), 0);
	ck_assert_uint_eq(weight(0), 50);
	ck_assert_uint_eq(weight(1000), 200);
	ck_assert_uint_eq(weight(UINT32_MAX - 1), 10000);
	ck_assert_uint_eq(weight(1001), 100);
	ck_assert_int_eq(set("user-weights", "1001:1"), 0);
	ck_assert_uint_eq(weight(1000), 200);
	ck_assert_uint_eq(weight(1001), 1);
	FAILS(set("user-weights", "1002:0"), -ERANGE,
	      "weights: bad value \"1002:0\": must be a list such as 1000:200,@staff:150");
	ck_assert_int_eq(set("user-weights", ""), 0);
	ck_assert_uint_eq(weight(1000), 100);
}
END_TEST

START_TEST(error_is_one_line_for_any_value)
{
	ck_assert_int_eq(set("workers", "1\n<3>forged\033[2J"), -EINVAL);
	ck_assert_ptr_null(strpbrk(error.text, "\n\033"));
}
END_TEST

START_TEST(unknown_name_suggests_the_nearest)
{
	ck_assert_int_eq(set("wrokers", "1"), -ENOENT);
	ck_assert_str_eq(error.text, "here: unknown option \"wrokers\", did you mean \"workers\"?");
	FAILS(set("jobs_max", "1"), -ENOENT, "\"jobs-max\"");
	ck_assert_int_eq(set("speed", "1"), -ENOENT);
	ck_assert_str_eq(error.text,
			 "here: unknown option \"speed\": forkd.conf(5) lists the options");
	ck_assert_int_eq(set("", "1"), -ENOENT);
	ck_assert_int_eq(set("config", "/x"), -ENOENT);
}
END_TEST

START_TEST(hang_timeout_has_a_gap_above_0)
{
	ck_assert_int_eq(set("hang-timeout", "100ms"), 0);
	FAILS(set("hang-timeout", "99999us"), -ERANGE,
	      "here: hang-timeout: bad value \"99999us\": must be 0");
	ck_assert_uint_eq(o.hang_timeout, 100 * MS);
	ck_assert_int_eq(set("hang-timeout", "0"), 0);
}
END_TEST

START_TEST(only_some_options_change_at_run_time)
{
	_cleanup_free_ char *text = NULL;
	size_t size;
	FILE *f;

	ck_assert_int_eq(options_change(&o, "scheduler", "busy", &error), 0);
	ck_assert_uint_eq(o.scheduler, OPTIONS_SCHEDULER_BUSY);
	ck_assert_int_eq(options_change(&o, "spin", "7us", &error), 0);
	ck_assert_uint_eq(o.spin, 7000);
	FAILS(options_change(&o, "spin", "2s", &error), -ERANGE, "set: spin");
	FAILS(options_change(&o, "workers", "3", &error), -EPERM, "workers needs a restart");
	ck_assert_error("scheduler, spin");
	FAILS(options_change(&o, "spim", "3", &error), -ENOENT, "did you mean \"spin\"?");
	ck_assert_uint_eq(o.workers, 0);
	f = open_memstream(&text, &size);
	ck_assert_ptr_nonnull(f);
	ck_assert_int_eq(options_each_setting(&o, note_setting, f), 0);
	(void)fclose(f);
	/* Options that only a reload can change are included if they are one word. */
	ck_assert_str_eq(
		text,
		"scheduler=busy\nspin=7us\nconnection-weight=100\njob-cpu-max=0\nstack-max=2G\n"
		"hang-timeout=10s\nquarantine-task-crashes=3\nquarantine-user-crashes=10\n"
		"quarantine-window=1min\nquarantine-time=10min\nlog-level=notice\n"
		"stop-timeout=5s\n");
}
END_TEST

CHECK_MAIN("options")
