/* SPDX-License-Identifier: MIT */
/*
 * check_context_switch.c - contexts (daemon/core/context_switch.h)
 *
 * Built twice: check_switch uses what configure chose, check_switch_ucontext uses ucontext.
 */
#include "daemon/core/context_switch.h"

#include <fenv.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>

#include "common/util.h"
#include "tests/support/check_unit.h"

#ifdef FK_SANITIZE
#define STACK ((size_t)256 << 10)
#define SPARE ((size_t)32 << 10) /* bytes left of a stack that counts as fully used */
#else
#define STACK ((size_t)64 << 10)
#define SPARE ((size_t)16 << 10)
#endif
#ifdef FK_SANITIZE_THREAD
#define MANY 200u /* each is a thread for ThreadSanitizer */
#else
#define MANY 2000u
#endif

/* A context of a test, and the context it returns to. */
struct task {
	struct switch_context ctx;
	struct switch_context *home;
	char *stack;
	uint32_t steps;
	void *data;
};

static struct switch_context home;

static char *stack_map(size_t size)
{
	void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	ck_assert(memory != MAP_FAILED);
	return memory;
}

static void task_make(struct task *task, void (*entry)(void *arg))
{
	if (!task->stack)
		task->stack = stack_map(STACK);
	task->home = &home;
	switch_make(&task->ctx, task->stack, STACK, entry, task);
}

static void task_free(struct task *task)
{
	switch_destroy(&task->ctx);
	ck_assert_int_eq(munmap(task->stack, STACK), 0);
	task->stack = NULL;
}

static void task_resume(struct task *task)
{
	switch_to(task->home, &task->ctx);
}

static void task_pause(struct task *task)
{
	switch_to(&task->ctx, task->home);
}

static bool task_is_on_its_stack(const struct task *task)
{
	const char *here = __builtin_frame_address(0);

	return here > task->stack && here < task->stack + STACK;
}

/* ------------------------------------------------------------------------ from one to the other */

static void begin_once(void *arg)
{
	struct task *task = arg;

	ck_assert(task_is_on_its_stack(task));
	ck_assert_uint_eq((uintptr_t)__builtin_frame_address(0) % 16, 0);
	task->steps++;
	task_pause(task);
	ck_assert(task_is_on_its_stack(task));
	task->steps++;
	switch_leave(&task->ctx, task->home);
}

START_TEST(context_begins_and_resumes_where_it_left)
{
	struct task task = { 0 };

	switch_adopt(&home);
	task_make(&task, begin_once);
	ck_assert_uint_eq(task.steps, 0);
	task_resume(&task);
	ck_assert_uint_eq(task.steps, 1);
	ck_assert(!task_is_on_its_stack(&task));
	task_resume(&task);
	ck_assert_uint_eq(task.steps, 2);
	task_free(&task);
	switch_destroy(&home);
}
END_TEST

static void poison_and_leave(void *arg)
{
	struct task *task = arg;
	volatile char variables[1000];

	memset((char *)variables, 0x55, sizeof(variables));
	task->steps += variables[task->steps % sizeof(variables)] == 0x55;
	switch_leave(&task->ctx, task->home);
}

START_TEST(stack_is_reused_by_one_context_after_another)
{
	struct task task = { 0 };

	switch_adopt(&home);
	for (uint32_t i = 0; i < 1000; i++) {
		task_make(&task, poison_and_leave);
		task_resume(&task);
		ck_assert_uint_eq(task.steps, i + 1);
		switch_destroy(&task.ctx);
		/* Redzones of dead variables must not affect the next context. */
		memset(task.stack, 0, STACK);
	}
	task_make(&task, begin_once);
	task_free(&task);
	switch_destroy(&home);
}
END_TEST

/* ------------------------------------------------------------------------ what is kept */

/* switch_with_registers(from, to, in, out, call): sets all callee-saved registers to in, calls
 * call(from, to), and stores their values after the call in out. */
#if defined(__x86_64__) && !defined(__ILP32__)
#define REGISTERS 6u
__asm__(".text\n"
	".type switch_with_registers, @function\n"
	"switch_with_registers:\n"
	"	pushq %rbp; pushq %rbx; pushq %r12; pushq %r13; pushq %r14; pushq %r15\n"
	"	pushq %rcx\n"
	"	movq 0(%rdx), %rbp; movq 8(%rdx), %rbx; movq 16(%rdx), %r12\n"
	"	movq 24(%rdx), %r13; movq 32(%rdx), %r14; movq 40(%rdx), %r15\n"
	"	callq *%r8\n"
	"	popq %rcx\n"
	"	movq %rbp, 0(%rcx); movq %rbx, 8(%rcx); movq %r12, 16(%rcx)\n"
	"	movq %r13, 24(%rcx); movq %r14, 32(%rcx); movq %r15, 40(%rcx)\n"
	"	popq %r15; popq %r14; popq %r13; popq %r12; popq %rbx; popq %rbp\n"
	"	ret\n"
	".size switch_with_registers, . - switch_with_registers\n");
#elif defined(__aarch64__)
#define REGISTERS 19u
__asm__(".text\n"
	".type switch_with_registers, %function\n"
	"switch_with_registers:\n"
	"	sub sp, sp, #176\n"
	"	stp x29, x30, [sp]; stp x19, x20, [sp, #16]; stp x21, x22, [sp, #32]\n"
	"	stp x23, x24, [sp, #48]; stp x25, x26, [sp, #64]; stp x27, x28, [sp, #80]\n"
	"	stp d8, d9, [sp, #96]; stp d10, d11, [sp, #112]; stp d12, d13, [sp, #128]\n"
	"	stp d14, d15, [sp, #144]; str x3, [sp, #160]\n"
	"	ldp x19, x20, [x2]; ldp x21, x22, [x2, #16]; ldp x23, x24, [x2, #32]\n"
	"	ldp x25, x26, [x2, #48]; ldp x27, x28, [x2, #64]\n"
	"	ldp d8, d9, [x2, #80]; ldp d10, d11, [x2, #96]; ldp d12, d13, [x2, #112]\n"
	"	ldp d14, d15, [x2, #128]; ldr x29, [x2, #144]\n"
	"	blr x4\n"
	"	ldr x3, [sp, #160]\n"
	"	stp x19, x20, [x3]; stp x21, x22, [x3, #16]; stp x23, x24, [x3, #32]\n"
	"	stp x25, x26, [x3, #48]; stp x27, x28, [x3, #64]\n"
	"	stp d8, d9, [x3, #80]; stp d10, d11, [x3, #96]; stp d12, d13, [x3, #112]\n"
	"	stp d14, d15, [x3, #128]; str x29, [x3, #144]\n"
	"	ldp x29, x30, [sp]; ldp x19, x20, [sp, #16]; ldp x21, x22, [sp, #32]\n"
	"	ldp x23, x24, [sp, #48]; ldp x25, x26, [sp, #64]; ldp x27, x28, [sp, #80]\n"
	"	ldp d8, d9, [sp, #96]; ldp d10, d11, [sp, #112]; ldp d12, d13, [sp, #128]\n"
	"	ldp d14, d15, [sp, #144]\n"
	"	add sp, sp, #176\n"
	"	ret\n"
	".size switch_with_registers, . - switch_with_registers\n");
#endif

#ifdef REGISTERS
void switch_with_registers(struct switch_context *from, struct switch_context *to,
			   const uint64_t in[REGISTERS], uint64_t out[REGISTERS],
			   void (*call)(struct switch_context *, struct switch_context *));

static void switch_as_called(struct switch_context *from, struct switch_context *to)
{
	switch_to(from, to);
}

/* Other values for each of these switches, and for each register. */
static void registers_step(struct switch_context *from, struct switch_context *to, uint64_t *seed)
{
	uint64_t in[REGISTERS], out[REGISTERS] = { 0 };

	for (uint32_t i = 0; i < REGISTERS; i++)
		in[i] = xorshift64(seed);
	switch_with_registers(from, to, in, out, switch_as_called);
	ck_assert_mem_eq(in, out, sizeof(in));
}

static void registers_task(void *arg)
{
	struct task *task = arg;
	uint64_t seed = UINT64_C(0xdeadbeef);

	for (;;) {
		task->steps++;
		registers_step(&task->ctx, task->home, &seed);
	}
}
#endif

START_TEST(callee_saved_registers_survive)
{
#ifdef REGISTERS
	struct task task = { 0 };
	uint64_t seed = 42;

	switch_adopt(&home);
	task_make(&task, registers_task);
	for (uint32_t i = 0; i < 100; i++)
		registers_step(&home, &task.ctx, &seed);
	ck_assert_uint_eq(task.steps, 100);
	task_free(&task);
	switch_destroy(&home);
#else
	check_unit_not_run(callee_saved_registers_survive, "no assembly for this machine");
#endif
}
END_TEST

/* F(0) to F(15) */
#define SIXTEEN(F)                                                                                 \
	F(0) F(1) F(2) F(3) F(4) F(5) F(6) F(7) F(8) F(9) F(10) F(11) F(12) F(13) F(14) F(15)

/* As many variables as there are registers. The compiler keeps them over the switch in any place
 * that switch_swap() does not clobber. It may not read them again. */
static __attribute__((noinline)) bool variables_survive(struct switch_context *from,
							struct switch_context *to, uint64_t first)
{
	volatile uint64_t word = first;
	volatile double number = (double)(uint32_t)first;
	bool survive = true;

#define READ(i)                                                                                    \
	uint64_t word##i = word + i;                                                               \
	double number##i = number + i;
	SIXTEEN(READ)
	switch_to(from, to);
#define LOOK(i) survive = survive && word##i == first + i && number##i == (uint32_t)first + i;
	SIXTEEN(LOOK)
	return survive;
}

/* A leaf function may have variables below its stack pointer. */
static __attribute__((noinline)) bool leaf_survives(struct switch_context *from,
						    struct switch_context *to, uint64_t first)
{
	volatile uint64_t words[8];
	bool survive = true;

	for (uint32_t i = 0; i < ARRAY_SIZE(words); i++)
		words[i] = first + i;
	switch_to(from, to);
	for (uint32_t i = 0; i < ARRAY_SIZE(words); i++)
		survive = survive && words[i] == first + i;
	return survive;
}

static void variables_task(void *arg)
{
	struct task *task = arg;

	for (uint64_t first = 1000;; first += 1000) {
		ck_assert(variables_survive(&task->ctx, task->home, first));
		ck_assert(leaf_survives(&task->ctx, task->home, first));
		task->steps++;
	}
}

START_TEST(variables_survive_in_registers_and_on_the_stack)
{
	struct task task = { 0 };

	switch_adopt(&home);
	task_make(&task, variables_task);
	for (uint64_t first = 77; first < 177; first++) {
		ck_assert(variables_survive(&home, &task.ctx, first));
		ck_assert(leaf_survives(&home, &task.ctx, first));
	}
	ck_assert_uint_eq(task.steps, 99);
	task_free(&task);
	switch_destroy(&home);
}
END_TEST

static const int roundings[] = { FE_TONEAREST, FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO };

/* Computes a third in the current rounding mode. */
static double third(void)
{
	volatile double one = 1, three = 3;

	return one / three;
}

static long double long_third(void)
{
	volatile long double one = 1, three = 3;

	return one / three;
}

static double third_upward;

struct rounded {
	struct task task;
	int rounding;
	double third;
	long double long_third;
};

static void rounding_task(void *arg)
{
	struct rounded *r = container_of(arg, struct rounded, task);

	ck_assert_int_eq(fegetround(), FE_UPWARD);
	ck_assert(third() == third_upward);
	ck_assert_int_eq(fesetround(r->rounding), 0);
	r->third = third();
	r->long_third = long_third();
	for (;;) {
		task_pause(&r->task);
		ck_assert_int_eq(fegetround(), r->rounding);
		ck_assert(third() == r->third);
		ck_assert(long_third() == r->long_third);
		r->task.steps++;
	}
}

START_TEST(floating_point_modes_are_kept_per_context)
{
	struct rounded rounded[ARRAY_SIZE(roundings)] = { 0 };
	double nearest = third();

	switch_adopt(&home);
	/* A new context has the modes of its creator. */
	ck_assert_int_eq(fesetround(FE_UPWARD), 0);
	third_upward = third();
	ck_assert(third_upward > nearest);
	for (uint32_t i = 0; i < ARRAY_SIZE(roundings); i++) {
		rounded[i].rounding = roundings[i];
		task_make(&rounded[i].task, rounding_task);
	}
	ck_assert_int_eq(fesetround(FE_TONEAREST), 0);
	for (uint32_t n = 0; n < 20; n++) {
		for (uint32_t i = 0; i < ARRAY_SIZE(roundings); i++) {
			task_resume(&rounded[i].task);
			ck_assert_int_eq(fegetround(), FE_TONEAREST);
			ck_assert(third() == nearest);
			ck_assert_uint_eq(rounded[i].task.steps, n);
		}
	}
	ck_assert(rounded[1].third > rounded[2].third);
	for (uint32_t i = 0; i < ARRAY_SIZE(roundings); i++)
		task_free(&rounded[i].task);
	switch_destroy(&home);
}
END_TEST

#if defined(__x86_64__)
static uint16_t x87_mode(void)
{
	uint16_t mode;

	__asm__ volatile("fnstcw %0" : "=m"(mode));
	return mode;
}

static void x87_set(uint16_t mode)
{
	__asm__ volatile("fldcw %0" : : "m"(mode));
}

#define SSE_FLUSH  0x8000u /* bit 15 of MXCSR, which no other unit has */
#define SSE_ALL	   0xffc0u
#define X87_SHORT  0x0300u /* bits of the precision */
#define X87_DIVIDE 0x0004u /* mask of a division by zero */

/* Unmasks division by zero, for which others have left a flag, and computes. */
static void x87_task(void *arg)
{
	struct task *task = arg;
	uint16_t mode = x87_mode() & ~X87_DIVIDE & ~X87_SHORT;
	unsigned int sse = __builtin_ia32_stmxcsr() & SSE_ALL;

	x87_set(mode);
	for (;;) {
		task_pause(task);
		ck_assert_uint_eq(x87_mode(), mode);
		ck_assert_uint_eq(__builtin_ia32_stmxcsr() & SSE_ALL, sse);
		__asm__ volatile("fld1; fstp %%st(0); fwait" : : : "st");
		task->steps++;
	}
}

static void sse_task(void *arg)
{
	struct task *task = arg;
	uint16_t mode = x87_mode();
	unsigned int sse = (__builtin_ia32_stmxcsr() & SSE_ALL) | SSE_FLUSH;

	__builtin_ia32_ldmxcsr(sse);
	for (;;) {
		task_pause(task);
		ck_assert_uint_eq(x87_mode(), mode);
		ck_assert_uint_eq(__builtin_ia32_stmxcsr() & SSE_ALL, sse);
		task->steps++;
	}
}
#endif

START_TEST(each_floating_point_unit_has_its_own_modes)
{
#if defined(__x86_64__)
	struct task x87 = { 0 }, sse = { 0 };
	uint16_t mode = x87_mode();
	unsigned int before = __builtin_ia32_stmxcsr() & SSE_ALL;

	switch_adopt(&home);
	task_make(&x87, x87_task);
	task_make(&sse, sse_task);
	for (uint32_t n = 0; n < 10; n++) {
		/* Sets a flag, masked here. */
		__asm__ volatile("fldz; fld1; fdivp; fstp %%st(0)" : : : "st", "st(1)");
		task_resume(&x87);
		ck_assert_uint_eq(x87_mode(), mode);
		task_resume(&sse);
		ck_assert_uint_eq(__builtin_ia32_stmxcsr() & SSE_ALL, before);
		ck_assert_uint_eq(x87.steps, n);
		ck_assert_uint_eq(sse.steps, n);
	}
	task_free(&x87);
	task_free(&sse);
	switch_destroy(&home);
#else
	check_unit_not_run(each_floating_point_unit_has_its_own_modes, "this machine has one");
#endif
}
END_TEST

/* ------------------------------------------------------------------------ many, in any order */

static struct task *many;
static uint64_t many_random = 99;
static uint32_t many_switches;

/* Switches to a random context, from wherever it is, until the limit is reached. */
static void many_task(void *arg)
{
	struct task *task = arg;
	uint64_t own[16];

	for (uint32_t i = 0; i < ARRAY_SIZE(own); i++)
		own[i] = (uintptr_t)task * (i + 1);
	while (many_switches < MANY * 50) {
		many_switches++;
		task->steps++;
		switch_to(&task->ctx, &many[xorshift64(&many_random) % MANY].ctx);
		for (uint32_t i = 0; i < ARRAY_SIZE(own); i++)
			ck_assert_uint_eq(own[i], (uintptr_t)task * (i + 1));
	}
	switch_to(&task->ctx, &home);
}

START_TEST(many_contexts_in_any_order)
{
	uint64_t steps = 0;

	many = calloc(MANY, sizeof(*many));
	switch_adopt(&home);
	for (uint32_t i = 0; i < MANY; i++)
		task_make(&many[i], many_task);
	switch_to(&home, &many[0].ctx);
	for (uint32_t i = 0; i < MANY; i++) {
		steps += many[i].steps;
		task_free(&many[i]);
	}
	ck_assert_uint_eq(many_switches, MANY * 50);
	ck_assert_uint_eq(steps, many_switches);
	switch_destroy(&home);
	free(many);
}
END_TEST

/* ------------------------------------------------------------------------ deep use of the stack */

/* Uses the stack up to SPARE of its end, switches at each step, and checks its variables. */
static uint32_t deep_step(struct task *task, uint32_t depth)
{
	volatile uint32_t own[64];
	uint32_t below;

	for (uint32_t i = 0; i < ARRAY_SIZE(own); i++)
		own[i] = depth + i;
	task_pause(task);
	if ((char *)__builtin_frame_address(0) < task->stack + SPARE)
		below = 0;
	else
		below = deep_step(task, depth + 1);
	task_pause(task);
	for (uint32_t i = 0; i < ARRAY_SIZE(own); i++)
		ck_assert_uint_eq(own[i], depth + i);
	return below + 1;
}

static void deep_task(void *arg)
{
	struct task *task = arg;

	task->steps = deep_step(task, 0);
	task->data = task;
	switch_leave(&task->ctx, task->home);
}

START_TEST(stack_is_used_to_its_end_and_neighbours_are_unchanged)
{
	/* Two stacks, and a page before, between and after them. */
	char *memory = stack_map(2 * STACK + 3 * 4096), page[4096];
	struct task tasks[2] = { { .stack = memory + 4096 }, { .stack = memory + STACK + 8192 } };

	memset(page, 0x5a, sizeof(page));
	for (uint32_t i = 0; i < 3; i++)
		memcpy(memory + i * (STACK + 4096), page, 4096);
	switch_adopt(&home);
	for (uint32_t i = 0; i < 2; i++)
		task_make(&tasks[i], deep_task);
	while (!tasks[0].data || !tasks[1].data)
		for (uint32_t i = 0; i < 2; i++)
			if (!tasks[i].data)
				task_resume(&tasks[i]);
	ck_assert_uint_gt(tasks[0].steps, 20);
	ck_assert_uint_eq(tasks[0].steps, tasks[1].steps);
	for (uint32_t i = 0; i < 2; i++)
		switch_destroy(&tasks[i].ctx);
	for (uint32_t i = 0; i < 3; i++)
		ck_assert_mem_eq(memory + i * (STACK + 4096), page, 4096);
	switch_destroy(&home);
	ck_assert_int_eq(munmap(memory, 2 * STACK + 3 * 4096), 0);
}
END_TEST

/* ------------------------------------------------------------------------ on several threads */

#define THREADS	  3u
#define TRAVELLER 60u
#define TRIPS	  (THREADS * 20 + 1)

static __thread uint32_t thread_index;
SWITCH_LOCAL(uint32_t, thread_index)

/* A context that migrates to the next thread each time. */
struct traveller {
	struct task task;
	struct traveller *next;
	uint32_t thread; /* current thread */
	uint32_t trips;
	bool done;
};

static pthread_mutex_t travel_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t travel_changed = PTHREAD_COND_INITIALIZER;
static struct traveller *waiting[THREADS];
static uint32_t travelling;

static void travel_task(void *arg)
{
	struct traveller *t = container_of(arg, struct traveller, task);
	uint32_t first = *thread_index_here(), elsewhere = 0;

	/* Not pthread_self(), which the compiler assumes constant within a function. */
	while (t->trips < TRIPS) {
		ck_assert_uint_eq(*thread_index_here(), t->thread);
		elsewhere += *thread_index_here() != first;
		t->trips++;
		task_pause(&t->task);
		ck_assert_uint_eq(*thread_index_here(), t->thread);
	}
	t->task.steps = elsewhere;
	t->done = true;
	switch_leave(&t->task.ctx, t->task.home);
}

static void traveller_arrive(struct traveller *t, uint32_t thread)
{
	pthread_mutex_lock(&travel_lock);
	t->next = waiting[thread];
	waiting[thread] = t;
	pthread_cond_broadcast(&travel_changed);
	pthread_mutex_unlock(&travel_lock);
}

/* Waits for a context that resumes on this thread; NULL once all have ended. */
static struct traveller *traveller_await(uint32_t thread)
{
	struct traveller *t;

	pthread_mutex_lock(&travel_lock);
	while (!waiting[thread] && travelling)
		pthread_cond_wait(&travel_changed, &travel_lock);
	t = waiting[thread];
	if (t)
		waiting[thread] = t->next;
	pthread_mutex_unlock(&travel_lock);
	return t;
}

static void *travel_thread(void *arg)
{
	struct switch_context own;
	uint32_t self = (uint32_t)(uintptr_t)arg;
	struct traveller *t;

	thread_index = self;
	switch_adopt(&own);
	while ((t = traveller_await(self))) {
		t->thread = self;
		t->task.home = &own;
		task_resume(&t->task);
		if (!t->done) {
			traveller_arrive(t, (self + 1) % THREADS);
			continue;
		}
		switch_destroy(&t->task.ctx);
		pthread_mutex_lock(&travel_lock);
		travelling--;
		pthread_cond_broadcast(&travel_changed);
		pthread_mutex_unlock(&travel_lock);
	}
	switch_destroy(&own);
	return NULL;
}

START_TEST(contexts_migrate_to_other_threads)
{
	static struct traveller travellers[TRAVELLER];
	pthread_t threads[THREADS];

	travelling = TRAVELLER;
	for (uint32_t i = 0; i < TRAVELLER; i++) {
		task_make(&travellers[i].task, travel_task);
		traveller_arrive(&travellers[i], i % THREADS);
	}
	for (uint32_t i = 0; i < THREADS; i++)
		ck_assert_int_eq(
			pthread_create(&threads[i], NULL, travel_thread, (void *)(uintptr_t)i), 0);
	for (uint32_t i = 0; i < THREADS; i++)
		ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
	for (uint32_t i = 0; i < TRAVELLER; i++) {
		ck_assert_uint_eq(travellers[i].trips, TRIPS);
		/* Two of three trips, the first of them here. */
		ck_assert_uint_eq(travellers[i].task.steps, (TRIPS - 1) / THREADS * (THREADS - 1));
		ck_assert_int_eq(munmap(travellers[i].task.stack, STACK), 0);
	}
}
END_TEST

/* ------------------------------------------------------------------------ signals */

static _Atomic uint32_t ticks;

static void tick(int signal)
{
	volatile char below[2000];

	(void)signal;
	memset((char *)below, 0xff, sizeof(below));
	atomic_fetch_add_explicit(&ticks, 1 + (below[7] == 0), memory_order_relaxed);
}

static void sum_task(void *arg)
{
	struct task *task = arg;

	for (;;) {
		task->steps++;
		task_pause(task);
	}
}

START_TEST(signal_at_any_instruction_keeps_contexts_intact)
{
	struct itimerval every = { { 0, 100 }, { 0, 100 } }, never = { 0 };
	struct sigaction action = { .sa_handler = tick, .sa_flags = SA_RESTART };
	struct task task = { 0 };
	uint32_t steps = 0;

	switch_adopt(&home);
	task_make(&task, sum_task);
	ck_assert_int_eq(sigaction(SIGVTALRM, &action, NULL), 0);
	ck_assert_int_eq(setitimer(ITIMER_VIRTUAL, &every, NULL), 0);
	while (atomic_load_explicit(&ticks, memory_order_relaxed) < 30) {
		task_resume(&task);
		steps++;
	}
	ck_assert_int_eq(setitimer(ITIMER_VIRTUAL, &never, NULL), 0);
	ck_assert_uint_eq(task.steps, steps);
	task_free(&task);
	switch_destroy(&home);
}
END_TEST

CHECK_MAIN("switch")
