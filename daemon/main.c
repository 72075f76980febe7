/* SPDX-License-Identifier: MIT */
/* main.c - forkd: the manager, or with --pool the pool that the manager starts */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "common/log.h"
#include "common/options_args.h"
#include "common/options_print.h"
#include "daemon/manager/memory_budget.h"
#include "daemon/host/sandbox.h"
#include "daemon/host/topology.h"
#include "daemon/manager/manager.h"
#include "daemon/manager/spawn.h"
#include "daemon/pool/process.h"
#include "daemon/manager/reload_trial.h"

/* Without all three, the first descriptors that are opened would take their places. */
static int main_std_streams(void)
{
	int fd;

	do {
		fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	} while (fd >= 0 && fd <= STDERR_FILENO && fcntl(fd, F_SETFD, 0) == 0);
	if (fd < 0)
		return -errno;
	(void)close(fd);
	return 0;
}

static void main_help(void)
{
	options_print_help(stdout);
	fputs("\nExit codes:\n"
	      "  0  stopped as asked\n"
	      "  1  internal error: please report it\n"
	      "  2  command line or forkd.conf\n"
	      "  3  cannot listen on the socket\n"
	      "  4  the pool failed to start, or crashed several times at its start\n"
	      "  5  the system refuses memory, descriptors or io_uring\n"
	      "  6  restart requested by SIGUSR2\n",
	      stdout);
}

static int main_check(struct options *options)
{
	struct topology *topology;
	struct options_error text;
	char error[256] = "";

	if (budget_decide(options, 0, &text) < 0) {
		log_error("%s", text.text);
		return MANAGER_EXIT_USAGE;
	}
	if (topology_new(NULL, options->workers, options_threads(options), options->cpus, error,
			 sizeof(error), &topology) < 0) {
		log_error("%s", error);
		return MANAGER_EXIT_USAGE;
	}
	options->workers = topology_n_workers(topology);
	topology_free(topology);
	options_print(options, stdout);
	(void)printf("# %s\n", text.text);
	return MANAGER_EXIT_OK;
}

static int main_pool(const struct options *options)
{
	log_set_name("forkd-pool");
	(void)prctl(PR_SET_NAME, "forkd-pool");
	if (fcntl(SPAWN_FD, F_SETFD, FD_CLOEXEC) < 0) {
		log_error("--pool is for forkd itself: start forkd without it");
		return MANAGER_EXIT_USAGE;
	}
	return pool_run(options, SPAWN_FD);
}

int main(int argc, char *argv[])
{
	struct options_error error;
	enum options_action action;
	struct options options;
	int code = MANAGER_EXIT_OK;

	if (main_std_streams() < 0)
		return MANAGER_EXIT_SYSTEM;
	(void)signal(SIGPIPE, SIG_IGN);
	(void)signal(SIGCHLD, SIG_DFL); /* inherited SIG_IGN would reap the pool */
	/* hwloc's plugins look for GPUs and X displays, and what they link takes 2.6 MiB. */
	(void)setenv("HWLOC_PLUGINS_PATH", "", 0);
	if (options_args_parse(&options, argc, argv, &action, &error) < 0) {
		log_error("%s", error.text);
		return MANAGER_EXIT_USAGE;
	}
	log_set_level((enum log_level)options_log_level(&options));
	switch (action) {
	case OPTIONS_HELP:
		main_help();
		break;
	case OPTIONS_VERSION:
		(void)printf("forkd %s\n", PACKAGE_VERSION);
		break;
	case OPTIONS_CHECK:
		code = main_check(&options);
		break;
	case OPTIONS_POOL:
		sandbox_hide(options.sandbox);
		code = main_pool(&options);
		break;
	case OPTIONS_DRY_RUN:
		sandbox_hide(options.sandbox);
		log_set_name("forkd-reload");
		code = reload_trial_main(&options, SPAWN_FD);
		break;
	case OPTIONS_CONFIG:
	case OPTIONS_RUN:
		sandbox_hide(options.sandbox);
		code = manager_run(&options, argv);
		break;
	}
	options_fini(&options);
	if (fflush(stdout) != 0 && code == MANAGER_EXIT_OK)
		code = MANAGER_EXIT_SYSTEM;
	return code;
}
