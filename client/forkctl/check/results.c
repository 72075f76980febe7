/* SPDX-License-Identifier: MIT */
#include "client/forkctl/check/results.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "client/lib/client_state.h"
#include "common/util.h"

int result_write(int fd, const struct forkctl_case *c, const struct forkctl_call_values *call,
		 const struct forkctl_outcome *outcome)
{
	const struct signature *signature = &call->task->signature;
	struct result result = {
		.level = c->level,
		.signature = *signature,
		.outcome = *outcome,
	};
	const char zeros[8] = "";
	uint64_t bytes = 0;
	int err;

	(void)snprintf(result.task, sizeof(result.task), "%s", call->task->name);
	case_describe(c, call, result.args, sizeof(result.args));
	for (uint32_t i = 0; i < signature->n_args; i++)
		if (signature->args[i].type == SIGNATURE_IOBUF) {
			result.buffers[result.n_buffers++] = call->values[i].buf.size;
			bytes += call->values[i].buf.size;
		}
	result.bytes = align_up(bytes, 8);
	err = forkctl_write(fd, &result, sizeof(result));
	for (uint32_t i = 0; !err && i < signature->n_args; i++)
		if (signature->args[i].type == SIGNATURE_IOBUF)
			err = forkctl_write(fd, call->values[i].buf.data, call->values[i].buf.size);
	if (!err)
		err = forkctl_write(fd, zeros, result.bytes - bytes);
	if (err)
		return forkctl_fail(FORKCTL_FAILED, "cannot write the results: %s",
				    strerrordesc_np(-err));
	return 0;
}

const struct result *result_next(const struct results *text, size_t *at)
{
	const struct result *result = (const void *)(text->data + *at);

	if (text->size - *at < sizeof(*result) ||
	    text->size - *at - sizeof(*result) < result->bytes)
		return NULL;
	*at += sizeof(*result) + result->bytes;
	return result;
}

const struct result *result_find(const struct results *text, const char *task, uint32_t level)
{
	const struct result *result;
	size_t at = 0;

	while ((result = result_next(text, &at)))
		if (streq(result->task, task) && result->level == level)
			return result;
	return NULL;
}

int result_says(const struct result *want)
{
	return want && want->outcome.outcome != FK_EXPIRED && want->outcome.outcome != FK_PENDING;
}

static int is_among(const struct forkctl_words *words, const char *name)
{
	for (uint32_t i = 0; i < words->n; i++)
		if (streq(words->words[i], name))
			return 1;
	return 0;
}

int result_differs(const struct result *a, const struct result *b,
		   const struct forkctl_words *except, char *text, size_t size)
{
	const struct signature *signature = &a->signature;
	const char *x = (const char *)(a + 1), *y = (const char *)(b + 1);
	struct forkctl_text is, was;

	if (memcmp(signature, &b->signature, sizeof(*signature)) != 0 || a->bytes != b->bytes) {
		(void)snprintf(text, size, "the signature has changed: was the module rebuilt?");
		return 1;
	}
	if (a->outcome.outcome != b->outcome.outcome || a->outcome.code != b->outcome.code ||
	    a->outcome.signo != b->outcome.signo) {
		(void)snprintf(text, size, "it %s, serially %s", case_outcome(&b->outcome, &is),
			       case_outcome(&a->outcome, &was));
		return 1;
	}
	/* Any other job was aborted and has no result. The contents of buffers that it works on in
	 * place depend on the time of the abort. */
	if (a->outcome.outcome != FK_DONE)
		return 0;
	for (uint32_t i = 0; i < signature->n_results; i++) {
		const struct signature_item *item = &signature->results[i];
		const uint8_t *r = a->outcome.result + item->offset;
		const uint8_t *s = b->outcome.result + item->offset;
		int64_t m, n;
		double d, e;

		memcpy(&m, r, sizeof(m));
		memcpy(&n, s, sizeof(n));
		memcpy(&d, r, sizeof(d));
		memcpy(&e, s, sizeof(e));
		/* Which NaN an operation returns depends on the order of its operands. */
		if (m == n || (item->type == SIGNATURE_F64 && isnan(d) && isnan(e)) ||
		    is_among(except, item->name))
			continue;
		if (item->type == SIGNATURE_F64)
			(void)snprintf(text, size, "result %s is %.17g, serially %.17g",
				       item->name[0] ? item->name : "1", e, d);
		else
			(void)snprintf(text, size, "result %s is %" PRId64 ", serially %" PRId64,
				       item->name[0] ? item->name : "1", n, m);
		return 1;
	}
	for (uint32_t i = 0; i < a->n_buffers; i++) {
		for (uint64_t at = 0; at < a->buffers[i]; at++) {
			if (x[at] == y[at])
				continue;
			(void)snprintf(text, size,
				       "iobuf %" PRIu32 ": byte %" PRIu64
				       " is 0x%02x, serially 0x%02x",
				       i + 1, at, (unsigned char)y[at], (unsigned char)x[at]);
			return 1;
		}
		x += a->buffers[i];
		y += a->buffers[i];
	}
	return 0;
}
