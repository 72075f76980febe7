/* SPDX-License-Identifier: MIT */
/*
 * stacklet.c - allocation and reuse of stacklets
 *
 * Threads: see stacklet.h.
 *
 * THE ARENA
 *   Stacklets are powers of two from STACK_MIN on. Free ones are in one list per size. If a list is
 *   empty a larger block is halved, and two free halves of a block are merged again (Knowlton's
 *   buddy system, 1965). So memory that small jobs have used can serve a deep one, and vice versa.
 *   The offset of a block from the arena's begin is a multiple of its size, which gives its other
 *   half. blocks[] stores whether that is free and whole, so no page of it is touched. Memory from
 *   next on was never used. It is taken only if no free block is large enough, so memory that has
 *   pages is used first. Of two free blocks of a size, the one that may have pages is taken.
 *
 *   A1. Each byte of [begin, next) is in one block: free, in cleaning, or a stacklet in a stack or
 *       a cache. A free block begins where blocks[] records it.
 *   A2. Two free halves of a block are merged by the thread that frees the second, which may be the
 *       cleaner.
 *   A3. left counts the bytes in no stack and in no cache: free, never used, or being cleaned.
 *
 *   There may be several arenas (one for each NUMA node), linked in a ring. A worker takes from its
 *   own, and from the next ones when that is full. A stacklet returns to its own arena, and a
 *   worker caches only stacklets of its own arena.
 *
 * CACHES
 *   A worker keeps up to STACK_KEEP bytes of each size up to that, so most steals and joins take no
 *   shared lock. Before a request is refused, the contents of all caches return to the arenas and
 *   are merged, so that all free memory can be used. For that each cache has a lock, which other
 *   threads take for nothing else. Most often one stacklet of STACK_MIN is taken and freed, so one
 *   more of these is in `first`, before the lists. The owner alone stores one there; the owner or a
 *   collector takes it by an exchange.
 *
 * PAGES
 *   Free blocks of more than STACK_KEEP bytes give their pages back. That takes long, and an ending
 *   job does not wait for it. Workers whose search failed do it (idle_trim.c), STACK_CLEAN bytes at
 *   a time, because they search again in between. If none does, the dispatcher does it, more
 *   slowly: a thread that frees memory whose pages are to be given back wakes it (stack_dirtied()).
 *   Each call makes a block's clean part longer, and only a thread that frees makes a dirty block.
 *   So cleaning ends after one call for each STACK_CLEAN bytes of free memory.
 *   P1. A block is in no list while its pages are given back. No request is refused because of
 *       that: a thread that finds no block waits for `cleaner`, and tries again while it holds it.
 *   P2. dirty counts that block too: when it is 0, nothing is left to clean.
 *
 * LOCKS
 *   cleaner before lock; a cache's lock with no other.
 *
 * If the pool dies: the next pool does not wait until its pages are given back: all memory that
 * they cover starts as free, dirty blocks.
 */
#include "daemon/core/stacklet.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/relaxed.h"
#include "common/util.h"
#include "daemon/core/mapping.h"

_Static_assert(sizeof(struct fk_stack) % 8 == 0, "the first frame is aligned");

/* Describes the free block that begins at this STACK_MIN unit of an arena; zero elsewhere. */
struct stack_block {
	struct stack_block *next;
	struct stack_block **link; /* the pointer to this block */
	uint64_t cleaned;	   /* bytes from its start that have no pages; the rest may */
	uint64_t size_log;
};

static uint64_t stack_blocks_size(const struct stack_arena *arena)
{
	return (arena->size / STACK_MIN + 1) * sizeof(struct stack_block);
}

int stack_arena_init(struct stack_arena *arena, char *base, char *end)
{
	memset(arena, 0, sizeof(*arena));
	arena->sibling = arena;
	arena->begin = arena->next = base;
	arena->end = end;
	arena->size = (uint64_t)(end - base) & ~(uint64_t)(STACK_MIN - 1);
	atomic_init(&arena->left, arena->size);
	pthread_mutex_init(&arena->lock, NULL);
	pthread_mutex_init(&arena->cleaner, NULL);
	/* Sparse, like the arena. */
	arena->blocks = mmap(NULL, stack_blocks_size(arena), PROT_READ | PROT_WRITE,
			     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (arena->blocks != MAP_FAILED)
		return 0;
	arena->blocks = NULL;
	return -errno;
}

void stack_arena_fini(struct stack_arena *arena)
{
	if (arena->blocks)
		munmap(arena->blocks, stack_blocks_size(arena));
	arena->blocks = NULL;
	pthread_mutex_destroy(&arena->cleaner);
	pthread_mutex_destroy(&arena->lock);
}

void stack_arena_link(struct stack_arena *arenas, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		arenas[i].sibling = &arenas[(i + 1) % n];
}

void stack_cache_init(struct stack_cache *cache, struct stack_arena *arena)
{
	memset(cache, 0, sizeof(*cache));
	pthread_mutex_init(&cache->lock, NULL);
	cache->arena = arena;
	cache->next = arena->caches;
	arena->caches = cache;
}

void stack_cache_fini(struct stack_cache *cache)
{
	pthread_mutex_destroy(&cache->lock);
}

/* ------------------------------------------------------------------------ free blocks */

static uint64_t stack_bytes(uint32_t order)
{
	return UINT64_C(1) << (order + STACK_MIN_LOG);
}

/* Returns the smallest order that has this size; STACK_ORDERS if none has. */
static uint32_t stack_order(uint64_t size)
{
	uint32_t order = 0;

	while (order < STACK_ORDERS && stack_bytes(order) < size)
		order++;
	return order;
}

/* Returns the arena of the ring that a stacklet is from. */
static struct stack_arena *stack_home(struct stack_arena *arena, struct fk_stack *stacklet)
{
	while ((char *)stacklet < arena->begin || (char *)stacklet >= arena->end)
		arena = arena->sibling;
	return arena;
}

static struct stack_block *stack_block(struct stack_arena *arena, uint64_t offset)
{
	return &arena->blocks[offset / STACK_MIN];
}

static uint64_t stack_offset(struct stack_arena *arena, struct stack_block *block)
{
	return (uint64_t)(block - arena->blocks) * STACK_MIN;
}

/* Adds bytes to dirty (P2). Relaxed: written under the lock; elsewhere a hint. */
static void stack_count_dirty(struct stack_arena *arena, int64_t bytes)
{
	uint64_t dirty = load_relaxed(&arena->dirty);

	store_relaxed(&arena->dirty, dirty + (uint64_t)bytes);
}

/* Returns the bytes of a block that the cleaner has to process. */
static int64_t stack_to_clean(const struct stack_block *block)
{
	uint64_t bytes = UINT64_C(1) << block->size_log;

	return block->cleaned < bytes && bytes > STACK_KEEP ? (int64_t)bytes : 0;
}

/* Under the lock, as all functions below. cleaned: see stack_block; the whole size if clean. */
static void stack_insert(struct stack_arena *arena, uint64_t offset, uint32_t order,
			 uint64_t cleaned)
{
	struct stack_block *block = stack_block(arena, offset);
	struct stack_block **head = &arena->free[order][cleaned < stack_bytes(order)];

	*block = (struct stack_block){ *head, head, cleaned, order + STACK_MIN_LOG };
	if (block->next)
		block->next->link = &block->next;
	*head = block;
	stack_count_dirty(arena, stack_to_clean(block));
}

void stack_arena_inherit(struct stack_arena *arena, uint64_t bytes)
{
	uint64_t end = min(align_up(bytes, STACK_MIN), arena->size), at = 0;

	/* The largest possible blocks: no two of them are halves of one. */
	for (uint32_t order = STACK_ORDERS; order-- > 0;)
		for (; end - at >= stack_bytes(order); at += stack_bytes(order))
			stack_insert(arena, at, order, 0);
	arena->next = arena->begin + end;
}

/* Returns the number of clean bytes. */
static uint64_t stack_remove(struct stack_arena *arena, struct stack_block *block)
{
	uint64_t cleaned = block->cleaned;

	*block->link = block->next;
	if (block->next)
		block->next->link = block->link;
	stack_count_dirty(arena, -stack_to_clean(block));
	memset(block, 0, sizeof(*block));
	return cleaned;
}

/* Inserts a block, merged repeatedly with its other half while that is free (A2). */
static void stack_merge(struct stack_arena *arena, uint64_t offset, uint32_t order,
			uint64_t cleaned)
{
	for (; order + 1 < STACK_ORDERS; order++) {
		uint64_t bytes = stack_bytes(order), other = offset ^ bytes, lower, upper;

		if (other >= arena->size ||
		    stack_block(arena, other)->size_log != order + STACK_MIN_LOG)
			break;
		lower = upper = stack_remove(arena, stack_block(arena, other));
		if (other < offset)
			upper = cleaned;
		else
			lower = cleaned;
		offset = min(offset, other);
		cleaned = lower == bytes ? lower + upper : lower;
	}
	stack_insert(arena, offset, order, cleaned);
}

/* Returns the smallest free block that is large enough, halved to the size. NULL if there is
 * none. */
static char *stack_split(struct stack_arena *arena, uint32_t order)
{
	struct stack_block *block = NULL;
	uint64_t offset, cleaned;
	uint32_t of = order;

	for (; of < STACK_ORDERS; of++) {
		block = arena->free[of][true] ? arena->free[of][true] : arena->free[of][false];
		if (block)
			break;
	}
	if (!block)
		return NULL;
	offset = stack_offset(arena, block);
	cleaned = stack_remove(arena, block);
	while (of-- > order) {
		uint64_t half = stack_bytes(of);

		stack_insert(arena, offset + half, of, cleaned > half ? cleaned - half : 0);
		cleaned = min(cleaned, half);
	}
	return arena->begin + offset;
}

/* Returns a block of never used memory. The gap before it becomes free blocks. If that completes a
 * free block that is large enough, returns that one, even if no block fits after the gap. NULL if
 * there is none. */
static char *stack_extend(struct stack_arena *arena, uint32_t order)
{
	uint64_t next = (uint64_t)(arena->next - arena->begin);
	uint64_t at = align_up(next, stack_bytes(order));

	if (at > arena->size)
		return NULL;
	while (next < at) {
		uint64_t bytes = next & -next;

		stack_merge(arena, next, stack_order(bytes), bytes);
		next += bytes;
		arena->next = arena->begin + next;
		if (arena->free[order][true] || arena->free[order][false])
			return stack_split(arena, order);
	}
	if (arena->size - at < stack_bytes(order))
		return NULL;
	arena->next += stack_bytes(order);
	return arena->begin + at;
}

/* Returns a stacklet of an arena that has at least keep bytes left afterwards, or NULL. Takes the
 * lock. */
static struct fk_stack *stack_arena_take(struct stack_cache *own, struct stack_arena *arena,
					 uint32_t order, uint64_t keep)
{
	uint64_t bytes = stack_bytes(order), left;
	char *at = NULL;

	pthread_mutex_lock(&arena->lock);
	left = load_relaxed(&arena->left);
	if (left >= bytes && left - bytes >= keep) {
		at = stack_split(arena, order);
		if (!at)
			at = stack_extend(arena, order);
		/* A gap may have joined pages that are to be given back. */
		own->dirtied |= load_relaxed(&arena->dirty);
		if (at)
			store_relaxed(&arena->left, left - bytes);
	}
	pthread_mutex_unlock(&arena->lock);
	return (struct fk_stack *)(void *)at;
}

/* Returns a stacklet to its arena. Takes the lock. True: the arena has memory to clean. */
static bool stack_arena_put(struct stack_arena *arena, struct fk_stack *stacklet)
{
	uint32_t order = (uint32_t)stacklet->size_log - STACK_MIN_LOG;
	uint64_t left, dirty;

	pthread_mutex_lock(&arena->lock);
	left = load_relaxed(&arena->left);
	store_relaxed(&arena->left, left + stack_bytes(order));
	stack_merge(arena, (uint64_t)((char *)stacklet - arena->begin), order, 0);
	dirty = load_relaxed(&arena->dirty);
	pthread_mutex_unlock(&arena->lock);
	return dirty;
}

/* ------------------------------------------------------------------------ giving pages back */

/* Gives pages back. If the system cannot, they stay. */
static void stack_punch(struct stack_arena *arena, uint64_t offset, uint64_t size)
{
	(void)layout_discard(arena->begin + offset, size);
}

/* Cleans a part of the arena's largest dirty block. The caller holds `cleaner`. */
static void stack_clean_piece(struct stack_arena *arena)
{
	struct stack_block *block = NULL;
	uint32_t order = STACK_ORDERS;
	uint64_t bytes, offset, from, to;

	pthread_mutex_lock(&arena->lock);
	while (!block && order-- > 0 && stack_bytes(order) > STACK_KEEP)
		block = arena->free[order][true];
	if (!block) {
		pthread_mutex_unlock(&arena->lock);
		return;
	}
	bytes = stack_bytes(order);
	offset = stack_offset(arena, block);
	stack_count_dirty(arena, (int64_t)bytes);
	from = stack_remove(arena, block);
	pthread_mutex_unlock(&arena->lock);
	to = min(bytes, from + STACK_CLEAN);
	stack_punch(arena, offset + from, to - from);
	pthread_mutex_lock(&arena->lock);
	stack_merge(arena, offset, order, to);
	stack_count_dirty(arena, -(int64_t)bytes);
	pthread_mutex_unlock(&arena->lock);
}

/* Returns an arena of the ring with dirty blocks, or NULL. */
static struct stack_arena *stack_dirty_one(struct stack_arena *arena)
{
	struct stack_arena *first = arena;

	/* Relaxed: a hint; the thread that frees wakes the dispatcher. */
	while (!load_relaxed(&arena->dirty)) {
		arena = arena->sibling;
		if (arena == first)
			return NULL;
	}
	return arena;
}

bool stack_arena_dirty(struct stack_arena *arena)
{
	return stack_dirty_one(arena);
}

uint64_t stack_arena_cleaned(const struct stack_arena *arena)
{
	const struct stack_arena *first = arena;
	uint64_t sum = 0;

	/* Relaxed: a hint. */
	do {
		sum += load_relaxed(&arena->cleaned);
		arena = arena->sibling;
	} while (arena != first);
	return sum;
}

bool stack_arena_clean(struct stack_arena *arena)
{
	arena = stack_dirty_one(arena);
	if (!arena || pthread_mutex_trylock(&arena->cleaner))
		return false;
	stack_clean_piece(arena);
	add_relaxed(&arena->cleaned, 1);
	pthread_mutex_unlock(&arena->cleaner);
	return true;
}

/* ------------------------------------------------------------------------ caches */

static struct fk_stack *stack_cache_take_first(struct stack_cache *cache)
{
	/* Relaxed: only saves the exchange. */
	if (!load_relaxed(&cache->first))
		return NULL;
	/* ORDER stack/first [F1]: acquire, what its owner left in it. Pairs with
	 * stack_cache_put(). */
	return atomic_exchange_explicit(&cache->first, NULL, memory_order_acquire);
}

static struct fk_stack *stack_cache_take(struct stack_cache *cache, uint32_t order)
{
	struct fk_stack *stacklet = order ? NULL : stack_cache_take_first(cache);

	if (stacklet)
		return stacklet;
	pthread_mutex_lock(&cache->lock);
	stacklet = cache->free[order];
	if (stacklet) {
		cache->free[order] = stacklet->prev;
		cache->n[order]--;
	}
	pthread_mutex_unlock(&cache->lock);
	return stacklet;
}

/* Owner. False: the cache is full. */
static bool stack_cache_put(struct stack_cache *cache, struct fk_stack *stacklet)
{
	uint32_t order = (uint32_t)stacklet->size_log - STACK_MIN_LOG;
	bool kept = false;

	if (stack_bytes(order) > STACK_KEEP)
		return false;
	/* Relaxed: only the owner puts one there. */
	if (!order && !load_relaxed(&cache->first)) {
		/* ORDER stack/first [F1]: release, pairs with stack_cache_take_first(). */
		atomic_store_explicit(&cache->first, stacklet, memory_order_release);
		return true;
	}
	pthread_mutex_lock(&cache->lock);
	if ((cache->n[order] + 1) * stack_bytes(order) <= STACK_KEEP) {
		stacklet->prev = cache->free[order];
		cache->free[order] = stacklet;
		cache->n[order]++;
		kept = true;
	}
	pthread_mutex_unlock(&cache->lock);
	return kept;
}

/* Returns all stacklets of a cache to the arena. True: the arena has memory to clean. */
static bool stack_cache_empty(struct stack_cache *cache)
{
	bool dirty = false;

	for (uint32_t order = 0; stack_bytes(order) <= STACK_KEEP; order++) {
		struct fk_stack *stacklet;

		while ((stacklet = stack_cache_take(cache, order)))
			dirty |= stack_arena_put(cache->arena, stacklet);
	}
	return dirty;
}

/* ------------------------------------------------------------------------ stacklets */

/* The purpose of memory. */
enum stack_for { STACK_FOR_WORKER, STACK_FOR_SMALL_JOB, STACK_FOR_JOB };

/* Returns the bytes of an arena that must be left for more important purposes. */
static uint64_t stack_reserve(const struct stack_arena *arena, enum stack_for who)
{
	return who == STACK_FOR_JOB	  ? arena->size / 16
	     : who == STACK_FOR_SMALL_JOB ? arena->size / 64
					  : 0;
}

/* Returns the stacklets of all workers' caches to the arenas of the ring. */
static void stack_collect(struct stack_cache *own)
{
	struct stack_arena *arena = own->arena;

	do {
		for (struct stack_cache *cache = arena->caches; cache; cache = cache->next)
			own->dirtied |= stack_cache_empty(cache);
		arena = arena->sibling;
	} while (arena != own->arena);
}

/* Returns a stacklet of an arena of the ring; if there is none, collects all caches and tries
 * again. */
static struct fk_stack *stack_find(struct stack_cache *own, uint32_t order, enum stack_for who)
{
	struct stack_arena *first = own->arena, *arena = first;
	struct fk_stack *stacklet;

	do {
		stacklet = stack_arena_take(own, arena, order, stack_reserve(arena, who));
		arena = arena->sibling;
	} while (!stacklet && arena != first);
	if (stacklet)
		return stacklet;
	stack_collect(own);
	do {
		pthread_mutex_lock(&arena->cleaner); /* P1 */
		stacklet = stack_arena_take(own, arena, order, stack_reserve(arena, who));
		pthread_mutex_unlock(&arena->cleaner);
		arena = arena->sibling;
	} while (!stacklet && arena != first);
	return stacklet;
}

static void stack_refund(struct stack_cache *cache, uint64_t bytes)
{
	/* Relaxed, here and below: a sum. The join counters ensure that it is complete when the job
	 * ends (I3). */
	if (cache->account)
		sub_relaxed(cache->account, bytes);
}

static enum stack_for stack_for(uint64_t held)
{
	return held > STACK_SMALL ? STACK_FOR_JOB : STACK_FOR_SMALL_JOB;
}

/* Charges bytes to the job and sets *ret_who to its purpose afterwards. False: the job would exceed
 * its limit. Then it is not charged even temporarily, because another of its workers could be
 * refused for that. */
static bool stack_charge(struct stack_cache *cache, uint64_t bytes, enum stack_for *ret_who)
{
	uint64_t held;

	*ret_who = STACK_FOR_WORKER;
	if (!cache->account)
		return true;
	held = load_relaxed(cache->account);
	do {
		if (held > cache->max || bytes > cache->max - held)
			return false;
	} while (!atomic_compare_exchange_weak_explicit(
		cache->account, &held, held + bytes, memory_order_relaxed, memory_order_relaxed));
	*ret_who = stack_for(held + bytes);
	return true;
}

static struct fk_stack *stacklet_new(struct stack_cache *cache, uint32_t order, enum stack_for who)
{
	struct fk_stack *stacklet = stack_cache_take(cache, order);

	if (!stacklet)
		stacklet = stack_find(cache, order, who);
	if (!stacklet)
		return NULL;
	cache->allocated++;
	cache->bytes += (int64_t)stack_bytes(order);
	*stacklet = (struct fk_stack){
		.end = (char *)stacklet + stack_bytes(order),
		.top = stacklet,
		.size_log = order + STACK_MIN_LOG,
	};
	return stacklet;
}

static void stacklet_free(struct stack_cache *cache, struct fk_stack *stacklet)
{
	struct stack_arena *home = stack_home(cache->arena, stacklet);

	cache->bytes -= (int64_t)1 << stacklet->size_log;
	if (home != cache->arena || !stack_cache_put(cache, stacklet))
		cache->dirtied |= stack_arena_put(home, stacklet);
}

/* Returns a stacklet that is charged to the job, or NULL. */
static struct fk_stack *stacklet_buy(struct stack_cache *cache, uint32_t order)
{
	struct fk_stack *stacklet;
	enum stack_for who;

	if (!stack_charge(cache, stack_bytes(order), &who))
		return NULL;
	stacklet = stacklet_new(cache, order, who);
	if (!stacklet)
		stack_refund(cache, stack_bytes(order));
	return stacklet;
}

struct fk_stack *stack_new(struct stack_cache *cache)
{
	return stacklet_new(cache, 0, STACK_FOR_WORKER);
}

void stack_free(struct stack_cache *cache, struct fk_stack *stack)
{
	if (!stack)
		return;
	stack_trim(cache, stack);
	stacklet_free(cache, stack);
}

struct fk_stack *stack_push(struct stack_cache *cache, struct fk_stack *top, char *sp, size_t size)
{
	uint32_t least = size <= stack_bytes(STACK_ORDERS - 1)
			       ? stack_order(sizeof(struct fk_stack) + size)
			       : STACK_ORDERS;
	uint32_t twice = (uint32_t)top->size_log - STACK_MIN_LOG + 1;
	struct fk_stack *next = top->spare;

	if (next && next->size_log < least + STACK_MIN_LOG) {
		stack_trim(cache, top);
		next = NULL;
	}
	for (uint32_t order = max(least, twice); !next && order >= least; order--) {
		if (order < STACK_ORDERS)
			next = stacklet_buy(cache, order);
		if (!order)
			break;
	}
	if (!next)
		return NULL;
	next->prev = top;
	next->below = sp;
	top->spare = next;
	return next;
}

struct fk_stack *stack_pop(struct stack_cache *cache, struct fk_stack *top)
{
	stack_trim(cache, top);
	return top->prev;
}

/* Frees a stacklet that is charged to the job. NULL is allowed. */
static void stacklet_sell(struct stack_cache *cache, struct fk_stack *stacklet)
{
	if (!stacklet)
		return;
	stack_refund(cache, UINT64_C(1) << stacklet->size_log);
	stacklet_free(cache, stacklet);
}

void stack_trim(struct stack_cache *cache, struct fk_stack *top)
{
	struct fk_stack *stack;

	if (!top)
		return;
	stacklet_sell(cache, top->spare);
	top->spare = NULL;
	while ((stack = top->nested)) {
		top->nested = stack->nested;
		stacklet_sell(cache, stack->spare);
		stacklet_sell(cache, stack);
	}
}

struct fk_stack *stack_nest(struct stack_cache *cache, struct fk_stack *top)
{
	struct fk_stack *stack = top->nested;

	top->nested = NULL;
	return stack ? stack : stacklet_buy(cache, 0);
}

void stack_unnest(struct stack_cache *cache, struct fk_stack *top, struct fk_stack *stack)
{
	if (stack)
		top->nested = stack;
	else
		stack_take(cache);
}

/* True if a worker can get a first stacklet, in exchange for one that a job with these bytes now
 * has. */
static bool stack_can_spare(struct stack_cache *cache, uint64_t held)
{
	struct stack_arena *arena = cache->arena;

	do {
		/* Relaxed: a sum. */
		if (load_relaxed(&arena->left) >= stack_reserve(arena, stack_for(held)) + STACK_MIN)
			return true;
		arena = arena->sibling;
	} while (arena != cache->arena);
	return false;
}

bool stack_give(struct stack_cache *cache, struct fk_stack *top)
{
	uint64_t held;

	stack_trim(cache, top);
	if (!cache->account)
		return true;
	held = add_relaxed(cache->account, STACK_MIN) + STACK_MIN;
	if (held > cache->max)
		return false;
	if (stack_can_spare(cache, held))
		return true;
	stack_collect(cache);
	return stack_can_spare(cache, held);
}

void stack_take(struct stack_cache *cache)
{
	stack_refund(cache, STACK_MIN);
}

/* ------------------------------------------------------------------------ lumps */

void *stack_lump_take(struct stack_cache *cache, uint64_t size)
{
	uint32_t order = stack_order(size);

	return order < STACK_ORDERS ? stacklet_buy(cache, order) : NULL;
}

void stack_lump_put(struct stack_cache *cache, void *lump, uint64_t size)
{
	struct fk_stack *stacklet = lump;

	/* The last user has overwritten it. */
	stacklet->size_log = stack_order(size) + STACK_MIN_LOG;
	stacklet_sell(cache, stacklet);
}
