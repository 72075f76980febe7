/* SPDX-License-Identifier: MIT */
/*
 * session.c - forkctl session: a private forkd for one command
 *
 * Creates a directory that only this user can enter, starts forkd on a socket in it, and waits for
 * READY=1 on a notification socket. Then runs the command with FORKD_SOCKET set, stops forkd, and
 * ends with the exit status of the command. Neither root nor systemd is needed.
 *
 * 	forkctl session [FORKD-OPTION...] -- COMMAND [ARG...]
 *
 * forkctl check and profile run a function instead of a command, in a separate process.
 *
 * INVARIANTS
 *   I1. The command gets the signals of the terminal, as under a shell: SIGINT and SIGQUIT
 *       reach it through its process group and are ignored here; SIGTERM and SIGHUP are passed on.
 *       forkd has a process group of its own, so that it outlives the command.
 *   I2. Whatever way this process ends, forkd gets SIGTERM (PR_SET_PDEATHSIG).
 *
 * If forkd dies before READY=1, the exit status is 3, and forkd or this process prints the reason.
 * If it dies later, a line is printed, and the command continues without a connection. After
 * SIGKILL of this process only the directory remains (I2).
 */
#include "client/forkctl/common.h"
#include "client/forkctl/forkctl.h"
#include "client/forkctl/child_command.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/clock.h"
#include "common/util.h"
#include "common/valgrind.h"

#define SESSION_START_NS (30 * NSEC_PER_SEC)
#define SESSION_STOP_NS	 (30 * NSEC_PER_SEC) /* more than forkd's own stop-timeout */
#define SESSION_ARGS	 8		     /* arguments that a session adds */
#define SESSION_OPTIONS	 12		     /* options for forkctl check or profile */

struct session {
	char directory[64];
	char socket[96];
	char notify[96];
	char forkd[4096];
	char modules[4096]; /* empty: the default of forkd */
	int has_modules;    /* they are of an option */
	int notify_fd;
	int signal_fd;
	sigset_t old_mask;
	pid_t daemon;  /* 0: not running */
	pid_t command; /* 0: not running */
	int daemon_status;
	int command_status;
};

static int is_program(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 && S_ISREG(st.st_mode) && access(path, X_OK) == 0;
}

static int is_directory(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

/* The directory of this program, without a slash at the end. */
static int own_directory(char *ret, size_t size)
{
	ssize_t n = readlink("/proc/self/exe", ret, size - 1);
	char *slash;

	if (n < 0)
		return -errno;
	ret[n] = '\0';
	slash = strrchr(ret, '/');
	if (!slash)
		return -ENOENT;
	*slash = '\0';
	return 0;
}

/* forkd: $FORKD_BIN, in the directory of forkctl (a build tree), in ../sbin, or installed. Modules:
 * $FORKD_MODULES, or those of the build tree. */
static int find_forkd(struct session *s)
{
	const char *bin = secure_getenv("FORKD_BIN");
	const char *modules = secure_getenv("FORKD_MODULES");
	char own[3072];

	if (modules)
		(void)snprintf(s->modules, sizeof(s->modules), "%s", modules);
	if (bin) {
		(void)snprintf(s->forkd, sizeof(s->forkd), "%s", bin);
		if (is_program(s->forkd))
			return 0;
		return forkctl_fail(FORKCTL_NO_DAEMON, "FORKD_BIN=%s is not an executable file",
				    bin);
	}
	if (own_directory(own, sizeof(own)) == 0) {
		(void)snprintf(s->forkd, sizeof(s->forkd), "%s/forkd", own);
		if (is_program(s->forkd)) {
			char built[4096];

			(void)snprintf(built, sizeof(built), "%s/daemon/modules/.libs", own);
			if (!modules && is_directory(built))
				memcpy(s->modules, built, sizeof(built));
			return 0;
		}
		(void)snprintf(s->forkd, sizeof(s->forkd), "%s/../sbin/forkd", own);
		if (is_program(s->forkd))
			return 0;
	}
	(void)snprintf(s->forkd, sizeof(s->forkd), "%s/forkd", FK_SBINDIR);
	if (is_program(s->forkd))
		return 0;
	return forkctl_fail(FORKCTL_NO_DAEMON, "cannot find %s: install forkd or set FORKD_BIN",
			    s->forkd);
}

static int make_directory(struct session *s)
{
	const char *runtime = secure_getenv("XDG_RUNTIME_DIR");

	/* mkdtemp() uses mode 0700. The path must be short enough for a socket in it. */
	if (!runtime || runtime[0] != '/' || strlen(runtime) > 40 || access(runtime, W_OK) != 0)
		runtime = "/tmp";
	(void)snprintf(s->directory, sizeof(s->directory), "%s/forkd-XXXXXX", runtime);
	if (!mkdtemp(s->directory))
		return forkctl_fail(FORKCTL_NO_DAEMON, "cannot create a directory in %s: %s",
				    runtime, strerrordesc_np(errno));
	(void)snprintf(s->socket, sizeof(s->socket), "%s/forkd.sock", s->directory);
	(void)snprintf(s->notify, sizeof(s->notify), "%s/notify", s->directory);
	return 0;
}

static int open_notify(struct session *s)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };

	memcpy(address.sun_path, s->notify, strlen(s->notify) + 1);
	s->notify_fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (s->notify_fd < 0 ||
	    bind(s->notify_fd, (struct sockaddr *)&address, sizeof(address)) < 0)
		return forkctl_fail(FORKCTL_NO_DAEMON, "cannot listen on %s: %s", s->notify,
				    strerrordesc_np(errno));
	return 0;
}

/* Executes forkd in the child of a fork. Never returns. */
static void exec_forkd(const struct session *s, pid_t parent, int n_options, char *options[])
{
	static char config_option[] = "--config=/dev/null";
	static char socket_option[] = "--socket";
	static char modules_option[] = "--module-dir";
	static char level_option[] = "--log-level=warning";
	static char user_option[] = "--user=0";
	_cleanup_free_ char **argv = calloc((size_t)n_options + SESSION_ARGS + 1, sizeof(*argv));
	int own_config = 0;
	int n = 0;

	if (!argv)
		_exit(5);
	argv[n++] = (char *)(uintptr_t)s->forkd;
	/* The forkd.conf of the machine is not for a private forkd. */
	for (int i = 0; i < n_options; i++)
		own_config |= !strncmp(options[i], "--config", strlen("--config")) &&
			      (!options[i][8] || options[i][8] == '=');
	if (!own_config)
		argv[n++] = config_option;
	/* As root, the modules are often in a directory that no other user can read. A --user among
	 * the options follows, and takes precedence. */
	if (!own_config && geteuid() == 0)
		argv[n++] = user_option;
	/* The terminal belongs to the command. A --log-level among the options takes precedence. */
	argv[n++] = level_option;
	argv[n++] = socket_option;
	argv[n++] = (char *)(uintptr_t)s->socket;
	if (s->modules[0]) {
		argv[n++] = modules_option;
		argv[n++] = (char *)(uintptr_t)s->modules;
	}
	for (int i = 0; i < n_options; i++)
		argv[n++] = options[i];

	(void)setpgid(0, 0);
	(void)prctl(PR_SET_PDEATHSIG, SIGTERM);
	if (getppid() != parent)
		_exit(5);
	(void)setenv("NOTIFY_SOCKET", s->notify, 1);
	(void)unsetenv("LISTEN_FDS");
	(void)unsetenv("LISTEN_PID");
	(void)unsetenv("LISTEN_FDNAMES");
	(void)unsetenv("FDSTORE");
	(void)unsetenv("WATCHDOG_USEC");
	(void)unsetenv("WATCHDOG_PID");
	(void)sigprocmask(SIG_SETMASK, &s->old_mask, NULL);
	(void)execv(s->forkd, argv);
	_exit(forkctl_fail(127, "cannot start %s: %s", s->forkd, strerrordesc_np(errno)));
}

static int start_forkd(struct session *s, int n_options, char *options[])
{
	pid_t parent = getpid();

	s->daemon = fork();
	if (s->daemon < 0) {
		s->daemon = 0;
		return forkctl_fail(FORKCTL_NO_DAEMON, "cannot fork: %s", strerrordesc_np(errno));
	}
	if (!s->daemon)
		exec_forkd(s, parent, n_options, options);
	return 0;
}

/* The command of a session: a program, or a function. */
struct session_command {
	char **argv; /* NULL: call run() */
	int (*run)(const char *socket, void *context);
	void *context;
};

static int start_command(struct session *s, const struct session_command *command)
{
	s->command = fork();
	if (s->command < 0) {
		s->command = 0;
		return forkctl_fail(FORKCTL_FAILED, "cannot fork: %s", strerrordesc_np(errno));
	}
	if (!s->command) {
		int code;

		(void)setenv("FORKD_SOCKET", s->socket, 1);
		/* For commands that start a private forkd. */
		if (s->has_modules)
			(void)setenv("FORKD_MODULES", s->modules, 1);
		if (command->argv)
			forkctl_exec(command->argv, &s->old_mask);
		(void)sigprocmask(SIG_SETMASK, &s->old_mask, NULL);
		code = command->run(s->socket, command->context);
		(void)fflush(stdout);
		_exit(code);
	}
	return 0;
}

static void reap(struct session *s)
{
	int status;
	pid_t pid;

	while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
		if (pid == s->daemon) {
			s->daemon = 0;
			s->daemon_status = status;
		} else if (pid == s->command) {
			s->command = 0;
			s->command_status = status;
		}
	}
}

/* Handles the signals in the signalfd. While no command runs, returns the last signal that is to
 * end forkctl, 0 for none. */
static int read_signals(struct session *s)
{
	struct signalfd_siginfo info;
	int asked = 0;

	while (read(s->signal_fd, &info, sizeof(info)) == (ssize_t)sizeof(info)) {
		int signo = (int)info.ssi_signo;

		if (signo == SIGCHLD)
			reap(s);
		else if (!s->command)
			asked = signo;
		else if (signo == SIGTERM || signo == SIGHUP)
			(void)kill(s->command, signo);
	}
	return asked;
}

/* True once forkd has said READY=1. */
static int read_notify(struct session *s)
{
	char text[4096];
	int ready = 0;
	ssize_t n;

	while ((n = recv(s->notify_fd, text, sizeof(text) - 1, MSG_DONTWAIT)) > 0) {
		text[n] = '\0';
		for (char *line = text, *rest; line; line = rest) {
			rest = strchr(line, '\n');
			if (rest)
				*rest++ = '\0';
			ready |= streq(line, "READY=1");
		}
	}
	return ready;
}

/* Waits for a signal or a notification until the deadline. */
static void wait_for_something(const struct session *s, uint64_t deadline)
{
	struct pollfd fds[] = {
		{ .fd = s->signal_fd, .events = POLLIN },
		{ .fd = s->notify_fd, .events = POLLIN },
	};
	uint64_t now = clock_ns();
	struct timespec ts = clock_to_timespec(deadline > now ? deadline - now : 0);

	(void)ppoll(fds, ARRAY_SIZE(fds), deadline == UINT64_MAX ? NULL : &ts, NULL);
}

static int wait_for_ready(struct session *s)
{
	/* No limit under valgrind, which is many times slower. */
	uint64_t deadline = on_valgrind() ? UINT64_MAX : clock_ns() + SESSION_START_NS;

	for (;;) {
		int signo = read_signals(s);

		if (signo)
			return 128 + signo;
		/* forkd has printed the reason. */
		if (!s->daemon && WIFEXITED(s->daemon_status) && WEXITSTATUS(s->daemon_status))
			return FORKCTL_NO_DAEMON;
		if (!s->daemon)
			return forkctl_fail(FORKCTL_NO_DAEMON,
					    "%s ended before it was ready, with code %d", s->forkd,
					    forkctl_exit_status(s->daemon_status));
		if (read_notify(s))
			return 0;
		if (clock_ns() >= deadline)
			return forkctl_fail(FORKCTL_NO_DAEMON, "%s was not ready in %d s", s->forkd,
					    (int)(SESSION_START_NS / NSEC_PER_SEC));
		wait_for_something(s, deadline);
	}
}

static int wait_for_command(struct session *s)
{
	int told = 0;

	for (;;) {
		(void)read_signals(s);
		(void)read_notify(s);
		if (!s->command)
			return forkctl_exit_status(s->command_status);
		if (!s->daemon && !told) {
			told = 1;
			(void)forkctl_fail(0,
					   "%s ended while the command was running, with code %d",
					   s->forkd, forkctl_exit_status(s->daemon_status));
		}
		wait_for_something(s, UINT64_MAX);
	}
}

static void stop_forkd(struct session *s)
{
	uint64_t deadline = clock_ns() + SESSION_STOP_NS;

	if (s->daemon)
		(void)kill(s->daemon, SIGTERM);
	while (s->daemon) {
		(void)read_signals(s);
		(void)read_notify(s);
		if (!s->daemon)
			break;
		if (clock_ns() >= deadline) {
			(void)forkctl_fail(0, "%s did not stop in time and was killed", s->forkd);
			(void)kill(s->daemon, SIGKILL);
			(void)waitpid(s->daemon, &s->daemon_status, 0);
			s->daemon = 0;
			break;
		}
		wait_for_something(s, deadline);
	}
}

static void clean_up(struct session *s)
{
	(void)safe_close(s->notify_fd);
	if (s->signal_fd >= 0) {
		(void)safe_close(s->signal_fd);
		(void)sigprocmask(SIG_SETMASK, &s->old_mask, NULL);
	}
	if (!s->directory[0])
		return;
	(void)unlink(s->socket);
	(void)unlink(s->notify);
	(void)rmdir(s->directory);
}

/* --module-dir among the options. */
static void find_module_dir(struct session *s, int n_options, char *options[])
{
	static const char name[] = "--module-dir";
	const size_t n = sizeof(name) - 1;

	for (int i = 0; i < n_options; i++) {
		const char *value = NULL;

		if (!strncmp(options[i], name, n) && options[i][n] == '=')
			value = options[i] + n + 1;
		else if (streq(options[i], name) && i + 1 < n_options)
			value = options[++i];
		if (!value)
			continue;
		(void)snprintf(s->modules, sizeof(s->modules), "%s", value);
		s->has_modules = 1;
	}
}

static int run_session(int n_options, char *options[], const struct session_command *command)
{
	struct session s = { .notify_fd = -1, .signal_fd = -1 };
	int status = find_forkd(&s);

	if (!status) {
		s.signal_fd = forkctl_catch_signals(&s.old_mask);
		status = s.signal_fd < 0 ? FORKCTL_NO_DAEMON : 0;
	}
	if (!status) {
		status = make_directory(&s);
		if (status)
			s.directory[0] = '\0';
	}
	if (!status)
		status = open_notify(&s);
	find_module_dir(&s, n_options, options);
	if (!status)
		status = start_forkd(&s, n_options, options);
	if (!status)
		status = wait_for_ready(&s);
	if (!status)
		status = start_command(&s, command);
	if (s.command)
		status = wait_for_command(&s);
	stop_forkd(&s);
	clean_up(&s);
	return status;
}

int forkctl_with_forkd(const char *mode, uint32_t workers, char *const more[],
		       int (*run)(const char *socket, void *context), void *context)
{
	struct session_command command = { .run = run, .context = context };
	char fork_mode[32], n_workers[32], stop[] = "--stop-timeout=100ms";
	/* Effectively no memory limits: the forkd has no other jobs. */
	char total[] = "--memory-max=16T", memory[] = "--shared-memory-max=4G",
	     heap[] = "--heap-max=2G";
	/* No quarantine: each call of a task that crashes must crash. */
	char crashes[] = "--quarantine-task-crashes=0", budget[] = "--quarantine-user-crashes=0";
	char *options[SESSION_OPTIONS] = { fork_mode, n_workers, stop,	  total,
					   memory,    heap,	 crashes, budget };
	int n = 8, status;

	(void)snprintf(fork_mode, sizeof(fork_mode), "--fork-mode=%s", mode);
	(void)snprintf(n_workers, sizeof(n_workers),
		       workers ? "--workers=%" PRIu32 : "--workers=auto", workers);
	for (; *more; more++) {
		assert(n < SESSION_OPTIONS);
		options[n++] = *more;
	}
	/* Buffered output must not be written twice. */
	(void)fflush(stdout);
	status = run_session(n, options, &command);
	/* Report signals except those that users send to end a program. */
	if (status > 128 && status != 128 + SIGINT && status != 128 + SIGTERM &&
	    status != 128 + SIGHUP && status != 128 + SIGQUIT)
		(void)forkctl_fail(status,
				   "ended by signal %d (SIG%s), which is a bug: please report it",
				   status - 128,
				   sigabbrev_np(status - 128) ? sigabbrev_np(status - 128) : "?");
	return status;
}

int forkctl_session(const char *socket, int argc, char *argv[])
{
	struct session_command command = { NULL };
	int dashes = 1;

	if (socket)
		return forkctl_fail(FORKCTL_USAGE,
				    "session uses a private socket: remove --socket");
	while (dashes < argc && !streq(argv[dashes], "--"))
		dashes++;
	if (dashes == argc && argc > 1)
		return forkctl_fail(FORKCTL_USAGE,
				    "session: put -- before the command: `forkctl session -- %s "
				    "...`, or `forkctl session --workers=2 -- ...`",
				    argv[1][0] == '-' ? "COMMAND" : argv[1]);
	if (dashes >= argc - 1)
		return forkctl_fail(FORKCTL_USAGE,
				    "session: no command given: `forkctl session [FORKD-OPTION...] "
				    "-- COMMAND [ARG...]`");
	for (int i = 1; i < dashes; i++) {
		if (!strncmp(argv[i], "--socket", strlen("--socket")) &&
		    (!argv[i][8] || argv[i][8] == '='))
			return forkctl_fail(FORKCTL_USAGE,
					    "session uses a private socket: remove --socket");
	}
	command.argv = argv + dashes + 1;
	return run_session(dashes - 1, argv + 1, &command);
}
