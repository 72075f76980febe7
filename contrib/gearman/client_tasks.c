/* SPDX-License-Identifier: MIT */
/*
 * client_tasks.c - finds the tasks of a cluster
 *
 * The administration command `status` of a job server lists its functions, with the number of
 * workers of each. A gateway registers the function "MODULE:" for each module. It answers with the
 * tasks of the module, as JSON.
 *
 * INVARIANTS
 *   I1. One thread at a time changes the board's tasks (tasks_lock). An entry never changes, except
 *       for TASK_GONE: the task of another name or signature has another entry. So a thread can
 *       copy an entry at any time.
 *   I2. Of all entries of a name, one is not TASK_GONE: the one that a gateway named last. Machines
 *       with different versions of a module can alternate; each then refuses the calls of the other
 *       version, by the hash in the frame.
 *   I3. What a server or a gateway sends is checked: sizes, texts and signatures.
 */
#include "contrib/gearman/client_tasks.h"

#include <errno.h>
#include <jansson.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <forkd/client.h>

#include "common/cleanup.h"
#include "common/clock.h"
#include "common/relaxed.h"
#include "common/text.h"
#include "common/util.h"
#include "contrib/gearman/client_cluster.h"

#define TASKS_TIMEOUT_S 3
#define TASKS_LATELY	(30 * NSEC_PER_SEC)
#define TASKS_GATEWAYS	10000u		      /* of a server, at most */
#define TASKS_JOBS	1024u		      /* of a gateway, at most: GATEWAY_JOBS_MAX */
#define TASKS_MAX	(1u << 20)	      /* bytes of an answer */
#define TASKS_TRIES	3		      /* before it is said that no gateway has a module */
#define TASKS_PAUSE	(300 * NSEC_PER_MSEC) /* after the first try, then twice this */

/* The error of a call of the system on a connection. */
static int tasks_failed(const struct server *server, char *error, size_t size)
{
	int code = errno;

	if (code == EAGAIN || code == EINPROGRESS || code == ETIMEDOUT) {
		(void)snprintf(error, size, "%s does not answer", server->name);
		return -FK_E_NO_ANSWER;
	}
	(void)snprintf(error, size, "no job server at %s: %s", server->name, strerrordesc_np(code));
	return -FK_E_NOT_LISTENING;
}

static int tasks_not_gearmand(const struct server *server, char *error, size_t size)
{
	(void)snprintf(error, size,
		       "what listens at %s is not gearmand, or expects TLS, which this client has "
		       "not",
		       server->name);
	return -FK_E_NOT_FORKD;
}

/* A connection for one request and its answer. */
struct exchange {
	int fd;
	uint64_t end_ns; /* of the time for the answer */
};

/* Connects. The caller owns the descriptor. */
static int tasks_connect(const struct server *server, struct exchange *exchange, char *error,
			 size_t size)
{
	const struct timeval timeout = { .tv_sec = TASKS_TIMEOUT_S };

	for (const struct addrinfo *at = server->addresses; at; at = at->ai_next) {
		int fd = socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);

		if (fd < 0)
			continue;
		(void)setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof(timeout));
		if (!connect(fd, at->ai_addr, at->ai_addrlen)) {
			exchange->fd = fd;
			exchange->end_ns = clock_ns() + TASKS_TIMEOUT_S * NSEC_PER_SEC;
			return 0;
		}
		(void)safe_close(fd);
	}
	return tasks_failed(server, error, size);
}

/* The server sees this end, even if a child of fork() has a copy of the socket. */
static void tasks_hang_up(const struct exchange *exchange)
{
	if (exchange->fd >= 0)
		(void)shutdown(exchange->fd, SHUT_RDWR);
	(void)safe_close(exchange->fd);
}

#define _cleanup_exchange_ _cleanup_(tasks_hang_up)

/* Receives some bytes, as recv(). Fails with ETIMEDOUT or EAGAIN at the end of the time. */
static ssize_t tasks_receive_some(const struct exchange *exchange, char *to, size_t size)
{
	ssize_t n;

	do {
		uint64_t now_ns = clock_ns(), left_us;
		struct timeval left;

		if (now_ns >= exchange->end_ns) {
			errno = ETIMEDOUT;
			return -1;
		}
		/* Not 0, which is no limit. */
		left_us = (exchange->end_ns - now_ns) / NSEC_PER_USEC + 1;
		left = (struct timeval){ .tv_sec = (time_t)(left_us / 1000000),
					 .tv_usec = (suseconds_t)(left_us % 1000000) };
		(void)setsockopt(exchange->fd, SOL_SOCKET, SO_RCVTIMEO, &left, sizeof(left));
		n = recv(exchange->fd, to, size, 0);
	} while (n < 0 && errno == EINTR);
	return n;
}

/* ------------------------------------------------------------------------ functions of a server */

/* True if the text has the last line of an answer, or the first line is none of status. */
static bool status_is_whole(const char *text)
{
	const char *end = strchr(text, '\n');

	if (end && memcmp(text, ".\n", 2) && !memchr(text, '\t', (size_t)(end - text)))
		return true;
	return !strncmp(text, ".\n", 2) || strstr(text, "\n.\n");
}

/* Reads the answer to `status`: FUNCTION TAB jobs TAB running TAB workers, lines. */
static int tasks_status(const struct server *server, char **ret_text, char *error, size_t size)
{
	_cleanup_free_ char *text = malloc(TASKS_MAX);
	_cleanup_exchange_ struct exchange exchange = { .fd = -1 };
	size_t at = 0;
	int r = text ? tasks_connect(server, &exchange, error, size) : -ENOMEM;

	if (r < 0)
		return r;
	if (send(exchange.fd, "status\n", 7, MSG_NOSIGNAL) != 7)
		return tasks_failed(server, error, size);
	do {
		ssize_t n = tasks_receive_some(&exchange, text + at, TASKS_MAX - 1 - at);

		if (n < 0 && errno != ECONNRESET)
			return tasks_failed(server, error, size);
		if (n <= 0)
			return tasks_not_gearmand(server, error, size);
		at += (size_t)n;
		text[at] = '\0';
	} while (!status_is_whole(text));
	if (strncmp(text, ".\n", 2) && !strstr(text, "\n.\n"))
		return tasks_not_gearmand(server, error, size);
	*ret_text = steal_ptr(text);
	return 0;
}

/* The next function of a status. False at its end. line: advanced; its text is changed. */
static bool status_next(char **line, const char **ret_name, uint32_t *ret_workers)
{
	char *fields[4], *end = strchr(*line, '\n'), *state;
	uint32_t n = 0;

	if (!end || (*line)[0] == '.')
		return false;
	*end = '\0';
	for (char *field = strtok_r(*line, "\t", &state); field && n < 4;
	     field = strtok_r(NULL, "\t", &state))
		fields[n++] = field;
	*line = end + 1;
	*ret_name = n == 4 ? fields[0] : "";
	*ret_workers = n == 4 ? (uint32_t)strtoul(fields[3], NULL, 10) : 0;
	return true;
}

/* ------------------------------------------------------------------------ tasks of a module */

static int tasks_receive(const struct exchange *exchange, char *to, size_t size)
{
	while (size) {
		ssize_t n = tasks_receive_some(exchange, to, size);

		if (n == 0)
			errno = ECONNRESET;
		if (n <= 0)
			return -1;
		to += n;
		size -= (size_t)n;
	}
	return 0;
}

/* Calls the function "MODULE:". Sets *ret_data to its answer. Returns 0, or an error.
 * -FK_E_NO_TASK: the gateway has failed. */
static int tasks_ask(const struct server *server, const char *function, char **ret_data,
		     size_t *ret_size, char *error, size_t error_size)
{
	char packet[PACKET_HEAD + 64 + 2], head[PACKET_HEAD], handle[PACKET_HANDLE];
	size_t length = strlen(function) + 2; /* Unique id and payload are empty. */
	_cleanup_exchange_ struct exchange exchange = { .fd = -1 };
	uint32_t type, size, n;
	int r = tasks_connect(server, &exchange, error, error_size);

	if (r < 0)
		return r;
	memset(packet, 0, sizeof(packet));
	packet_write_head(packet, PACKET_SUBMIT, (uint32_t)length);
	memcpy(packet + PACKET_HEAD, function, length - 2);
	if (send(exchange.fd, packet, PACKET_HEAD + length, MSG_NOSIGNAL) < 0)
		return tasks_failed(server, error, error_size);
	for (;;) {
		_cleanup_free_ char *data = NULL;
		const char *rest;

		if (tasks_receive(&exchange, head, sizeof(head)) < 0)
			return tasks_failed(server, error, error_size);
		if (!packet_read_head(head, &type, &size) || size > TASKS_MAX)
			return tasks_not_gearmand(server, error, error_size);
		data = malloc(size + 1);
		if (!data)
			return -ENOMEM;
		if (tasks_receive(&exchange, data, size) < 0)
			return tasks_failed(server, error, error_size);
		rest = packet_handle(data, size, handle, &n);
		if (type == PACKET_FAIL || type == PACKET_ERROR)
			return -FK_E_NO_TASK;
		if (type != PACKET_COMPLETE)
			continue;
		memmove(data, rest, n);
		*ret_data = steal_ptr(data);
		*ret_size = n;
		return 0;
	}
}

/* A task of this name and hash is the current one; others of the name are gone. Returns true if the
 * board has it. */
static bool tasks_revive(struct cluster *cluster, const char *name, uint64_t hash)
{
	struct board *board = cluster->board;
	bool found = false;

	/* Relaxed: the thread that adds an entry holds the lock. */
	for (uint32_t i = 0; i < load_relaxed(&board->n_tasks); i++) {
		struct board_task *task = &board->tasks[i];
		bool same = load_relaxed(&task->hash) == hash;

		if (!streq(task->name, name))
			continue;
		found |= same;
		/* ORDER board/tasks [B1]: release, as in module_write_entry(). */
		atomic_store_explicit(&task->flags, same ? 0 : TASK_GONE, memory_order_release);
	}
	return found;
}

/* Enters a task into the board, with the lock held. */
static void tasks_add(struct cluster *cluster, const char *module, const char *name,
		      const char *signature, const char *help)
{
	struct board *board = cluster->board;
	uint32_t at = load_relaxed(&board->n_tasks);
	struct board_task *task = &board->tasks[at];
	size_t length = strlen(module);
	uint64_t hash;

	if (strlen(name) >= sizeof(task->name) || strncmp(name, module, length) != 0 ||
	    !name[length] || strlen(signature) >= sizeof(task->signature))
		return;
	hash = signature_hash(name, signature);
	if (tasks_revive(cluster, name, hash) || at >= LIMIT_TASKS ||
	    signature_parse(signature, &cluster->signatures[at], NULL) < 0)
		return;
	strcpy(task->name, name);
	strcpy(task->signature, signature);
	(void)snprintf(task->help, sizeof(task->help), "%s", help);
	text_make_line(task->help, strlen(task->help));
	store_relaxed(&task->hash, hash);
	store_relaxed(&task->flags, 0);
	/* ORDER board/tasks [B1]: release, the entry is complete before it is counted. Pairs with
	 * board_find_task() and record_fill(). */
	atomic_store_explicit(&board->n_tasks, at + 1, memory_order_release);
}

/* Enters the tasks of a module. module: with its colon. *ret_jobs: the jobs that the gateway which
 * has answered runs at a time. */
static int tasks_of_module(struct cluster *cluster, const struct server *server, const char *module,
			   uint32_t *ret_jobs, char *error, size_t error_size)
{
	_cleanup_(json_decrefp) json_t *array = NULL;
	_cleanup_free_ char *data = NULL;
	json_t *item;
	size_t size = 0, i;
	int r = tasks_ask(server, module, &data, &size, error, error_size);

	if (r < 0)
		return r;
	array = json_loadb(data, size, 0, NULL);
	json_array_foreach(array, i, item)
	{
		const char *name = json_string_value(json_object_get(item, "name"));
		const char *text = json_string_value(json_object_get(item, "signature"));
		const char *help = json_string_value(json_object_get(item, "help"));
		json_int_t jobs = json_integer_value(json_object_get(item, "jobs"));

		if (name && text)
			tasks_add(cluster, module, name, text, help ? help : "");
		*ret_jobs = jobs > 0 && jobs <= TASKS_JOBS ? (uint32_t)jobs : 1;
	}
	return 0;
}

/* ------------------------------------------------------------------------ the cluster */

/* A search, and what it has seen so far. */
struct search {
	const char *name;   /* MODULE:TASK; NULL: none */
	const char *module; /* with its colon; NULL: all; "": none */
	bool again;	    /* a server that has failed lately is not asked */
	uint32_t modules;
	uint32_t gateways;
	uint32_t jobs;	/* that the gateway which has answered last runs at a time */
	bool found;	/* a gateway has the module */
	bool is_silent; /* a gateway that has the module does not answer */
};

/* Looks at the functions of one server. */
static int tasks_search(struct cluster *cluster, const struct server *server, struct search *search,
			char *error, size_t size)
{
	_cleanup_free_ char *text = NULL;
	uint32_t workers, modules = 0;
	const char *name;
	char *line;
	int r = tasks_status(server, &text, error, size);

	if (r < 0)
		return r;
	line = text;
	while (status_next(&line, &name, &workers)) {
		const char *colon = strchr(name, ':');

		if (!colon || colon[1] || !workers || strlen(name) >= 64)
			continue;
		modules++;
		search->gateways = max(search->gateways, min(workers, TASKS_GATEWAYS));
		if (search->module && !streq(name, search->module))
			continue;
		/* A gateway that does not answer is no reason not to find the others. */
		r = tasks_of_module(cluster, server, name, &search->jobs, error, size);
		search->found |= r == 0;
		search->is_silent |= r == -FK_E_NO_ANSWER;
	}
	search->modules = max(search->modules, modules);
	return 0;
}

/* Sets the text of a task that was not found. Returns the error. */
static int tasks_missing(const struct cluster *cluster, const struct search *search, char *error,
			 size_t size)
{
	int length = (int)strlen(search->module) - 1;
	const char *name = search->name;

	if (search->found)
		(void)snprintf(error, size,
			       "the gateways of %s have the module %.*s, but not this task, or "
			       "their users may not call it",
			       cluster->name, length, name);
	else if (search->is_silent)
		(void)snprintf(error, size,
			       "the gateways of %s that have the module %.*s do not answer: see "
			       "the logs of forkd-gearman on their machines",
			       cluster->name, length, name);
	else
		(void)snprintf(error, size,
			       "no gateway of %s has the module %.*s: start forkd-gearman on a "
			       "machine whose forkd has it",
			       cluster->name, max(length, 0), name);
	return search->is_silent && !search->found ? -FK_E_NO_ANSWER : -FK_E_NO_TASK;
}

/* True if a server has failed in a search of the last TASKS_LATELY. now_ns: of this search. */
static bool tasks_failed_lately(const struct cluster *cluster, uint32_t i, uint64_t now_ns)
{
	uint64_t failed_ns = cluster->failed_ns[i];

	return failed_ns && failed_ns != now_ns && now_ns - failed_ns < TASKS_LATELY;
}

/* Asks the servers once, with the lock held. */
static int tasks_look(struct cluster *cluster, struct search *search, char *error, size_t size)
{
	uint32_t asked = 0, turns = search->again ? cluster->n_servers : 2 * cluster->n_servers;
	uint64_t now_ns = clock_ns();
	bool answered = false;
	int r, last = -FK_E_NO_TASK; /* if none is asked */

	/* First the servers that have answered lately; the others only if these are not enough. */
	for (uint32_t turn = 0; turn < turns; turn++) {
		uint32_t i = turn % cluster->n_servers;

		if (tasks_failed_lately(cluster, i, now_ns) != (turn >= cluster->n_servers))
			continue;
		if (answered && (turn >= cluster->n_servers || search->name) &&
		    (!search->name || board_find_task(cluster->board, search->name) >= 0))
			break;
		r = tasks_search(cluster, &cluster->servers[i], search, error, size);
		cluster->failed_ns[i] = r < 0 ? now_ns : 0;
		answered |= r == 0;
		last = r < 0 ? r : last;
		asked++;
	}
	if (answered && (asked == cluster->n_servers || !load_relaxed(&cluster->slots))) {
		store_relaxed(&cluster->slots, search->gateways * search->jobs);
		store_relaxed(&cluster->board->n_modules, search->modules);
	}
	if (answered && search->name && board_find_task(cluster->board, search->name) < 0)
		return tasks_missing(cluster, search, error, size);
	return answered ? 0 : last;
}

int tasks_find(struct cluster *cluster, const char *name, char *error, size_t size)
{
	const char *colon = name ? strchr(name, ':') : NULL;
	bool named = name && *name;
	char module[64] = "";
	sigset_t all, before;
	int r;

	if (named && (!colon || strlen(name) >= sizeof(module))) {
		(void)snprintf(error, size, "the name of a task is MODULE:TASK");
		return -FK_E_NO_TASK;
	}
	if (colon)
		memcpy(module, name, (size_t)(colon - name) + 1);
	/* With a timeout, connect() fails after a signal, even with SA_RESTART: signal(7). */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	for (uint32_t n = 1;; n++) {
		const struct timespec pause = clock_to_timespec(n * TASKS_PAUSE);
		struct search search = { .name = named ? name : NULL,
					 .module = name ? module : NULL,
					 .again = n > 1 };

		pthread_mutex_lock(&cluster->tasks_lock);
		r = tasks_look(cluster, &search, error, size);
		pthread_mutex_unlock(&cluster->tasks_lock);
		/* A gateway registers its functions again after a reload of forkd. */
		if (r != -FK_E_NO_TASK || search.found || n == TASKS_TRIES)
			break;
		(void)nanosleep(&pause, NULL);
	}
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return r;
}
