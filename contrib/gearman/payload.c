/* SPDX-License-Identifier: MIT */
/*
 * payload.c - frames and exceptions; payload_json.c has JSON
 *
 * INVARIANTS
 *   I1. A size in a frame is compared with the bytes that are left, and then added to a position.
 *       So no position exceeds the size of the payload, and no sum overflows.
 *   I2. An answer is written over a call from front to back. The data of an iobuf moves to a lower
 *       address or stays: in front of it are fewer buffers than in the call, and the answer begins
 *       PAYLOAD_DATA bytes before the first iobuf.
 */
#include "contrib/gearman/payload.h"

#include <endian.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "common/number.h"
#include "common/text.h"
#include "common/util.h"
#include "contrib/gearman/payload_json.h"

_Static_assert(sizeof(struct payload_call) == 32 && sizeof(struct payload_answer) == 32,
	       "the format of a frame");
_Static_assert(sizeof(struct payload_call) + 8 * SIGNATURE_MAX_ARGS <= PAYLOAD_DATA,
	       "a call's words end before its data");
_Static_assert(sizeof(struct payload_answer) + 8 * (SIGNATURE_MAX_RESULTS + SIGNATURE_MAX_ARGS) <=
		       PAYLOAD_DATA,
	       "an answer's words end before its data");

int payload_refuse(char *error, int code, const char *kind, const struct signature_item *items,
		   size_t i, const char *what, ...)
{
	int at = snprintf(error, PAYLOAD_ERROR, "%s %zu (%s%s%s) ", kind, i + 1, items[i].name,
			  items[i].name[0] ? ":" : "",
			  signature_type_name((enum signature_type)items[i].type));
	va_list args;

	va_start(args, what);
	(void)vsnprintf(error + at, PAYLOAD_ERROR - (size_t)at, what, args);
	va_end(args);
	text_make_line(error, strlen(error));
	return code;
}

static enum signature_type argument_type(const struct signature *signature, size_t i)
{
	return (enum signature_type)signature->args[i].type;
}

/* Word i after the head of a frame. */
static uint64_t word_get(const void *frame, size_t head, size_t i)
{
	uint64_t word;

	memcpy(&word, (const char *)frame + head + i * sizeof(word), sizeof(word));
	return le64toh(word);
}

static void word_put(void *frame, size_t head, size_t i, uint64_t word)
{
	word = htole64(word);
	memcpy((char *)frame + head + i * sizeof(word), &word, sizeof(word));
}

/* Returns where the data of the next argument begins, after position at of a frame. */
static size_t frame_place(size_t at)
{
	return max((size_t)align_up(at, PAYLOAD_ALIGN), (size_t)PAYLOAD_DATA);
}

static int frame_is_zero(const char *frame, size_t from, size_t to)
{
	while (from < to && !frame[from])
		from++;
	return from >= to;
}

/* Returns why n bytes of data, and a 0 if is_str, do not follow position at of a frame. Or returns
 * NULL, and sets *ret_start to the position of the data. */
static const char *frame_misfit(const char *frame, size_t size, size_t at, uint64_t n, int is_str,
				size_t *ret_start)
{
	size_t start = frame_place(at);

	if (start > size || n > size - start || size - start - n < (size_t)is_str)
		return "reaches beyond the end of the frame";
	if (!frame_is_zero(frame, at, start))
		return "follows bytes that are not 0";
	if (is_str && memchr(frame + start, 0, n + 1) != frame + start + n)
		return "must end with a byte 0, its only one";
	*ret_start = start;
	return NULL;
}

/* ------------------------------------------------------------------------------ calls */

/* Parses argument i. *at: position after the arguments before it. */
static int call_argument(char *frame, size_t size, const struct signature *signature, size_t i,
			 size_t *at, union fk_value *value, char *error)
{
	enum signature_type type = argument_type(signature, i);
	uint64_t word = word_get(frame, sizeof(struct payload_call), i);
	int is_str = type == SIGNATURE_STR;
	const char *misfit;
	size_t start;

	if (!signature_is_reference(type)) {
		/* An f64 is the same bits. */
		value->i64 = (int64_t)word;
		return 0;
	}
	misfit = frame_misfit(frame, size, *at, word, is_str, &start);
	if (misfit)
		return payload_refuse(error, -EBADMSG, "argument", signature->args, i,
				      "of %" PRIu64 " bytes at byte %zu %s", word, frame_place(*at),
				      misfit);
	if (is_str)
		value->str = frame + start;
	else
		value->buf = (struct fk_buffer){ frame + start, word };
	*at = start + word + (size_t)is_str;
	return 0;
}

/* Checks the head of a call, and sets the fields that it has. */
static int call_head(const void *frame, size_t size, const struct signature *signature,
		     uint64_t hash, struct payload *ret_payload, char *error)
{
	struct payload_call head;

	if (size < sizeof(head))
		return text_refuse(error, PAYLOAD_ERROR, -EBADMSG,
				   "a frame of %zu bytes: its head has %zu", size, sizeof(head));
	memcpy(&head, frame, sizeof(head));
	ret_payload->flags = le32toh(head.flags);
	ret_payload->weight = le32toh(head.weight);
	ret_payload->timeout_ns = le64toh(head.timeout_ns);
	if (ret_payload->flags & ~PAYLOAD_IDEMPOTENT)
		return text_refuse(error, PAYLOAD_ERROR, -EBADMSG,
				   "flags 0x%x: only 0x%x is defined", ret_payload->flags,
				   PAYLOAD_IDEMPOTENT);
	if (ret_payload->weight > FK_WEIGHT_MAX)
		return text_refuse(error, PAYLOAD_ERROR, -FK_E_WEIGHT,
				   "weight %u: the largest is %u", ret_payload->weight,
				   FK_WEIGHT_MAX);
	if (head.hash && le64toh(head.hash) != hash)
		return text_refuse(
			error, PAYLOAD_ERROR, -FK_E_TASK_GONE,
			"the signature of the task has changed: look it up again, or send "
			"hash 0");
	if (le32toh(head.n_args) != signature->n_args)
		return text_refuse(error, PAYLOAD_ERROR, -FK_E_SIGNATURE,
				   "the frame has %u arguments, but the task has %u",
				   le32toh(head.n_args), signature->n_args);
	if (size - sizeof(head) < signature->n_args * sizeof(uint64_t))
		return text_refuse(error, PAYLOAD_ERROR, -EBADMSG,
				   "a frame of %zu bytes: %u arguments need %zu", size,
				   signature->n_args,
				   sizeof(head) + signature->n_args * sizeof(uint64_t));
	return 0;
}

static int call_parse(char *frame, size_t size, const struct signature *signature, uint64_t hash,
		      struct payload *ret_payload, char *error)
{
	size_t at = sizeof(struct payload_call) + signature->n_args * sizeof(uint64_t);
	int err = call_head(frame, size, signature, hash, ret_payload, error);

	for (size_t i = 0; i < signature->n_args && !err; i++)
		err = call_argument(frame, size, signature, i, &at, &ret_payload->values[i], error);
	if (!err && at != size)
		return text_refuse(error, PAYLOAD_ERROR, -EBADMSG,
				   "a frame of %zu bytes: its arguments end at byte %zu", size, at);
	return err;
}

int payload_parse_call(void *data, size_t size, const struct signature *signature, uint64_t hash,
		       struct payload *ret_payload, char *error)
{
	static const char magic[] = PAYLOAD_CALL;
	struct payload payload;
	int err;

	/* Not all of it: small is set by the answer. */
	memset(&payload, 0, offsetof(struct payload, small));
	payload.is_json = size < sizeof(magic) - 1 || memcmp(data, magic, sizeof(magic) - 1) != 0;
	if (payload.is_json)
		err = payload_json_parse(data, size, signature, &payload, error);
	else
		err = call_parse(data, size, signature, hash, &payload, error);
	if (err)
		payload_fini(&payload);
	else
		memcpy(ret_payload, &payload, offsetof(struct payload, small));
	return err;
}

void payload_fini(struct payload *payload)
{
	for (size_t i = 0; i < SIGNATURE_MAX_ARGS; i++)
		json_decref(payload->strings[i]);
}

int payload_call_size(const struct signature *signature, const union fk_value *values,
		      size_t *ret_size, char *error)
{
	size_t at = sizeof(struct payload_call) + signature->n_args * sizeof(uint64_t);

	for (size_t i = 0; i < signature->n_args; i++) {
		enum signature_type type = argument_type(signature, i);
		size_t n;

		if (!signature_is_reference(type))
			continue;
		if (type == SIGNATURE_STR && !values[i].str)
			return payload_refuse(error, -FK_E_NULL, "argument", signature->args, i,
					      "is NULL");
		if (type != SIGNATURE_STR && !values[i].buf.data && values[i].buf.size)
			return payload_refuse(error, -FK_E_BUFFER_NULL, "argument", signature->args,
					      i, "is NULL and has %zu bytes", values[i].buf.size);
		n = type == SIGNATURE_STR ? strlen(values[i].str) + 1 : values[i].buf.size;
		at = frame_place(at);
		if (at > PAYLOAD_MAX || n > PAYLOAD_MAX - at)
			return payload_refuse(error, -EFBIG, "argument", signature->args, i,
					      "of %zu bytes exceeds a job of Gearman: %zu bytes", n,
					      (size_t)PAYLOAD_MAX);
		at += n;
	}
	*ret_size = at;
	return 0;
}

/* Appends data, and zeros in front of it. Returns the position after it. */
static size_t frame_append(char *frame, size_t at, const void *data, size_t n)
{
	size_t start = frame_place(at);

	memset(frame + at, 0, start - at);
	if (n)
		memmove(frame + start, data, n);
	return start + n;
}

void payload_write_call(void *memory, const struct signature *signature,
			const union fk_value *values, uint64_t hash, uint32_t flags,
			uint64_t timeout_ns, uint32_t weight)
{
	size_t at = sizeof(struct payload_call) + signature->n_args * sizeof(uint64_t);
	struct payload_call head = {
		.magic = PAYLOAD_CALL,
		.flags = htole32(flags),
		.hash = htole64(hash),
		.timeout_ns = htole64(timeout_ns),
		.weight = htole32(weight),
		.n_args = htole32(signature->n_args),
	};

	memcpy(memory, &head, sizeof(head));
	for (size_t i = 0; i < signature->n_args; i++) {
		uint64_t word = (uint64_t)values[i].i64;

		if (argument_type(signature, i) == SIGNATURE_STR) {
			word = strlen(values[i].str);
			at = frame_append(memory, at, values[i].str, word + 1);
		} else if (signature_is_reference(argument_type(signature, i))) {
			word = values[i].buf.size;
			at = frame_append(memory, at, values[i].buf.data, word);
		}
		word_put(memory, sizeof(head), i, word);
	}
}

/* ------------------------------------------------------------------------------ answers */

/* Returns the number of iobufs. Sets *ret_first, if there is one, to the index of the first. */
static uint32_t count_iobufs(const struct signature *signature, size_t *ret_first)
{
	uint32_t n = 0;

	for (size_t i = signature->n_args; i-- > 0;) {
		if (argument_type(signature, i) != SIGNATURE_IOBUF)
			continue;
		*ret_first = i;
		n++;
	}
	return n;
}

int payload_write_answer(struct payload *payload, const struct signature *signature,
			 const void *results, const struct fk_timings *timings,
			 const void **ret_answer, size_t *ret_size, char *error)
{
	size_t first, n = 0, at;
	uint32_t n_buffers = count_iobufs(signature, &first);
	struct payload_answer head = {
		.magic = PAYLOAD_ANSWER,
		.n_results = htole32(signature->n_results),
		.n_buffers = htole32(n_buffers),
		.wait_ns = htole64(timings->wait_ns),
		.run_ns = htole64(timings->run_ns),
	};
	char *frame = payload->small;

	*ret_answer = frame;
	if (payload->is_json)
		return payload_json_write(payload, signature, results, ret_size, error);
	if (n_buffers)
		*ret_answer = frame = (char *)payload->values[first].buf.data - PAYLOAD_DATA;
	memcpy(frame, &head, sizeof(head));
	for (; n < signature->n_results; n++) {
		uint64_t word;

		memcpy(&word, (const char *)results + signature->results[n].offset, sizeof(word));
		word_put(frame, sizeof(head), n, word);
	}
	at = sizeof(head) + (n + n_buffers) * sizeof(uint64_t);
	for (size_t i = 0; i < signature->n_args; i++) {
		struct fk_buffer buf = payload->values[i].buf;

		if (argument_type(signature, i) != SIGNATURE_IOBUF)
			continue;
		word_put(frame, sizeof(head), n++, buf.size);
		at = frame_append(frame, at, buf.data, buf.size);
	}
	*ret_size = at;
	return 0;
}

/* Checks the head of an answer. */
static int answer_head(const void *frame, size_t size, const struct signature *signature,
		       struct fk_timings *ret_timings, char *error)
{
	struct payload_answer head;
	size_t first;
	uint32_t n_buffers = count_iobufs(signature, &first);

	if (size < sizeof(head) || memcmp(frame, PAYLOAD_ANSWER, sizeof(head.magic)) != 0)
		return text_refuse(error, PAYLOAD_ERROR, -EBADMSG,
				   "an answer of %zu bytes is no frame, which begins with %s", size,
				   PAYLOAD_ANSWER);
	memcpy(&head, frame, sizeof(head));
	if (le32toh(head.n_results) != signature->n_results || le32toh(head.n_buffers) != n_buffers)
		return text_refuse(
			error, PAYLOAD_ERROR, -EBADMSG,
			"an answer with %u results and %u iobufs: the task has %u and %u",
			le32toh(head.n_results), le32toh(head.n_buffers), signature->n_results,
			n_buffers);
	if (head.reserved)
		return text_refuse(error, PAYLOAD_ERROR, -EBADMSG,
				   "an answer whose reserved field is not 0");
	if ((size - sizeof(head)) / sizeof(uint64_t) < signature->n_results + n_buffers)
		return text_refuse(error, PAYLOAD_ERROR, -EBADMSG,
				   "an answer of %zu bytes: %u results and %u iobufs need more",
				   size, signature->n_results, n_buffers);
	*ret_timings = (struct fk_timings){ le64toh(head.wait_ns), le64toh(head.run_ns) };
	return 0;
}

int payload_parse_answer(const void *data, size_t size, const struct signature *signature,
			 const union fk_value *values, void *results,
			 struct fk_timings *ret_timings, char *error)
{
	size_t starts[SIGNATURE_MAX_ARGS], first;
	size_t n = signature->n_results, at;
	struct fk_timings timings;
	int err = answer_head(data, size, signature, &timings, error);

	if (err)
		return err;
	at = sizeof(struct payload_answer) +
	     (n + count_iobufs(signature, &first)) * sizeof(uint64_t);
	for (size_t i = 0; i < signature->n_args; i++) {
		const char *misfit = "has another size in the answer";
		uint64_t word;

		if (argument_type(signature, i) != SIGNATURE_IOBUF)
			continue;
		word = word_get(data, sizeof(struct payload_answer), n++);
		if (word == values[i].buf.size)
			misfit = frame_misfit(data, size, at, word, 0, &starts[i]);
		if (misfit)
			return payload_refuse(error, -EBADMSG, "argument", signature->args, i,
					      "of %zu bytes %s", values[i].buf.size, misfit);
		at = starts[i] + word;
	}
	if (at != size)
		return text_refuse(error, PAYLOAD_ERROR, -EBADMSG,
				   "an answer of %zu bytes: its data ends at byte %zu", size, at);
	for (size_t i = 0; i < signature->n_args; i++)
		if (argument_type(signature, i) == SIGNATURE_IOBUF && values[i].buf.size)
			memcpy(values[i].buf.data, (const char *)data + starts[i],
			       values[i].buf.size);
	for (size_t i = 0; i < signature->n_results; i++) {
		uint64_t word = word_get(data, sizeof(struct payload_answer), i);

		memcpy((char *)results + signature->results[i].offset, &word, sizeof(word));
	}
	*ret_timings = timings;
	return 0;
}

/* ------------------------------------------------------------------------------ exceptions */

size_t payload_format_exception(char *line, const char *outcome, int code, const char *text)
{
	size_t n;

	(void)snprintf(line, PAYLOAD_EXCEPTION, "%s %d: %s", outcome, code, text);
	n = strlen(line);
	text_make_line(line, n);
	return n;
}

int payload_parse_exception(const void *data, size_t size, struct payload_exception *ret_exception)
{
	char line[PAYLOAD_EXCEPTION] = "";
	size_t n = min(size, sizeof(line) - 1), word;
	const char *at;
	uint64_t code;
	int negative;

	if (n)
		memcpy(line, data, n);
	text_make_line(line, n);
	word = strspn(line, "ABCDEFGHIJKLMNOPQRSTUVWXYZ");
	if (!word || word >= sizeof(ret_exception->outcome) || line[word] != ' ')
		return -EBADMSG;
	at = line + word + 1;
	negative = *at == '-';
	if (number_parse(at + negative, 10, &code, &at) ||
	    code > (uint64_t)INT_MAX + (uint64_t)negative || at[0] != ':' || at[1] != ' ')
		return -EBADMSG;
	*ret_exception = (struct payload_exception){
		.code = (int)(negative ? -(int64_t)code : (int64_t)code),
	};
	memcpy(ret_exception->outcome, line, word);
	memcpy(ret_exception->text, at + 2, strlen(at + 2));
	return 0;
}
