/* SPDX-License-Identifier: MIT */
#include "daemon/stack.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

_Static_assert(sizeof(struct fk_stack) % 8 == 0, "the stub ends where the first frame starts");
_Static_assert(offsetof(struct fk_stack, stub) + sizeof(struct fk_frame) == sizeof(struct fk_stack),
	       "the stub is the last of a stacklet's head");

int stack_arena_init(struct stack_arena *arena, char *base, char *end, int fd, char *map)
{
	memset(arena, 0, sizeof(*arena));
	arena->next = base;
	arena->end = end;
	arena->fd = fd;
	arena->base = map;
	return -pthread_mutex_init(&arena->lock, NULL);
}

void stack_arena_fini(struct stack_arena *arena)
{
	pthread_mutex_destroy(&arena->lock);
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
		uint64_t bytes = UINT64_C(1) << (class + STACK_MIN_LOG);

		pthread_mutex_lock(&arena->lock);
		stacklet = arena->free[class];
		if (stacklet) {
			arena->free[class] = stacklet->prev;
		} else if ((uint64_t)(arena->end - arena->next) >= bytes) {
			stacklet = (struct fk_stack *)arena->next;
			arena->next += bytes;
		}
		pthread_mutex_unlock(&arena->lock);
		if (!stacklet)
			return NULL;
		stacklet->size_log = class + STACK_MIN_LOG;
		stacklet->end = (char *)stacklet + bytes;
	}
	cache->allocated++;
	cache->bytes += (int64_t)1 << stacklet->size_log;
	stacklet->prev = NULL;
	stacklet->spare = NULL;
	stacklet->top = stacklet;
	stacklet->stub.task = NULL;
	stacklet->stub.slot = 0;
	return stacklet;
}

static void stacklet_free(struct stack_cache *cache, struct fk_stack *stacklet)
{
	uint32_t class = (uint32_t)stacklet->size_log - STACK_MIN_LOG;
	uint64_t bytes = UINT64_C(1) << stacklet->size_log;

	cache->bytes -= (int64_t)bytes;
	if (bytes <= STACK_KEEP_MAX && cache->n[class] < STACK_KEEP) {
		stacklet->prev = cache->free[class];
		cache->free[class] = stacklet;
		cache->n[class]++;
		return;
	}
	if (bytes > STACK_KEEP_MAX)
		stack_punch(cache->arena, stacklet);
	pthread_mutex_lock(&cache->arena->lock);
	stacklet->prev = cache->arena->free[class];
	cache->arena->free[class] = stacklet;
	pthread_mutex_unlock(&cache->arena->lock);
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
	struct fk_frame *below = (struct fk_frame *)sp - 1;

	next->prev = top;
	next->below = sp;
	next->stub.slot = (uintptr_t)(below->task ? below : (struct fk_frame *)below->slot);
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
