/* SPDX-License-Identifier: MIT */
/*
 * scenario: users and groups with different entries in forkd.conf: which may connect, how much each
 * may hold, and which tasks each may call
 *
 * Each user is a process with other uids and groups, which only root can start. Also the messages
 * to the administrator and to the caller.
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "client/lib/client.h"
#include "client/lib/connect.h"
#include "common/cleanup.h"
#include "common/util.h"
#include "shm/layout.h"
#define CHECK_TIMEOUT 120
#include "tests/support/check_unit.h"
#include "tests/support/counts.h"
#include "tests/support/jobs.h"
#include "tests/support/kept.h"

/* Groups in the lists below: @60100, @60200. */
#define STAFF  60100u
#define GUESTS 60200u
#define OTHERS 60300u /* in no list */

static const struct who {
	const char *name;
	uint32_t uid;
	uint32_t gid; /* its group */
	uint32_t n;
	gid_t groups[3];
} alice = { "alice", 65501, OTHERS, 2, { OTHERS, STAFF } },
  plain_alice = { "alice without her groups", 65501, OTHERS, 0, { 0 } },
  bob = { "bob", 65502, OTHERS, 0, { 0 } }, carol = { "carol", 65503, OTHERS, 1, { GUESTS } },
  dave = { "dave", 65504, STAFF, 0, { 0 } },
  mallory = { "mallory", 65505, OTHERS, 3, { OTHERS, GUESTS, STAFF } };

#define MEMBERS 4u

static struct shared {
	_Atomic uint32_t round; /* they must call once more */
	_Atomic uint32_t ready; /* users that have done so, in all rounds */
	_Atomic uint32_t n;	/* connections that one user has got */
	_Atomic uint32_t go;	/* it may end */
	int err;		/* of fk_open(), and its text */
	char text[256];
	struct {
		int fib;
		int maybe;
		int gone; /* a task that does not exist */
	} calls[MEMBERS];
} * shared;

static struct daemon d;

static void begin(void)
{
	shared = daemon_share(sizeof(*shared));
}

/* In a child that runs as root. */
static void become(const struct who *who)
{
	if (syscall(SYS_setgroups, who->n, who->groups) < 0 || setgid(who->gid) < 0 ||
	    setuid(who->uid) < 0)
		_exit(90);
	/* The change of uid has cleared it. */
	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
}

static pid_t start(const struct who *who, void (*run)(void))
{
	pid_t pid = daemon_fork(DAEMON_UID);

	if (pid)
		return pid;
	become(who);
	run();
	_exit(0);
}

static int try_open(fk_client **ret)
{
	const struct fk_open_options options = { .n_jobs = 16, .heap_size = 64 << 10 };

	shared->err = fk_open(d.socket, &options, ret);
	(void)snprintf(shared->text, sizeof(shared->text), "%s", fk_error_text());
	return shared->err;
}

/* ------------------------------------------------------------------------ connections */

static void visit(void)
{
	fk_client *c;
	int64_t n = 0;

	if (try_open(&c) < 0)
		return;
	if (fk_call(c, "fib:fib", &n, INT64_C(10)) || n != 55)
		_exit(3);
	if (fk_close(c) < 0)
		_exit(4);
}

/* text: of the refusal; NULL: it is served. */
static void visits(const struct who *who, const char *text)
{
	ck_assert_int_eq(daemon_reap(start(who, visit)), 0);
	ck_assert_msg(shared->err == (text ? -EACCES : 0), "%s: %d: %s", who->name, shared->err,
		      shared->text);
	ck_assert_msg(!text || strstr(shared->text, text), "%s: %s", who->name, shared->text);
}

START_TEST(denied_user_gets_the_reason_and_others_continue)
{
	uint64_t refused;
	int64_t n = 0;
	fk_client *steady;

	begin();
	steady = JOBS_BEGIN(&d, "--workers=1", "--allow=0,@60100,65502", "--deny=65505,@60200",
			    "--log-level=info", NULL);
	refused = atomic_load(&d.board->manager.refused);
	visits(&alice, NULL);
	visits(&bob, NULL);
	/* The primary group counts like all others. */
	visits(&dave, NULL);
	visits(&carol,
	       "uid 65503 may not use this forkd: deny in forkd.conf lists one of its groups");
	visits(&mallory, "uid 65505 may not use this forkd: deny in forkd.conf lists it");
	visits(&plain_alice,
	       "uid 65501 may not use this forkd: allow in forkd.conf lists neither it "
	       "nor one of its groups: ask the administrator");
	visits(&alice, NULL);
	ck_assert_uint_eq(atomic_load(&d.board->manager.refused), refused + 3);
	ck_assert(daemon_logged(&d, "uid 65503 refused:", "deny in forkd.conf"));
	ck_assert_int_eq(fk_call(steady, "fib:fib", &n, INT64_C(15)), 0);
	ck_assert_int_eq(n, 610);
	daemon_stop_close(&d, steady);
}
END_TEST

/* Alice's socket is connected while she has no group of the list; she sends HELLO when she has
 * one. */
static void late_groups(void)
{
	const struct proto_hello hello = {
		.head = { PROTO_MAGIC, PROTO_HELLO },
		.version = PROTO_VERSION,
		.layout_hash = LAYOUT_HASH,
	};
	union proto_message answer;
	int fd, fds[PROTO_MAX_FDS];
	uint32_t n_fds;

	if (syscall(SYS_setgroups, 0, NULL) < 0 || setegid(OTHERS) < 0 || seteuid(alice.uid) < 0)
		_exit(91);
	if (connect_socket(d.socket, &fd) < 0 || seteuid(0) < 0)
		_exit(92);
	become(&alice);
	shared->err = connect_ask(fd, d.socket, &hello, sizeof(hello), &answer, fds, &n_fds);
	(void)snprintf(shared->text, sizeof(shared->text), "%s", fk_error_text());
}

START_TEST(groups_are_those_of_the_time_of_the_connection)
{
	pid_t pid;

	begin();
	daemon_start(&d, "--workers=1", "--allow=0,@60100", NULL);
	pid = daemon_fork(DAEMON_UID);
	if (!pid) {
		late_groups();
		_exit(0);
	}
	ck_assert_int_eq(daemon_reap(pid), 0);
	ck_assert_int_eq(shared->err, -EACCES);
	ck_assert_msg(strstr(shared->text, "uid 65501 may not"), "%s", shared->text);
	visits(&alice, NULL);
	ck_assert_int_eq(daemon_stop(&d), 0);
}
END_TEST

/* ------------------------------------------------------------------------ limits */

/* Keeps all that it can get until it is told to exit. */
static void take_all(void)
{
	fk_client *c;

	while (try_open(&c) == 0)
		atomic_fetch_add(&shared->n, 1);
	atomic_store(&shared->ready, 1);
	while (!atomic_load(&shared->go))
		(void)poll(NULL, 0, 1);
}

/* Checks that a user gets n more, and this refusal instead of the next. */
static pid_t takes(const struct who *who, uint32_t n, const char *text)
{
	pid_t pid;

	atomic_store(&shared->n, 0);
	atomic_store(&shared->ready, 0);
	pid = start(who, take_all);
	DAEMON_AWAIT(atomic_load(&shared->ready));
	ck_assert_msg(fk_errno(shared->err) == EDQUOT && strstr(shared->text, text), "%s: %s",
		      who->name, shared->text);
	ck_assert_msg(atomic_load(&shared->n) == n, "%s has %u", who->name,
		      atomic_load(&shared->n));
	return pid;
}

static void end_all(const pid_t *pids, size_t n)
{
	atomic_store(&shared->go, 1);
	for (size_t i = 0; i < n; i++)
		ck_assert_int_eq(daemon_reap(pids[i]), 0);
	atomic_store(&shared->go, 0);
}

START_TEST(limits_are_those_of_the_user_its_groups_or_all)
{
	pid_t pids[4];

	begin();
	daemon_start(&d, "--workers=1", "--user-clients-max=2,@60100:5",
		     "--user-clients-max=65505:3", NULL);
	pids[0] = takes(&bob, 2, "uid 65502 has 2 connections, and may have user-clients-max (2)");
	pids[1] = takes(&alice, 5, "user-clients-max (5)");
	pids[2] = takes(&dave, 5, "user-clients-max (5)");
	pids[3] = takes(&mallory, 3, "user-clients-max (3)");
	end_all(pids, ARRAY_SIZE(pids));
	ck_assert_int_eq(daemon_stop(&d), 0);
}
END_TEST

START_TEST(jobs_and_bytes_have_limits_by_group_too)
{
	pid_t pids[4];

	begin();
	daemon_start(&d, "--workers=1", "--user-jobs-max=@60100:48,65502:32", NULL);
	pids[0] = takes(&bob, 2, "exceed user-jobs-max (32)");
	pids[1] = takes(&alice, 3, "exceed user-jobs-max (48)");
	end_all(pids, 2);
	ck_assert_int_eq(daemon_stop(&d), 0);
	daemon_start(&d, "--workers=1", "--user-shared-memory-max=300K,@60100:600K,0:0", NULL);
	pids[0] = takes(&bob, 3, "exceed user-shared-memory-max (307200)");
	pids[1] = takes(&dave, 7, "exceed user-shared-memory-max (614400)");
	end_all(pids, 2);
	ck_assert_int_eq(daemon_stop(&d), 0);
}
END_TEST

/* All connections of a uid count, whatever their groups are; the limit is the caller's. */
START_TEST(usage_is_summed_by_uid_and_compared_with_the_limit_of_each_connection)
{
	pid_t pids[4];

	begin();
	daemon_start(&d, "--workers=1", "--user-clients-max=2,@60100:5", NULL);
	pids[0] = takes(&plain_alice, 2, "uid 65501 has 2 connections");
	pids[1] =
		takes(&alice, 3, "uid 65501 has 5 connections, and may have user-clients-max (5)");
	pids[2] = takes(&plain_alice, 0,
			"uid 65501 has 5 connections, and may have user-clients-max "
			"(2)");
	pids[3] = takes(&bob, 2, "uid 65502 has 2 connections");
	end_all(pids, ARRAY_SIZE(pids));
	ck_assert_int_eq(daemon_stop(&d), 0);
}
END_TEST

/* ------------------------------------------------------------------------ tasks */

static uint32_t member;

/* Calls in each round, by one connection. */
static void call_in_rounds(void)
{
	uint32_t me = member, round = 0;
	int64_t n;
	fk_client *c;

	if (try_open(&c) < 0)
		_exit(2);
	for (;;) {
		shared->calls[me].fib = fk_call(c, "fib:fib", &n, INT64_C(10));
		shared->calls[me].maybe = fk_call(c, "crash:maybe", &n, INT64_C(0));
		shared->calls[me].gone = fk_call(c, "crash:no_such_task", &n);
		atomic_fetch_add(&shared->ready, 1);
		round++;
		while (atomic_load(&shared->round) < round && !atomic_load(&shared->go))
			(void)poll(NULL, 0, 1);
		if (atomic_load(&shared->go))
			_exit(fk_close(c) < 0 ? 3 : 0);
	}
}

static void has_called(const struct who *who, uint32_t of, int fib, int maybe)
{
	ck_assert_msg(shared->calls[of].fib == fib && shared->calls[of].maybe == maybe &&
			      shared->calls[of].gone == -FK_E_NO_TASK,
		      "%s: fib:fib %d, crash:maybe %d, %d", who->name, shared->calls[of].fib,
		      shared->calls[of].maybe, shared->calls[of].gone);
}

START_TEST(each_connection_calls_only_its_tasks_also_in_the_next_pool)
{
	static const struct who *const members[MEMBERS] = { &alice, &plain_alice, &bob, &carol };
	pid_t pids[MEMBERS], pool;

	begin();
	daemon_start(&d, "--workers=2", "--allow-tasks=*:fib:*,@60100:*:*",
		     "--allow-tasks=65502:crash:may??", "--allow-tasks=@60200:uts:*,@60200:[!f]*:*",
		     NULL);
	for (member = 0; member < MEMBERS; member++)
		pids[member] = start(members[member], call_in_rounds);
	for (uint32_t round = 0; round < 3; round++) {
		DAEMON_AWAIT(atomic_load(&shared->ready) == (round + 1) * MEMBERS);
		has_called(&alice, 0, 0, 0);
		/* Two connections of one uid, each with its own rules. */
		has_called(&plain_alice, 1, 0, -FK_E_DENIED);
		has_called(&bob, 2, -FK_E_DENIED, 0);
		has_called(&carol, 3, -FK_E_DENIED, 0);
		pool = daemon_pool(&d);
		ck_assert_int_eq(kill(pool, SIGKILL), 0);
		/* Some call while there is no pool. */
		atomic_store(&shared->round, round + 1);
		(void)jobs_pool_after(&d, pool);
	}
	DAEMON_AWAIT(atomic_load(&shared->ready) == 4 * MEMBERS);
	ck_assert_ptr_nonnull(strstr(fk_strerror(-FK_E_DENIED), "option allow-tasks"));
	end_all(pids, MEMBERS);
	atomic_store(&shared->round, 0);
	atomic_store(&shared->ready, 0);
	/* The next client in the slot has other rules. */
	for (uint32_t i = 0; i < MEMBERS; i++) {
		member = 0;
		pids[0] = start(members[i], call_in_rounds);
		DAEMON_AWAIT(atomic_load(&shared->ready) == i + 1);
		has_called(members[i], 0, i < 2 ? 0 : -FK_E_DENIED, i == 1 ? -FK_E_DENIED : 0);
		end_all(pids, 1);
	}
	ck_assert_int_eq(daemon_stop(&d), 0);
}
END_TEST

START_TEST(user_without_a_rule_calls_all_tasks)
{
	begin();
	daemon_start(&d, "--workers=1", "--allow-tasks=65502:sort:*", NULL);
	member = 0;
	for (uint32_t i = 0; i < 2; i++) {
		const struct who *who = i ? &bob : &carol;
		pid_t pid = start(who, call_in_rounds);

		DAEMON_AWAIT(atomic_load(&shared->ready) == i + 1);
		has_called(who, 0, i ? -FK_E_DENIED : 0, i ? -FK_E_DENIED : 0);
		end_all(&pid, 1);
	}
	ck_assert_int_eq(daemon_stop(&d), 0);
}
END_TEST

/* ------------------------------------------------------------------------ the next manager */

/* Lets each call once more, and waits for that. */
static void next_round(uint32_t n_members)
{
	uint32_t round = atomic_fetch_add(&shared->round, 1) + 1;

	DAEMON_AWAIT(atomic_load(&shared->ready) == (round + 1) * n_members);
}

START_TEST(connection_taken_over_calls_only_its_tasks)
{
	static const struct who *const members[MEMBERS] = { &alice, &plain_alice, &bob, &carol };
	struct systemd_stub *store;
	pid_t pids[MEMBERS];

	begin();
	store = kept_start(&d, "--workers=2", "--allow-tasks=*:fib:*,@60100:*:*",
			   "--allow-tasks=65502:crash:may??",
			   "--allow-tasks=@60200:uts:*,@60200:[!f]*:*", NULL);
	for (member = 0; member < MEMBERS; member++)
		pids[member] = start(members[member], call_in_rounds);
	DAEMON_AWAIT(atomic_load(&shared->ready) == MEMBERS);
	for (uint32_t round = 0; round < 3; round++) {
		kept_kill(&d, store);
		next_round(MEMBERS);
		has_called(&alice, 0, 0, 0);
		has_called(&plain_alice, 1, 0, -FK_E_DENIED);
		has_called(&bob, 2, -FK_E_DENIED, 0);
		has_called(&carol, 3, -FK_E_DENIED, 0);
		kept_ready(&d, store);
	}
	end_all(pids, MEMBERS);
	kept_stop(&d, store);
}
END_TEST

static void write_conf(const char *path, const char *lines)
{
	_cleanup_fclose_ FILE *f = fopen(path, "w");

	ck_assert_ptr_nonnull(f);
	ck_assert_int_ge(fputs(lines, f), 0);
}

/* Stays connected until it gets the reason of a disconnection, and then ends; its child has the
 * socket for longer. */
static void be_there(void)
{
	union proto_message m;
	int fds[PROTO_MAX_FDS];
	uint32_t n_fds;
	fk_client *c;

	if (try_open(&c) < 0)
		_exit(2);
	if (_Fork() == 0) {
		for (uint32_t ms = 0; ms < 2000 * DAEMON_PATIENCE && !atomic_load(&shared->go);
		     ms++)
			(void)poll(NULL, 0, 1);
		_exit(0);
	}
	atomic_fetch_add(&shared->ready, 1);
	if (proto_recv(c->fd, &m, fds, &n_fds, 0) != (int)sizeof(m.error) ||
	    m.head.type != PROTO_ERROR || m.error.code != -EACCES || !strstr(m.error.text, "deny"))
		_exit(3);
	if (proto_recv(c->fd, &m, fds, &n_fds, 0) != 0)
		_exit(4);
}

START_TEST(next_manager_applies_its_own_forkd_conf)
{
	struct systemd_stub *store;
	char path[128], config[160];
	pid_t pid, visitor;

	begin();
	daemon_prepare(&d);
	(void)snprintf(path, sizeof(path), "%s/forkd.conf", d.directory);
	(void)snprintf(config, sizeof(config), "--config=%s", path);
	write_conf(path, "allow-tasks = @60200:fib:*\n");
	store = kept_start(&d, "--workers=2", config, NULL);
	member = 0;
	pid = start(&carol, call_in_rounds);
	visitor = start(&bob, be_there);
	DAEMON_AWAIT(atomic_load(&shared->ready) == 2);
	has_called(&carol, 0, 0, -FK_E_DENIED);
	write_conf(path, "allow-tasks = @60200:crash:*\ndeny = 65502\n");
	kept_kill(&d, store);
	/* A client that is denied now is disconnected. */
	ck_assert_int_eq(daemon_reap(visitor), 0);
	kept_ready(&d, store);
	/* Carol, and the test. */
	DAEMON_AWAIT(counts_mapped(d.manager, "forkd-client", NULL) == 2);
	atomic_store(&shared->round, 1);
	DAEMON_AWAIT(atomic_load(&shared->ready) == 3);
	has_called(&carol, 0, -FK_E_DENIED, 0);
	ck_assert(daemon_logged(&d, "of the last forkd may not be in any more", "uid 65502"));
	ck_assert(!daemon_logged(&d, "of the last forkd may not be in any more", "uid 65503"));
	end_all(&pid, 1);
	kept_stop(&d, store);
}
END_TEST

/* ------------------------------------------------------------------------ messages */

START_TEST(warning_for_a_pattern_without_a_task_names_its_line)
{
	char path[128], config[160];

	daemon_prepare(&d);
	(void)snprintf(path, sizeof(path), "%s/forkd.conf", d.directory);
	(void)snprintf(config, sizeof(config), "--config=%s", path);
	write_conf(path, "# Rights to call tasks\n"
			 "allow-tasks = 65502:fib:*, 65502:srot:*\n"
			 "workers = 1\n"
			 "allow-tasks = *:*:*, 65503:fib:fi[x]\n");
	daemon_start(&d, config, NULL);
	ck_assert(daemon_logged(&d, "forkd.conf:2: allow-tasks: \"srot:*\" matches no task",
				"forkctl tasks"));
	ck_assert(
		daemon_logged(&d, "forkd.conf:4: allow-tasks: \"fib:fi[x]\" matches no task", ""));
	ck_assert(!daemon_logged(&d, "\"fib:*\"", "matches no task"));
	ck_assert(!daemon_logged(&d, "\"*:*\"", "matches no task"));
	ck_assert_int_eq(daemon_stop(&d), 0);
	daemon_start(&d, "--workers=1", "--allow-tasks=*:null:nothing", NULL);
	ck_assert(daemon_logged(&d, "command line: allow-tasks: \"null:nothing\" matches no task",
				""));
	ck_assert_int_eq(daemon_stop(&d), 0);
}
END_TEST

/* Checks that the line of a task in forkctl's list has this mark, or none. */
static void is_listed(const char *name, const char *mark)
{
	char text[65536], *line, *end;

	ck_assert_int_eq(daemon_ctl(&d, text, sizeof(text), "tasks", NULL), 0);
	line = strstr(text, name);
	ck_assert_ptr_nonnull(line);
	end = strchr(line, '\n');
	ck_assert_ptr_nonnull(end);
	*end = '\0';
	ck_assert_msg(mark ? strstr(line, mark) != NULL : !strchr(line, '('), "%s", line);
}

START_TEST(forkctl_tasks_marks_tasks_that_the_caller_may_not_call)
{
	char mine[64];
	fk_client *c;
	pid_t pool;

	(void)snprintf(mine, sizeof(mine), "--allow-tasks=%u:fib:*,%u:crash:segv", geteuid(),
		       geteuid());
	daemon_start(&d, "--workers=1", mine, "--quarantine-task-crashes=1", NULL);
	is_listed("fib:fib ", NULL);
	is_listed("crash:segv ", NULL);
	is_listed("null:add ", "(denied)");
	is_listed("crash:maybe ", "(denied)");
	c = daemon_open(&d);
	pool = daemon_pool(&d);
	(void)fk_call(c, "crash:segv", NULL);
	ck_assert_str_eq(jobs_crash(&d, 1)->task, "crash:segv");
	(void)jobs_pool_after(&d, pool);
	is_listed("crash:segv ", "(in quarantine)");
	is_listed("fib:fib ", NULL);
	is_listed("null:add ", "(denied)");
	daemon_stop_close(&d, c);
}
END_TEST

int main(void)
{
	if (geteuid() != 0)
		check_unit_leave_out(
			"only root can be several users",
			&denied_user_gets_the_reason_and_others_continue,
			&groups_are_those_of_the_time_of_the_connection,
			&limits_are_those_of_the_user_its_groups_or_all,
			&jobs_and_bytes_have_limits_by_group_too,
			&usage_is_summed_by_uid_and_compared_with_the_limit_of_each_connection,
			&each_connection_calls_only_its_tasks_also_in_the_next_pool,
			&user_without_a_rule_calls_all_tasks,
			&connection_taken_over_calls_only_its_tasks,
			&next_manager_applies_its_own_forkd_conf);
	return check_unit_main("rights");
}
