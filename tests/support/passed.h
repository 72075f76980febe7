/* SPDX-License-Identifier: MIT */
/*
 * passed.h - descriptors that a client sends so that another process closes them
 *
 * A TCP connection with SO_LINGER whose peer reads nothing and has no room left. The process that
 * closes it last waits until the peer is closed, or for PASSED_LINGER seconds, which is longer than
 * any test. Also many descriptors in one message.
 */
#pragma once

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stddef.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/util.h"
#include "tests/support/refuse.h"

#define PASSED_LINGER 3600
#define PASSED_MANY   253u /* the maximum for one message */
#define PASSED_RIGHTS 83   /* SO_PASSRIGHTS */

/* Not an assertion of libcheck: other processes than the test's call it, too. */
static inline void passed_must(bool condition)
{
	if (!condition)
		abort();
}

/* Returns such a connection; closing *ret_peer ends all waiting. */
static inline int passed_lingering(int *ret_peer)
{
	struct sockaddr_in address = { .sin_family = AF_INET,
				       .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	struct linger linger = { .l_onoff = 1, .l_linger = PASSED_LINGER };
	int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	socklen_t size = sizeof(address);
	char bytes[4096] = { 0 };
	int small = 4096;

	passed_must(setsockopt(listener, SOL_SOCKET, SO_RCVBUF, &small, sizeof(small)) == 0);
	passed_must(setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &small, sizeof(small)) == 0);
	passed_must(bind(listener, (struct sockaddr *)&address, size) == 0);
	passed_must(listen(listener, 1) == 0);
	passed_must(getsockname(listener, (struct sockaddr *)&address, &size) == 0);
	passed_must(connect(fd, (struct sockaddr *)&address, size) == 0);
	*ret_peer = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
	passed_must(*ret_peer >= 0);
	(void)close(listener);
	while (send(fd, bytes, sizeof(bytes), MSG_DONTWAIT) > 0)
		;
	passed_must(errno == EAGAIN);
	passed_must(setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger)) == 0);
	return fd;
}

/* Sends a message with descriptors, which the caller keeps. Returns 0 or a negative errno. */
static inline int passed_send(int fd, const void *message, size_t size, const int *fds, uint32_t n)
{
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(PASSED_MANY * sizeof(int))];
	} control = { 0 };
	struct iovec iov = { .iov_base = (void *)(uintptr_t)message, .iov_len = size };
	struct msghdr header = {
		.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = &control,
		.msg_controllen = CMSG_SPACE(n * sizeof(int)),
	};

	control.align.cmsg_level = SOL_SOCKET;
	control.align.cmsg_type = SCM_RIGHTS;
	control.align.cmsg_len = CMSG_LEN(n * sizeof(int));
	memcpy(CMSG_DATA(&control.align), fds, n * sizeof(int));
	return sendmsg(fd, &header, MSG_NOSIGNAL | MSG_DONTWAIT) < 0 ? -errno : 0;
}

/* Sends a lingering connection of which no other process has a descriptor. Returns its peer. */
static inline int passed_send_lingering(int fd, const void *message, size_t size, int *ret_result)
{
	int peer, lingering = passed_lingering(&peer);

	*ret_result = passed_send(fd, message, size, &lingering, 1);
	if (*ret_result < 0) {
		/* This process must not wait. */
		struct linger none = { .l_onoff = 1, .l_linger = 0 };

		(void)setsockopt(lingering, SOL_SOCKET, SO_LINGER, &none, sizeof(none));
	}
	(void)close(lingering);
	return peer;
}

/* From now on this process and its children have a kernel without SO_PASSRIGHTS. */
static inline void passed_old_kernel(void)
{
	passed_must(refuse_call_if(SYS_setsockopt, 2, BPF_JEQ, PASSED_RIGHTS, ENOPROTOOPT));
}
