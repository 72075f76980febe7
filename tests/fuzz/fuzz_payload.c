/* SPDX-License-Identifier: MIT */
/*
 * fuzz_payload.c - bytes as the payload of a Gearman job
 *
 * The input is a signature, up to a newline, a byte that says what the rest is, and the rest.
 *
 * WHAT MUST BE TRUE
 *   A call, an answer or an exception is refused, with an error of one line and nothing else set;
 *   or it has what the signature says, within its bytes. Then writing it again gives the same
 *   bytes, or in JSON the same values. What is written is read back as the same.
 */
#include <errno.h>
#include <math.h>

#include "contrib/gearman/payload.h"
#include "shm/signature.h"
#include "tests/fuzz/fuzz.h"

#define HASH UINT64_C(0x0123456789abcdef)

static enum signature_type type_of(const struct signature *signature, size_t i)
{
	return (enum signature_type)signature->args[i].type;
}

/* Returns a copy of n bytes, or of the rest of the input, of exactly this size. */
static char *take(struct fuzz_input *input, size_t n, size_t *ret_size)
{
	size_t left = (size_t)(input->end - input->at);
	char *bytes;

	n = n < left ? n : left;
	bytes = malloc(n);
	FUZZ_ASSERT(bytes || !n);
	if (n)
		memcpy(bytes, input->at, n);
	input->at += n;
	*ret_size = n;
	return bytes;
}

/* Two lists of arguments are the same, bit by bit. */
static void same_values(const struct signature *signature, const union fk_value *a,
			const union fk_value *b)
{
	for (size_t i = 0; i < signature->n_args; i++) {
		switch (type_of(signature, i)) {
		case SIGNATURE_I64:
		case SIGNATURE_F64:
			FUZZ_ASSERT(a[i].i64 == b[i].i64);
			break;
		case SIGNATURE_STR:
			FUZZ_ASSERT(!strcmp(a[i].str, b[i].str));
			break;
		case SIGNATURE_BUF:
		case SIGNATURE_IOBUF:
			FUZZ_ASSERT(a[i].buf.size == b[i].buf.size);
			FUZZ_ASSERT(!a[i].buf.size ||
				    !memcmp(a[i].buf.data, b[i].buf.data, a[i].buf.size));
			break;
		}
	}
}

/* Writes a call as a frame. The caller frees it. */
static char *write_call(const struct signature *signature, const struct payload *payload,
			uint64_t hash, size_t *ret_size)
{
	char error[PAYLOAD_ERROR], *frame;

	FUZZ_ASSERT(!payload_call_size(signature, payload->values, ret_size, error));
	frame = malloc(*ret_size);
	FUZZ_ASSERT(frame);
	payload_write_call(frame, signature, payload->values, hash, payload->flags,
			   payload->timeout_ns, payload->weight);
	return frame;
}

/* An answer in JSON has the results of the task: read as a call whose arguments they are. */
static void check_json_answer(const struct signature *signature, const uint64_t *results,
			      const void *answer, size_t size)
{
	struct signature as_call = { .n_args = signature->n_results };
	struct payload payload;
	char error[PAYLOAD_ERROR], *copy = malloc(size);

	FUZZ_ASSERT(copy);
	memcpy(copy, answer, size);
	memcpy(as_call.args, signature->results, sizeof(signature->results));
	FUZZ_ASSERT(!payload_parse_call(copy, size, &as_call, HASH, &payload, error));
	for (size_t i = 0; i < signature->n_results; i++)
		FUZZ_ASSERT((uint64_t)payload.values[i].i64 == results[i]);
	payload_fini(&payload);
	free(copy);
}

/* An answer as a frame has the results, the times and the iobufs. */
static void check_frame_answer(const struct signature *signature, const struct payload *call,
			       const uint64_t *results, const struct fk_timings *timings,
			       const void *answer, size_t size)
{
	uint64_t got[SIGNATURE_MAX_RESULTS];
	union fk_value values[SIGNATURE_MAX_ARGS];
	struct fk_timings got_timings;
	char error[PAYLOAD_ERROR], *copy = malloc(size);

	FUZZ_ASSERT(copy);
	memcpy(copy, answer, size);
	memcpy(values, call->values, sizeof(values));
	for (size_t i = 0; i < signature->n_args; i++)
		if (type_of(signature, i) == SIGNATURE_IOBUF)
			values[i].buf.data = calloc(1, values[i].buf.size + 1);
	FUZZ_ASSERT(!payload_parse_answer(copy, size, signature, values, got, &got_timings, error));
	FUZZ_ASSERT(!memcmp(got, results, signature->results_size));
	FUZZ_ASSERT(!memcmp(&got_timings, timings, sizeof(got_timings)));
	for (size_t i = 0; i < signature->n_args; i++) {
		if (type_of(signature, i) != SIGNATURE_IOBUF)
			continue;
		/* Each byte is that of fill(). */
		for (size_t k = 0; k < values[i].buf.size; k++)
			FUZZ_ASSERT(((char *)values[i].buf.data)[k] == (char)(i * 31 + k));
		free(values[i].buf.data);
	}
	free(copy);
}

/* Writes into the iobufs as a task does. */
static void fill(const struct signature *signature, const struct payload *payload)
{
	for (size_t i = 0; i < signature->n_args; i++)
		for (size_t k = 0;
		     type_of(signature, i) == SIGNATURE_IOBUF && k < payload->values[i].buf.size;
		     k++)
			((char *)payload->values[i].buf.data)[k] = (char)(i * 31 + k);
}

static void check_answer_of(const struct signature *signature, struct payload *payload,
			    uint64_t seed)
{
	uint64_t results[SIGNATURE_MAX_RESULTS] = { 0 };
	struct fk_timings timings = { seed, ~seed };
	char error[PAYLOAD_ERROR];
	int finite = 1, r;
	const void *answer;
	size_t size;

	for (size_t i = 0; i < signature->n_results; i++) {
		double real;

		/* Random bits are a double that is not finite once in 2048 times. */
		seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407;
		results[i] = seed;
		memcpy(&real, &seed, sizeof(real));
		finite &= signature->results[i].type == SIGNATURE_I64 || isfinite(real);
	}
	fill(signature, payload);
	r = payload_write_answer(payload, signature, results, &timings, &answer, &size, error);
	if (payload->is_json && !finite) {
		FUZZ_ASSERT(r == -EDOM && fuzz_is_line(error));
		return;
	}
	FUZZ_ASSERT(!r);
	if (payload->is_json)
		check_json_answer(signature, results, answer, size);
	else
		check_frame_answer(signature, payload, results, &timings, answer, size);
}

/* What was parsed lies within the bytes of the call. */
static void check_places(const struct signature *signature, const struct payload *payload,
			 const char *data, size_t size)
{
	for (size_t i = 0; i < signature->n_args && !payload->is_json; i++) {
		union fk_value value = payload->values[i];
		const char *at =
			type_of(signature, i) == SIGNATURE_STR ? value.str : value.buf.data;
		size_t n = type_of(signature, i) == SIGNATURE_STR ? strlen(value.str) + 1
								  : value.buf.size;

		if (!signature_is_reference(type_of(signature, i)))
			continue;
		FUZZ_ASSERT(at >= data + PAYLOAD_DATA && n <= size && at + n <= data + size);
		FUZZ_ASSERT((size_t)(at - data) % PAYLOAD_ALIGN == 0);
	}
}

static void fuzz_call(const struct signature *signature, struct fuzz_input *input)
{
	uint64_t seed = fuzz_u64(input);
	struct payload payload, again;
	char error[PAYLOAD_ERROR] = "", *data, *frame;
	size_t size, frame_size;
	int r;

	memset(&payload, 0xa5, sizeof(payload));
	again = payload;
	data = take(input, SIZE_MAX, &size);
	r = payload_parse_call(data, size, signature, HASH, &payload, error);
	if (r) {
		FUZZ_ASSERT(r == -EBADMSG || r == -FK_E_SIGNATURE || r == -FK_E_TASK_GONE ||
			    r == -FK_E_WEIGHT);
		FUZZ_ASSERT(fuzz_is_line(error));
		FUZZ_ASSERT(!memcmp(&payload, &again, sizeof(payload)));
		free(data);
		return;
	}
	check_places(signature, &payload, data, size);
	FUZZ_ASSERT(payload.weight <= FK_WEIGHT_MAX && payload.flags <= PAYLOAD_IDEMPOTENT);
	if (payload.is_json) {
		frame = write_call(signature, &payload, HASH, &frame_size);
		FUZZ_ASSERT(!payload_parse_call(frame, frame_size, signature, HASH, &again, error));
		same_values(signature, payload.values, again.values);
		payload_fini(&again);
	} else {
		struct payload_call head;

		memcpy(&head, data, sizeof(head));
		frame = write_call(signature, &payload, head.hash ? HASH : 0, &frame_size);
		FUZZ_ASSERT(frame_size == size && !memcmp(frame, data, size));
	}
	free(frame);
	check_answer_of(signature, &payload, seed);
	payload_fini(&payload);
	free(data);
}

/* Any values are written, and read back as the same. */
static void fuzz_values(const struct signature *signature, struct fuzz_input *input)
{
	struct payload out = {
		.flags = fuzz_u8(input) & PAYLOAD_IDEMPOTENT,
		.weight = fuzz_u16(input) % (FK_WEIGHT_MAX + 1),
		.timeout_ns = fuzz_u64(input),
	};
	uint64_t seed = fuzz_u64(input);
	char error[PAYLOAD_ERROR], *owned[SIGNATURE_MAX_ARGS] = { NULL }, *frame;
	struct payload in;
	size_t size;

	for (size_t i = 0; i < signature->n_args; i++) {
		if (type_of(signature, i) == SIGNATURE_STR) {
			out.values[i].str = owned[i] = fuzz_text(input, '\0');
		} else if (signature_is_reference(type_of(signature, i))) {
			owned[i] = take(input, fuzz_u8(input), &size);
			out.values[i].buf = (struct fk_buffer){ owned[i], size };
		} else {
			out.values[i].i64 = (int64_t)fuzz_u64(input);
		}
	}
	frame = write_call(signature, &out, HASH, &size);
	FUZZ_ASSERT(!payload_parse_call(frame, size, signature, HASH, &in, error));
	FUZZ_ASSERT(!in.is_json && in.flags == out.flags && in.weight == out.weight);
	FUZZ_ASSERT(in.timeout_ns == out.timeout_ns);
	same_values(signature, in.values, out.values);
	check_places(signature, &in, frame, size);
	check_answer_of(signature, &in, seed);
	payload_fini(&in);
	free(frame);
	for (size_t i = 0; i < signature->n_args; i++)
		free(owned[i]);
}

static void fuzz_answer(const struct signature *signature, struct fuzz_input *input)
{
	union fk_value values[SIGNATURE_MAX_ARGS];
	uint64_t results[SIGNATURE_MAX_RESULTS], n_words;
	struct fk_timings timings = { 1, 2 };
	char error[PAYLOAD_ERROR] = "", *data;
	size_t size;
	int r;

	memset(results, 0xa5, sizeof(results));
	for (size_t i = 0; i < signature->n_args; i++) {
		if (type_of(signature, i) != SIGNATURE_IOBUF)
			continue;
		values[i].buf.size = fuzz_u8(input);
		values[i].buf.data = calloc(1, values[i].buf.size);
	}
	data = take(input, SIZE_MAX, &size);
	r = payload_parse_answer(data, size, signature, values, results, &timings, error);
	if (r) {
		FUZZ_ASSERT(r == -EBADMSG && fuzz_is_line(error));
		FUZZ_ASSERT(timings.wait_ns == 1 && timings.run_ns == 2);
		for (size_t i = 0; i < SIGNATURE_MAX_RESULTS; i++)
			FUZZ_ASSERT(results[i] == UINT64_C(0xa5a5a5a5a5a5a5a5));
	} else {
		n_words = signature->n_results;
		FUZZ_ASSERT(size >= sizeof(struct payload_answer) + n_words * 8);
		FUZZ_ASSERT(!memcmp(results, data + sizeof(struct payload_answer), n_words * 8));
	}
	for (size_t i = 0; i < signature->n_args; i++) {
		if (type_of(signature, i) != SIGNATURE_IOBUF)
			continue;
		for (size_t k = 0; r && k < values[i].buf.size; k++)
			FUZZ_ASSERT(!((char *)values[i].buf.data)[k]);
		free(values[i].buf.data);
	}
	free(data);
}

static void fuzz_exception(struct fuzz_input *input)
{
	struct payload_exception exception, again;
	char line[PAYLOAD_EXCEPTION], *data;
	size_t size, n;
	int r;

	data = take(input, SIZE_MAX, &size);
	r = payload_parse_exception(data, size, &exception);
	FUZZ_ASSERT(!r || r == -EBADMSG);
	if (!r) {
		FUZZ_ASSERT(fuzz_is_line(exception.outcome) && text_is_line(exception.text));
		n = payload_format_exception(line, exception.outcome, exception.code,
					     exception.text);
		FUZZ_ASSERT(n == strlen(line) && !payload_parse_exception(line, n, &again));
		FUZZ_ASSERT(!memcmp(&exception, &again, sizeof(again)));
	}
	free(data);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz_input input = { data, data + size };
	char *text = fuzz_text(&input, '\n');
	struct signature signature;
	int usable = !signature_parse(text, &signature, NULL);

	free(text);
	if (!usable)
		return 0;
	switch (fuzz_u8(&input)) {
	case 'c':
		fuzz_call(&signature, &input);
		break;
	case 'v':
		fuzz_values(&signature, &input);
		break;
	case 'a':
		fuzz_answer(&signature, &input);
		break;
	case 'e':
		fuzz_exception(&input);
		break;
	}
	return 0;
}
