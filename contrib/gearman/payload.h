/* SPDX-License-Identifier: MIT */
/*
 * payload.h - the arguments and the result of a task as the payload of a Gearman job
 *
 * A Gearman job calls the function MODULE:TASK. Its payload has one of two forms. The answer has
 * the form of the call.
 *
 * JSON (RFC 8259), for tasks without buffers
 *   A call is an array with one element for each argument, in the order of the signature: an
 *   integer for i64, a number for f64, and a string without U+0000 for str. An answer is an array
 *   of the results. JSON has no f64 that is not finite: such a result is an exception.
 *
 * FRAME, for all tasks
 *   All numbers are little-endian; an f64 is an IEEE 754 binary64. struct payload_call is followed
 *   by one word of 8 bytes for each argument: the value of an i64 or f64, or the size in bytes of a
 *   str, buf or iobuf. The data of these begins at byte PAYLOAD_DATA, in the order of the
 *   arguments. Each begins at the next multiple of PAYLOAD_ALIGN, so that a task can read it where
 *   it arrived. A str contains no byte 0. It is followed by one that its size does not count. Bytes
 *   in between are 0. The payload ends with the data of the last str (and its 0), buf or iobuf;
 *   without any of these, with the last word. An empty buf has a place as others have.
 *   An answer is struct payload_answer, one word for each result, and one word for the size of each
 *   iobuf. The data of the iobufs begins and is aligned as that of a call. So a gateway can write
 *   the answer over the call, in front of the first iobuf.
 *
 * EXCEPTIONS
 *   A frame that fails ends with WORK_EXCEPTION. Its client must have requested exceptions
 *   (OPTION_REQ). All other jobs end with WORK_WARNING and WORK_FAIL. The reason is gearmand
 *   1.1.20: a client without exceptions does not recognise how it ends such a job.
 *   An exception, or warning, is the line "OUTCOME CODE: TEXT". OUTCOME is a name of
 *   fk_outcome_name(), or
 *     REFUSED   the task was not started: the payload is malformed, the task is unknown, or the
 *               user of the gateway may not call it
 *     UNKNOWN   the task may have run: the gateway or its forkd ended, or the job was assigned
 *               twice
 *   CODE is the negative errno of the failure, the positive number of a task, or the signal that
 *   ended a task that CRASHED; otherwise 0. A negative number below -4095 is one of FK_E_* in
 *   forkd/client.h.
 *
 * All sizes and values in a payload are a stranger's: each is checked before it is used.
 */
#pragma once

#include <forkd/client.h>
#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

#include "shm/signature.h"

#define PAYLOAD_DATA  256u /* bytes: where the data of a frame begins */
#define PAYLOAD_ALIGN 64u  /* bytes */
#define PAYLOAD_MAX                                                                                \
	(UINT32_MAX - 4096u) /* bytes; Gearman has 32 bits for a packet with its names */

#define PAYLOAD_CALL   "FKC1"
#define PAYLOAD_ANSWER "FKA1"

/* Flags of a call. */
#define PAYLOAD_IDEMPOTENT 1u /* the task may run again if it is not known whether it ended */

/* The head of a call. */
struct payload_call {
	char magic[4]; /* PAYLOAD_CALL */
	uint32_t flags;
	uint64_t hash;	     /* signature_hash() of the task; 0: not compared */
	uint64_t timeout_ns; /* of the job at forkd; 0: none */
	uint32_t weight;     /* as in struct fk_job_options; 0: default */
	uint32_t n_args;
};

/* The head of an answer. */
struct payload_answer {
	char magic[4]; /* PAYLOAD_ANSWER */
	uint32_t n_results;
	uint32_t n_buffers; /* iobufs */
	uint32_t reserved;  /* 0 */
	uint64_t wait_ns;   /* as in struct fk_timings, at the machine that ran the task */
	uint64_t run_ns;
};

#define PAYLOAD_ERROR 256u /* bytes of an error text with its NUL */

/* ------------------------------------------------------------ a gateway: call in, answer out */

/* A call as values of forkd. */
struct payload {
	int is_json;
	uint32_t flags;				   /* PAYLOAD_IDEMPOTENT; 0 in JSON */
	uint32_t weight;			   /* 0 in JSON */
	uint64_t timeout_ns;			   /* 0 in JSON */
	union fk_value values[SIGNATURE_MAX_ARGS]; /* one for each argument */
	json_t *strings[SIGNATURE_MAX_ARGS];	   /* owned: the text of each str of JSON */
	char small[PAYLOAD_DATA];		   /* an answer without iobufs */
};

/*
 * Parses a call in place.
 * data, size: the payload; data may be NULL if size is 0. The values of a frame refer to it. A task
 *   can use the buffers without a copy if data is a multiple of PAYLOAD_ALIGN.
 * hash: signature_hash() of the task.
 * ret_payload: payload_fini() frees it; not set on failure.
 * error: PAYLOAD_ERROR bytes; set on failure to one line that names the argument, what was found
 *   and what is expected.
 * Returns 0, or
 *	-EBADMSG         the payload is neither JSON nor a frame, or is malformed
 *	-FK_E_SIGNATURE  the arguments do not fit the signature
 *	-FK_E_TASK_GONE  the caller's hash is that of another signature
 *	-FK_E_WEIGHT     a weight above FK_WEIGHT_MAX
 *	-ENOMEM
 */
int payload_parse_call(void *data, size_t size, const struct signature *signature, uint64_t hash,
		       struct payload *ret_payload, char *error);

/*
 * Writes the answer to a call, in its form. Each iobuf stays where it is in the call, or moves
 * towards the front; so payload and the memory of the call must live until the answer was sent.
 * payload: of payload_parse_call(). The values of its iobufs become invalid.
 * results: packed in the order of the signature, as fk_result() writes them.
 * error: PAYLOAD_ERROR bytes, set on failure.
 * Sets *ret_answer to an address within payload or within the memory of the call.
 * Returns 0, or -EDOM (a result is not finite, and the form is JSON), -ENOMEM.
 */
int payload_write_answer(struct payload *payload, const struct signature *signature,
			 const void *results, const struct fk_timings *timings,
			 const void **ret_answer, size_t *ret_size, char *error);

/* Frees the strings of a call. */
void payload_fini(struct payload *payload);

/* ------------------------------------------------------------- a client: call out, answer in */

/*
 * Calculates the size of a frame.
 * values: one for each argument, as in fk_submit_values().
 * error: PAYLOAD_ERROR bytes, set on failure.
 * Returns 0, or
 *	-FK_E_NULL         a string is NULL
 *	-FK_E_BUFFER_NULL  a buffer is NULL and has a size
 *	-EFBIG             the frame exceeds PAYLOAD_MAX
 */
int payload_call_size(const struct signature *signature, const union fk_value *values,
		      size_t *ret_size, char *error);

/*
 * Writes a call as a frame.
 * memory: payload_call_size() bytes. hash: signature_hash() of the task. flags: PAYLOAD_*.
 * timeout_ns, weight: as in struct fk_job_options.
 */
void payload_write_call(void *memory, const struct signature *signature,
			const union fk_value *values, uint64_t hash, uint32_t flags,
			uint64_t timeout_ns, uint32_t weight);

/*
 * Parses an answer to a frame, and copies the iobufs back.
 * values: those of the call; the contents of its iobufs are overwritten.
 * results: signature->results_size bytes, packed in the order of the signature.
 * error: PAYLOAD_ERROR bytes, set on failure.
 * Returns 0, or -EBADMSG: it is malformed, or does not fit the signature and the sizes of the
 * iobufs. Then nothing but error is set.
 */
int payload_parse_answer(const void *data, size_t size, const struct signature *signature,
			 const union fk_value *values, void *results,
			 struct fk_timings *ret_timings, char *error);

/* ------------------------------------------------------------------------------ exceptions */

#define PAYLOAD_REFUSED "REFUSED"
#define PAYLOAD_UNKNOWN "UNKNOWN"

#define PAYLOAD_EXCEPTION 1024u /* bytes of an exception with its NUL */

/* An exception. */
struct payload_exception {
	char outcome[16]; /* upper case letters: a name of fk_outcome_name(), or PAYLOAD_* */
	int code;
	char text[PAYLOAD_EXCEPTION]; /* one line */
};

/*
 * Formats an exception. Control characters of the text become "?".
 * line: PAYLOAD_EXCEPTION bytes, cut short if the text does not fit.
 * Returns its length in bytes, without the NUL.
 */
size_t payload_format_exception(char *line, const char *outcome, int code, const char *text);

/*
 * Parses an exception.
 * data, size: as received, without a NUL.
 * Returns 0, or -EBADMSG: it does not have this form, as that of a worker that is no gateway.
 */
int payload_parse_exception(const void *data, size_t size, struct payload_exception *ret_exception);
