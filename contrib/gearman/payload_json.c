/* SPDX-License-Identifier: MIT */
/*
 * payload_json.c - calls and answers in JSON
 *
 * jansson parses one element after the other; only the array around them is parsed here. So an
 * error names its argument, the memory is that of one string for each str, and nothing nests.
 *
 * INVARIANTS
 *   I1. Each element takes one byte at least, and there are not more elements than arguments.
 */
#include "contrib/gearman/payload_json.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "common/text.h"

/* The text of a call that is not parsed yet. */
struct json_input {
	const char *at;
	const char *end;
};

/* Returns the next character that is no blank, or 0 at the end. */
static char json_next(struct json_input *input)
{
	while (input->at < input->end && strchr(" \t\r\n", *input->at) && *input->at)
		input->at++;
	return input->at < input->end ? *input->at : '\0';
}

/* What an element is that has a wrong type. */
static const char *json_kind(const json_t *element)
{
	switch (json_typeof(element)) {
	case JSON_STRING:
		return "is a string";
	case JSON_INTEGER:
		return "is an integer";
	case JSON_REAL:
		return "is a number with a fraction or an exponent";
	case JSON_TRUE:
	case JSON_FALSE:
		return "is a boolean";
	case JSON_NULL:
	case JSON_ARRAY:
	case JSON_OBJECT:
		break;
	}
	return "is null";
}

static int json_malformed(char *error, const struct signature *signature, size_t i,
			  const json_error_t *json)
{
	int is_integer = signature->args[i].type == SIGNATURE_I64;

	if (json_error_code(json) == json_error_out_of_memory)
		return payload_refuse(error, -ENOMEM, "argument", signature->args, i,
				      "needs more memory than the gateway has");
	if (json_error_code(json) == json_error_numeric_overflow)
		return payload_refuse(error, -FK_E_SIGNATURE, "argument", signature->args, i,
				      "does not fit %s",
				      is_integer ? "an integer of 64 bits" : "a double");
	if (json_error_code(json) == json_error_null_character)
		return payload_refuse(error, -FK_E_SIGNATURE, "argument", signature->args, i,
				      "contains U+0000: no str can");
	return payload_refuse(error, -EBADMSG, "argument", signature->args, i, "is not JSON: %s",
			      json->text);
}

/* Parses argument i. */
static int json_argument(struct json_input *input, const struct signature *signature, size_t i,
			 struct payload *payload, char *error)
{
	enum signature_type type = (enum signature_type)signature->args[i].type;
	const char *wanted = type == SIGNATURE_I64 ? "an integer"
			   : type == SIGNATURE_F64 ? "a number"
						   : "a string";
	char first = json_next(input);
	json_error_t json;
	json_t *element;
	int err = 0;

	if (first == '[' || first == '{')
		return payload_refuse(error, -FK_E_SIGNATURE, "argument", signature->args, i,
				      "is %s: write %s", first == '[' ? "an array" : "an object",
				      wanted);
	/* An f64 may be written as an integer of any size. */
	element = json_loadb(input->at, (size_t)(input->end - input->at),
			     JSON_DECODE_ANY | JSON_DISABLE_EOF_CHECK |
				     (type == SIGNATURE_F64 ? JSON_DECODE_INT_AS_REAL : 0),
			     &json);
	if (!element)
		return json_malformed(error, signature, i, &json);
	input->at += json.position;
	if (type == SIGNATURE_I64 && json_is_integer(element))
		payload->values[i].i64 = json_integer_value(element);
	else if (type == SIGNATURE_F64 && json_is_real(element))
		payload->values[i].f64 = json_real_value(element);
	else if (type == SIGNATURE_STR && json_is_string(element))
		payload->values[i].str =
			json_string_value(payload->strings[i] = json_incref(element));
	else
		err = payload_refuse(error, -FK_E_SIGNATURE, "argument", signature->args, i,
				     "%s: write %s", json_kind(element), wanted);
	json_decref(element);
	return err;
}

/* Refuses an array with more elements than arguments, or with n, which are fewer. */
static int json_count(const struct signature *signature, const char *more, size_t n, char *error)
{
	return text_refuse(error, PAYLOAD_ERROR, -FK_E_SIGNATURE,
			   "the array has %s%zu elements, but the task has %u arguments", more, n,
			   signature->n_args);
}

/* Parses the elements, up to the end of the array. */
static int json_elements(struct json_input *input, const struct signature *signature,
			 struct payload *payload, char *error)
{
	size_t i = 0;

	for (char c = json_next(input); c != ']' || i < signature->n_args; c = json_next(input)) {
		int err;

		if (c == ']')
			return json_count(signature, "", i, error);
		if (i && c != ',')
			return payload_refuse(error, -EBADMSG, "argument", signature->args, i - 1,
					      "is not followed by , or ]");
		if (i == signature->n_args)
			return json_count(signature, "more than ", i, error);
		input->at += i > 0;
		err = json_argument(input, signature, i++, payload, error);
		if (err)
			return err;
	}
	input->at++;
	return 0;
}

int payload_json_parse(const char *text, size_t size, const struct signature *signature,
		       struct payload *ret_payload, char *error)
{
	struct json_input input = { text, text + size };
	int err;

	if (json_next(&input) != '[')
		return text_refuse(error, PAYLOAD_ERROR, -EBADMSG,
				   "the payload is neither a JSON array nor a frame, which begins "
				   "with %s: forkd-gearman(8)",
				   PAYLOAD_CALL);
	for (size_t i = 0; i < signature->n_args; i++)
		if (signature_is_buffer((enum signature_type)signature->args[i].type))
			return payload_refuse(error, -FK_E_SIGNATURE, "argument", signature->args,
					      i, "is a buffer: send a frame, forkd-gearman(8)");
	/* The position of jansson is an int. */
	if (size > INT_MAX)
		return text_refuse(error, PAYLOAD_ERROR, -EBADMSG,
				   "%zu bytes of JSON: send a frame, forkd-gearman(8)", size);
	input.at++;
	err = json_elements(&input, signature, ret_payload, error);
	if (err)
		return err;
	if (json_next(&input) || input.at < input.end)
		return text_refuse(error, PAYLOAD_ERROR, -EBADMSG,
				   "%zu bytes follow the array: end the payload with ]",
				   (size_t)(input.end - input.at));
	return 0;
}

/* Adds a result to an array. Returns 0 or -EDOM, -ENOMEM. */
static int json_add(json_t *array, const struct signature *signature, size_t i, const void *results,
		    char *error)
{
	const char *at = (const char *)results + signature->results[i].offset;
	int64_t integer;
	double real;
	json_t *element;

	if (signature->results[i].type == SIGNATURE_I64) {
		memcpy(&integer, at, sizeof(integer));
		element = json_integer(integer);
	} else {
		memcpy(&real, at, sizeof(real));
		if (!isfinite(real))
			return payload_refuse(error, -EDOM, "result", signature->results, i,
					      "is %f, which JSON cannot write: send a frame, "
					      "forkd-gearman(8)",
					      real);
		element = json_real(real);
	}
	if (json_array_append_new(array, element))
		return text_refuse(error, PAYLOAD_ERROR, -ENOMEM, "no memory for the answer");
	return 0;
}

int payload_json_write(struct payload *payload, const struct signature *signature,
		       const void *results, size_t *ret_size, char *error)
{
	json_t *array = json_array();
	size_t size;
	int err = 0;

	for (size_t i = 0; i < signature->n_results && !err; i++)
		err = json_add(array, signature, i, results, error);
	if (!err) {
		/* 17 digits: each double reads back as the same number. */
		size = json_dumpb(array, payload->small, sizeof(payload->small),
				  JSON_COMPACT | JSON_REAL_PRECISION(17));
		if (size)
			*ret_size = size;
		else
			err = text_refuse(error, PAYLOAD_ERROR, -ENOMEM,
					  "no memory for the answer");
	}
	json_decref(array);
	return err;
}
