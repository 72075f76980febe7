/* SPDX-License-Identifier: MIT */
/*
 * The arguments come from a command line, as for forkctl call, or are generated from the typed
 * signature. There are CASE_LEVELS sets, from empty to large enough for forks. Generated buffers
 * hold small numbers, both as 64-bit integers and as floating point. They have no NaN, because the
 * sum of two NaNs is either of them, depending on the compiler.
 */
#include "client/forkctl/case.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "client/lib/client.h"
#include "common/clock.h"
#include "common/util.h"

#define CASE_GRACE_NS (2 * NSEC_PER_SEC) /* time after its limit when a job counts as hung */

/* Values of an argument at each level. The level of argument i is shifted by 2 i, so that not all
 * arguments are small at the same time. */
static const int64_t numbers[CASE_LEVELS] = { 0, 1, 3, 7, 10, 20 };
static const double reals[CASE_LEVELS] = { 0.0, 1.0, 0.5, 2.5, 0.001, 100.0 };
static const size_t sizes[CASE_LEVELS] = { 0, 8, 24, 1001, 8000, 200000 };
static const char *const texts[CASE_LEVELS] = { "", "1", "a", "hello", "0", "forkd" };

uint64_t case_heap(const struct forkctl_case *c)
{
	if (!c->generated)
		return forkctl_args_heap(&c->args);
	return align_up(FORKCTL_HEAP_SMALL + SIGNATURE_MAX_ARGS * (sizes[CASE_LEVELS - 1] + 4096),
			4096);
}

/* Sets argument i to its value at the level; allocates a buffer. Returns 0 or an exit code. */
static int generate_value(const struct forkctl_case *c, struct forkctl_call_values *call,
			  uint32_t i)
{
	const struct signature_item *item = &call->task->signature.args[i];
	union fk_value *value = &call->values[i];
	uint32_t level = (c->level + 2 * i) % CASE_LEVELS;
	int err;

	switch ((enum signature_type)item->type) {
	case SIGNATURE_I64:
		value->i64 = numbers[level];
		break;
	case SIGNATURE_F64:
		value->f64 = reals[level];
		break;
	case SIGNATURE_STR:
		value->str = texts[level];
		break;
	case SIGNATURE_BUF:
	case SIGNATURE_IOBUF:
		value->buf.size = sizes[level];
		err = fk_alloc(call->client, value->buf.size, &value->buf.data);
		if (err)
			return forkctl_fail(FORKCTL_FAILED, "%s: %s: %s", call->task->name,
					    item->name, fk_error_text());
		break;
	}
	return 0;
}

int case_open(const struct forkctl_case *c, fk_client *client, const char *name,
	      struct forkctl_call_values *ret_call)
{
	struct forkctl_call_values call = { .client = client };
	int err = forkctl_find(client, name, "forkctl session -- forkctl tasks", &call.task);

	if (err)
		return err;
	if (!c->generated)
		err = forkctl_values(&c->args, client, call.task, call.values);
	for (uint32_t i = 0; !err && c->generated && i < call.task->signature.n_args; i++)
		err = generate_value(c, &call, i);
	if (err)
		return err;
	*ret_call = call;
	return 0;
}

void case_close(struct forkctl_call_values *call)
{
	for (uint32_t i = 0; i < call->task->signature.n_args; i++)
		if (signature_is_buffer(call->task->signature.args[i].type))
			(void)fk_free(call->client, call->values[i].buf.data);
}

/* Fills data with unordered numbers below 1000, some of them twice. */
static void generate(char *data, size_t size, uint32_t seed)
{
	uint64_t x = UINT64_C(88172645463325252) + seed;

	for (size_t i = 0; i < size; i += sizeof(double)) {
		double number = (double)(xorshift64(&x) >> 32 & 0x1fff) / 8;

		memcpy(data + i, &number, min(sizeof(number), size - i));
	}
}

static void fill(const struct forkctl_case *c, struct forkctl_call_values *call)
{
	if (!c->generated)
		forkctl_fill(&c->args, call->task, call->values);
	for (uint32_t i = 0; c->generated && i < call->task->signature.n_args; i++)
		if (signature_is_buffer(call->task->signature.args[i].type))
			generate(call->values[i].buf.data, call->values[i].buf.size, i);
}

int case_run(const struct forkctl_case *c, struct forkctl_call_values *call, uint64_t limit_ns,
	     struct forkctl_outcome *ret_outcome)
{
	struct forkctl_outcome o = { .outcome = FK_PENDING };
	struct fk_request request = {
		.task = call->task,
		.values = call->values,
		.size = call->task->signature.n_args,
		.options.timeout_ns = limit_ns,
	};
	uint64_t wait =
		limit_ns > UINT64_MAX - CASE_GRACE_NS ? UINT64_MAX : limit_ns + CASE_GRACE_NS;
	struct fk_timings timings;
	fk_job job;
	int err;

	fill(c, call);
	err = fk_submit_batch(call->client, &request, 1, FK_WAIT_ROOM, &job);
	if (err)
		return err;
	err = fk_wait(call->client, job, wait);
	if (err && err != -ETIMEDOUT)
		return error_of_task(call->client, err, call->task->name);
	if (!err) {
		o.outcome = fk_outcome(call->client, job, &o.code, &o.signo);
		if (fk_timings(call->client, job, &timings) == 0)
			o.run_ns = timings.run_ns;
		(void)fk_result(call->client, job, o.result, sizeof(o.result));
		(void)fk_release(call->client, job);
	}
	*ret_outcome = o;
	return 0;
}

const char *case_outcome(const struct forkctl_outcome *o, struct forkctl_text *text)
{
	if (o->outcome == FK_PENDING)
		return "did not end in time";
	return error_outcome(text->text, sizeof(text->text), o->outcome, o->code, o->signo,
			     o->run_ns != 0, 0);
}

void case_describe(const struct forkctl_case *c, const struct forkctl_call_values *call,
		   char *ret_text, size_t size)
{
	const struct signature *signature = &call->task->signature;
	size_t n = 0;

	ret_text[0] = '\0';
	for (uint32_t i = 0; i < signature->n_args && n < size; i++) {
		const struct signature_item *item = &signature->args[i];
		const union fk_value *value = &call->values[i];

		n += (size_t)snprintf(ret_text + n, size - n, "%s%s%s", i ? ", " : "", item->name,
				      item->name[0] ? "=" : "");
		if (n >= size)
			return;
		if (item->type == SIGNATURE_I64)
			n += (size_t)snprintf(ret_text + n, size - n, "%" PRId64, value->i64);
		else if (item->type == SIGNATURE_F64)
			n += (size_t)snprintf(ret_text + n, size - n, "%g", value->f64);
		else if (item->type == SIGNATURE_STR)
			n += (size_t)snprintf(ret_text + n, size - n, "\"%s\"", value->str);
		else if (c->generated)
			n += (size_t)snprintf(ret_text + n, size - n, "%zu bytes", value->buf.size);
		else if (c->args.words[i][1] != ':')
			n += (size_t)snprintf(ret_text + n, size - n, "%s of %zu bytes",
					      c->args.words[i], value->buf.size);
		else
			n += (size_t)snprintf(ret_text + n, size - n, "%s", c->args.words[i]);
	}
}
