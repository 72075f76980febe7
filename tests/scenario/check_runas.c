/* SPDX-License-Identifier: MIT */
/* scenario: root starts forkd, and tasks run as another user */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/capability.h>
#include <pwd.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/util.h"
#include "tests/support/daemon.h"
#define CHECK_TIMEOUT 120
#include "tests/support/check_unit.h"
#include "tests/support/jobs.h"

#define USER  "nobody"
#define FORKD 61777u /* the uid of a user forkd that exists only in a test */

static struct daemon d;
static uid_t user_uid;
static gid_t user_gid;

static void begin(const char *option, const char *other)
{
	daemon_start(&d, "--workers=2", option, other, NULL);
}

/* Reads a line of /proc/PID/status. */
static void proc_line(pid_t pid, const char *name, char *ret_line, size_t size)
{
	char path[64], line[512];
	_cleanup_fclose_ FILE *f = NULL;

	(void)snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
	f = fopen(path, "re");
	ck_assert_ptr_nonnull(f);
	ret_line[0] = '\0';
	while (fgets(line, sizeof(line), f))
		if (!strncmp(line, name, strlen(name)))
			(void)snprintf(ret_line, size, "%s", line);
}

/* Checks the real, effective, saved and file system id. */
static void see_ids(pid_t pid, const char *name, unsigned int id)
{
	unsigned int ids[4] = { 0 };
	char line[512];

	proc_line(pid, name, line, sizeof(line));
	ck_assert_int_eq(
		sscanf(line + strlen(name), "%u %u %u %u", &ids[0], &ids[1], &ids[2], &ids[3]), 4);
	for (size_t i = 0; i < ARRAY_SIZE(ids); i++)
		ck_assert_msg(ids[i] == id, "%s of %d, wanted %u", line, (int)pid, id);
}

/* Checks that the groups are the user's, and none of root's. */
static void see_groups(pid_t pid)
{
	char line[512], group[16];

	proc_line(pid, "Groups:", line, sizeof(line));
	(void)snprintf(group, sizeof(group), "\t%u ", user_gid);
	ck_assert_msg(strstr(line, group) && !strstr(line, "\t0 ") && !strstr(line, " 0 "), "%s",
		      line);
}

/* Returns true if a process is dumpable: its files in /proc then belong to its user. */
static bool is_dumpable(pid_t pid)
{
	char path[64];
	struct stat st;

	(void)snprintf(path, sizeof(path), "/proc/%d/environ", (int)pid);
	ck_assert_int_eq(stat(path, &st), 0);
	return st.st_uid == user_uid;
}

/* Returns the pool after it has run a job: its pid is known before it has become that user. */
static pid_t running_pool(void)
{
	daemon_call_fib(&d);
	return daemon_pool(&d);
}

static int64_t call(fk_client *c, int64_t nr, int64_t a, int64_t b, int64_t last)
{
	int64_t result = 0;

	ck_assert_int_eq(fk_call(c, "ask:call", &result, nr, a, b, last, INT64_C(0), INT64_C(0)),
			 0);
	return result;
}

START_TEST(tasks_run_as_the_user_of_the_option_and_have_no_way_back)
{
	static const char *const sandbox[] = { "--sandbox=off", "--sandbox=normal" };

	for (size_t i = 0; i < ARRAY_SIZE(sandbox); i++) {
		static const char *const sets[] = { "CapInh:", "CapPrm:", "CapEff:", "CapBnd:",
						    "CapAmb:" };
		char line[512];
		fk_client *c;
		pid_t pool;

		begin("--user=" USER, sandbox[i]);
		c = daemon_open(&d);
		pool = running_pool();
		see_ids(pool, "Uid:", user_uid);
		see_ids(pool, "Gid:", user_gid);
		see_ids(d.manager, "Uid:", 0);
		see_groups(pool);
		/* A leak sanitizer traces its own process. */
		ck_assert(is_dumpable(pool) == (i == 0 || daemon_sanitized()));
		for (size_t k = 0; k < ARRAY_SIZE(sets); k++) {
			proc_line(pool, sets[k], line, sizeof(line));
			ck_assert_msg(strstr(line, "\t0000000000000000\n"), "%s", line);
		}
		ck_assert_int_eq(call(c, SYS_geteuid, 0, 0, 0), (int64_t)user_uid);
		ck_assert_int_eq(call(c, SYS_setresuid, 0, 0, 0), -EPERM);
		ck_assert_int_eq(call(c, SYS_setresgid, 0, 0, 0), -EPERM);
		daemon_stop_close(&d, c);
	}
}
END_TEST

START_TEST(next_pool_runs_as_that_user_and_a_pool_dies_with_its_manager)
{
	pid_t pool;

	begin("--user=" USER, NULL);
	pool = daemon_pool(&d);
	ck_assert_int_eq(kill(pool, SIGKILL), 0);
	(void)jobs_pool_after(&d, pool);
	see_ids(running_pool(), "Uid:", user_uid);
	daemon_kill(&d);
}
END_TEST

START_TEST(reload_reads_as_root_and_loads_modules_as_that_user)
{
	char path[128], option[160], text[64], output[4096];
	_cleanup_fclose_ FILE *f = NULL;
	pid_t pool;

	daemon_prepare(&d);
	(void)snprintf(path, sizeof(path), "%s/forkd.conf", d.directory);
	f = fopen(path, "we");
	ck_assert_ptr_nonnull(f);
	ck_assert_int_eq(fchmod(fileno(f), 0600), 0);
	(void)fprintf(f, "[forkd]\nuser = " USER "\n");
	ck_assert_int_eq(fflush(f), 0);
	(void)snprintf(option, sizeof(option), "--config=%s", path);
	daemon_start(&d, "--workers=2", option, NULL);
	pool = running_pool();
	see_ids(pool, "Uid:", user_uid);
	(void)fprintf(f, "user-weights = " USER ":200\n");
	ck_assert_int_eq(fflush(f), 0);
	ck_assert_int_eq(daemon_ctl(&d, output, sizeof(output), "reload", NULL), 0);
	ck_assert(daemon_logged(&d, "reload", "user-weights"));
	/* The next pool could not read it, but root can. */
	(void)snprintf(path, sizeof(path), "%s/fib.so", d.modules);
	ck_assert_int_eq(chmod(path, 0600), 0);
	ck_assert_int_ne(daemon_ctl(&d, output, sizeof(output), "reload", NULL), 0);
	(void)snprintf(text, sizeof(text), "uid %u cannot open it: Permission denied", user_uid);
	ck_assert(daemon_logged(&d, "fib.so", text));
	ck_assert_int_eq(running_pool(), pool);
	ck_assert_int_eq(chmod(path, 0644), 0);
	ck_assert_int_eq(daemon_ctl(&d, output, sizeof(output), "reload", NULL), 0);
	see_ids(running_pool(), "Uid:", user_uid);
	ck_assert_int_eq(daemon_stop(&d), 0);
}
END_TEST

/* Returns true if that process has loaded slow.so, whose constructor waits. Only then has the trial
 * changed its user. */
static bool is_in_constructor(pid_t pid)
{
	char path[64], line[1024];
	_cleanup_fclose_ FILE *f = NULL;

	(void)snprintf(path, sizeof(path), "/proc/%d/maps", (int)pid);
	f = fopen(path, "re");
	while (f && fgets(line, sizeof(line), f))
		if (strstr(line, "/slow.so"))
			return true;
	return false;
}

/* Returns the process that tries a reload, or 0 if there is none. */
static pid_t trial_of(pid_t manager, pid_t pool)
{
	char path[64];
	_cleanup_fclose_ FILE *f = NULL;
	int pid;

	(void)snprintf(path, sizeof(path), "/proc/%d/task/%d/children", (int)manager, (int)manager);
	f = fopen(path, "re");
	ck_assert_ptr_nonnull(f);
	while (fscanf(f, "%d", &pid) == 1)
		if (pid != pool && is_in_constructor(pid))
			return pid;
	return 0;
}

START_TEST(other_processes_of_that_user_cannot_look_into_a_trial)
{
	char file[128];
	pid_t pool, trial;

	if (daemon_sanitized()) {
		check_unit_not_run(other_processes_of_that_user_cannot_look_into_a_trial,
				   "a sanitizer traces its own process");
		return;
	}
	daemon_prepare(&d);
	daemon_add_module(&d, "tests/support/modules/later/.libs/slow.so", "slow.so");
	(void)snprintf(file, sizeof(file), "%s/slow", d.directory);
	ck_assert_int_eq(close(creat(file, 0644)), 0);
	ck_assert_int_eq(setenv("SLOW_TRIAL", file, 1), 0);
	daemon_start(&d, "--workers=2", "--user=" USER, "--sandbox=off", NULL);
	pool = running_pool();
	ck_assert(is_dumpable(pool));
	ck_assert_int_eq(kill(d.manager, SIGHUP), 0);
	DAEMON_AWAIT((trial = trial_of(d.manager, pool)) > 0);
	see_ids(trial, "Uid:", user_uid);
	ck_assert(!is_dumpable(trial));
	ck_assert_int_eq(unlink(file), 0);
	DAEMON_AWAIT(daemon_logged(&d, "no option has changed", ""));
	ck_assert_int_eq(daemon_stop(&d), 0);
}
END_TEST

/* Processes of this test see the users of this machine and a user forkd with this group, or no user
 * forkd if gid is negative. Returns false if this root must not mount. */
static bool have_forkd(int64_t gid)
{
	_cleanup_fclose_ FILE *from = NULL, *to = NULL;
	_cleanup_free_ char *line = NULL;
	char path[128];
	size_t size = 0;

	if (unshare(CLONE_NEWNS) < 0 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
		return false;
	(void)snprintf(path, sizeof(path), "%s/passwd", d.directory);
	from = fopen("/etc/passwd", "re");
	to = fopen(path, "we");
	ck_assert(from && to);
	if (gid >= 0)
		(void)fprintf(to, "forkd:x:%u:%" PRId64 "::/:/bin/false\n", FORKD, gid);
	while (getline(&line, &size, from) >= 0)
		if (strncmp(line, "forkd:", strlen("forkd:")) != 0)
			(void)fputs(line, to);
	ck_assert_int_eq(fflush(to), 0);
	ck_assert_int_eq(fchmod(fileno(to), 0644), 0);
	return mount(path, "/etc/passwd", NULL, MS_BIND, NULL) == 0 &&
	       !getpwnam("forkd") == (gid < 0);
}

/* The state in a container without this capability. */
static void lose(unsigned long capability)
{
	if (prctl(PR_CAPBSET_DROP, capability) < 0)
		_exit(90);
}

static void lose_setuid(void)
{
	lose(CAP_SETUID);
}

static void lose_kill(void)
{
	lose(CAP_KILL);
}

START_TEST(tasks_run_as_user_forkd_by_default_if_it_exists)
{
	daemon_prepare(&d);
	if (!have_forkd(FORKD)) {
		check_unit_not_run(tasks_run_as_user_forkd_by_default_if_it_exists,
				   "this root cannot mount");
		return;
	}
	daemon_start(&d, "--workers=2", NULL);
	see_ids(running_pool(), "Uid:", FORKD);
	see_ids(running_pool(), "Gid:", FORKD);
	ck_assert(daemon_logged(&d, "tasks run as user forkd", ""));
	ck_assert_int_eq(daemon_stop(&d), 0);

	daemon_prepare(&d);
	d.entering = lose_setuid;
	daemon_start(&d, "--workers=2", NULL);
	see_ids(running_pool(), "Uid:", 0);
	ck_assert(daemon_logged(&d, "warning: tasks run as root", "cannot become user forkd"));
	ck_assert_int_eq(daemon_stop(&d), 0);
}
END_TEST

START_TEST(group_of_that_user_may_be_the_group_of_root)
{
	daemon_prepare(&d);
	if (!have_forkd(0)) {
		check_unit_not_run(group_of_that_user_may_be_the_group_of_root,
				   "this root cannot mount");
		return;
	}
	daemon_start(&d, "--workers=2", "--user=forkd", NULL);
	see_ids(running_pool(), "Uid:", FORKD);
	see_ids(running_pool(), "Gid:", 0);
	ck_assert_int_eq(daemon_stop(&d), 0);
}
END_TEST

START_TEST(tasks_run_as_root_with_a_warning_if_that_user_does_not_exist)
{
	daemon_prepare(&d);
	if (!have_forkd(-1)) {
		check_unit_not_run(tasks_run_as_root_with_a_warning_if_that_user_does_not_exist,
				   "this root cannot mount");
		return;
	}
	daemon_start(&d, "--workers=2", NULL);
	see_ids(running_pool(), "Uid:", 0);
	ck_assert(daemon_logged(&d, "warning: tasks run as root", "there is no user forkd"));
	ck_assert_int_eq(daemon_stop(&d), 0);

	begin("--user=" USER, "--user=root");
	see_ids(running_pool(), "Uid:", 0);
	ck_assert(!daemon_logged(&d, "tasks run as", ""));
	ck_assert_int_eq(daemon_stop(&d), 0);
}
END_TEST

static void become_user(void)
{
	if (setgid(user_gid) < 0 || setuid(user_uid) < 0)
		_exit(90);
}

START_TEST(forkd_started_by_another_user_keeps_that_user)
{
	char path[128];

	daemon_prepare(&d);
	(void)snprintf(path, sizeof(path), "%s/notify", d.directory);
	ck_assert_int_eq(chown(path, user_uid, user_gid), 0);
	ck_assert_int_eq(chown(d.directory, user_uid, user_gid), 0);
	d.entering = become_user;
	daemon_start(&d, "--workers=2", "--user=root", NULL);
	see_ids(running_pool(), "Uid:", user_uid);
	ck_assert(daemon_logged(&d, "warning: user: tasks run as uid", "and not as uid 0"));
	ck_assert_int_eq(daemon_stop(&d), 0);
}
END_TEST

static void refuse(const char *option, const char *text, void (*entering)(void))
{
	const char *const options[] = { "--workers=2", option, NULL };

	daemon_prepare(&d);
	d.entering = entering;
	ck_assert_int_eq(daemon_try(&d, options), 2);
	ck_assert_msg(daemon_logged(&d, "error: ", text), "%s: no \"%s\"", option, text);
	daemon_discard(&d);
}

START_TEST(unknown_or_unusable_user_is_refused)
{
	refuse("--user=@root", "the name or uid of one user", NULL);
	refuse("--user=*", "the name or uid of one user", NULL);
	refuse("--user=root," USER, "the name or uid of one user", NULL);
	refuse("--user=3999999999", "has no entry in passwd(5)", NULL);
	refuse("--user=no-such-user", "no-such-user", NULL);
	refuse("--user=" USER, "cannot become " USER, lose_setuid);
	refuse("--user=" USER, "cannot become " USER, lose_kill);
}
END_TEST

START_TEST(module_that_the_user_cannot_read_is_reported_with_its_name)
{
	const char *const options[] = { "--workers=2", "--user=" USER, NULL };

	daemon_prepare(&d);
	ck_assert_int_eq(chmod(d.modules, 0700), 0);
	ck_assert_int_eq(daemon_try(&d, options), 4);
	ck_assert(daemon_logged(&d, "error: the pool cannot start: module-dir",
				"tasks run as user " USER ", which must be able to read it"));
	daemon_discard(&d);
}
END_TEST

/* Returns true if that user can read the modules. */
static bool user_can_read(void)
{
	const char *build = getenv("top_builddir");
	char path[4096];
	int status = 1;
	pid_t pid = fork();

	(void)snprintf(path, sizeof(path), "%s/tests/support/modules/.libs/ask.so",
		       build ? build : ".");
	if (pid == 0) {
		become_user();
		_exit(access(path, R_OK) == 0 ? 0 : 1);
	}
	(void)waitpid(pid, &status, 0);
	return status == 0;
}

int main(void)
{
	const struct passwd *user = getpwnam(USER);

	if (geteuid() != 0 || !user) {
		(void)printf("only root can have tasks run as %s\n", USER);
		return 77;
	}
	/* Each of these tests sets its own user. */
	(void)unsetenv("FORKD_TEST_USER");
	user_uid = user->pw_uid;
	user_gid = user->pw_gid;
	if (!user_can_read()) {
		(void)printf("%s cannot read the modules\n", USER);
		return 77;
	}
	return check_unit_main("runas");
}
