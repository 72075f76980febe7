/* SPDX-License-Identifier: MIT */
/* gate.c - decides for the pool about new executable memory: gate.h */
#include "daemon/manager/gate.h"

#include <errno.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/clock.h"
#include "common/log.h"
#include "common/util.h"

#define GATE_PAUSE_NS NSEC_PER_MSEC

/* I1. The filter forwards only mmap(2). */
static bool gate_passes(const struct gate *gate, const struct seccomp_notif *question)
{
	const __u64 *args = question->data.args;

	return gate->open && question->pid == (uint32_t)gate->pid && !(args[2] & PROT_WRITE) &&
	       (args[3] & MAP_TYPE) == MAP_PRIVATE && !(args[3] & MAP_ANONYMOUS);
}

/* Waits for the next question, after a pause (I3) if pauses is set. */
static void gate_listen(struct gate *gate, bool pauses)
{
	int r = pauses ? loop_timer(gate->loop, &gate->source, GATE_PAUSE_NS)
		       : loop_poll(gate->loop, &gate->source, gate->fd, POLLIN);

	if (r == 0)
		return;
	log_error("out of memory: no module can be loaded while jobs run");
	gate_end(gate);
}

static void gate_on_question(struct loop_source *source, int result)
{
	struct gate *gate = container_of(source, struct gate, source);
	struct seccomp_notif question = { 0 };
	struct seccomp_notif_resp answer = { 0 };

	if (result == 0) {
		gate_listen(gate, false); /* the pause has ended */
		return;
	}
	/* The pool's last thread has ended. */
	if (result < 0 || !(result & POLLIN)) {
		gate_end(gate);
		return;
	}
	/* ENOENT: the calling thread has ended, or got a signal. */
	if (ioctl(gate->fd, SECCOMP_IOCTL_NOTIF_RECV, &question) == 0) {
		answer.id = question.id;
		if (gate_passes(gate, &question))
			answer.flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE;
		else
			answer.error = -EPERM;
		(void)ioctl(gate->fd, SECCOMP_IOCTL_NOTIF_SEND, &answer);
	}
	gate_listen(gate, !gate->open);
}

void gate_begin(struct gate *gate, struct loop *loop, int fd, pid_t pid)
{
	struct seccomp_notif_sizes sizes;

	*gate = (struct gate){
		.loop = loop,
		.source = { .call = gate_on_question },
		.fd = fd,
		.pid = pid,
	};
	/* A later kernel's structures may be larger: then it would write beyond these. */
	if (syscall(SYS_seccomp, SECCOMP_GET_NOTIF_SIZES, 0, &sizes) < 0 ||
	    sizes.seccomp_notif > sizeof(struct seccomp_notif) ||
	    sizes.seccomp_notif_resp > sizeof(struct seccomp_notif_resp)) {
		gate_end(gate);
		return;
	}
	gate_listen(gate, false);
}

void gate_end(struct gate *gate)
{
	if (gate->fd < 0)
		return;
	loop_forget(gate->loop, &gate->source);
	gate->fd = safe_close(gate->fd);
	gate->open = false;
}
