/* SPDX-License-Identifier: MIT */
/* attach.h - maps segments of tenants and clients, shows them to workers, and releases them */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct pool;
struct client_entry;
struct tenant_segment;

/* Where a segment is: in a file (borrowed), or at base in memory of this process, which the pool
 * takes. */
struct attach_source {
	int fd; /* if base is NULL; -1: no descriptor was available for it */
	void *base;
	uint64_t size; /* bytes at base */
};
#define ATTACH_FILE(fd_) ((struct attach_source){ .fd = (fd_) })

/* clients_init(): before any other call; returns 0 or -ENOMEM. clients_fini(): unmaps everything,
 * after all threads have ended. */
int clients_init(struct pool *pool);
void clients_fini(struct pool *pool);

/* Maps a tenant's segment, so that the caller can repair its rings; workers see it
 * after clients_show_tenant(). Returns 0 or a negative errno. */
int clients_map_tenant(struct pool *pool, uint32_t tenant, struct attach_source source,
		       struct tenant_segment **ret_segment);
void clients_show_tenant(struct pool *pool, uint32_t tenant, struct tenant_segment *segment);

/* The same for a client. */
int clients_map_client(struct pool *pool, uint32_t client, uint32_t generation, uint32_t tenant,
		       uint32_t n_jobs, struct attach_source source);
void clients_show_client(struct pool *pool, uint32_t client);

/* Undoes clients_map_client() for a client that was not shown. */
void clients_unmap_client(struct pool *pool, uint32_t client);

/* A live client's tenant could not be mapped: records the error (I4). */
void clients_orphan(struct pool *pool, uint32_t client, int error);

/* Reports a stranded live client to the manager, if it has no job left. The dispatcher. */
void clients_tell_orphans(struct pool *pool, struct client_entry *client);

/* The client's connection has ended. The client is released when its last job has ended. */
void clients_gone(struct pool *pool, uint32_t client, uint32_t generation);

/* True if the client is dying, nothing refers to it, and no ring can still hold one of its words.
 * The dispatcher. */
bool clients_is_over(struct pool *pool, struct client_entry *client);

/* Unmaps such a client, and notifies the manager. */
void clients_release(struct pool *pool, struct client_entry *client);
