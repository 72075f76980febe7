/* SPDX-License-Identifier: MIT */
/* gateway_options.c - the command line of forkd-gearman, with the parser of forkctl */
#include "contrib/gearman/gateway_options.h"

#include <errno.h>
#include <fnmatch.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "client/forkctl/common.h"
#include "client/forkctl/options.h"
#include "client/lib/connect.h"
#include "client/lib/plugin.h"
#include "common/clock.h"
#include "common/number.h"
#include "common/util.h"
#include "contrib/gearman/gateway_exporter.h"
#include "contrib/gearman/payload.h"

/* The values as they were written. */
struct written {
	struct forkctl_words servers;
	struct forkctl_words idempotent;
	const char *socket;
	uint32_t jobs;
	const char *max_size;
	const char *journal;
	struct forkctl_limit journal_keep;
	struct forkctl_limit server_timeout;
	struct forkctl_limit stop_timeout;
	const char *metrics;
	int help;
	int version;
};

#define ROW(brief, name, value, help, type, field, least, most)                                    \
	{                                                                                          \
		brief, name, value, help, type, offsetof(struct written, field), least, most       \
	}
#define TIME_MOST (UINT64_C(10 * 365 * 24 * 3600) * NSEC_PER_SEC)

static const struct forkctl_option rows[] = {
	ROW("", "--server", "HOST[:PORT][,...]",
	    "Job servers (default: localhost:4730); may be repeated", FORKCTL_LIST, servers, 0, 0),
	ROW("", "--socket", "PATH", "Socket of forkd (default: as forkctl)", FORKCTL_TEXT, socket,
	    0, 0),
	ROW("", "--jobs", "N", "Jobs in flight of each server (default: twice the workers)",
	    FORKCTL_NUMBER, jobs, 1, GATEWAY_JOBS_MAX),
	ROW("", "--max-size", "SIZE", "Largest payload of a job (default: 64M)", FORKCTL_TEXT,
	    max_size, 0, 0),
	ROW("", "--idempotent", "PATTERN",
	    "Tasks MODULE:TASK that may run twice, such as 'bots:*'; may be repeated", FORKCTL_LIST,
	    idempotent, 0, 0),
	ROW("", "--journal", "DIR", "Journal of the other tasks; without it they may run twice",
	    FORKCTL_TEXT, journal, 0, 0),
	ROW("", "--journal-keep", "TIME", "Age of an entry that is removed (default: 168h)",
	    FORKCTL_SECONDS, journal_keep, NSEC_PER_SEC, TIME_MOST),
	ROW("", "--server-timeout", "TIME",
	    "Silence of a server that ends a connection (default: 10s)", FORKCTL_SECONDS,
	    server_timeout, NSEC_PER_MSEC, TIME_MOST),
	ROW("", "--stop-timeout", "TIME", "Time for jobs in flight after SIGTERM (default: 30s)",
	    FORKCTL_SECONDS, stop_timeout, 0, TIME_MOST),
	ROW("", "--metrics", "[HOST:]PORT|PATH",
	    "Serve metrics by HTTP, at localhost or a Unix socket (default: not)", FORKCTL_TEXT,
	    metrics, 0, 0),
	ROW("-h", "--help", NULL, "Print this help", FORKCTL_FLAG, help, 0, 0),
	ROW("-V", "--version", NULL, "Print the version", FORKCTL_FLAG, version, 0, 0),
	{ 0 },
};

int gateway_options_add_servers(struct gateway_options *options, const char *text)
{
	for (;;) {
		size_t n = strcspn(text, ",");
		struct server_name server;
		int err = server_name_parse(text, n, SERVER_NAME_PORT, &server);

		if (!err && options->n_servers == GATEWAY_SERVERS)
			err = -E2BIG;
		if (err)
			return err;
		options->servers[options->n_servers++] = server;
		if (!text[n])
			return 0;
		text += n + 1;
	}
}

static int set_servers(struct gateway_options *options, const struct forkctl_words *words)
{
	if (!words->n)
		return gateway_options_add_servers(options, "localhost");
	for (uint32_t i = 0; i < words->n; i++) {
		int err = gateway_options_add_servers(options, words->words[i]);

		if (err == -E2BIG)
			return forkctl_fail(FORKCTL_USAGE, "--server: at most %u servers",
					    GATEWAY_SERVERS);
		if (err)
			return forkctl_fail(
				FORKCTL_USAGE,
				"--server must be HOST, HOST:PORT or [ADDRESS]:PORT, or several "
				"with commas, not %s",
				*words->words[i] ? words->words[i] : "nothing");
	}
	return 0;
}

static int set_size(struct gateway_options *options, const char *text)
{
	options->max_size = UINT64_C(64) << 20;
	if (text && (number_parse_unit(text, &number_sizes, "", &options->max_size) ||
		     !options->max_size || options->max_size > PAYLOAD_MAX))
		return forkctl_fail(FORKCTL_USAGE,
				    "--max-size must be a size from 1 to %u, such as 64M, not %s",
				    PAYLOAD_MAX, *text ? text : "nothing");
	return 0;
}

static uint64_t time_or(const struct forkctl_limit *limit, uint64_t or_seconds)
{
	return limit->text ? limit->ns : or_seconds * NSEC_PER_SEC;
}

static int check_metrics(const char *address)
{
	struct server_name server;

	if (!address || !exporter_parse(address, &server))
		return 0;
	return forkctl_fail(FORKCTL_USAGE,
			    "--metrics must be PORT, HOST:PORT, [ADDRESS]:PORT, or a path with a "
			    "slash and at most %zu bytes, not %s",
			    EXPORTER_PATH - 1, *address ? address : "nothing");
}

/* A gateway of a cluster would serve its tasks to the cluster itself. */
static int check_socket(const char *socket)
{
	const char *path = connect_path(socket);

	if (!plugin_opens(path))
		return 0;
	return forkctl_fail(FORKCTL_USAGE,
			    "--socket, or FORKD_SOCKET, must be the socket of this machine's "
			    "forkd, not %s",
			    path);
}

/* Converts the values. The words of lists stay in *written. */
static int convert(const struct written *written, struct gateway_options *ret)
{
	int err;

	*ret = (struct gateway_options){
		.socket = written->socket,
		.jobs = written->jobs,
		.idempotent = written->idempotent.words,
		.n_idempotent = written->idempotent.n,
		.journal = written->journal,
		.journal_keep_ns = time_or(&written->journal_keep, 168 * 3600),
		.server_timeout_ns = time_or(&written->server_timeout, 10),
		.stop_timeout_ns = time_or(&written->stop_timeout, 30),
		.metrics = written->metrics,
	};
	err = check_socket(written->socket);
	if (!err)
		err = check_metrics(written->metrics);
	if (!err)
		err = set_servers(ret, &written->servers);
	return err ? err : set_size(ret, written->max_size);
}

int gateway_options_parse(int argc, char *argv[], struct gateway_options *ret_options,
			  enum gateway_action *ret_action)
{
	/* The options refer to its lists. */
	static struct written written;
	int err;

	written = (struct written){ 0 };
	err = forkctl_options(rows, &written, &argc, argv);
	if (err)
		return err;
	if (argc > 1)
		return forkctl_fail(FORKCTL_USAGE,
				    "%s is no option: `forkd-gearman --help` lists "
				    "them",
				    argv[1]);
	*ret_action = written.help ? GATEWAY_HELP : written.version ? GATEWAY_VERSION : GATEWAY_RUN;
	return *ret_action == GATEWAY_RUN ? convert(&written, ret_options) : 0;
}

bool gateway_options_idempotent(const struct gateway_options *options, const char *name)
{
	for (uint32_t i = 0; i < options->n_idempotent; i++)
		if (!fnmatch(options->idempotent[i], name, 0))
			return true;
	return false;
}

void gateway_options_print_help(FILE *out)
{
	(void)fprintf(out, "Usage: forkd-gearman [OPTION...]\n"
			   "Serve forkd's tasks as functions of Gearman job servers.\n\n"
			   "Options:\n");
	forkctl_print_options(rows, out);
	(void)fprintf(out, "\nExit status:\n"
			   "  0        Stopped by SIGTERM or SIGINT\n"
			   "  1        An error, which is in the log\n"
			   "  2        Wrong usage\n");
}
