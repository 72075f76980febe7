/* SPDX-License-Identifier: MIT */
/* check_payload.c - calls, answers and exceptions as payloads; the test vectors */
#include "contrib/gearman/payload.h"

#include <errno.h>
#include <math.h>

#include "common/text.h"
#include "common/util.h"
#include "tests/support/check_unit.h"
#include "tests/unit/gearman/vectors.h"

/* A vector's task and its arguments. */
struct example {
	struct signature signature;
	uint64_t hash;
	char text[VECTORS_LINE];   /* a line's value */
	char bytes[VECTORS_BYTES]; /* a value of BYTES */
	char *memory;		   /* the call, of exactly this size */
	size_t size;
	uint64_t results[SIGNATURE_MAX_RESULTS];
	char *changed[SIGNATURE_MAX_ARGS]; /* contents of each iobuf after the task */
};

static char error[PAYLOAD_ERROR];

static void example_task(struct vectors *vectors, struct example *e)
{
	char name[VECTORS_LINE];

	ck_assert(vectors_has(vectors, "vector", name));
	ck_assert(vectors_has(vectors, "task", name));
	ck_assert(vectors_has(vectors, "signature", e->text));
	ck_assert_int_eq(signature_parse(e->text, &e->signature, NULL), 0);
	e->hash = signature_hash(name, e->text);
}

/* Copies bytes to memory of exactly this size, for AddressSanitizer. */
static char *exactly(const char *bytes, size_t size)
{
	char *memory = malloc(size);

	ck_assert(memory || !size);
	if (size)
		memcpy(memory, bytes, size);
	return memory;
}

static int is_iobuf(const struct example *e, uint32_t i)
{
	return e->signature.args[i].type == SIGNATURE_IOBUF;
}

static uint64_t example_option(struct vectors *vectors, struct example *e, const char *key)
{
	return vectors_has(vectors, key, e->text) ? strtoull(e->text, NULL, 10) : 0;
}

/* Sets the words of the signature's results from lines. */
static void example_results(struct vectors *vectors, struct example *e)
{
	for (uint32_t i = 0; i < e->signature.n_results; i++) {
		union fk_value value;

		ck_assert(vectors_has(vectors, "result", e->text));
		if (e->signature.results[i].type == SIGNATURE_I64)
			value.i64 = strtoll(e->text, NULL, 10);
		else
			value.f64 = strtod(e->text, NULL);
		e->results[i] = (uint64_t)value.i64;
	}
}

/* Compares a value with the line that has it. */
static void same_value(struct vectors *vectors, struct example *e, uint32_t i,
		       const union fk_value *value)
{
	enum signature_type type = (enum signature_type)e->signature.args[i].type;
	double f64;
	size_t n;

	ck_assert_str_eq(vectors->key, signature_type_name(type));
	ck_assert(vectors_has(vectors, vectors->key, e->text));
	switch (type) {
	case SIGNATURE_I64:
		ck_assert_int_eq(value->i64, strtoll(e->text, NULL, 10));
		break;
	case SIGNATURE_F64:
		f64 = strtod(e->text, NULL);
		ck_assert_mem_eq(&value->f64, &f64, sizeof(f64));
		break;
	case SIGNATURE_STR:
		n = vectors_bytes(e->text, e->bytes);
		ck_assert_uint_eq(strlen(value->str), n);
		ck_assert_mem_eq(value->str, e->bytes, n);
		break;
	case SIGNATURE_BUF:
	case SIGNATURE_IOBUF:
		n = vectors_bytes(e->text, e->bytes);
		ck_assert_uint_eq(value->buf.size, n);
		ck_assert_uint_eq((size_t)((char *)value->buf.data - e->memory) % PAYLOAD_ALIGN, 0);
		ck_assert_mem_eq(value->buf.data, e->bytes, n);
		break;
	}
}

/* A frame is written again from its values, byte by byte the same. */
static void same_frame(const struct example *e, const struct payload *payload)
{
	struct payload_call head;
	size_t size = 0;
	char *again;

	memcpy(&head, e->memory, sizeof(head));
	ck_assert_int_eq(payload_call_size(&e->signature, payload->values, &size, error), 0);
	ck_assert_uint_eq(size, e->size);
	again = malloc(size);
	ck_assert(again);
	memset(again, 0xa5, size);
	payload_write_call(again, &e->signature, payload->values, head.hash ? e->hash : 0,
			   payload->flags, payload->timeout_ns, payload->weight);
	ck_assert_mem_eq(again, e->memory, size);
	free(again);
}

/* Changes the iobufs as the task would. Sets the size of each. */
static void example_changes(struct vectors *vectors, struct example *e, struct payload *payload,
			    size_t *sizes)
{
	for (uint32_t i = 0; i < e->signature.n_args; i++) {
		struct fk_buffer buf = payload->values[i].buf;

		if (!is_iobuf(e, i))
			continue;
		ck_assert(vectors_has(vectors, "changed", e->text));
		ck_assert_uint_eq(vectors_bytes(e->text, e->bytes), buf.size);
		e->changed[i] = exactly(e->bytes, buf.size);
		sizes[i] = buf.size;
		if (buf.size)
			memcpy(buf.data, e->bytes, buf.size);
	}
}

/* The client of a frame gets the results and the changed iobufs. sizes: of the iobufs. */
static void same_at_client(const struct example *e, const char *answer, size_t size,
			   const struct fk_timings *timings, const size_t *sizes)
{
	union fk_value values[SIGNATURE_MAX_ARGS];
	uint64_t results[SIGNATURE_MAX_RESULTS] = { 0 };
	struct fk_timings got;

	for (uint32_t i = 0; i < e->signature.n_args; i++)
		if (is_iobuf(e, i))
			values[i].buf = (struct fk_buffer){ malloc(sizes[i]), sizes[i] };
	ck_assert_int_eq(
		payload_parse_answer(answer, size, &e->signature, values, results, &got, error), 0);
	ck_assert_mem_eq(results, e->results, e->signature.results_size);
	ck_assert_mem_eq(&got, timings, sizeof(got));
	for (uint32_t i = 0; i < e->signature.n_args; i++) {
		if (!is_iobuf(e, i))
			continue;
		ck_assert_mem_eq(values[i].buf.data, e->changed[i], values[i].buf.size);
		free(values[i].buf.data);
	}
}

START_TEST(vectors_of_calls_and_answers)
{
	static struct example e;
	struct vectors vectors;

	vectors_open(&vectors, "calls");
	while (vectors_next(&vectors)) {
		uint64_t flags, timeout_ns, weight;
		struct fk_timings timings;
		struct payload payload;
		const void *answer;
		size_t size, sizes[SIGNATURE_MAX_ARGS];
		int is_json;

		e = (struct example){ 0 };
		example_task(&vectors, &e);
		flags = example_option(&vectors, &e, "flags");
		timeout_ns = example_option(&vectors, &e, "timeout");
		weight = example_option(&vectors, &e, "weight");
		is_json = vectors_has(&vectors, "json", e.text);
		if (is_json) {
			e.size = strlen(e.text);
			e.memory = exactly(e.text, e.size);
		} else {
			ck_assert(vectors_has(&vectors, "frame", e.text));
			e.size = vectors_bytes(e.text, e.bytes);
			e.memory = exactly(e.bytes, e.size);
		}
		ck_assert_msg(!payload_parse_call(e.memory, e.size, &e.signature, e.hash, &payload,
						  error),
			      "%s", error);
		ck_assert_int_eq(payload.is_json, is_json);
		ck_assert_uint_eq(payload.flags, flags);
		ck_assert_uint_eq(payload.timeout_ns, timeout_ns);
		ck_assert_uint_eq(payload.weight, weight);
		for (uint32_t i = 0; i < e.signature.n_args; i++)
			same_value(&vectors, &e, i, &payload.values[i]);
		if (!is_json)
			same_frame(&e, &payload);

		timings.wait_ns = example_option(&vectors, &e, "wait");
		timings.run_ns = example_option(&vectors, &e, "run");
		example_results(&vectors, &e);
		example_changes(&vectors, &e, &payload, sizes);
		ck_assert_int_eq(payload_write_answer(&payload, &e.signature, e.results, &timings,
						      &answer, &size, error),
				 0);
		if (is_json) {
			ck_assert(vectors_has(&vectors, "answer-json", e.text));
			ck_assert_uint_eq(size, strlen(e.text));
			ck_assert_mem_eq(answer, e.text, size);
		} else {
			ck_assert(vectors_has(&vectors, "answer", e.text));
			ck_assert_uint_eq(size, vectors_bytes(e.text, e.bytes));
			ck_assert_mem_eq(answer, e.bytes, size);
			same_at_client(&e, answer, size, &timings, sizes);
		}
		ck_assert_str_eq(vectors.key, "");
		payload_fini(&payload);
		for (uint32_t i = 0; i < e.signature.n_args; i++)
			free(e.changed[i]);
		free(e.memory);
	}
}
END_TEST

/* The line "refused CODE TEXT" has this code, and TEXT is the beginning of error. */
static void same_refusal(struct vectors *vectors, int code)
{
	char text[VECTORS_LINE], got[PAYLOAD_ERROR + 16];

	(void)snprintf(got, sizeof(got), "%d %s", code, error);
	ck_assert(text_is_line(got));
	ck_assert(vectors_has(vectors, "refused", text));
	ck_assert_msg(strncmp(got, text, strlen(text)) == 0, "%s, not %s", got, text);
	ck_assert_str_eq(vectors->key, "");
}

START_TEST(vectors_of_refused_calls)
{
	static struct example e;
	struct payload payload, untouched;
	struct vectors vectors;

	memset(&untouched, 0xa5, sizeof(untouched));
	payload = untouched;
	vectors_open(&vectors, "refused");
	while (vectors_next(&vectors)) {
		int err;

		e = (struct example){ 0 };
		example_task(&vectors, &e);
		if (vectors_has(&vectors, "json", e.text)) {
			e.memory = exactly(e.text, e.size = strlen(e.text));
		} else {
			ck_assert(vectors_has(&vectors, "bytes", e.text));
			e.size = vectors_bytes(e.text, e.bytes);
			e.memory = exactly(e.bytes, e.size);
		}
		err = payload_parse_call(e.memory, e.size, &e.signature, e.hash, &payload, error);
		ck_assert_int_lt(err, 0);
		ck_assert_mem_eq(&payload, &untouched, sizeof(payload));
		same_refusal(&vectors, err);
		free(e.memory);
	}
}
END_TEST

START_TEST(vectors_of_refused_answers)
{
	static struct example e;
	struct vectors vectors;

	vectors_open(&vectors, "answers-refused");
	while (vectors_next(&vectors)) {
		union fk_value values[SIGNATURE_MAX_ARGS];
		uint64_t results[SIGNATURE_MAX_RESULTS] = { 1, 2 };
		struct fk_timings timings = { 3, 4 };
		int err;

		e = (struct example){ 0 };
		example_task(&vectors, &e);
		for (uint32_t i = 0; i < e.signature.n_args; i++) {
			if (!is_iobuf(&e, i))
				continue;
			ck_assert(vectors_has(&vectors, "iobuf", e.text));
			values[i].buf.size = vectors_bytes(e.text, e.bytes);
			values[i].buf.data = exactly(e.bytes, values[i].buf.size);
			e.changed[i] = exactly(e.bytes, values[i].buf.size);
		}
		ck_assert(vectors_has(&vectors, "answer", e.text));
		e.size = vectors_bytes(e.text, e.bytes);
		e.memory = exactly(e.bytes, e.size);
		err = payload_parse_answer(e.memory, e.size, &e.signature, values, results,
					   &timings, error);
		ck_assert_int_eq(err, -EBADMSG);
		same_refusal(&vectors, err);
		/* Nothing but the error is set. */
		ck_assert(results[0] == 1 && results[1] == 2);
		ck_assert(timings.wait_ns == 3 && timings.run_ns == 4);
		for (uint32_t i = 0; i < e.signature.n_args; i++) {
			if (!is_iobuf(&e, i))
				continue;
			ck_assert_mem_eq(values[i].buf.data, e.changed[i], values[i].buf.size);
			free(values[i].buf.data);
			free(e.changed[i]);
		}
		free(e.memory);
	}
}
END_TEST

START_TEST(vectors_of_exceptions)
{
	struct vectors vectors;

	vectors_open(&vectors, "exceptions");
	while (vectors_next(&vectors)) {
		char text[VECTORS_LINE], bytes[VECTORS_BYTES], line[PAYLOAD_EXCEPTION];
		struct payload_exception exception;
		size_t size;
		char *memory;
		int err;

		ck_assert(vectors_has(&vectors, "exception", text));
		size = vectors_bytes(text, bytes);
		memory = exactly(bytes, size);
		err = payload_parse_exception(memory, size, &exception);
		free(memory);
		if (vectors_has(&vectors, "malformed", text)) {
			ck_assert_int_eq(err, -EBADMSG);
			continue;
		}
		ck_assert_int_eq(err, 0);
		ck_assert(vectors_has(&vectors, "outcome", text));
		ck_assert_str_eq(exception.outcome, text);
		ck_assert(vectors_has(&vectors, "code", text));
		ck_assert_int_eq(exception.code, strtol(text, NULL, 10));
		ck_assert(vectors_has(&vectors, "text", text));
		ck_assert_str_eq(exception.text, text);
		/* Formatted again it is the same, except control characters. */
		ck_assert_uint_eq(payload_format_exception(line, exception.outcome, exception.code,
							   exception.text),
				  size);
		ck_assert_str_eq(line + size - strlen(text), text);
	}
}
END_TEST

START_TEST(long_exception_is_cut_short)
{
	char text[2 * PAYLOAD_EXCEPTION], line[PAYLOAD_EXCEPTION];
	struct payload_exception exception;

	memset(text, 'x', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	ck_assert_uint_eq(payload_format_exception(line, PAYLOAD_UNKNOWN, 0, text),
			  PAYLOAD_EXCEPTION - 1);
	memcpy(text, line, strlen(line));
	ck_assert_int_eq(payload_parse_exception(text, sizeof(text), &exception), 0);
	ck_assert_uint_eq(strlen(exception.text), PAYLOAD_EXCEPTION - 1 - strlen("UNKNOWN 0: "));
}
END_TEST

START_TEST(answer_that_json_cannot_write_is_an_error)
{
	static const double results[] = { NAN, INFINITY, -INFINITY };
	struct fk_timings timings = { 0 };
	struct signature signature;
	char call[] = "[]\n";

	ck_assert_int_eq(signature_parse("-> n:i64, x:f64", &signature, NULL), 0);
	for (size_t i = 0; i < ARRAY_SIZE(results); i++) {
		struct payload payload;
		const void *answer;
		uint64_t words[2] = { 7 };
		size_t size;

		memcpy(&words[1], &results[i], sizeof(words[1]));
		ck_assert_int_eq(
			payload_parse_call(call, strlen(call), &signature, 1, &payload, error), 0);
		ck_assert_int_eq(payload_write_answer(&payload, &signature, words, &timings,
						      &answer, &size, error),
				 -EDOM);
		ck_assert_ptr_nonnull(strstr(error, "result 2 (x:f64) is"));
		payload_fini(&payload);
	}
}
END_TEST

START_TEST(call_that_cannot_be_written_is_an_error)
{
	static const struct {
		const char *signature;
		union fk_value value;
		int err;
		const char *error;
	} cases[] = {
		{ "s:str ->", { .str = NULL }, -FK_E_NULL, "argument 1 (s:str) is NULL" },
		{ "b:buf ->", { .buf = { NULL, 5 } }, -FK_E_BUFFER_NULL, "(b:buf) is NULL" },
		{ "iobuf ->", { .buf = { error, SIZE_MAX } }, -EFBIG, "argument 1 (iobuf)" },
		{ "iobuf ->",
		  { .buf = { error, PAYLOAD_MAX - PAYLOAD_DATA + 1 } },
		  -EFBIG,
		  "exceeds" },
		{ "iobuf ->", { .buf = { error, PAYLOAD_MAX - PAYLOAD_DATA } }, 0, "" },
		{ "iobuf ->", { .buf = { NULL, 0 } }, 0, "" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct signature signature;
		size_t size = 1;

		error[0] = '\0';
		ck_assert_int_eq(signature_parse(cases[i].signature, &signature, NULL), 0);
		ck_assert_int_eq(payload_call_size(&signature, &cases[i].value, &size, error),
				 cases[i].err);
		ck_assert_ptr_nonnull(strstr(error, cases[i].error));
		ck_assert_uint_eq(size, cases[i].err ? 1 : PAYLOAD_DATA + cases[i].value.buf.size);
	}
}
END_TEST

CHECK_MAIN("payload")
