/* SPDX-License-Identifier: MIT */
/*
 * hostile: a client that writes garbage wherever it can write, and another uid that sees nothing
 * of it
 *
 * The hostile client and the honest one are processes with uids of their own, so that the rings
 * that are spoilt are the hostile one's. Only root can start such two: without root the same
 * attacks run without the honest one, because who shares a uid shares its rings.
 */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "client/client.h"
#include "common/util.h"
#include "shm/wake.h"
#include "tests/daemon.h"
#define CHECK_TIMEOUT 280
#include "tests/check_unit.h"

#define HOSTILE_UID 65533u
#define HONEST_UID  65531u
#define FRESH_UID   65532u
#define HEAP_SIZE   65536u
#define HANG_NS	    (30 * NSEC_PER_SEC)
#define SETTLE_NS   (500 * NSEC_PER_MSEC)

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

struct shared {
	_Atomic uint64_t good;	  /* right results of the honest client */
	_Atomic uint64_t told;	  /* of its jobs that were not DONE while the pool was killed */
	_Atomic uint64_t attacks; /* of the kind that is on */
	_Atomic uint32_t kind;
	_Atomic uint32_t doing; /* the kind that the hostile client has come to */
	_Atomic uint32_t killing;
	_Atomic uint32_t stop; /* the honest client */
};

static struct shared *shared;
static struct daemon d;

/* ------------------------------------------------------------------------ the honest client */

/* fib:fib 10, or the exit status that says what went wrong. */
static int honest_call(fk_client *c, const fk_task *fib)
{
	uint32_t killing = atomic_load(&shared->killing);
	int64_t n = 0;
	fk_job job;
	int r;

	r = fk_submitv(c, fib, FK_WAIT_ROOM, &job, INT64_C(10));
	if (r < 0)
		return 3;
	r = fk_wait(c, job, HANG_NS);
	if (r < 0) {
		(void)fprintf(stderr, "honest: a wait ended with %s\n", fk_strerror(r));
		return 4;
	}
	r = fk_result(c, job, &n, sizeof(n));
	if (r < 0 && (killing || atomic_load(&shared->killing))) {
		atomic_fetch_add(&shared->told, 1);
	} else if (r < 0 || n != 55) {
		(void)fprintf(stderr, "honest: %s, %" PRId64 " for 55\n", fk_strerror(r), n);
		return 5;
	} else {
		atomic_fetch_add(&shared->good, 1);
	}
	return fk_release(c, job) < 0 ? 6 : 0;
}

static void honest(void)
{
	fk_client *c = NULL;
	const fk_task *fib;
	int status = 0;

	if (fk_open(d.socket, NULL, &c) < 0 || fk_task_find(c, "fib:fib", &fib) < 0)
		_exit(2);
	while (!status && !atomic_load(&shared->stop))
		status = honest_call(c, fib);
	(void)fk_close(c);
	_exit(status);
}

/* A client of this uid that comes late finds everything in order. */
static void late(void)
{
	fk_client *c = NULL;
	const fk_task *fib;
	int status = 0;

	if (fk_open(d.socket, NULL, &c) < 0) {
		(void)fprintf(stderr, "late: %s\n", fk_open_error());
		_exit(2);
	}
	if (fk_task_find(c, "fib:fib", &fib) < 0)
		_exit(2);
	for (int i = 0; i < 100 && !status; i++)
		status = honest_call(c, fib);
	_exit(fk_close(c) < 0 ? 7 : status);
}

/* ------------------------------------------------------------------------ the hostile client */

static fk_client *hostile;
static uint64_t seed = 88172645463325252u;

static uint64_t draw(void)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return seed;
}

static uint64_t odd_number(void)
{
	static const uint64_t edges[] = {
		0,
		1,
		7,
		8,
		HEAP_SIZE - 1,
		HEAP_SIZE,
		INT32_MAX,
		UINT32_MAX,
		UINT64_C(1) << 32,
		INT64_MAX,
		UINT64_C(1) << 63,
		UINT64_MAX - HEAP_SIZE + 1,
		UINT64_MAX,
		UINT64_MAX - 7,
	};
	uint64_t n = draw();

	return n % 4 ? edges[n / 4 % ARRAY_SIZE(edges)] : draw();
}

static void hostile_open(void)
{
	struct fk_open_options options = { .n_jobs = 256, .heap_size = HEAP_SIZE };

	if (fk_open(d.socket, &options, &hostile) < 0) {
		(void)fprintf(stderr, "hostile: %s\n", fk_open_error());
		_exit(2);
	}
}

static void spoil_slot(void)
{
	struct ring *ring = &hostile->tenant->rings[draw() % hostile->n_workers];
	uint64_t index = draw() % RING_SLOTS, lap = draw() % 8 ? draw() % 4 : draw() >> 32;
	uint64_t payload = draw() & RING_PAYLOAD;

	/* Half of them name its own records: those get through to the checks of the record. */
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
	/* Not strict, so that it is started, but for garbage. */
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

/* A word that the consumer will come to, of its own record, with a wake: as honest as it gets. */
static void push_record(void)
{
	uint32_t index = (uint32_t)(draw() % hostile->n_jobs);
	uint32_t ring = (uint32_t)(draw() % hostile->n_workers);
	uint64_t position;

	(void)ring_push(&hostile->tenant->rings[ring],
			ring_payload(hostile->id, hostile->generation, index), &position);
	tenant_mark(hostile->tenant, ring);
	wake_published();
	(void)publish_wake(hostile->board, hostile->n_workers, ring, NULL);
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

	hostile_open();
	/* Tasks that end soon whatever their arguments are: a record is read while it is being
	 * written. deep:deep goes as deep as stack-max lets it, and fails alone. */
	if (fk_task_find(hostile, "bytes:sum", &task) < 0 ||
	    fk_task_find(hostile, "bytes:text", &task) < 0 ||
	    fk_task_find(hostile, "deep:deep", &task) < 0)
		_exit(3);
	seed += (uint64_t)getpid();
	for (uint32_t n = 0;; n++) {
		enum attack kind = (enum attack)atomic_load(&shared->kind);

		atomic_store(&shared->doing, kind);
		if (kind == ATTACK_NONE) {
			(void)poll(NULL, 0, 1);
			continue;
		}
		/* The words of the ring are what brings the pool to all the rest. */
		for (int i = 0; i < 16; i++)
			attack(kind);
		push_record();
		atomic_fetch_add(&shared->attacks, 1);
		if (n % 64 == 0)
			(void)poll(NULL, 0, 1); /* two CPUs are not many */
	}
}

/* ------------------------------------------------------------------------ one bad record each */

static uint32_t next_generation = 100;

/* Submits record 0 as it stands. Returns its outcome, or JOB_PENDING if nothing came in a while. */
static uint32_t submit_record(uint32_t generation, uint64_t patience_ns)
{
	struct job *job = &hostile->jobs[0];
	uint64_t end = clock_ns() + patience_ns;
	uint32_t outcome;
	int ring;

	atomic_store(&job->generation, generation);
	atomic_store(&job->state, job_state(generation, JOB_PENDING));
	ring = publish(hostile->board, hostile->tenant, hostile->n_workers, 0, (uint32_t)draw(),
		       ring_payload(hostile->id, hostile->generation, 0), NULL);
	if (ring < 0)
		_exit(20);
	while ((outcome = job_outcome(job)) == JOB_PENDING && clock_ns() < end) {
		(void)publish_wake(hostile->board, hostile->n_workers, (uint32_t)ring, NULL);
		(void)poll(NULL, 0, 0);
	}
	return outcome;
}

static void set_record(const fk_task *task, struct job_ref ref)
{
	struct job *job = &hostile->jobs[0];

	memset(job->args, 0, sizeof(job->args));
	memcpy(job->args, &ref, sizeof(ref));
	atomic_store(&job->task, task->index);
	atomic_store(&job->task_hash, task->hash);
	atomic_store(&job->flags, 0);
	atomic_store(&job->next, 0);
	atomic_store(&job->deadline_ns, 0);
	atomic_store(&job->weight, 0);
	atomic_store(&job->args_size, task->signature.args_size);
}

static void must_not_run(const char *what, uint64_t number)
{
	uint32_t outcome = submit_record(next_generation++, HANG_NS);

	if (outcome != JOB_DONE && outcome != JOB_PENDING)
		return;
	(void)fprintf(stderr, "hostile: %s %" PRIu64 " had the outcome %u\n", what, number,
		      outcome);
	_exit(21);
}

static void bad_references(const fk_task *task, uint64_t heap)
{
	const uint64_t edges[] = {
		0,
		1,
		8,
		heap - 1,
		heap,
		heap + 1,
		heap + 4096,
		UINT32_MAX,
		UINT64_C(1) << 32,
		(UINT64_C(1) << 63) - 1,
		UINT64_C(1) << 63,
		UINT64_MAX - heap,
		UINT64_MAX - heap + 1,
		UINT64_MAX - 7,
		UINT64_MAX,
	};

	for (size_t i = 0; i < ARRAY_SIZE(edges) * ARRAY_SIZE(edges); i++) {
		struct job_ref ref = {
			.offset = edges[i / ARRAY_SIZE(edges)],
			.size = edges[i % ARRAY_SIZE(edges)],
		};
		bool inside = ref.size <= heap && ref.offset <= heap - ref.size;
		uint32_t outcome;

		set_record(task, ref);
		outcome = submit_record(next_generation++, HANG_NS);
		if (outcome == JOB_PENDING || (outcome == JOB_DONE && !inside) ||
		    (outcome != JOB_DONE && inside && ref.offset % 64 == 0)) {
			(void)fprintf(stderr,
				      "hostile: offset %" PRIu64 ", size %" PRIu64 ", heap %" PRIu64
				      " had the outcome %u\n",
				      ref.offset, ref.size, heap, outcome);
			_exit(22);
		}
	}
}

/* Everything but the one field is right; each gets its outcome, and none of them DONE. */
static void careful(void)
{
	static const uint32_t numbers[] = { LIMIT_TASKS - 1, LIMIT_TASKS, INT32_MAX,
					    UINT32_C(1) << 31, UINT32_MAX };
	const _Atomic uint64_t *refused;
	const struct job_ref good = { .offset = 0, .size = 64 };
	const fk_task *task;
	uint64_t before, end;

	hostile_open();
	refused = &hostile->board->clients[hostile->id].refused;
	if (fk_task_find(hostile, "bytes:sum", &task) < 0)
		_exit(3);
	set_record(task, good);
	if (submit_record(next_generation++, HANG_NS) != JOB_DONE)
		_exit(23);
	for (size_t i = 0; i < ARRAY_SIZE(numbers); i++) {
		set_record(task, good);
		atomic_store(&hostile->jobs[0].task, numbers[i]);
		must_not_run("task", numbers[i]);
		set_record(task, good);
		atomic_store(&hostile->jobs[0].args_size, numbers[i]);
		must_not_run("args_size", numbers[i]);
	}
	set_record(task, good);
	atomic_store(&hostile->jobs[0].task_hash, task->hash ^ 1);
	must_not_run("a hash that is off by", 1);
	bad_references(task, hostile->segment->heap_size);

	/* The same generation once more runs nothing and is counted. */
	set_record(task, good);
	if (submit_record(next_generation, HANG_NS) != JOB_DONE)
		_exit(24);
	/* As often as it takes: the worker that ended it may not have come to freeing the row. */
	before = atomic_load(refused);
	end = clock_ns() + HANG_NS;
	do {
		if (submit_record(next_generation, NSEC_PER_MSEC) != JOB_PENDING)
			_exit(25);
	} while (atomic_load(refused) <= before && clock_ns() < end);
	if (atomic_load(refused) <= before)
		_exit(26);
	next_generation++;
	/* Generations that no library uses; the second 0 is a replay. */
	(void)submit_record(0, 200 * NSEC_PER_MSEC);
	(void)submit_record(0, 200 * NSEC_PER_MSEC);
	(void)submit_record(JOB_GEN_MASK, 200 * NSEC_PER_MSEC);
	(void)submit_record(UINT32_MAX, 200 * NSEC_PER_MSEC);
	set_record(task, good);
	if (submit_record(next_generation, HANG_NS) != JOB_DONE)
		_exit(27);
	(void)fk_close(hostile);
}

/* ------------------------------------------------------------------------ rings left behind */

#define SLOT_KEPT UINT64_MAX

static uint64_t tail_kept(uint64_t next)
{
	return next;
}

static uint64_t tail_one_more(uint64_t next)
{
	return next + 1;
}

static uint64_t tail_five_more(uint64_t next)
{
	return next + 5;
}

static uint64_t tail_lap_more(uint64_t next)
{
	return next + RING_SLOTS;
}

static uint64_t tail_one_less(uint64_t next)
{
	return next - 1;
}

static uint64_t tail_zero(uint64_t next)
{
	(void)next;
	return 0;
}

static uint64_t tail_huge(uint64_t next)
{
	(void)next;
	return UINT64_C(1) << 63;
}

static uint64_t tail_last(uint64_t next)
{
	(void)next;
	return UINT64_MAX;
}

static uint64_t slot_kept(uint64_t lap, uint64_t distance)
{
	(void)lap;
	(void)distance;
	return SLOT_KEPT;
}

/* A word with the lap's low 32 bits; full: of a record that nobody has. */
static uint64_t slot_word(uint64_t lap, bool full)
{
	return lap << 32 | (full ? RING_FULL_BIT | ring_payload(1023, 31, 65535) : 0);
}

static uint64_t slot_free_later(uint64_t lap, uint64_t distance)
{
	return slot_word(lap + 1 + distance % 77, false);
}

static uint64_t slot_free_before(uint64_t lap, uint64_t distance)
{
	return slot_word(lap - 1 - distance % 77, false);
}

static uint64_t slot_full_before(uint64_t lap, uint64_t distance)
{
	(void)distance;
	return slot_word(lap - 1, true);
}

static uint64_t slot_full_later(uint64_t lap, uint64_t distance)
{
	return slot_word(lap + 1 + distance % 77, true);
}

static uint64_t slot_full_now(uint64_t lap, uint64_t distance)
{
	(void)distance;
	return slot_word(lap, true);
}

static uint64_t slot_full_odd(uint64_t lap, uint64_t distance)
{
	return distance % 2 ? slot_word(lap, true) : SLOT_KEPT;
}

static uint64_t slot_mixed(uint64_t lap, uint64_t distance)
{
	(void)distance;
	return draw() % 2 ? slot_word(lap + draw() % 7 - 3, draw() % 2) : draw();
}

/* What a client leaves in every ring of its uid before it dies; next: the position of the next
 * honest job, as the tail said; lap: that position's. */
static const struct wreck {
	const char *name;
	uint64_t (*tail)(uint64_t next);
	uint64_t (*slot)(uint64_t lap, uint64_t distance); /* distance: from next, in slots */
} wrecks[] = {
	{ "a tail one too far", tail_one_more, slot_kept },
	{ "a tail five too far", tail_five_more, slot_kept },
	{ "a tail a lap too far", tail_lap_more, slot_kept },
	{ "a tail one too low", tail_one_less, slot_kept },
	{ "a tail of zero", tail_zero, slot_kept },
	{ "a tail of 2^63", tail_huge, slot_kept },
	{ "a tail of 2^64 - 1", tail_last, slot_kept },
	{ "slots free for laps to come", tail_kept, slot_free_later },
	{ "slots free for laps that were", tail_kept, slot_free_before },
	{ "slots full of the lap that was", tail_kept, slot_full_before },
	{ "slots full of laps to come", tail_kept, slot_full_later },
	{ "slots full of this lap", tail_kept, slot_full_now },
	{ "every other slot full of this lap", tail_five_more, slot_full_odd },
	{ "slots of all kinds", tail_five_more, slot_mixed },
};

static const struct wreck *wreck;

static void wrecker(void)
{
	hostile_open();
	for (uint32_t i = 0; i < hostile->n_workers; i++) {
		struct ring *ring = &hostile->tenant->rings[i];
		uint64_t next = atomic_load(&ring->tail);

		for (uint64_t k = 0; k < RING_SLOTS; k++) {
			_Atomic uint64_t *slot = &ring->slots[(next + k) % RING_SLOTS];
			uint64_t word = wreck->slot((next + k) / RING_SLOTS, k);

			if (word != SLOT_KEPT)
				atomic_store(slot, word);
		}
		atomic_store(&ring->tail, wreck->tail(next));
	}
	(void)raise(SIGKILL);
}

/* ------------------------------------------------------------------------ the tests */

static bool setup(void)
{
	memset(&d, 0, sizeof(d));
	shared = daemon_share(sizeof(*shared));
	daemon_start(&d, "--workers=2", "--socket-mode=0666", "--stop-timeout=1s",
		     "--stack-max=16M", NULL);
	if (geteuid() != 0)
		printf("not root: one uid, no honest client beside the hostile one\n");
	return geteuid() == 0;
}

/* CPU time that the pool took in this time. */
static uint64_t pool_time(uint64_t ns)
{
	uint64_t times[2];
	clockid_t clock;

	ck_assert_int_eq(clock_getcpuclockid(daemon_pool(&d), &clock), 0);
	for (int i = 0; i < 2; i++) {
		struct timespec t;

		ck_assert_int_eq(clock_gettime(clock, &t), 0);
		times[i] = (uint64_t)t.tv_sec * NSEC_PER_SEC + (uint64_t)t.tv_nsec;
		if (i == 0)
			(void)poll(NULL, 0, (int)(ns / NSEC_PER_MSEC));
	}
	return times[1] - times[0];
}

static void order(enum attack kind)
{
	atomic_store(&shared->kind, kind);
	DAEMON_AWAIT(atomic_load(&shared->doing) == kind);
	atomic_store(&shared->attacks, 0);
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

/* Garbage of one kind, until the honest client has had so many results meanwhile. */
static void besiege(enum attack kind, pid_t other)
{
	uint64_t rounds = daemon_sanitized() ? 500 : 3000;
	uint64_t seen, end = clock_ns() + DAEMON_PATIENCE * NSEC_PER_SEC;

	order(kind);
	seen = atomic_load(&shared->good);
	while (atomic_load(&shared->attacks) < rounds ||
	       (other && atomic_load(&shared->good) < seen + 100)) {
		look_after(other, d.manager);
		ck_assert_msg(clock_ns() < end, "%s: %" PRIu64 " attacks, %" PRIu64 " results",
			      attack_names[kind], atomic_load(&shared->attacks),
			      atomic_load(&shared->good) - seen);
		(void)poll(NULL, 0, 1);
	}
	printf("%-8s %6" PRIu64 " x 16, %" PRIu64 " right results meanwhile\n", attack_names[kind],
	       atomic_load(&shared->attacks), atomic_load(&shared->good) - seen);
}

START_TEST(a_record_with_one_wrong_field_gets_an_outcome_and_never_runs)
{
	pid_t pool;

	(void)setup();
	pool = daemon_pool(&d);
	ck_assert_int_eq(daemon_reap(daemon_client(careful, HOSTILE_UID)), 0);
	ck_assert_int_eq(daemon_pool(&d), pool);
	ck_assert_uint_eq(atomic_load(&d.board->manager.crashes), 0);
	ck_assert_int_eq(daemon_reap(daemon_client(late, HOSTILE_UID)), 0);
	ck_assert_int_eq(daemon_stop(&d), 0);
}
END_TEST

START_TEST(what_a_client_leaves_in_its_uids_rings_does_not_stop_the_next_one)
{
	uint64_t garbage;

	(void)setup();
	for (size_t i = 0; i < 2 * ARRAY_SIZE(wrecks); i++) {
		int status;

		wreck = &wrecks[i % ARRAY_SIZE(wrecks)];
		/* Not always at the same place of the rings, nor in the same lap. */
		for (size_t k = 0; k < 2 + i; k++)
			ck_assert_int_eq(daemon_reap(daemon_client(late, HOSTILE_UID)), 0);
		garbage = daemon_counter(&d, "garbage");
		ck_assert_int_eq(daemon_reap(daemon_client(wrecker, HOSTILE_UID)), 256 + SIGKILL);
		status = daemon_reap(daemon_client(late, HOSTILE_UID));
		ck_assert_msg(status == 0, "after %s the next client ended with %d", wreck->name,
			      status);
		printf("%s: %" PRIu64 " words thrown away\n", wreck->name,
		       daemon_counter(&d, "garbage") - garbage);
	}
	ck_assert_uint_eq(atomic_load(&d.board->manager.crashes), 0);
	ck_assert_int_eq(daemon_stop(&d), 0);
}
END_TEST

START_TEST(garbage_in_every_segment_of_one_uid_does_nothing_to_another)
{
	pid_t manager, pool, evil, other = 0;
	uint64_t seen, spent = UINT64_MAX, stop_ns;
	siginfo_t info;
	bool root = setup();
	int status;

	manager = d.manager;
	pool = daemon_pool(&d);
	if (root)
		other = daemon_client(honest, HONEST_UID);
	evil = daemon_client(attacker, HOSTILE_UID);
	if (root)
		DAEMON_AWAIT(atomic_load(&shared->good) > 0);
	for (enum attack kind = ATTACK_SLOTS; kind < ATTACK_KINDS; kind++)
		besiege(kind, other);
	ck_assert_int_eq(daemon_pool(&d), pool);
	ck_assert_uint_eq(atomic_load(&d.board->manager.crashes), 0);

	/* A new pool maps what has been spoilt, and is shot at meanwhile. */
	atomic_store(&shared->killing, 1);
	ck_assert_int_eq(kill(pool, SIGKILL), 0);
	DAEMON_AWAIT(atomic_load(&d.board->manager.crashes) == 1);
	DAEMON_AWAIT(daemon_pool(&d) != pool);
	pool = daemon_pool(&d);
	seen = atomic_load(&shared->good);
	if (root)
		DAEMON_AWAIT(atomic_load(&shared->good) > seen + 10);
	atomic_store(&shared->killing, 0);
	besiege(ATTACK_ALL, other);
	printf("%" PRIu64 " jobs of the honest client were told of the kill\n",
	       atomic_load(&shared->told));

	/* Nobody has anything to do; what has been written stands there. */
	besiege(ATTACK_SUMMARY, other);
	order(ATTACK_NONE);
	atomic_store(&shared->stop, 1);
	if (root)
		ck_assert_int_eq(daemon_reap(other), 0);
	for (int i = 0; i < 20 && spent > SETTLE_NS / 20; i++)
		spent = pool_time(SETTLE_NS);
	printf("then the pool took %" PRIu64 " us of %" PRIu64 " ms\n", spent / 1000,
	       SETTLE_NS / NSEC_PER_MSEC);
	ck_assert_uint_le(spent, SETTLE_NS / 20);

	/* New clients of other uids work, while it is there and when it has been killed. */
	if (root) {
		ck_assert_int_eq(daemon_reap(daemon_client(late, 0)), 0);
		ck_assert_int_eq(daemon_reap(daemon_client(late, HONEST_UID)), 0);
	}
	order(ATTACK_ALL);
	DAEMON_AWAIT(atomic_load(&shared->attacks) > 10);
	ck_assert_int_eq(kill(evil, SIGKILL), 0);
	ck_assert_int_eq(daemon_reap(evil), 256 + SIGKILL);
	DAEMON_AWAIT(atomic_load(&d.board->manager.clients) == 1);
	if (root)
		ck_assert_int_eq(daemon_reap(daemon_client(late, FRESH_UID)), 0);
	/* And of its own uid: it has spoilt what they share, down to the head of the segment, and
	 * nobody but the manager and the pool puts that in order again. */
	ck_assert_int_eq(daemon_reap(daemon_client(late, HOSTILE_UID)), 0);

	ck_assert_int_eq(daemon_pool(&d), pool);
	ck_assert_uint_eq(atomic_load(&d.board->manager.crashes), 1);
	look_after(0, manager);

	/* And it stops in its time under fire: from a uid whose segments can still be mapped. */
	atomic_store(&shared->doing, ATTACK_NONE);
	evil = daemon_client(attacker, FRESH_UID);
	if (root) {
		order(ATTACK_ALL);
		DAEMON_AWAIT(atomic_load(&shared->attacks) > 10);
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

CHECK_MAIN("hostile", a_record_with_one_wrong_field_gets_an_outcome_and_never_runs,
	   what_a_client_leaves_in_its_uids_rings_does_not_stop_the_next_one,
	   garbage_in_every_segment_of_one_uid_does_nothing_to_another)
