/* SPDX-License-Identifier: MIT */
/*
 * import.h - maps ranges of clients' files into the pool, read-only
 *
 * Threads: the channel's thread. imports_release(): also the dispatcher, when the last job of the
 * client has ended.
 *
 * INVARIANTS
 *   I1. The address space of a client's imports is mapped and readable from its first import until
 *       the client is released. Each byte of it is zero, or of an import. A mapping replaces
 *       another in one step (MAP_FIXED). So a reference is valid if it is within the address space.
 *       A job that uses an import that its client takes back reads zeros.
 *   I2. No page is made through such a mapping: it is private and not writable, and the manager
 *       passes only files that have all their pages and keep them (daemon/manager/import_check.h).
 *   I3. A new pool gets the imports of a client before the client (connection.c), so no job starts
 *       without them.
 *   I4. No message about imports of a client follows its PROTO_POOL_GONE: the pool may have given
 *       its slot to another client by then.
 */
#pragma once

#include "shm/proto.h"

struct pool;
struct client_entry;

/* Maps an import. fd: borrowed; -1: this process has no descriptor left for it. Returns 0 or a
 * negative errno. */
int imports_map(struct pool *pool, const struct proto_pool *m, int fd);

/* Replaces it with zeros. */
void imports_unmap(struct pool *pool, const struct proto_pool *m);

/* Unmaps all imports of a client. */
void imports_release(struct client_entry *client);
