/* SPDX-License-Identifier: MIT */
/*
 * import_check.h - a process that receives a client's descriptor and checks its file
 *
 * The manager never has a descriptor that a client has chosen (connection_internal.h, I7). Its
 * close() may wait for a server of the client, for example for the answer to FUSE_FLUSH, and no
 * signal ends that wait. So a child of the manager receives it. The child passes it to the manager
 * only if the file is a memfd that cannot change any more.
 *
 * INVARIANTS
 *   I1. A file that the manager gets is a memfd of ordinary pages (tmpfs). Its seals fix its size,
 *       and exclude further writes and holes. Mappings that its client had before
 *       F_SEAL_FUTURE_WRITE still write. All pages of the range are present. So whatever the
 *       client does, no access ends with SIGBUS. No access allocates a page, which forkd would have
 *       to count, unless the page was swapped out. No call on the file waits for another process,
 *       and close() frees at most LIMIT_IMPORT bytes.
 *   I2. A process serves one request, and a uid has one process at a time. A process that cannot be
 *       killed delays only requests of its uid.
 *   I3. A process has no descriptors except the client's connection, its socket to the manager, and
 *       those of standard input, output and error. It is killed with the manager.
 *
 *   Proof of I1: F_GET_SEALS succeeds for memfds and files in tmpfs and hugetlbfs only, and calls
 *   no code of the file's owner. Seals are never removed. F_SEAL_WRITE and F_SEAL_FUTURE_WRITE make
 *   fallocate(FALLOC_FL_PUNCH_HOLE) and MADV_REMOVE fail, and F_SEAL_SHRINK makes ftruncate() fail.
 *   A page that was allocated or read, but never written, is clean: the kernel can take it
 *   back. So the child maps the range after the seals are known, and counts its dirty pages in
 *   /proc/self/smaps. A page stays dirty. The next access to one that was swapped out
 *   allocates a page, for the control group that made it. If that is gone, forkd's pays.
 *
 * If the process dies, the request fails. If the manager dies, the kernel kills the process.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/list.h"
#include "daemon/manager/loop.h"
#include "shm/proto.h"

struct import_process;

/* All processes. Zeroed, with loop and ended set. */
struct import_processes {
	struct loop *loop;
	/* a process of this uid has ended: the next one can start */
	void (*ended)(struct import_processes *all, uint32_t uid);
	struct list_link list;
};

/* A request; part of its owner. Zeroed, with call set. */
struct import_check {
	/* fd: the checked file, which the callee owns, or -1; then error says why */
	void (*call)(struct import_check *check, int fd, const struct proto_error *error);
	struct import_process *process; /* NULL: none */
};

/* Compares a file with I1. fd: any descriptor; the calling thread may wait for its owner. Returns
 * 0, or a negative errno with a line about it. */
int import_check_file(int fd, uint64_t offset, uint64_t size, struct proto_error *ret_error);

/* True if a process of this uid exists. */
bool import_check_is_busy(const struct import_processes *all, uint32_t uid);

/*
 * Starts a process that receives PROTO_IMPORT_FILE from a client's connection (fd, borrowed), from
 * which the manager receives nothing any more. Returns 0: check->call() follows from the loop; or a
 * negative errno.
 */
int import_check_start(struct import_processes *all, struct import_check *check, uint32_t uid,
		       int fd, uint64_t offset, uint64_t size);

/* Kills the process; check->call() will not be called. */
void import_check_forget(struct import_check *check);

void import_check_fini(struct import_processes *all);
