/* SPDX-License-Identifier: MIT */
/*
 * fiber_stack.h - the stacks that fibers run on
 *
 * C stacks of seven sizes, powers of two from 16 KiB to 1 MiB, of two kinds:
 * - GUARDED: the page below it cannot be touched: an overflow ends by SIGSEGV, and
 *   fiber_stack_guards() recognizes the address in the handler.
 * - SLAB: nothing stands between it and the next one below but 64 bytes of canary. Cheap for any
 *   number; an overflow is found at the next switch, by fiber_stack_intact(), if it has written
 *   there: one that jumps over 64 bytes without writing is not found, and what it has written
 *   belonged to another fiber.
 * All of them come out of one mapping that is reserved at the beginning, a part of it for each NUMA
 * node. Of a stack only those pages are there that were touched: a fiber that parks at shallow
 * depth costs one page, its share of a page table, and a struct fiber_stack. What is free is taken
 * again, the last one first, on the node that it is from.
 *
 * Threads: fiber_stacks_init() and fiber_stacks_fini(): one thread, before and after all others.
 * Any worker gets a stack, and any puts it back, also on another node. The rest: the stack's owner.
 *
 * INVARIANTS
 *   I1. A stack is at its place as long as there are stacks: its holder, parked or not, has it
 *       until fiber_stack_put().
 *   I2. A stack goes back to the node that it is from.
 *   I3. Free stacks of a node are no more than `keep` bytes long together, but for those that have
 *       no pages, and those in the chunks, one for each worker, whose pages are being given back.
 *       One that is free below a stack of a slab has a page, with the canary.
 *   I4. A stack that is fresh is zero from end to end when it is got.
 *
 * If a peer dies: all of it is private memory of the pool, and goes with it. In the child of a task
 * that forks the stacks are there, as its own is one of them; it neither gets nor puts any.
 */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/list.h"
#include "common/util.h"

#define FIBER_STACK_MIN	    ((size_t)16 << 10)
#define FIBER_STACK_MAX	    ((size_t)1 << 20)
#define FIBER_STACK_CLASSES 7u
#define FIBER_STACK_SHAPES  (2 * FIBER_STACK_CLASSES) /* kinds and classes */
#define FIBER_STACK_PAGE    ((size_t)4096)
#define FIBER_STACK_CANARY  ((size_t)64) /* bytes below a stack of a slab */
#define FIBER_STACK_CHUNK   ((size_t)4 << 20)

#define FIBER_STACK_PER_CHUNK (FIBER_STACK_CHUNK / FIBER_STACK_MIN)

enum fiber_stack_kind {
	FIBER_STACK_GUARDED,
	FIBER_STACK_SLAB,
};

struct fiber_stack {
	char *low;   /* its lowest byte; the first frame goes below low + size, aligned to 64 */
	size_t size; /* bytes, of a slab FIBER_STACK_CANARY less than those of the class */
	struct list_link link; /* in its list, while it is free */
	uint32_t node;
	uint8_t kind;
	uint8_t class;
	uint8_t state;
	bool guarded; /* the guard is there */
	bool fresh;   /* I4: unused since its pages were made */
} __attribute__((aligned(CACHE_LINE)));

/* What a piece of the mapping is cut into. */
struct fiber_stack_chunk {
	uint32_t shape;	  /* of its stacks: kind and class */
	uint32_t made;	  /* stacks that have been cut out of it */
	uint32_t used;	  /* of these */
	uint32_t leaving; /* of these, those whose pages are being given back */
	uint32_t guards;  /* that cost a mapping */
	struct fiber_stack_chunk *next;
	uint64_t kept[FIBER_STACK_PER_CHUNK /
		      64]; /* a bit for each that may have pages and is free */
};

struct fiber_stack_list {
	struct list_link stacks; /* the last one that came is the first */
	uint64_t bytes;
};

/* The stacks of one kind and class. */
struct fiber_stack_shelf {
	struct fiber_stack_list kept;	/* may have pages */
	struct fiber_stack_list bare;	/* have none */
	struct fiber_stack_chunk *open; /* not all of it is cut yet; or NULL */
};

/* Sums of bytes are of the sizes that were asked for, rounded up to the class. */
struct fiber_stacks_count {
	uint64_t mapped;   /* bytes of address space that are cut into stacks */
	uint64_t used;	   /* bytes of stacks in use */
	uint64_t n_used;   /* stacks */
	uint64_t cached;   /* bytes of free stacks that may have pages */
	uint64_t n_cached; /* stacks */
	uint64_t made;	   /* stacks, since the beginning, as all below */
	uint64_t reused;   /* got, and not made for that */
	uint64_t returned; /* stacks whose pages were given back */
	uint64_t refused;  /* for want of address space or of guards */
};

struct fiber_stacks_node {
	pthread_mutex_t lock;
	pthread_cond_t cleaned;
	uint32_t cleaning; /* workers that give pages back, with some stacks in no list */
	struct fiber_stack_chunk *next; /* never used from here on */
	struct fiber_stack_chunk *end;
	struct fiber_stack_chunk *free;
	struct fiber_stack_shelf shelves[FIBER_STACK_SHAPES];
	struct fiber_stacks_count count;
} __attribute__((aligned(CACHE_LINE)));

struct fiber_stacks_options {
	uint64_t space;	 /* bytes of address space for stacks, of all nodes together: the limit */
	uint64_t keep;	 /* bytes of free stacks that a node keeps with their pages */
	uint32_t guards; /* how many may cost a mapping; 0: a quarter of what the system has */
	bool protect;	 /* each guard costs a mapping, also where the kernel knows better */
};

struct fiber_stacks {
	char *base;
	uint64_t n_chunks;
	uint64_t keep;
	uint32_t n_nodes;
	bool protect;
	uint32_t max_guards;
	_Atomic uint32_t guards; /* that cost a mapping */
	struct fiber_stacks_node *nodes;
	struct fiber_stack_chunk *chunks;
	struct fiber_stack *stacks; /* FIBER_STACK_PER_CHUNK for each chunk */
};

/*
 * Reserves the address space; no page is made. It counts as private memory that can be written,
 * so this comes before module_memory_begin(). The caller may bind the nodes' parts to their nodes,
 * and may keep them out of core files: fiber_stacks_part().
 * Returns 0 or a negative errno: -EINVAL (no node, or less than a chunk for each), -ENOMEM,
 * -ENOTSUP (pages are not of 4 KiB).
 */
int fiber_stacks_init(struct fiber_stacks *stacks, uint32_t n_nodes,
		      const struct fiber_stacks_options *options);

/* No stack is in use any more. */
void fiber_stacks_fini(struct fiber_stacks *stacks);

/* A node's part of the mapping: *ret_size bytes from the result on. */
void *fiber_stacks_part(const struct fiber_stacks *stacks, uint32_t node, size_t *ret_size);

/* Sums of all nodes. Takes their locks. */
void fiber_stacks_count(struct fiber_stacks *stacks, struct fiber_stacks_count *ret);

/*
 * A stack of the smallest class that has this size, of this node if it has any left, else of the
 * next ones. Returns 0 or a negative errno:
 *   -EINVAL  there is no such class, node or kind
 *   -ENOMEM  no address space is left for it, or the kernel has no memory for a guard
 *   -EMFILE  each guard costs mappings here, and there are as many as may be (vm.max_map_count;
 *            Linux before 6.13)
 */
int fiber_stack_get(struct fiber_stacks *stacks, uint32_t node, size_t size,
		    enum fiber_stack_kind kind, struct fiber_stack **ret_stack);

/* No thread runs on it any more: not the caller either. May take a system call or some, when more
 * is free than is kept. NULL is fine. */
void fiber_stack_put(struct fiber_stacks *stacks, struct fiber_stack *stack);

/*
 * How many bytes of it have been in use, at most, since it was fresh: by its fiber alone if it was
 * fresh when it was got. Of what has been swapped out it knows nothing. A system call.
 */
size_t fiber_stack_high_water(const struct fiber_stack *stack);

/* Is the address in what stands below the stack, its guard or its canary? Async-signal-safe. */
static inline bool fiber_stack_guards(const struct fiber_stack *stack, uint64_t address)
{
	size_t edge = stack->kind == FIBER_STACK_GUARDED ? FIBER_STACK_PAGE : FIBER_STACK_CANARY;

	return address - ((uintptr_t)stack->low - edge) < edge;
}

/* What stands in each word of its canary: no small number, and no address. */
static inline uint64_t fiber_stack_canary(const struct fiber_stack *stack)
{
	return (uint64_t)(uintptr_t)stack->low ^ UINT64_C(0x9e3779b97f4a7c15);
}

/* Is the canary whole? True for one that has a guard. Eight words of one cache line, which is the
 * last one of the stack below. Unless it is, that stack is not to be trusted either. */
static inline __attribute__((no_sanitize("address"))) bool
fiber_stack_intact(const struct fiber_stack *stack)
{
	const uint64_t *words = (const uint64_t *)(const void *)(stack->low - FIBER_STACK_CANARY);
	uint64_t canary = fiber_stack_canary(stack), wrong = 0;

	if (stack->kind != FIBER_STACK_SLAB)
		return true;
	for (size_t i = 0; i < FIBER_STACK_CANARY / sizeof(*words); i++)
		wrong |= words[i] ^ canary;
	return !wrong;
}
