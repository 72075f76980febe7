/* SPDX-License-Identifier: MIT */
/*
 * gateway.c - forkd-gearman: serves forkd's tasks as functions of Gearman job servers
 *
 * The main thread looks every GATEWAY_TICK for the end of forkd, for other tasks, and for signals.
 * Each job server has two connections, with threads of their own (gateway_connection.h).
 *
 * INVARIANTS
 *   I1. After SIGTERM or SIGINT nothing is requested, except to end a sleep (gateway_connection.h,
 *       I1). The server may still assign jobs to requests that it has not answered. The process
 *       ends when all jobs have ended, or after --stop-timeout.
 *   I2. Each change of a connection is logged once.
 */
#include "contrib/gearman/gateway.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <systemd/sd-daemon.h>

#include "client/forkctl/common.h"
#include "client/forkctl/output.h"
#include "common/clock.h"
#include "common/log.h"
#include "common/relaxed.h"
#include "common/util.h"
#include "contrib/gearman/functions.h"
#include "contrib/gearman/gateway_connection.h"
#include "contrib/gearman/gateway_exporter.h"
#include "contrib/gearman/journal.h"
#include "contrib/gearman/gateway_metrics.h"

#define GATEWAY_TICK	     (250 * NSEC_PER_MSEC)
#define GATEWAY_BACK_OFF_MAX NSEC_PER_SEC
#define GATEWAY_EXPIRE	     256u		  /* files of the journal in a tick */
#define GATEWAY_EXPIRE_NS    (600 * NSEC_PER_SEC) /* between two passes */
#define GATEWAY_SETTLE_NS    NSEC_PER_SEC	  /* for the first connections, before READY=1 */

/* The connections to all job servers. */
struct connections {
	struct connection *connections;
	uint32_t n;
};

/* Waits for a signal that ends the gateway. Returns true if there was one. */
static bool wait_signal(const sigset_t *signals, uint64_t ns)
{
	struct timespec time = clock_to_timespec(ns);

	return sigtimedwait(signals, NULL, &time) > 0;
}

/* Starts all connections. On failure those that were started run. */
static int start(struct connections *all, struct gateway *gateway, struct gateway_server *servers)
{
	uint32_t n = 2 * gateway->options->n_servers;

	all->connections = calloc(n, sizeof(*all->connections));
	if (!all->connections)
		return -ENOMEM;
	for (uint32_t i = 0; i < n; i++) {
		int err = connection_start(&all->connections[i], gateway, &servers[i / 2], i / 2,
					   i % 2 == 0);

		all->n++;
		if (err)
			return err;
	}
	return 0;
}

/* Waits for the end of all connections. Returns false after the time limit. */
static bool join(struct connections *all, uint64_t limit_ns)
{
	uint64_t now = clock_ns();
	struct timespec until, real;

	/* pthread_timedjoin_np() has CLOCK_REALTIME. */
	(void)clock_gettime(CLOCK_REALTIME, &real);
	until = clock_to_timespec(clock_of_timespec(&real) + limit_ns);
	for (uint32_t i = 0; i < all->n; i++)
		if (!connection_join(&all->connections[i], &until))
			return false;
	free(all->connections);
	log_info("stopped after %.3f s", (double)(clock_ns() - now) / 1e9);
	return true;
}

/* Removes old entries of the journal, a few in each tick. */
static void expire(struct gateway *gateway, uint64_t *next_ns)
{
	if (gateway->journal && clock_ns() >= *next_ns &&
	    journal_expire(gateway->journal, GATEWAY_EXPIRE))
		*next_ns = clock_ns() + GATEWAY_EXPIRE_NS;
}

/* Connects to forkd. Logs an error that differs from the last one, *err. */
static int reconnect(struct gateway *gateway, int *err)
{
	int last = *err;

	*err = gateway_connect(gateway);
	if (*err && *err != last)
		log_warning("forkd: no connection: %s: trying again", fk_error_text());
	return *err;
}

/* Runs until a signal. */
static void watch(struct gateway *gateway, const sigset_t *signals)
{
	uint64_t back_off = GATEWAY_TICK, expire_ns = 0;
	bool connected = true;
	int err = 0;

	while (!wait_signal(signals, connected ? GATEWAY_TICK : back_off)) {
		expire(gateway, &expire_ns);
		if (gateway_refresh(gateway))
			continue;
		if (connected) {
			log_warning("forkd: connection lost: connecting again");
			back_off = GATEWAY_TICK / 2;
			err = -FK_E_NOT_LISTENING;
		}
		connected = !reconnect(gateway, &err);
		store_relaxed(&gateway->metrics->forkd_connected, connected);
		if (connected)
			log_notice("forkd: connected again");
		back_off = min(2 * back_off, GATEWAY_BACK_OFF_MAX);
	}
}

/* Connects to forkd for the first time. */
static int connect_first(struct gateway *gateway, struct gateway_options *options)
{
	struct fk_pool_info info;
	struct link *link;
	int err = gateway_connect(gateway);

	if (err) {
		log_error("forkd: %s", fk_error_text());
		return err;
	}
	functions_check_patterns(gateway->functions, options);
	link = gateway_link(gateway);
	err = fk_pool_info(link->clients[0], &info);
	if (!err && !options->jobs)
		options->jobs = min(2 * info.workers, GATEWAY_JOBS_MAX);
	gateway_put_link(gateway, link);
	store_relaxed(&gateway->metrics->forkd_connected, 1);
	return err;
}

static int open_journal(struct gateway *gateway)
{
	const char *directory = gateway->options->journal;
	int err;

	if (!directory)
		directory = getenv("STATE_DIRECTORY");
	if (!directory) {
		log_warning("no --journal: tasks that are not idempotent run twice if a server "
			    "assigns their job twice");
		return 0;
	}
	err = journal_open(directory, gateway->options->journal_keep_ns, &gateway->journal);
	if (err)
		log_error("--journal=%s: %s: give a directory that this user may write", directory,
			  strerrordesc_np(-err));
	return err;
}

/* Serves metrics, if address is not NULL. */
static int export(struct exporter *exporter, const char *address)
{
	int err = address ? exporter_listen(exporter, address) : 0;

	if (!err && address)
		err = exporter_start(exporter);
	if (err)
		log_error("--metrics=%s: %s: give a free port, HOST:PORT, or a path of a socket",
			  address, strerrordesc_np(-err));
	return err;
}

static int run(struct gateway *gateway, const sigset_t *signals)
{
	/* The exporter uses both until the process ends. */
	static struct gateway_server servers[GATEWAY_SERVERS];
	static struct exporter exporter;
	struct connections all = { 0 };
	int err;

	for (uint32_t i = 0; i < gateway->options->n_servers; i++)
		servers[i].address = &gateway->options->servers[i];
	exporter =
		(struct exporter){ gateway->metrics, servers, gateway->options->n_servers, -1, 0 };
	err = export(&exporter, gateway->options->metrics);
	if (err)
		return err;
	err = start(&all, gateway, servers);
	if (err) {
		log_error("cannot start the threads of connections: %s: lower --jobs, or raise "
			  "the limits on threads and memory",
			  strerrordesc_np(-err));
	} else {
		gateway_wait_settled(gateway, all.n, GATEWAY_SETTLE_NS);
		(void)sd_notify(0, "READY=1");
		watch(gateway, signals);
	}
	(void)sd_notify(0, "STOPPING=1");
	gateway_stop(gateway);
	if (!join(&all, gateway->options->stop_timeout_ns)) {
		/* Jobs still use everything. */
		log_warning("jobs were in flight after --stop-timeout");
		_exit(0);
	}
	return err;
}

int main(int argc, char *argv[])
{
	struct gateway_options options;
	static struct gateway_metrics metrics; /* as the servers of run() */
	struct gateway gateway;
	enum gateway_action action;
	sigset_t signals;
	int err;

	out_init();
	log_set_name("forkd-gearman");
	forkctl_set_program("forkd-gearman");
	argv[0] = (char *)(uintptr_t) "forkd-gearman";
	err = gateway_options_parse(argc, argv, &options, &action);
	if (err)
		return err;
	if (action == GATEWAY_HELP)
		gateway_options_print_help(stdout);
	if (action == GATEWAY_VERSION)
		printf("forkd-gearman %s\n", PACKAGE_VERSION);
	if (action != GATEWAY_RUN)
		return fflush(stdout) ? 1 : 0;
	(void)sigemptyset(&signals);
	(void)sigaddset(&signals, SIGTERM);
	(void)sigaddset(&signals, SIGINT);
	(void)pthread_sigmask(SIG_BLOCK, &signals, NULL);
	(void)signal(SIGPIPE, SIG_IGN);
	err = gateway_init(&gateway, &options);
	if (err)
		return 1;
	gateway.metrics = &metrics;
	err = connect_first(&gateway, &options);
	if (!err)
		err = open_journal(&gateway);
	if (!err)
		err = run(&gateway, &signals);
	gateway_fini(&gateway);
	journal_close(gateway.journal);
	return err ? 1 : 0;
}
