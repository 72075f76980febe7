/* SPDX-License-Identifier: MIT */
/* hostile: a client that writes malformed data wherever it can write, and another uid that is not
 * affected */
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client/lib/wake_worker.h"
#include "common/util.h"
#include "shm/wake.h"
#include "tests/support/hostile.h"
#define CHECK_TIMEOUT 280
#include "tests/support/check_unit.h"

#define SETTLE_NS (500 * NSEC_PER_MSEC)

enum attack {
	ATTACK_NONE, /* does nothing at all */
	ATTACK_SLOTS,
	ATTACK_TAILS,
	ATTACK_SUMMARY,
	ATTACK_RECORDS,
	ATTACK_STATES,
	ATTACK_HEADS,
	ATTACK_ALL,
	ATTACK_KINDS,
};

static const char *const attack_names[ATTACK_KINDS] = {
	"nothing", "slots", "tails", "summary", "records", "states", "heads", "all",
};

/* Memory that the hostile client shares with the test. */
struct siege {
	_Atomic uint64_t attacks; /* of the current kind */
	_Atomic uint32_t kind;
	_Atomic uint32_t doing; /* the kind of attack that the hostile client makes now */
};

static struct siege *siege;
static struct daemon d;

/* ------------------------------------------------------------------------ the hostile client */

static fk_client *hostile;
static uint64_t seed = 88172645463325252u;

static uint64_t draw(void)
{
	return xorshift64(&seed);
}

static uint64_t odd_number(void)
{
	static const uint64_t edges[] = {
		0,
		1,
		7,
		8,
		HOSTILE_HEAP - 1,
		HOSTILE_HEAP,
		INT32_MAX,
		UINT32_MAX,
		UINT64_C(1) << 32,
		INT64_MAX,
		UINT64_C(1) << 63,
		UINT64_MAX - HOSTILE_HEAP + 1,
		UINT64_MAX,
		UINT64_MAX - 7,
	};
	uint64_t n = draw();

	return n % 4 ? edges[n / 4 % ARRAY_SIZE(edges)] : draw();
}

static void spoil_slot(void)
{
	struct ring *ring = &hostile->tenant->rings[draw() % hostile->n_workers];
	uint64_t index = draw() % RING_SLOTS, lap = draw() % 8 ? draw() % 4 : draw() >> 32;
	uint64_t payload = draw() & RING_PAYLOAD;

	/* Half of them name its own records: those pass on to the checks of the record. */
	if (draw() % 2)
		payload = ring_payload(hostile->id, hostile->generation,
				       (uint32_t)(draw() % (hostile->n_jobs + 1)));
	if (draw() % 4 == 0)
		index = atomic_load(&ring->tail) % RING_SLOTS;
	atomic_store(&ring->slots[index], lap << 32 | (draw() % 4 ? RING_FULL_BIT : 0) | payload);
}

static void spoil_tail(void)
{
	struct ring *ring = &hostile->tenant->rings[draw() % hostile->n_workers];
	uint64_t old = atomic_load(&ring->tail);
	uint64_t tails[] = { 0,
			     UINT64_C(1) << 63,
			     old - 1,
			     old + 1,
			     old - RING_SLOTS,
			     old + RING_SLOTS,
			     UINT64_MAX,
			     draw() };

	atomic_store(&ring->tail, tails[draw() % ARRAY_SIZE(tails)]);
}

static void spoil_summary(void)
{
	for (uint32_t i = 0; i < TENANT_SUMMARY_WORDS; i++)
		atomic_store(&hostile->tenant->summary[i], draw() % 4 ? UINT64_MAX : draw());
}

static void spoil_record(void)
{
	struct job *job = &hostile->jobs[draw() % hostile->n_jobs];
	const struct fk_client_task *task = atomic_load(&hostile->tasks);
	uint64_t words[LIMIT_ARGS / 8];

	for (uint64_t n = draw() % 3; task && task->next && n; n--)
		task = task->next;
	for (size_t i = 0; i < ARRAY_SIZE(words); i++)
		words[i] = odd_number();
	memcpy(job->args, words, sizeof(words));
	atomic_store(&job->task, draw() % 4 ? task->index : (uint32_t)odd_number());
	atomic_store(&job->task_hash, draw() % 8 ? task->hash : draw());
	atomic_store(&job->args_size,
		     draw() % 2 ? task->signature.args_size : (uint32_t)odd_number());
	atomic_store(&job->flags, (uint32_t)(draw() % 2 ? draw() : 0));
	atomic_store(&job->next, (uint32_t)odd_number());
	atomic_store(&job->deadline_ns, draw() % 4 ? 0 : odd_number());
	atomic_store(&job->weight, (uint32_t)odd_number());
	atomic_store(&job->group,
		     draw() % 2 ? draw() % (LIMIT_GROUPS + 1) : (uint32_t)odd_number());
	/* Not strict, so that it is started, except for random values. */
	atomic_store(&job->place, draw() % 4 ? 0 : (uint32_t)odd_number());
	if (draw() % 4)
		atomic_fetch_add(&job->generation, 1);
	else
		atomic_store(&job->generation, (uint32_t)odd_number());
}

/* The part of a record that the pool writes. */
static void spoil_state(void)
{
	struct job *job = &hostile->jobs[draw() % hostile->n_jobs];

	atomic_store(&job->state, (uint32_t)draw());
	atomic_store(&job->code, (int32_t)draw());
	atomic_store(&job->worker, (uint32_t)odd_number());
	atomic_store(&job->drained_ns, odd_number());
	atomic_store(&job->started_ns, odd_number());
	memset(job->result, (int)draw(), sizeof(job->result));
}

static void spoil_head(void)
{
	struct client_segment *segment = hostile->segment;
	struct tenant_segment *tenant = hostile->tenant;

	segment->head.magic = draw();
	segment->head.kind = (uint32_t)odd_number();
	segment->head.size = odd_number();
	segment->head.layout_hash = draw();
	segment->head.epoch = draw();
	segment->client = (uint32_t)odd_number();
	segment->generation = (uint32_t)odd_number();
	segment->tenant = (uint32_t)odd_number();
	segment->n_jobs = (uint32_t)odd_number();
	segment->jobs_offset = odd_number();
	segment->heap_offset = odd_number();
	segment->heap_size = odd_number();
	tenant->head.magic = draw();
	tenant->head.kind = (uint32_t)odd_number();
	tenant->head.size = odd_number();
	tenant->head.epoch = draw();
	tenant->tenant = (uint32_t)odd_number();
	tenant->uid = (uint32_t)odd_number();
	tenant->n_rings = (uint32_t)odd_number();
}

/* Pushes a valid word of its own record, with a wake. */
static void push_record(void)
{
	uint32_t index = (uint32_t)(draw() % hostile->n_jobs);
	uint32_t ring = (uint32_t)(draw() % hostile->n_workers);
	uint64_t position;

	(void)ring_push(&hostile->tenant->rings[ring],
			ring_payload(hostile->id, hostile->generation, index), &position);
	tenant_mark(hostile->tenant, ring);
	wake_published();
	(void)waker_wake(hostile->board, hostile->n_workers, ring, NULL);
}

static void attack(enum attack kind)
{
	switch (kind) {
	case ATTACK_NONE:
	case ATTACK_KINDS:
		break;
	case ATTACK_SLOTS:
		spoil_slot();
		break;
	case ATTACK_TAILS:
		spoil_tail();
		break;
	case ATTACK_SUMMARY:
		spoil_summary();
		break;
	case ATTACK_RECORDS:
		spoil_record();
		break;
	case ATTACK_STATES:
		spoil_state();
		break;
	case ATTACK_HEADS:
		spoil_head();
		break;
	case ATTACK_ALL:
		attack((enum attack)(ATTACK_SLOTS + draw() % (ATTACK_ALL - ATTACK_SLOTS)));
		break;
	}
}

static void attacker(void)
{
	const fk_task *task;

	hostile = hostile_open();
	/* Tasks that end soon for any arguments, as the record is read while it is being written.
	 * deep:deep goes as deep as stack-max allows, and fails alone. */
	if (fk_task_find(hostile, "bytes:sum", &task) < 0 ||
	    fk_task_find(hostile, "bytes:text", &task) < 0 ||
	    fk_task_find(hostile, "deep:deep", &task) < 0)
		_exit(3);
	seed += (uint64_t)getpid();
	for (uint32_t n = 0;; n++) {
		enum attack kind = (enum attack)atomic_load(&siege->kind);

		atomic_store(&siege->doing, kind);
		if (kind == ATTACK_NONE) {
			(void)poll(NULL, 0, 1);
			continue;
		}
		/* The words of the ring make the pool read all the rest. */
		for (int i = 0; i < 16; i++)
			attack(kind);
		push_record();
		atomic_fetch_add(&siege->attacks, 1);
		if (n % 64 == 0)
			(void)poll(NULL, 0, 1); /* this machine may have only two CPUs */
	}
}

/* ------------------------------------------------------------------------ the test */

/* Returns the CPU time that the pool uses in this time. */
static uint64_t pool_time(uint64_t ns)
{
	uint64_t before = daemon_pool_cpu_ns(&d);

	(void)poll(NULL, 0, (int)(ns / NSEC_PER_MSEC));
	return daemon_pool_cpu_ns(&d) - before;
}

static void order(enum attack kind)
{
	atomic_store(&siege->kind, kind);
	DAEMON_AWAIT(atomic_load(&siege->doing) == kind);
	atomic_store(&siege->attacks, 0);
}

static void look_after(pid_t other, pid_t manager)
{
	siginfo_t info = { 0 };

	ck_assert_int_eq(kill(manager, 0), 0);
	ck_assert_uint_eq(d.board->manager.pid, (uint32_t)manager);
	if (!other)
		return;
	ck_assert_int_eq(waitid(P_PID, (id_t)other, &info, WEXITED | WNOHANG | WNOWAIT), 0);
	ck_assert_msg(info.si_pid == 0, "the honest client ended with %d", info.si_status);
}

/* Makes attacks of one kind until the honest client has had enough results. */
static void besiege(enum attack kind, pid_t other)
{
	uint64_t rounds = daemon_sanitized() ? 500 : 3000;
	uint64_t seen, end = clock_ns() + DAEMON_PATIENCE * NSEC_PER_SEC;

	order(kind);
	seen = atomic_load(&honest->good);
	while (atomic_load(&siege->attacks) < rounds ||
	       (other && atomic_load(&honest->good) < seen + 100)) {
		look_after(other, d.manager);
		ck_assert_msg(clock_ns() < end, "%s: %" PRIu64 " attacks, %" PRIu64 " results",
			      attack_names[kind], atomic_load(&siege->attacks),
			      atomic_load(&honest->good) - seen);
		(void)poll(NULL, 0, 1);
	}
	printf("%-8s %6" PRIu64 " x 16, %" PRIu64 " right results at the same time\n",
	       attack_names[kind], atomic_load(&siege->attacks), atomic_load(&honest->good) - seen);
}

START_TEST(malformed_data_of_one_uid_does_not_affect_another)
{
	pid_t manager, pool, evil, other = 0;
	uint64_t seen, spent, stop_ns;
	siginfo_t info;
	bool root = hostile_setup(&d);
	int status;

	siege = daemon_share(sizeof(*siege));
	manager = d.manager;
	pool = daemon_pool(&d);
	if (root)
		other = daemon_client(honest_run, HONEST_UID);
	evil = daemon_client(attacker, HOSTILE_UID);
	if (root)
		DAEMON_AWAIT(atomic_load(&honest->good) > 0);
	for (enum attack kind = ATTACK_SLOTS; kind < ATTACK_KINDS; kind++)
		besiege(kind, other);
	ck_assert_int_eq(daemon_pool(&d), pool);
	ck_assert_uint_eq(daemon_crashes(&d), 0);

	/* A new pool maps the spoiled segments while attacks continue. */
	atomic_store(&honest->killing, 1);
	ck_assert_int_eq(kill(pool, SIGKILL), 0);
	DAEMON_AWAIT(daemon_crashes(&d) == 1);
	DAEMON_AWAIT(daemon_pool(&d) != pool);
	pool = daemon_pool(&d);
	seen = atomic_load(&honest->good);
	if (root)
		DAEMON_AWAIT(atomic_load(&honest->good) > seen + 10);
	atomic_store(&honest->killing, 0);
	besiege(ATTACK_ALL, other);
	printf("%" PRIu64 " jobs of the honest client were told of the kill\n",
	       atomic_load(&honest->told));

	/* No job is left; the written data stays. */
	besiege(ATTACK_SUMMARY, other);
	order(ATTACK_NONE);
	atomic_store(&honest->stop, 1);
	if (root)
		ck_assert_int_eq(daemon_reap(other), 0);
	DAEMON_AWAIT((spent = pool_time(SETTLE_NS)) <= SETTLE_NS / 20);
	printf("then the pool took %" PRIu64 " us of %" PRIu64 " ms\n", spent / 1000,
	       SETTLE_NS / NSEC_PER_MSEC);

	/* New clients of other uids work, while the hostile client runs and after it was killed. */
	if (root) {
		ck_assert_int_eq(daemon_reap(daemon_client(honest_late, 0)), 0);
		ck_assert_int_eq(daemon_reap(daemon_client(honest_late, HONEST_UID)), 0);
	}
	order(ATTACK_ALL);
	DAEMON_AWAIT(atomic_load(&siege->attacks) > 10);
	daemon_kill_client(evil);
	DAEMON_AWAIT(atomic_load(&d.board->manager.clients) == 1);
	if (root)
		ck_assert_int_eq(daemon_reap(daemon_client(honest_late, FRESH_UID)), 0);
	/* And of its own uid: the manager and the pool repair the spoiled data, down to the head of
	 * the segment. */
	ck_assert_int_eq(daemon_reap(daemon_client(honest_late, HOSTILE_UID)), 0);

	ck_assert_int_eq(daemon_pool(&d), pool);
	ck_assert_uint_eq(daemon_crashes(&d), 1);
	look_after(0, manager);

	/* And it stops in time during attacks: by a uid whose segments can still be mapped. */
	atomic_store(&siege->doing, ATTACK_NONE);
	evil = daemon_client(attacker, FRESH_UID);
	if (root) {
		order(ATTACK_ALL);
		DAEMON_AWAIT(atomic_load(&siege->attacks) > 10);
	}
	stop_ns = clock_ns();
	ck_assert_int_eq(kill(manager, SIGTERM), 0);
	ck_assert_int_eq(waitid(P_PID, (id_t)manager, &info, WEXITED | WNOWAIT), 0);
	stop_ns = clock_ns() - stop_ns;
	printf("stopped in %" PRIu64 " ms\n", stop_ns / NSEC_PER_MSEC);
	ck_assert_int_eq(kill(evil, SIGKILL), 0);
	status = daemon_reap(evil);
	ck_assert(!root || status == 256 + SIGKILL);
	ck_assert_int_eq(daemon_wait(&d), 0);
}
END_TEST

CHECK_MAIN("hostile")
