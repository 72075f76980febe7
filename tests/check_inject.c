/* SPDX-License-Identifier: MIT */
/*
 * inject - whatever call of the kernel's fails, whoever made it, and whenever
 *
 * WHAT IT IS
 *   A run is one failure: the n-th call of a kind, in the manager, in the pool or in a client,
 *   fails with an error that it can have. n goes from 1 on until a run has no n-th call any more;
 *   here only some of them, so that it does not take long, with `make inject` all of them, and more
 *   kinds of calls with more errors. What a run has to show:
 *
 *	- whoever calls gets the right result, or an error in words; in time
 *	- nobody dies of a signal, and the manager not at all once it is ready
 *	- afterwards everything works, and is given back: descriptors, mappings, memory, children
 *
 *   So much goes on in a run: a client of another user's comes, calls, submits, cancels and leaves
 *   (use); and a task crashes the pool, which is started again (restart); or a module is another,
 *   and forkd is told to reload (reload); or somebody traces what workers do (trace); or forkd
 *   itself starts, is used and stops (life).
 *
 * In the environment: INJECT is a part of a name ("pool restart mmap ENOMEM"), for only those, and
 * INJECT_NTH the n, for only that one.
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
#include "client/client.h"
#include "common/cleanup.h"
#include "common/util.h"
#include "daemon/loop_fault.h"
#include "daemon/manager.h"
#include "tests/check_unit.h"
#include "tests/counts.h"
#include "tests/inject.h"
#include "tests/visitor.h"

#define FIRST_UID 30000u
#define UIDS	  40u
#define KEPT	  16u /* users that have left and whose rings are kept (daemon/tenants.c) */
/* The manager's: board, arena, this test's, and rings of users that have left. */
#define MEMFDS(users) (6u + (users))
#define OPTIONS	      "--workers=2", "--arena-max=64M", "--socket-mode=0666"

/* Whose call fails; or RING: what io_uring does for the manager. */
enum who {
	MANAGER = 1,
	POOL = 2,
	CLIENT = 4,
	RING = 8,
};

enum when {
	USE,
	RESTART,
	RELOAD,
	TRACE,
	LIFE,
};

/* What can fail: its name and number (RING: enum loop_fault_kind), whose it is, and errors that it
 * can have; more: for `make inject` alone. */
static const struct call {
	const char *name;
	long number;
	unsigned int whose;
	int errors[6];
	bool more;
} calls[] = {
	{ "memfd_create", SYS_memfd_create, MANAGER, { ENOMEM, EMFILE, ENFILE } },
	{ "mmap", SYS_mmap, MANAGER | POOL | CLIENT, { ENOMEM, EAGAIN } },
	{ "ftruncate", SYS_ftruncate, MANAGER, { ENOSPC, EINTR, ENOMEM } },
	{ "fallocate", SYS_fallocate, MANAGER, { ENOSPC, EINTR, ENOMEM } },
	{ "futex", SYS_futex, MANAGER | POOL | CLIENT, { EINTR, EAGAIN } },
	{ "accept", SYS_accept4, MANAGER, { EMFILE, ENFILE, ENOMEM, EINTR, ECONNABORTED } },
	{ "recvmsg", SYS_recvmsg, MANAGER | POOL | CLIENT, { ENOMEM, EAGAIN, EINTR, ENOBUFS } },
	{ "sendmsg", SYS_sendmsg, MANAGER, { ENOBUFS, EAGAIN, EINTR, ENOMEM, ETOOMANYREFS } },
	{ "sendmsg", SYS_sendmsg, POOL | CLIENT, { ENOBUFS, EAGAIN, EINTR, ENOMEM } },
	/* EPERM: where a filter of the system's forbids it. */
	{ "timer_create", SYS_timer_create, POOL, { EAGAIN, ENOMEM, EPERM } },
	{ "timer_settime", SYS_timer_settime, POOL, { EPERM, EINVAL } },
	{ "io_uring_setup", SYS_io_uring_setup, MANAGER, { ENOMEM, EPERM, ENOSYS, EMFILE } },
	{ "io_uring_enter", SYS_io_uring_enter, MANAGER, { EINTR, EAGAIN, EBUSY }, true },
	{ "io_uring_register", SYS_io_uring_register, MANAGER, { ENOMEM, EINVAL }, true },
	{ "clone", SYS_clone, MANAGER | POOL, { EAGAIN, ENOMEM }, true },
	{ "clone3", SYS_clone3, MANAGER | POOL | CLIENT, { EAGAIN, ENOMEM }, true },
	{ "execve", SYS_execve, POOL, { ENOMEM, EAGAIN }, true },
	{ "socket", SYS_socket, MANAGER | CLIENT, { EMFILE, ENFILE, ENOBUFS }, true },
	{ "socketpair", SYS_socketpair, MANAGER, { EMFILE, ENFILE, ENOMEM }, true },
	{ "connect", SYS_connect, CLIENT, { EINTR, EAGAIN, ECONNREFUSED }, true },
	{ "getsockopt", SYS_getsockopt, MANAGER, { EMFILE, ENOMEM }, true },
	{ "setsockopt", SYS_setsockopt, MANAGER | CLIENT, { ENOMEM, ENOPROTOOPT }, true },
	{ "pidfd_open", SYS_pidfd_open, MANAGER, { EMFILE, ENFILE, ENOMEM }, true },
	{ "eventfd2", SYS_eventfd2, MANAGER | CLIENT, { EMFILE, ENOMEM }, true },
	{ "signalfd4", SYS_signalfd4, MANAGER, { EMFILE, ENOMEM }, true },
	{ "openat", SYS_openat, MANAGER | POOL, { EMFILE, ENFILE, ENOMEM }, true },
	{ "fcntl", SYS_fcntl, CLIENT, { ENOMEM }, true },
	{ "fchmod", SYS_fchmod, MANAGER, { EPERM }, true },
	/* Not the pool's: hwloc loses a descriptor of a folder. */
	{ "fstat", SYS_newfstatat, MANAGER | CLIENT, { ENOMEM }, true },
	/* EIO is for good: such a module is left out. */
	{ "read", SYS_read, MANAGER, { EINTR, ENOMEM, EIO }, true },
	{ "read", SYS_read, POOL, { EINTR, ENOMEM }, true },
	{ "pread", SYS_pread64, MANAGER | POOL | CLIENT, { EINTR, ENOMEM }, true },
	{ "pwrite", SYS_pwrite64, MANAGER, { ENOSPC, EINTR, ENOMEM }, true },
	{ "write", SYS_write, MANAGER | POOL, { ENOSPC, EAGAIN }, true },
	{ "poll", SYS_poll, MANAGER | POOL, { EINTR, ENOMEM }, true },
	{ "ppoll", SYS_ppoll, POOL, { EINTR, ENOMEM }, true },
	{ "recvfrom", SYS_recvfrom, MANAGER | CLIENT, { EINTR, ENOMEM }, true },
	{ "sendto", SYS_sendto, MANAGER, { EAGAIN, ENOBUFS }, true },
	{ "madvise", SYS_madvise, POOL | CLIENT, { EAGAIN, ENOMEM }, true },
	{ "mbind", SYS_mbind, POOL, { ENOMEM, EPERM }, true },
	{ "membarrier", SYS_membarrier, POOL, { EPERM, ENOMEM }, true },
	{ "mprotect", SYS_mprotect, POOL | CLIENT, { ENOMEM }, true },
	{ "mremap", SYS_mremap, POOL, { ENOMEM }, true },
	{ "prctl", SYS_prctl, MANAGER | POOL, { EPERM }, true },
	{ "prlimit", SYS_prlimit64, MANAGER | POOL, { EPERM }, true },
	{ "getrandom", SYS_getrandom, MANAGER, { EINTR, ENOSYS }, true },
	{ "sched_setaffinity", SYS_sched_setaffinity, POOL, { EINVAL, EPERM }, true },
	{ "waitid", SYS_waitid, MANAGER, { EINTR }, true },
	{ "fallocate", LOOP_FAULT_FALLOCATE, RING, { ENOSPC, ENOMEM, EINTR } },
	{ "poll", LOOP_FAULT_POLL, RING, { ENOMEM, EINTR } },
	{ "timeout", LOOP_FAULT_TIMER, RING, { ENOMEM } },
	{ "memory", LOOP_FAULT_ARM, RING, { ENOMEM } },
	{ "entry", LOOP_FAULT_ENTRY, RING, { ENOMEM } },
};

static bool all; /* `make inject` */
static struct daemon d;
static struct inject inject;
static struct loop_fault *faults; /* a file that the manager maps */

static struct tally {
	uint32_t runs;	 /* in which something has failed */
	uint32_t right;	 /* of these: nobody who called has noticed */
	uint32_t errors; /* somebody was told so; or forkd did not start: */
	uint32_t ends;
} tally;

static char run_name[128];

#define SAY(condition, ...)                                                                        \
	do {                                                                                       \
		if (!(condition)) {                                                                \
			(void)fprintf(stderr, "%s: ", run_name);                                   \
			(void)fprintf(stderr, __VA_ARGS__);                                        \
			(void)fputc('\n', stderr);                                                 \
			ck_abort_msg("%s", run_name);                                              \
		}                                                                                  \
	} while (0)

/* ------------------------------------------------------------------------ runs */

/* How many users there are, and which of them was here last. */
static uint32_t n_users = UIDS, visitor;

/* A visitor, in a process of its own, of the user who was here last. */

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

/* Of one who was not here for a while. */
static enum answer visit(enum when when)
{
	visitor++;
	return visit_again(when);
}

/* Another file of a module is there, and the next pool has loaded it; or who asked for that is told
 * why not. */
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

/* Somebody traces meanwhile, or is told why not. */
static enum answer trace_and_visit(enum when when)
{
	static const char *const argv[] = { "forkctl", "trace", "-o", "/dev/null", NULL };
	char text[1024] = "", path[128];
	enum answer answer;
	int status;
	pid_t pid;

	(void)snprintf(path, sizeof(path), "%s/trace.out", d.folder);
	(void)unlink(path); /* of the run before */
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

/* One kind of run. */
struct run {
	enum who who;
	enum when when;
	void (*before)(void); /* or NULL */
	enum answer (*during)(enum when when);
	void (*after)(void);
};

static void arm(enum who who, const struct call *call, int err, uint64_t n, uint64_t times)
{
	bool ring = who == RING;

	/* Also where no call is to fail: their naps are counted. */
	inject_arm(&inject, who == POOL ? INJECT_OTHERS : INJECT_FIRST, ring ? -1 : call->number,
		   err, n, times);
	if (ring)
		loop_fault_arm(faults, (enum loop_fault_kind)call->number, -err, (uint32_t)n,
			       (uint32_t)times);
}

/* How many have failed. */
static uint64_t disarm(enum who who, const struct call *call)
{
	uint64_t n = inject_disarm(&inject);
	uint32_t seen, nth;

	if (who != RING)
		return n;
	seen = atomic_load(&faults->kinds[call->number].seen);
	nth = atomic_exchange(&faults->kinds[call->number].nth, 0);
	return seen < nth ? 0
			  : min(seen - nth + 1, atomic_load(&faults->kinds[call->number].times));
}

/* True if something of it has failed. */
static bool run_once(const struct run *run, const struct call *call, int err, uint64_t n)
{
	enum answer answer;
	bool failed;

	if (run->before)
		run->before();
	arm(run->who, call, err, n, 1);
	answer = run->during(run->when);
	failed = disarm(run->who, call) != 0;
	SAY(answer != WRONG, "wrong");
	SAY(failed || answer == RIGHT, "an error although nothing has failed");
	run->after();
	tally.runs += failed;
	tally.right += failed && answer == RIGHT;
	tally.errors += answer == ERROR;
	return failed;
}

static void name_run(enum who who, enum when when, const struct call *call, int err, uint64_t n)
{
	static const char *const whose[] = {
		[MANAGER] = "manager", [POOL] = "pool", [CLIENT] = "client", [RING] = "ring"
	};
	static const char *const times[] = { "use", "restart", "reload", "trace", "life" };

	(void)snprintf(run_name, sizeof(run_name), "%s %s %s %s %" PRIu64, whose[who], times[when],
		       call->name, strerrorname_np(err), n);
}

/* The run that has its name. */
static bool is_wanted(void)
{
	const char *part = getenv("INJECT");

	return !part || strstr(run_name, part);
}

/* Only some of them, further apart the more there were, where not all are wanted. */
static void run_series(const struct run *run, const struct call *call, int err)
{
	const char *nth = getenv("INJECT_NTH");
	uint64_t n = nth ? strtoull(nth, NULL, 10) : 1;

	do {
		name_run(run->who, run->when, call, err, n);
		if (!is_wanted())
			return;
		/* The last one is that which does not end. */
		(void)fprintf(stderr, "%s\n", run_name);
	} while (run_once(run, call, err, n) && !nth && (n += all || n < 3 ? 1 : n));
}

/* Is there an error of this index that the call is to fail with here? */
static bool has_error(const struct call *call, enum who who, uint32_t e)
{
	if (!(call->whose & who) || !call->errors[e] || (!all && (call->more || e)))
		return false;
	/* A sanitizer's own allocator ends the process then. */
	return !(daemon_sanitized() && streq(call->name, "mmap"));
}

/* Is any of those? Else nothing needs to be started. */
static bool are_wanted(enum who who, enum when when)
{
	for (uint32_t i = 0; i < ARRAY_SIZE(calls); i++) {
		for (uint32_t e = 0; has_error(&calls[i], who, e); e++) {
			name_run(who, when, &calls[i], calls[i].errors[e], 1);
			if (is_wanted())
				return true;
		}
	}
	return false;
}

static void run_all(const struct run *run)
{
	for (uint32_t i = 0; i < ARRAY_SIZE(calls); i++)
		for (uint32_t e = 0; has_error(&calls[i], run->who, e); e++)
			run_series(run, &calls[i], calls[i].errors[e]);
	if (tally.runs)
		(void)fprintf(stderr,
			      "%u runs: %u right, %u told of an error, of these %u ends of forkd\n",
			      tally.runs, tally.right, tally.errors, tally.ends);
}

/* ------------------------------------------------------------------------ a forkd that runs */

static void enter(void)
{
	if (inject_enter(&inject) < 0)
		_exit(126);
}

/* More modules would be more calls of the same. */
static void prepare(void)
{
	daemon_prepare_bare(&d);
	daemon_add_module(&d, "daemon/modules/.libs/fib.so", "fib.so");
	daemon_add_module(&d, "tests/modules/.libs/bytes.so", "bytes.so");
	daemon_add_module(&d, "tests/modules/.libs/crash.so", "crash.so");
	inject_begin(&inject);
	d.entering = enter;
}

static struct counts counts_before;

/* What the manager has, but for what it has of a client that has just left. */
static struct counts_process held(void)
{
	DAEMON_AWAIT(counts_mapped(d.manager, "forkd-client", NULL) == 1);
	return counts_read(&d).manager;
}

/* What holds when nothing fails any more. */
static void look(void)
{
	const struct counts_process *before = &counts_before.manager;

	SAY(waitpid(d.manager, NULL, WNOHANG) == 0, "the manager has ended, see %s", d.log);
	SAY(!daemon_logged(&d, "Assertion", ""), "an assertion, see %s", d.log);
	/* These two come again, so the pool has what it could not map the first time. */
	if (n_users == 1) {
		(void)fk_close(d.watcher);
		d.watcher = daemon_open(&d);
		d.board = d.watcher->board;
	}
	SAY(visit_again(USE) == RIGHT, "it does not work afterwards, see %s", d.log);
	/* Who was refused for want of memory has had the manager give back what it kept. */
	for (uint32_t i = 0; all && i < KEPT; i++)
		if (held().memfds < before->memfds)
			(void)visit(USE);
	/* A descriptor that it has kept for the next pool comes again with that. */
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
	/* With more, the next pool may have failed to map the rings of one who is not here. */
	if (when != USE)
		n_users = 1;
	prepare();
	daemon_start(&d, OPTIONS, NULL);
	for (uint32_t i = 0; i < n_users; i++)
		SAY(visit(i ? USE : RESTART) == RIGHT, "not even without a fault, see %s", d.log);
	/* The pool keeps the place of a trace in its memory for the next one. */
	SAY(when != TRACE || trace_and_visit(when) == RIGHT, "not even without a fault");
	DAEMON_AWAIT((counts_before = counts_read(&d)).manager.memfds ==
		     MEMFDS(min(n_users, KEPT)));
	run_all(&run);
	ck_assert_int_eq(daemon_stop(&d), 0);
	inject_end(&inject);
}

START_TEST(a_call_of_the_manager_fails_while_clients_come_and_go)
{
	while_it_runs(MANAGER, USE);
}
END_TEST

START_TEST(a_call_of_the_pool_fails_while_clients_come_and_go)
{
	while_it_runs(POOL, USE);
}
END_TEST

START_TEST(a_call_of_the_manager_fails_while_the_pool_is_started_again)
{
	while_it_runs(MANAGER, RESTART);
}
END_TEST

START_TEST(a_call_of_the_pool_fails_while_it_is_started_again)
{
	while_it_runs(POOL, RESTART);
}
END_TEST

START_TEST(a_call_of_the_manager_fails_while_it_reloads)
{
	while_it_runs(MANAGER, RELOAD);
}
END_TEST

START_TEST(a_call_of_the_pool_or_of_the_trial_fails_in_a_reload)
{
	while_it_runs(POOL, RELOAD);
}
END_TEST

START_TEST(a_call_of_the_manager_fails_while_somebody_traces)
{
	while_it_runs(MANAGER, TRACE);
}
END_TEST

START_TEST(a_call_of_the_pool_fails_while_somebody_traces)
{
	while_it_runs(POOL, TRACE);
}
END_TEST

/* ------------------------------------------------------------------------ for long */

#define LONG 100u /* refusals in a row */

/* Whoever has no memory to hear others with hears them later, and does not spin meanwhile. */
static void for_long(enum who who, const struct call *call, int err)
{
	uint64_t refused, naps;

	name_run(who, USE, call, err, LONG);
	if (!is_wanted())
		return;
	prepare();
	daemon_start(&d, OPTIONS, NULL);
	SAY(visit(USE) == RIGHT, "not even without a fault");
	/* It is not the end of that one that is disturbed. */
	(void)held();
	arm(who, call, err, 1, LONG);
	SAY(visit(USE) == RIGHT, "it does not work, see %s", d.log);
	refused = disarm(who, call);
	naps = inject_naps(&inject);
	SAY(refused == LONG, "only %" PRIu64 " have failed", refused);
	/* All that are waited for share them: some for the client, the pool, the socket. */
	SAY(naps >= LONG / 10, "only %" PRIu64 " naps", naps);
	ck_assert_int_eq(daemon_stop(&d), 0);
	inject_end(&inject);
}

START_TEST(the_manager_has_no_memory_to_hear_anybody_with_for_long)
{
	for_long(MANAGER, &(struct call){ "recvmsg", SYS_recvmsg }, ENOMEM);
}
END_TEST

START_TEST(the_pool_has_no_memory_to_hear_the_manager_with_for_long)
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

	/* A sanitizer's allocator has mappings as it likes. */
	SAY(after.descriptors == own_before.descriptors &&
		    (daemon_sanitized() || after.maps == own_before.maps),
	    "%u descriptors and %u maps, were %u and %u", after.descriptors, after.maps,
	    own_before.descriptors, own_before.maps);
}

START_TEST(a_call_of_a_client_fails)
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

/* forkd, from its start to its end. */
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
	/* It never was ready: it says why, and has taken its socket along. */
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

START_TEST(a_call_of_the_manager_fails_in_its_life)
{
	in_its_life(MANAGER);
}
END_TEST

START_TEST(a_call_of_the_pool_fails_in_its_life)
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
	ck_assert_int_eq(setenv("FORKD_LOOP_FAULT", path, 1), 0);
}

static void ring_end(void)
{
	(void)unlink(getenv("FORKD_LOOP_FAULT"));
}

START_TEST(what_io_uring_does_fails_while_clients_come_and_go)
{
	ring_begin();
	while_it_runs(RING, USE);
	ring_end();
}
END_TEST

START_TEST(what_io_uring_does_fails_while_the_pool_is_started_again)
{
	ring_begin();
	while_it_runs(RING, RESTART);
	ring_end();
}
END_TEST

START_TEST(the_kernel_has_no_memory_to_wait_with_for_long)
{
	ring_begin();
	for_long(RING, &(struct call){ "poll", LOOP_FAULT_POLL }, ENOMEM);
	ring_end();
}
END_TEST

START_TEST(what_io_uring_does_fails_in_its_life)
{
	ring_begin();
	in_its_life(RING);
	ring_end();
}
END_TEST

#ifdef FK_CRASH_SITES
#define NO_SITES 0
#else
#define NO_SITES 4 /* the last tests */
#endif

int main(void)
{
	const TTest *const tests[] = {
		a_call_of_the_manager_fails_while_clients_come_and_go,
		a_call_of_the_pool_fails_while_clients_come_and_go,
		a_call_of_the_manager_fails_while_the_pool_is_started_again,
		a_call_of_the_pool_fails_while_it_is_started_again,
		a_call_of_the_manager_fails_while_it_reloads,
		a_call_of_the_pool_or_of_the_trial_fails_in_a_reload,
		a_call_of_the_manager_fails_while_somebody_traces,
		a_call_of_the_pool_fails_while_somebody_traces,
		the_manager_has_no_memory_to_hear_anybody_with_for_long,
		the_pool_has_no_memory_to_hear_the_manager_with_for_long,
		a_call_of_a_client_fails,
		a_call_of_the_manager_fails_in_its_life,
		a_call_of_the_pool_fails_in_its_life,
		what_io_uring_does_fails_while_clients_come_and_go,
		what_io_uring_does_fails_while_the_pool_is_started_again,
		what_io_uring_does_fails_in_its_life,
		the_kernel_has_no_memory_to_wait_with_for_long,
	};
	const char *lacks = inject_lacks();
	size_t n;

	if (lacks) {
		printf("no call can be made to fail here: %s\n", lacks);
		return 77;
	}
	all = getenv("INJECT_ALL") != NULL;
	n = check_unit_leave_out(tests, ARRAY_SIZE(tests), NO_SITES, "needs --enable-crash-sites");
	return check_unit_run("inject", tests, n, NULL, NULL, all ? 20000 : CHECK_TIMEOUT);
}
