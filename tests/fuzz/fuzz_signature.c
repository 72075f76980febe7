/* SPDX-License-Identifier: MIT */
/*
 * fuzz_signature.c - bytes as the signature of a task
 *
 * WHAT MUST BE TRUE
 *   A signature is refused, with a position in the text; or its arguments and results fit, and
 *   printing and parsing it again gives the same signature.
 */
#include <errno.h>

#include "common/util.h"
#include "shm/limits.h"
#include "shm/signature.h"
#include "tests/fuzz/fuzz.h"

static void check_items(const struct signature_item *items, uint32_t n, uint32_t max, uint32_t size,
			uint32_t limit)
{
	uint32_t offset = 0;

	FUZZ_ASSERT(n <= max && size <= limit);
	for (uint32_t i = 0; i < n; i++) {
		FUZZ_ASSERT(items[i].offset == offset);
		FUZZ_ASSERT(memchr(items[i].name, '\0', sizeof(items[i].name)));
		FUZZ_ASSERT(items[i].type <= SIGNATURE_IOBUF);
		offset += signature_is_reference(items[i].type) ? 16 : 8;
	}
	FUZZ_ASSERT(offset == size);
}

static size_t write_items(char *text, const struct signature_item *items, uint32_t n)
{
	size_t at = 0;

	for (uint32_t i = 0; i < n; i++)
		at += (size_t)sprintf(text + at, "%s%s%s%s", i ? ", " : "", items[i].name,
				      items[i].name[0] ? ":" : "",
				      signature_type_name(items[i].type));
	return at;
}

static void check_again(const struct signature *signature)
{
	char text[(SIGNATURE_MAX_ARGS + SIGNATURE_MAX_RESULTS) * (SIGNATURE_NAME + 8) + 8];
	struct signature again;
	size_t at = write_items(text, signature->args, signature->n_args);

	at += (size_t)sprintf(text + at, " -> ");
	write_items(text + at, signature->results, signature->n_results);
	FUZZ_ASSERT(signature_parse(text, &again, NULL) == 0);
	FUZZ_ASSERT(!memcmp(signature, &again, sizeof(again)));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz_input input = { data, data + size };
	char *text = fuzz_text(&input, '\0');
	struct signature signature, untouched;
	const char *at = NULL;
	int r;

	memset(&untouched, 0xa5, sizeof(untouched));
	signature = untouched;
	r = signature_parse(text, &signature, &at);
	if (r < 0) {
		FUZZ_ASSERT(r == -EINVAL || r == -E2BIG);
		FUZZ_ASSERT(at >= text && at <= text + strlen(text));
		FUZZ_ASSERT(!memcmp(&signature, &untouched, sizeof(untouched)));
	} else {
		check_items(signature.args, signature.n_args, SIGNATURE_MAX_ARGS,
			    signature.args_size, LIMIT_ARGS);
		check_items(signature.results, signature.n_results, SIGNATURE_MAX_RESULTS,
			    signature.results_size, LIMIT_RESULT);
		for (uint32_t i = 0; i < signature.n_results; i++)
			FUZZ_ASSERT(!signature_is_reference(signature.results[i].type));
		check_again(&signature);
	}
	free(text);
	return 0;
}
