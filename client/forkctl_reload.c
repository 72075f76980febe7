/* SPDX-License-Identifier: MIT */
/* client/forkctl_reload.c - forkctl reload: forkd.conf and the modules are read again */
#include "client/forkctl.h"

#include <stdio.h>

#include "client/forkctl_control.h"

int forkctl_reload(const char *socket, int argc, char *argv[])
{
	struct proto_set answer;
	int err;

	if (argc > 1)
		return forkctl_fail(FORKCTL_USAGE, "%s takes no arguments, not %s", argv[0],
				    argv[1]);
	err = forkctl_control(socket, argv[0], PROTO_RELOAD, "", "", &answer);
	if (!err)
		(void)printf("%s\n", answer.value);
	return err;
}
