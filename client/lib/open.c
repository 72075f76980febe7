/* SPDX-License-Identifier: MIT */
/* open.c - fk_open(): chooses forkd's socket, a pool in this process, or a cluster */
#include <string.h>

#include "client/lib/client.h"
#include "client/lib/connect.h"
#include "client/lib/plugin.h"
#include "common/util.h"

int (*client_open_local)(const struct fk_open_options *options, fk_client **ret_client);

/* True if a reserved field is not 0. */
static int options_reserved(const struct fk_open_options *options)
{
	uint64_t all = options->reserved0;

	for (size_t i = 0; i < ARRAY_SIZE(options->reserved); i++)
		all |= options->reserved[i];
	return all != 0;
}

/* True for the names of fk_open() that are no paths. */
static int is_in_process(const char *path)
{
	return streq(path, "local") || streq(path, "auto") || !strncmp(path, "auto:", 5);
}

static int open_local(const struct fk_open_options *options, fk_client **ret_client)
{
	if (!client_open_local)
		return error_say(-FK_E_NOT_LOCAL,
				 "a pool in this process needs libforkpool: link with -lforkpool");
	return client_open_local(options, ret_client);
}

static int open_named(const char *path, const struct fk_open_options *options,
		      fk_client **ret_client)
{
	return plugin_opens(path) ? plugin_open(path, options, ret_client)
				  : client_open_socket(path, options, ret_client);
}

/* Opens the machine's forkd if it answers and has this task (NULL: any); otherwise a pool in this
 * process. */
static int open_auto(const char *task, const struct fk_open_options *options,
		     fk_client **ret_client)
{
	const char *path = connect_path(NULL);
	fk_client *client;
	const fk_task *found;

	if (is_in_process(path)) /* $FORKD_SOCKET */
		path = connect_machine();
	if (open_named(path, options, &client) < 0)
		return open_local(options, ret_client);
	if (task && fk_task_find(client, task, &found) < 0) {
		fk_close(client);
		return open_local(options, ret_client);
	}
	*ret_client = client;
	return 0;
}

int fk_open(const char *socket, const struct fk_open_options *options, fk_client **ret_client)
{
	static const struct fk_open_options defaults;
	const char *path = connect_path(socket);

	if (!options)
		options = &defaults;
	if (options_reserved(options))
		return error_say(-FK_E_RESERVED,
				 "a reserved field of struct fk_open_options is not "
				 "0: use a designated initializer");
	if (!is_in_process(path))
		return open_named(path, options, ret_client);
	if (streq(path, "local"))
		return open_local(options, ret_client);
	return open_auto(path[4] ? path + 5 : NULL, options, ret_client);
}
