/* SPDX-License-Identifier: MIT */
/*
 * import.c - ranges of the caller's files that tasks can read
 *
 * The client has LIMIT_IMPORT bytes of address space for its imports from the first one on, and so
 * has the pool. An import is at the same place in both. So an address is converted to the offset of
 * a reference by a subtraction (heap_offset()). A request uses a second connection, because the
 * connection of the client accepts no descriptors (shm/proto.h, PROTO_IMPORT).
 *
 * INVARIANTS
 *   I1. Two imports of a client do not overlap, and a place is free again only when forkd has the
 *       request to unmap its import: the pool unmaps that before it maps the next one there.
 *   I2. forkd gets a new open file description, if possible: it moves the position of that one.
 */
#include "client/lib/client.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client/lib/connect.h"
#include "common/cleanup.h"
#include "common/relaxed.h"
#include "common/util.h"
#include "shm/limits.h"
#include "shm/proto.h"

#define IMPORT_PAGE  4096u
#define IMPORT_TRIES 3u /* if a forkd ends before its answer */

/* Makes a part of the address space inaccessible. at: NULL for all of it, at any place. A pool in
 * this process reads zeros there, as the pool of forkd does: a task may still run. */
static void *import_reserve(const fk_client *client, void *at, uint64_t size)
{
	return mmap(at, size, client->waker.local ? PROT_READ : PROT_NONE,
		    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | (at ? MAP_FIXED : 0), -1, 0);
}

/* Returns the address space of all imports; NULL: no memory. */
static char *import_base(fk_client *client)
{
	char *base = load_relaxed(&client->heap.imports);

	if (base)
		return base;
	base = import_reserve(client, NULL, LIMIT_IMPORT);
	if (base == MAP_FAILED)
		return NULL;
	store_relaxed(&client->heap.imports, base);
	if (client->waker.local)
		client->waker.local->import(&client->waker, base);
	return base;
}

/* True if an import overlaps size bytes at a place; sets *ret_end to its end. */
static int import_overlaps(const fk_client *client, uint64_t at, uint64_t size, uint64_t *ret_end)
{
	for (uint32_t i = 0; i < LIMIT_IMPORTS; i++) {
		const struct client_import *import = &client->imports[i];

		*ret_end = import->at + import->size;
		if (import->size && at < *ret_end && import->at < at + size)
			return 1;
	}
	return 0;
}

/* Finds a place for size bytes (whole pages). Returns an import to be filled, or NULL. */
static struct client_import *import_place(fk_client *client, uint64_t size)
{
	uint64_t at = 0, end;

	while (import_overlaps(client, at, size, &end))
		at = end;
	for (uint32_t i = 0; i < LIMIT_IMPORTS && size <= LIMIT_IMPORT - at; i++)
		if (!client->imports[i].size) {
			client->imports[i] = (struct client_import){ .at = at };
			return &client->imports[i];
		}
	return NULL;
}

/* Sends one message on a second connection, and expects this answer. */
static int import_ask(fk_client *client, int fd, const void *message, size_t size, int pass,
		      uint32_t type)
{
	union proto_message answer;
	int fds[PROTO_MAX_FDS];
	uint32_t n_fds;
	int r = connect_pass(fd, client->path, message, size, pass, &answer, fds, &n_fds);

	while (n_fds)
		(void)close(fds[--n_fds]);
	if (r < 0)
		return r;
	return answer.head.type == type ? 0 : connect_not_understood(client->path);
}

static int import_request_once(fk_client *client, const struct proto_import *request, int pass)
{
	const struct proto_head file = { PROTO_MAGIC, PROTO_IMPORT_FILE };
	_cleanup_close_ int fd = -1;
	int err = connect_socket(client->path, &fd);

	if (err)
		return err;
	if (pass < 0)
		return import_ask(client, fd, request, sizeof(*request), -1, PROTO_TOLD);
	err = import_ask(client, fd, request, sizeof(*request), -1, PROTO_IMPORT_READY);
	return err ? err : import_ask(client, fd, &file, sizeof(file), pass, PROTO_TOLD);
}

/* Beyond the end of its file, an import would be a fault of the task that reads it. */
static int import_check_local(const struct client_import *import, uint64_t offset, int file)
{
	struct stat st;

	if (file < 0)
		return 0;
	if (fstat(file, &st) < 0)
		return error_say(-errno, "import: %s", strerrordesc_np(errno));
	if (!S_ISREG(st.st_mode))
		return error_say(-ENOTSUP, "import: not a file");
	if (offset > (uint64_t)st.st_size || import->size > (uint64_t)st.st_size - offset)
		return error_say(-EINVAL,
				 "import: offset and size are beyond the end of the file, which "
				 "has %jd bytes",
				 (intmax_t)st.st_size);
	return 0;
}

/* pass: the file of an import, -1 for its end. */
static int import_request(fk_client *client, uint32_t type, const struct client_import *import,
			  uint64_t offset, int pass)
{
	const struct proto_import request = {
		.head = { PROTO_MAGIC, type },
		.client = client->id,
		.client_generation = client->generation,
		.at = import->at,
		.offset = offset,
		.size = import->size,
	};
	int err = -ECONNRESET;

	/* A pool in this process has the same address space. */
	if (client->waker.local)
		return import_check_local(import, offset, pass);
	for (uint32_t tries = 0; tries < IMPORT_TRIES && err == -ECONNRESET; tries++)
		err = import_request_once(client, &request, pass);
	return err;
}

/* I2. Returns a descriptor, or a negative errno. */
static int import_reopen(int fd)
{
	char path[sizeof("/proc/self/fd/2147483647")];
	int again;

	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	again = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (again < 0)
		again = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	return again < 0 ? -errno : again;
}

/* With import_lock held. */
static int import_make(fk_client *client, int fd, uint64_t offset, uint64_t size, char *base,
		       void **ret_data)
{
	uint64_t pages = align_up(size, IMPORT_PAGE);
	struct client_import *import = import_place(client, pages);
	int err;

	if (!import)
		return error_say(-ENOSPC,
				 "no room for an import of %" PRIu64
				 " bytes: a connection can have "
				 "%u, of %" PRIu64 " bytes together: free some, or use another "
				 "connection",
				 size, LIMIT_IMPORTS, LIMIT_IMPORT);
	import->size = size;
	err = import_request(client, PROTO_IMPORT, import, offset, fd);
	/* Private: a shared mapping of a file sealed by F_SEAL_WRITE needs Linux 6.7. */
	if (!err && mmap(base + import->at, pages, PROT_READ, MAP_PRIVATE | MAP_FIXED, fd,
			 (off_t)offset) == MAP_FAILED) {
		err = -errno;
		(void)import_reserve(client, base + import->at, pages);
		(void)import_request(client, PROTO_UNIMPORT, import, 0, -1);
		(void)error_say(err, "cannot map the import: %s", strerrordesc_np(-err));
	}
	import->size = err ? 0 : pages;
	if (!err)
		*ret_data = base + import->at;
	return err;
}

int fk_import(fk_client *client, int fd, size_t offset, size_t size, void **ret_data)
{
	_cleanup_close_ int file = -1;
	int err = client_check(client);
	char *base;

	if (err)
		return err;
	if (!size || size > LIMIT_IMPORT || offset % IMPORT_PAGE ||
	    offset > INT64_MAX - LIMIT_IMPORT)
		return error_say(-EINVAL,
				 "import: size must be 1 to %" PRIu64 ", offset a multiple of %u",
				 LIMIT_IMPORT, IMPORT_PAGE);
	file = import_reopen(fd);
	if (file < 0)
		return error_say(file, "import: %s", strerrordesc_np(-file));
	pthread_mutex_lock(&client->import_lock);
	base = import_base(client);
	err = base ? import_make(client, file, offset, size, base, ret_data)
		   : error_say(-ENOMEM, "import: no address space");
	pthread_mutex_unlock(&client->import_lock);
	return err;
}

/* With import_lock held. */
static int import_free_locked(fk_client *client, uint64_t at)
{
	char *base = load_relaxed(&client->heap.imports);
	struct client_import *import = NULL;
	int err;

	for (uint32_t i = 0; base && i < LIMIT_IMPORTS; i++)
		if (client->imports[i].size && client->imports[i].at == at)
			import = &client->imports[i];
	if (!import)
		return -FK_E_NOT_ALLOCATED;
	/* A daemon that is gone has no imports. */
	err = client_gone(client) ? 0 : import_request(client, PROTO_UNIMPORT, import, 0, -1);
	if (err)
		return err;
	(void)import_reserve(client, base + import->at, import->size);
	import->size = 0;
	return 0;
}

int import_free(struct fk_client *client, void *data)
{
	uint64_t at = (uint64_t)((char *)data - load_relaxed(&client->heap.imports));
	int err;

	pthread_mutex_lock(&client->import_lock);
	err = import_free_locked(client, at);
	pthread_mutex_unlock(&client->import_lock);
	return err;
}

void import_fini(struct fk_client *client)
{
	char *base = load_relaxed(&client->heap.imports);

	if (base && !client->waker.local)
		(void)munmap(base, LIMIT_IMPORT);
}
