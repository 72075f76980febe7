/* SPDX-License-Identifier: MIT */
/*
 * daemon.c - a real private forkd for scenario tests
 *
 * Starts forkd as a service manager does, with a socket for its messages. All other files are in a
 * private directory below /tmp, which no other user can write to.
 *
 * Threads: the process of one test. That process is the reaper of all orphans of its children, so
 * that a pool that survives its manager is detected.
 *
 * If a peer dies: a test that fails kills its daemon (PR_SET_PDEATHSIG), and the pool ends with the
 * manager. The directory remains, with the log.
 */
#include "tests/support/daemon.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client/lib/client.h"
#include "common/cleanup.h"
#include "common/util.h"
#include "tests/support/local.h"

#define DAEMON_OPTIONS 16u

static const char *daemon_builddir(void)
{
	const char *directory = getenv("top_builddir");

	return directory ? directory : ".";
}

/* ------------------------------------------------------------------------ files */

static void daemon_copy(const char *from, const char *to)
{
	_cleanup_close_ int in = open(from, O_RDONLY | O_CLOEXEC);
	_cleanup_close_ int out = open(to, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0755);
	char data[65536];
	ssize_t n;

	ck_assert_msg(in >= 0, "%s: %s", from, strerror(errno));
	ck_assert_msg(out >= 0, "%s: %s", to, strerror(errno));
	while ((n = read(in, data, sizeof(data))) > 0)
		ck_assert_int_eq(write(out, data, (size_t)n), n);
	ck_assert_int_eq(n, 0);
}

void daemon_add_module(struct daemon *d, const char *path, const char *name)
{
	char from[4096], to[256];

	(void)snprintf(from, sizeof(from), "%s/%s", daemon_builddir(), path);
	(void)snprintf(to, sizeof(to), "%s/%s", d->modules, name);
	daemon_copy(from, to);
}

static void daemon_add_all(struct daemon *d, const char *directory)
{
	_cleanup_closedir_ DIR *dir = NULL;
	char path[4096];
	struct dirent *e;

	(void)snprintf(path, sizeof(path), "%s/%s", daemon_builddir(), directory);
	dir = opendir(path);
	ck_assert_msg(dir != NULL, "%s: %s", path, strerror(errno));
	while ((e = readdir(dir))) {
		size_t n = strlen(e->d_name);

		if (n < 4 || !streq(e->d_name + n - 3, ".so") || !strncmp(e->d_name, "broken_", 7))
			continue;
		(void)snprintf(path, sizeof(path), "%s/%s", directory, e->d_name);
		daemon_add_module(d, path, e->d_name);
	}
}

void daemon_prepare_bare(struct daemon *d)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	char mine[96];

	memset(d, 0, sizeof(*d));
	ck_assert_int_eq(prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
	(void)snprintf(d->directory, sizeof(d->directory), "%s/forkd-test-XXXXXX",
		       local_is_on() ? getenv("FORKD_TEST_LOCAL") : "/tmp");
	ck_assert_ptr_nonnull(mkdtemp(d->directory));
	/* Another uid must be able to reach the socket. */
	ck_assert_int_eq(chmod(d->directory, 0711), 0);
	(void)snprintf(d->socket, sizeof(d->socket), "%s/socket", d->directory);
	(void)snprintf(d->modules, sizeof(d->modules), "%s/modules", d->directory);
	(void)snprintf(d->log, sizeof(d->log), "%s/log", d->directory);
	ck_assert_int_eq(mkdir(d->modules, 0755), 0);
	/* A pool that runs as another user removes the token of a crash site. */
	(void)snprintf(mine, sizeof(mine), "%s/mine", d->directory);
	ck_assert_int_eq(mkdir(mine, 0755), 0);
	ck_assert_int_eq(chmod(mine, 0777), 0);

	(void)snprintf(address.sun_path, sizeof(address.sun_path), "%s/notify", d->directory);
	d->notify_fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	ck_assert_int_ge(d->notify_fd, 0);
	ck_assert_int_eq(bind(d->notify_fd, (struct sockaddr *)&address, sizeof(address)), 0);
}

void daemon_prepare(struct daemon *d)
{
	daemon_prepare_bare(d);
	daemon_add_all(d, "daemon/modules/.libs");
	daemon_add_all(d, "tests/support/modules/.libs");
}

/* ------------------------------------------------------------------------ crash sites */

static void daemon_token(struct daemon *d, char *path, size_t size)
{
	(void)snprintf(path, size, "%s/mine/token", d->directory);
}

void daemon_mine(struct daemon *d, const char *site, uint32_t after)
{
	char path[96], number[16];

	LOCAL_REFUSE("a process that dies");
	if (!d->directory[0])
		daemon_prepare(d);
	daemon_token(d, path, sizeof(path));
	(void)snprintf(number, sizeof(number), "%u", after);
	ck_assert_int_eq(close(open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600)), 0);
	ck_assert_int_eq(setenv("FORKD_CRASH_SITE", site, 1), 0);
	ck_assert_int_eq(setenv("FORKD_CRASH_AFTER", number, 1), 0);
	ck_assert_int_eq(setenv("FORKD_CRASH_TOKEN", path, 1), 0);
}

void daemon_unmine(struct daemon *d)
{
	char path[96];

	daemon_token(d, path, sizeof(path));
	(void)unlink(path);
}

bool daemon_is_mined(struct daemon *d)
{
	char path[96];

	daemon_token(d, path, sizeof(path));
	return access(path, F_OK) == 0;
}

/* ------------------------------------------------------------------------ start */

_Noreturn void daemon_exec(struct daemon *d, const char *const *options)
{
	char forkd[4096], notify[128], socket[128], modules[128], user[128];
	const char *argv[DAEMON_OPTIONS + 8];
	const char *tasks_user = getenv("FORKD_TEST_USER");
	uint32_t n = 0;
	int fd = open(d->log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);

	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	(void)snprintf(forkd, sizeof(forkd), "%s/forkd", daemon_builddir());
	(void)snprintf(notify, sizeof(notify), "%s/notify", d->directory);
	(void)snprintf(socket, sizeof(socket), "--socket=%s", d->socket);
	(void)snprintf(modules, sizeof(modules), "--module-dir=%s", d->modules);
	(void)snprintf(user, sizeof(user), "--user=%s", tasks_user ? tasks_user : "");
	argv[n++] = forkd;
	argv[n++] = socket;
	argv[n++] = modules;
	argv[n++] = "--quarantine-task-crashes=0";
	argv[n++] = "--quarantine-user-crashes=0";
	/* Tests read /proc of forkd's processes, which a sandboxed forkd hides from its own user
	 * except root. */
	if (geteuid() != 0)
		argv[n++] = "--sandbox=off";
	/* Root can run the whole suite with this option. */
	if (tasks_user)
		argv[n++] = user;
	while (*options && n < DAEMON_OPTIONS + 7)
		argv[n++] = *options++;
	argv[n] = NULL;
	/* Under the systemd stub (tests/support/kept.c), NOTIFY_SOCKET is set already. */
	if (!getenv("FDSTORE"))
		(void)setenv("NOTIFY_SOCKET", notify, 1);
	(void)dup2(fd, STDOUT_FILENO);
	(void)dup2(fd, STDERR_FILENO);
	if (d->entering)
		d->entering();
	(void)execv(forkd, (char *const *)(uintptr_t)argv);
	_exit(127);
}

/* Waits until READY=1 was received or the process has ended. */
static bool daemon_is_ready(struct daemon *d)
{
	uint64_t end = clock_ns() + DAEMON_PATIENCE * NSEC_PER_SEC;
	siginfo_t info = { 0 };

	while (clock_ns() < end) {
		struct pollfd p = { .fd = d->notify_fd, .events = POLLIN };
		char text[1024];
		ssize_t n;

		if (poll(&p, 1, 10) > 0) {
			n = recv(d->notify_fd, text, sizeof(text) - 1, 0);
			text[n > 0 ? n : 0] = '\0';
			if (strstr(text, "READY=1"))
				return true;
		} else if (waitid(P_PID, (id_t)d->manager, &info, WEXITED | WNOHANG | WNOWAIT) ==
				   0 &&
			   info.si_pid) {
			return false;
		}
	}
	ck_abort_msg("forkd is not ready; its log is %s", d->log);
	return false;
}

int daemon_launch(struct daemon *d, const char *const *options)
{
	LOCAL_REFUSE("a process that starts");
	if (!d->directory[0])
		daemon_prepare(d);
	d->manager = fork();
	ck_assert_int_ge(d->manager, 0);
	if (d->manager == 0)
		daemon_exec(d, options);
	return daemon_is_ready(d) ? -1 : daemon_reap(d->manager);
}

/* Returns true for an option that makes a daemon smaller or its tasks less privileged: a test that
 * does not reach the limit does not differ without it. */
static bool daemon_has_limit(const char *option)
{
	static const char *const limits[] = { "--arena-max=", "--clients-max=", "--hang-timeout=",
					      "--sandbox=", "--stack-max=" };

	for (size_t i = 0; i < ARRAY_SIZE(limits); i++)
		if (!strncmp(option, limits[i], strlen(limits[i])))
			return true;
	return false;
}

void daemon_start_local(struct daemon *d, const char *const *options)
{
	_cleanup_closedir_ DIR *dir = NULL;
	uint32_t workers = 0;
	char path[512];
	struct dirent *e;

	for (; *options; options++)
		if (sscanf(*options, "--workers=%u", &workers) != 1)
			ck_assert_msg(daemon_has_limit(*options), "not with a local pool: %s",
				      *options);
	if (!d->directory[0])
		daemon_prepare(d);
	(void)snprintf(d->socket, sizeof(d->socket), "local");
	d->manager = INT32_MAX; /* no process has this number */
	d->watcher = local_open(workers, 0, 0);
	d->board = d->watcher->board;
	dir = opendir(d->modules);
	while (dir && (e = readdir(dir)))
		if (e->d_name[0] != '.') {
			(void)snprintf(path, sizeof(path), "%s/%s", d->modules, e->d_name);
			local_load(d->watcher, path);
		}
}

int daemon_try(struct daemon *d, const char *const *options)
{
	int status;

	if (local_is_on()) {
		daemon_start_local(d, options);
		return -1;
	}
	status = daemon_launch(d, options);
	if (status != -1)
		return status;
	d->watcher = daemon_open(d);
	d->board = d->watcher->board;
	(void)daemon_pool(d);
	return -1;
}

/* Appends the strings up to NULL, and the NULL, to words[n]. */
static void daemon_words(const char *words[DAEMON_OPTIONS], uint32_t n, va_list ap)
{
	do {
		ck_assert_uint_lt(n, DAEMON_OPTIONS);
		words[n] = va_arg(ap, const char *);
	} while (words[n++]);
}

void daemon_start(struct daemon *d, ...)
{
	const char *options[DAEMON_OPTIONS];
	va_list ap;
	int status;

	va_start(ap, d);
	daemon_words(options, 0, ap);
	va_end(ap);
	status = daemon_try(d, options);
	ck_assert_msg(status == -1, "forkd ended with %d; its log is %s", status, d->log);
}

fk_client *daemon_open(struct daemon *d)
{
	fk_client *client = NULL;
	int err = fk_open(d->socket, NULL, &client);

	ck_assert_msg(err == 0, "%s: %s", fk_error_text(), fk_strerror(err));
	return client;
}

void daemon_call_fib(struct daemon *d)
{
	fk_client *client = daemon_open(d);
	int64_t n = 0;

	ck_assert_int_eq(fk_call(client, "fib:fib", &n, (int64_t)15), 0);
	ck_assert_int_eq(n, 610);
	ck_assert_int_eq(fk_close(client), 0);
}

pid_t daemon_pool(struct daemon *d)
{
	pid_t pid;

	DAEMON_AWAIT((pid = (pid_t)atomic_load(&d->board->manager.pool_pid)) != 0);
	for (uint32_t i = 0; i < d->n_pools; i++)
		if (d->pools[i] == pid)
			return pid;
	if (d->n_pools < DAEMON_POOLS)
		d->pools[d->n_pools++] = pid;
	return pid;
}

uint64_t daemon_counter(struct daemon *d, const char *name)
{
	for (uint32_t i = 0; i < board_n_counters; i++)
		if (streq(board_counter_rows[i].name, name))
			return board_counter_sum(d->board, &board_counter_rows[i]);
	ck_abort_msg("there is no counter %s", name);
	return 0;
}

uint32_t daemon_count_lines(struct daemon *d, const char *text, const char *and)
{
	_cleanup_fclose_ FILE *f = fopen(d->log, "re");
	_cleanup_free_ char *line = NULL;
	size_t size = 0;
	uint32_t n = 0;

	LOCAL_REFUSE("a log");
	while (f && getline(&line, &size, f) >= 0)
		n += strstr(line, text) && strstr(line, and);
	return n;
}

bool daemon_logged(struct daemon *d, const char *text, const char *and)
{
	return daemon_count_lines(d, text, and) > 0;
}

/* ------------------------------------------------------------------------ other processes */

bool daemon_has_ended(pid_t pid)
{
	siginfo_t info = { 0 };

	ck_assert_int_eq(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT), 0);
	return info.si_pid != 0;
}

int daemon_reap(pid_t pid)
{
	int status;

	while (waitpid(pid, &status, 0) < 0)
		ck_assert_int_eq(errno, EINTR);
	return WIFSIGNALED(status) ? 256 + WTERMSIG(status) : WEXITSTATUS(status);
}

void daemon_kill_client(pid_t pid)
{
	ck_assert_int_eq(kill(pid, SIGKILL), 0);
	ck_assert_int_eq(daemon_reap(pid), 256 + SIGKILL);
}

void *daemon_share(size_t size)
{
	void *shared = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	ck_assert_ptr_ne(shared, MAP_FAILED);
	return shared;
}

int daemon_compare_u64(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

pid_t daemon_fork(uint32_t uid)
{
	pid_t pid;

	LOCAL_REFUSE("a client in another process");
	(void)fflush(NULL);
	pid = fork();
	/* Not in the child: it may be killed while libcheck writes down its location. */
	if (pid) {
		ck_assert_int_gt(pid, 0);
		return pid;
	}
	if (uid != DAEMON_UID && geteuid() == 0 &&
	    (syscall(SYS_setgroups, 0, NULL) < 0 || setgid(uid) < 0 || setuid(uid) < 0))
		_exit(90);
	/* Set here, after the change of uid, which clears it. */
	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	return 0;
}

pid_t daemon_client(void (*run)(void), uint32_t uid)
{
	pid_t pid = daemon_fork(uid);

	if (pid)
		return pid;
	run();
	_exit(0);
}

pid_t daemon_spawn(struct daemon *d, const char *output, const char *const *argv)
{
	char program[4096], path[256];
	pid_t pid;
	int fd;

	LOCAL_REFUSE("a client in another process");
	(void)snprintf(path, sizeof(path), "%s/%s", d->directory, output);
	(void)snprintf(program, sizeof(program), "%s%s%s",
		       argv[0][0] == '/' ? "" : daemon_builddir(), argv[0][0] == '/' ? "" : "/",
		       argv[0]);
	(void)fflush(NULL);
	pid = fork();
	ck_assert_int_ge(pid, 0);
	if (pid)
		return pid;
	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	(void)dup2(fd, STDOUT_FILENO);
	(void)dup2(fd, STDERR_FILENO);
	(void)setenv("FORKD_SOCKET", d->socket, 1);
	(void)execv(program, (char *const *)(uintptr_t)argv);
	_exit(127);
}

static void daemon_read(struct daemon *d, const char *output, char *text, size_t size)
{
	char path[256];
	_cleanup_close_ int fd = -1;
	ssize_t n;

	(void)snprintf(path, sizeof(path), "%s/%s", d->directory, output);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	ck_assert_int_ge(fd, 0);
	n = read(fd, text, size - 1);
	text[n > 0 ? n : 0] = '\0';
}

int daemon_run(struct daemon *d, char *text, size_t size, const char *const *argv)
{
	int status = daemon_reap(daemon_spawn(d, "output", argv));

	daemon_read(d, "output", text, size);
	return status;
}

int daemon_ctl(struct daemon *d, char *text, size_t size, ...)
{
	const char *argv[DAEMON_OPTIONS] = { "forkctl" };
	va_list ap;

	va_start(ap, size);
	daemon_words(argv, 1, ap);
	va_end(ap);
	return daemon_run(d, text, size, argv);
}

void daemon_see_ctl(struct daemon *d, int status, const char *text, ...)
{
	const char *argv[DAEMON_OPTIONS] = { "forkctl" };
	char output[1024];
	va_list ap;

	va_start(ap, text);
	daemon_words(argv, 1, ap);
	va_end(ap);
	ck_assert_int_eq(daemon_run(d, output, sizeof(output), argv), status);
	ck_assert_msg(strstr(output, text), "\"%s\" is not in: %s", text, output);
}

void daemon_set(struct daemon *d, const char *option, const char *value, const char *answer)
{
	char output[1024];

	ck_assert_int_eq(daemon_ctl(d, output, sizeof(output), "set", option, value, NULL), 0);
	ck_assert_str_eq(output, answer);
}
