/* SPDX-License-Identifier: MIT */
#include "daemon/jobs/import.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>

#include "common/log.h"
#include "common/relaxed.h"
#include "daemon/core/clients.h"
#include "daemon/core/mapping.h"
#include "daemon/core/pool_state.h"
#include "shm/limits.h"

/* Maps zeros that cost no memory. at: NULL for any place. Returns the address, or MAP_FAILED. */
static void *import_zeros(void *at, uint64_t size)
{
	return mmap(at, size, PROT_READ,
		    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | (at ? MAP_FIXED : 0), -1, 0);
}

static bool import_is_valid(const struct pool *pool, const struct proto_pool *m)
{
	return m->client < pool->clients_max && m->size && m->size <= LIMIT_IMPORT &&
	       m->at <= LIMIT_IMPORT - m->size;
}

/* Maps the file over zeros, which are back after an error. */
static int import_place(char *at, const struct proto_pool *m, int fd)
{
	int r;

	if (mmap(at, m->size, PROT_READ, MAP_PRIVATE | MAP_FIXED, fd, (off_t)m->offset) ==
	    MAP_FAILED)
		r = -errno;
	else
		r = layout_withhold(at, m->size, true);
	if (r < 0)
		(void)import_zeros(at, m->size);
	/* Otherwise the kernel may make a large page of these in forkd's control group. */
	else
		(void)madvise(at, m->size, MADV_NOHUGEPAGE);
	return r;
}

int imports_map(struct pool *pool, const struct proto_pool *m, int fd)
{
	struct client_entry *client;
	char *base;
	int r;

	if (!import_is_valid(pool, m))
		return -EINVAL;
	if (fd < 0)
		return -EMFILE;
	client = &pool->clients.entries[m->client];
	/* Relaxed: only this thread sets it. */
	base = load_relaxed(&client->imports);
	if (!base)
		base = import_zeros(NULL, LIMIT_IMPORT);
	if (base == MAP_FAILED)
		return -ENOMEM;
	r = import_place(base + m->at, m, fd);
	/* ORDER client/imports [K3]: release, all of it is mapped. Pairs with input_import(). */
	atomic_store_explicit(&client->imports, base, memory_order_release);
	return r;
}

void imports_unmap(struct pool *pool, const struct proto_pool *m)
{
	char *base = import_is_valid(pool, m)
			   ? load_relaxed(&pool->clients.entries[m->client].imports)
			   : NULL;

	/* After an error the pages stay, until the client is released: they are its own. */
	if (base && import_zeros(base + m->at, m->size) == MAP_FAILED)
		log_warning("an import of client %u stays mapped: %s", m->client, strerror(errno));
}

void imports_release(struct client_entry *client)
{
	char *base = load_relaxed(&client->imports);

	/* Relaxed: no job of the client is left. */
	store_relaxed(&client->imports, NULL);
	if (base)
		(void)munmap(base, LIMIT_IMPORT);
}
