/* SPDX-License-Identifier: MIT */
/*
 * refuse.h - refuses system calls to a thread, as an older kernel or a container does
 *
 * Filters of seccomp(2), for the calling thread and all that it starts. tests/support/inject.h
 * makes single calls fail.
 */
#pragma once

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

/* Installs a filter. Returns false if the kernel refuses it. */
static inline bool refuse_by(struct sock_filter *filter, uint16_t length)
{
	struct sock_fprog program = { .len = length, .filter = filter };

	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
	       prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

/* From now on this call fails with err, a positive errno. Returns as refuse_by(). */
static inline bool refuse_call(long nr, int err)
{
	struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)nr, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (uint32_t)err),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};

	return refuse_by(filter, sizeof(filter) / sizeof(filter[0]));
}

/* The same if the lower half of argument i passes a test against value: BPF_JEQ, or BPF_JSET for
 * any common bit. */
static inline bool refuse_call_if(long nr, uint32_t i, uint16_t test, uint32_t value, int err)
{
	struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)nr, 0, 3),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
			 (uint32_t)(offsetof(struct seccomp_data, args) + i * sizeof(uint64_t))),
		BPF_JUMP(BPF_JMP | test | BPF_K, value, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (uint32_t)err),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};

	return refuse_by(filter, sizeof(filter) / sizeof(filter[0]));
}
