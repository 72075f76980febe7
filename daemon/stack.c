/* SPDX-License-Identifier: MIT */
#include "daemon/stack.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

_Static_assert(sizeof(struct fk_stack) % 8 == 0, "the first frame is aligned");

int stack_arena_init(struct stack_arena *arena, char *base, char *end, int fd, char *map)
{
	memset(arena, 0, sizeof(*arena));
	arena->sibling = arena;
	arena->begin = arena->next = base;
	arena->end = end;
	arena->fd = fd;
	arena->base = map;
	return -pthread_mutex_init(&arena->lock, NULL);
}

void stack_arena_fini(struct stack_arena *arena)
{
	pthread_mutex_destroy(&arena->lock);
}

void stack_arena_link(struct stack_arena *arenas, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		arenas[i].sibling = &arenas[(i + 1) % n];
}

/* The arena of the ring that a stacklet is from. */
static struct stack_arena *stack_home(struct stack_arena *arena, struct fk_stack *stacklet)
{
	while ((char *)stacklet < arena->begin || (char *)stacklet >= arena->end)
		arena = arena->sibling;
	return arena;
}

static uint32_t stack_class(uint64_t size)
{
	uint32_t log = STACK_MIN_LOG;

	while ((UINT64_C(1) << log) < size)
		log++;
	return log - STACK_MIN_LOG;
}

/* Gives the pages of a free stacklet back, all but the first, which holds its link. */
static void stack_punch(struct stack_arena *arena, struct fk_stack *stacklet)
{
	off_t start = (char *)stacklet - arena->base + STACK_MIN;
	off_t size = (off_t)(UINT64_C(1) << stacklet->size_log) - STACK_MIN;

	if (arena->fd >= 0)
		fallocate(arena->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, start, size);
}

/* One of this size that has its pages still. Under the lock. */
static struct fk_stack *stack_take_dirty(struct stack_arena *arena, uint32_t class)
{
	struct fk_stack *prev = NULL;
	struct fk_stack *at = atomic_load_explicit(&arena->dirty, memory_order_relaxed);

	for (; at && at->size_log != class + STACK_MIN_LOG; at = at->prev)
		prev = at;
	if (!at)
		return NULL;
	if (prev)
		prev->prev = at->prev;
	else
		atomic_store_explicit(&arena->dirty, at->prev, memory_order_relaxed);
	return at;
}

/* A free stacklet out of an arena, or NULL. */
static struct fk_stack *stack_take(struct stack_arena *arena, uint32_t class)
{
	uint64_t bytes = UINT64_C(1) << (class + STACK_MIN_LOG);
	struct fk_stack *stacklet;

	pthread_mutex_lock(&arena->lock);
	stacklet = arena->free[class];
	if (stacklet) {
		arena->free[class] = stacklet->prev;
	} else if ((uint64_t)(arena->end - arena->next) >= bytes) {
		stacklet = (struct fk_stack *)arena->next;
		arena->next += bytes;
	} else {
		stacklet = stack_take_dirty(arena, class);
	}
	pthread_mutex_unlock(&arena->lock);
	return stacklet;
}

static struct fk_stack *stacklet_new(struct stack_cache *cache, uint64_t size)
{
	uint32_t class = stack_class(size);
	struct fk_stack *stacklet = NULL;

	if (class >= STACK_CLASSES)
		return NULL;
	stacklet = cache->free[class];
	if (stacklet) {
		cache->free[class] = stacklet->prev;
		cache->n[class]--;
	} else {
		struct stack_arena *arena = cache->arena;

		do {
			stacklet = stack_take(arena, class);
			arena = arena->sibling;
		} while (!stacklet && arena != cache->arena);
		if (!stacklet)
			return NULL;
		stacklet->size_log = class + STACK_MIN_LOG;
		stacklet->end = (char *)stacklet + (UINT64_C(1) << stacklet->size_log);
	}
	cache->allocated++;
	cache->bytes += (int64_t)1 << stacklet->size_log;
	stacklet->prev = NULL;
	stacklet->spare = NULL;
	stacklet->top = stacklet;
	return stacklet;
}

static void stack_put(struct stack_arena *arena, struct fk_stack *stacklet)
{
	uint32_t class = (uint32_t)stacklet->size_log - STACK_MIN_LOG;

	pthread_mutex_lock(&arena->lock);
	stacklet->prev = arena->free[class];
	arena->free[class] = stacklet;
	pthread_mutex_unlock(&arena->lock);
}

static void stacklet_free(struct stack_cache *cache, struct fk_stack *stacklet)
{
	uint32_t class = (uint32_t)stacklet->size_log - STACK_MIN_LOG;
	uint64_t bytes = UINT64_C(1) << stacklet->size_log;
	struct stack_arena *home = stack_home(cache->arena, stacklet);

	cache->bytes -= (int64_t)bytes;
	if (bytes <= STACK_KEEP_MAX && cache->n[class] < STACK_KEEP && home == cache->arena) {
		stacklet->prev = cache->free[class];
		cache->free[class] = stacklet;
		cache->n[class]++;
		return;
	}
	if (bytes > STACK_KEEP_MAX) {
		pthread_mutex_lock(&home->lock);
		stacklet->prev = atomic_load_explicit(&home->dirty, memory_order_relaxed);
		atomic_store_explicit(&home->dirty, stacklet, memory_order_relaxed);
		pthread_mutex_unlock(&home->lock);
		return;
	}
	stack_put(home, stacklet);
}

bool stack_arena_clean(struct stack_arena *arena)
{
	struct fk_stack *stacklet;

	/* Relaxed: a hint; who sees it late comes again. */
	if (!atomic_load_explicit(&arena->dirty, memory_order_relaxed))
		return false;
	pthread_mutex_lock(&arena->lock);
	stacklet = atomic_load_explicit(&arena->dirty, memory_order_relaxed);
	if (stacklet)
		atomic_store_explicit(&arena->dirty, stacklet->prev, memory_order_relaxed);
	pthread_mutex_unlock(&arena->lock);
	if (!stacklet)
		return false;
	stack_punch(arena, stacklet);
	stack_put(arena, stacklet);
	return true;
}

struct fk_stack *stack_new(struct stack_cache *cache)
{
	return stacklet_new(cache, STACK_MIN);
}

void stack_free(struct stack_cache *cache, struct fk_stack *stack)
{
	if (!stack)
		return;
	if (stack->spare)
		stacklet_free(cache, stack->spare);
	stacklet_free(cache, stack);
}

struct fk_stack *stack_push(struct stack_cache *cache, struct fk_stack *top, char *sp, size_t size)
{
	uint64_t need = sizeof(struct fk_stack) + size;
	struct fk_stack *next = top->spare;

	if (next && UINT64_C(1) << next->size_log < need) {
		stacklet_free(cache, next);
		top->spare = next = NULL;
	}
	if (!next) {
		uint64_t twice = UINT64_C(2) << top->size_log;

		next = stacklet_new(cache, need > twice ? need : twice);
		if (!next)
			return NULL;
	}
	next->prev = top;
	next->below = sp;
	top->spare = next;
	return next;
}

struct fk_stack *stack_pop(struct stack_cache *cache, struct fk_stack *top)
{
	if (top->spare) {
		stacklet_free(cache, top->spare);
		top->spare = NULL;
	}
	return top->prev;
}
