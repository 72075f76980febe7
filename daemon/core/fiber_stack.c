/* SPDX-License-Identifier: MIT */
/*
 * fiber_stack.c - allocation and reuse of the stacks that fibers run on
 *
 * Threads: see fiber_stack.h.
 *
 * THE MAPPING
 *   One mapping, divided into whole chunks for each node. A chunk is cut into stacks of one kind
 *   and class, from its start on and as needed. When all of them are free it may become a free
 *   chunk again. Descriptors of stacks are in a separate, sparse array, which an overflow does not
 *   reach. It has room for each chunk to be cut into the smallest class, so divisions map an
 *   address to its stack.
 *
 * 	  chunk (4 MiB)
 * 	|ggggg |  stack 0  |g|  stack 1  |g|	GUARDED: g are guards
 * 	|    c |  stack 0 c|   stack 1  c|	SLAB: c is the canary of the stack above it
 *
 *   The canary of a slab's stack is in the highest page of the stack below it, the page that a
 *   fiber touches first. So a stack that is used at shallow depth costs one page instead of two,
 *   and checking the canary allocates no page.
 *
 * GUARDS
 *   MADV_GUARD_INSTALL (Linux 6.13) marks a page in the page table and costs no mapping. Whether
 *   the kernel has it is tested at the start. Otherwise a guard is a mapping without rights, which
 *   adds two mappings to the process. vm.max_map_count limits them, and modules, segments and
 *   malloc() need some, so stacks use at most half. A guard is made when its stack is used for the
 *   first time, outside the lock.
 *
 * FREE STACKS
 *   U. Each stack that is made is in one state: USED; KEPT or BARE, in that list of its shelf; or
 *      LEAVING, while a worker gives its pages back.
 *   A stack is taken in this order: the last one put (its top is in the cache), one without pages,
 *   one of an open, a free or a new chunk. If there is none, all kept stacks of the node are given
 *   back, which may free a chunk. Then the next node is tried. When a node keeps too much, a thread
 *   that puts a stack gives back the oldest one of the fullest shelf. With it go all kept stacks of
 *   its chunk. So neighbours need one system call, and a chunk without used stacks is freed as a
 *   whole. Several threads may do it at once, and no thread puts stacks faster than pages are given
 *   back.
 *
 * PAGES
 *   P1. The highest page of a slab's stack holds the canary of the stack above, and stays while
 *       that one is or may be in use. It is wiped instead. If both stacks are given back, it is
 *       too: the thread that gives one of them back also takes the other one if it is bare.
 *   P2. A thread that finds no stack while another thread cleans waits for that one and tries once
 *       more. So cleaning never makes a request fail.
 *   Huge pages would allocate 2 MiB at each first touch, so they are disabled for the whole
 *   mapping.
 *
 * HIGH WATER
 *   mincore(2) returns which pages exist, and the lowest one with nonzero bytes is read. Reading
 *   all pages instead would fault in each untouched one; mincore() alone would count whole pages,
 *   and those that were only read.
 *
 * LOCKS
 *   One for each node, held for some dozen instructions to get and to put. A thread that gives
 *   pages back holds it while it scans the stacks of a chunk, 255 at most, but not during system
 *   calls. A thread never holds two of them.
 */
#include "daemon/core/fiber_stack.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/list.h"
#include "common/relaxed.h"
#include "common/sanitizer.h"

#ifndef MADV_GUARD_INSTALL /* glibc 2.41 */
#define MADV_GUARD_INSTALL 102
#define MADV_GUARD_REMOVE  103
#endif

#define FIBER_STACK_MAPPINGS	 65530u /* vm.max_map_count by default */
#define FIBER_STACK_MAPPINGS_FOR 4u	/* a guard is two, and stacks get half of them */

enum fiber_stack_state {
	FIBER_STACK_USED,
	FIBER_STACK_KEPT,
	FIBER_STACK_BARE,
	FIBER_STACK_LEAVING,
};

_Static_assert(sizeof(struct fiber_stack) == CACHE_LINE, "of a million of them, each is paid for");

/* ------------------------------------------------------------------------ places */

static size_t fiber_stack_class_size(uint32_t class)
{
	return FIBER_STACK_MIN << class;
}

/* Returns FIBER_STACK_CLASSES if no class is large enough. */
static uint32_t fiber_stack_class(size_t size)
{
	uint32_t class = 0;

	while (class < FIBER_STACK_CLASSES && fiber_stack_class_size(class) < size)
		class ++;
	return class;
}

static uint32_t fiber_stack_shape(uint32_t kind, uint32_t class)
{
	return kind * FIBER_STACK_CLASSES + class;
}

/* Bytes from one stack to the next. */
static size_t fiber_stack_stride(uint32_t shape)
{
	size_t size = fiber_stack_class_size(shape % FIBER_STACK_CLASSES);

	return shape < FIBER_STACK_CLASSES ? size + FIBER_STACK_PAGE : size;
}

/* Number of stacks in a chunk, whose first page has the guard or canary of the lowest. */
static uint32_t fiber_stack_per_chunk(uint32_t shape)
{
	return (uint32_t)((FIBER_STACK_CHUNK - FIBER_STACK_PAGE) / fiber_stack_stride(shape));
}

static uint64_t fiber_stack_chunk_index(const struct fiber_stacks *stacks,
					const struct fiber_stack_chunk *chunk)
{
	return (uint64_t)(chunk - stacks->chunks);
}

static char *fiber_stack_chunk_base(const struct fiber_stacks *stacks,
				    const struct fiber_stack_chunk *chunk)
{
	return stacks->base + fiber_stack_chunk_index(stacks, chunk) * FIBER_STACK_CHUNK;
}

static struct fiber_stack *fiber_stack_first(const struct fiber_stacks *stacks,
					     const struct fiber_stack_chunk *chunk)
{
	return stacks->stacks + fiber_stack_chunk_index(stacks, chunk) * FIBER_STACK_PER_CHUNK;
}

static struct fiber_stack_chunk *fiber_stack_chunk(const struct fiber_stacks *stacks,
						   const struct fiber_stack *stack)
{
	return stacks->chunks + (uint64_t)(stack - stacks->stacks) / FIBER_STACK_PER_CHUNK;
}

void *fiber_stacks_part(const struct fiber_stacks *stacks, uint32_t node, size_t *ret_size)
{
	uint64_t part = stacks->n_chunks / stacks->n_nodes * FIBER_STACK_CHUNK;

	*ret_size = part;
	return stacks->base + node * part;
}

/* ------------------------------------------------------------------------ guards */

/* Makes a guard for a stack that the caller holds. Returns 0 or a negative errno. */
static int fiber_stack_guard(struct fiber_stacks *stacks, struct fiber_stack *stack)
{
	char *guard = stack->low - FIBER_STACK_PAGE;

	if (!stacks->protect)
		return madvise(guard, FIBER_STACK_PAGE, MADV_GUARD_INSTALL) < 0 ? -errno : 0;
	/* Relaxed: a sum. */
	if (add_relaxed(&stacks->guards, 1) < stacks->max_guards &&
	    mprotect(guard, FIBER_STACK_PAGE, PROT_NONE) == 0)
		return 0;
	/* The kernel returns ENOMEM if there are too many mappings. */
	sub_relaxed(&stacks->guards, 1);
	return -EMFILE;
}

/* Removes all guards of a chunk without used stacks. False: some may be left, and each stack must
 * get a new one. */
static bool fiber_stack_unguard(struct fiber_stacks *stacks, struct fiber_stack_chunk *chunk)
{
	char *base = fiber_stack_chunk_base(stacks, chunk);
	uint32_t n = chunk->guards, made = chunk->made;
	struct fiber_stack *first = fiber_stack_first(stacks, chunk);

	chunk->guards = 0;
	sub_relaxed(&stacks->guards, n);
	for (struct fiber_stack *stack = first; stack < first + made; stack++)
		stack->guarded = false;
	if (!stacks->protect)
		return madvise(base, FIBER_STACK_CHUNK, MADV_GUARD_REMOVE) == 0;
	return !n || mprotect(base, FIBER_STACK_CHUNK, PROT_READ | PROT_WRITE) == 0;
}

/* Maximum number of guards that cost a mapping each. */
static uint32_t fiber_stack_max_guards(void)
{
	_cleanup_close_ int fd = open("/proc/sys/vm/max_map_count", O_RDONLY | O_CLOEXEC);
	char text[32];
	ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
	unsigned long mappings = FIBER_STACK_MAPPINGS;

	if (n > 0) {
		text[n] = '\0';
		mappings = strtoul(text, NULL, 10);
	}
	return (uint32_t)min(mappings / FIBER_STACK_MAPPINGS_FOR, (unsigned long)INT_MAX);
}

/* ------------------------------------------------------------------------ lists, under the lock */

static void fiber_stack_list_add(struct fiber_stack_list *list, struct fiber_stack *stack)
{
	list_add_first(&list->stacks, &stack->link);
	list->bytes += fiber_stack_class_size(stack->class);
}

static void fiber_stack_list_remove(struct fiber_stack_list *list, struct fiber_stack *stack)
{
	list_remove(&stack->link);
	list->bytes -= fiber_stack_class_size(stack->class);
}

static struct fiber_stack_shelf *fiber_stack_shelf(struct fiber_stacks_node *node,
						   const struct fiber_stack *stack)
{
	return &node->shelves[fiber_stack_shape(stack->kind, stack->class)];
}

/* Sets or clears the stack's bit in its chunk. */
static void fiber_stack_mark(struct fiber_stacks *stacks, const struct fiber_stack *stack,
			     bool kept)
{
	struct fiber_stack_chunk *chunk = fiber_stack_chunk(stacks, stack);
	uint64_t i = (uint64_t)(stack - fiber_stack_first(stacks, chunk));
	uint64_t bit = UINT64_C(1) << i % 64;

	if (kept)
		chunk->kept[i / 64] |= bit;
	else
		chunk->kept[i / 64] &= ~bit;
}

/* Puts a stack that is in no list into the list of this state. */
static void fiber_stack_shelve(struct fiber_stacks *stacks, struct fiber_stack *stack,
			       enum fiber_stack_state state)
{
	struct fiber_stacks_node *node = &stacks->nodes[stack->node];
	struct fiber_stack_shelf *shelf = fiber_stack_shelf(node, stack);

	stack->state = (uint8_t)state;
	fiber_stack_list_add(state == FIBER_STACK_KEPT ? &shelf->kept : &shelf->bare, stack);
	if (state != FIBER_STACK_KEPT)
		return;
	fiber_stack_mark(stacks, stack, true);
	node->count.cached += fiber_stack_class_size(stack->class);
	node->count.n_cached++;
}

/* Takes a stack out of its list. */
static void fiber_stack_unshelve(struct fiber_stacks *stacks, struct fiber_stack *stack,
				 enum fiber_stack_state next)
{
	struct fiber_stacks_node *node = &stacks->nodes[stack->node];
	struct fiber_stack_shelf *shelf = fiber_stack_shelf(node, stack);
	bool kept = stack->state == FIBER_STACK_KEPT;

	stack->state = (uint8_t)next;
	fiber_stack_list_remove(kept ? &shelf->kept : &shelf->bare, stack);
	if (!kept)
		return;
	fiber_stack_mark(stacks, stack, false);
	node->count.cached -= fiber_stack_class_size(stack->class);
	node->count.n_cached--;
}

/* Returns an unused chunk for stacks of this shape, or NULL. */
static struct fiber_stack_chunk *fiber_stack_open_chunk(struct fiber_stacks_node *node,
							uint32_t shape)
{
	struct fiber_stack_chunk *chunk = node->free;

	if (chunk)
		node->free = chunk->next;
	else if (node->next < node->end)
		chunk = node->next++;
	else
		return NULL;
	chunk->made = 0;
	chunk->shape = shape;
	node->count.mapped += FIBER_STACK_CHUNK;
	return chunk;
}

/* Returns a new stack, or NULL. */
static struct fiber_stack *fiber_stack_cut(struct fiber_stacks *stacks,
					   struct fiber_stacks_node *node, uint32_t shape)
{
	struct fiber_stack_shelf *shelf = &node->shelves[shape];
	uint32_t class = shape % FIBER_STACK_CLASSES, kind = shape / FIBER_STACK_CLASSES, i;
	struct fiber_stack_chunk *chunk = shelf->open;
	struct fiber_stack *stack;

	if (!chunk)
		chunk = fiber_stack_open_chunk(node, shape);
	if (!chunk)
		return NULL;
	i = chunk->made;
	stack = fiber_stack_first(stacks, chunk) + i;
	*stack = (struct fiber_stack){
		.low = fiber_stack_chunk_base(stacks, chunk) + FIBER_STACK_PAGE +
		       i * fiber_stack_stride(shape),
		.size = fiber_stack_class_size(class) -
			(kind == FIBER_STACK_SLAB ? FIBER_STACK_CANARY : 0),
		.node = (uint32_t)(node - stacks->nodes),
		.kind = (uint8_t)kind,
		.class = (uint8_t) class,
		.state = FIBER_STACK_USED,
		.fresh = true,
	};
	chunk->made = i + 1;
	shelf->open = i + 1 < fiber_stack_per_chunk(shape) ? chunk : NULL;
	node->count.made++;
	return stack;
}

/* ------------------------------------------------------------------------ giving pages back */

/* Returns the oldest kept stack of the shape that keeps most bytes. There must be one. */
static struct fiber_stack *fiber_stack_oldest(struct fiber_stacks_node *node)
{
	struct fiber_stack_list *most = &node->shelves[0].kept;

	for (uint32_t i = 1; i < FIBER_STACK_SHAPES; i++)
		if (node->shelves[i].kept.bytes > most->bytes)
			most = &node->shelves[i].kept;
	return list_last(&most->stacks, struct fiber_stack, link);
}

/* Moves the stack from its list to the front of the chunk's leaving stacks. */
static void fiber_stack_leave(struct fiber_stacks *stacks, struct fiber_stack_chunk *chunk,
			      uint32_t i, struct list_link *leaving)
{
	struct fiber_stack *stack = fiber_stack_first(stacks, chunk) + i;

	if (stack->state != FIBER_STACK_KEPT && stack->state != FIBER_STACK_BARE)
		return;
	stacks->nodes[stack->node].count.returned += stack->state == FIBER_STACK_KEPT;
	fiber_stack_unshelve(stacks, stack, FIBER_STACK_LEAVING);
	chunk->leaving++;
	list_add_first(leaving, &stack->link);
}

/* Makes all kept stacks of a chunk and their bare neighbours (P1) leave; all free ones if the chunk
 * leaves as a whole. They are listed in order of address. */
static void fiber_stack_leave_all(struct fiber_stacks *stacks, struct fiber_stack_chunk *chunk,
				  bool whole, struct list_link *leaving)
{
	uint32_t n = chunk->made;
	uint64_t near[FIBER_STACK_PER_CHUNK / 64 + 2] = { 0 }; /* bits, and a word at each end */

	for (uint32_t i = 0; i < FIBER_STACK_PER_CHUNK / 64; i++) {
		near[i] |= chunk->kept[i] << 63;
		near[i + 1] |= chunk->kept[i] << 1 | chunk->kept[i] | chunk->kept[i] >> 1;
		near[i + 2] |= chunk->kept[i] >> 63;
	}
	while (n--)
		if (whole || near[n / 64 + 1] >> n % 64 & 1)
			fiber_stack_leave(stacks, chunk, n, leaving);
}

/*
 * Gives back the pages of neighbouring stacks, from the first to the last. top: including the
 * highest page. Not under the lock. If the kernel refuses, the pages stay, and no stack is fresh.
 */
static void fiber_stack_give_back(struct fiber_stack *from, struct fiber_stack *last, bool top)
{
	char *end = (char *)align_up((uintptr_t)(last->low + last->size), FIBER_STACK_PAGE);
	bool gone;

	if (!top)
		end -= FIBER_STACK_PAGE;
	gone = madvise(from->low, (size_t)(end - from->low), MADV_DONTNEED) == 0;
	/* A fresh stack was bare, so the page may not exist; do not allocate it. */
	if (gone && !top && !last->fresh)
		memset(end, 0, (size_t)(last->low + last->size - end));
	for (struct fiber_stack *s = from; s <= last; s++)
		s->fresh = gone;
}

/* The same for all stacks that leave a chunk, which ends before end. */
static void fiber_stack_give_back_all(const struct list_link *leaving,
				      const struct fiber_stack *end)
{
	struct fiber_stack *stack, *first = NULL;

	list_for_each (stack, leaving, link) {
		if (!first)
			first = stack;
		if (stack->link.next == &(stack + 1)->link)
			continue;
		/* P1. */
		fiber_stack_give_back(first, stack,
				      stack->kind == FIBER_STACK_GUARDED || stack + 1 == end);
		first = NULL;
	}
}

/* Gives back a chunk without used stacks. Not under the lock. False: unchanged. */
static bool fiber_stack_give_back_chunk(struct fiber_stacks *stacks,
					struct fiber_stack_chunk *chunk, uint32_t shape)
{
	return madvise(fiber_stack_chunk_base(stacks, chunk), FIBER_STACK_CHUNK, MADV_DONTNEED) ==
		       0 &&
	       (shape >= FIBER_STACK_CLASSES || fiber_stack_unguard(stacks, chunk));
}

/* Puts an unused chunk into the node's free list. */
static void fiber_stack_close_chunk(struct fiber_stacks_node *node, struct fiber_stack_chunk *chunk)
{
	chunk->leaving = 0;
	chunk->next = node->free;
	node->free = chunk;
	node->count.mapped -= FIBER_STACK_CHUNK;
}

/* Makes stacks that have left free again; they have no pages. */
static void fiber_stack_bare(struct fiber_stacks *stacks, struct fiber_stack_chunk *chunk,
			     struct list_link *leaving)
{
	struct fiber_stack *stack;

	list_for_each (stack, leaving, link) {
		chunk->leaving--;
		list_remove(&stack->link);
		fiber_stack_shelve(stacks, stack, FIBER_STACK_BARE);
	}
}

/* Gives back the kept stacks of a chunk, or the whole chunk if it has no used stack. Releases
 * the lock while it works. True: the chunk has become unused since and was not given back as a
 * whole. */
static bool fiber_stack_clean_chunk(struct fiber_stacks *stacks, struct fiber_stacks_node *node,
				    struct fiber_stack_chunk *chunk)
{
	uint32_t shape = chunk->shape;
	bool whole = !chunk->used && !chunk->leaving, gone = false;
	const struct fiber_stack *end =
		fiber_stack_first(stacks, chunk) + fiber_stack_per_chunk(shape);
	struct list_link leaving = { 0 };

	fiber_stack_leave_all(stacks, chunk, whole, &leaving);
	/* No stack may be cut out of it while it is unlocked. */
	if (whole && node->shelves[shape].open == chunk)
		node->shelves[shape].open = NULL;
	pthread_mutex_unlock(&node->lock);
	if (whole)
		gone = fiber_stack_give_back_chunk(stacks, chunk, shape);
	if (!gone)
		fiber_stack_give_back_all(&leaving, end);
	pthread_mutex_lock(&node->lock);
	if (gone)
		fiber_stack_close_chunk(node, chunk);
	else
		fiber_stack_bare(stacks, chunk, &leaving);
	return !whole && !chunk->used && !chunk->leaving;
}

/* Gives pages back until at most keep bytes are kept. Called under the lock, which it releases. */
static void fiber_stack_clean(struct fiber_stacks *stacks, struct fiber_stacks_node *node,
			      uint64_t keep)
{
	while (node->count.cached > keep) {
		struct fiber_stack_chunk *chunk =
			fiber_stack_chunk(stacks, fiber_stack_oldest(node));

		node->cleaning++;
		/* Again, if the last stack was put, or given back by another thread, while
		 * unlocked. */
		if (fiber_stack_clean_chunk(stacks, node, chunk))
			(void)fiber_stack_clean_chunk(stacks, node, chunk);
		node->cleaning--;
		pthread_cond_broadcast(&node->cleaned);
	}
}

/* ------------------------------------------------------------------------ get and put */

/* Returns a free or a new stack, or NULL. Under the lock. */
static struct fiber_stack *fiber_stack_find(struct fiber_stacks *stacks,
					    struct fiber_stacks_node *node, uint32_t shape)
{
	struct fiber_stack_shelf *shelf = &node->shelves[shape];
	struct fiber_stack *stack = list_first(&shelf->kept.stacks, struct fiber_stack, link);

	if (!stack)
		stack = list_first(&shelf->bare.stacks, struct fiber_stack, link);
	if (!stack)
		return fiber_stack_cut(stacks, node, shape);
	fiber_stack_unshelve(stacks, stack, FIBER_STACK_USED);
	node->count.reused++;
	return stack;
}

/* Returns a stack of this node or NULL. A new one has no guard or canary yet. */
static struct fiber_stack *fiber_stack_take(struct fiber_stacks *stacks,
					    struct fiber_stacks_node *node, uint32_t shape)
{
	struct fiber_stack *stack;

	pthread_mutex_lock(&node->lock);
	while (!(stack = fiber_stack_find(stacks, node, shape))) {
		if (node->count.cached)
			fiber_stack_clean(stacks, node, 0);
		else if (node->cleaning) /* P2 */
			pthread_cond_wait(&node->cleaned, &node->lock);
		else
			break;
	}
	if (stack) {
		fiber_stack_chunk(stacks, stack)->used++;
		node->count.used += fiber_stack_class_size(stack->class);
		node->count.n_used++;
	}
	pthread_mutex_unlock(&node->lock);
	return stack;
}

/* Puts the stack into its node's list. */
static void fiber_stack_drop(struct fiber_stacks *stacks, struct fiber_stack *stack)
{
	struct fiber_stacks_node *node = &stacks->nodes[stack->node];

	pthread_mutex_lock(&node->lock);
	fiber_stack_chunk(stacks, stack)->used--;
	node->count.used -= fiber_stack_class_size(stack->class);
	node->count.n_used--;
	fiber_stack_shelve(stacks, stack, FIBER_STACK_KEPT);
	fiber_stack_clean(stacks, node, stacks->keep);
	pthread_mutex_unlock(&node->lock);
}

static int fiber_stack_refuse(struct fiber_stacks *stacks, uint32_t node, int r)
{
	pthread_mutex_lock(&stacks->nodes[node].lock);
	stacks->nodes[node].count.refused++;
	pthread_mutex_unlock(&stacks->nodes[node].lock);
	return r;
}

/* Gives back all kept stacks of all nodes, before a guard is refused. */
static void fiber_stack_clean_all(struct fiber_stacks *stacks)
{
	for (uint32_t i = 0; i < stacks->n_nodes; i++) {
		struct fiber_stacks_node *node = &stacks->nodes[i];

		pthread_mutex_lock(&node->lock);
		fiber_stack_clean(stacks, node, 0);
		while (node->cleaning)
			pthread_cond_wait(&node->cleaned, &node->lock);
		pthread_mutex_unlock(&node->lock);
	}
}

/* Makes the guard of a stack that the caller holds. */
static int fiber_stack_see_to_guard(struct fiber_stacks *stacks, struct fiber_stack *stack)
{
	struct fiber_stacks_node *node = &stacks->nodes[stack->node];
	int r = fiber_stack_guard(stacks, stack);

	if (r == -EMFILE) {
		fiber_stack_clean_all(stacks);
		r = fiber_stack_guard(stacks, stack);
	}
	if (r < 0)
		return r;
	stack->guarded = true;
	if (!stacks->protect)
		return 0;
	pthread_mutex_lock(&node->lock);
	fiber_stack_chunk(stacks, stack)->guards++;
	pthread_mutex_unlock(&node->lock);
	return 0;
}

int fiber_stack_get(struct fiber_stacks *stacks, uint32_t node, size_t size,
		    enum fiber_stack_kind kind, struct fiber_stack **ret_stack)
{
	uint32_t class = fiber_stack_class(size);
	struct fiber_stack *stack = NULL;
	int r = 0;

	if (node >= stacks->n_nodes || class == FIBER_STACK_CLASSES ||
	    (kind != FIBER_STACK_GUARDED && kind != FIBER_STACK_SLAB))
		return -EINVAL;
	for (uint32_t i = 0; i < stacks->n_nodes && !stack; i++)
		stack = fiber_stack_take(stacks, &stacks->nodes[(node + i) % stacks->n_nodes],
					 fiber_stack_shape(kind, class));
	if (!stack)
		return fiber_stack_refuse(stacks, node, -ENOMEM);
	if (kind == FIBER_STACK_GUARDED && !stack->guarded)
		r = fiber_stack_see_to_guard(stacks, stack);
	if (r < 0) {
		fiber_stack_drop(stacks, stack);
		return fiber_stack_refuse(stacks, node, r);
	}
	if (kind == FIBER_STACK_SLAB)
		for (size_t at = sizeof(uint64_t); at <= FIBER_STACK_CANARY; at += sizeof(uint64_t))
			*(uint64_t *)(void *)(stack->low - at) = fiber_stack_canary(stack);
	*ret_stack = stack;
	return 0;
}

void fiber_stack_put(struct fiber_stacks *stacks, struct fiber_stack *stack)
{
	if (!stack)
		return;
	stack->fresh = false;
	/* Functions of the last fiber may not have returned. */
	sanitizer_clean(stack->low, stack->size);
	if (stack->kind == FIBER_STACK_SLAB)
		sanitizer_clean(stack->low - FIBER_STACK_CANARY, FIBER_STACK_CANARY);
	fiber_stack_drop(stacks, stack);
}

/* ------------------------------------------------------------------------ measuring */

/* Returns the first nonzero word between from and end. */
static __attribute__((no_sanitize("address", "thread"))) const char *
fiber_stack_written(const char *from, const char *end)
{
	while (from < end && !*(const volatile uint64_t *)(const volatile void *)from)
		from += sizeof(uint64_t);
	return from;
}

size_t fiber_stack_high_water(const struct fiber_stack *stack)
{
	unsigned char there[FIBER_STACK_MAX / FIBER_STACK_PAGE];
	char *end = stack->low + stack->size;

	/* Without mincore(2) all pages are read. */
	if (mincore(stack->low, stack->size, there) < 0)
		memset(there, 1, sizeof(there));
	for (char *page = stack->low; page < end; page += FIBER_STACK_PAGE) {
		char *stop = min(page + FIBER_STACK_PAGE, end);
		const char *at = stop;

		if (there[(size_t)(page - stack->low) / FIBER_STACK_PAGE] & 1)
			at = fiber_stack_written(page, stop);
		if (at < stop)
			return (size_t)(end - at);
	}
	return 0;
}

void fiber_stacks_count(struct fiber_stacks *stacks, struct fiber_stacks_count *ret)
{
	memset(ret, 0, sizeof(*ret));
	for (uint32_t i = 0; i < stacks->n_nodes; i++) {
		struct fiber_stacks_node *node = &stacks->nodes[i];

		pthread_mutex_lock(&node->lock);
		ret->mapped += node->count.mapped;
		ret->used += node->count.used;
		ret->n_used += node->count.n_used;
		ret->cached += node->count.cached;
		ret->n_cached += node->count.n_cached;
		ret->made += node->count.made;
		ret->reused += node->count.reused;
		ret->returned += node->count.returned;
		ret->refused += node->count.refused;
		pthread_mutex_unlock(&node->lock);
	}
}

/* ------------------------------------------------------------------------ begin and end */

/* Returns this many bytes of sparse memory, or NULL. */
static void *fiber_stacks_map(uint64_t bytes)
{
	void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	return memory == MAP_FAILED ? NULL : memory;
}

/* The same, aligned to a chunk. */
static char *fiber_stacks_map_chunks(uint64_t bytes)
{
	char *memory = fiber_stacks_map(bytes + FIBER_STACK_CHUNK), *base;

	if (!memory)
		return NULL;
	base = (char *)align_up((uintptr_t)memory, FIBER_STACK_CHUNK);
	if (base > memory)
		munmap(memory, (size_t)(base - memory));
	munmap(base + bytes, (size_t)(memory + FIBER_STACK_CHUNK - base));
	return base;
}

static uint64_t fiber_stacks_of(const struct fiber_stacks *stacks)
{
	return stacks->n_chunks * FIBER_STACK_PER_CHUNK * sizeof(struct fiber_stack);
}

/* True if the kernel makes guards that cost no mapping. */
static bool fiber_stacks_have_guards(const struct fiber_stacks *stacks)
{
	return madvise(stacks->base, FIBER_STACK_PAGE, MADV_GUARD_INSTALL) == 0 &&
	       madvise(stacks->base, FIBER_STACK_PAGE, MADV_GUARD_REMOVE) == 0;
}

int fiber_stacks_init(struct fiber_stacks *stacks, uint32_t n_nodes,
		      const struct fiber_stacks_options *options)
{
	uint64_t part = n_nodes ? options->space / n_nodes / FIBER_STACK_CHUNK : 0;

	if (!part)
		return -EINVAL;
	if (sysconf(_SC_PAGESIZE) != FIBER_STACK_PAGE)
		return -ENOTSUP;
	*stacks = (struct fiber_stacks){
		.n_chunks = part * n_nodes,
		.keep = options->keep,
		.n_nodes = n_nodes,
		.max_guards = options->guards,
	};
	stacks->nodes = aligned_alloc(CACHE_LINE, n_nodes * sizeof(*stacks->nodes));
	stacks->chunks = fiber_stacks_map(stacks->n_chunks * sizeof(*stacks->chunks));
	stacks->stacks = fiber_stacks_map(fiber_stacks_of(stacks));
	stacks->base = fiber_stacks_map_chunks(stacks->n_chunks * FIBER_STACK_CHUNK);
	if (!stacks->nodes || !stacks->chunks || !stacks->stacks || !stacks->base) {
		stacks->n_nodes = 0;
		fiber_stacks_fini(stacks);
		return -ENOMEM;
	}
	/* Kernels without huge pages return EINVAL. */
	(void)madvise(stacks->base, stacks->n_chunks * FIBER_STACK_CHUNK, MADV_NOHUGEPAGE);
	stacks->protect = options->protect || !fiber_stacks_have_guards(stacks);
	if (stacks->protect && !stacks->max_guards)
		stacks->max_guards = fiber_stack_max_guards();
	memset(stacks->nodes, 0, n_nodes * sizeof(*stacks->nodes));
	for (uint32_t i = 0; i < n_nodes; i++) {
		pthread_mutex_init(&stacks->nodes[i].lock, NULL);
		pthread_cond_init(&stacks->nodes[i].cleaned, NULL);
		stacks->nodes[i].next = stacks->chunks + i * part;
		stacks->nodes[i].end = stacks->nodes[i].next + part;
	}
	return 0;
}

void fiber_stacks_fini(struct fiber_stacks *stacks)
{
	for (uint32_t i = 0; i < stacks->n_nodes; i++) {
		pthread_cond_destroy(&stacks->nodes[i].cleaned);
		pthread_mutex_destroy(&stacks->nodes[i].lock);
	}
	if (stacks->base)
		munmap(stacks->base, stacks->n_chunks * FIBER_STACK_CHUNK);
	if (stacks->stacks)
		munmap(stacks->stacks, fiber_stacks_of(stacks));
	if (stacks->chunks)
		munmap(stacks->chunks, stacks->n_chunks * sizeof(*stacks->chunks));
	free(stacks->nodes);
	*stacks = (struct fiber_stacks){ 0 };
}
