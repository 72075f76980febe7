/* SPDX-License-Identifier: MIT */
/*
 * relaxed.h - relaxed atomic operations, so that ordered ones are easy to see
 *
 * Compiles with C11 alone.
 */
#pragma once

#include <stdatomic.h>

#define load_relaxed(p)	    atomic_load_explicit(p, memory_order_relaxed)
#define store_relaxed(p, x) atomic_store_explicit(p, x, memory_order_relaxed)
#define add_relaxed(p, x)   atomic_fetch_add_explicit(p, x, memory_order_relaxed)
#define sub_relaxed(p, x)   atomic_fetch_sub_explicit(p, x, memory_order_relaxed)
