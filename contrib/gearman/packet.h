/* SPDX-License-Identifier: MIT */
/*
 * packet.h - the packets of the Gearman protocol that clients and workers send and receive
 *
 * A packet is a head of 12 bytes and its data. The head is the magic, a type and the size of the
 * data, each of 4 bytes, big-endian. The data has arguments separated by a byte 0. The last one
 * ends with the data.
 */
#pragma once

#include <endian.h>
#include <stdint.h>
#include <string.h>

#define PACKET_HEAD   12u /* bytes */
#define PACKET_HANDLE 64u /* bytes of a job's handle at a server, with its NUL */
#define PACKET_UNIQUE 64u /* bytes of a job's unique id, with its NUL */

#define PACKET_REQUEST "\0REQ"
#define PACKET_ANSWER  "\0RES"

enum packet_type {
	PACKET_CAN_DO = 1, /* function */
	PACKET_PRE_SLEEP = 4,
	PACKET_NOOP = 6,
	PACKET_SUBMIT = 7,  /* function, unique id, payload */
	PACKET_CREATED = 8, /* handle */
	PACKET_NO_JOB = 10,
	PACKET_COMPLETE = 13,	 /* handle, answer */
	PACKET_FAIL = 14,	 /* handle */
	PACKET_ECHO = 16,	 /* any data */
	PACKET_ECHOED = 17,	 /* the same */
	PACKET_ERROR = 19,	 /* code, text */
	PACKET_SUBMIT_HIGH = 21, /* as PACKET_SUBMIT */
	PACKET_EXCEPTION = 25,	 /* handle, text */
	PACKET_OPTION = 26,	 /* name of an option */
	PACKET_OPTION_SET = 27,	 /* the same */
	PACKET_WARNING = 29,	 /* handle, text */
	PACKET_GRAB = 30,	 /* a request with the unique id */
	PACKET_ASSIGN = 31,	 /* handle, function, unique id, payload */
	PACKET_SUBMIT_LOW = 33,	 /* as PACKET_SUBMIT */
};

/* Writes the head of a request. */
static inline void packet_write_head(char *head, enum packet_type type, uint32_t size)
{
	uint32_t words[2] = { htobe32((uint32_t)type), htobe32(size) };

	memcpy(head, PACKET_REQUEST, 4);
	memcpy(head + 4, words, sizeof(words));
}

/* Reads the head of an answer. False if it is none. */
static inline int packet_read_head(const char *head, uint32_t *ret_type, uint32_t *ret_size)
{
	uint32_t words[2];

	if (memcmp(head, PACKET_ANSWER, 4) != 0)
		return 0;
	memcpy(words, head + 4, sizeof(words));
	*ret_type = be32toh(words[0]);
	*ret_size = be32toh(words[1]);
	return 1;
}

/* Splits the first argument off the data. handle: PACKET_HANDLE bytes; empty if it is malformed.
 * Returns the rest, and sets *ret_size to its size. */
static inline const char *packet_handle(const char *data, uint32_t size, char *handle,
					uint32_t *ret_size)
{
	uint32_t length = (uint32_t)strnlen(data, size);

	handle[0] = '\0';
	if (length < PACKET_HANDLE) {
		memcpy(handle, data, length);
		handle[length] = '\0';
	}
	*ret_size = length < size ? size - length - 1 : 0;
	return data + (size - *ret_size);
}
