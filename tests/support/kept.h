/* SPDX-License-Identifier: MIT */
/*
 * kept.h - a real forkd that a stand-in for systemd keeps: whenever it ends it is started
 * again, with what it had put into the store
 */
#pragma once

#include "tests/support/daemon.h"
#include "tests/support/systemd_stub.h"

/*
 * Starts forkd with these options, NULL at the end, as daemon_start() does, with a socket that is
 * passed; waits until it is ready. d->manager is the process of the moment, as of the last
 * kept_ready(); d->watcher outlives it.
 */
struct systemd_stub *kept_start(struct daemon *d, ...) __attribute__((sentinel));

/* Its forkd.conf, from the next start on. Returns the option that names it: for kept_start(). */
const char *kept_configure(struct daemon *d, const char *text);

/* Waits until a manager has said READY=1 since the last time. */
void kept_ready(struct daemon *d, struct systemd_stub *store);

/* Kills the manager; is there when the stand-in has seen it, and perhaps started the next. */
void kept_kill(struct daemon *d, struct systemd_stub *store);

/* The same, but the stand-in is stopped before, and the pool is dead: forkd is gone until
 * kept_go_on(). */
void kept_kill_and_hold(struct daemon *d, struct systemd_stub *store);
void kept_go_on(struct systemd_stub *store);

/* Stops it in order, and removes what is left of it. */
void kept_stop(struct daemon *d, struct systemd_stub *store);
/* The same of one that was told already. */
void kept_ended(struct daemon *d, struct systemd_stub *store);
