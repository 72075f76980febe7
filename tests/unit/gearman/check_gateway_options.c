/* SPDX-License-Identifier: MIT */
/* check_gateway_options.c - the command line of forkd-gearman */
#include "contrib/gearman/gateway_options.h"

#include <errno.h>
#include <string.h>

#include "client/forkctl/common.h"
#include "common/util.h"
#include "contrib/gearman/gateway_exporter.h"
#include "tests/support/check_unit.h"

static struct gateway_options options;
static enum gateway_action action;

/* Parses options that end with NULL. */
static int parse(const char *const *words)
{
	char *argv[16] = { (char *)(uintptr_t) "forkd-gearman" };
	int argc = 1;

	forkctl_set_program("forkd-gearman");
	while (*words)
		argv[argc++] = (char *)(uintptr_t)*words++;
	return gateway_options_parse(argc, argv, &options, &action);
}
#define PARSE(...) parse((const char *const[]){ __VA_ARGS__ __VA_OPT__(, ) NULL })

START_TEST(defaults)
{
	ck_assert_int_eq(parse((const char *const[]){ NULL }), 0);
	ck_assert_int_eq(action, GATEWAY_RUN);
	ck_assert_uint_eq(options.n_servers, 1);
	ck_assert_str_eq(options.servers[0].host, "localhost");
	ck_assert_uint_eq(options.servers[0].port, 4730);
	ck_assert_uint_eq(options.jobs, 0);
	ck_assert_uint_eq(options.max_size, UINT64_C(64) << 20);
	ck_assert_uint_eq(options.journal_keep_ns, UINT64_C(7) * 24 * 3600 * NSEC_PER_SEC);
	ck_assert_uint_eq(options.server_timeout_ns, 10 * NSEC_PER_SEC);
	ck_assert_uint_eq(options.stop_timeout_ns, 30 * NSEC_PER_SEC);
	ck_assert_ptr_null(options.socket);
	ck_assert_ptr_null(options.journal);
	ck_assert_ptr_null(options.metrics);
	ck_assert_int_eq(gateway_options_idempotent(&options, "fib:fib"), 0);
}
END_TEST

START_TEST(values_are_stored)
{
	ck_assert_int_eq(PARSE("--jobs=3", "--max-size=1G", "--journal=a", "--journal=b",
			       "--journal-keep=2h", "--server-timeout=500ms", "--stop-timeout=0s",
			       "--socket=s", "--metrics=9000"),
			 0);
	ck_assert_uint_eq(options.jobs, 3);
	ck_assert_uint_eq(options.max_size, UINT64_C(1) << 30);
	ck_assert_str_eq(options.journal, "b");
	ck_assert_uint_eq(options.journal_keep_ns, 7200 * NSEC_PER_SEC);
	ck_assert_uint_eq(options.server_timeout_ns, 500 * NSEC_PER_MSEC);
	ck_assert_uint_eq(options.stop_timeout_ns, 0);
	ck_assert_str_eq(options.socket, "s");
	ck_assert_str_eq(options.metrics, "9000");
}
END_TEST

START_TEST(servers_are_hosts_with_or_without_a_port)
{
	static const struct {
		const char *text;
		const char *host;
		uint16_t port;
	} cases[] = {
		{ "a", "a", 4730 },
		{ "a:1", "a", 1 },
		{ "10.0.0.1:65535", "10.0.0.1", 65535 },
		{ "[::1]:4731", "::1", 4731 },
		{ "[::1]", "::1", 4730 },
		{ "::1", "::1", 4730 },
		{ "fe80::1%eth0", "fe80::1%eth0", 4730 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		ck_assert_int_eq(PARSE("--server", cases[i].text), 0);
		ck_assert_uint_eq(options.n_servers, 1);
		ck_assert_str_eq(options.servers[0].host, cases[i].host);
		ck_assert_uint_eq(options.servers[0].port, cases[i].port);
	}
	ck_assert_int_eq(PARSE("--server=a,b:2", "--server", "[c]:3"), 0);
	ck_assert_uint_eq(options.n_servers, 3);
	ck_assert_str_eq(options.servers[1].host, "b");
	ck_assert_uint_eq(options.servers[1].port, 2);
	ck_assert_str_eq(options.servers[2].host, "c");
	ck_assert_uint_eq(options.servers[2].port, 3);
}
END_TEST

START_TEST(malformed_options_are_wrong_usage)
{
	static const char *const cases[] = {
		"--server=",
		"--server=a,",
		"--server=,a",
		"--server=:1",
		"--server=a:0",
		"--server=a:65536",
		"--server=a:x",
		"--server=a:1x",
		"--server=[a",
		"--server=[a]1",
		"--server=[]:1",
		"--server=[a]:",
		"--jobs=0",
		"--jobs=1025",
		"--jobs=x",
		"--max-size=0",
		"--max-size=4G",
		"--max-size=x",
		"--journal-keep=0",
		"--server-timeout=0",
		"--stop-timeout=x",
		"--metrics=",
		"--metrics=0",
		"--metrics=65536",
		"--metrics=9000x",
		"--metrics=localhost",
		"--metrics=localhost:",
		"--metrics=localhost:x",
		"--metrics=:9000",
		"--metrics=::1",
		"--metrics=[::1]",
		"--none",
		"word",
		"--server=a,b,c,d,e,f,g,h,i",
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		ck_assert_msg(PARSE(cases[i]) == FORKCTL_USAGE, "%s", cases[i]);
}
END_TEST

START_TEST(metrics_are_at_a_port_an_address_or_a_path)
{
	static const char *const cases[] = { "9000", "a:1", "[::1]:65535", "./a", "/a:b" };
	char path[EXPORTER_PATH + 1] = { 0 };

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		ck_assert_msg(PARSE("--metrics", cases[i]) == 0, "%s", cases[i]);
		ck_assert_str_eq(options.metrics, cases[i]);
	}
	memset(path, '/', sizeof(path) - 1);
	ck_assert_int_eq(PARSE("--metrics", path), FORKCTL_USAGE);
	path[sizeof(path) - 2] = '\0';
	ck_assert_int_eq(PARSE("--metrics", path), 0);
}
END_TEST

START_TEST(host_that_is_too_long_is_refused)
{
	char text[SERVER_NAME_HOST + 2];
	struct server_name server;

	memset(text, 'a', sizeof(text));
	ck_assert_int_eq(server_name_parse(text, SERVER_NAME_HOST, 1, &server), -EINVAL);
	ck_assert_int_eq(server_name_parse(text, SERVER_NAME_HOST - 1, 1, &server), 0);
	ck_assert_uint_eq(strlen(server.host), SERVER_NAME_HOST - 1);
}
END_TEST

START_TEST(patterns_select_idempotent_tasks)
{
	ck_assert_int_eq(PARSE("--idempotent=bots:*", "--idempotent", "a:b"), 0);
	ck_assert_int_eq(gateway_options_idempotent(&options, "bots:fib"), 1);
	ck_assert_int_eq(gateway_options_idempotent(&options, "a:b"), 1);
	ck_assert_int_eq(gateway_options_idempotent(&options, "a:bc"), 0);
	ck_assert_int_eq(gateway_options_idempotent(&options, "robots:fib"), 0);
}
END_TEST

START_TEST(help_and_version_precede_other_options)
{
	ck_assert_int_eq(PARSE("--help"), 0);
	ck_assert_int_eq(action, GATEWAY_HELP);
	ck_assert_int_eq(PARSE("-V"), 0);
	ck_assert_int_eq(action, GATEWAY_VERSION);
}
END_TEST

CHECK_MAIN("gateway_options")
