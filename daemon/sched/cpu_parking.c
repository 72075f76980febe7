/* SPDX-License-Identifier: MIT */
#include "daemon/sched/cpu_parking.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <string.h>

#include "common/clock.h"
#include "common/log.h"
#include "common/relaxed.h"
#include "common/util.h"
#include "daemon/core/manager_channel.h"
#include "daemon/core/lazy_policy.h"
#include "daemon/core/pool_state.h"
#include "daemon/core/wakeup.h"
#include "daemon/core/worker.h"
#include "daemon/core/worker_state.h"
#include "daemon/sched/fair_queue.h"
#include "daemon/sched/wake.h"
#include "shm/board.h"
#include "shm/limits.h"
#include "shm/proto.h"
#include "daemon/host/topology.h"
#include "shm/fence.h"
#include "shm/wake.h"

#define PARK_CPUS 8192u /* as for the option cpus */

struct park_set {
	unsigned long bits[PARK_CPUS / (8 * sizeof(unsigned long))];
};

static bool park_in(const struct park_set *set, uint32_t cpu)
{
	return cpu < PARK_CPUS && CPU_ISSET_S(cpu, sizeof(*set), (const cpu_set_t *)set->bits);
}

static void park_add(struct park_set *set, uint32_t cpu)
{
	if (cpu < PARK_CPUS)
		CPU_SET_S(cpu, sizeof(*set), (cpu_set_t *)set->bits);
}

static uint32_t park_count(const struct park_set *set)
{
	return (uint32_t)CPU_COUNT_S(sizeof(*set), (const cpu_set_t *)set->bits);
}

/* Reads the CPUs that a thread may use; only CPUs that are online. */
static bool park_read(pthread_t thread, struct park_set *ret)
{
	return pthread_getaffinity_np(thread, sizeof(*ret), (cpu_set_t *)ret->bits) == 0;
}

/* Ensures that a worker is pinned to its CPU, which was usable. False: the CPU cannot be used any
 * more. If the kernel cannot pin threads, workers run unpinned. Uses pthread_t, because a task can
 * change the thread id on the board. */
static bool park_pin(struct worker *w, uint32_t cpu)
{
	struct park_set set;

	if (park_read(w->thread, &set) && park_in(&set, cpu) && park_count(&set) == 1)
		return true;
	memset(&set, 0, sizeof(set));
	park_add(&set, cpu);
	return pthread_setaffinity_np(w->thread, sizeof(set), (const cpu_set_t *)set.bits) !=
	       EINVAL;
}

static uint32_t park_cpu(struct pool *pool, uint32_t worker)
{
	return topology_place(pool->topology, worker)->cpu;
}

static void park_allow(struct worker *w, const struct park_set *set)
{
	(void)pthread_setaffinity_np(w->thread, sizeof(*set), (const cpu_set_t *)set->bits);
}

/* True if the CPU belongs to the worker's group and no worker was moved there. */
static bool park_has_room(struct pool *pool, const struct worker *w, uint32_t cpu)
{
	bool ours = false;
	uint32_t n;
	const uint32_t *members = topology_members(pool->topology, w->group, &n);

	for (uint32_t i = 0; i < n; i++) {
		/* Relaxed: a hint. */
		if (load_relaxed(&pool->workers[members[i]].requests.away) == cpu + 1)
			return false;
		ours |= park_cpu(pool, members[i]) == cpu;
	}
	return ours;
}

bool park_may_fetch(struct pool *pool, uint32_t worker, uint32_t cpu)
{
	struct worker *w = &pool->workers[worker];

	if (!pool->park->works || worker_is_parked(w))
		return false;
	/* Relaxed: a hint. On its own CPU the worker continues when the calling thread sleeps. */
	if (park_cpu(pool, worker) == cpu)
		return load_relaxed(&w->requests.away);
	return park_has_room(pool, w, cpu);
}

void park_fetch(struct pool *pool, uint32_t worker, uint32_t cpu)
{
	struct worker *w = &pool->workers[worker];
	bool home = park_cpu(pool, worker) == cpu;
	struct park_set set;

	memset(&set, 0, sizeof(set));
	park_add(&set, cpu);
	park_allow(w, &set);
	/* Relaxed: the worker returns at the end of its job, or park_look() pins it. */
	store_relaxed(&w->requests.away, home ? 0 : cpu + 1);
}

void park_return(struct worker *w)
{
	/* Relaxed: before it sleeps the worker reads it after a full fence (starved/away [A2]). */
	if (likely(!load_relaxed(&w->requests.away)))
		return;
	store_relaxed(&w->requests.away, 0);
	(void)park_pin(w, park_cpu(w->pool, w->index));
}

void park_loosen(struct pool *pool, uint32_t worker)
{
	struct worker *w = &pool->workers[worker];
	uint32_t home = park_cpu(pool, worker), n;
	const uint32_t *members = topology_members(pool->topology, w->group, &n);
	struct park_set allowed, group, free;

	/* The kernel places a worker that is not pinned. */
	if (!park_read(pthread_self(), &allowed) || !park_read(w->thread, &group) ||
	    park_count(&group) != 1)
		return;
	memset(&group, 0, sizeof(group));
	memset(&free, 0, sizeof(free));
	for (uint32_t i = 0; i < n; i++) {
		uint32_t cpu = park_cpu(pool, members[i]);

		if (!park_in(&allowed, cpu))
			continue;
		park_add(&group, cpu);
		if (cpu != home && wake_rests(wake_load(&pool->workers[members[i]].board->wake)))
			park_add(&free, cpu);
	}
	if (park_count(&group) < 2)
		return;
	/* The kernel moves a thread at once if its CPU is not in the set. Otherwise it moves the
	 * thread when it balances: it knows the load on the CPUs of running workers. */
	if (park_count(&free))
		park_allow(w, &free);
	park_allow(w, &group);
}

/* Selects the workers that stay online, one bit each: those on the first usable CPUs. If no CPU of
 * a worker is usable, as many workers as there are CPUs: the kernel has moved them there. */
static void park_pick(struct pool *pool, const uint64_t *usable, uint32_t n_cpus, uint32_t most,
		      uint64_t *ret_stay)
{
	struct park_set used;
	uint32_t n = 0;

	memset(&used, 0, sizeof(used));
	for (uint32_t i = 0; i < pool->n_workers; i++) {
		uint32_t cpu = park_cpu(pool, i);

		if (!(usable[i / 64] >> i % 64 & 1))
			continue;
		if (!park_in(&used, cpu) && most && park_count(&used) >= most)
			continue;
		park_add(&used, cpu);
		ret_stay[i / 64] |= UINT64_C(1) << i % 64;
		n++;
	}
	n_cpus = max(most ? min(n_cpus, most) : n_cpus, 1u);
	for (uint32_t i = 0; !n && i < min(pool->n_workers, n_cpus); i++)
		ret_stay[i / 64] |= UINT64_C(1) << i % 64;
}

/* Sets a worker's state, and wakes it if it sleeps, so that it reads the state. */
static void park_tell(struct pool *pool, uint32_t worker, bool parked)
{
	struct worker *w = &pool->workers[worker];

	/* fair_queue.c is changed first when the worker goes offline, and last when it returns. */
	if (parked)
		fair_park(pool->fair, worker, true);
	/* Relaxed: worker_wake() has the fence. */
	store_relaxed(&w->requests.parked, parked);
	if (!parked)
		fair_park(pool->fair, worker, false);
	worker_wake(pool, worker, NULL);
}

void park_choose(struct pool *pool, const uint64_t usable[LIMIT_WORKERS / 64], uint32_t n_cpus,
		 uint32_t most)
{
	uint64_t stay[LIMIT_WORKERS / 64] = { 0 };
	uint32_t n = 0;

	park_pick(pool, usable, n_cpus, most, stay);
	/* I1 */
	for (int parked = 0; parked <= 1; parked++) {
		for (uint32_t i = 0; i < pool->n_workers; i++) {
			bool parks = !(stay[i / 64] >> i % 64 & 1);

			n += parks && parked;
			if (parks == parked && parks != worker_is_parked(&pool->workers[i]))
				park_tell(pool, i, parks);
		}
	}
	if (n == pool->park->n)
		return;
	pool->park->n = n;
	if (!n)
		log_notice("all %u workers are available again", pool->n_workers);
	else if (most)
		log_notice("workers offline: %u of %u; CPUs that forkd may use: %u; cpu.max is "
			   "enough for %u",
			   n, pool->n_workers, n_cpus, most);
	else
		log_notice("workers offline: %u of %u; CPUs that forkd may use: %u", n,
			   pool->n_workers, n_cpus);
}

void park_begin(struct pool *pool)
{
	pool->park->look_at = clock_ns() + PARK_FIRST;
	pool->park->works = true;
}

void park_set_most(struct pool *pool, uint32_t most)
{
	/* Relaxed, both: the dispatcher's word has the fences. */
	uint32_t before = atomic_exchange_explicit(&pool->park->most, most, memory_order_relaxed);

	store_relaxed(&pool->park->asked, 0);
	if (most != before)
		pool_wake_dispatcher(pool);
}

void park_call(struct pool *pool)
{
	uint32_t wanted = PARK_CALL;

	/* Relaxed: pool_wake_dispatcher() has a fence. */
	if (atomic_compare_exchange_strong_explicit(&pool->park->wants, &wanted, PARK_CALLED,
						    memory_order_relaxed, memory_order_relaxed))
		pool_wake_dispatcher(pool);
}

static bool park_all_asleep(struct pool *pool)
{
	const struct lazy *l = &pool->idle.lazy;

	for (uint32_t c = 0; c < l->n_groups; c++)
		if (lazy_asleep(lazy_load(&l->groups[c])) < l->groups[c].n)
			return false;
	return true;
}

/* I2: true if no worker is awake, and the first that wakes will call the dispatcher. */
static bool park_may_rest(struct pool *pool)
{
	/* Relaxed: other threads only change PARK_CALL. */
	uint32_t wants = load_relaxed(&pool->park->wants);

	if (wants == PARK_CALLED)
		return false;
	if (wants == PARK_NOTHING)
		store_relaxed(&pool->park->wants, PARK_CALL);
	/* ORDER park/wants [I2]: full, between the store of wants and the reads of the group
	 * states. Pairs with worker_call(). */
	fence_full();
	return park_all_asleep(pool);
}

uint64_t park_look(struct pool *pool, uint64_t now)
{
	struct park *park = pool->park;
	uint32_t most = load_relaxed(&park->most);
	uint64_t usable[LIMIT_WORKERS / 64] = { 0 };
	struct park_set allowed;

	if (!park->works)
		return 0;
	if (most == park->most_seen) {
		if (now < park->look_at)
			return park->look_at;
		if (park_may_rest(pool))
			return 0;
	}
	store_relaxed(&park->wants, PARK_NOTHING);
	park->look_at = now + PARK_TICK;
	park->most_seen = most;
	if (!atomic_exchange_explicit(&park->asked, 1, memory_order_relaxed))
		channel_send(pool, PROTO_POOL_ASK_CPUS, 0, 0, "");
	if (!park_read(pthread_self(), &allowed))
		return park->look_at;
	for (uint32_t i = 0; i < pool->n_workers; i++) {
		uint32_t cpu = park_cpu(pool, i);

		/* Relaxed: an absent worker may have no thread. The dispatcher, which calls this,
		 * has created it, or began after it. */
		if (!park_in(&allowed, cpu) || (!load_relaxed(&pool->workers[i].requests.absent) &&
						!park_pin(&pool->workers[i], cpu)))
			continue;
		usable[i / 64] |= UINT64_C(1) << i % 64;
		store_relaxed(&pool->workers[i].requests.away, 0);
	}
	park_choose(pool, usable, park_count(&allowed), most);
	return park->look_at;
}
