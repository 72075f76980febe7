/* SPDX-License-Identifier: MIT */
/* keeping.h - a manager with a stub as its pool, whose descriptors the systemd stub keeps: what is
 * stored, and whether the manager survives */
#pragma once

#include <sys/wait.h>
#include <unistd.h>

#include "common/util.h"
#include "tests/support/check_unit.h"
#include "tests/support/daemon.h"
#include "tests/support/service.h"

static inline bool holds(struct systemd_stub *store, const char *names)
{
	char found[512];

	systemd_stub_names(store, found, sizeof(found));
	return streq(found, names);
}

/* Waits until a pool with another pid runs and is kept. */
static inline pid_t kept_pool(struct systemd_stub *store, pid_t last)
{
	pid_t pid;

	DAEMON_AWAIT((pid = systemd_stub_process(store, "pool")) > 0 && pid != last);
	return pid;
}

static inline void serves(void)
{
	struct service_client c = service_attach();

	service_do(&c, 0);
	(void)close(c.fd);
}

/* The stub does not read, and its notification socket is full. */
static inline void deafen(struct systemd_stub *store)
{
	daemon_suspend(store->pid);
	ck_assert_int_eq(waitpid(store->pid, NULL, WUNTRACED), store->pid);
	service_deafen();
}
