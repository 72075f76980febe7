/* SPDX-License-Identifier: MIT */
/*
 * systemd_stub.c - a stub of systemd: starts a service, keeps its descriptors, and restarts it
 * with them
 *
 * The behaviour of systemd 252 that forkd can observe:
 * - a datagram with FDSTORE=1 puts its descriptors into the store, up to the unit's maximum;
 *   further ones are closed silently. The same file is kept once.
 * - FDSTOREREMOVE=1 closes all of a name. A descriptor without FDPOLL=0 is closed when it hangs up.
 * - Notifications are read before the end of their sender is handled.
 * - A service that ends, except by exit status 0, is started again at once. It gets the unit's
 *   socket and the store after descriptor 2, the newest of the store first, and the names in one
 *   string.
 * - A service that is stopped and has sent no WATCHDOG=1 for the time of the watchdog is killed.
 *   A service that is not stopped may only wait for a CPU, so it is not killed.
 *
 * Threads: systemd_stub_*: the test. Everything else: the only thread of a process that the test
 * forks, parent of the service and reaper of the orphans of the service.
 */
#include "tests/support/systemd_stub.h"

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/kcmp.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/util.h"
#include "tests/support/daemon.h"

#define WARDEN_AGAIN_MS 10 /* interval of checks whether the service is stopped */

/* Private state of the stub. */
struct warden {
	struct systemd_stub *store;
	const struct systemd_stub_unit *unit;
	int notify;
	int children; /* a signalfd */
	int messages;
	uint64_t sign_ns; /* of the last WATCHDOG=1 */
};

/* Not an assertion of libcheck: this is not the test's process. */
static void warden_must_at(bool condition, int line)
{
	if (condition)
		return;
	(void)fprintf(stderr, "tests/support/systemd_stub.c:%d: %s\n", line, strerror(errno));
	abort();
}
#define warden_must(condition) warden_must_at(condition, __LINE__)

/* ------------------------------------------------------------------------ the store */

static void warden_drop(struct systemd_stub *store, uint32_t i)
{
	(void)close(store->entries[i].fd);
	memmove(&store->entries[i], &store->entries[i + 1],
		(--store->n - i) * sizeof(store->entries[0]));
}

static bool warden_has(const struct systemd_stub *store, int fd)
{
	for (uint32_t i = 0; i < store->n; i++)
		if (syscall(SYS_kcmp, getpid(), getpid(), KCMP_FILE, store->entries[i].fd, fd) == 0)
			return true;
	return false;
}

static pid_t warden_process_of(int fd)
{
	char path[64], line[128];
	int pid = 0;
	FILE *f;

	(void)snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", fd);
	f = fopen(path, "re");
	warden_must(f);
	while (fgets(line, sizeof(line), f))
		(void)sscanf(line, "Pid: %d", &pid);
	(void)fclose(f);
	return pid;
}

static void warden_keep(struct warden *w, const char *name, bool polled, int fd)
{
	struct systemd_stub *store = w->store;

	if (warden_has(store, fd)) {
		(void)close(fd);
	} else if (store->n >= min(w->unit->max, SYSTEMD_STUB_MAX)) {
		store->refused++;
		(void)close(fd);
	} else {
		struct systemd_stub_entry *e = &store->entries[store->n++];

		*e = (struct systemd_stub_entry){ .polled = polled,
						  .fd = fd,
						  .pid = warden_process_of(fd) };
		(void)snprintf(e->name, sizeof(e->name), "%s", name);
	}
}

static void warden_remove(struct systemd_stub *store, const char *name)
{
	for (uint32_t i = store->n; i-- > 0;)
		if (streq(store->entries[i].name, name))
			warden_drop(store, i);
}

/* ------------------------------------------------------------------------ messages */

/* Reads the text after "NAME=" at the start of a line, up to its end; returns false if it is
 * missing. */
static bool warden_field(const char *text, const char *name, char *ret, size_t size)
{
	size_t n = strlen(name);

	for (const char *line = text; line; line = strchr(line, '\n')) {
		line += *line == '\n';
		if (!strncmp(line, name, n) && line[n] == '=') {
			(void)snprintf(ret, size, "%.*s", (int)strcspn(line + n + 1, "\n"),
				       line + n + 1);
			return true;
		}
	}
	return false;
}

static void warden_obey(struct warden *w, const struct systemd_stub_message *m)
{
	struct systemd_stub *store = w->store;
	const char *text = m->text;
	char name[32] = "stored", value[32];
	uint32_t kept = 0;

	(void)warden_field(text, "FDNAME", name, sizeof(name));
	warden_must(pthread_mutex_lock(&store->lock) == 0);
	if (warden_field(text, "FDSTOREREMOVE", value, sizeof(value)))
		warden_remove(store, name);
	if (warden_field(text, "FDSTORE", value, sizeof(value))) {
		bool polled = !warden_field(text, "FDPOLL", value, sizeof(value));

		while (kept < m->n)
			warden_keep(w, name, polled, m->fds[kept++]);
	}
	warden_must(pthread_mutex_unlock(&store->lock) == 0);
	while (kept < m->n)
		(void)close(m->fds[kept++]);
	if (warden_field(text, "BARRIER", value, sizeof(value)))
		store->barriers++;
	if (warden_field(text, "READY", value, sizeof(value)))
		store->readies++;
	if (warden_field(text, "WATCHDOG", value, sizeof(value))) {
		store->signs++;
		w->sign_ns = clock_ns();
	} else {
		(void)send(w->messages, text, strlen(text), MSG_DONTWAIT | MSG_NOSIGNAL);
	}
}

bool systemd_stub_hear(int socket, struct systemd_stub_message *ret)
{
	char control[CMSG_SPACE(sizeof(struct ucred)) + CMSG_SPACE(SYSTEMD_STUB_FDS * sizeof(int))];
	struct iovec iov = { .iov_base = ret->text, .iov_len = sizeof(ret->text) - 1 };
	struct msghdr header = {
		.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = control,
		.msg_controllen = sizeof(control),
	};
	ssize_t size;

	*ret = (struct systemd_stub_message){ 0 };
	size = recvmsg(socket, &header, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	if (size < 0)
		return false;
	for (struct cmsghdr *c = CMSG_FIRSTHDR(&header); c; c = CMSG_NXTHDR(&header, c)) {
		if (c->cmsg_type == SCM_CREDENTIALS)
			memcpy(&ret->from, CMSG_DATA(c), sizeof(ret->from));
		if (c->cmsg_type != SCM_RIGHTS)
			continue;
		ret->n = (uint32_t)((c->cmsg_len - CMSG_LEN(0)) / sizeof(int));
		memcpy(ret->fds, CMSG_DATA(c), ret->n * sizeof(int));
	}
	return true;
}

/* Handles one message, if there is one. */
static bool warden_read(struct warden *w)
{
	struct systemd_stub_message m;

	if (!systemd_stub_hear(w->notify, &m))
		return false;
	if (m.from.pid == w->store->service) {
		warden_obey(w, &m);
		return true;
	}
	w->store->strangers++;
	while (m.n)
		(void)close(m.fds[--m.n]);
	return true;
}

/* ------------------------------------------------------------------------ the service */

static void warden_env(const char *name, uint64_t value)
{
	char text[32];

	(void)snprintf(text, sizeof(text), "%llu", (unsigned long long)value);
	warden_must(setenv(name, text, 1) == 0);
}

/* In the child: passes the socket, then the store, from descriptor 3. */
static void warden_pass(const struct warden *w)
{
	const struct systemd_stub *store = w->store;
	int fds[SYSTEMD_STUB_MAX + 1], n = 0;
	char names[SYSTEMD_STUB_MAX * 8] = "";

	if (w->unit->socket >= 0) {
		fds[n++] = w->unit->socket;
		(void)strcpy(names, "forkd.socket");
	}
	for (uint32_t i = store->n; i-- > 0;) {
		size_t at = strlen(names);

		(void)snprintf(names + at, sizeof(names) - at, "%s%s", n ? ":" : "",
			       store->entries[i].name);
		fds[n++] = store->entries[i].fd;
	}
	/* First moves them to higher numbers. */
	for (int i = 0; i < n; i++)
		warden_must((fds[i] = fcntl(fds[i], F_DUPFD, 3 + n)) >= 0);
	for (int i = 0; i < n; i++)
		warden_must(dup2(fds[i], 3 + i) == 3 + i);
	warden_must(close_range((unsigned int)(3 + n), ~0u, 0) == 0);
	if (!n)
		return;
	warden_env("LISTEN_PID", (uint64_t)getpid());
	warden_env("LISTEN_FDS", (uint64_t)n);
	warden_must(setenv("LISTEN_FDNAMES", names, 1) == 0);
}

static void warden_run(struct warden *w)
{
	const struct systemd_stub_unit *unit = w->unit;
	pid_t warden = getpid(), pid;
	sigset_t none;
	int go[2];
	char byte;

	/* The service begins when the stub knows its pid. */
	warden_must(pipe2(go, O_CLOEXEC) == 0);
	pid = fork();
	warden_must(pid >= 0);
	if (pid) {
		w->sign_ns = clock_ns();
		w->store->service = pid;
		w->store->starts++;
		(void)close(go[0]);
		(void)close(go[1]);
		return;
	}
	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != warden)
		_exit(0);
	(void)close(go[1]);
	warden_must(read(go[0], &byte, 1) == 0);
	(void)sigemptyset(&none);
	(void)sigprocmask(SIG_SETMASK, &none, NULL);
	warden_pass(w);
	warden_must(setenv("NOTIFY_SOCKET", unit->notify, 1) == 0);
	if (unit->max)
		warden_env("FDSTORE", w->store->says ? w->store->says : unit->max);
	if (unit->watchdog_us) {
		warden_env("WATCHDOG_USEC", unit->watchdog_us);
		warden_env("WATCHDOG_PID", (uint64_t)getpid());
	}
	unit->run(unit->context);
	_exit(0);
}

static void warden_reap(struct warden *w)
{
	struct systemd_stub *store = w->store;
	struct signalfd_siginfo info;
	int status;
	pid_t pid;

	(void)!read(w->children, &info, sizeof(info));
	while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
		if (pid != store->service)
			continue;
		while (warden_read(w))
			;
		store->status = status;
		store->service = 0;
		if (status != 0 || store->restart) {
			store->restart = false;
			warden_run(w);
		}
	}
}

/* Kills a stopped service that sends no WATCHDOG=1. Returns the ms until the next check, -1 for
 * never. */
static int warden_watch(struct warden *w)
{
	uint64_t limit = w->unit->watchdog_us * NSEC_PER_USEC, age = clock_ns() - w->sign_ns;

	if (!limit || !w->store->service)
		return -1;
	if (age < limit)
		return (int)((limit - age) / NSEC_PER_MSEC) + 1;
	if (!daemon_is_all(w->store->service, 'T'))
		return WARDEN_AGAIN_MS;
	w->store->bites++;
	w->sign_ns = clock_ns();
	(void)kill(w->store->service, SIGKILL);
	return -1;
}

static void warden_poll_store(struct systemd_stub *store)
{
	warden_must(pthread_mutex_lock(&store->lock) == 0);
	for (uint32_t i = store->n; i-- > 0;) {
		struct pollfd p = { .fd = store->entries[i].fd };

		if (store->entries[i].polled && poll(&p, 1, 0) > 0)
			warden_drop(store, i);
	}
	warden_must(pthread_mutex_unlock(&store->lock) == 0);
}

static _Noreturn void warden_main(struct warden *w)
{
	struct pollfd p[SYSTEMD_STUB_MAX + 2];

	warden_run(w);
	for (;;) {
		uint32_t n = 2;

		p[0] = (struct pollfd){ .fd = w->notify, .events = POLLIN };
		p[1] = (struct pollfd){ .fd = w->children, .events = POLLIN };
		for (uint32_t i = 0; i < w->store->n; i++)
			if (w->store->entries[i].polled)
				p[n++] = (struct pollfd){ .fd = w->store->entries[i].fd };
		(void)poll(p, n, warden_watch(w));
		while (warden_read(w))
			;
		warden_reap(w);
		warden_poll_store(w->store);
	}
}

/* ------------------------------------------------------------------------ the test's side */

static int warden_bind(const char *path)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0), on = 1;

	(void)snprintf(address.sun_path, sizeof(address.sun_path), "%s", path);
	(void)unlink(path);
	warden_must(setsockopt(fd, SOL_SOCKET, SO_PASSCRED, &on, sizeof(on)) == 0);
	warden_must(bind(fd, (struct sockaddr *)&address, sizeof(address)) == 0);
	return fd;
}

struct systemd_stub *systemd_stub_start(const struct systemd_stub_unit *unit)
{
	struct warden w = { .unit = unit };
	struct timeval limit = { .tv_sec = 30 };
	pthread_mutexattr_t shared;
	pid_t test = getpid(), pid;
	int pair[2];
	sigset_t set;

	w.store = mmap(NULL, sizeof(*w.store), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
		       -1, 0);
	ck_assert_ptr_ne(w.store, MAP_FAILED);
	(void)pthread_mutexattr_init(&shared);
	(void)pthread_mutexattr_setpshared(&shared, PTHREAD_PROCESS_SHARED);
	ck_assert_int_eq(pthread_mutex_init(&w.store->lock, &shared), 0);
	w.notify = warden_bind(unit->notify);
	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
	ck_assert_int_eq(setsockopt(pair[0], SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit)), 0);
	w.store->messages = pair[0];
	w.messages = pair[1];
	(void)fflush(NULL);
	pid = fork();
	ck_assert_int_ge(pid, 0);
	if (pid) {
		w.store->pid = pid;
		(void)close(w.notify);
		(void)close(w.messages);
		return w.store;
	}
	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != test)
		_exit(0);
	(void)prctl(PR_SET_CHILD_SUBREAPER, 1);
	(void)sigemptyset(&set);
	(void)sigaddset(&set, SIGCHLD);
	(void)sigprocmask(SIG_BLOCK, &set, NULL);
	w.children = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	warden_must(w.children >= 0);
	warden_main(&w);
}

void systemd_stub_end(struct systemd_stub *store)
{
	ck_assert_int_eq(kill(store->pid, SIGKILL), 0);
	ck_assert_int_eq(waitpid(store->pid, NULL, 0), store->pid);
	(void)munmap(store, sizeof(*store));
}

static int systemd_stub_compare(const void *a, const void *b)
{
	return strcmp(a, b);
}

void systemd_stub_names(struct systemd_stub *store, char *ret_names, size_t size)
{
	char names[SYSTEMD_STUB_MAX][32];
	uint32_t n;

	ck_assert_int_eq(pthread_mutex_lock(&store->lock), 0);
	n = store->n;
	for (uint32_t i = 0; i < n; i++)
		(void)strcpy(names[i], store->entries[i].name);
	ck_assert_int_eq(pthread_mutex_unlock(&store->lock), 0);
	qsort(names, n, sizeof(names[0]), systemd_stub_compare);
	ret_names[0] = '\0';
	for (uint32_t i = 0; i < n; i++) {
		size_t at = strlen(ret_names);

		(void)snprintf(ret_names + at, size - at, "%s%s", i ? " " : "", names[i]);
	}
}

pid_t systemd_stub_process(struct systemd_stub *store, const char *name)
{
	pid_t pid = 0;

	ck_assert_int_eq(pthread_mutex_lock(&store->lock), 0);
	for (uint32_t i = 0; i < store->n && !pid; i++)
		if (streq(store->entries[i].name, name))
			pid = store->entries[i].pid;
	ck_assert_int_eq(pthread_mutex_unlock(&store->lock), 0);
	return pid;
}

struct saved_state *systemd_stub_saved(struct systemd_stub *store)
{
	struct saved_state *saved = NULL;
	char path[64];
	int fd = -1;

	ck_assert_int_eq(pthread_mutex_lock(&store->lock), 0);
	for (uint32_t i = 0; i < store->n; i++)
		if (streq(store->entries[i].name, "roster"))
			fd = store->entries[i].fd;
	ck_assert_int_eq(pthread_mutex_unlock(&store->lock), 0);
	(void)snprintf(path, sizeof(path), "/proc/%d/fd/%d", (int)store->pid, fd);
	fd = open(path, O_RDWR | O_CLOEXEC);
	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(saved_map(fd, &saved), 0);
	(void)close(fd);
	return saved;
}
