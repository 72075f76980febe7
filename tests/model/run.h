/* SPDX-License-Identifier: MIT */
/* run.h - the main() of a model: see tests/model/model.h */
#pragma once

#include <time.h>

#include "tests/model/model.h"

#ifdef MODEL_ONCE

#ifndef MODEL_INSTANCE
#define MODEL_INSTANCE 0
#endif

static struct model model_only;

static void *model_run(void *thread)
{
	model_thread(&model_only, (uint32_t)(uintptr_t)thread);
	return NULL;
}

int main(void)
{
	pthread_t threads[MODEL_THREADS];
#ifdef MODEL_CHOICES
	pthread_t oracle;
#endif

	model_init(&model_only, MODEL_INSTANCE);
#ifdef MODEL_CHOICES
	pthread_create(&oracle, NULL, model_oracle, NULL);
#endif
	for (uintptr_t i = 0; i < MODEL_THREADS; i++)
		pthread_create(&threads[i], NULL, model_run, (void *)i);
	for (uintptr_t i = 0; i < MODEL_THREADS; i++)
		pthread_join(threads[i], NULL);
#ifdef MODEL_CHOICES
	pthread_join(oracle, NULL);
#endif
	model_check(&model_only);
	return 0;
}

#elif defined(MODEL_EXPLORE)

static struct model model_only;

void *const explore_object = &model_only;
const size_t explore_size = sizeof(model_only);
const uint32_t explore_threads = MODEL_THREADS;

void explore_init(uint32_t instance)
{
	model_init(&model_only, instance);
}

void explore_thread(uint32_t thread)
{
	model_thread(&model_only, thread);
}

void explore_check(void)
{
	model_check(&model_only);
}

#else

#define MODEL_BATCH 128u

static struct model model_batch[MODEL_BATCH];
static _Atomic uint32_t model_arrived;
static _Atomic uint32_t model_phase;
static _Atomic uint32_t model_stop;
static uint64_t model_instances = 100000;
static uint64_t model_seconds; /* 0: no limit */

/* All threads meet here; the last one gets 1 and releases the others by model_release(). */
static int model_meet(void)
{
	uint32_t phase = atomic_load_explicit(&model_phase, memory_order_relaxed);

	if (atomic_fetch_add_explicit(&model_arrived, 1, memory_order_acq_rel) == MODEL_THREADS - 1)
		return 1;
	for (uint32_t spins = 0; atomic_load_explicit(&model_phase, memory_order_acquire) == phase;
	     spins++)
		if (spins > 1000)
			sched_yield();
	return 0;
}

static void model_release(void)
{
	atomic_store_explicit(&model_arrived, 0, memory_order_relaxed);
	atomic_fetch_add_explicit(&model_phase, 1, memory_order_release);
}

static uint64_t model_now(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec;
}

/* Between two batches, in one thread: checks the results, prepares the next batch or ends. */
static void model_turn(void)
{
	static uint64_t done;
	static uint64_t started;

	if (!started)
		started = model_now();
	else
		for (uint32_t i = 0; i < MODEL_BATCH; i++)
			model_check(&model_batch[i]);
	if (done >= model_instances || (model_seconds && model_now() - started >= model_seconds)) {
		printf("model: %llu instances\n", (unsigned long long)done);
		atomic_store_explicit(&model_stop, 1, memory_order_relaxed);
	}
	for (uint32_t i = 0; i < MODEL_BATCH; i++)
		model_init(&model_batch[i], (uint32_t)done + i);
	done += MODEL_BATCH;
}

static void *model_run(void *arg)
{
	uint32_t thread = (uint32_t)(uintptr_t)arg;
	uint32_t random = thread * 2654435761u + 12345;

	for (;;) {
		if (model_meet()) {
			model_turn();
			model_release();
		}
		if (atomic_load_explicit(&model_stop, memory_order_relaxed))
			return NULL;
		/* Each batch has its own pace, and a rare pause. */
		random = random * 1664525u + 1013904223u;
		uint32_t pace = random >> 28;

		for (uint32_t i = 0; i < MODEL_BATCH; i++) {
			uint32_t delay = pace;

			random = random * 1664525u + 1013904223u;
			if (random >> 28 == 0)
				delay += random >> 20 & 63;
			for (volatile uint32_t spin = 0; spin < delay; spin = spin + 1)
				;
			model_thread(&model_batch[i], thread);
		}
	}
}

int main(int argc, char **argv)
{
	pthread_t threads[MODEL_THREADS];

	if (argc > 1)
		model_instances = strtoull(argv[1], NULL, 10);
	if (argc > 2)
		model_seconds = strtoull(argv[2], NULL, 10);
	for (uintptr_t i = 0; i < MODEL_THREADS; i++)
		if (pthread_create(&threads[i], NULL, model_run, (void *)i))
			return 2;
	for (uintptr_t i = 0; i < MODEL_THREADS; i++)
		pthread_join(threads[i], NULL);
	return 0;
}

#endif
