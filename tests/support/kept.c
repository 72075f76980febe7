/* SPDX-License-Identifier: MIT */
/*
 * kept.c - a real forkd whose descriptors the systemd stub keeps
 *
 * If a peer dies: the stub starts a new manager after the old one. The stub ends with the test, and
 * forkd with it.
 */
#include "tests/support/kept.h"

#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client/lib/client.h"
#include "common/util.h"
#include "tests/support/local.h"

#define KEPT_OPTIONS 16u

static struct kept {
	struct daemon *d;
	const char *options[KEPT_OPTIONS];
	char notify[96];
	uint32_t readies; /* that kept_ready() has seen */
} kept;

static void kept_run(void *context)
{
	struct kept *k = context;

	daemon_exec(k->d, k->options);
}

static int kept_listen(const char *path)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	(void)snprintf(address.sun_path, sizeof(address.sun_path), "%s", path);
	ck_assert_int_eq(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
	ck_assert_int_eq(chmod(path, 0666), 0);
	ck_assert_int_eq(listen(fd, 64), 0);
	return fd;
}

struct systemd_stub *kept_start(struct daemon *d, ...)
{
	struct systemd_stub_unit unit = { .run = kept_run,
					  .context = &kept,
					  .max = SYSTEMD_STUB_MAX };
	struct systemd_stub *store;
	uint32_t n = 0;
	va_list ap;

	if (!d->directory[0])
		daemon_prepare(d);
	va_start(ap, d);
	do {
		ck_assert_uint_lt(n, KEPT_OPTIONS);
		kept.options[n] = va_arg(ap, const char *);
	} while (kept.options[n++]);
	va_end(ap);
	if (local_is_on()) {
		daemon_start_local(d, kept.options);
		return NULL;
	}
	kept.d = d;
	kept.readies = 0;
	(void)snprintf(kept.notify, sizeof(kept.notify), "%s/notify", d->directory);
	(void)close(d->notify_fd);
	unit.notify = kept.notify;
	unit.socket = kept_listen(d->socket);
	store = systemd_stub_start(&unit);
	(void)close(unit.socket);
	d->notify_fd = store->messages;
	kept_ready(d, store);
	d->watcher = daemon_open(d);
	d->board = d->watcher->board;
	return store;
}

const char *kept_configure(struct daemon *d, const char *text)
{
	static char option[96];
	const char *path = option + strlen("--config=");
	FILE *f;

	if (!d->directory[0])
		daemon_prepare(d);
	(void)snprintf(option, sizeof(option), "--config=%s/forkd.conf", d->directory);
	f = fopen(path, "we");
	ck_assert_ptr_nonnull(f);
	ck_assert_int_ge(fputs(text, f), 0);
	ck_assert_int_eq(fclose(f), 0);
	return option;
}

void kept_ready(struct daemon *d, struct systemd_stub *store)
{
	LOCAL_REFUSE("a process that starts");
	DAEMON_AWAIT(store->readies > kept.readies);
	kept.readies = store->readies;
	d->manager = store->service;
}

void kept_kill(struct daemon *d, struct systemd_stub *store)
{
	uint32_t starts;

	LOCAL_REFUSE("a process that dies");
	starts = store->starts;
	ck_assert_int_eq(kill(d->manager, SIGKILL), 0);
	DAEMON_AWAIT(store->starts > starts);
}

void kept_kill_and_hold(struct daemon *d, struct systemd_stub *store)
{
	pid_t pool = (pid_t)atomic_load(&d->board->manager.pool_pid);

	LOCAL_REFUSE("a process that dies");
	daemon_suspend(store->pid);
	ck_assert_int_eq(waitpid(store->pid, NULL, WUNTRACED), store->pid);
	ck_assert_int_eq(kill(d->manager, SIGKILL), 0);
	/* Not reaped yet, but a zombie has no memory. */
	DAEMON_AWAIT(daemon_proc_status(pool, "VmSize") < 0);
	DAEMON_AWAIT(daemon_proc_status(d->manager, "VmSize") < 0);
}

void kept_go_on(struct systemd_stub *store)
{
	ck_assert_int_eq(kill(store->pid, SIGCONT), 0);
}

void kept_stop(struct daemon *d, struct systemd_stub *store)
{
	if (local_is_on()) {
		ck_assert_int_eq(daemon_stop(d), 0);
		return;
	}
	ck_assert_int_eq(kill(store->service, SIGTERM), 0);
	kept_ended(d, store);
}

void kept_ended(struct daemon *d, struct systemd_stub *store)
{
	ck_assert_int_eq(fk_close(d->watcher), 0);
	DAEMON_AWAIT(store->service == 0);
	ck_assert_int_eq(store->status, 0);
	ck_assert_uint_eq(store->strangers, 0);
	ck_assert_uint_eq(store->refused, 0);
	systemd_stub_end(store);
	ck_assert_msg(!daemon_logged(d, "Sanitizer", "") && !daemon_logged(d, "runtime error", ""),
		      "a sanitizer has found something: %s", d->log);
	daemon_discard(d);
}
