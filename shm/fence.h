/* SPDX-License-Identifier: MIT */
/*
 * shm/fence.h - all standalone fences and spin hints
 *
 * ThreadSanitizer does not model standalone fences. Under it each is a read-modify-write of one
 * shared word, which orders at least as much. tests/model/explore.c models fences, and only looks
 * like ThreadSanitizer to the compiler.
 */
#pragma once

#include <stdatomic.h>
#include <stdint.h>

#ifndef MODEL_EXPLORE
#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define FENCE_TSAN 1
#endif
#endif
#if defined(__SANITIZE_THREAD__)
#define FENCE_TSAN 1
#endif
#endif

/* Orders everything before it against everything after it, stores against later loads included. */
static inline void fence_full(void)
{
#ifdef FENCE_TSAN
	static _Atomic uint32_t word;

	atomic_fetch_add_explicit(&word, 1, memory_order_seq_cst);
#else
	atomic_thread_fence(memory_order_seq_cst);
#endif
}

/* Orders loads and stores before it against stores after it; and loads before it against loads and
 * stores after it. No instruction on x86-64. */
static inline void fence_release(void)
{
#ifdef FENCE_TSAN
	fence_full();
#else
	atomic_thread_fence(memory_order_release);
#endif
}

static inline void fence_acquire(void)
{
#ifdef FENCE_TSAN
	fence_full();
#else
	atomic_thread_fence(memory_order_acquire);
#endif
}

/* Orders this thread against signal handlers on it; costs no instruction. */
static inline void fence_signal(void)
{
	atomic_signal_fence(memory_order_seq_cst);
}

/* Hints to the CPU that this is a spin loop. */
static inline void fence_pause(void)
{
#if defined(MODEL_ONCE)
	/* A model checker takes no instructions of a CPU. */
#elif defined(__x86_64__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ volatile("isb");
#endif
}
