/* SPDX-License-Identifier: MIT */
/*
 * inject - each system call fails once, in each process
 *
 * One call after another fails, once each (inject_runs.h). Required results of a run:
 *
 * 	- each call of a client gets the right result, or an error with a text; in time
 * 	- no process dies of a signal, and the manager never ends once it is ready
 * 	- afterwards everything works, and all is released: descriptors, mappings, memory, children
 *
 * In a run a client of another user connects, calls, submits, cancels and leaves (use); and a task
 * crashes the pool, which is replaced (restart); or a module has changed, and forkd reloads
 * (reload); or workers are traced (trace); or forkd itself starts, is used and stops (life).
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHECK_TIMEOUT 590
#include "client/lib/client.h"
#include "common/cleanup.h"
#include "common/util.h"
#include "daemon/manager/manager.h"
#include "tests/support/check_unit.h"
#include "tests/support/counts.h"
#include "tests/support/inject_runs.h"

#define FIRST_UID 30000u
#define UIDS	  40u
#define KEPT	  16u /* users that have left and whose rings are kept (daemon/manager/tenants.c) */
/* The manager's: board, arena, this test's, and rings of users that have left. */
#define MEMFDS(users) (6u + (users))
#define OPTIONS	      "--workers=2", "--arena-max=64M", "--socket-mode=0666"

static struct daemon d;

/* ------------------------------------------------------------------------ actions */

/* The number of users, and the user of the last visit. */
static uint32_t n_users = UIDS, visitor;

/* A visitor, in a child, of the last user. */
static enum answer visit_again(enum when when)
{
	pid_t pid = daemon_fork(FIRST_UID + visitor % n_users);
	int status;

	if (pid == 0) {
		(void)alarm(2 * VISITOR_PATIENCE);
		_exit(visitor_comes(&d, run_name, when == RESTART));
	}
	status = daemon_reap(pid);
	SAY(status <= ERROR, "the client ended with %d", status);
	return (enum answer)status;
}

/* A visitor of a user that was absent for some time. */
static enum answer visit(enum when when)
{
	visitor++;
	return visit_again(when);
}

/* A module has another file, and the next pool has loaded it; or forkctl reports an error. */
static enum answer reload_and_visit(enum when when)
{
	char path[128], text[1024] = "";
	enum answer answer;
	int status;

	(void)snprintf(path, sizeof(path), "%s/fib.so", d.modules);
	SAY(utimensat(AT_FDCWD, path, NULL, 0) == 0, "%s is not there", path);
	status = daemon_ctl(&d, text, sizeof(text), "reload", NULL);
	SAY(status == 0 ? strstr(text, "another pool") != NULL
			: (status == 1 || status == 3) && text[0],
	    "forkctl reload ended with %d: %s", status, text);
	answer = visit(when);
	return answer == RIGHT && status ? ERROR : answer;
}

static void read_text(const char *path, char *text, size_t size)
{
	_cleanup_fclose_ FILE *file = fopen(path, "re");

	text[file ? fread(text, 1, size - 1, file) : 0] = '\0';
}

/* forkctl traces at the same time, or reports an error. */
static enum answer trace_and_visit(enum when when)
{
	static const char *const argv[] = { "forkctl", "trace", "-o", "/dev/null", NULL };
	char text[1024] = "", path[128];
	enum answer answer;
	int status;
	pid_t pid;

	(void)snprintf(path, sizeof(path), "%s/trace.out", d.directory);
	(void)unlink(path); /* of the previous run */
	pid = daemon_spawn(&d, "trace.out", argv);
	while (!strstr(text, "tracing") && !daemon_has_ended(pid))
		read_text(path, text, sizeof(text));
	answer = visit(when);
	(void)kill(pid, SIGINT);
	status = daemon_reap(pid);
	read_text(path, text, sizeof(text));
	SAY(status == 0 || ((status == 1 || status == 3) && text[0]),
	    "forkctl trace ended with %d: %s", status, text);
	return answer == RIGHT && status ? ERROR : answer;
}

/* ------------------------------------------------------------------------ a forkd that runs */

static void enter(void)
{
	if (inject_enter(&inject) < 0)
		_exit(126);
}

/* More modules would be more calls of the same kind. */
static void prepare(void)
{
	daemon_prepare_bare(&d);
	daemon_add_module(&d, "daemon/modules/.libs/fib.so", "fib.so");
	daemon_add_module(&d, "tests/support/modules/.libs/bytes.so", "bytes.so");
	daemon_add_module(&d, "tests/support/modules/.libs/crash.so", "crash.so");
	inject_begin(&inject);
	d.entering = enter;
}

static struct counts counts_before;

/* Returns the resources of the manager, except for those of a client that has just left. */
static struct counts_process held(void)
{
	DAEMON_AWAIT(counts_mapped(d.manager, "forkd-client", NULL) == 1);
	return counts_read(&d).manager;
}

/* The checks after a run, when no call fails any more. */
static void look(void)
{
	const struct counts_process *before = &counts_before.manager;

	SAY(waitpid(d.manager, NULL, WNOHANG) == 0, "the manager has ended, see %s", d.log);
	SAY(!daemon_logged(&d, "Assertion", ""), "an assertion, see %s", d.log);
	/* Both clients connect again, so the pool has mappings that failed the first time. */
	if (n_users == 1) {
		(void)fk_close(d.watcher);
		d.watcher = daemon_open(&d);
		d.board = d.watcher->board;
	}
	SAY(visit_again(USE) == RIGHT, "it does not work afterwards, see %s", d.log);
	/* For a client that got no memory the manager has released a kept segment. */
	for (uint32_t i = 0; all && i < KEPT; i++)
		if (held().memfds < before->memfds)
			(void)visit(USE);
	/* A descriptor that it had kept for the next pool returns with that pool. */
	if (all && n_users == 1 && held().descriptors < before->descriptors)
		(void)visit(RESTART);
	counts_await(&d, &counts_before);
}

static void while_it_runs(enum who who, enum when when)
{
	static enum answer (*const during[])(enum when) = {
		[USE] = visit, [RESTART] = visit, [RELOAD] = reload_and_visit, [TRACE] = trace_and_visit
	};
	const struct run run = { who, when, NULL, during[when], look };

	if (!are_wanted(who, when))
		return;
	/* With more users, the next pool may have failed to map the rings of an absent user. */
	if (when != USE)
		n_users = 1;
	prepare();
	daemon_start(&d, OPTIONS, NULL);
	for (uint32_t i = 0; i < n_users; i++)
		SAY(visit(i ? USE : RESTART) == RIGHT, "not even without a fault, see %s", d.log);
	/* The pool keeps the address range of a trace for the next one. */
	SAY(when != TRACE || trace_and_visit(when) == RIGHT, "not even without a fault");
	DAEMON_AWAIT((counts_before = counts_read(&d)).manager.memfds ==
		     MEMFDS(min(n_users, KEPT)));
	run_all(&run);
	ck_assert_int_eq(daemon_stop(&d), 0);
	inject_end(&inject);
}

START_TEST(manager_survives_failed_calls_while_clients_come_and_go)
{
	while_it_runs(MANAGER, USE);
}
END_TEST

START_TEST(pool_survives_failed_calls_while_clients_come_and_go)
{
	while_it_runs(POOL, USE);
}
END_TEST

START_TEST(manager_survives_failed_calls_while_the_pool_is_replaced)
{
	while_it_runs(MANAGER, RESTART);
}
END_TEST

START_TEST(pool_survives_failed_calls_while_it_is_replaced)
{
	while_it_runs(POOL, RESTART);
}
END_TEST

START_TEST(manager_survives_failed_calls_during_a_reload)
{
	while_it_runs(MANAGER, RELOAD);
}
END_TEST

START_TEST(pool_and_trial_survive_failed_calls_in_a_reload)
{
	while_it_runs(POOL, RELOAD);
}
END_TEST

START_TEST(manager_survives_failed_calls_during_a_trace)
{
	while_it_runs(MANAGER, TRACE);
}
END_TEST

START_TEST(pool_survives_failed_calls_during_a_trace)
{
	while_it_runs(POOL, TRACE);
}
END_TEST

/* ------------------------------------------------------------------------ repeated failures */

#define LONG 100u /* refusals in a row */

/* A process without memory to receive receives later, and does not spin until then. */
static void for_long(enum who who, const struct call *call, int err)
{
	uint64_t refused, naps;

	name_run(who, USE, call, err, LONG);
	if (!is_wanted())
		return;
	prepare();
	daemon_start(&d, OPTIONS, NULL);
	SAY(visit(USE) == RIGHT, "not even without a fault");
	/* The end of that client is not disturbed. */
	(void)held();
	arm(who, call, err, 1, LONG);
	SAY(visit(USE) == RIGHT, "it does not work, see %s", d.log);
	refused = disarm(who, call);
	naps = inject_naps(&inject);
	SAY(refused == LONG, "only %" PRIu64 " have failed", refused);
	/* All waits share them: some for the client, the pool, the socket. */
	SAY(naps >= LONG / 10, "only %" PRIu64 " naps", naps);
	ck_assert_int_eq(daemon_stop(&d), 0);
	inject_end(&inject);
}

START_TEST(manager_without_memory_to_receive_recovers)
{
	for_long(MANAGER, &(struct call){ "recvmsg", SYS_recvmsg }, ENOMEM);
}
END_TEST

START_TEST(pool_without_memory_to_receive_recovers)
{
	for_long(POOL, &(struct call){ "recvmsg", SYS_recvmsg }, ENOBUFS);
}
END_TEST

/* ------------------------------------------------------------------------ a client's own */

struct own {
	uint32_t descriptors;
	uint32_t maps;
};

static struct own own_before;

static struct own own_counts(void)
{
	_cleanup_fclose_ FILE *f = fopen("/proc/self/maps", "re");
	_cleanup_closedir_ DIR *dir = opendir("/proc/self/fd");
	_cleanup_free_ char *line = NULL;
	struct own own = { 0 };
	size_t size = 0;

	while (f && getline(&line, &size, f) >= 0)
		own.maps++;
	while (dir && readdir(dir))
		own.descriptors++;
	return own;
}

static void own_note(void)
{
	(void)alarm(2 * VISITOR_PATIENCE);
	own_before = own_counts();
}

static enum answer own_use(enum when when)
{
	return visitor_comes(&d, run_name, when == RESTART);
}

static void own_compare(void)
{
	const struct own after = own_counts();

	/* A sanitizer's allocator has other mappings at any time. */
	SAY(after.descriptors == own_before.descriptors &&
		    (daemon_sanitized() || after.maps == own_before.maps),
	    "%u descriptors and %u maps, were %u and %u", after.descriptors, after.maps,
	    own_before.descriptors, own_before.maps);
}

START_TEST(client_survives_failed_calls)
{
	const struct run run = { CLIENT, USE, own_note, own_use, own_compare };
	struct counts before;
	pid_t pid;

	if (!are_wanted(CLIENT, USE))
		return;
	prepare();
	d.entering = NULL;
	daemon_start(&d, OPTIONS, NULL);
	SAY(visit(USE) == RIGHT, "not even without a fault");
	DAEMON_AWAIT((before = counts_read(&d)).manager.memfds == MEMFDS(1));
	pid = daemon_fork(FIRST_UID + visitor % n_users);
	if (pid == 0) {
		enter();
		SAY(own_use(USE) == RIGHT, "not even without a fault");
		run_all(&run);
		_exit(0);
	}
	SAY(daemon_reap(pid) == 0, "the client has died");
	inject_end(&inject);
	counts_await(&d, &before);
	ck_assert_int_eq(daemon_stop(&d), 0);
}
END_TEST

/* ------------------------------------------------------------------------ a whole life */

/* Runs forkd from its start to its end. */
static enum answer live(enum when when)
{
	static const char *const options[] = { OPTIONS, NULL };
	int status = daemon_launch(&d, options);
	enum answer answer;

	if (status == -1) {
		answer = visit(when);
		status = daemon_stop(&d);
		SAY(status == 0, "forkd ended with %d", status);
		return answer;
	}
	/* It never was ready: it logs the cause, and has removed its socket. */
	SAY(status > MANAGER_EXIT_BUG && status < 126, "forkd ended with %d, see %s", status,
	    d.log);
	SAY(daemon_logged(&d, ": ", ""), "forkd ended with %d and has no words", status);
	SAY(access(d.socket, F_OK) < 0, "the socket %s is left", d.socket);
	SAY(!daemon_logged(&d, "Sanitizer", "") && !daemon_logged(&d, "Assertion", ""), "see %s",
	    d.log);
	daemon_discard(&d);
	tally.ends++;
	return ERROR;
}

static void wait_for_all(void)
{
	inject_end(&inject);
}

static void in_its_life(enum who who)
{
	const struct run run = { who, LIFE, prepare, live, wait_for_all };

	run_all(&run);
}

START_TEST(manager_reports_failed_calls_from_start_to_stop)
{
	in_its_life(MANAGER);
}
END_TEST

START_TEST(pool_survives_failed_calls_from_start_to_stop)
{
	in_its_life(POOL);
}
END_TEST

/* ------------------------------------------------------------------------ io_uring */

static void ring_begin(void)
{
	char path[] = "/tmp/check_inject.XXXXXX";
	_cleanup_close_ int fd = mkstemp(path);

	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(ftruncate(fd, sizeof(*faults)), 0);
	faults = mmap(NULL, sizeof(*faults), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	ck_assert_ptr_ne(faults, MAP_FAILED);
	ck_assert_int_eq(setenv("FORKD_LOOP_INJECT", path, 1), 0);
}

static void ring_end(void)
{
	(void)unlink(getenv("FORKD_LOOP_INJECT"));
}

START_TEST(io_uring_fails_while_clients_come_and_go)
{
	ring_begin();
	while_it_runs(RING, USE);
	ring_end();
}
END_TEST

START_TEST(io_uring_fails_while_the_pool_is_restarted)
{
	ring_begin();
	while_it_runs(RING, RESTART);
	ring_end();
}
END_TEST

START_TEST(manager_recovers_if_the_kernel_has_no_memory_for_waits)
{
	ring_begin();
	for_long(RING, &(struct call){ "poll", LOOP_INJECT_POLL }, ENOMEM);
	ring_end();
}
END_TEST

START_TEST(io_uring_fails_in_the_life_of_the_manager)
{
	ring_begin();
	in_its_life(RING);
	ring_end();
}
END_TEST

int main(void)
{
	const char *lacks = inject_lacks();

	if (lacks) {
		printf("no call can be made to fail here: %s\n", lacks);
		return 77;
	}
	all = getenv("INJECT_ALL") != NULL;
#ifndef FK_CRASH_SITES
	check_unit_leave_out("needs --enable-crash-sites",
			     &io_uring_fails_while_clients_come_and_go,
			     &io_uring_fails_while_the_pool_is_restarted,
			     &io_uring_fails_in_the_life_of_the_manager,
			     &manager_recovers_if_the_kernel_has_no_memory_for_waits);
#endif
	return check_unit_run("inject", NULL, NULL, all ? 20000 : CHECK_TIMEOUT);
}
