/* SPDX-License-Identifier: MIT */
/*
 * client_plugin.c - gearman:// for the client library: opens and closes a cluster
 *
 * The plugin plays the pool (client/lib/plugin.h). Its segments are private memory of this process.
 * The board has the tasks of the cluster and one worker, which is client_jobs.c. The tenant has one
 * ring. The client segment is like any other.
 *
 * INVARIANTS
 *   I1. A cluster belongs to one client. The thread ends before its memory is unmapped, and before
 *       fk_close() returns.
 *   I2. Descriptors are opened and closed with the lock of client_server.c. So a child of fork()
 *       has copies of those that the list of clusters shows, and closes them. Else a job server
 *       would take the child for the client after the parent's end. The child uses nothing else.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <unistd.h>

#include "client/lib/client.h"
#include "client/lib/plugin.h"
#include "common/cleanup.h"
#include "common/clock.h"
#include "common/relaxed.h"
#include "common/util.h"
#include "contrib/gearman/client_cluster.h"
#include "contrib/gearman/client_jobs.h"
#include "contrib/gearman/client_tasks.h"
#include "contrib/gearman/server_name.h"
#include "shm/layout.h"
#include "shm/proto.h"
#include "shm/segment.h"
#include "shm/wake.h"

#define CLUSTER_JOBS   256u		    /* default: as fk_open() */
#define CLUSTER_HEAP   (UINT64_C(64) << 20) /* the same, of address space */
#define CLUSTER_SCHEME "gearman://"

/* All clusters of the process, with the lock of client_server.c. */
static struct list_link clusters;
static pthread_once_t clusters_once = PTHREAD_ONCE_INIT;

static void cluster_child(void)
{
	struct cluster *cluster;

	list_for_each (cluster, &clusters, link) {
		list_remove(&cluster->link);
		cluster->wake_fd = safe_close(cluster->wake_fd);
		for (uint32_t i = 0; i < cluster->n_servers; i++)
			server_forget(&cluster->servers[i]);
	}
	server_unlock();
}

static void cluster_once(void)
{
	(void)pthread_atfork(server_lock, server_unlock, cluster_child);
}

static struct cluster *cluster_of(struct waker *waker)
{
	return (struct cluster *)container_of(waker->local, const struct cluster, local);
}

/* ------------------------------------------------------------------------ struct waker_local */

static int cluster_send(struct waker *waker, const void *message)
{
	const struct proto_head *head = message;
	struct cluster *cluster = cluster_of(waker);

	if (head->type == PROTO_CANCEL)
		/* ORDER cancel/word [V4]: release, after the word of the record. Pairs with
		 * jobs_cancel(). */
		atomic_store_explicit(&cluster->is_cancelled, 1, memory_order_release);
	/* PROTO_RING: the thread checks the ring after each wake. */
	jobs_wake(cluster);
	return 0;
}

static void cluster_import(struct waker *waker, char *base)
{
	/* ORDER client/imports [K3]: release, as in local_pool_import(). Pairs with
	 * record_resolve(). */
	atomic_store_explicit(&cluster_of(waker)->imports, base, memory_order_release);
}

static void cluster_wake(struct waker *waker, uint32_t worker)
{
	(void)worker;
	jobs_wake(cluster_of(waker));
}

static int cluster_is_worker(void)
{
	return 0; /* No code of the program runs on the thread. */
}

static int cluster_find(struct waker *waker, const char *name, char *error, size_t size)
{
	return tasks_find(cluster_of(waker), name, error, size);
}

static int cluster_explain(struct waker *waker, uint32_t job, uint32_t generation, char *text,
			   size_t size)
{
	return jobs_text(cluster_of(waker), job, generation, text, size);
}

static uint32_t cluster_workers(struct waker *waker)
{
	/* Relaxed: for display. */
	return load_relaxed(&cluster_of(waker)->slots);
}

static const struct waker_cluster cluster_functions = {
	.find = cluster_find,
	.explain = cluster_explain,
	.workers = cluster_workers,
};

/* ------------------------------------------------------------------------ end */

/* Frees a cluster without a thread. Returns NULL. */
static struct cluster *cluster_free(struct cluster *cluster)
{
	jobs_fini(cluster);
	segment_unmap(cluster->board, cluster->board_size);
	segment_unmap(cluster->tenant, cluster->tenant_size);
	segment_unmap(cluster->segment, cluster->segment_size);
	segment_unmap(load_relaxed(&cluster->imports), LIMIT_IMPORT);
	(void)safe_close(cluster->wake_fd);
	pthread_mutex_destroy(&cluster->texts_lock);
	pthread_mutex_destroy(&cluster->tasks_lock);
	free(cluster->signatures);
	free(cluster->texts);
	free(cluster->calls);
	free(cluster);
	return NULL;
}

DEFINE_CLEANUP(struct cluster *, cluster_free);

static void cluster_close(struct waker *waker)
{
	struct cluster *cluster = cluster_of(waker);

	/* Relaxed: the eventfd wakes the thread, which finds it. */
	store_relaxed(&cluster->is_ending, 1);
	jobs_wake(cluster);
	pthread_join(cluster->thread, NULL);
	server_lock();
	list_remove(&cluster->link);
	server_unlock();
	(void)cluster_free(cluster);
}

/* ------------------------------------------------------------------------ names */

/* Resolves HOST[:PORT]. */
static int cluster_add_server(struct cluster *cluster, const char *text, size_t length, char *error)
{
	const struct addrinfo hints = { .ai_socktype = SOCK_STREAM,
					.ai_flags = AI_ADDRCONFIG | AI_NUMERICSERV };
	struct server *server = &cluster->servers[cluster->n_servers];
	struct server_name name;
	char port[8];
	bool is_ipv6;
	int r;

	if (server_name_parse(text, length, SERVER_NAME_PORT, &name) < 0) {
		(void)snprintf(error, PLUGIN_ERROR,
			       "%.200s: the name is " CLUSTER_SCHEME
			       "HOST[:PORT][,HOST[:PORT]...], with ports from 1 to 65535",
			       cluster->name);
		return -EINVAL;
	}
	(void)snprintf(port, sizeof(port), "%u", name.port);
	r = getaddrinfo(name.host, port, &hints, &server->addresses);
	if (r) {
		(void)snprintf(error, PLUGIN_ERROR, "%.100s: the host %s is not found: %s",
			       cluster->name, name.host, gai_strerror(r));
		return -FK_E_NOT_LISTENING;
	}
	is_ipv6 = strchr(name.host, ':') != NULL;
	(void)snprintf(server->name, sizeof(server->name), "%s%s%s:%s", is_ipv6 ? "[" : "",
		       name.host, is_ipv6 ? "]" : "", port);
	server->fd = -1;
	cluster->n_servers++;
	return 0;
}

static int cluster_add_servers(struct cluster *cluster, char *error)
{
	const char *at = cluster->name + strlen(CLUSTER_SCHEME);
	int r = 0;

	for (;;) {
		size_t length = strcspn(at, ",");

		if (cluster->n_servers == CLUSTER_SERVERS) {
			(void)snprintf(error, PLUGIN_ERROR, "more than %u job servers",
				       CLUSTER_SERVERS);
			return -EINVAL;
		}
		r = cluster_add_server(cluster, at, length, error);
		if (r < 0 || !at[length])
			return r;
		at += length + 1;
	}
}

/* ------------------------------------------------------------------------ segments */

static int cluster_map_all(struct cluster *cluster, uint32_t n_jobs, uint64_t heap_size)
{
	uint64_t heap_offset = client_segment_heap_offset(n_jobs);
	struct board_manager *manager;
	struct client_segment *segment;

	cluster->board_size = board_size(1);
	cluster->tenant_size = tenant_segment_size(1);
	cluster->segment_size = heap_offset + heap_size;
	cluster->board = segment_private(SEGMENT_BOARD, cluster->board_size);
	cluster->tenant = segment_private(SEGMENT_TENANT, cluster->tenant_size);
	cluster->segment = segment = segment_private(SEGMENT_CLIENT, cluster->segment_size);
	if (!cluster->board || !cluster->tenant || !segment)
		return -ENOMEM;
	manager = &cluster->board->manager;
	manager->pid = (uint32_t)getpid();
	manager->n_workers = 1;
	manager->jobs_max = n_jobs;
	manager->clients_max = 1;
	manager->started_ns = clock_ns();
	strncpy(manager->version, PACKAGE_VERSION, sizeof(manager->version) - 1);
	store_relaxed(&manager->state, BOARD_RUNNING);
	store_relaxed(&manager->pool_generation, 1);
	store_relaxed(&manager->clients, 1);
	store_relaxed(&manager->tenants, 1);
	store_relaxed(&cluster->board->workers[0].wake, WAKE_LOOKING);
	cluster->tenant->n_rings = 1;
	segment->generation = 1;
	segment->n_jobs = n_jobs;
	segment->jobs_offset = sizeof(*segment);
	segment->heap_offset = heap_offset;
	segment->heap_max = heap_size;
	store_relaxed(&segment->heap_size, heap_size);
	cluster->jobs = (struct job *)((char *)segment + segment->jobs_offset);
	cluster->groups = client_segment_groups(cluster->jobs, n_jobs);
	return 0;
}

/* ------------------------------------------------------------------------ start */

static int cluster_init(struct cluster *cluster, uint32_t n_jobs, uint64_t heap_size)
{
	uint64_t random[2];
	int r;

	cluster->due_ns = UINT64_MAX;
	cluster->n_texts = 4 * n_jobs;
	cluster->texts = calloc(cluster->n_texts, sizeof(*cluster->texts));
	cluster->calls = calloc(n_jobs, sizeof(struct call *));
	cluster->signatures = calloc(LIMIT_TASKS, sizeof(*cluster->signatures));
	if (!cluster->texts || !cluster->calls || !cluster->signatures)
		return -ENOMEM;
	if (getrandom(random, sizeof(random), 0) != (ssize_t)sizeof(random))
		return -errno;
	(void)snprintf(cluster->id, sizeof(cluster->id), "%016llx%016llx",
		       (unsigned long long)random[0], (unsigned long long)random[1]);
	r = cluster_map_all(cluster, n_jobs, heap_size);
	if (r < 0)
		return r;
	cluster->local = (struct waker_local){
		.send = cluster_send,
		.close = cluster_close,
		.import = cluster_import,
		.wake = cluster_wake,
		.is_worker = cluster_is_worker,
		.cluster = &cluster_functions,
	};
	return 0;
}

static int cluster_start(struct cluster *cluster)
{
	sigset_t all, before;
	int r;

	pthread_once(&clusters_once, cluster_once);
	server_lock();
	cluster->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	r = cluster->wake_fd < 0 ? -errno : 0;
	if (r == 0)
		list_add(&clusters, &cluster->link);
	server_unlock();
	if (r < 0)
		return r;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	/* The default stack: it also holds the thread-local variables of the program. */
	r = -pthread_create(&cluster->thread, NULL, jobs_main, cluster);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (r == 0)
		return 0;
	server_lock();
	list_remove(&cluster->link);
	server_unlock();
	return r;
}

/* struct client_plugin.open */
static int cluster_open(const char *name, const struct fk_open_options *options,
			struct client_place *ret_place, char *error)
{
	_cleanup_(cluster_freep) struct cluster *cluster = calloc(1, sizeof(*cluster));
	uint32_t n_jobs = options->n_jobs ? options->n_jobs : CLUSTER_JOBS;
	uint64_t heap_size = max(align_up(options->heap_size, 4096), CLUSTER_HEAP);
	int r;

	(void)snprintf(error, PLUGIN_ERROR, "%.200s: out of memory", name);
	if (!cluster)
		return -ENOMEM;
	cluster->wake_fd = -1;
	pthread_mutex_init(&cluster->texts_lock, NULL);
	pthread_mutex_init(&cluster->tasks_lock, NULL);
	if (n_jobs > LIMIT_JOBS || options->heap_size > LIMIT_HEAP) {
		(void)snprintf(error, PLUGIN_ERROR,
			       "a client has at most %u jobs and %llu bytes of heap", LIMIT_JOBS,
			       (unsigned long long)LIMIT_HEAP);
		return -E2BIG;
	}
	if (strlen(name) >= sizeof(cluster->name)) {
		(void)snprintf(error, PLUGIN_ERROR, "the name of the cluster is too long");
		return -ENAMETOOLONG;
	}
	strcpy(cluster->name, name);
	r = cluster_init(cluster, n_jobs, heap_size);
	if (r == 0)
		r = cluster_add_servers(cluster, error);
	/* Shows that a job server is there. Tasks are looked up when they are needed. */
	if (r == 0)
		r = tasks_find(cluster, "", error, PLUGIN_ERROR);
	if (r == 0) {
		(void)snprintf(error, PLUGIN_ERROR, "%.200s: cannot start a thread", name);
		r = cluster_start(cluster);
	}
	if (r < 0)
		return r;
	*ret_place = (struct client_place){
		.local = &cluster->local,
		.board = cluster->board,
		.board_size = cluster->board_size,
		.tenant = cluster->tenant,
		.tenant_size = cluster->tenant_size,
		.segment = cluster->segment,
		.segment_size = cluster->segment_size,
	};
	(void)steal_ptr(cluster);
	return 0;
}

__attribute__((visibility("default"))) extern const struct client_plugin fk_client_plugin;
const struct client_plugin fk_client_plugin = {
	.version = PLUGIN_VERSION,
	.layout_hash = LAYOUT_HASH,
	.package = PACKAGE_VERSION,
	.open = cluster_open,
};
