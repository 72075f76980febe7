/* SPDX-License-Identifier: MIT */
/*
 * check_pool_process.c - a pool that sends too much, a pool for which no descriptor is left, and a
 * kernel without memory
 *
 * The pool is this program, as pool_process.c starts it: --pool, with its channel as descriptor 3.
 */
#include "daemon/manager/pool_process.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/pidfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/options.h"
#include "common/util.h"
#include "daemon/manager/settings.h"
#include "daemon/manager/socket_close.h"
#include "shm/proto.h"
#include "tests/support/check_unit.h"
#include "tests/support/passed.h"

#define CHANNEL	  3
#define TURN	  64u /* POOL_PROCESS_TURN */
#define AT_LEAST  (2 * TURN)
#define DIED_TEXT "it has said enough"

static struct loop loop;
static struct socket_closer closer = { .loop = &loop };
static struct options options;
static struct store store = FDSTORE_INIT;
static struct pool_process pool;
static int file; /* replaces board and arena */
static uint32_t released, since, most, expected, deaths;

static int pool_say(uint32_t type, uint32_t client, int flags)
{
	struct proto_pool m = { .head = { PROTO_MAGIC, type }, .client = client };

	if (type == PROTO_POOL_FAILED)
		strcpy(m.text, DIED_TEXT);
	return (int)send(CHANNEL, &m, sizeof(m), flags);
}

/* A pool of which a task sends a descriptor that cannot be closed until this test has ended. */
static void __attribute__((noreturn)) pass_one(void)
{
	const struct proto_pool m = { .head = { PROTO_MAGIC, PROTO_POOL_RELEASED } };
	struct pollfd p = { .fd = pidfd_open(getppid(), 0), .events = POLLIN };
	int peer, fd = passed_lingering(&peer), ready[2];
	char byte;

	if (pipe(ready) < 0)
		_exit(2);
	if (fork() == 0) {
		/* It keeps only the peer. */
		(void)close_range(STDIN_FILENO, CHANNEL, 0);
		(void)close(fd);
		(void)close(ready[0]);
		(void)close(ready[1]);
		(void)poll(&p, 1, -1);
		_exit(0);
	}
	(void)close(ready[1]);
	(void)!read(ready[0], &byte, 1);
	/* It looks like the end of the channel. */
	if (streq(getenv("CHECK_POOL_PASSES"), "hidden") && send(CHANNEL, NULL, 0, 0) < 0)
		_exit(2);
	if (passed_send(CHANNEL, &m, sizeof(m), &fd, 1) < 0)
		_exit(2);
	(void)close(fd);
	for (;;)
		(void)pause();
}

/* The pool's side: fills the channel, stops until SIGCONT, and sends the number of messages. */
static void __attribute__((constructor)) be_the_pool(int argc, char **argv)
{
	uint32_t n = 0;

	if (argc < 2 || strcmp(argv[1], "--pool") != 0)
		return;
	if (pool_say(PROTO_POOL_READY, 0, 0) < 0)
		_exit(1);
	if (getenv("CHECK_POOL_PASSES"))
		pass_one();
	while (pool_say(PROTO_POOL_RELEASED, n, MSG_DONTWAIT) > 0)
		n++;
	raise(SIGSTOP);
	if (pool_say(PROTO_POOL_ATTACHED, n, 0) < 0 || pool_say(PROTO_POOL_FAILED, 0, 0) < 0)
		_exit(1);
	_exit(0);
}

/* A manager without a pool yet. */
static void begin(const struct pool_process_events *told)
{
	ck_assert_int_eq(options_init(&options), 0);
	ck_assert_int_eq(loop_init(&loop), 0);
	ck_assert_int_eq(pool_process_init(&pool, &closer, &store, &options, told), 0);
	file = open("/dev/null", O_RDWR | O_CLOEXEC);
	ck_assert_int_ge(file, 0);
}

static void end(void)
{
	pool_process_fini(&pool);
	socket_close_fini(&closer);
	loop_fini(&loop);
	options_fini(&options);
	close(file);
}

static void on_ready(struct pool_process *p)
{
	(void)p;
}

static void on_attached(struct pool_process *p, uint32_t client, uint32_t generation,
			const char *text)
{
	(void)p;
	(void)generation;
	(void)text;
	expected = client;
}

static void on_released(struct pool_process *p, uint32_t client, uint32_t generation)
{
	(void)p;
	(void)generation;
	/* In order. */
	ck_assert_uint_eq(client, released);
	released++;
	most = max(most, ++since);
	/* The first turn handled a part of a full channel. */
	if (released == AT_LEAST)
		ck_assert_int_eq(kill(pool.pid, SIGCONT), 0);
}

static void on_died(struct pool_process *p, const struct pool_process_end *end)
{
	(void)p;
	deaths++;
	ck_assert_str_eq(end->failed_text, DIED_TEXT);
	ck_assert_int_eq(end->status, 0);
	loop_stop(&loop);
}

static const struct pool_process_events events = {
	.ready = on_ready,
	.attached = on_attached,
	.released = on_released,
	.died = on_died,
};

/* Another source, which is always ready. */
static int other_fd;

static void on_other(struct loop_source *source, int result)
{
	(void)result;
	since = 0;
	ck_assert_int_eq(loop_poll(&loop, source, other_fd, POLLIN), 0);
}

START_TEST(flood_from_the_pool_does_not_block_others_and_loses_nothing)
{
	struct loop_source other = { .call = on_other };
	siginfo_t info = { 0 };

	begin(&events);
	other_fd = eventfd(1, EFD_CLOEXEC);
	ck_assert_int_ge(other_fd, 0);
	ck_assert_int_eq(pool_process_start(&pool, file, file), 0);
	/* The pool has filled the channel. */
	ck_assert_int_eq(waitid(P_PID, (id_t)pool.pid, &info, WSTOPPED | WEXITED | WNOWAIT), 0);
	ck_assert_int_eq(info.si_code, CLD_STOPPED);
	ck_assert_int_eq(loop_poll(&loop, &other, other_fd, POLLIN), 0);
	ck_assert_int_eq(loop_run(&loop), 0);
	ck_assert_uint_gt(expected, AT_LEAST);
	ck_assert_uint_eq(released, expected);
	ck_assert_uint_eq(deaths, 1);
	/* READY was one of the first turn's messages. */
	ck_assert_uint_le(most, 2 * TURN);
	loop_forget(&loop, &other);
	end();
	close(other_fd);
}
END_TEST

static void on_any_released(struct pool_process *p, uint32_t client, uint32_t generation)
{
	(void)p;
	(void)client;
	(void)generation;
}

static bool abandoned;

static void on_killed(struct pool_process *p, const struct pool_process_end *end)
{
	(void)p;
	deaths++;
	abandoned = end->abandoned;
	ck_assert_uint_eq(end->signo, SIGKILL);
	loop_stop(&loop);
}

static const struct pool_process_events killed_events = {
	.ready = on_ready,
	.attached = on_attached,
	.released = on_any_released,
	.died = on_killed,
};

static void on_ready_too_late(struct pool_process *p)
{
	(void)p;
	ck_abort_msg("ready after it was killed");
}

START_TEST(READY_read_after_the_pool_was_killed_is_ignored)
{
	struct pool_process_events told = killed_events;
	siginfo_t info = { 0 };

	told.ready = on_ready_too_late;
	begin(&told);
	ck_assert_int_eq(pool_process_start(&pool, file, file), 0);
	/* READY is in the channel. */
	ck_assert_int_eq(waitid(P_PID, (id_t)pool.pid, &info, WSTOPPED | WEXITED | WNOWAIT), 0);
	ck_assert_int_eq(info.si_code, CLD_STOPPED);
	pool_process_kill(&pool);
	ck_assert_int_eq(loop_run(&loop), 0);
	ck_assert_uint_eq(deaths, 1);
	end();
}
END_TEST

/* Takes every remaining descriptor. Returns their number. */
static uint32_t fill_the_table(int *ret_fds, uint32_t max)
{
	uint32_t n = 0;

	while (n < max && (ret_fds[n] = dup(STDERR_FILENO)) >= 0)
		n++;
	ck_assert_uint_lt(n, max);
	return n;
}

START_TEST(next_pool_starts_if_connections_have_taken_every_descriptor)
{
	struct rlimit limit = { .rlim_cur = 64, .rlim_max = 64 };
	int fds[2][64];
	uint32_t n[2];

	begin(&killed_events);
	ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
	ck_assert_int_eq(pool_process_start(&pool, file, file), 0);
	n[0] = fill_the_table(fds[0], 64);
	for (uint32_t i = 1; i <= 3; i++) {
		pool_process_kill(&pool);
		ck_assert_int_eq(loop_run(&loop), 0);
		loop.stopped = false;
		ck_assert_uint_eq(deaths, i);
		/* Descriptors that the pool has left are not available to others. */
		n[1] = fill_the_table(fds[1], 64);
		ck_assert_uint_eq(n[1], 0);
		ck_assert_int_eq(pool_process_start(&pool, file, file), 0);
	}
	/* A start that fails loses nothing, and a later one finds all it needs. */
	pool_process_kill(&pool);
	ck_assert_int_eq(loop_run(&loop), 0);
	limit.rlim_cur = 3;
	ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
	ck_assert_int_eq(pool_process_start(&pool, file, file), POOL_PROCESS_LATER);
	ck_assert_int_eq(pool.state, POOL_PROCESS_DOWN);
	limit.rlim_cur = 64;
	ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
	ck_assert_int_eq(pool_process_start(&pool, file, file), 0);
	ck_assert_uint_eq(fill_the_table(fds[1], 64), 0);
	while (n[0])
		close(fds[0][--n[0]]);
	end();
}
END_TEST

/* A service manager that keeps descriptors, and reads nothing. Returns its socket. */
static int keep_deaf(char *directory)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int ear = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	ck_assert_ptr_nonnull(mkdtemp(directory));
	(void)snprintf(address.sun_path, sizeof(address.sun_path), "%s/notify", directory);
	ck_assert_int_eq(bind(ear, (struct sockaddr *)&address, sizeof(address)), 0);
	ck_assert_int_eq(setenv("NOTIFY_SOCKET", address.sun_path, 1), 0);
	ck_assert_int_eq(setenv("FDSTORE", "64", 1), 0);
	ck_assert_int_eq(fdstore_init(&store, &loop), 0);
	while (send(store.fd, "x", 1, MSG_DONTWAIT) == 1)
		;
	ck_assert_int_eq(errno, EAGAIN);
	return ear;
}

/* A descriptor that waits for the store is a duplicate. */
START_TEST(next_pool_starts_while_the_service_manager_does_not_read)
{
	struct rlimit limit = { .rlim_cur = 64, .rlim_max = 64 };
	char directory[] = "/tmp/check_pool_process.XXXXXX";
	int fds[64], ear;
	uint32_t n;

	begin(&killed_events);
	ear = keep_deaf(directory);
	ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
	ck_assert_int_eq(pool_process_start(&pool, file, file), 0);
	n = fill_the_table(fds, 64);
	for (uint32_t i = 1; i <= 3; i++) {
		pool_process_kill(&pool);
		loop.stopped = false;
		ck_assert_int_eq(loop_run(&loop), 0);
		ck_assert_uint_eq(deaths, i);
		ck_assert_uint_eq(fill_the_table(fds + n, 64 - n), 0);
		ck_assert_int_eq(pool_process_start(&pool, file, file), 0);
		ck_assert_ptr_nonnull(pool.stored.item);
	}
	while (n)
		(void)close(fds[--n]);
	(void)close(ear);
	end();
	fdstore_fini(&store);
	(void)unlink(getenv("NOTIFY_SOCKET"));
	(void)rmdir(directory);
}
END_TEST

#define WORKERS 8u /* LOOP_WORKERS */

static void on_pages(struct loop_source *source, int result)
{
	(void)source;
	ck_assert_int_eq(result, 0);
	loop_stop(&loop);
}

/* More of them than there are io_uring workers; then pages are populated. */
static void passes(const char *how)
{
	struct loop_source source = { .call = on_pages };
	int memory;

	passed_old_kernel();
	ck_assert_int_eq(setenv("CHECK_POOL_PASSES", how, 1), 0);
	begin(&killed_events);
	for (uint32_t i = 1; i <= WORKERS + 1; i++) {
		ck_assert_int_eq(pool_process_start(&pool, file, file), 0);
		loop.stopped = false;
		ck_assert_int_eq(loop_run(&loop), 0);
		ck_assert_uint_eq(deaths, i);
	}
	memory = memfd_create("check", MFD_CLOEXEC);
	ck_assert_int_eq(ftruncate(memory, 1 << 20), 0);
	ck_assert_int_eq(loop_fallocate(&loop, &source, memory, 0, 0, 1 << 20), 0);
	loop.stopped = false;
	ck_assert_int_eq(loop_run(&loop), 0);
	end();
	close(memory);
}

START_TEST(pool_that_passes_descriptors_is_killed_and_blocks_no_operation)
{
	passes("openly");
}
END_TEST

START_TEST(pool_that_passes_descriptors_after_an_empty_message_is_killed)
{
	passes("hidden");
}
END_TEST

static bool no_memory;

FILE *__real_open_memstream(char **ret_text, size_t *ret_size);
FILE *__wrap_open_memstream(char **ret_text, size_t *ret_size);

FILE *__wrap_open_memstream(char **ret_text, size_t *ret_size)
{
	return no_memory ? NULL : __real_open_memstream(ret_text, ret_size);
}

static void on_ready_without_memory(struct pool_process *p)
{
	char old[64] = "", why[128] = "";

	no_memory = true;
	/* A setting is not changed if the pool cannot be notified. */
	ck_assert_int_eq(settings_change(&options, NULL, p, "spin", "7us", old, sizeof(old), why,
					 sizeof(why)),
			 -ENOMEM);
	ck_assert_str_eq(why, "set: spin: out of memory");
	ck_assert_uint_eq(options.spin, 50 * NSEC_PER_USEC);
	settings_tell_pool(&options, p);
	no_memory = false;
}

static const struct pool_process_events short_events = {
	.ready = on_ready_without_memory,
	.attached = on_attached,
	.released = on_any_released,
	.died = on_killed,
};

START_TEST(pool_that_cannot_be_notified_of_settings_is_restarted)
{
	begin(&short_events);
	ck_assert_int_eq(pool_process_start(&pool, file, file), 0);
	ck_assert_int_eq(loop_run(&loop), 0);
	ck_assert_uint_eq(deaths, 1);
	end();
}
END_TEST

/* Replaces execv(): the errno, or 0. */
static int exec_error;

int __real_execv(const char *path, char *const *argv);
int __wrap_execv(const char *path, char *const *argv);

int __wrap_execv(const char *path, char *const *argv)
{
	if (!exec_error)
		return __real_execv(path, argv);
	errno = exec_error;
	return -1;
}

static int failed;

static void on_not_executed(struct pool_process *p, const struct pool_process_end *end)
{
	(void)p;
	failed = end->failed;
	ck_assert(!end->was_ready);
	ck_assert_str_ne(end->failed_text, "");
	loop_stop(&loop);
}

START_TEST(only_temporary_shortages_are_retried)
{
	static const struct pool_process_events not_executed = { .died = on_not_executed };
	static const struct {
		int error, failed;
	} rows[] = { { ENOMEM, POOL_PROCESS_LATER }, { EAGAIN, POOL_PROCESS_LATER },
		     { ENFILE, POOL_PROCESS_LATER }, { ENOENT, -ENOEXEC },
		     { EACCES, -ENOEXEC },	     { ELIBBAD, -ENOEXEC } };

	begin(&not_executed);
	for (uint32_t i = 0; i < ARRAY_SIZE(rows); i++) {
		exec_error = rows[i].error;
		ck_assert_int_eq(pool_process_start(&pool, file, file), 0);
		loop.stopped = false;
		ck_assert_int_eq(loop_run(&loop), 0);
		ck_assert_int_eq(failed, rows[i].failed);
	}
	end();
}
END_TEST

/* Replaces proto_send(): the kernel has no memory for a message with a descriptor, though there is
 * room in the channel. */
static bool is_short;
static uint32_t tries;

int __real_proto_send(int fd, const void *message, uint32_t size, const int *fds, uint32_t n_fds);
int __wrap_proto_send(int fd, const void *message, uint32_t size, const int *fds, uint32_t n_fds);

int __wrap_proto_send(int fd, const void *message, uint32_t size, const int *fds, uint32_t n_fds)
{
	tries++;
	return is_short ? -ETOOMANYREFS : __real_proto_send(fd, message, size, fds, n_fds);
}

#define SHORT_MS 40u /* minimum length of the shortage */
#define AGAIN_MS 2u  /* POOL_PROCESS_AGAIN_NS */

static uint64_t short_ns; /* start of the shortage; then its length */

static void on_short_over(struct loop_source *source, int result)
{
	(void)result;
	if (is_short) {
		is_short = false;
		short_ns = clock_ns() - short_ns;
	} else if (!pool.first) {
		loop_stop(&loop);
		return;
	}
	ck_assert_int_eq(loop_timer(&loop, source, NSEC_PER_MSEC), 0);
}

static struct loop_source short_source = { .call = on_short_over };

static void on_ready_send(struct pool_process *p)
{
	const struct proto_pool m = { .head = { PROTO_MAGIC, PROTO_POOL_TENANT } };

	is_short = true;
	short_ns = clock_ns();
	tries = 0;
	ck_assert_int_eq(loop_timer(&loop, &short_source, SHORT_MS * NSEC_PER_MSEC), 0);
	pool_process_send(p, &m, STDERR_FILENO);
	pool_process_send(p, &m, STDERR_FILENO);
	ck_assert_ptr_nonnull(pool.first);
}

START_TEST(shortage_of_the_kernel_is_retried_at_intervals)
{
	struct pool_process_events short_events = killed_events;

	short_events.ready = on_ready_send;
	begin(&short_events);
	ck_assert_int_eq(pool_process_start(&pool, file, file), 0);
	ck_assert_int_eq(loop_run(&loop), 0);
	/* No timer expires early: the first try, one for each AGAIN_MS, and finally both
	 * messages. */
	ck_assert_uint_ge(tries, 3);
	ck_assert_uint_le(tries, 1 + short_ns / (AGAIN_MS * NSEC_PER_MSEC) + 2);
	ck_assert_uint_eq(deaths, 0);
	end();
}
END_TEST

/* Replaces proto_recv_plain() and proto_recv_short(): this many times no memory to receive. */
static uint32_t deaf, naps, looks;

int __real_proto_recv_plain(int fd, union proto_message *ret_message, int flags);
int __wrap_proto_recv_plain(int fd, union proto_message *ret_message, int flags);

int __wrap_proto_recv_plain(int fd, union proto_message *ret_message, int flags)
{
	return deaf && deaf-- ? -ENOMEM : __real_proto_recv_plain(fd, ret_message, flags);
}

int __real_proto_recv_short(int fd, union proto_message *ret_message, int *ret_fds,
			    uint32_t *ret_n_fds, int flags);
int __wrap_proto_recv_short(int fd, union proto_message *ret_message, int *ret_fds,
			    uint32_t *ret_n_fds, int flags);

int __wrap_proto_recv_short(int fd, union proto_message *ret_message, int *ret_fds,
			    uint32_t *ret_n_fds, int flags)
{
	return deaf && deaf-- ? -ENOMEM
			      : __real_proto_recv_short(fd, ret_message, ret_fds, ret_n_fds, flags);
}

int __real_nanosleep(const struct timespec *request, struct timespec *remaining);
int __wrap_nanosleep(const struct timespec *request, struct timespec *remaining);

int __wrap_nanosleep(const struct timespec *request, struct timespec *remaining)
{
	naps++;
	return __real_nanosleep(request, remaining);
}

int __real_waitid(idtype_t type, id_t id, siginfo_t *info, int options);
int __wrap_waitid(idtype_t type, id_t id, siginfo_t *info, int options);

static bool undying; /* no process ends */

int __wrap_waitid(idtype_t type, id_t id, siginfo_t *info, int flags)
{
	looks++;
	if (undying) {
		*info = (siginfo_t){ 0 };
		return 0;
	}
	return __real_waitid(type, id, info, flags);
}

#define DEAF 20u

static void on_ready_kill(struct pool_process *p)
{
	ck_assert_uint_eq(deaf, 0);
	ck_assert_uint_ge(naps, DEAF);
	deaf = DEAF;
	pool_process_kill(p);
}

START_TEST(manager_without_memory_to_receive_sleeps_and_receives_later)
{
	struct pool_process_events deaf_events = killed_events;

	deaf_events.ready = on_ready_kill;
	begin(&deaf_events);
	deaf = DEAF;
	ck_assert_int_eq(pool_process_start(&pool, file, file), 0);
	ck_assert_int_eq(loop_run(&loop), 0);
	ck_assert_uint_eq(deaths, 1);
	/* Of its channel and of its end, which may arrive in one turn. */
	ck_assert_uint_eq(deaf, 0);
	ck_assert_uint_ge(naps, DEAF + DEAF / 2);
	end();
}
END_TEST

/* The time limit for its end has passed. */
static void look_again(void)
{
	ck_assert_ptr_nonnull(pool.limit.op);
	loop_forget(&loop, &pool.limit);
	pool.limit.call(&pool.limit, 0);
}

START_TEST(pool_is_waited_for_until_it_is_abandoned)
{
	begin(&killed_events);
	ck_assert_int_eq(pool_process_start(&pool, file, file), 0);
	pool_process_kill(&pool);
	undying = true;
	pool.n_abandoned = POOL_PROCESS_ABANDONED;
	for (uint32_t i = 0; i < 3; i++)
		look_again();
	ck_assert_uint_eq(deaths, 0);
	/* There was no memory for the timer. */
	loop_forget(&loop, &pool.limit);
	pool_process_kill(&pool);
	look_again();
	/* One has ended. */
	pool.n_abandoned--;
	look_again();
	ck_assert_uint_eq(deaths, 1);
	ck_assert(abandoned);
	ck_assert_int_eq(pool.state, POOL_PROCESS_DOWN);
	ck_assert_ptr_null(pool.limit.op);
	end();
}
END_TEST

START_TEST(ended_pool_is_not_abandoned_if_there_is_no_memory)
{
	siginfo_t info = { 0 };

	begin(&killed_events);
	ck_assert_int_eq(pool_process_start(&pool, file, file), 0);
	pool_process_kill(&pool);
	ck_assert_int_eq(waitid(P_PID, (id_t)pool.pid, &info, WEXITED | WNOWAIT), 0);
	deaf = UINT32_MAX;
	look_again();
	ck_assert_uint_eq(deaths, 1);
	ck_assert(!abandoned);
	end();
}
END_TEST

static void on_alarm(struct loop_source *source, int result)
{
	(void)source;
	(void)result;
	ck_assert_uint_eq(deaths, 0);
	ck_assert_uint_eq(looks, 1);
	pool_process_kill(&pool);
}

/* As if the pool had ended. */
START_TEST(check_for_the_end_of_a_live_pool_returns)
{
	struct loop_source alarm = { .call = on_alarm };

	begin(&killed_events);
	ck_assert_int_eq(pool_process_start(&pool, file, file), 0);
	loop_forget(&loop, &pool.process);
	pool.process.call(&pool.process, POLLIN);
	/* And the check is not repeated. */
	ck_assert_int_eq(loop_timer(&loop, &alarm, 20 * NSEC_PER_MSEC), 0);
	ck_assert_int_eq(loop_run(&loop), 0);
	ck_assert_uint_eq(deaths, 1);
	ck_assert_uint_eq(looks, 2);
	end();
}
END_TEST

CHECK_MAIN("pool_process")
