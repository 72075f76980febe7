/* SPDX-License-Identifier: MIT */
/*
 * fiber_stack.h - the stacks that fibers run on
 *
 * C stacks of seven sizes, powers of two from 16 KiB to 1 MiB, of two kinds:
 * - GUARDED: the page below must not be touched. An overflow ends by SIGSEGV, and
 *   fiber_stack_guards() recognizes the address in the handler.
 * - SLAB: only 64 bytes of canary separate it from the stack below. Cheap for any number.
 *   fiber_stack_intact() finds an overflow at the next switch if it wrote to the canary. An
 *   overflow that jumps over the canary is not found, and has damaged another fiber's stack.
 * All stacks are cut from one mapping that is reserved at the start, with a part for each NUMA
 * node. A stack has only the pages that were touched: a fiber that parks at shallow depth costs one
 * page, its share of a page table, and a struct fiber_stack. Free stacks are reused on their own
 * node, the last one first.
 *
 * Threads: fiber_stacks_init() and fiber_stacks_fini(): one thread, before and after all others.
 * Any worker may get a stack or put it back, also on another node. The rest: the stack's owner.
 *
 * INVARIANTS
 *   I1. A stack never moves: its holder, parked or not, has it until fiber_stack_put().
 *   I2. A stack returns to its own node.
 *   I3. Free stacks of a node have at most `keep` bytes in total. Stacks without pages do not
 *       count, nor those whose pages are being given back, in at most one chunk per worker. A free
 *       stack of a slab has one page if the stack above it has its canary there.
 *   I4. A stack that is fresh is all zero when it is got.
 *
 * If a peer dies: stacks are private memory of the pool and end with it. The child of a task that
 * forks still has the stacks, because it runs on one; it neither gets nor puts any.
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
	char *low;	       /* lowest byte; the first frame is below low + size, aligned to 64 */
	size_t size;	       /* bytes; in a slab FIBER_STACK_CANARY less than the class */
	struct list_link link; /* in its list, while it is free */
	uint32_t node;
	uint8_t kind;
	uint8_t class;
	uint8_t state;
	bool guarded; /* the guard exists */
	bool fresh;   /* I4: unused since its pages were made */
} __attribute__((aligned(CACHE_LINE)));

/* Part of the mapping that is cut into stacks of one shape. */
struct fiber_stack_chunk {
	uint32_t shape;	  /* of its stacks: kind and class */
	uint32_t made;	  /* stacks that have been cut out of it */
	uint32_t used;	  /* of these */
	uint32_t leaving; /* stacks whose pages are being given back */
	uint32_t guards;  /* that cost a mapping */
	struct fiber_stack_chunk *next;
	uint64_t kept[FIBER_STACK_PER_CHUNK / 64]; /* a bit for each free stack with pages */
};

struct fiber_stack_list {
	struct list_link stacks; /* the last one put is the first */
	uint64_t bytes;
};

/* The stacks of one kind and class. */
struct fiber_stack_shelf {
	struct fiber_stack_list kept;	/* may have pages */
	struct fiber_stack_list bare;	/* have none */
	struct fiber_stack_chunk *open; /* not completely cut yet; or NULL */
};

/* Bytes are the requested sizes, rounded up to the class. */
struct fiber_stacks_count {
	uint64_t mapped;   /* bytes of address space that are cut into stacks */
	uint64_t used;	   /* bytes of stacks in use */
	uint64_t n_used;   /* stacks */
	uint64_t cached;   /* bytes of free stacks that may have pages */
	uint64_t n_cached; /* stacks */
	uint64_t made;	   /* stacks, since the start, as all below */
	uint64_t reused;   /* got without making one */
	uint64_t returned; /* stacks whose pages were given back */
	uint64_t refused;  /* no address space or guard was available */
};

struct fiber_stacks_node {
	pthread_mutex_t lock;
	pthread_cond_t cleaned;
	uint32_t cleaning; /* workers that give pages back; some stacks are then in no list */
	struct fiber_stack_chunk *next; /* first chunk that was never used */
	struct fiber_stack_chunk *end;
	struct fiber_stack_chunk *free;
	struct fiber_stack_shelf shelves[FIBER_STACK_SHAPES];
	struct fiber_stacks_count count;
} __attribute__((aligned(CACHE_LINE)));

struct fiber_stacks_options {
	uint64_t space;	 /* bytes of address space for all stacks of all nodes: the limit */
	uint64_t keep;	 /* bytes of free stacks that a node keeps with their pages */
	uint32_t guards; /* maximum number that cost a mapping; 0: a quarter of vm.max_map_count */
	bool protect;	 /* each guard costs a mapping, even if the kernel has better ones */
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
 * Reserves the address space; allocates no page. It counts as private writable memory, so call this
 * before module_memory_begin(). The caller may bind the nodes' parts to their nodes and exclude
 * them from core files: fiber_stacks_part().
 * Returns 0 or a negative errno: -EINVAL (no node, or less than a chunk for each), -ENOMEM,
 * -ENOTSUP (pages are not of 4 KiB).
 */
int fiber_stacks_init(struct fiber_stacks *stacks, uint32_t n_nodes,
		      const struct fiber_stacks_options *options);

/* No stack may be in use. */
void fiber_stacks_fini(struct fiber_stacks *stacks);

/* Returns a node's part of the mapping, *ret_size bytes. */
void *fiber_stacks_part(const struct fiber_stacks *stacks, uint32_t node, size_t *ret_size);

/* Sums of all nodes. Takes their locks. */
void fiber_stacks_count(struct fiber_stacks *stacks, struct fiber_stacks_count *ret);

/*
 * Gets a stack of the smallest class that has this size, from this node or, if it has none left,
 * from the next ones. Returns 0 or a negative errno:
 *   -EINVAL  there is no such class, node or kind
 *   -ENOMEM  no address space is left, or the kernel has no memory for a guard
 *   -EMFILE  each guard costs mappings here, and vm.max_map_count is reached (Linux before 6.13)
 */
int fiber_stack_get(struct fiber_stacks *stacks, uint32_t node, size_t size,
		    enum fiber_stack_kind kind, struct fiber_stack **ret_stack);

/* Puts a stack back that no thread runs on, not even the caller. Makes system calls if more is free
 * than is kept. NULL is allowed. */
void fiber_stack_put(struct fiber_stacks *stacks, struct fiber_stack *stack);

/*
 * Returns the maximum number of bytes that were in use since the stack was fresh; by its fiber
 * alone if the stack was fresh when it was got. Ignores pages that were swapped out. A system call.
 */
size_t fiber_stack_high_water(const struct fiber_stack *stack);

/* Returns true if the address is in the stack's guard or canary. Async-signal-safe. */
static inline bool fiber_stack_guards(const struct fiber_stack *stack, uint64_t address)
{
	size_t edge = stack->kind == FIBER_STACK_GUARDED ? FIBER_STACK_PAGE : FIBER_STACK_CANARY;

	return address - ((uintptr_t)stack->low - edge) < edge;
}

/* Value of each word of the stack's canary: neither a small number nor an address. */
static inline uint64_t fiber_stack_canary(const struct fiber_stack *stack)
{
	return (uint64_t)(uintptr_t)stack->low ^ UINT64_C(0x9e3779b97f4a7c15);
}

/* Returns true if the canary is intact, or the stack has a guard. Reads eight words of one cache
 * line, the last one of the stack below. If false, do not trust that stack either. */
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
