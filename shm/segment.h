/* SPDX-License-Identifier: MIT */
/*
 * shm/segment.h - the head of every shared segment, and how a segment is mapped
 *
 * WRITERS AND READERS
 *   The daemon's manager creates every segment and writes its head once, before another process has
 *   the descriptor. All that map it check the head first.
 *
 * INVARIANTS
 *   I1. A segment's size never changes (F_SEAL_SHRINK, F_SEAL_GROW, F_SEAL_SEAL).
 *   I2. Nothing in a segment is a pointer, an enum, a bool or a pthread object.
 *   I3. size is checked against the file's own size before anything beyond the head is touched.
 */
#pragma once

#include <stdint.h>

#define SEGMENT_MAGIC 0x3130646b726f66ull /* "forkd01" */

/* What a segment holds. */
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

/* An empty file in memory, which cannot be executed where the kernel knows that. Returns its
 * descriptor, or a negative errno. */
int segment_memfd(const char *name);

/*
 * Takes memory for a part of a segment that was created without; and gives a part's back, whose
 * bytes are 0 from then on. For few pages: it waits. Returns 0, or a negative errno (ENOSPC,
 * ENOMEM).
 */
int segment_allocate(int fd, uint64_t offset, uint64_t size);
int segment_clear(int fd, uint64_t offset, uint64_t size);

/* The head of a segment of this build. */
struct segment segment_head(uint32_t kind, uint64_t size, uint64_t epoch);

/* An empty memfd that can be sealed, no segment. name: for /proc. It, or a negative errno. */
int segment_memfd(const char *name);

/*
 * Creates a sealed memfd of size bytes with its head filled in.
 * name: for /proc. kind: SEGMENT_*. preallocate: allocate all pages now, which is for sizes that no
 * client chooses (daemon/manager/page_populate.c for the others).
 * mode: the file's mode, 0600 or 0400; what a descriptor opened through /proc may do.
 * Returns the descriptor, or a negative errno (ENOMEM, ENOSPC, EMFILE, EINVAL).
 */
int segment_create(const char *name, uint32_t kind, uint64_t size, uint64_t epoch, int preallocate,
		   uint32_t mode);

/*
 * Opens the same segment again, read-only, for handing it to clients.
 * Returns a descriptor or a negative errno.
 */
int segment_reopen_readonly(int fd);

/*
 * Maps a segment after checking its head.
 * fd: borrowed. kind: what it must be. writable: map it for writing too. epoch: what it must carry,
 * 0 for any. Sets *ret_size to its size in bytes if not NULL.
 * Returns 0, or a negative errno: EBADMSG not a forkd segment or another kind, EPROTO another
 * layout or version, ESTALE another epoch, ENOMEM, EACCES.
 */
int segment_map(int fd, uint32_t kind, int writable, uint64_t epoch, void **ret_base,
		uint64_t *ret_size);

/*
 * Maps a segment of whose size this process is sure, whatever its head says, which others may have
 * written over. Returns 0, or a negative errno: EBADMSG it has another size, or no seals; ENOMEM.
 */
int segment_map_sized(int fd, uint64_t size, void **ret_base);

/* Unmaps what was mapped. NULL is fine. */
void segment_unmap(void *base, uint64_t size);
