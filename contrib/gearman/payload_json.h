/* SPDX-License-Identifier: MIT */
/* payload_json.h - calls and answers in JSON, for payload.c */
#pragma once

#include <stddef.h>

#include "contrib/gearman/payload.h"

/* Parses the values of a call: payload_parse_call(). ret_payload: zeroed. payload_fini() frees it,
 * also on failure. */
int payload_json_parse(const char *text, size_t size, const struct signature *signature,
		       struct payload *ret_payload, char *error);

/* Writes an answer into payload->small: payload_write_answer(). */
int payload_json_write(struct payload *payload, const struct signature *signature,
		       const void *results, size_t *ret_size, char *error);

/* Sets error to "argument 2 (data:buf) WHAT". item: of n arguments or results, from 0. Returns
 * code. */
int payload_refuse(char *error, int code, const char *kind, const struct signature_item *items,
		   size_t i, const char *what, ...) __attribute__((format(printf, 6, 7)));
