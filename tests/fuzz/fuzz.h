/* SPDX-License-Identifier: MIT */
/*
 * fuzz.h - code shared by the fuzz targets
 *
 * A target, fuzz_NAME.c, passes bytes to code that reads the output of another process, and asserts
 * conditions that hold for any bytes. It keeps no state between inputs, so that an input alone
 * reproduces a fault.
 *
 * Threads: one; of libFuzzer (make fuzz, tests/fuzz/run), or of tests/fuzz/replay.c with the inputs
 * in tests/fuzz/corpus/NAME.
 */
#pragma once

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/text.h"

/* Runs one input. Returns 0. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Ends the process on a fault, and prints the place. */
#define FUZZ_ASSERT(condition)                                                                     \
	do {                                                                                       \
		if (!(condition)) {                                                                \
			(void)fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__,           \
				      #condition);                                                 \
			abort();                                                                   \
		}                                                                                  \
	} while (0)

/* The rest of an input, followed by zeros. */
struct fuzz_input {
	const uint8_t *at;
	const uint8_t *end;
};

static inline int fuzz_more(const struct fuzz_input *input)
{
	return input->at < input->end;
}

static inline uint8_t fuzz_u8(struct fuzz_input *input)
{
	return fuzz_more(input) ? *input->at++ : 0;
}

static inline uint16_t fuzz_u16(struct fuzz_input *input)
{
	uint16_t low = fuzz_u8(input);

	return (uint16_t)(low | fuzz_u8(input) << 8);
}

static inline uint32_t fuzz_u32(struct fuzz_input *input)
{
	uint32_t low = fuzz_u16(input);

	return low | (uint32_t)fuzz_u16(input) << 16;
}

static inline uint64_t fuzz_u64(struct fuzz_input *input)
{
	uint64_t low = fuzz_u32(input);

	return low | (uint64_t)fuzz_u32(input) << 32;
}

/* Returns the text up to this byte, which is skipped, or up to the end, as a copy, so that
 * AddressSanitizer knows its bounds. The caller frees it. A NUL ends the text early. */
static inline char *fuzz_text(struct fuzz_input *input, char until)
{
	size_t left = (size_t)(input->end - input->at);
	const uint8_t *found = left ? memchr(input->at, until, left) : NULL;
	size_t n = found ? (size_t)(found - input->at) : left;
	char *text = strndup(n ? (const char *)input->at : "", n);

	FUZZ_ASSERT(text);
	input->at += n + (found != NULL);
	return text;
}

/* Returns true for a text of one line that a terminal may show. */
static inline int fuzz_is_line(const char *text)
{
	return *text && text_is_line(text);
}
