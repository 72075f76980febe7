/* SPDX-License-Identifier: MIT */
/*
 * soak_stress: eight workers on two CPUs, preempted at random. Clients call every shipped task and
 * check every result, cancel jobs, give them deadlines, and are killed at random. The scheduler is
 * switched at the same time.
 *
 * 	soak_stress [SECONDS]		default: 10; SOAK_SECONDS in the environment overrides it
 *
 * It fails on a wrong result, a client that ends, a pool that dies, and on a hang. A hang is a
 * client with outstanding jobs none of which ends in SOAK_PATIENCE seconds. Preemption stops after
 * the first such time, because a thread of the lowest priority may get no CPU for as long; a lost
 * job does not end in the second time either. Then the test prints forkctl status and counters.
 * From /proc, and by eu-stack or gdb, it prints the position of each thread of the pool and of that
 * client.
 */
#include <check.h>
#include <inttypes.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/util.h"
#include "tests/support/check_unit.h"
#include "tests/support/daemon.h"
#include "tests/soak/soak_jobs.h"
#include "tests/soak/soak_torment.h"

#define SOAK_CLIENTS	 6u
#define SOAK_CPUS	 2
#define SOAK_PATIENCE	 30u /* seconds without an end, times CK_TIMEOUT_MULTIPLIER */
#define SOAK_LOOK_MS	 20
#define SOAK_KILL_MS	 400u  /* two kills are at most twice this apart */
#define SOAK_SWITCH_MS	 4000u /* the same of the scheduler */
#define SOAK_PROGRESS_NS (60 * NSEC_PER_SEC)

struct shared {
	_Atomic uint32_t stop;
	struct soak_slot slots[SOAK_CLIENTS];
};

/* The state of a client, as the test has seen it. */
struct watch {
	pid_t pid;
	uint64_t done;	   /* when it was last looked at */
	uint64_t since_ns; /* when that had changed */
	uint64_t total;	   /* of those before it */
	bool late;	   /* it had not for so long that the preemption was stopped */
};

static uint64_t soak_seconds = 10;
static uint64_t multiplier = 1;
static uint64_t first_seed; /* to be repeated with SOAK_SEED */
static uint64_t seed;
static struct shared *shared;
static struct daemon d;
static struct watch watches[SOAK_CLIENTS];
static struct soak_torment *torment;
static struct soak_torment_counts counts;

/* At most two CPUs. */
static void stay_on_two_cpus(void)
{
	cpu_set_t set;
	int n = 0;

	ck_assert_int_eq(sched_getaffinity(0, sizeof(set), &set), 0);
	for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
		if (CPU_ISSET(cpu, &set) && n++ >= SOAK_CPUS)
			CPU_CLR(cpu, &set);
	ck_assert_int_eq(sched_setaffinity(0, sizeof(set), &set), 0);
}

static void start_client(uint32_t i)
{
	struct soak_slot *slot = &shared->slots[i];
	uint64_t random = xorshift64(&seed);

	watches[i].total += atomic_load(&slot->done);
	memset(slot, 0, sizeof(*slot));
	watches[i].done = 0;
	watches[i].late = false;
	watches[i].since_ns = clock_ns();
	watches[i].pid = daemon_fork(DAEMON_UID);
	if (watches[i].pid == 0)
		_exit(soak_jobs_run(d.socket, slot, random, &shared->stop));
}

static uint64_t right_results(void)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < SOAK_CLIENTS; i++)
		sum += watches[i].total + atomic_load(&shared->slots[i].done);
	return sum;
}

/* ------------------------------------------------------------------------ when it hangs */

static void show(const char *title, const char *const *argv)
{
	static char text[1 << 20];

	(void)daemon_run(&d, text, sizeof(text), argv);
	(void)fprintf(stderr, "---- %s\n%s\n", title, text);
}

static void show_threads(const char *title, pid_t pid)
{
	char command[1024];

	/* A debugger that hangs must not hide the rest. */
	(void)snprintf(command, sizeof(command),
		       "exec 2>&1 </dev/null; for t in /proc/%d/task/*; do "
		       "echo \"$t $(cat $t/comm $t/wchan $t/syscall $t/stack | tr '\\n' ' ')\"; "
		       "done; timeout -s KILL 20 eu-stack -p %d || "
		       "timeout -s KILL 20 gdb -q -batch -p %d -ex 'thread apply all bt'",
		       (int)pid, (int)pid, (int)pid);
	show(title, (const char *const[]){ "/bin/sh", "-c", command, NULL });
}

static void dump(uint32_t client)
{
	(void)fprintf(stderr, "client %d hangs in %s, %u jobs outstanding, seed %" PRIu64 "\n",
		      (int)watches[client].pid, soak_jobs_name(shared->slots[client].job),
		      shared->slots[client].outstanding, first_seed);
	for (uint32_t i = 0; i < d.board->manager.n_workers; i++)
		(void)fprintf(stderr, "worker %u: tid %u, wake word %#x, job %#x, task %#x\n", i,
			      d.board->workers[i].tid, d.board->workers[i].wake,
			      d.board->running[i].job,
			      board_job_task(d.board, d.board->running[i].job));
	(void)fprintf(stderr, "dispatcher: %#x\n", d.board->dispatcher);
	show("forkctl status", (const char *const[]){ "forkctl", "status", NULL });
	show("forkctl counters", (const char *const[]){ "forkctl", "counters", NULL });
	show_threads("the pool", daemon_pool(&d));
	show_threads("the client", watches[client].pid);
	ck_abort_msg("%s: nothing has ended in %" PRIu64 " s under preemption, and as long without",
		     soak_jobs_name(shared->slots[client].job), SOAK_PATIENCE * multiplier);
}

/* ------------------------------------------------------------------------ while it runs */

static void look_after(uint32_t i)
{
	const struct soak_slot *slot = &shared->slots[i];
	struct watch *w = &watches[i];
	uint64_t done = atomic_load(&slot->done), now = clock_ns();
	siginfo_t info = { 0 };

	ck_assert_int_eq(waitid(P_PID, (id_t)w->pid, &info, WEXITED | WNOHANG | WNOWAIT), 0);
	/* After the stop request it may end at any time; its status is checked then. */
	ck_assert_msg(info.si_pid == 0 || atomic_load(&shared->stop),
		      "a client ended with %d in %s: %s", info.si_status, soak_jobs_name(slot->job),
		      slot->wrong);
	if (done != w->done) {
		w->done = done;
		w->since_ns = now;
		w->late = false;
	}
	if (now - w->since_ns <= SOAK_PATIENCE * multiplier * NSEC_PER_SEC)
		return;
	if (w->late)
		dump(i);
	printf("%s is late\n", soak_jobs_name(slot->job));
	(void)fflush(stdout);
	w->late = true;
	w->since_ns = now;
	torment = soak_torment_free(torment, &counts);
}

/* Checks all clients, and preempts again when no job is late any more. */
static void look_after_all(void)
{
	bool late = false;

	for (uint32_t i = 0; i < SOAK_CLIENTS; i++) {
		look_after(i);
		late |= watches[i].late;
	}
	if (!torment && !late)
		torment = soak_torment_new(&d.board->manager.pool_pid, xorshift64(&seed));
}

static void kill_one(uint64_t *ret_kills)
{
	uint32_t i = (uint32_t)(xorshift64(&seed) % SOAK_CLIENTS);

	look_after(i);
	ck_assert_int_eq(kill(watches[i].pid, SIGKILL), 0);
	ck_assert_int_eq(daemon_reap(watches[i].pid), 256 + SIGKILL);
	start_client(i);
	(*ret_kills)++;
}

/* Switches to the other scheduler. Returns true if it is the busy one. */
static bool switch_scheduler(bool busy)
{
	char text[1024];

	ck_assert_msg(daemon_ctl(&d, text, sizeof(text), "set", "scheduler", busy ? "lazy" : "busy",
				 NULL) == 0,
		      "forkctl set: %s", text);
	return !busy;
}

static void tell(uint64_t kills, uint64_t switches)
{
	printf("%" PRIu64 " right results, %" PRIu64 " clients killed, the scheduler switched "
	       "%" PRIu64 " times\n",
	       right_results(), kills, switches);
	(void)fflush(stdout);
}

/* Returns a time from now, at most twice ms later. */
static uint64_t draw_ns(uint64_t ms)
{
	return xorshift64(&seed) % (2 * ms) * NSEC_PER_MSEC;
}

static void soak(const char *scheduler)
{
	bool busy = streq(scheduler, "busy");
	static const char *const foreign[] = { "ask",
					       "bytes",
					       "count",
					       "crash",
					       "deep",
					       "flat",
					       "hang",
					       "hog",
					       "mark",
					       "null",
					       "spin",
					       "stall",
					       "wild",
					       "fiber:spin",
					       "fiber:circle",
					       "fiber:ends_aside",
					       "fiber:signals",
					       "fiber:stubborn",
					       NULL };
	char option[64];
	const char *missing = NULL;
	uint64_t kills = 0, switches = 0, end_ns, kill_ns, switch_ns, tell_ns;

	memset(watches, 0, sizeof(watches));
	stay_on_two_cpus();
	shared = daemon_share(sizeof(*shared));
	(void)snprintf(option, sizeof(option), "--scheduler=%s", scheduler);
	daemon_start(&d, "--workers=8", option, NULL);
	ck_assert_msg(soak_jobs_cover(d.board, foreign, &missing), "no client calls %s", missing);
	printf("%s, %" PRIu64 " s, seed %" PRIu64 "\n", scheduler, soak_seconds, first_seed);
	for (uint32_t i = 0; i < SOAK_CLIENTS; i++)
		start_client(i);
	torment = soak_torment_new(&d.board->manager.pool_pid, seed);
	kill_ns = tell_ns = clock_ns();
	end_ns = kill_ns + soak_seconds * NSEC_PER_SEC;
	switch_ns = kill_ns + draw_ns(SOAK_SWITCH_MS / 2);
	while (clock_ns() < end_ns) {
		(void)poll(NULL, 0, SOAK_LOOK_MS);
		look_after_all();
		ck_assert_msg(!daemon_crashes(&d), "the pool died, see %s", d.log);
		if (clock_ns() > kill_ns) {
			kill_one(&kills);
			kill_ns += draw_ns(SOAK_KILL_MS);
		}
		if (clock_ns() > switch_ns) {
			busy = switch_scheduler(busy);
			switches++;
			switch_ns += draw_ns(SOAK_SWITCH_MS);
		}
		if (clock_ns() > tell_ns + SOAK_PROGRESS_NS) {
			tell_ns += SOAK_PROGRESS_NS;
			tell(kills, switches);
		}
	}
	/* Under preemption, too, every client ends its outstanding jobs. */
	atomic_store(&shared->stop, 1);
	for (uint32_t i = 0; i < SOAK_CLIENTS; i++) {
		siginfo_t info = { 0 };

		while (waitid(P_PID, (id_t)watches[i].pid, &info, WEXITED | WNOHANG | WNOWAIT) ==
			       0 &&
		       !info.si_pid) {
			look_after(i);
			(void)poll(NULL, 0, SOAK_LOOK_MS);
		}
		ck_assert_msg(daemon_reap(watches[i].pid) == 0, "%s", shared->slots[i].wrong);
	}
	torment = soak_torment_free(torment, &counts);
	DAEMON_AWAIT(atomic_load(&d.board->manager.clients) == 1);
	tell(kills, switches);
	printf("%" PRIu64 " threads held, %" PRIu64 " moved, the pool stopped %" PRIu64 " times\n",
	       counts.thread_stops, counts.moves, counts.pool_stops);
	if (counts.may_not_trace)
		printf("single threads were not held: ptrace is not allowed here\n");
	ck_assert_uint_gt(right_results(), 0);
	ck_assert_uint_gt(counts.pool_stops, 0);
	ck_assert(counts.may_not_trace || counts.thread_stops > 0);
	ck_assert_uint_eq(daemon_crashes(&d), 0);
	ck_assert_int_eq(daemon_stop(&d), 0);
}

START_TEST(every_result_is_correct_and_nothing_hangs_on_preempted_lazy_workers)
{
	soak("lazy");
}
END_TEST

START_TEST(every_result_is_correct_and_nothing_hangs_on_preempted_busy_workers)
{
	soak("busy");
}
END_TEST

static uint64_t number(const char *text, uint64_t otherwise)
{
	uint64_t n = text ? strtoull(text, NULL, 10) : 0;

	return n ? n : otherwise;
}

int main(int argc, char *argv[])
{
	uint64_t seconds;

	seconds = number(getenv("SOAK_SECONDS"), number(argc > 1 ? argv[1] : NULL, 10));
	first_seed = seed = number(getenv("SOAK_SEED"), clock_ns());
	multiplier = number(getenv("CK_TIMEOUT_MULTIPLIER"), 1);
	soak_seconds = (seconds + 1) / 2;
	/* Its own watchdog acts earlier. */
	return check_unit_run("soak_stress", NULL, NULL, (double)soak_seconds + 8 * SOAK_PATIENCE);
}
