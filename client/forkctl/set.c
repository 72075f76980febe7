/* SPDX-License-Identifier: MIT */
/* set.c - forkctl set: changes a setting of a running forkd */
#include "client/forkctl/common.h"
#include "client/forkctl/forkctl.h"
#include "shm/proto.h"

#include <stdio.h>

#include "client/forkctl/control.h"

int forkctl_set(const char *socket, int argc, char *argv[])
{
	struct proto_set answer;
	int err;

	if (argc != 3)
		return forkctl_fail(FORKCTL_USAGE,
				    "set takes a name and a value: `forkctl set scheduler busy`");
	err = forkctl_check_option(argv[0], argv[1]);
	if (!err)
		err = forkctl_control(socket, argv[0], PROTO_SET, argv[1], argv[2], &answer);
	if (!err)
		(void)printf("%s = %s (was %s)\n", argv[1], argv[2], answer.value);
	return err;
}
