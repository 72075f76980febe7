/* SPDX-License-Identifier: MIT */
/*
 * sandbox: the calls of a task that the kernel denies in a real pool, and those that it allows
 *
 * Every call is made such that without a filter it fails for another reason, or has no effect. This
 * is checked, too, as root with all capabilities.
 */
#include <asm/ioctls.h>
#include <asm/sockios.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/ioprio.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/log.h"
#include "common/options.h"
#include "common/util.h"
#include "daemon/host/sandbox.h"
#include "tests/support/jobs.h"
#define CHECK_TIMEOUT 120
#include "tests/support/check_unit.h"

#define NOBODY 65533u

static struct daemon d;
static fk_client *c;

/* Placeholders for pids in the tables. */
#define MANAGER INT64_C(-1001)
#define POOL	INT64_C(-1002)

struct attempt {
	const char *name;
	int64_t nr;
	int64_t arguments[5];
};

#define CALL(name) #name, SYS_##name

/* Denied by normal and by strict. */
static const struct attempt denied[] = {
	{ CALL(mmap), { 0, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1 } },
	{ CALL(mmap),
	  { 0, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1 } },
	{ CALL(mprotect), { 0, 0, PROT_READ | PROT_EXEC } },
	{ CALL(pkey_mprotect), { 0, 0, PROT_EXEC, -1 } },
	{ CALL(shmat), { -1, 0, SHM_EXEC } },
	{ CALL(personality), { 0xffffffff } },
	{ CALL(userfaultfd), { -1 } },
	{ CALL(clone), { CLONE_SIGHAND | SIGCHLD } },
	{ CALL(execve), { 0 } },
	{ CALL(execveat), { -1, 0 } },
	{ CALL(setns), { -1, 0 } },
	{ CALL(unshare), { 0 } },
	{ CALL(kill), { MANAGER, 0 } },
	{ CALL(kill), { 0, 0 } },
	{ CALL(tkill), { MANAGER, 0 } },
	{ CALL(tgkill), { MANAGER, MANAGER, 0 } },
	{ CALL(rt_sigqueueinfo), { MANAGER, 0, 0 } },
	{ CALL(rt_tgsigqueueinfo), { MANAGER, MANAGER, 0, 0 } },
	{ CALL(fcntl), { -1, F_SETOWN, MANAGER } },
	{ CALL(fcntl), { -1, F_SETOWN_EX, 0 } },
	{ CALL(fcntl), { -1, F_SETSIG, SIGKILL } },
	{ CALL(ioctl), { -1, FIOSETOWN, 0 } },
	{ CALL(ioctl), { -1, SIOCSPGRP, 0 } },
	{ CALL(pidfd_send_signal), { -1, 0, 0 } },
	{ CALL(prlimit64), { MANAGER, 7, 0, 0 } },
	{ CALL(sched_setaffinity), { MANAGER, 0, 0 } },
	{ CALL(sched_setattr), { MANAGER, 0, 0 } },
	{ CALL(sched_setattr), { POOL, 0, 0 } },
	{ CALL(sched_setparam), { MANAGER, 0 } },
	{ CALL(sched_setscheduler), { MANAGER, 0, 0 } },
	{ CALL(ioprio_set), { IOPRIO_WHO_PROCESS, MANAGER, -1 } },
	{ CALL(ioprio_set), { IOPRIO_WHO_PGRP, 0, -1 } },
	{ CALL(ioprio_set), { IOPRIO_WHO_USER, NOBODY, -1 } },
	{ CALL(pidfd_getfd), { -1, 0 } },
	{ CALL(kcmp), { MANAGER, MANAGER, 1 } },
	{ CALL(migrate_pages), { MANAGER, 0, 0, 0 } },
	{ CALL(move_pages), { MANAGER, 0, 0, 0 } },
	{ CALL(process_madvise), { -1, 0 } },
	{ CALL(process_vm_readv), { MANAGER, 0, 0, 0 } },
	{ CALL(process_vm_writev), { MANAGER, 0, 0, 0 } },
	{ CALL(ptrace), { 7, MANAGER } },
	{ CALL(prctl), { PR_SET_PDEATHSIG, SIGKILL } },
	{ CALL(prctl), { PR_SET_DUMPABLE, 99 } },
	{ CALL(prctl), { PR_SET_NO_NEW_PRIVS, 99 } },
	{ CALL(seccomp), { 99 } },
	{ CALL(landlock_restrict_self), { -1, 1 } },
	{ CALL(accept), { -1 } },
	{ CALL(accept4), { -1 } },
	{ CALL(bind), { -1 } },
	{ CALL(connect), { -1 } },
	{ CALL(listen), { -1 } },
	{ CALL(socket), { -1 } },
	{ CALL(socketpair), { -1 } },
	{ CALL(io_uring_setup), { 0, 0 } },
	{ CALL(ioctl), { -1, TIOCSTI } },
	{ CALL(ioctl), { -1, TIOCLINUX } },
	{ CALL(acct), { 1 } },
	{ CALL(add_key), { 0 } },
	{ CALL(adjtimex), { 0 } },
	{ CALL(bpf), { -1 } },
	{ CALL(chroot), { 0 } },
	{ CALL(clock_adjtime), { 0, 0 } },
	{ CALL(clock_settime), { 99, 0 } },
	{ CALL(delete_module), { 0 } },
	{ CALL(fanotify_init), { -1 } },
	{ CALL(finit_module), { -1 } },
	{ CALL(fsconfig), { -1 } },
	{ CALL(fsmount), { -1 } },
	{ CALL(fsopen), { 0 } },
	{ CALL(fspick), { -1 } },
	{ CALL(init_module), { 0 } },
	{ CALL(kexec_load), { 0, 99 } },
	{ CALL(keyctl), { 9999 } },
	{ CALL(mount), { 0 } },
	{ CALL(mount_setattr), { -1 } },
	{ CALL(move_mount), { -1 } },
	{ CALL(open_by_handle_at), { -1 } },
	{ CALL(open_tree), { -1 } },
	{ CALL(perf_event_open), { 0 } },
	{ CALL(pivot_root), { 0 } },
	{ CALL(quotactl), { -1 } },
	{ CALL(reboot), { 0 } },
	{ CALL(request_key), { 0 } },
	{ CALL(setdomainname), { 0, -1 } },
	{ CALL(sethostname), { 0, -1 } },
	{ CALL(settimeofday), { 1 } },
	{ CALL(swapoff), { 0 } },
	{ CALL(swapon), { 0 } },
	{ CALL(syslog), { -1 } },
	{ CALL(umount2), { 0, -1 } },
#ifdef __x86_64__
	{ CALL(ioperm), { -1 } },
	{ CALL(iopl), { -1 } },
	{ CALL(modify_ldt), { 99 } },
#endif
};

/* The same, if the kernel itself does not prevent it: for a forkd without capabilities. */
static const struct attempt denied_to_equals[] = {
	{ CALL(sched_setaffinity), { MANAGER, 0, 0 } },
	{ CALL(sched_setattr), { MANAGER, 0, 0 } },
	{ CALL(sched_setparam), { MANAGER, 0 } },
	{ CALL(sched_setscheduler), { MANAGER, -1, 0 } },
	{ CALL(setpriority), { PRIO_PROCESS, MANAGER, 19 } },
	{ CALL(ioprio_set), { IOPRIO_WHO_PROCESS, MANAGER, -1 } },
};

/* These would have an effect, or are denied to root as well on some machines: without a filter they
 * are not tried. */
static const struct attempt denied_unseen[] = {
	{ CALL(kill), { POOL, SIGSTOP } },
	{ CALL(kill), { POOL, SIGTSTP } },
	{ CALL(kill), { POOL, SIGTTIN } },
	{ CALL(kill), { POOL, SIGTTOU } },
	{ CALL(kill), { POOL, SIGCONT } },
	{ CALL(tgkill), { POOL, POOL, SIGSTOP } },
	{ CALL(tgkill), { POOL, POOL, SIGTTOU } },
	{ CALL(rt_sigqueueinfo), { POOL, SIGSTOP, 0 } },
	{ CALL(rt_tgsigqueueinfo), { POOL, POOL, SIGSTOP, 0 } },
	{ CALL(setpriority), { PRIO_PROCESS, MANAGER, 0 } },
	{ CALL(setpriority), { PRIO_PGRP, 0, 0 } },
	{ CALL(setpriority), { PRIO_USER, 0, 0 } },
	{ CALL(vhangup), { 0 } },
	{ CALL(kexec_load), { 0 } },
#ifdef __x86_64__
	{ CALL(fork), { 0 } },
	{ CALL(vfork), { 0 } },
#endif
};

/* Allowed by normal, with any result; denied by strict. */
static const struct attempt normal_only[] = {
	{ CALL(openat), { AT_FDCWD, 0, O_RDONLY } },
	{ CALL(openat), { AT_FDCWD, 0, O_WRONLY } },
	{ CALL(openat2), { AT_FDCWD, 0 } },
	{ CALL(faccessat), { AT_FDCWD, 0 } },
	{ CALL(getdents64), { -1 } },
	{ CALL(readlinkat), { AT_FDCWD, 0 } },
	{ CALL(unlinkat), { AT_FDCWD, 0 } },
	{ CALL(memfd_create), { 0 } },
	{ CALL(pipe2), { 0 } },
	{ CALL(dup), { -1 } },
	{ CALL(setuid), { -1 } },
	{ CALL(setpriority), { 99 } },
	{ CALL(ioprio_set), { 99 } },
	{ CALL(sched_setscheduler), { 0, -1 } },
	{ CALL(ioctl), { -1, TIOCGWINSZ } },
};

/* Allowed by both. */
static const struct attempt allowed[] = {
	{ CALL(mmap), { 0, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1 } },
	{ CALL(mprotect), { 0, 0, PROT_READ | PROT_WRITE } },
	{ CALL(madvise), { 0, 0, MADV_DONTNEED } },
	{ CALL(kill), { POOL, 0 } },
	{ CALL(tgkill), { POOL, POOL, 0 } },
	{ CALL(tgkill), { POOL, POOL, SIGURG } },
	{ CALL(prlimit64), { 0, 7, 0, 0 } },
	{ CALL(prlimit64), { POOL, 7, 0, 0 } },
	{ CALL(prctl), { PR_SET_TIMERSLACK, 1000 } },
	{ CALL(fcntl), { 0, F_GETFD } },
	{ CALL(getpid), { 0 } },
	{ CALL(sched_setaffinity), { 0, 0, 0 } },
	{ CALL(sched_setaffinity), { POOL, 0, 0 } },
	{ CALL(sched_setattr), { 0, 0, 0 } },
	{ CALL(sched_yield), { 0 } },
	{ CALL(sendto), { -1 } },
	{ CALL(pwritev2), { -1 } },
};

static void setup(const char *sandbox)
{
	const char *user = streq(sandbox, "--sandbox=off") ? "--user=root" : NULL;

	c = JOBS_BEGIN(&d, "--workers=2", sandbox, user, NULL);
}

static void teardown(void)
{
	daemon_call_fib(&d);
	ck_assert_uint_eq(daemon_crashes(&d), 0);
	jobs_end(&d, c);
}

static int64_t ask(const struct attempt *a)
{
	int64_t result = 0, v[ARRAY_SIZE(a->arguments)];

	for (size_t i = 0; i < ARRAY_SIZE(v); i++) {
		v[i] = a->arguments[i];
		if (v[i] == MANAGER)
			v[i] = d.manager;
		else if (v[i] == POOL)
			v[i] = daemon_pool(&d);
	}
	ck_assert_int_eq(fk_call(c, "ask:call", &result, a->nr, v[0], v[1], v[2], v[3], v[4]), 0);
	return result;
}

/* Checks that every attempt of the list ends with this error, or that none does. */
static void each(const struct attempt *list, size_t n, int64_t error, bool all)
{
	for (size_t i = 0; i < n; i++) {
		int64_t result = ask(&list[i]);

		ck_assert_msg((result == error) == all, "%s (%zu): %" PRId64, list[i].name, i,
			      result);
	}
}

/* Checks that are the same in both modes. */
static void see_denied(void)
{
	int64_t n = 0;

	each(denied, ARRAY_SIZE(denied), -EPERM, true);
	each(denied_unseen, ARRAY_SIZE(denied_unseen), -EPERM, true);
	each(allowed, ARRAY_SIZE(allowed), -EPERM, false);
	ck_assert_int_eq(ask(&(struct attempt){ CALL(clone3), { 0 } }), -ENOSYS);
	/* By the other entries into the kernel. */
	ck_assert_int_eq(fk_call(c, "ask:foreign", &n, INT64_C(20)), 0);
#ifdef __x86_64__
	ck_assert_int_eq(n, -EPERM);
	ck_assert_int_eq(ask(&(struct attempt){ "x32", SYS_getpid | 0x40000000, { 0 } }), -EPERM);
#endif
	/* By libc: no child, but threads. */
	ck_assert_int_eq(fk_call(c, "crash:fork", &n, INT64_C(0)), 0);
	ck_assert_int_eq(n, 0);
	ck_assert_int_eq(fk_call(c, "ask:thread", &n, INT64_C(4711)), 0);
	ck_assert_int_eq(n, 4711);
}

START_TEST(normal_denies_unneeded_calls_and_the_job_continues)
{
	setup("--sandbox=normal");
	see_denied();
	each(normal_only, ARRAY_SIZE(normal_only), -EPERM, false);
	teardown();
}
END_TEST

START_TEST(strict_denies_all_calls_that_are_not_allowed)
{
	setup("--sandbox=strict");
	see_denied();
	each(normal_only, ARRAY_SIZE(normal_only), -EPERM, true);
	teardown();
}
END_TEST

/* A sandboxed process writes its line to the other's descriptor. */
static void log_by(const int fds[2])
{
	char line[128] = "";
	pid_t pid = fork();

	ck_assert_int_ge(pid, 0);
	if (pid == 0) {
		if (dup2(fds[1], STDERR_FILENO) < 0 ||
		    sandbox_pool(OPTIONS_SANDBOX_STRICT, NULL) < 0)
			_exit(1);
		log_warning("a line of %d", 4711);
		_exit(0);
	}
	(void)close(fds[1]);
	ck_assert_int_eq(daemon_reap(pid), 0);
	ck_assert_int_gt(read(fds[0], line, sizeof(line) - 1), 0);
	(void)close(fds[0]);
	ck_assert_ptr_nonnull(strstr(line, "a line of 4711\n"));
}

START_TEST(strict_lets_the_pool_log_to_any_kind_of_stderr)
{
	int fds[2];

	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
	log_by(fds);
	ck_assert_int_eq(pipe2(fds, O_CLOEXEC), 0);
	log_by(fds);
}
END_TEST

START_TEST(denied_calls_fail_for_other_reasons_without_a_sandbox)
{
	setup("--sandbox=off");
	each(denied, ARRAY_SIZE(denied), -EPERM, false);
	each(allowed, ARRAY_SIZE(allowed), -EPERM, false);
	teardown();
}
END_TEST

/* The channel is the manager's socket, too: its next message would make the manager signal
 * itself. */
static void signal_manager(const char *sandbox)
{
	const struct attempt calls[] = {
		{ CALL(fcntl), { 3, F_SETOWN, MANAGER } },
		{ CALL(fcntl), { 3, F_SETSIG, SIGKILL } },
		{ CALL(fcntl), { 3, F_SETFL, O_ASYNC | O_NONBLOCK } },
	};

	int64_t results[ARRAY_SIZE(calls)];

	setup(sandbox);
	for (size_t i = 0; i < ARRAY_SIZE(calls); i++)
		results[i] = ask(&calls[i]);
	/* The manager sends a client to the pool. */
	daemon_call_fib(&d);
	ck_assert_int_eq(results[0], -EPERM);
	ck_assert_int_eq(results[1], -EPERM);
	ck_assert_int_eq(results[2], 0);
	teardown();
}

START_TEST(task_cannot_make_the_manager_signal_itself)
{
	signal_manager("--sandbox=normal");
	signal_manager("--sandbox=strict");
}
END_TEST

/* ------------------------------------------------------------------------ seen from outside */

START_TEST(every_thread_of_the_pool_is_filtered_and_has_no_capability)
{
	static const char *const sets[] = { "CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb" };
	_cleanup_closedir_ DIR *dir = NULL;
	uint32_t n_threads = 0;
	struct dirent *e;
	char path[64];
	int64_t n = 0;

	setup("--sandbox=normal");
	ck_assert_int_eq(fk_call(c, "fib:fib", &n, INT64_C(25)), 0);
	(void)snprintf(path, sizeof(path), "/proc/%d/task", (int)daemon_pool(&d));
	dir = opendir(path);
	ck_assert_ptr_nonnull(dir);
	while ((e = readdir(dir))) {
		pid_t tid = atoi(e->d_name);

		if (tid <= 0)
			continue;
		n_threads++;
		ck_assert_int_eq(daemon_proc_status(tid, "Seccomp"), 2);
		ck_assert_int_eq(daemon_proc_status(tid, "NoNewPrivs"), 1);
		for (size_t i = 0; i < ARRAY_SIZE(sets); i++) {
			int64_t set = daemon_proc_mask(tid, sets[i]);

			if (geteuid() == 0 || i != 3)
				ck_assert_msg(set == 0, "%s of %d: %" PRIx64, sets[i], (int)tid,
					      set);
		}
	}
	/* The channel's thread, the dispatcher, two workers. */
	ck_assert_uint_ge(n_threads, 4);
	teardown();
}
END_TEST

START_TEST(no_memory_of_manager_and_pool_can_be_written_and_executed)
{
	char path[64], line[4400];
	int64_t n = 0;

	setup("--sandbox=normal");
	ck_assert_int_eq(fk_call(c, "fib:fib", &n, INT64_C(25)), 0);
	for (int i = 0; i < 2; i++) {
		_cleanup_fclose_ FILE *f = NULL;
		int executable = 0;

		(void)snprintf(path, sizeof(path), "/proc/%d/maps",
			       (int)(i ? daemon_pool(&d) : d.manager));
		f = fopen(path, "re");
		ck_assert_ptr_nonnull(f);
		while (fgets(line, sizeof(line), f)) {
			const char *rights = strchr(line, ' ');

			ck_assert_ptr_nonnull(rights);
			ck_assert_msg(!(rights[2] == 'w' && rights[3] == 'x'), "%s", line);
			executable += rights[3] == 'x';
		}
		ck_assert_int_gt(executable, 1);
	}
	teardown();
}
END_TEST

/* forkd and all processes that follow run as this user. Returns false if forkd is in a directory
 * that only root can read. */
static bool become_nobody(void)
{
	const char *directory = getenv("top_builddir");
	char path[4096];

	ck_assert_int_eq(syscall(SYS_setgroups, 0, NULL), 0);
	ck_assert_int_eq(setgid(NOBODY), 0);
	ck_assert_int_eq(setuid(NOBODY), 0);
	(void)snprintf(path, sizeof(path), "%s/forkd", directory ? directory : ".");
	return access(path, X_OK) == 0;
}

/* Returns how many of these files of a process the test may read. */
static int readable(pid_t pid)
{
	static const char *const files[] = { "auxv", "environ", "maps", "mem", "smaps_rollup" };
	int n = 0;

	for (size_t i = 0; i < ARRAY_SIZE(files); i++) {
		_cleanup_close_ int fd = -1;
		char path[64];

		(void)snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, files[i]);
		fd = open(path, O_RDONLY | O_CLOEXEC);
		n += fd >= 0;
	}
	return n;
}

START_TEST(process_of_forkds_own_uid_cannot_read_its_memory)
{
	if (!become_nobody()) {
		check_unit_not_run(process_of_forkds_own_uid_cannot_read_its_memory,
				   "another user cannot reach the build tree");
		return;
	}
	setup("--sandbox=off");
	ck_assert_int_eq(readable(d.manager), 5);
	ck_assert_int_eq(readable(daemon_pool(&d)), 5);
	teardown();
	setup("--sandbox=normal");
	ck_assert_int_eq(readable(d.manager), 0);
	ck_assert_int_eq(readable(daemon_pool(&d)), 0);
	/* Before the change it could: the pool is killed first if memory is short. */
	ck_assert_int_gt(daemon_oom_score(daemon_pool(&d)), daemon_oom_score(d.manager));
	teardown();
}
END_TEST

START_TEST(no_task_takes_the_CPUs_from_a_manager_of_the_same_user)
{
	static const char *const modes[] = { "--sandbox=off", "--sandbox=normal",
					     "--sandbox=strict" };

	if (!become_nobody()) {
		check_unit_not_run(no_task_takes_the_CPUs_from_a_manager_of_the_same_user,
				   "another user cannot reach the build tree");
		return;
	}
	for (size_t i = 0; i < ARRAY_SIZE(modes); i++) {
		setup(modes[i]);
		each(denied_to_equals, ARRAY_SIZE(denied_to_equals), -EPERM, i > 0);
		teardown();
	}
}
END_TEST

START_TEST(every_shipped_module_works_without_files)
{
	static const struct {
		const char *task, *argument, *output;
	} calls[] = {
		{ "fib:fib", "25", "75025\n" },
		{ "nqueens:nqueens", "8", "92\n" },
		{ "uts:uts", "T1", "nodes=4130071\ndepth=10\nleaves=3305118\n" },
	};
	struct fk_buffer buffer = { .size = 1000 * sizeof(int64_t) };
	int64_t *numbers, sum = 0;
	double area = 0;
	char text[512];

	setup("--sandbox=strict");
	for (size_t i = 0; i < ARRAY_SIZE(calls); i++) {
		ck_assert_int_eq(daemon_ctl(&d, text, sizeof(text), "call", calls[i].task,
					    calls[i].argument, NULL),
				 0);
		ck_assert_str_eq(text, calls[i].output);
	}
	ck_assert_int_eq(fk_call(c, "integrate:integrate", &area, 10.0, 1e-6), 0);
	ck_assert_double_eq_tol(area, 2550.0, 1e-3);
	ck_assert_int_eq(fk_alloc(c, buffer.size, &buffer.data), 0);
	numbers = buffer.data;
	for (int64_t i = 0; i < 1000; i++)
		numbers[i] = i * 7919 % 1000;
	ck_assert_int_eq(fk_call(c, "sort:i64", NULL, buffer), 0);
	for (int64_t i = 0; i < 1000; i++)
		ck_assert_int_eq(numbers[i], i);
	ck_assert_int_eq(fk_call(c, "array:sum_i64", &sum, buffer), 0);
	ck_assert_int_eq(sum, 499500);
	teardown();
}
END_TEST

int main(void)
{
	if (daemon_sanitized()) {
		puts("built with a sanitizer: tasks are not sandboxed");
		return 77;
	}
	if (geteuid() != 0)
		check_unit_leave_out("only root can be another user",
				     &process_of_forkds_own_uid_cannot_read_its_memory,
				     &no_task_takes_the_CPUs_from_a_manager_of_the_same_user,
				     &denied_calls_fail_for_other_reasons_without_a_sandbox);
	else if (!daemon_may_all())
		check_unit_leave_out("this root may not do everything",
				     &denied_calls_fail_for_other_reasons_without_a_sandbox);
	return check_unit_main("sandbox");
}
