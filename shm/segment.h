/* SPDX-License-Identifier: MIT */
/*
 * shm/segment.h - the head of every shared segment, and how a segment is mapped
 *
 * WRITERS AND READERS
 *   The manager creates every segment and writes its head once, before another process has the
 *   descriptor. Every process that maps a segment checks its head first.
 *
 * INVARIANTS
 *   I1. A segment's size never changes (F_SEAL_SHRINK, F_SEAL_GROW, F_SEAL_SEAL).
 *   I2. Nothing in a segment is a pointer, an enum, a bool or a pthread object.
 *   I3. size is checked against the file's own size before anything beyond the head is touched.
 */
#pragma once

#include <stdint.h>

#define SEGMENT_MAGIC 0x3130646b726f66ull /* "forkd01" */

/* Kinds of segments. */
#define SEGMENT_BOARD	    1u
#define SEGMENT_TENANT	    2u
#define SEGMENT_CLIENT	    3u
#define SEGMENT_ARENA	    4u
#define SEGMENT_SAVED_STATE 5u
#define SEGMENT_TRACE	    6u
#define SEGMENT_ANY	    0u /* segment_map(): its sender is trusted, its head is not looked at */

struct segment {
	uint64_t magic;
	uint32_t kind;	      /* SEGMENT_* */
	uint32_t version;     /* PROTO_VERSION of the daemon */
	uint64_t layout_hash; /* LAYOUT_HASH of the daemon */
	uint64_t size;	      /* bytes, of the whole segment */
	uint64_t epoch;	      /* of the daemon: a number drawn when it started */
	uint8_t reserved[24];
};

_Static_assert(sizeof(struct segment) == 64, "a segment's head is one cache line");

/* Creates an empty file in memory, not executable if the kernel supports that. Returns its
 * descriptor, or a negative errno. */
int segment_memfd(const char *name);

/* Allocates memory for a part of a segment that was created without it; frees that of a part, whose
 * bytes are 0 from then on. For few pages, because it blocks. Returns 0 or a negative errno
 * (ENOSPC, ENOMEM). */
int segment_allocate(int fd, uint64_t offset, uint64_t size);
int segment_clear(int fd, uint64_t offset, uint64_t size);

/* Returns the head of a segment of this build. */
struct segment segment_head(uint32_t kind, uint64_t size, uint64_t epoch);

/* Creates an empty memfd that can be sealed. name: for /proc. Returns it, or a negative errno. */
int segment_memfd(const char *name);

/*
 * Creates a sealed memfd of size bytes with its head filled in.
 * name: for /proc. kind: SEGMENT_*. preallocate: allocate all pages now, for sizes that no client
 * chooses (daemon/manager/page_populate.c has the others). mode: 0600 or 0400, which limits a
 * descriptor opened through /proc.
 * Returns the descriptor, or a negative errno (ENOMEM, ENOSPC, EMFILE, EINVAL).
 */
int segment_create(const char *name, uint32_t kind, uint64_t size, uint64_t epoch, int preallocate,
		   uint32_t mode);

/*
 * Opens the same segment again, read-only, for handing it to clients.
 * Returns a descriptor or a negative errno.
 */
int segment_reopen_readonly(int fd);

/* How a segment is mapped. */
#define SEGMENT_READ  0
#define SEGMENT_WRITE 1

/*
 * Maps a segment after checking its head.
 * fd: borrowed. kind: what it must be. access: SEGMENT_READ, ... epoch: what it must carry, 0
 * for any. Sets *ret_size to its size in bytes if not NULL.
 * Returns 0, or a negative errno: EBADMSG not a forkd segment or another kind, EPROTO another
 * layout or version, ESTALE another epoch, ENOMEM, EACCES.
 */
int segment_map(int fd, uint32_t kind, int access, uint64_t epoch, void **ret_base,
		uint64_t *ret_size);

/* Maps a segment of a known size, whose head other processes may have overwritten. Returns 0, or a
 * negative errno: EBADMSG it has another size, or no seals; ENOMEM. */
int segment_map_sized(int fd, uint64_t size, void **ret_base);

/* Maps zeroed memory of this process alone with the head of a segment. Its pages are allocated when
 * they are touched. Returns NULL if there is no address space. */
void *segment_private(uint32_t kind, uint64_t size);

/* Unmaps a segment. NULL has no effect. */
void segment_unmap(void *base, uint64_t size);
