/* SPDX-License-Identifier: MIT */
/* forkctl.c - forkctl: the common options and the table of commands */
#include "client/forkctl/forkctl.h"

#include <getopt.h>
#include <stdio.h>
#include <string.h>

#include "client/forkctl/common.h"
#include "client/forkctl/output.h"
#include "client/forkctl/options.h"
#include "common/util.h"

struct command {
	const char *name;
	const char *arguments;
	const char *help;
	int (*run)(const char *socket, int argc, char *argv[]);
	const struct forkctl_option *options; /* or NULL */
};

/* What options.def marks RUNTIME, by its field: tests/cli/check-manuals compares the names. */
static const char set_help[] = "change a setting while forkd runs:"
#define OPTION(...)
#define FLAG(...)
#define RUNTIME(field) " " #field
#include "common/options.def"
#undef OPTION
#undef FLAG
	;

static const struct command commands[] = {
	{ "status", "[--json]", "the daemon, its pool, its workers and who is connected",
	  forkctl_status, forkctl_look_options },
	{ "counters", "[OPTION...]", "counters, per worker and client", forkctl_counters,
	  forkctl_counters_options },
	{ "clients", "[--json]", "who is connected, and what each has used and may use",
	  forkctl_clients, forkctl_look_options },
	{ "jobs", "[--json]", "jobs that forkd has, and for how long", forkctl_jobs,
	  forkctl_look_options },
	{ "cancel", "CLIENT[.JOB]...", "Cancel jobs, or all jobs of clients", forkctl_cancel_jobs,
	  NULL },
	{ "tasks", "[--json]", "what can be called: names, arguments -> results, help",
	  forkctl_tasks, forkctl_look_options },
	{ "topo", "[--json]", "the machine as hwloc sees it, and where the workers are",
	  forkctl_topo, forkctl_look_options },
	{ "crashes", "[--json]",
	  "how pools have died, which job is blamed, and what it cost the others", forkctl_crashes,
	  forkctl_look_options },
	{ "quarantine", "[--json | lift USER [MODULE:TASK]]",
	  "tasks that are refused to a user because they crash; lift: no longer",
	  forkctl_quarantine, forkctl_look_options },
	{ "call", "[OPTION...] MODULE:TASK [ARG...]",
	  "run a task and print its results; @FILE or @:SIZE for a buffer", forkctl_call,
	  forkctl_call_options },
	{ "config", "[--json]", "every option, as the running forkd uses it", forkctl_config,
	  forkctl_look_options },
	{ "get", "NAME", "Print the value of an option of forkd", forkctl_get, NULL },
	{ "top", "[OPTION...]",
	  "what goes on, on the whole screen: workers, tenants, tasks, steals", forkctl_top,
	  forkctl_top_options },
	{ "set", "NAME VALUE", set_help, forkctl_set, NULL },
	{ "modules", "[--json | check FILE.so... | [OPTION...] load FILE.so | unload NAME]",
	  "what is loaded: modules, their tasks, build-ids and files; or other ones, while forkd "
	  "runs",
	  forkctl_modules, forkctl_modules_options },
	{ "reload", "[OPTION...]", "read forkd.conf and the modules again; connections stay",
	  forkctl_reload, forkctl_reload_options },
	{ "check", "[OPTION...] MODULE | MODULE:TASK [ARG...] | FILE.so... | FILE.c TASK [ARG...]",
	  "run tasks serially, with every fork stolen and at random, and compare", forkctl_check,
	  forkctl_check_options },
	{ "profile", "[OPTION...] MODULE:TASK [ARG...]",
	  "work, span and parallelism of a job, and the speedups they bound", forkctl_profile,
	  forkctl_profile_options },
	{ "trace", "[OPTION...] [-- COMMAND [ARG...]]",
	  "a timeline of what workers do, for Perfetto and chrome://tracing", forkctl_trace,
	  forkctl_trace_options },
	{ "session", "[FORKD-OPTION...] -- COMMAND [ARG...]",
	  "run a command with a forkd of its own; `forkd --help` has its options", forkctl_session,
	  NULL },
};

static void print_help(void)
{
	printf("Usage: forkctl [--socket PATH] COMMAND [ARG...]\n"
	       "To see and use forkd, the machine's one pool of workers.\n\n"
	       "Commands (`forkctl COMMAND --help` has the options of one):\n");
	for (size_t i = 0; i < ARRAY_SIZE(commands); i++)
		printf("  %s%s%s\n      %s\n", commands[i].name, *commands[i].arguments ? " " : "",
		       commands[i].arguments, commands[i].help);
	printf("\nOptions:\n"
	       "  --socket PATH   where forkd listens; else $FORKD_SOCKET, else %s\n"
	       "  --help          print this\n"
	       "  --version       print the version\n\n"
	       "Exit status: 0 fine, 1 a job failed, a check found something or a request was\n"
	       "refused, 2 wrong usage, 3 no connection to forkd, 128 + n ended by signal n.\n",
	       FK_SOCKET_PATH);
}

static void print_command_help(const struct command *command)
{
	printf("Usage: forkctl [--socket PATH] %s%s%s\n%s\n", command->name,
	       *command->arguments ? " " : "", command->arguments, command->help);
	if (command->options) {
		printf("\nOptions:\n");
		forkctl_print_options(command->options, stdout);
	}
}

/* Words after a -- belong to another program. */
static int wants_help(int argc, char *argv[])
{
	for (int i = 1; i < argc && !streq(argv[i], "--"); i++)
		if (streq(argv[i], "--help") || streq(argv[i], "-h"))
			return 1;
	return 0;
}

/* Returns a command's exit code, or FORKCTL_FAILED if its output could not be written. */
static int flush(int status)
{
	if (fflush(stdout) != 0 || ferror(stdout))
		return forkctl_fail(FORKCTL_FAILED, "cannot write to standard output");
	return status;
}

static int run_command(const char *socket, int argc, char *argv[])
{
	for (size_t i = 0; i < ARRAY_SIZE(commands); i++) {
		int status = FORKCTL_OK;

		if (!streq(commands[i].name, argv[0]))
			continue;
		if (wants_help(argc, argv))
			print_command_help(&commands[i]);
		else
			status = commands[i].run(socket, argc, argv);
		return flush(status);
	}
	return forkctl_fail(FORKCTL_USAGE, "there is no command %s: `forkctl --help` lists them",
			    argv[0]);
}

/* What getopt_long() has not understood: a letter, of which it may not be done with the word yet,
 * or else this word. */
static int refuse_option(const char *word)
{
	char letter[] = { '-', optopt < ' ' || optopt == 0x7f ? '?' : (char)optopt, '\0' };

	if (optopt == 'h' || optopt == 'V')
		return forkctl_fail(FORKCTL_USAGE, "%s: it takes no value", word);
	return forkctl_fail(FORKCTL_USAGE, "there is no option %s: `forkctl --help` lists them",
			    optopt ? letter : word);
}

int main(int argc, char *argv[])
{
	static const struct option options[] = {
		{ "socket", required_argument, NULL, 's' },
		{ "help", no_argument, NULL, 'h' },
		{ "version", no_argument, NULL, 'V' },
		{ NULL, 0, NULL, 0 },
	};
	const char *socket = NULL;
	int c;

	out_init();
	opterr = 0;
	/* The + ends it at the command, whose own options follow. */
	while ((c = getopt_long(argc, argv, "+:hV", options, NULL)) != -1) {
		switch (c) {
		case 's':
			socket = optarg;
			break;
		case 'h':
			print_help();
			return flush(FORKCTL_OK);
		case 'V':
			printf("forkctl %s\n", PACKAGE_VERSION);
			return flush(FORKCTL_OK);
		case ':':
			return forkctl_fail(FORKCTL_USAGE, "%s lacks its value", argv[optind - 1]);
		default:
			return refuse_option(argv[optind - 1]);
		}
	}
	if (optind == argc)
		return forkctl_fail(FORKCTL_USAGE, "which command? `forkctl --help` lists them");
	return run_command(socket, argc - optind, argv + optind);
}
