/* SPDX-License-Identifier: MIT */
/*
 * check_reload_trial.c - a trial that takes too long, and one that survives SIGKILL: the manager
 * waits for neither
 *
 * The trial is this program, as reload_trial.c starts it: --dry-run. A tracer that does not react
 * delays its end, as a disk that hangs would.
 */
#include "daemon/manager/reload_trial.h"

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/check_unit.h"
#include "tests/support/daemon.h"

#define FILE_FD 3

static struct loop loop;
static struct reload_trial trial;
static uint32_t over;
static char why_not[160];

/* The trial's side: it exists, and waits forever. */
static void __attribute__((constructor)) be_the_trial(int argc, char **argv)
{
	if (argc < 2 || strcmp(argv[1], "--dry-run") != 0)
		return;
	(void)prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);
	(void)!write(FILE_FD, "x", 1);
	for (;;)
		(void)pause();
}

static bool is_held; /* a tracer holds the trial */

int __real_kill(pid_t pid, int signo);
int __wrap_kill(pid_t pid, int signo);

/* A process that is not held has ended when the manager's kill(2) returns. So its end precedes the
 * time limit for it, whenever these processes have a CPU. */
int __wrap_kill(pid_t pid, int signo)
{
	int r = __real_kill(pid, signo);
	siginfo_t info;

	if (signo == SIGKILL && !is_held)
		(void)waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT);
	return r;
}

static void on_done(struct reload_trial *t, struct reload_trial_found *found, const char *why)
{
	(void)t;
	ck_assert_ptr_null(found);
	over++;
	(void)snprintf(why_not, sizeof(why_not), "%s", why);
	loop_stop(&loop);
}

static void begin(uint64_t limit_ns)
{
	trial = RELOAD_TRIAL_INIT;
	trial.loop = &loop;
	trial.limit_ns = limit_ns;
	trial.done = on_done;
	ck_assert_int_eq(loop_init(&loop), 0);
}

static void start(void)
{
	static char name[] = "forkd";
	char *const args[] = { name, NULL };
	char byte;

	ck_assert_int_eq(reload_trial_start(&trial, args), 0);
	while (pread(trial.file, &byte, 1, 0) != 1)
		(void)usleep(100);
}

/* Until *ret_go is closed, the process does not end. Returns the tracer. */
static pid_t hold(pid_t pid, int *ret_go)
{
	int go[2], ready[2];
	pid_t tracer;
	char byte;

	ck_assert_int_eq(pipe(go), 0);
	ck_assert_int_eq(pipe(ready), 0);
	tracer = fork();
	if (tracer == 0) {
		(void)close(go[1]);
		if (ptrace(PTRACE_SEIZE, pid, NULL, PTRACE_O_TRACEEXIT) < 0)
			_exit(1);
		(void)!write(ready[1], "x", 1);
		(void)!read(go[0], &byte, 1);
		_exit(0);
	}
	(void)close(ready[1]);
	ck_assert_msg(read(ready[0], &byte, 1) == 1, "a child cannot be traced here");
	(void)close(ready[0]);
	(void)close(go[0]);
	is_held = true;
	*ret_go = go[1];
	return tracer;
}

static void let_go(pid_t tracer, int go)
{
	(void)close(go);
	ck_assert_int_eq(waitpid(tracer, NULL, 0), tracer);
	is_held = false;
}

static void on_look(struct loop_source *source, int result)
{
	(void)result;
	if (trial.pid)
		ck_assert_int_eq(loop_timer(&loop, source, NSEC_PER_MSEC), 0);
	else
		loop_stop(&loop);
}

/* Until a callback stops it. */
static void run(void)
{
	loop.stopped = false;
	ck_assert_int_eq(loop_run(&loop), 0);
}

START_TEST(trial_that_takes_too_long_is_killed)
{
	begin(1);
	start();
	run();
	ck_assert_uint_eq(over, 1);
	ck_assert_ptr_nonnull(strstr(why_not, "took more than"));
	ck_assert_ptr_null(strstr(why_not, "stuck"));
	ck_assert_int_eq(trial.pid, 0);
	ck_assert_int_eq(waitpid(-1, NULL, WNOHANG), -1);
	loop_fini(&loop);
}
END_TEST

START_TEST(trial_that_survives_its_kill_is_reported_and_reaped_later)
{
	struct loop_source look = { .call = on_look };
	char *const none[] = { NULL };
	pid_t tracer;
	int go;

	begin(1);
	start();
	tracer = hold(trial.pid, &go);
	run();
	ck_assert_uint_eq(over, 1);
	ck_assert_ptr_nonnull(strstr(why_not, "stuck"));
	ck_assert_int_ne(trial.pid, 0);
	ck_assert_int_eq(reload_trial_start(&trial, none), -EBUSY);
	let_go(tracer, go);
	ck_assert_int_eq(loop_timer(&loop, &look, NSEC_PER_MSEC), 0);
	run();
	ck_assert_uint_eq(over, 1);
	ck_assert_int_eq(waitpid(-1, NULL, WNOHANG), -1);
	/* And another trial can be started. */
	start();
	run();
	ck_assert_uint_eq(over, 2);
	loop_fini(&loop);
}
END_TEST

START_TEST(trial_that_gets_SIGHUP_continues)
{
	begin(3600 * NSEC_PER_SEC);
	start();
	/* Delivered before the next signal. */
	ck_assert_int_eq(kill(trial.pid, SIGHUP), 0);
	ck_assert_int_eq(kill(trial.pid, SIGTERM), 0);
	run();
	ck_assert_ptr_nonnull(strstr(why_not, "died of signal 15"));
	loop_fini(&loop);
}
END_TEST

/* There is a descriptor for its file, and none for its end. */
START_TEST(trial_whose_end_cannot_be_watched_is_not_left)
{
	struct loop_source look = { .call = on_look };
	char *const none[] = { NULL };
	struct rlimit limit;

	begin(3600 * NSEC_PER_SEC);
	ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
	limit.rlim_cur = (rlim_t)dup(0) + 1;
	ck_assert_int_eq(close((int)limit.rlim_cur - 1), 0);
	ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
	ck_assert_int_eq(reload_trial_start(&trial, none), -EMFILE);
	limit.rlim_cur = limit.rlim_max;
	ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
	ck_assert_int_eq(loop_timer(&loop, &look, NSEC_PER_MSEC), 0);
	run();
	ck_assert_uint_eq(over, 0);
	ck_assert_int_eq(waitpid(-1, NULL, WNOHANG), -1);
	loop_fini(&loop);
}
END_TEST

START_TEST(trial_is_killed_before_the_pool_if_memory_is_short)
{
	begin(1);
	start();
	ck_assert_int_eq(daemon_oom_score(trial.pid), 1000);
	run();
	loop_fini(&loop);
}
END_TEST

START_TEST(stop_does_not_wait_for_a_trial)
{
	pid_t tracer, pid;
	int go;

	begin(3600 * NSEC_PER_SEC);
	start();
	pid = trial.pid;
	tracer = hold(pid, &go);
	reload_trial_end(&trial);
	ck_assert_int_eq(trial.pid, 0);
	ck_assert_int_eq(waitpid(pid, NULL, WNOHANG), 0);
	ck_assert_uint_eq(over, 0);
	let_go(tracer, go);
	ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
	loop_fini(&loop);
}
END_TEST

CHECK_MAIN("reload_trial")
