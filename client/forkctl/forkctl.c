/* SPDX-License-Identifier: MIT */
/* forkctl.c - forkctl: the common options and the table of commands */
#include "client/forkctl/forkctl.h"

#include <getopt.h>
#include <stdio.h>
#include <string.h>

#include "client/forkctl/common.h"
#include "client/forkctl/listing.h"
#include "client/forkctl/output.h"
#include "client/forkctl/options.h"
#include "common/util.h"

struct command {
	const char *name;
	const char *arguments;
	const char *help;
	int (*run)(const char *socket, int argc, char *argv[]);
	const struct forkctl_option *options; /* or NULL */
	const char *details;		      /* for --help of the command, or NULL */
};

/* The options that options.def marks RUNTIME: tests/cli/check-manuals compares the names. */
static const char set_details[] = "Changeable options:"
#define OPTION(...)
#define FLAG(...)
#define RUNTIME(field) " " #field
#include "common/options.def"
#undef OPTION
#undef FLAG
	;

/* A row without `run` is the heading of a group. */
static const struct command commands[] = {
	{ .help = "Commands that show state" },
	{ "status", "[OPTION...]", "Show the state of forkd, its pool, workers and clients",
	  forkctl_status, forkctl_table_options, NULL },
	{ "top", "[OPTION...]", "Show workers, users, clients and tasks continuously", forkctl_top,
	  forkctl_top_options, NULL },
	{ "clients", "[OPTION...] [COMMAND...]", "List clients and the resources that they use",
	  forkctl_clients, forkctl_clients_options,
	  "COMMAND is a pattern for the name of the client's program: 'make*'." },
	{ "jobs", "[OPTION...] [PATTERN...]", "List queued and running jobs", forkctl_jobs,
	  forkctl_jobs_options,
	  "PATTERN is for the names of tasks: 'sort:*', or sort for all tasks of the module." },
	{ "tasks", "[OPTION...] [PATTERN...]", "List callable tasks with their signatures and help",
	  forkctl_tasks, forkctl_tasks_options,
	  "PATTERN is for the names of tasks: 'sort:*', or sort for all tasks of the module." },
	{ "counters", "[OPTION...]", "Print counters of each worker, and job times of each user",
	  forkctl_counters, forkctl_counters_options, NULL },
	{ "topo", "[OPTION...]", "Show the machine's topology and the CPU of each worker",
	  forkctl_topo, forkctl_json_options, NULL },
	{ "crashes", "[OPTION...]", "List crashes of the pool and the jobs that caused them",
	  forkctl_crashes, forkctl_table_options, NULL },

	{ .help = "Commands for jobs" },
	{ "call", "[OPTION...] MODULE:TASK [ARG...]", "Run a task and print its results",
	  forkctl_call, forkctl_call_options,
	  "ARG is a number or a text; for a buffer @FILE, @- (standard input), @:SIZE (zeros), or "
	  "@: (an\noutput of the size that the module computes). `forkctl tasks` lists tasks." },
	{ "cancel", "CLIENT[.JOB]...", "Cancel jobs, or all jobs of a client", forkctl_cancel_jobs,
	  NULL,
	  "CLIENT.JOB is the name of a job in the list of `forkctl jobs`, such as 3.65536; CLIENT "
	  "is\n"
	  "a number in the list of `forkctl clients`." },

	{ .help = "Commands for administrators" },
	{ "config", "[OPTION...]", "Print all options of the running forkd", forkctl_config,
	  forkctl_json_options, NULL },
	{ "get", "NAME", "Print the value of an option of the running forkd", forkctl_get, NULL,
	  "`forkctl config` lists all options." },
	{ "set", "NAME VALUE", "Change an option of the running forkd", forkctl_set, NULL,
	  set_details },
	{ "reload", "[OPTION...]", "Reload forkd.conf and the modules", forkctl_reload,
	  forkctl_reload_options, NULL },
	{ "modules",
	  "[OPTION...] | check FILE.so... | [OPTION...] load FILE.so | [OPTION...] unload NAME",
	  "List, check, load or unload modules", forkctl_modules, forkctl_modules_options, NULL },
	{ "quarantine", "[OPTION...] | lift USER [MODULE:TASK]",
	  "List tasks that are refused to users after crashes, or allow them again",
	  forkctl_quarantine, forkctl_table_options, NULL },

	{ .help = "Commands for authors of modules" },
	{ "check", "[OPTION...] MODULE | MODULE:TASK [ARG...] | FILE.so... | FILE.c TASK [ARG...]",
	  "Check that results of tasks do not depend on scheduling", forkctl_check,
	  forkctl_check_options, NULL },
	{ "profile", "[OPTION...] MODULE:TASK [ARG...] | FILE.so TASK [ARG...]",
	  "Measure work, span and parallelism of a job", forkctl_profile, forkctl_profile_options,
	  NULL },
	{ "trace", "[OPTION...] [-- COMMAND [ARG...]]",
	  "Record a timeline of the workers for Perfetto or chrome://tracing", forkctl_trace,
	  forkctl_trace_options, NULL },
	{ "session", "[FORKD-OPTION...] -- COMMAND [ARG...]", "Run a command with a private forkd",
	  forkctl_session, NULL, "`forkd --help` lists the options of forkd." },
};

static void print_help(void)
{
	printf("Usage: forkctl [--socket PATH] COMMAND [OPTION...] [ARGUMENT...]\n"
	       "Show and control forkd, the pool of workers of this machine.\n");
	for (size_t i = 0; i < ARRAY_SIZE(commands); i++) {
		if (commands[i].run)
			printf("  %-10s  %s\n", commands[i].name, commands[i].help);
		else
			printf("\n%s:\n", commands[i].help);
	}
	printf("\nOptions:\n"
	       "      --socket PATH  Connect to this socket (default: $FORKD_SOCKET, or\n"
	       "                     %s, or if there is none\n"
	       "                     $XDG_RUNTIME_DIR/forkd/forkd.sock). `call` and `tasks`\n"
	       "                     accept a cluster, too: gearman://HOST\n"
	       "  -h, --help         Print this help; after a command, the help of the command\n"
	       "  -V, --version      Print the version\n\n"
	       "Exit status:\n"
	       "  0        Success\n"
	       "  1        A job failed, a check found an error, or a request was refused\n"
	       "  2        Wrong usage\n"
	       "  3        No connection to forkd\n"
	       "  128 + N  Ended by signal N\n",
	       FK_SOCKET_PATH);
}

static void print_command_help(const struct command *command)
{
	printf("Usage: forkctl [--socket PATH] %s%s%s\n%s.\n", command->name,
	       *command->arguments ? " " : "", command->arguments, command->help);
	if (command->details)
		printf("\n%s\n", command->details);
	if (command->options) {
		printf("\nOptions:\n");
		forkctl_print_options(command->options, stdout);
	}
}

/* Words after a -- are for another program. */
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

		if (!commands[i].run || !streq(commands[i].name, argv[0]))
			continue;
		if (wants_help(argc, argv))
			print_command_help(&commands[i]);
		else
			status = commands[i].run(socket, argc, argv);
		return flush(status);
	}
	return forkctl_fail(FORKCTL_USAGE,
			    "there is no command %s: `forkctl --help` lists the commands", argv[0]);
}

/* Reports what getopt_long() refused: a letter, after which the word may continue, or a word. */
static int refuse_option(const char *word)
{
	char letter[] = { '-', optopt < ' ' || optopt == 0x7f ? '?' : (char)optopt, '\0' };

	if (optopt == 'h' || optopt == 'V')
		return forkctl_fail(FORKCTL_USAGE, "%s takes no value", word);
	return forkctl_fail(FORKCTL_USAGE,
			    "there is no option %s: `forkctl --help` lists the options",
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
			return forkctl_fail(FORKCTL_USAGE, "%s requires a value", argv[optind - 1]);
		default:
			return refuse_option(argv[optind - 1]);
		}
	}
	if (optind == argc)
		return forkctl_fail(FORKCTL_USAGE,
				    "no command given: `forkctl --help` lists the commands");
	return run_command(socket, argc - optind, argv + optind);
}
