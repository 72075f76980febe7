/* SPDX-License-Identifier: MIT */
/*
 * bench_gearman.c - jobs through a Gearman server: forkd with its gateway, and an echo worker
 *
 * Starts gearmand, a private forkd with its gateway, and two workers that return the payload of a
 * job: "echo" with libgearman, and the control "plain" with the gateway's own code for connections.
 * Each connection of a worker has one job. The gateway has as many places for jobs, or those of
 * --places. One client keeps jobs in flight with one of them at a time; the runs alternate:
 *
 * 	bench_gearman [--threads P] [--connections N] [--places N] [--bytes B] [--flight W]
 * 		[--jobs J] [--repeat R]
 *
 * Without bytes the jobs of forkd are null:null, which has no argument. Else they are null:pass
 * with an iobuf of this size. The other workers get the same payloads. libgearman sends a large
 * answer in pieces, and waits for the acknowledgement of each: echo has one job in ECHO_LESS then.
 *
 * One line of JSON for each run:
 * 	{"bench": "gearman", "side": "forkd", "threads": 2, "connections": 4, "places": 4,
 * 	 "bytes": 0, "flight": 64, "jobs": 10000, "seconds": 0.5,
 * 	 "cpu_s": {"client": 0.1, "gearmand": 0.3, "worker": 0.2, "forkd": 0.1}}
 * Exit status 0; 1 if an answer was wrong; 2 for a wrong command line.
 *
 * Threads: the client is the main thread. The workers are children with a thread for each
 * connection.
 */
#include <errno.h>
#include <libgearman-1.0/gearman.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/util.h"
#include "contrib/gearman/payload.h"
#include "contrib/gearman/peer.h"
#include "shm/limits.h"
#include "tests/bench/bench_pool.h"
#include "tests/bench/figures.h"
#include "tests/bench/usage.h"
#include "tests/gearman/protocol.h"

#define ECHO_LESS 50u

static struct bench_pool pool;
static uint32_t threads = 2;
static uint32_t connections = 4;
static uint32_t places; /* 0: as many as connections */
static uint32_t bytes;
static uint32_t flight = 64;
static uint32_t n_jobs = 10000;
static uint32_t repeat = 5;

static uint16_t port;
static struct protocol protocol;
static char *call; /* the payload of all jobs */
static size_t call_size;
static size_t answer_size; /* of forkd's answer */

/* Processes of which the CPU time is measured. */
enum process { CLIENT, SERVER, POOL, GATEWAY, ECHO_WORKER, PLAIN, N_PROCESSES };
static pid_t processes[N_PROCESSES];

/* The sides. */
static const struct side {
	const char *name;
	const char *without_bytes, *with_bytes; /* functions */
	const char *magic;			/* of an answer */
	enum process worker;
} sides[] = {
	{ "forkd", "null:null", "null:pass", PAYLOAD_ANSWER, GATEWAY },
	{ "echo", "echo", "echo", PAYLOAD_CALL, ECHO_WORKER },
	{ "plain", "plain", "plain", PAYLOAD_CALL, PLAIN },
};

/* ------------------------------------------------------------------------------ workers */

static void *echo(gearman_job_st *job, void *context, size_t *size, gearman_return_t *ret)
{
	(void)context;
	*ret = GEARMAN_SUCCESS;
	return gearman_job_take_workload(job, size);
}

static void *echo_thread(void *context)
{
	gearman_worker_st *worker = gearman_worker_create(NULL);

	(void)context;
	if (!worker || gearman_failed(gearman_worker_add_server(worker, "127.0.0.1", port)) ||
	    gearman_failed(gearman_worker_add_function(worker, "echo", 0, echo, NULL)))
		bench_die("the echo worker: %s", gearman_worker_error(worker));
	while (gearman_success(gearman_worker_work(worker)))
		;
	bench_die("the echo worker: %s", gearman_worker_error(worker));
}

/* Starts a child that ends with this process. Returns its pid, or 0 in the child. */
static pid_t start_child(void)
{
	pid_t parent = getpid(), child;

	(void)fflush(NULL);
	child = fork();
	if (child < 0)
		bench_die("no process: %m");
	if (!child && (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 || getppid() != parent))
		_exit(1);
	return child;
}

static int no_tick(void *context)
{
	(void)context;
	return 0;
}

/* Serves one job, or sleeps until there may be one. Returns 0 or a negative errno. */
static int plain_work(struct peer *peer, char *memory)
{
	char names[PEER_NAMES];
	const char *handle, *function, *unique;
	int type = peer_next(peer, no_tick, NULL);
	int err = type < 0 ? type : 0;
	size_t size;

	if (!err && type != PACKET_ASSIGN) {
		err = peer_read(peer, NULL, NULL, 0);
		if (!err)
			err = peer_send(peer, type == PACKET_NOOP ? PACKET_GRAB : PACKET_PRE_SLEEP,
					NULL, 0);
		return err ? err : peer_flush(peer);
	}
	if (!err)
		err = peer_read_names(peer, names, &handle, &function, &unique);
	size = peer->left;
	if (!err)
		err = size > call_size ? -EMSGSIZE : peer_read(peer, memory, NULL, 0);
	if (!err)
		err = peer_send(peer, PACKET_COMPLETE,
				(struct peer_part[]){ { handle, strlen(handle) + 1 },
						      { memory, size } },
				2);
	if (!err)
		err = peer_send(peer, PACKET_GRAB, NULL, 0);
	return err ? err : peer_flush(peer);
}

static void *plain_thread(void *context)
{
	struct peer *peer = figures_alloc(1, sizeof(*peer));
	char *memory = figures_alloc(1, call_size);
	const struct peer_part name = { "plain", 5 };
	int err = peer_open(peer, "127.0.0.1", port, 3600 * NSEC_PER_SEC);

	(void)context;
	if (!err)
		err = peer_send(peer, PACKET_CAN_DO, &name, 1);
	if (!err)
		err = peer_send(peer, PACKET_GRAB, NULL, 0);
	if (!err)
		err = peer_flush(peer);
	while (!err)
		err = plain_work(peer, memory);
	bench_die("the plain worker: %s", strerror(-err));
}

/* Starts a worker with a thread for each connection. */
static pid_t start_worker(void *(*run)(void *context))
{
	pid_t child = start_child();

	if (child)
		return child;
	for (uint32_t i = 1; i < connections; i++) {
		pthread_t thread;

		if (pthread_create(&thread, NULL, run, NULL))
			bench_die("a worker has no thread");
	}
	(void)run(NULL);
	_exit(1);
}

static pid_t start_gateway(void)
{
	char path[4096], server[32], jobs[32];
	pid_t child = start_child();

	if (child)
		return child;
	bench_pool_path(path, sizeof(path), "forkd-gearman");
	(void)snprintf(server, sizeof(server), "--server=127.0.0.1:%u", port);
	(void)snprintf(jobs, sizeof(jobs), "--jobs=%u", places);
	(void)setenv("FORKD_SOCKET", pool.socket, 1);
	(void)execl(path, "forkd-gearman", server, jobs, NULL);
	(void)fprintf(stderr, "cannot start %s: %m\n", path);
	_exit(127);
}

/* ------------------------------------------------------------------------------ the client */

/* The payload of all jobs: idempotent, so that the gateway keeps no journal of them. */
static void make_call(void)
{
	struct signature signature;
	union fk_value value = { .buf = { NULL, bytes } };
	char error[PAYLOAD_ERROR];

	(void)signature_parse(bytes ? "data:iobuf ->" : "->", &signature, NULL);
	value.buf.data = bytes ? figures_alloc(1, bytes) : NULL;
	for (size_t i = 0; i < bytes; i++)
		((char *)value.buf.data)[i] = (char)(i * 7 + i / 4096);
	if (payload_call_size(&signature, &value, &call_size, error))
		bench_die("the payload: %s", error);
	call = figures_alloc(1, call_size);
	payload_write_call(call, &signature, &value, 0, PAYLOAD_IDEMPOTENT, 0, 0);
	answer_size = bytes ? call_size : sizeof(struct payload_answer);
	free(value.buf.data);
}

static void check_answer(const struct side *side, const struct protocol_packet *packet)
{
	size_t size = side->worker == GATEWAY ? answer_size : call_size, tail = min(bytes, 4096u);

	if (packet->type != PACKET_COMPLETE)
		bench_die("%s: packet of type %u: %.*s", side->name, packet->type,
			  (int)min(packet->size, (size_t)PAYLOAD_EXCEPTION), packet->data);
	if (packet->size != size || memcmp(packet->data, side->magic, strlen(side->magic)) != 0 ||
	    memcmp(packet->data + size - tail, call + call_size - tail, tail) != 0)
		bench_die("%s: the answer of %zu bytes is wrong", side->name, packet->size);
}

/* Runs n jobs. Returns the time in ns. */
static uint64_t run(const struct side *side, uint32_t n)
{
	const char *function = bytes ? side->with_bytes : side->without_bytes;
	uint64_t began = clock_ns();

	for (uint32_t sent = 0, ended = 0; ended < n;) {
		struct protocol_packet packet;
		int err = 0;

		while (!err && sent < n && sent - ended < flight) {
			err = protocol_submit(&protocol, function, "", call, call_size);
			sent++;
		}
		if (!err)
			err = protocol_read(&protocol, &packet);
		if (err)
			bench_die("gearmand: %s", strerror(-err));
		if (packet.type == PACKET_CREATED)
			continue;
		check_answer(side, &packet);
		ended++;
	}
	return clock_ns() - began;
}

/* Returns the number of jobs of a run, or of the first one, which is not measured: each connection
 * has one, and each buffer is in use. */
static uint32_t jobs_of(const struct side *side, bool first)
{
	uint32_t n = first ? max(n_jobs / 10, connections) : n_jobs;

	return side->worker == ECHO_WORKER && bytes ? max(n / ECHO_LESS, 1u) : n;
}

static void measure(const struct side *side)
{
	uint32_t n = jobs_of(side, false);
	struct usage before[N_PROCESSES];
	double cpu[N_PROCESSES];
	uint64_t ns;

	for (size_t i = 0; i < N_PROCESSES; i++)
		before[i] = usage_now(&processes[i], 1);
	ns = run(side, n);
	for (size_t i = 0; i < N_PROCESSES; i++)
		cpu[i] =
			(double)usage_between(before[i], usage_now(&processes[i], 1)).cpu_ns * 1e-9;
	printf("{\"bench\": \"gearman\", \"side\": \"%s\", \"threads\": %u, \"connections\": %u, "
	       "\"places\": %u, \"bytes\": %u, \"flight\": %u, \"jobs\": %u, "
	       "\"seconds\": %.9f, \"cpu_s\": "
	       "{\"client\": %.6f, \"gearmand\": %.6f, \"worker\": %.6f, \"forkd\": %.6f}}\n",
	       side->name, threads, connections, places, bytes, flight, n, (double)ns * 1e-9,
	       cpu[CLIENT], cpu[SERVER], cpu[side->worker], cpu[POOL]);
	(void)fflush(stdout);
}

/* Starts all processes, and connects to the server. */
static void start(void)
{
	fk_client *client;
	int err;

	bench_pool_start(&pool, BENCH_MODULES_TEST, (int)threads);
	client = bench_pool_open(&pool, 1, 0);
	processes[CLIENT] = getpid();
	processes[POOL] = bench_pool_pid(client);
	fk_close(client);
	processes[SERVER] = protocol_server(&port);
	if (processes[SERVER] < 0)
		bench_die("gearmand does not start: %s", strerror(-processes[SERVER]));
	processes[GATEWAY] = start_gateway();
	processes[ECHO_WORKER] = start_worker(echo_thread);
	processes[PLAIN] = start_worker(plain_thread);
	err = protocol_open(&protocol, port);
	if (err)
		bench_die("gearmand: %s", strerror(-err));
}

int main(int argc, char **argv)
{
	const struct figures_option options[] = {
		{ "threads", 1, LIMIT_WORKERS, &threads },
		{ "connections", 1, 64, &connections },
		{ "places", 0, 64, &places },
		{ "bytes", 0, 1u << 30, &bytes },
		{ "flight", 1, 1000, &flight },
		{ "jobs", 1, 100000000, &n_jobs },
		{ "repeat", 1, 1000, &repeat },
		{ NULL, 0, 0, NULL },
	};

	figures_options(argc, argv, options);
	places = places ? places : connections;
	make_call();
	start();
	for (size_t i = 0; i < ARRAY_SIZE(sides); i++)
		(void)run(&sides[i], jobs_of(&sides[i], true));
	for (uint32_t i = 0; i < repeat * ARRAY_SIZE(sides); i++)
		measure(&sides[(i + i / ARRAY_SIZE(sides)) % ARRAY_SIZE(sides)]);
	protocol_close(&protocol);
	bench_pool_stop(&pool);
	return 0;
}
