/* SPDX-License-Identifier: MIT */
/*
 * common/valgrind.h - requests to valgrind
 *
 * valgrind runs the program in its own process. It lacks some system calls, the kernel executes
 * valgrind again as /proc/self/exe, and it makes calls that sandbox.c denies to tasks. memcheck
 * must know each stack: it takes a switch to an unknown one for a large frame.
 *
 * A request is a sequence of instructions that does nothing outside of valgrind (valgrind manual,
 * 3.1). It is written here, because packages are built where valgrind's headers are missing. On
 * other machines than these two valgrind is not found.
 *
 * Threads: any, also signal handlers.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum valgrind_code {
	VALGRIND_RUNNING = 0x1001,
	VALGRIND_STACK_ADD = 0x1501,	    /* low, last byte; returns an id */
	VALGRIND_STACK_REMOVE = 0x1502,	    /* id */
	VALGRIND_MEM_UNDEFINED = 0x4d430001 /* memory, size */
};

/* Returns valgrind's answer; 0 without valgrind. */
static inline uintptr_t valgrind_request(enum valgrind_code code, uintptr_t a, uintptr_t b)
{
	const uintptr_t request[6] = { code, a, b };
#if defined(__x86_64__)
	uintptr_t answer = 0;

	__asm__ volatile("rolq $3, %%rdi\n\trolq $13, %%rdi\n\t"
			 "rolq $61, %%rdi\n\trolq $51, %%rdi\n\t"
			 "xchgq %%rbx, %%rbx"
			 : "+d"(answer)
			 : "a"(request)
			 : "cc", "memory");
#elif defined(__aarch64__)
	register uintptr_t answer __asm__("x3") = 0;
	register const uintptr_t *at __asm__("x4") = request;

	__asm__ volatile("ror x12, x12, #3\n\tror x12, x12, #13\n\t"
			 "ror x12, x12, #51\n\tror x12, x12, #61\n\t"
			 "orr x10, x10, x10"
			 : "+r"(answer)
			 : "r"(at)
			 : "cc", "memory");
#else
	uintptr_t answer = 0;

	(void)request;
#endif
	return answer;
}

static inline bool on_valgrind(void)
{
	return valgrind_request(VALGRIND_RUNNING, 0, 0);
}
