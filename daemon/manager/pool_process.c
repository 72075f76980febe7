/* SPDX-License-Identifier: MIT */
/*
 * pool_process.c - the pool's process as the manager sees it
 *
 * 	DOWN --start()--> STARTING --PROTO_POOL_READY--> READY
 * 	  ^                     |                          |
 * 	  +-- reaped, abandoned +--------------------------+
 *
 * INVARIANTS
 *   I1. The pool gets descriptors 0, 1, 2 and, as 3, its channel; nothing else, and an environment
 *       without the service manager's variables.
 *   I2. Messages arrive in the order of pool_process_send(), or the pool is killed. None blocks the
 *       manager: messages that the pool does not read wait in the manager. Closing the channel does
 *       not block either: of the descriptors that a task has put into it, none is received
 *       (proto.c, I3) or closed (socket_close.c). Only before PROTO_POOL_READY, when no task has
 *       run, one descriptor is received: the gate.
 *   I3. died() is called once for each successful start, after all the pool's messages were read
 *       and its process was reaped. The process of an abandoned pool is reaped later (I7). If there
 *       is no memory to read with, the rest is dropped POOL_PROCESS_DEATH_NS after the kill.
 *   I4. A pool that sends without end does not block the manager: after POOL_PROCESS_TURN messages
 *       the loop handles its other ready sources.
 *   I5. A start needs three descriptors in the manager: the channel, the pidfd, and a socket
 *       that waits for the store. A spare descriptor holds the place of the third while the pool
 *       runs. When the pool has ended, spares hold all three places until the next start, so
 *       connections cannot take them. The next tries collect spares that a failed start could not
 *       get back.
 *   I6. PROTO_POOL_START, with board and arena, is sent when the pool's pidfd is in the service
 *       manager's store. Without it the pool maps nothing and ends with its channel. So the next
 *       manager knows each pool that has the arena mapped: it kills the pool and waits for its end
 *       before it reads the ledger. An abandoned pool has another arena mapped, if there was memory
 *       for the next one (I7).
 *   I7. A killed pool that has not ended after POOL_PROCESS_DEATH_NS is abandoned: died() is
 *       called, and the process is reaped when it ends (pool_process_on_child()). A thread with a
 *       pending SIGKILL executes no further instruction of its own, so only the kernel can still
 *       write for it: a read(2) in progress, or one of its io_uring. So the next pool gets another
 *       arena (pool_segments_replace_arena()): none of its frames is in memory that the abandoned
 *       pool has mapped. The two still share the board, tenants' segments and clients' segments. A
 *       read in progress can write into its buffer: in the segment of the job's client, or at any
 *       address of a task. So the jobs that ran in that pool end as LOST, idempotent ones as well
 *       (job_recovery.c): none runs again in these buffers. The pidfd stays in the store until the
 *       next pool starts: then the next arena is in the store and those jobs have their outcomes.
 *       If the manager dies before, the next manager finds the pidfd, waits, and abandons the pool
 *       again (takeover.c, I1). The manager abandons at most POOL_PROCESS_ABANDONED pools: after
 *       that it waits until one of the killed pools ends.
 *
 * If a peer dies: the pool: see died(). A pool that closes its channel, sends a forbidden message,
 * or is stuck (pool_watchdog.h), is killed. The manager: the kernel kills the pool
 * (PR_SET_PDEATHSIG); and see I6.
 */
#include "daemon/manager/pool_process.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/pidfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/clock.h"
#include "common/crash_site.h"
#include "common/log.h"
#include "common/options_print.h"
#include "common/util.h"
#include "daemon/manager/socket_close.h"
#include "daemon/manager/spawn.h"
#include "daemon/manager/thread_states.h"
#include "shm/proto.h"

#define POOL_PROCESS_START_NS (30 * NSEC_PER_SEC) /* from start to READY, at most */
#define POOL_PROCESS_DEATH_NS (2 * NSEC_PER_SEC)  /* from SIGKILL to the end, at most */
#define POOL_PROCESS_AGAIN_NS (2 * NSEC_PER_MSEC) /* between two tries if memory is short */
#define POOL_PROCESS_TURN     64u   /* messages read before other sources are handled */
#define POOL_PROCESS_REST     4096u /* more messages than the socket of an ended pool holds */

struct pool_process_message {
	struct pool_process_message *next;
	struct proto_pool message;
	int fd;
};

/* Classifies a failure to start: POOL_PROCESS_LATER if a retry may work, else the negative
 * errno. */
static int pool_process_failure(int r)
{
	switch (r) {
	case -EAGAIN:
	case -EMFILE:
	case -ENFILE:
	case -ENOBUFS:
	case -ENOMEM:
	case -ETOOMANYREFS:
		return POOL_PROCESS_LATER;
	default:
		return r;
	}
}

static void pool_process_free_argv(char **argv)
{
	for (char **a = argv; a && *a; a++)
		free(*a);
	free(argv);
}

/* Returns the options as arguments: "name = value" becomes "--name=value". */
static char **pool_process_argv(const struct options *options)
{
	_cleanup_free_ char *text = NULL;
	size_t size = 0, lines = 0, n = 0;
	char *save = NULL;
	char **argv;
	FILE *f = open_memstream(&text, &size);

	if (!f)
		return NULL;
	options_print(options, f);
	if (fclose(f) != 0)
		return NULL;
	for (size_t i = 0; i < size; i++)
		lines += text[i] == '\n';
	argv = calloc(lines + 3, sizeof(*argv));
	if (!argv)
		return NULL;
	argv[n++] = strdup("forkd");
	argv[n++] = strdup("--pool");
	for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
		char *equals = strstr(line, " =");

		if (!equals)
			continue; /* the section's title */
		*equals = '\0';
		equals += 2;
		if (asprintf(&argv[n], "--%s=%s", line, equals + strspn(equals, " ")) < 0)
			argv[n] = NULL;
		if (!argv[n++])
			break;
	}
	for (size_t i = 0; i < n; i++) {
		if (!argv[i]) {
			pool_process_free_argv(argv);
			return NULL;
		}
	}
	return argv;
}

int pool_process_set_options(struct pool_process *pool, const struct options *options)
{
	char **argv = pool_process_argv(options);

	if (!argv)
		return -ENOMEM;
	pool_process_free_argv(pool->argv);
	pool->argv = argv;
	return 0;
}

/* I5. Each spare is a file of its own, so that it also holds room in the system's file table. */
static void pool_process_hold_spares(struct pool_process *pool, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		if (pool->spares[i] < 0)
			pool->spares[i] = eventfd(0, EFD_CLOEXEC);
}

static void pool_process_free_spares(struct pool_process *pool)
{
	for (uint32_t i = 0; i < ARRAY_SIZE(pool->spares); i++)
		pool->spares[i] = safe_close(pool->spares[i]);
}

/* Frees all but the process itself. abandons: the process has not ended, so the store keeps its
 * pidfd. */
static void pool_process_close(struct pool_process *pool, bool abandons)
{
	loop_forget(pool->loop, &pool->process);
	loop_forget(pool->loop, &pool->incoming);
	loop_forget(pool->loop, &pool->outgoing);
	loop_forget(pool->loop, &pool->limit);
	fdstore_forget(&pool->stored);
	if (!abandons)
		fdstore_remove(pool->store, FDSTORE_POOL);
	watchdog_end(&pool->watchdog);
	gate_end(&pool->gate);
	pool->channel = socket_close(pool->closer, pool->channel);
	pool->pidfd = safe_close(pool->pidfd);
	pool_process_hold_spares(pool, ARRAY_SIZE(pool->spares));
	while (pool->first) {
		struct pool_process_message *m = pool->first;

		pool->first = m->next;
		free(m);
	}
	pool->last = &pool->first;
	pool->heard = pool->asked;
	pool->state = POOL_PROCESS_DOWN;
}

/* Waits up to ms for the end of the process, and reaps it. */
static void pool_process_await(const struct pool_process *pool, int ms)
{
	struct pollfd p = { .fd = pool->pidfd, .events = (short)pool->ends };
	siginfo_t info;

	while (poll(&p, 1, ms) < 0 && errno == EINTR)
		;
	while (waitid(P_PID, (id_t)pool->pid, &info, WEXITED | WNOHANG) < 0 && errno == EINTR)
		;
}

void pool_process_fini(struct pool_process *pool)
{
	if (pool->state != POOL_PROCESS_DOWN) {
		pool_process_kill(pool);
		pool_process_await(pool, (int)(POOL_PROCESS_DEATH_NS / NSEC_PER_MSEC));
	}
	pool_process_close(pool, false);
	pool_process_free_spares(pool);
	pool_process_free_argv(pool->argv);
	pool->argv = NULL;
}

/* I6. Returns 0 or a negative errno. */
static int pool_process_begin(struct pool_process *pool)
{
	struct proto_pool start = { .head = { PROTO_MAGIC, PROTO_POOL_START } };
	int r;

	FK_CRASH(pool_stored);
	/* The third descriptor's: nothing waits for the store now. */
	pool_process_hold_spares(pool, 1);
	r = proto_send(pool->channel, &start, sizeof(start), pool->fds, 2);
	/* The pool has ended, or is about to: the pidfd reports it. */
	if (r == -EPIPE || pool->killed)
		return 0;
	return r < 0 ? r : loop_timer(pool->loop, &pool->limit, POOL_PROCESS_START_NS);
}

static void pool_process_on_stored(struct fdstore_put *put, int result)
{
	struct pool_process *pool = container_of(put, struct pool_process, stored);
	int r = result < 0 ? result : pool_process_begin(pool);

	if (r == 0)
		return;
	pool->failed = pool_process_failure(r);
	(void)snprintf(pool->failed_text, sizeof(pool->failed_text),
		       "cannot send its start message: %s", strerror(-r));
	pool_process_kill(pool);
}

/* Waits for the end of the process. Without pidfds, as under valgrind, the end of the channel shows
 * it: the process keeps the channel open as long as it lives. */
static int pool_process_watch(struct pool_process *pool)
{
	pool->pidfd = pidfd_open(pool->pid, 0);
	pool->ends = POLLIN;
	if (pool->pidfd < 0 && errno == ENOSYS) {
		log_notice("pidfd_open: %s: the end of the pool's channel shows its end",
			   strerror(errno));
		pool->pidfd = fcntl(pool->channel, F_DUPFD_CLOEXEC, 0);
		pool->ends = 0; /* POLLHUP */
	}
	if (pool->pidfd < 0)
		return -errno;
	return loop_poll(pool->loop, &pool->process, pool->pidfd, pool->ends);
}

int pool_process_start(struct pool_process *pool, int board_fd, int arena_fd)
{
	const pid_t manager = getpid();
	_cleanup_close_ int theirs = -1;
	int pair[2];
	int r;

	pool_process_free_spares(pool);
	/* The pidfd of a pool that this manager, or an earlier one, has abandoned. */
	fdstore_remove(pool->store, FDSTORE_POOL);
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0) {
		r = -errno;
		goto fail;
	}
	pool->channel = pair[0];
	theirs = pair[1];
	pool->pid = fork();
	if (pool->pid == 0)
		spawn_exec(pool->argv, manager, theirs, SPAWN_OOM_POOL, pool->runas);
	if (pool->pid < 0) {
		r = -errno;
		goto fail;
	}
	pool->state = POOL_PROCESS_STARTING;
	pool->stopped = pool->hung = pool->killed = false;
	pool->n_loads = 0;
	pool->failed = 0;
	pool->failed_text[0] = '\0';
	pool->fds[0] = board_fd;
	pool->fds[1] = arena_fd;
	/* The pidfd takes its place (I5). */
	theirs = safe_close(theirs);
	FK_CRASH(pool_forked);
	r = pool_process_watch(pool);
	if (r == 0)
		r = loop_poll(pool->loop, &pool->incoming, pool->channel, POLLIN);
	if (r == 0)
		r = fdstore_put(pool->store, &pool->stored, FDSTORE_POOL, &pool->pidfd, 1);
	if (r == 0)
		r = pool_process_begin(pool);
	if (r >= 0)
		return 0;
	pool_process_kill(pool);
	while (waitpid(pool->pid, NULL, 0) < 0 && errno == EINTR)
		;
fail:
	pool_process_close(pool, false);
	(void)snprintf(pool->failed_text, sizeof(pool->failed_text), "%s", strerror(-r));
	return pool_process_failure(r);
}

/* The pool was killed: checks after POOL_PROCESS_DEATH_NS whether it has ended. */
static void pool_process_limit_death(struct pool_process *pool)
{
	if (!pool->limit.op && loop_timer(pool->loop, &pool->limit, POOL_PROCESS_DEATH_NS) < 0)
		log_error("out of memory: waiting for the end of the pool without a limit");
}

void pool_process_kill(struct pool_process *pool)
{
	if (pool->state == POOL_PROCESS_DOWN)
		return;
	(void)kill(pool->pid, SIGKILL); /* not reaped yet, so the pid is its own */
	if (!pool->killed)
		loop_forget(pool->loop, &pool->limit);
	pool->killed = true;
	pool_process_limit_death(pool);
}

static void pool_process_on_watchdog_kills(struct watchdog *watchdog, const char *why)
{
	struct pool_process *pool = container_of(watchdog, struct pool_process, watchdog);

	if (why) {
		pool->hung = true;
		(void)snprintf(pool->failed_text, sizeof(pool->failed_text), "%s", why);
	}
	pool_process_kill(pool);
}

void pool_process_glance(struct pool_process *pool)
{
	/* There may have been no memory for the timer of its end. */
	if (pool->killed)
		pool_process_kill(pool);
	watchdog_glance(&pool->watchdog);
}

void pool_process_on_child(struct pool_process *pool, pid_t stopped)
{
	for (uint32_t i = pool->n_abandoned; i-- > 0;) {
		siginfo_t info = { 0 };

		if (waitid(P_PID, (id_t)pool->abandoned[i], &info, WEXITED | WNOHANG) < 0 ||
		    !info.si_pid)
			continue;
		log_notice("abandoned pool (pid %d) has ended", (int)pool->abandoned[i]);
		pool->abandoned[i] = pool->abandoned[--pool->n_abandoned];
	}
	if (pool->state != POOL_PROCESS_DOWN && thread_states_stopped(pool->pid))
		watchdog_stopped(&pool->watchdog, stopped == pool->pid);
}

enum pool_process_push {
	PUSH_DONE,  /* sent; or the pool is dying, which the pidfd reports */
	PUSH_FULL,  /* the socket is full until the pool reads */
	PUSH_SHORT, /* the kernel lacks memory; the channel may have room */
};

static enum pool_process_push pool_process_push(struct pool_process *pool,
						const struct proto_pool *message, int fd)
{
	switch (proto_send(pool->channel, message, sizeof(*message), &fd, fd >= 0)) {
	case -EAGAIN:
		return PUSH_FULL;
	case -ENOBUFS:
	case -ENOMEM:
	case -ETOOMANYREFS:
		return PUSH_SHORT;
	default:
		return PUSH_DONE;
	}
}

static void pool_process_wait_outgoing(struct pool_process *pool, enum pool_process_push why)
{
	int r;

	if (pool->outgoing.op)
		return;
	if (why == PUSH_FULL)
		r = loop_poll(pool->loop, &pool->outgoing, pool->channel, POLLOUT);
	else
		r = loop_timer(pool->loop, &pool->outgoing, POOL_PROCESS_AGAIN_NS);
	if (r < 0)
		pool_process_kill(pool);
}

void pool_process_send(struct pool_process *pool, const struct proto_pool *message, int fd)
{
	enum pool_process_push pushed = PUSH_FULL;
	struct pool_process_message *m;

	if (pool->state != POOL_PROCESS_READY)
		return;
	/* PROTO_POOL_CPUS answers a pool that works, so it is no reason to check the pool. */
	if (message->head.type != PROTO_POOL_CPUS)
		watchdog_said(&pool->watchdog);
	if (!pool->first)
		pushed = pool_process_push(pool, message, fd);
	if (pushed == PUSH_DONE)
		return;
	m = malloc(sizeof(*m));
	if (!m) {
		/* A pool that missed a message is unusable; the next one receives everything. */
		log_error("out of memory for a message to the pool: restarting it");
		pool_process_kill(pool);
		return;
	}
	*m = (struct pool_process_message){ .message = *message, .fd = fd };
	*pool->last = m;
	pool->last = &m->next;
	pool_process_wait_outgoing(pool, pushed);
}

uint64_t pool_process_ask(struct pool_process *pool)
{
	struct proto_pool ping = { .head = { PROTO_MAGIC, PROTO_POOL_PING } };

	if (pool->state != POOL_PROCESS_READY)
		return pool->heard;
	ping.task_hash = ++pool->asked;
	pool_process_send(pool, &ping, -1);
	return pool->asked;
}

static uint64_t pool_process_on_watchdog_asks(struct watchdog *watchdog)
{
	return pool_process_ask(container_of(watchdog, struct pool_process, watchdog));
}

void pool_process_load(struct pool_process *pool, uint64_t version)
{
	const struct proto_pool load = {
		.head = { PROTO_MAGIC, PROTO_POOL_LOAD },
		.task_hash = version,
	};

	pool->n_loads++;
	pool->gate.open = true;
	pool_process_send(pool, &load, -1);
}

static void pool_process_on_outgoing(struct loop_source *source, int result)
{
	struct pool_process *pool = container_of(source, struct pool_process, outgoing);

	(void)result;
	while (pool->first) {
		struct pool_process_message *m = pool->first;
		enum pool_process_push pushed = pool_process_push(pool, &m->message, m->fd);

		if (pushed != PUSH_DONE) {
			pool_process_wait_outgoing(pool, pushed);
			return;
		}
		pool->watchdog.watch.held = 0; /* pool_watchdog.h, I3 */
		pool->first = m->next;
		if (!pool->first)
			pool->last = &pool->first;
		free(m);
	}
}

/* A task may have sent it: then a client is answered too early, with no other effect. */
static void pool_process_take_pong(struct pool_process *pool, uint64_t number)
{
	if (number <= pool->heard || number > pool->asked)
		return;
	pool->heard = number;
	watchdog_answered(&pool->watchdog, number);
	pool->events->heard(pool);
}

/* False if the pool has answered each load already: then a task has sent one of the answers. */
static bool pool_process_take_loaded(struct pool_process *pool, const struct proto_pool *message)
{
	if (!pool->n_loads)
		return false;
	if (--pool->n_loads)
		return true; /* answers a load that the manager no longer waits for */
	pool->gate.open = false;
	pool->events->loaded(pool, message->error, message->text);
	return true;
}

static bool pool_process_take(struct pool_process *pool, struct proto_pool *message)
{
	message->text[sizeof(message->text) - 1] = '\0';
	switch (message->head.type) {
	case PROTO_POOL_READY:
		if (pool->state != POOL_PROCESS_STARTING)
			return false;
		/* The timer now limits the time until its end. */
		if (pool->killed)
			return true;
		proto_take_no_descriptors(pool->channel);
		pool->state = POOL_PROCESS_READY;
		pool->modules = message->task_hash;
		pool->joinable = message->joinable;
		pool->n_left_out = message->n_jobs;
		pool->ready_ns = clock_ns();
		loop_forget(pool->loop, &pool->limit);
		watchdog_begin(&pool->watchdog, pool->pid);
		pool->events->ready(pool);
		return true;
	case PROTO_POOL_ATTACHED:
		pool->events->attached(pool, message->client, message->client_generation,
				       message->text);
		return true;
	case PROTO_POOL_IMPORTED:
		pool->events->imported(pool, message->client, message->client_generation,
				       message->job, message->text);
		return true;
	case PROTO_POOL_GATE:
		return pool->state == POOL_PROCESS_STARTING;
	case PROTO_POOL_RELEASED:
		pool->events->released(pool, message->client, message->client_generation);
		return true;
	case PROTO_POOL_TENANT_RELEASED:
		pool->events->tenant_released(pool, message->tenant);
		return true;
	case PROTO_POOL_PONG:
		pool_process_take_pong(pool, message->task_hash);
		return true;
	case PROTO_POOL_ASK_CPUS:
		pool->events->asks_cpus(pool);
		return true;
	case PROTO_POOL_TRACED:
		pool->events->traced(pool, message->text);
		return true;
	case PROTO_POOL_LOADED:
		return pool_process_take_loaded(pool, message);
	case PROTO_POOL_STOPPED:
		pool->stopped = true;
		pool->watchdog.leaves = true;
		return true;
	case PROTO_POOL_FAILED:
		pool->failed = pool_process_failure(message->error);
		memcpy(pool->failed_text, message->text, sizeof(pool->failed_text));
		return true;
	default:
		return false;
	}
}

/* Like proto_recv_plain(). Before READY the pool has run no task: its gate is received (gate.h,
 * I2). */
static int pool_process_recv(struct pool_process *pool, union proto_message *message)
{
	int fds[PROTO_MAX_FDS], r;
	uint32_t n = 0;

	if (pool->state != POOL_PROCESS_STARTING)
		return proto_recv_plain(pool->channel, message, MSG_DONTWAIT);
	r = proto_recv_short(pool->channel, message, fds, &n, MSG_DONTWAIT);
	if (r > 0 && message->head.type == PROTO_POOL_GATE && n == 1 && pool->gate.fd < 0)
		gate_begin(&pool->gate, pool->loop, fds[--n], pool->pid);
	while (n)
		(void)close(fds[--n]);
	return r;
}

/* Reads at most max messages. Returns 0 if there may be more; an error that proto_is_later()
 * accepts; or -EPIPE if the channel has ended, or holds a forbidden message. */
static int pool_process_read(struct pool_process *pool, uint32_t max)
{
	while (max--) {
		union proto_message message;
		int r = pool_process_recv(pool, &message);

		if (proto_is_later(r))
			return r;
		if (r == -ECONNRESET)
			continue; /* once, from a pool that ended without reading everything */
		if (r <= 0 && r != -EBADMSG && r != -EPERM)
			return -EPIPE;
		if (r != (int)sizeof(message.pool) || !pool_process_take(pool, &message.pool)) {
			pool_process_kill(pool);
			(void)snprintf(pool->failed_text, sizeof(pool->failed_text),
				       "it sent an invalid message");
			return -EPIPE;
		}
	}
	return 0;
}

/* Waits for more messages. r: of pool_process_read(). False if none can come, or the wait
 * failed. */
static bool pool_process_listen(struct pool_process *pool, int r)
{
	if (proto_is_short(r))
		return loop_poll_later(pool->loop, &pool->incoming, pool->channel, POLLIN) == 0;
	return r != -EPIPE && loop_poll(pool->loop, &pool->incoming, pool->channel, POLLIN) == 0;
}

static void pool_process_on_incoming(struct loop_source *source, int result)
{
	struct pool_process *pool = container_of(source, struct pool_process, incoming);

	(void)result;
	/* A pool without its channel is unusable. A pool that has reported why it ends, or that it
	 * has stopped, exits by itself. */
	if (pool_process_listen(pool, pool_process_read(pool, POOL_PROCESS_TURN)))
		return;
	if (!pool->stopped && !pool->failed_text[0])
		pool_process_kill(pool);
}

/* Sets the cause, for a pool that has sent none. */
static void pool_process_guess(struct pool_process_end *end)
{
	const char *why = "";

	if (end->was_ready || end->failed_text[0])
		return;
	if (end->signo == SIGKILL) {
		end->failed = POOL_PROCESS_LATER;
		why = "it was killed at its start";
	} else if (!end->signo && end->status == SPAWN_SHORT) {
		end->failed = POOL_PROCESS_LATER;
		why = "there is too little memory to execute it";
	} else if (!end->signo && end->status == SPAWN_NO_USER) {
		end->failed = -EPERM;
		why = "it cannot become the user that tasks run as";
	} else if (!end->signo && end->status == SPAWN_NO_EXEC) {
		end->failed = -ENOEXEC;
		why = "it, or a library that it needs, cannot be loaded: was the system updated? "
		      "restart forkd";
	}
	(void)snprintf(end->failed_text, sizeof(end->failed_text), "%s", why);
}

/* Frees all but the process, and calls died(). */
static void pool_process_die(struct pool_process *pool, struct pool_process_end *end)
{
	end->was_ready = pool->state == POOL_PROCESS_READY;
	end->stopped = pool->stopped;
	end->hung = pool->hung;
	end->lived_ns = end->was_ready ? clock_ns() - pool->ready_ns : 0;
	end->failed = pool->failed;
	memcpy(end->failed_text, pool->failed_text, sizeof(end->failed_text));
	pool_process_guess(end);
	pool_process_close(pool, end->abandoned);
	pool->events->died(pool, end);
}

/* Reads the pool's last messages, and reaps it. False if it cannot be reaped now. last: messages
 * for which there is no memory stay unread. */
static bool pool_process_reap(struct pool_process *pool, bool last)
{
	struct pool_process_end end = { .pid = pool->pid };
	siginfo_t info = { 0 };

	if (!proto_is_short(pool_process_read(pool, POOL_PROCESS_REST)) || last)
		while (waitid(P_PID, (id_t)pool->pid, &info, WEXITED | WNOHANG) < 0 &&
		       errno == EINTR)
			;
	if (!info.si_pid)
		return false;
	if (info.si_code == CLD_EXITED)
		end.status = info.si_status;
	else
		end.signo = (uint32_t)info.si_status;
	pool_process_die(pool, &end);
	return true;
}

static void pool_process_on_process(struct loop_source *source, int result)
{
	struct pool_process *pool = container_of(source, struct pool_process, process);

	(void)result;
	/* A live pool's end is not reported: loop.c, I8 excludes that. */
	if (!pool_process_reap(pool, false) &&
	    loop_poll_later(pool->loop, &pool->process, pool->pidfd, pool->ends) < 0)
		log_error("out of memory: cannot detect the end of the pool");
}

/* I7. */
static void pool_process_abandon(struct pool_process *pool)
{
	struct pool_process_end end = { .pid = pool->pid, .signo = SIGKILL, .abandoned = true };

	if (pool->n_abandoned == POOL_PROCESS_ABANDONED) {
		log_limited(&pool->waits, LOG_LEVEL_ERROR,
			    "pool (pid %d) was killed and does not end, like %u before it: waiting "
			    "for the end of one",
			    (int)pool->pid, pool->n_abandoned);
		pool_process_limit_death(pool);
		return;
	}
	log_error("pool (pid %d) was killed and has not ended after %llu s: the next one is "
		  "started without waiting for its end",
		  (int)pool->pid, (unsigned long long)(POOL_PROCESS_DEATH_NS / NSEC_PER_SEC));
	pool->abandoned[pool->n_abandoned++] = pool->pid;
	pool_process_die(pool, &end);
}

static void pool_process_on_limit(struct loop_source *source, int result)
{
	struct pool_process *pool = container_of(source, struct pool_process, limit);

	(void)result;
	if (pool->killed) {
		if (!pool_process_reap(pool, true))
			pool_process_abandon(pool);
		return;
	}
	if (thread_states_look(pool->pid).traced &&
	    loop_timer(pool->loop, &pool->limit, POOL_PROCESS_START_NS) == 0)
		return;
	(void)snprintf(pool->failed_text, sizeof(pool->failed_text),
		       "it was not ready after %llu s",
		       (unsigned long long)(POOL_PROCESS_START_NS / NSEC_PER_SEC));
	pool_process_kill(pool);
}

static const struct watchdog_calls pool_process_watchdog_calls = {
	.ask = pool_process_on_watchdog_asks,
	.kill = pool_process_on_watchdog_kills,
};

int pool_process_init(struct pool_process *pool, struct socket_closer *closer, struct store *store,
		      const struct options *options, const struct pool_process_events *events)
{
	*pool = (struct pool_process){
		.loop = closer->loop,
		.closer = closer,
		.store = store,
		.events = events,
		.pidfd = -1,
		.gate = { .fd = -1 },
		.channel = -1,
		.spares = { -1, -1, -1 },
		.process = { .call = pool_process_on_process },
		.incoming = { .call = pool_process_on_incoming },
		.outgoing = { .call = pool_process_on_outgoing },
		.limit = { .call = pool_process_on_limit },
		.stored = { .call = pool_process_on_stored },
		.waits = LOG_LIMIT_INIT,
	};
	pool->last = &pool->first;
	watchdog_init(&pool->watchdog, pool->loop, &pool_process_watchdog_calls,
		      options->hang_timeout);
	pool->argv = pool_process_argv(options);
	return pool->argv ? 0 : -ENOMEM;
}
