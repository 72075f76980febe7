/* SPDX-License-Identifier: MIT */
/*
 * client.c - the connection: opens and closes it
 *
 * client_open_socket() sends HELLO, receives WELCOME with three segments, and maps and checks them.
 * After that the daemon sends only a dismissal. The client sends only cancels (cancel.c), rings
 * (wake_worker.c) and requests for a larger heap (heap_api.c). Mainly the socket shows each side
 * the end of the other.
 *
 * INVARIANTS
 *   I1. Values from a segment's head are checked once, here, against the segment's size, and then
 *       kept in private memory.
 *   I2. In a child of fork() the page `alive` reads 0 (MADV_WIPEONFORK), so every call fails there.
 *       The child's copy of the socket is closed. fk_close() shuts the socket down for all copies
 *       that may exist, so that the daemon sees the parent's end.
 */
#include "client/lib/client.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "client/lib/connect.h"
#include "client/lib/events.h"
#include "client/lib/record_pool.h"
#include "client/lib/spill.h"
#include "common/cleanup.h"
#include "common/crash_site.h"
#include "common/list.h"
#include "common/relaxed.h"
#include "common/util.h"
#include "shm/layout.h"
#include "shm/proto.h"

#define CLIENT_SPIN_NS	  20000u
#define CLIENT_TRIES	  3u /* attempts to connect if a forkd ends before its answer */
#define CLIENT_ALIVE_SIZE 4096
#define CLIENT_READY	  32u /* records to map early; most clients use fewer */

/* Missing in the headers of the oldest supported C library. */
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

/* All clients of the process, for fork_child(). */
static pthread_mutex_t clients_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t clients_once = PTHREAD_ONCE_INIT;
static struct list_link clients;

static void fork_prepare(void)
{
	pthread_mutex_lock(&clients_lock);
}

static void fork_parent(void)
{
	pthread_mutex_unlock(&clients_lock);
}

static void fork_child(void)
{
	fk_client *c;

	list_for_each (c, &clients, link) {
		list_remove(&c->link);
		c->fd = c->waker.fd = safe_close(c->fd);
		events_forget(c);
	}
	pthread_mutex_unlock(&clients_lock);
}

static void clients_init(void)
{
	(void)pthread_atfork(fork_prepare, fork_parent, fork_child);
}

static void clients_add(fk_client *client)
{
	pthread_once(&clients_once, clients_init);
	pthread_mutex_lock(&clients_lock);
	list_add(&clients, &client->link);
	pthread_mutex_unlock(&clients_lock);
}

static void clients_remove(fk_client *client)
{
	pthread_mutex_lock(&clients_lock);
	if (client->link.next) /* in the child of a fork it is in no list */
		list_remove(&client->link);
	pthread_mutex_unlock(&clients_lock);
}

/* Frees a client, which may be only partly initialized. Returns NULL. */
static fk_client *client_free(fk_client *client)
{
	struct fk_client_task *task;

	if (!client)
		return NULL;
	events_fini(client);
	spill_fini(client);
	for (uint32_t i = 0; client->slots && i < client->n_jobs; i++)
		args_free(&client->heap, load_relaxed(&client->slots[i].memory));
	task = load_relaxed(&client->tasks);
	while (task) {
		struct fk_client_task *next = task->next;

		free(task);
		task = next;
	}
	pthread_mutex_destroy(&client->tasks_lock);
	pthread_mutex_destroy(&client->group_lock);
	pthread_mutex_destroy(&client->grow_lock);
	pthread_mutex_destroy(&client->import_lock);
	import_fini(client);
	heap_fini(&client->heap);
	if (client->waker.local) {
		client->waker.local->close(&client->waker);
	} else {
		segment_unmap((void *)(uintptr_t)client->board, client->board_size);
		segment_unmap(client->tenant, client->tenant_size);
		segment_unmap(client->segment, client->segment_size);
	}
	FK_CRASH(close_unmapped);
	if (client->alive)
		(void)munmap((void *)(uintptr_t)client->alive, CLIENT_ALIVE_SIZE);
	free(client->slots);
	free(client->path);
	/* A child may have a copy of the descriptor if it was made without pthread_atfork()
	 * handlers, or before clients_add(). After shutdown() the daemon sees the end (I2). */
	if (client->fd >= 0)
		(void)shutdown(client->fd, SHUT_RDWR);
	FK_CRASH(close_shut);
	(void)safe_close(client->fd);
	free(client);
	return NULL;
}

DEFINE_CLEANUP(fk_client *, client_free);

/* Sends HELLO and receives the answer. fds: receives three descriptors, which the caller owns. */
static int attach(int fd, const char *path, const struct fk_open_options *options,
		  struct proto_welcome *ret_welcome, int *fds)
{
	struct proto_hello hello = {
		.head = { PROTO_MAGIC, PROTO_HELLO },
		.version = PROTO_VERSION,
		.n_jobs = options->n_jobs,
		.heap_size = options->heap_size,
		.layout_hash = LAYOUT_HASH,
	};
	int received[PROTO_MAX_FDS];
	union proto_message message;
	uint32_t n_fds;
	int size = connect_ask(fd, path, &hello, sizeof(hello), &message, received, &n_fds);

	if (size >= (int)sizeof(message.welcome) && message.head.type == PROTO_WELCOME &&
	    n_fds == 3) {
		*ret_welcome = message.welcome;
		memcpy(fds, received, 3 * sizeof(int));
		return 0;
	}
	while (n_fds)
		(void)close(received[--n_fds]);
	return size < 0 ? size : connect_not_understood(path);
}

/* Connects and attaches. Returns the socket or an error. If forkd ends without an answer, tries
 * again: a service manager may have started the next one on the same socket. */
static int reach(const char *path, const struct fk_open_options *options,
		 struct proto_welcome *ret_welcome, int *fds)
{
	int err = -ECONNRESET;

	for (uint32_t tries = 0; tries < CLIENT_TRIES && err == -ECONNRESET; tries++) {
		_cleanup_close_ int fd = -1;

		err = connect_socket(path, &fd);
		if (!err)
			err = attach(fd, path, options, ret_welcome, fds);
		if (!err)
			return steal_fd(&fd);
	}
	return err;
}

/* Checks the segments' heads (I1) and makes the heap. Returns 0 or -EBADMSG. */
static int check_segments(fk_client *client)
{
	const struct client_segment *segment = client->segment;
	const struct board *board = client->board;
	uint64_t heap_offset, heap_size, heap_max;

	if (client->board_size < BOARD_LOADS || client->segment_size < sizeof(*segment) ||
	    client->tenant_size < sizeof(*client->tenant))
		return -EBADMSG;
	heap_offset = segment->heap_offset;
	heap_size = load_relaxed(&segment->heap_size);
	heap_max = segment->heap_max;
	client->n_workers = board->manager.n_workers;
	client->n_jobs = segment->n_jobs;
	client->id = segment->client;
	client->generation = segment->generation;
	if (!client->n_workers || client->n_workers > LIMIT_WORKERS ||
	    client->board_size < board_size(client->n_workers) ||
	    client->tenant->n_rings < client->n_workers ||
	    client->tenant_size < tenant_segment_size(client->n_workers))
		return -EBADMSG;
	if (!client->n_jobs || client->n_jobs > LIMIT_JOBS || client->id >= LIMIT_CLIENTS ||
	    segment->jobs_offset % CACHE_LINE || segment->jobs_offset > client->segment_size ||
	    client->n_jobs * sizeof(struct job) + LIMIT_GROUPS * sizeof(struct group) +
			    sizeof(struct watch) >
		    client->segment_size - segment->jobs_offset)
		return -EBADMSG;
	if (heap_offset % HEAP_ALIGN || heap_offset > client->segment_size ||
	    heap_size > heap_max || heap_max > client->segment_size - heap_offset)
		return -EBADMSG;
	client->jobs = (struct job *)((char *)client->segment + segment->jobs_offset);
	client->groups = client_segment_groups(client->jobs, client->n_jobs);
	heap_init(&client->heap, (char *)client->segment + heap_offset, heap_size, heap_max);
	client->heap.grow = client_grow_heap;
	return 0;
}

/* Maps the pages of the hot path, to avoid page faults later; errors do not matter. The first
 * records are used most: the record that was given back last is taken first. */
static void populate_segments(fk_client *client)
{
	(void)madvise(client->segment,
		      (size_t)((char *)&client->jobs[min(client->n_jobs, CLIENT_READY)] -
			       (char *)client->segment),
		      MADV_POPULATE_WRITE);
	(void)madvise(client->tenant, client->tenant_size, MADV_POPULATE_WRITE);
}

static int map_segments(fk_client *client, const struct proto_welcome *welcome, const int *fds)
{
	void *base;
	int err;

	err = segment_map(fds[0], SEGMENT_BOARD, 0, welcome->epoch, &base, &client->board_size);
	if (err)
		return err;
	client->board = base;
	err = segment_map(fds[1], SEGMENT_TENANT, 1, welcome->epoch, &base, &client->tenant_size);
	if (err)
		return err;
	client->tenant = base;
	err = segment_map(fds[2], SEGMENT_CLIENT, 1, welcome->epoch, &base, &client->segment_size);
	if (err)
		return err;
	client->segment = base;
	err = check_segments(client);
	if (!err)
		populate_segments(client);
	return err;
}

/* Number of CPUs that this process may use. */
static int cpus(void)
{
	cpu_set_t set;

	if (sched_getaffinity(0, sizeof(set), &set) < 0)
		return 2;
	return CPU_COUNT(&set);
}

static int init_private(fk_client *client)
{
	_Atomic uint32_t *alive;

	alive = mmap(NULL, CLIENT_ALIVE_SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
		     -1, 0);
	if (alive == MAP_FAILED)
		return -ENOMEM;
	client->alive = alive;
	if (madvise(alive, CLIENT_ALIVE_SIZE, MADV_WIPEONFORK) < 0)
		return -errno;
	store_relaxed(alive, 1);

	client->slots = calloc(client->n_jobs, sizeof(*client->slots));
	if (!client->slots)
		return -ENOMEM;
	for (uint32_t i = 0; i < client->n_jobs; i++) {
		atomic_init(&client->slots[i].generation, CLIENT_UNUSED);
		atomic_init(&client->slots[i].next, (uint16_t)(i + 2));
	}
	records_give_chain(client, 0, client->n_jobs - 1);
	atomic_init(&client->random, (uint32_t)clock_ns() ^ (uint32_t)getpid() << 12);
	client->spin_max = cpus() > 1 ? CLIENT_SPIN_NS : 0;
	atomic_init(&client->spin, client->spin_max);
	return 0;
}

/* Returns a client without segments; NULL: no memory. */
static fk_client *client_new(const char *path)
{
	fk_client *client = aligned_alloc(CACHE_LINE, align_up(sizeof(*client), CACHE_LINE));

	if (!client)
		return NULL;
	memset(client, 0, sizeof(*client));
	client->fd = client->waker.fd = -1;
	pthread_mutex_init(&client->tasks_lock, NULL);
	pthread_mutex_init(&client->group_lock, NULL);
	pthread_mutex_init(&client->grow_lock, NULL);
	pthread_mutex_init(&client->import_lock, NULL);
	events_init(client);
	client->path = strdup(path);
	return client->path ? client : client_free(client);
}

int client_open_in_process(const struct client_place *place, fk_client **ret_client)
{
	_cleanup_(client_freep) fk_client *client = client_new("");
	int err;

	if (!client)
		return -ENOMEM;
	client->board = place->board;
	client->board_size = place->board_size;
	client->tenant = place->tenant;
	client->tenant_size = place->tenant_size;
	client->segment = place->segment;
	client->segment_size = place->segment_size;
	err = check_segments(client);
	if (!err)
		err = init_private(client);
	if (err) {
		/* They are the pool's. */
		client->board = NULL;
		client->tenant = NULL;
		client->segment = NULL;
		return err;
	}
	client->waker.local = place->local;
	client->heap.whole = 1;
	/* The first job may wait until a thread has begun, for longer than a spin (wait.c, I3). */
	atomic_init(&client->spin, client->spin_max / 32);
	clients_add(client);
	*ret_client = steal_ptr(client);
	return 0;
}

int client_open_socket(const char *path, const struct fk_open_options *options,
		       fk_client **ret_client)
{
	_cleanup_(client_freep) fk_client *client = NULL;
	struct proto_welcome welcome = { 0 };
	int fds[3] = { -1, -1, -1 };
	int err;

	client = client_new(path);
	if (!client)
		return error_say(-ENOMEM, "out of memory");

	err = reach(path, options, &welcome, fds);
	if (err < 0)
		return err;
	client->fd = client->waker.fd = err;
	FK_CRASH(open_welcome);
	err = map_segments(client, &welcome, fds);
	FK_CRASH(open_mapped);
	for (int i = 0; i < 3; i++)
		(void)safe_close(fds[i]);
	if (err == -EPROTO || err == -EBADMSG || err == -ESTALE)
		return error_say(-EPROTO,
				 "forkd on %s and this library are of different versions: use the "
				 "libforkclient that came with it",
				 path);
	if (!err)
		err = init_private(client);
	if (err)
		return error_say(err, "cannot map what forkd on %s shares: %s", path,
				 strerrordesc_np(-err));
	FK_CRASH(open_ready);
	clients_add(client);
	*ret_client = steal_ptr(client);
	return 0;
}

int fk_close(fk_client *client)
{
	int err;

	if (!client)
		return 0;
	err = client_check(client);
	if (err)
		return err;
	/* It would wait for its own job. */
	if (client->waker.local && client->waker.local->is_worker())
		return -EDEADLK;
	clients_remove(client);
	FK_CRASH(close_unlisted);
	client_free(client);
	return 0;
}
