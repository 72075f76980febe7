/* SPDX-License-Identifier: MIT */
/*
 * fiber_stack.c - the stacks that fibers run on: where they come from, and where they go
 *
 * Threads: see fiber_stack.h.
 *
 * THE MAPPING
 *   One, in parts of whole chunks for each node. A chunk is cut, from its begin on and as they are
 *   wanted, into stacks of one kind and class; when all of them are free it may become a free chunk
 *   again. What is known of a stack stands in an array of its own, where an overflow does not come
 *   to: as many for each chunk as there could be of the smallest class, so that an address leads
 *   to its stack by divisions alone. That array is sparse, too.
 *
 * 	  chunk (4 MiB)
 * 	|ggggg |  stack 0  |g|  stack 1  |g|	GUARDED: g are guards
 * 	|    c |  stack 0 c|   stack 1  c|	SLAB: c is the canary of the stack above it
 *
 *   The canary of a slab's stack is in the highest page of the stack below, which is the one that a
 *   fiber touches first. So a stack that is used at shallow depth costs one page and not two, and
 *   to look at the canary makes none.
 *
 * GUARDS
 *   MADV_GUARD_INSTALL (Linux 6.13) marks a page in the page table: it costs no mapping. Whether
 *   the kernel has it is tried at the beginning. Else a guard is a mapping without rights, which
 *   makes two more of the one that it stands in. There may be vm.max_map_count of them in the
 *   process, of which modules, segments and malloc() need some, so stacks take half of these.
 *   A guard is made when its stack is got for the first time, outside the lock.
 *
 * FREE STACKS
 *   U. Each stack that is made is in one state: USED; KEPT or BARE, in that list of its shelf; or
 *      LEAVING, in the hands of a worker that gives its pages back.
 *   Taken is, in this order: the one that was put last (its top is in the cache), one without
 *   pages, one that is cut out of a chunk, of a free chunk, of a chunk that was never used; what
 *   all others of the node keep, if that makes a chunk free; one of the next node.
 *   When a node keeps too much, the oldest stack of the shelf that keeps most has to go, and with
 *   it all that is kept in its chunk: so neighbours go with one system call, and a chunk in which
 *   no stack is used as a whole. The thread that puts one stack too many does that, so several may
 *   do it at once, and no thread can put faster than pages go.
 *
 * PAGES
 *   P1. The highest page of a slab's stack stays as long as the one above it is in use, or might
 *       be, because its canary is there. It is wiped instead. If both go, it goes: the thread that
 *       gives one of them back takes hold of the other for that, if it is bare.
 *   P2. A thread that finds nothing waits while another cleans, and looks once more: so none is
 *       refused for what is just being cleaned.
 *   Huge pages would make 2 MiB of each first touch: they are refused for the whole mapping.
 *
 * HIGH WATER
 *   mincore(2) says which pages are there, and the lowest one that has anything in it is read. To
 *   read all of them instead would be a page fault for each untouched one; mincore() alone would
 *   count in pages, and those that were only read.
 *
 * LOCKS
 *   One for each node, held for some dozen instructions to get and to put; a thread that gives
 *   pages back holds it while it looks at the stacks of a chunk, 255 at most, and not while the
 *   kernel is at it. None while another is held.
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

#ifdef FK_SANITIZE_ADDRESS
#include <sanitizer/asan_interface.h>
#define fiber_stack_open(p, n) ASAN_UNPOISON_MEMORY_REGION(p, n)
#else
#define fiber_stack_open(p, n) ((void)(p), (void)(n))
#endif

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

/* FIBER_STACK_CLASSES if there is none. */
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

/* From one stack to the next. */
static size_t fiber_stack_stride(uint32_t shape)
{
	size_t size = fiber_stack_class_size(shape % FIBER_STACK_CLASSES);

	return shape < FIBER_STACK_CLASSES ? size + FIBER_STACK_PAGE : size;
}

/* How many of them there are in a chunk, whose first page has the edge of the lowest. */
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

/* A guard for a stack that the caller has. Returns 0 or a negative errno. */
static int fiber_stack_guard(struct fiber_stacks *stacks, struct fiber_stack *stack)
{
	char *guard = stack->low - FIBER_STACK_PAGE;

	if (!stacks->protect)
		return madvise(guard, FIBER_STACK_PAGE, MADV_GUARD_INSTALL) < 0 ? -errno : 0;
	/* Relaxed: a sum. */
	if (add_relaxed(&stacks->guards, 1) < stacks->max_guards &&
	    mprotect(guard, FIBER_STACK_PAGE, PROT_NONE) == 0)
		return 0;
	/* The kernel says ENOMEM where there are too many mappings. */
	sub_relaxed(&stacks->guards, 1);
	return -EMFILE;
}

/* Takes all guards of a chunk without used stacks away. False: some may be left, and each stack is
 * to get a new one. */
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

/* How many guards there may be that cost a mapping each. */
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

/* The bit of it in its chunk. */
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

/* A stack that is in no list gets into the one of this state. */
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

/* The other way round. */
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

/* A chunk for stacks of this shape, or NULL. */
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

/* A new one, or NULL. */
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

/* The oldest that is kept, of the shape that keeps most. There is one. */
static struct fiber_stack *fiber_stack_oldest(struct fiber_stacks_node *node)
{
	struct fiber_stack_list *most = &node->shelves[0].kept;

	for (uint32_t i = 1; i < FIBER_STACK_SHAPES; i++)
		if (node->shelves[i].kept.bytes > most->bytes)
			most = &node->shelves[i].kept;
	return list_last(&most->stacks, struct fiber_stack, link);
}

/* Takes the stack out of its list, and puts it in front of those that leave the chunk. */
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

/* All that is kept in a chunk leaves it, and neighbours of it that are bare (P1); all that is free,
 * if the chunk goes as a whole. They come into the list in order. */
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
 * Gives the pages of neighbours back, from low on to the end of the last. top: the highest page,
 * too. Not under the lock. If the kernel does not take them they stay, and none is fresh.
 */
static void fiber_stack_give_back(struct fiber_stack *from, struct fiber_stack *last, bool top)
{
	char *end = (char *)align_up((uintptr_t)(last->low + last->size), FIBER_STACK_PAGE);
	bool gone;

	if (!top)
		end -= FIBER_STACK_PAGE;
	gone = madvise(from->low, (size_t)(end - from->low), MADV_DONTNEED) == 0;
	/* If it is fresh it was bare before, and there may be no page. */
	if (gone && !top && !last->fresh)
		memset(end, 0, (size_t)(last->low + last->size - end));
	for (struct fiber_stack *s = from; s <= last; s++)
		s->fresh = gone;
}

/* The same for what has left a chunk of so many stacks. */
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

/* Gives a chunk without used stacks back. Not under the lock. False: it stays as it is. */
static bool fiber_stack_give_back_chunk(struct fiber_stacks *stacks,
					struct fiber_stack_chunk *chunk, uint32_t shape)
{
	return madvise(fiber_stack_chunk_base(stacks, chunk), FIBER_STACK_CHUNK, MADV_DONTNEED) ==
		       0 &&
	       (shape >= FIBER_STACK_CLASSES || fiber_stack_unguard(stacks, chunk));
}

/* It is unused now. */
static void fiber_stack_close_chunk(struct fiber_stacks_node *node, struct fiber_stack_chunk *chunk)
{
	chunk->leaving = 0;
	chunk->next = node->free;
	node->free = chunk;
	node->count.mapped -= FIBER_STACK_CHUNK;
}

/* They are free again, and have no pages. */
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

/* Gives back what is kept in a chunk, or all of it if no stack there is used. Lets go of the lock.
 * True: none is used any more, and it was not tried. */
static bool fiber_stack_clean_chunk(struct fiber_stacks *stacks, struct fiber_stacks_node *node,
				    struct fiber_stack_chunk *chunk)
{
	uint32_t shape = chunk->shape;
	bool whole = !chunk->used && !chunk->leaving, gone = false;
	const struct fiber_stack *end =
		fiber_stack_first(stacks, chunk) + fiber_stack_per_chunk(shape);
	struct list_link leaving = { 0 };

	fiber_stack_leave_all(stacks, chunk, whole, &leaving);
	/* No stack is cut out of it meanwhile. */
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

/* Gives back until no more than so many bytes are kept. Under the lock, which it lets go of. */
static void fiber_stack_clean(struct fiber_stacks *stacks, struct fiber_stacks_node *node,
			      uint64_t keep)
{
	while (node->count.cached > keep) {
		struct fiber_stack_chunk *chunk =
			fiber_stack_chunk(stacks, fiber_stack_oldest(node));

		node->cleaning++;
		/* Twice, if the last of it was put, or given back by another, meanwhile. */
		if (fiber_stack_clean_chunk(stacks, node, chunk))
			(void)fiber_stack_clean_chunk(stacks, node, chunk);
		node->cleaning--;
		pthread_cond_broadcast(&node->cleaned);
	}
}

/* ------------------------------------------------------------------------ get and put */

/* What is there, or can be made. Under the lock. NULL if there is none. */
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

/* One of this node, without a guard or canary if it is new. NULL if it has none. */
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

/* It goes into its node's list. */
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

/* Before a guard is refused: nothing is kept. */
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

/* Sees to it that the stack, which the caller has, has its guard. */
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
	/* The last fiber may have left its frames without a return, and others may have come in. */
	fiber_stack_open(stack->low, stack->size);
	if (stack->kind == FIBER_STACK_SLAB)
		fiber_stack_open(stack->low - FIBER_STACK_CANARY, FIBER_STACK_CANARY);
	fiber_stack_drop(stacks, stack);
}

/* ------------------------------------------------------------------------ looking */

/* The first word from here to end that is not zero. */
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

	/* Without mincore(2) all are read. */
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

/* Sparse memory for so many bytes, or NULL. */
static void *fiber_stacks_map(uint64_t bytes)
{
	void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	return memory == MAP_FAILED ? NULL : memory;
}

/* The same, from a multiple of a chunk on. */
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

/* Does a guard need no mapping of its own here? */
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
		.max_guards = options->guards ? options->guards : fiber_stack_max_guards(),
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
	/* Where the kernel has none, it says EINVAL. */
	(void)madvise(stacks->base, stacks->n_chunks * FIBER_STACK_CHUNK, MADV_NOHUGEPAGE);
	stacks->protect = options->protect || !fiber_stacks_have_guards(stacks);
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
