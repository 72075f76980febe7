/* SPDX-License-Identifier: MIT */
/* connections.c - all connections: slots, and messages to the pool, the board and the manager */
#include "daemon/manager/connections.h"

#include <string.h>

#include "common/cleanup.h"
#include "common/clock.h"
#include "common/list.h"
#include "common/log.h"
#include "common/relaxed.h"
#include "common/util.h"
#include "daemon/host/job_times.h"
#include "daemon/manager/admission.h"
#include "daemon/manager/client_segments.h"
#include "daemon/manager/connection_internal.h"
#include "daemon/manager/connection_state.h"
#include "daemon/manager/job_recovery.h"
#include "daemon/manager/pool_process.h"
#include "daemon/manager/quota.h"
#include "daemon/manager/tenants.h"
#include "shm/job.h"
#include "shm/ledger.h"
#include "shm/limits.h"
#include "shm/proto.h"

/* ------------------------------------------------------------------------ messages to the pool */

void conn_show_heap(const struct conn *s)
{
	/* ORDER heap/grown [H1]: relaxed, before the message or the answer. Pairs with
	 * input_resolve(). */
	store_relaxed(&s->table->segments.arena->heap_sizes[s->slot], segments_heap(&s->segment));
	store_relaxed(&s->table->board->clients[s->slot].memory, s->segment.memory);
}

void conn_tell_client(struct conn *s, uint32_t type)
{
	struct proto_pool m = {
		.head = { PROTO_MAGIC, type },
		.tenant = s->tenant,
		.client = s->slot,
		.client_generation = s->generation,
		.pid = s->pid,
		.n_jobs = s->segment.n_jobs,
		.weight = s->table->tenants.slots[s->tenant].weight,
		.default_deadline = s->rights.default_deadline,
	};

	memcpy(m.rules, s->rights.rules, sizeof(m.rules));
	if (type == PROTO_POOL_CLIENT)
		conn_show_heap(s);
	pool_process_send(s->table->pool, &m, type == PROTO_POOL_CLIENT ? s->segment.fd : -1);
}

void conn_tell_cancel(const struct conn *s, uint32_t job, uint32_t generation)
{
	const struct proto_pool m = {
		.head = { PROTO_MAGIC, PROTO_POOL_CANCEL },
		.client = s->slot,
		.client_generation = s->generation,
		.job = job,
		.job_generation = generation,
	};

	pool_process_send(s->table->pool, &m, -1);
}

void conn_weigh(struct conn_table *table, uint32_t tenant)
{
	uint32_t weight = 0;

	for (uint32_t i = 0; i < table->options->clients_max; i++) {
		const struct conn *s = table->slots[i];

		if (s && s->state == CONN_OPEN && s->tenant == tenant)
			weight = max(weight, s->rights.weight);
	}
	/* Without open connections it has no weight. */
	if (!weight)
		return;
	tenants_weigh(&table->tenants, tenant, weight);
	for (uint32_t i = 0; i < table->options->clients_max; i++) {
		const struct conn *s = table->slots[i];

		if (s && s->state == CONN_OPEN && s->tenant == tenant)
			store_relaxed(&table->board->clients[i].user_weight, weight);
	}
}

bool conn_is_the_pools(const struct conn *s)
{
	return s && (s->state == CONN_OPEN || (s->state == CONN_GONE && !s->released));
}

static void conn_change(struct conn *s)
{
	const struct log_about about = conn_about(s);
	struct admission_verdict verdict;

	conn_judge(s, admission_change, &verdict);
	if (verdict.code)
		log_limited_about(&s->table->misfits, LOG_LEVEL_WARNING, &about,
				  "client %u (pid %u) may no longer call any task: %s", s->slot,
				  s->pid, verdict.text);
	if (conn_is_the_pools(s))
		conn_tell_client(s, PROTO_POOL_RIGHTS);
}

void conn_judge_all(struct conn_table *table)
{
	/* Includes MAKING ones, because the pool will be told of them with these rules. A client
	 * that has gone has no socket from which to read its groups. */
	for (uint32_t i = 0; i < LIMIT_CLIENTS; i++) {
		struct conn *s = table->slots[i];

		if (s && (s->state == CONN_OPEN || s->state == CONN_MAKING))
			conn_change(s);
	}
	for (uint32_t i = 0; i < table->tenants.n; i++)
		conn_weigh(table, i);
}

/* ------------------------------------------------------------------------ the board */

uint32_t conn_n_open(const struct conn_table *table)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < LIMIT_CLIENTS; i++)
		n += table->slots[i] && table->slots[i]->state == CONN_OPEN;
	return n;
}

void conn_show_counts(struct conn_table *table)
{
	struct board_manager *m = &table->board->manager;
	uint32_t used, idle;

	tenants_count(&table->tenants, &used, &idle);
	/* For display only. Nothing is read back: a task may have overwritten it. */
	store_relaxed(&m->clients, conn_n_open(table));
	store_relaxed(&m->tenants, used - idle);
	store_relaxed(&m->accepted, table->accepted);
	store_relaxed(&m->refused, table->refused);
	store_relaxed(&m->manager_fails, table->manager_fails);
}

void conn_count_fails(struct conn_table *table, uint64_t n)
{
	table->manager_fails += n;
	conn_show_counts(table);
}

/* pid last. */
void conn_show(const struct conn *s)
{
	struct board_client *c = &s->table->board->clients[s->slot];
	char comm[sizeof(c->comm)] = "";

	conn_comm(s, comm, sizeof(comm));
	memcpy(c->comm, comm, sizeof(c->comm));
	store_relaxed(&c->jobs, 0);
	store_relaxed(&c->failed, 0);
	store_relaxed(&c->run_ns, 0);
	store_relaxed(&c->wait_ns, 0);
	store_relaxed(&c->refused, 0);
	store_relaxed(&c->cpu_ns, 0);
	store_relaxed(&c->vtime_ns, 0);
	store_relaxed(&c->accepted, 0);
	store_relaxed(&c->uid, s->uid);
	store_relaxed(&c->generation, s->generation);
	store_relaxed(&c->tenant, s->tenant);
	store_relaxed(&c->connected_ns, clock_ns());
	store_relaxed(&c->left_ns, 0);
	store_relaxed(&c->memory, s->segment.memory);
	store_relaxed(&c->pid, s->pid);
}

/* ------------------------------------------------------------------------ room */

static void conn_add(struct quota_sums *sum, const struct conn *s)
{
	sum->clients++;
	sum->jobs += s->segment.n_jobs;
	sum->bytes += s->segment.memory;
}

struct admission_room conn_room(const struct conn_table *table, const struct options_peer *who)
{
	const struct tenants *tenants = &table->tenants;
	struct quota_sums all = { .clients = 0 }, held = { .clients = 0 };
	/* May exceed the limit if an earlier forkd had a larger one. */
	uint64_t memory =
		min(table->segments.memory + tenants->memory, table->options->shared_memory_max);

	for (uint32_t i = 0; i < table->options->clients_max; i++) {
		if (!table->slots[i])
			continue;
		conn_add(&all, table->slots[i]);
		if (table->slots[i]->uid == who->uid)
			conn_add(&held, table->slots[i]);
	}
	return (struct admission_room){
		.stopping = table->stopping,
		.tenants_full = tenants_are_full(tenants, who->uid),
		.clients = all.clients,
		.tenant_size = tenants_needs(tenants, who->uid),
		.memory = table->options->shared_memory_max - memory,
		.held = held,
		.most = quota_for(table->options, who),
	};
}

uint32_t conn_free_slot(const struct conn_table *table)
{
	uint32_t slot = CONN_SLOT_NONE;

	for (uint32_t i = 0; i < table->options->clients_max; i++)
		if (!table->slots[i] &&
		    (slot == CONN_SLOT_NONE || table->freed[i] < table->freed[slot]))
			slot = i;
	return slot;
}

/* ------------------------------------------------------------------------ jobs of clients */

struct job *conn_records(void *context, uint32_t client, uint32_t *ret_n)
{
	const struct conn_table *table = context;
	const struct conn *s = client < LIMIT_CLIENTS ? table->slots[client] : NULL;

	if (!s)
		return NULL; /* as for a client that has no segment at the moment */
	*ret_n = s->segment.n_jobs;
	return segments_jobs(&s->segment);
}

bool conn_is_gone(void *context, uint32_t client)
{
	const struct conn_table *table = context;
	const struct conn *s = client < LIMIT_CLIENTS ? table->slots[client] : NULL;

	return s && s->state == CONN_GONE;
}

bool conn_identity(const struct conn_table *table, uint32_t client, uint32_t *ret_pid,
		   uint32_t *ret_uid)
{
	const struct conn *s = client < LIMIT_CLIENTS ? table->slots[client] : NULL;

	if (!s)
		return false;
	*ret_pid = s->pid;
	*ret_uid = s->uid;
	return true;
}

void conn_on_ended(void *context, uint32_t client, uint32_t at, const struct ledger_row *row)
{
	struct conn_table *table = context;
	uint32_t tenant = table->slots[client]->tenant;

	/* The board is used only to check for that id. */
	if (row->state != LEDGER_FINISHING || row->worker >= table->tenants.n_workers ||
	    !times_has(&table->board->times[tenant][row->worker], times_id(at, row->generation)))
		tenants_ended(&table->tenants, tenant, 1);
}

uint32_t conn_finish_one(struct conn *s, uint32_t outcome)
{
	uint32_t n_jobs, n = 0;
	struct job *jobs = conn_records(s->table, s->slot, &n_jobs);

	for (uint32_t i = 0; jobs && i < n_jobs; i++)
		n += recovery_finish(&jobs[i], client_segment_groups(jobs, n_jobs), UINT32_MAX,
				     outcome, 0, 0);
	tenants_ended(&s->table->tenants, s->tenant, n);
	return n;
}

uint64_t conn_finish_all(struct conn_table *table, uint32_t outcome)
{
	uint64_t n = 0;

	for (uint32_t client = 0; client < LIMIT_CLIENTS; client++)
		if (table->slots[client])
			n += conn_finish_one(table->slots[client], outcome);
	return n;
}

/* ------------------------------------------------------------------------ tracing connections */

struct conn *conn_trace_first(const struct conn_table *table)
{
	struct conn *s;

	list_for_each (s, &table->greeting, link)
		if (s->traces)
			break;
	return s;
}

void conn_trace_forget(struct conn_table *table)
{
	table->trace.fd = safe_close(table->trace.fd);
	table->trace.on = false;
}

void conn_trace_left(struct conn_table *table)
{
	const struct proto_pool m = { .head = { PROTO_MAGIC, PROTO_POOL_TRACE_END } };

	if (!table->trace.on || conn_trace_first(table))
		return;
	/* No connection traces any more, and the pool has answered (trace_subscribers.c, T2). */
	pool_process_send(table->pool, &m, -1);
	conn_trace_forget(table);
}
