/* SPDX-License-Identifier: MIT */
/* kept.h - a real forkd whose descriptors the systemd stub keeps: whenever forkd ends, the stub
 * starts it again with the descriptors of the store */
#pragma once

#include "tests/support/daemon.h"
#include "tests/support/systemd_stub.h"

/* Starts forkd with these options, NULL at the end, and with a socket that is passed. Waits until
 * it is ready. d->manager is the process as of the last kept_ready(). d->watcher survives a
 * restart. */
struct systemd_stub *kept_start(struct daemon *d, ...) __attribute__((sentinel));

/* Writes its forkd.conf, which the next start reads. Returns the option for kept_start() that names
 * it. */
const char *kept_configure(struct daemon *d, const char *text);

/* Waits until a manager has sent READY=1 since the last call. */
void kept_ready(struct daemon *d, struct systemd_stub *store);

/* Kills the manager. Returns when the stub has reaped it; the next manager may have started. */
void kept_kill(struct daemon *d, struct systemd_stub *store);

/* Stops the stub, kills the manager and the pool: forkd is gone until kept_go_on(). */
void kept_kill_and_hold(struct daemon *d, struct systemd_stub *store);
void kept_go_on(struct systemd_stub *store);

/* Stops forkd in order, and removes its files. */
void kept_stop(struct daemon *d, struct systemd_stub *store);
/* The same, but does not send the signal. */
void kept_ended(struct daemon *d, struct systemd_stub *store);
