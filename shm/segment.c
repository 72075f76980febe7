/* SPDX-License-Identifier: MIT */
/*
 * shm/segment.c - creating, sealing, checking and mapping the shared segments
 *
 * Threads: the manager calls segment_create(), segment_allocate(), segment_clear() and
 * segment_reopen_readonly(). The rest: all processes, any thread. No state.
 *
 * INVARIANTS
 *   I1. segment_create() returns a sealed descriptor, so its size always equals that in the head.
 *   I2. segment_map() reads the head through the descriptor before it maps anything. So a file that
 *       is not a whole segment is never read through memory, where a missing page raises SIGBUS.
 *   I3. segment_map() trusts nothing beyond the head. Clients can write the head of their own
 *       segments as well, so the daemon keeps private copies of the values that it needs.
 */
#include "shm/segment.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "shm/layout.h"

/* Newer than the headers of Debian 12; a kernel before 6.3 answers EINVAL. */
#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008U
#endif

#define SEGMENT_SEALS (F_SEAL_SHRINK | F_SEAL_GROW)

int segment_memfd(const char *name)
{
	int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_NOEXEC_SEAL);

	if (fd < 0 && errno == EINVAL)
		fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
	return fd < 0 ? -errno : fd;
}

static int segment_fallocate(int fd, int mode, uint64_t offset, uint64_t size)
{
	int r;

	do {
		r = fallocate(fd, mode, (off_t)offset, (off_t)size);
	} while (r < 0 && errno == EINTR);
	return r < 0 ? -errno : 0;
}

int segment_allocate(int fd, uint64_t offset, uint64_t size)
{
	return segment_fallocate(fd, 0, offset, size);
}

int segment_clear(int fd, uint64_t offset, uint64_t size)
{
	return segment_fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, offset, size);
}

struct segment segment_head(uint32_t kind, uint64_t size, uint64_t epoch)
{
	return (struct segment){
		.magic = SEGMENT_MAGIC,
		.kind = kind,
		.version = PROTO_VERSION,
		.layout_hash = LAYOUT_HASH,
		.size = size,
		.epoch = epoch,
	};
}

int segment_create(const char *name, uint32_t kind, uint64_t size, uint64_t epoch, int preallocate,
		   uint32_t mode)
{
	struct segment head = segment_head(kind, size, epoch);
	_cleanup_close_ int fd = -1;
	ssize_t n;
	int r;

	if (size < sizeof(head) || size > INT64_MAX)
		return -EINVAL;
	fd = segment_memfd(name);
	if (fd < 0)
		return fd;
	if (ftruncate(fd, (off_t)size) < 0)
		return -errno;
	if (preallocate) {
		r = segment_allocate(fd, 0, size);
		if (r < 0)
			return r;
	}
	n = pwrite(fd, &head, sizeof(head), 0);
	if (n != (ssize_t)sizeof(head))
		return n < 0 ? -errno : -ENOSPC;
	if (fchmod(fd, mode) < 0)
		return -errno;
	if (fcntl(fd, F_ADD_SEALS, SEGMENT_SEALS | F_SEAL_SEAL) < 0)
		return -errno;
	return steal_fd(&fd);
}

int segment_reopen_readonly(int fd)
{
	char path[sizeof("/proc/self/fd/") + 3 * sizeof(int)];
	int readonly;

	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	readonly = open(path, O_RDONLY | O_CLOEXEC);
	return readonly < 0 ? -errno : readonly;
}

static int segment_check(int fd, uint32_t kind, uint64_t epoch, uint64_t *ret_size)
{
	struct segment head;
	struct stat st;
	int seals;

	if (fstat(fd, &st) < 0)
		return -errno;
	seals = fcntl(fd, F_GET_SEALS);
	if (!S_ISREG(st.st_mode) || seals < 0 || (seals & SEGMENT_SEALS) != SEGMENT_SEALS)
		return -EBADMSG;
	if (kind == SEGMENT_ANY) {
		*ret_size = (uint64_t)st.st_size;
		return 0;
	}
	if (pread(fd, &head, sizeof(head), 0) != (ssize_t)sizeof(head))
		return -EBADMSG;
	if (head.magic != SEGMENT_MAGIC || head.kind != kind)
		return -EBADMSG;
	if (head.version != PROTO_VERSION || head.layout_hash != LAYOUT_HASH)
		return -EPROTO;
	if (head.size != (uint64_t)st.st_size)
		return -EBADMSG;
	if (epoch && head.epoch != epoch)
		return -ESTALE;
	*ret_size = head.size;
	return 0;
}

int segment_map(int fd, uint32_t kind, int access, uint64_t epoch, void **ret_base,
		uint64_t *ret_size)
{
	uint64_t size = 0;
	void *base;
	int r;

	r = segment_check(fd, kind, epoch, &size);
	if (r < 0)
		return r;
	base = mmap(NULL, size, access == SEGMENT_READ ? PROT_READ : PROT_READ | PROT_WRITE,
		    MAP_SHARED, fd, 0);
	if (base == MAP_FAILED)
		return -errno;
	*ret_base = base;
	if (ret_size)
		*ret_size = size;
	return 0;
}

int segment_map_sized(int fd, uint64_t size, void **ret_base)
{
	uint64_t found;
	void *base;
	int r;

	r = segment_map(fd, SEGMENT_ANY, 1, 0, &base, &found);
	if (r < 0)
		return r;
	if (found != size) {
		segment_unmap(base, found);
		return -EBADMSG;
	}
	*ret_base = base;
	return 0;
}

void *segment_private(uint32_t kind, uint64_t size)
{
	void *base = mmap(NULL, size, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (base == MAP_FAILED)
		return NULL;
	/* So a first touch takes one small page. EINVAL: the kernel has no huge pages. */
	(void)madvise(base, size, MADV_NOHUGEPAGE);
	*(struct segment *)base = segment_head(kind, size, 1);
	return base;
}

void segment_unmap(void *base, uint64_t size)
{
	if (base)
		(void)munmap(base, size);
}
