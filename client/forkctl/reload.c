/* SPDX-License-Identifier: MIT */
/* reload.c - forkctl reload: makes forkd read forkd.conf and the modules again */
#include "client/forkctl/common.h"
#include "client/forkctl/forkctl.h"
#include "shm/proto.h"

#include <inttypes.h>
#include <stdio.h>

#include "client/forkctl/control.h"

const struct forkctl_option forkctl_reload_options[] = {
	FORKCTL_TERMS(0),
	{ 0 },
};

int forkctl_ask_reload(const char *socket, const char *command, const struct forkctl_terms *terms)
{
	struct proto_set answer;
	char ns[24] = "";
	int err;

	if (terms->timeout.text)
		(void)snprintf(ns, sizeof(ns), "%" PRIu64, terms->timeout.ns);
	err = forkctl_control(socket, command, PROTO_RELOAD, terms->force ? PROTO_RELOAD_FORCE : "",
			      ns, &answer);
	if (!err)
		(void)printf("%s\n", answer.value);
	return err;
}

int forkctl_reload(const char *socket, int argc, char *argv[])
{
	struct forkctl_terms terms = { .force = 0 };
	int err = forkctl_options(forkctl_reload_options, &terms, &argc, argv);

	if (err)
		return err;
	if (argc > 1)
		return forkctl_fail(FORKCTL_USAGE, "%s takes no arguments, not %s", argv[0],
				    argv[1]);
	return forkctl_ask_reload(socket, argv[0], &terms);
}
