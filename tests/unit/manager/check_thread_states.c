/* SPDX-License-Identifier: MIT */
/* thread_states: processes that sleep, run, are stopped, or do not exist */
#include "daemon/manager/thread_states.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/check_unit.h"
#include "tests/support/daemon.h"

static void *rest(void *arg)
{
	for (;;)
		(void)pause();
	return arg;
}

static void *spin(void *arg)
{
	for (volatile int on = 1; on;)
		;
	return arg;
}

/* Starts a process of three threads, the last of which runs this function. */
static pid_t begin(void *(*last)(void *))
{
	pthread_t thread;
	pid_t pid = fork();

	ck_assert_int_ge(pid, 0);
	if (pid)
		return pid;
	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (pthread_create(&thread, NULL, rest, NULL) != 0 ||
	    pthread_create(&thread, NULL, last, NULL) != 0)
		_exit(1);
	(void)rest(NULL);
	_exit(1);
}

static void end(pid_t pid)
{
	ck_assert_int_eq(kill(pid, SIGKILL), 0);
	ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
}

START_TEST(process_is_asleep_if_each_thread_sleeps)
{
	pid_t pid = begin(rest);

	while (!thread_states_look(pid).asleep)
		;
	ck_assert(!thread_states_look(pid).killed);
	end(pid);
	ck_assert(!thread_states_look(pid).asleep);
	ck_assert(!thread_states_look(pid).killed);
}
END_TEST

START_TEST(process_is_not_asleep_if_a_thread_runs_or_waits_for_a_CPU)
{
	pid_t pid = begin(spin);
	uint32_t n = 0;

	while (daemon_proc_status(pid, "Threads") < 3)
		;
	for (uint32_t i = 0; i < 100; i++)
		n += thread_states_look(pid).asleep;
	ck_assert_uint_eq(n, 0);
	end(pid);
}
END_TEST

START_TEST(process_is_not_asleep_if_it_is_stopped)
{
	pid_t pid = begin(rest);
	siginfo_t info;

	while (!thread_states_look(pid).asleep)
		;
	ck_assert_int_eq(kill(pid, SIGSTOP), 0);
	ck_assert_int_eq(waitid(P_PID, (id_t)pid, &info, WSTOPPED), 0);
	ck_assert(!thread_states_look(pid).asleep);
	end(pid);
}
END_TEST

START_TEST(process_is_traced_if_a_thread_is)
{
	pid_t pid = begin(rest);

	ck_assert(!thread_states_look(pid).traced);
	if (ptrace(PTRACE_SEIZE, pid, NULL, NULL) == 0)
		ck_assert(thread_states_look(pid).traced);
	else
		printf("ptrace is not allowed here\n");
	end(pid);
}
END_TEST

CHECK_MAIN("thread_states")
