/* SPDX-License-Identifier: MIT */
/*
 * Starts forkd with fork and exec, its socket in a temporary directory, and waits for READY=1 on
 * its notification socket. Reads the pool's figures from the board and /proc.
 *
 * If a peer dies: this program, by exit(): bench_pool_stop() runs from atexit(). By a signal: the
 * manager gets SIGKILL when its parent dies, and the pool when the manager dies. The daemon: the
 * wait for READY fails, or a wait ends with -ECONNRESET; both end the program.
 */
#include "tests/bench/bench_pool.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "client/lib/client.h"
#include "shm/board.h"

#define READY_TIMEOUT_MS 10000
#define SAMPLE_NS	 20000000

static struct bench_pool *running;
static pid_t owner;

static struct {
	pthread_t thread;
	fk_client *client;
	_Atomic int stop;
	int64_t peak_kib;
} sampler;

void bench_die(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	fprintf(stderr, "%s: ", program_invocation_short_name);
	vfprintf(stderr, format, args);
	fputc('\n', stderr);
	va_end(args);
	exit(1);
}

static void stop_at_exit(void)
{
	if (running && owner == getpid())
		bench_pool_stop(running);
}

/* The build tree: this program is tests/bench/bench_forkd in it. */
static void build_tree(char *ret, size_t size)
{
	ssize_t n = readlink("/proc/self/exe", ret, size - 1);

	if (n < 0)
		bench_die("cannot read /proc/self/exe: %s", strerror(errno));
	ret[n] = '\0';
	for (int up = 0; up < 3; up++) {
		char *slash = strrchr(ret, '/');

		if (!slash)
			bench_die("not in a build tree");
		*slash = '\0';
	}
}

void bench_pool_path(char *ret_path, size_t size, const char *program)
{
	char tree[2048];

	build_tree(tree, sizeof(tree));
	(void)snprintf(ret_path, size, "%s/%s", tree, program);
}

static void exec_forkd(const struct bench_pool *pool, const char *modules,
		       const char *const *options, pid_t parent)
{
	const char *bin = getenv("FORKD_BIN");
	const char *args[16] = { "forkd", "--config=/dev/null", "--log-level=error" };
	size_t n = 3;
	char forkd[4096];
	char directory[4096];

	bench_pool_path(forkd, sizeof(forkd), "forkd");
	bench_pool_path(directory, sizeof(directory), modules);
	args[n++] = "--socket";
	args[n++] = pool->socket;
	args[n++] = "--module-dir";
	args[n++] = directory;
	while (*options && n + 1 < sizeof(args) / sizeof(args[0]))
		args[n++] = *options++;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(1);
	setenv("NOTIFY_SOCKET", pool->notify, 1);
	unsetenv("LISTEN_FDS");
	unsetenv("LISTEN_PID");
	unsetenv("WATCHDOG_USEC");
	execv(bin ? bin : forkd, (char *const *)args);
	fprintf(stderr, "cannot start %s: %s\n", bin ? bin : forkd, strerror(errno));
	_exit(127);
}

/* Waits for READY=1, or for the manager's end. */
static int await_ready(int fd, pid_t manager)
{
	char text[256];

	for (int waited = 0; waited < READY_TIMEOUT_MS; waited += 100) {
		struct pollfd poller = { .fd = fd, .events = POLLIN };

		if (poll(&poller, 1, 100) > 0) {
			ssize_t size = recv(fd, text, sizeof(text) - 1, MSG_DONTWAIT);

			text[size > 0 ? size : 0] = '\0';
			if (strstr(text, "READY=1"))
				return 0;
		}
		if (waitpid(manager, NULL, WNOHANG) == manager)
			return -ECHILD;
	}
	return -ETIMEDOUT;
}

/* options: of forkd, NULL at the end. */
static void start(struct bench_pool *pool, const char *modules, const char *const *options)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	pid_t parent = getpid();
	int fd;
	int r;

	memset(pool, 0, sizeof(*pool));
	strcpy(pool->directory, "/tmp/forkd-bench-XXXXXX");
	/* Clients of other users must reach the socket in it. */
	if (!mkdtemp(pool->directory) || chmod(pool->directory, 0711) < 0)
		bench_die("cannot make a directory in /tmp: %s", strerror(errno));
	snprintf(pool->socket, sizeof(pool->socket), "%s/forkd.sock", pool->directory);
	snprintf(pool->notify, sizeof(pool->notify), "%s/notify", pool->directory);
	running = pool;
	if (!owner)
		atexit(stop_at_exit);
	owner = parent;

	fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	strcpy(address.sun_path, pool->notify);
	if (fd < 0 || bind(fd, (struct sockaddr *)&address, sizeof(address)) < 0)
		bench_die("cannot listen on %s: %s", pool->notify, strerror(errno));
	pool->manager = fork();
	if (pool->manager < 0) {
		pool->manager = 0;
		bench_die("cannot fork: %s", strerror(errno));
	}
	if (!pool->manager)
		exec_forkd(pool, modules, options, parent);
	r = await_ready(fd, pool->manager);
	close(fd);
	if (r == -ECHILD)
		pool->manager = 0;
	if (r < 0)
		bench_die("forkd did not get ready: %s",
			  r == -ECHILD ? "it has ended" : strerror(-r));
}

void bench_pool_start_with(struct bench_pool *pool, const char *modules, int workers,
			   const char *option)
{
	char n[32];
	/* An older forkd has no total. */
	const char *options[] = { n,
				  "--heap-max=16G",
				  "--shared-memory-max=20G",
				  "--jobs-max=4096",
				  getenv("FORKD_BIN") ? "--log-level=error" : "--memory-max=16T",
				  option,
				  NULL };

	snprintf(n, sizeof(n), "--workers=%d", workers);
	start(pool, modules, options);
}

void bench_pool_start_plain(struct bench_pool *pool, const char *modules)
{
	const char *const none[] = { NULL };

	start(pool, modules, none);
}

void bench_pool_start(struct bench_pool *pool, const char *modules, int workers)
{
	bench_pool_start_with(pool, modules, workers, NULL);
}

void bench_pool_stop(struct bench_pool *pool)
{
	if (pool->manager) {
		kill(pool->manager, SIGTERM);
		for (int i = 0; i < 1000 && waitpid(pool->manager, NULL, WNOHANG) == 0; i++) {
			struct timespec ts = { .tv_nsec = 10000000 };

			if (i == 999)
				kill(pool->manager, SIGKILL);
			nanosleep(&ts, NULL);
		}
		pool->manager = 0;
	}
	if (pool->directory[0]) {
		unlink(pool->notify);
		unlink(pool->socket);
		rmdir(pool->directory);
		pool->directory[0] = '\0';
	}
	running = NULL;
}

fk_client *bench_pool_open(const struct bench_pool *pool, uint32_t n_jobs, uint64_t heap_size)
{
	struct fk_open_options options = { .n_jobs = n_jobs, .heap_size = heap_size };
	fk_client *client;

	if (fk_open(pool->socket, &options, &client) < 0)
		bench_die("%s", fk_error_text());
	return client;
}

const fk_task *bench_pool_task(fk_client *client, const char *name)
{
	const fk_task *task;
	int r = fk_task_find(client, name, &task);

	if (r < 0)
		bench_die("%s: %s", name, fk_strerror(r));
	return task;
}

void bench_pool_call(fk_client *client, const fk_task *task, const union fk_value *values, size_t n,
		     void *result, size_t size)
{
	fk_job job;
	int r = fk_submit_values(client, task, values, n, 0, &job);

	if (r == 0)
		r = fk_wait(client, job, FK_FOREVER);
	if (r == 0)
		r = fk_result(client, job, result, size);
	if (r == 0)
		r = fk_release(client, job);
	if (r < 0)
		bench_die("%s: %s", fk_task_name(task), fk_strerror(r));
}

uint64_t bench_pool_counter(fk_client *client, const char *name)
{
	for (uint32_t i = 0; i < board_n_counters; i++)
		if (!strcmp(board_counter_rows[i].name, name))
			return board_counter_sum(client->board, &board_counter_rows[i]);
	bench_die("there is no counter %s", name);
}

/* Returns the number after a word at the start of a line of /proc/PID/FILE, or -1. */
static int64_t proc_kib(pid_t pid, const char *file, const char *word)
{
	char path[64];
	char line[256];
	int64_t kib = -1;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/%s", pid, file);
	f = fopen(path, "re");
	while (f && kib < 0 && fgets(line, sizeof(line), f))
		if (!strncmp(line, word, strlen(word)))
			kib = strtoll(line + strlen(word), NULL, 10);
	if (f)
		fclose(f);
	return kib;
}

pid_t bench_pool_pid(fk_client *client)
{
	return (pid_t)atomic_load_explicit(&client->board->manager.pool_pid, memory_order_relaxed);
}

int64_t bench_pool_pss(fk_client *client)
{
	return proc_kib(bench_pool_pid(client), "smaps_rollup", "Pss:");
}

int64_t bench_pool_rss(fk_client *client)
{
	return proc_kib(bench_pool_pid(client), "status", "VmRSS:");
}

int64_t bench_pool_rss_peak(fk_client *client)
{
	return proc_kib(bench_pool_pid(client), "status", "VmHWM:");
}

int64_t bench_pool_manager_rss(const struct bench_pool *pool)
{
	return proc_kib(pool->manager, "status", "VmHWM:");
}

static void sample(void)
{
	int64_t now = bench_pool_pss(sampler.client);

	if (now > sampler.peak_kib)
		sampler.peak_kib = now;
}

static void *sample_loop(void *arg)
{
	struct timespec ts = { .tv_nsec = SAMPLE_NS };

	(void)arg;
	/* Relaxed: the thread is joined. */
	while (!atomic_load_explicit(&sampler.stop, memory_order_relaxed)) {
		sample();
		nanosleep(&ts, NULL);
	}
	return NULL;
}

void bench_pool_sample_start(fk_client *client)
{
	sampler.client = client;
	sampler.peak_kib = -1;
	atomic_store_explicit(&sampler.stop, 0, memory_order_relaxed);
	if (pthread_create(&sampler.thread, NULL, sample_loop, NULL))
		bench_die("cannot start a thread");
}

int64_t bench_pool_sample_stop(void)
{
	atomic_store_explicit(&sampler.stop, 1, memory_order_relaxed);
	pthread_join(sampler.thread, NULL);
	sample();
	return sampler.peak_kib;
}
