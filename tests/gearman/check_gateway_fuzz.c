/* SPDX-License-Identifier: MIT */
/*
 * check_gateway_fuzz.c - malformed payloads through a real gearmand to a real gateway
 *
 * A job has a valid call in JSON or as a frame, one with mistakes, or random bytes. The payload
 * parser of this process says what must become of it: an answer, or the exception REFUSED with the
 * same code. The gateway must answer each job once, compute right results, and live.
 *
 *	FUZZ_RUNS	jobs (5,000)
 *	FUZZ_SEED	of the random numbers
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define CHECK_TIMEOUT  550
#define CHECK_SETUP    setup
#define CHECK_TEARDOWN teardown

#include "common/util.h"
#include "contrib/gearman/payload.h"
#include "tests/gearman/protocol.h"
#include "tests/support/check_unit.h"
#include "tests/support/daemon.h"

#define FLIGHT	 64u		/* jobs at a time */
#define UNIQUE	 63u		/* bytes of a unique id, at most */
#define MAX_SIZE (64u << 10)	/* --max-size of the gateway */
#define ROOM	 (MAX_SIZE * 2) /* bytes of a payload */

/* Tasks that end whatever their arguments are. */
static const char *const tasks[] = {
	"null:null",	"null:add",	     "null:pass",   "bytes:sum",   "bytes:text",
	"bytes:invert", "bytes:invert_both", "bytes:spoil", "bytes:eight",
};

/* What was received for a job, and what must be. */
struct job {
	char handle[64];
	size_t task;
	int refused;	/* 0, or the code of REFUSED */
	int64_t result; /* of a task with one */
	int has_result; /* a result, or 77 of bytes:spoil */
	int may_expire; /* it has a deadline */
	int is_warned;	/* its end follows */
	int has_ended;
};

static struct daemon d;
static struct protocol protocol;
static pid_t server, gateway;
static struct signature signatures[ARRAY_SIZE(tasks)];
static uint64_t hashes[ARRAY_SIZE(tasks)];
static uint64_t seed = 1;
static char *payload; /* ROOM bytes */

static struct {
	char word[16];
	uint64_t n;
} outcomes[16];

static void count(const char *word)
{
	for (size_t i = 0; i < ARRAY_SIZE(outcomes); i++) {
		if (!outcomes[i].n)
			(void)snprintf(outcomes[i].word, sizeof(outcomes[i].word), "%s", word);
		if (streq(outcomes[i].word, word)) {
			outcomes[i].n++;
			return;
		}
	}
	ck_abort_msg("%s: too many outcomes", word);
}

static uint64_t dice(uint64_t n)
{
	return xorshift64(&seed) % n;
}

/* ------------------------------------------------------------------------------ payloads */

static int64_t number(void)
{
	static const int64_t interesting[] = { 0, 1, -1, INT64_MAX, INT64_MIN, 255, 256, 4096 };

	return dice(2) ? interesting[dice(ARRAY_SIZE(interesting))] : (int64_t)xorshift64(&seed);
}

static size_t valid_json(const struct signature *signature)
{
	size_t n = 0;

	payload[n++] = '[';
	for (uint32_t i = 0; i < signature->n_args; i++) {
		char *at = payload + n;
		size_t room = ROOM - n;

		if (signature->args[i].type == SIGNATURE_I64)
			n += (size_t)snprintf(at, room, "%s%lld", i ? "," : "",
					      (long long)number());
		else
			n += (size_t)snprintf(at, room, "%s\"%.*s\\u00e4\\n\"", i ? ", " : "",
					      (int)dice(40),
					      "the text of an argument, some bytes long");
	}
	payload[n++] = ']';
	return n;
}

static size_t valid_frame(const struct signature *signature, uint64_t hash)
{
	static char data[SIGNATURE_MAX_ARGS][4096];
	union fk_value values[SIGNATURE_MAX_ARGS];
	char error[PAYLOAD_ERROR];
	size_t size;

	for (uint32_t i = 0; i < signature->n_args; i++) {
		size_t n = dice(dice(8) ? 100 : sizeof(data[i]));

		memset(data[i], (int)(dice(255) + 1), n);
		data[i][n] = '\0';
		if (signature->args[i].type == SIGNATURE_I64)
			values[i].i64 = number();
		else if (signature->args[i].type == SIGNATURE_STR)
			values[i].str = data[i];
		else
			values[i].buf = (struct fk_buffer){ data[i], n };
	}
	ck_assert_int_eq(payload_call_size(signature, values, &size, error), 0);
	ck_assert_uint_le(size, ROOM);
	payload_write_call(payload, signature, values, dice(2) ? hash : 0,
			   dice(2) ? PAYLOAD_IDEMPOTENT : 0, dice(8) ? 0 : 60 * NSEC_PER_SEC,
			   (uint32_t)dice(200));
	return size;
}

/* Makes one mistake. Returns the new size. */
static size_t mutate(size_t size)
{
	static const uint64_t words[] = {
		0,	    1,		8,	   0x80,       0x7fffffff,
		0xffffffff, 1ull << 32, INT64_MAX, UINT64_MAX, UINT64_MAX - 255
	};
	size_t at = dice(size + 1), n = dice(min(size - at, (size_t)64) + 1);
	uint64_t word = words[dice(ARRAY_SIZE(words))];

	switch (dice(6)) {
	case 0: /* another byte */
		if (at < size)
			payload[at] = (char)dice(256);
		return size;
	case 1: /* a bit */
		if (at < size)
			payload[at] ^= (char)(1 << dice(8));
		return size;
	case 2: /* shorter at the end */
		return at;
	case 3: /* shorter in the middle */
		memmove(payload + at, payload + at + n, size - at - n);
		return size - n;
	case 4: /* longer in the middle */
		n = min(n, (size_t)ROOM - size);
		memmove(payload + at + n, payload + at, size - at);
		return size + n;
	default: /* a size or a value */
		at &= ~(size_t)7;
		if (at < PAYLOAD_DATA && at + 8 <= size)
			memcpy(payload + at, &word, sizeof(word));
		return size;
	}
}

static size_t make_payload(size_t task)
{
	const struct signature *signature = &signatures[task];
	int json = 1;
	size_t size;

	for (uint32_t i = 0; i < signature->n_args; i++)
		json &= !signature_is_buffer((enum signature_type)signature->args[i].type);
	size = json && dice(2) ? valid_json(signature) : valid_frame(signature, hashes[task]);
	switch (dice(8)) {
	case 0: /* random bytes */
		size = dice(400);
		for (size_t i = 0; i < size; i++)
			payload[i] = (char)dice(256);
		return size;
	case 1: /* too large */
		if (dice(50))
			return size;
		memset(payload + size, 0, ROOM - size);
		return MAX_SIZE + 1 + dice(ROOM - MAX_SIZE);
	case 2:
	case 3:
		return size;
	default:
		for (uint64_t n = 1 + dice(3); n > 0; n--)
			size = mutate(size);
		return size;
	}
}

/* ------------------------------------------------------------------------------ expectations */

static int64_t sum(struct fk_buffer buffer)
{
	int64_t sum = 0;

	for (size_t i = 0; i < buffer.size; i++)
		sum += ((unsigned char *)buffer.data)[i];
	return sum;
}

/* Sets what must become of a job with this payload. */
static void expect(struct job *job, size_t size)
{
	char error[PAYLOAD_ERROR];
	struct payload call;
	const union fk_value *values = call.values;
	const char *name = tasks[job->task];

	job->refused = size > MAX_SIZE ? -EFBIG
				       : payload_parse_call(payload, size, &signatures[job->task],
							    hashes[job->task], &call, error);
	if (job->refused)
		return;
	job->may_expire = call.timeout_ns != 0;
	job->has_result = signatures[job->task].n_results > 0;
	if (streq(name, "null:add"))
		job->result = (int64_t)((uint64_t)values[0].i64 + (uint64_t)values[1].i64);
	else if (streq(name, "bytes:sum") || streq(name, "bytes:invert"))
		job->result = sum(values[0].buf);
	else if (streq(name, "bytes:text"))
		job->result = (int64_t)((uint64_t)sum((struct fk_buffer){
						(void *)(uintptr_t)values[0].str,
						strlen(values[0].str) }) *
					(uint64_t)values[1].i64);
	else if (streq(name, "bytes:spoil"))
		job->result = 77;
	else if (streq(name, "bytes:eight"))
		for (size_t i = 0; i < 8; i++)
			job->result += sum(values[i].buf);
	payload_fini(&call);
}

static void check_exception(struct job *job, const struct protocol_packet *packet)
{
	struct payload_exception exception;

	ck_assert_int_eq(payload_parse_exception(packet->data, packet->size, &exception), 0);
	count(exception.outcome);
	if (job->refused) {
		ck_assert_str_eq(exception.outcome, PAYLOAD_REFUSED);
		ck_assert_msg(exception.code == job->refused, "%s: %d, not %d: %s",
			      tasks[job->task], exception.code, job->refused, exception.text);
	} else if (!job->may_expire || !streq(exception.outcome, "EXPIRED")) {
		ck_assert_msg(streq(tasks[job->task], "bytes:spoil"), "%s: %s %d: %s",
			      tasks[job->task], exception.outcome, exception.code, exception.text);
		ck_assert_str_eq(exception.outcome, "FAILED");
		ck_assert_int_eq(exception.code, (int)job->result);
	}
	ck_assert_uint_gt(strlen(exception.text), 0);
}

static void check_complete(struct job *job, const struct protocol_packet *packet)
{
	int64_t result = 0;

	count("DONE");
	ck_assert_msg(!job->refused, "%s is answered, and not refused by %d", tasks[job->task],
		      job->refused);
	if (packet->size && packet->data[0] == '[') {
		char text[64] = "";

		memcpy(text, packet->data, min(packet->size, sizeof(text) - 1));
		ck_assert_int_eq(sscanf(text, "[%ld", &result) == 1, job->has_result);
	} else {
		ck_assert_uint_ge(packet->size, sizeof(struct payload_answer));
		ck_assert_mem_eq(packet->data, PAYLOAD_ANSWER, 4);
		if (job->has_result)
			memcpy(&result, packet->data + sizeof(struct payload_answer),
			       sizeof(result));
	}
	ck_assert_int_eq(result, job->result);
}

/* ------------------------------------------------------------------------------ jobs */

static void submit(struct job *job)
{
	char unique[UNIQUE + 1] = "";
	size_t size, n = 16 + dice(UNIQUE - 16);

	*job = (struct job){ .task = dice(ARRAY_SIZE(tasks)) };
	size = make_payload(job->task);
	expect(job, size);
	for (size_t i = 0; i < n; i++)
		unique[i] = (char)(1 + dice(255));
	ck_assert_int_eq(protocol_submit(&protocol, tasks[job->task], unique, payload, size), 0);
}

/* Returns the job of a packet. A packet without a byte 0 is a handle alone. */
static struct job *find(struct job *jobs, const struct protocol_packet *packet)
{
	char handle[sizeof(jobs->handle)];

	if (*packet->handle)
		(void)snprintf(handle, sizeof(handle), "%s", packet->handle);
	else
		(void)snprintf(handle, sizeof(handle), "%.*s", (int)packet->size, packet->data);
	for (size_t i = 0; i < FLIGHT; i++)
		if (streq(jobs[i].handle, handle))
			return &jobs[i];
	ck_abort_msg("no job %s", handle);
}

/* Reads packets until all jobs have ended, each once. A frame is refused by an exception, which is
 * the last packet of its job: gearmand does not send the end that follows it. Others are refused by
 * a warning and the end. */
static void collect(struct job *jobs, size_t n)
{
	for (size_t created = 0, ended = 0; ended < n;) {
		struct protocol_packet packet;
		struct job *job;

		ck_assert_int_eq(protocol_read(&protocol, &packet), 0);
		if (packet.type == PACKET_CREATED) {
			/* In the order of the submissions. */
			ck_assert_uint_lt(created, n);
			(void)snprintf(jobs[created++].handle, sizeof(jobs->handle), "%.*s",
				       (int)packet.size, packet.data);
			continue;
		}
		job = find(jobs, &packet);
		ck_assert(!job->has_ended);
		ck_assert_int_eq(job->is_warned, packet.type == PACKET_FAIL);
		if (packet.type == PACKET_COMPLETE)
			check_complete(job, &packet);
		else if (packet.type == PACKET_EXCEPTION || packet.type == PACKET_WARNING)
			check_exception(job, &packet);
		else
			ck_assert_uint_eq(packet.type, PACKET_FAIL);
		job->is_warned = packet.type == PACKET_WARNING;
		job->has_ended = packet.type != PACKET_WARNING;
		ended += (size_t)job->has_ended;
	}
}

static uint64_t from_environment(const char *name, uint64_t or)
{
	const char *text = getenv(name);

	return text ? strtoull(text, NULL, 10) : or ;
}

static void setup(void)
{
	char option[64], max_size[32], journal[128];
	uint16_t port;

	payload = malloc(ROOM);
	ck_assert_ptr_nonnull(payload);
	daemon_start(&d, "--workers=2", NULL);
	(void)snprintf(journal, sizeof(journal), "--journal=%s/journal", d.directory);
	ck_assert_int_eq(mkdir(strchr(journal, '/'), 0700), 0);
	for (size_t i = 0; i < ARRAY_SIZE(tasks); i++) {
		const fk_task *task;

		ck_assert_int_eq(fk_task_find(d.watcher, tasks[i], &task), 0);
		ck_assert_int_eq(signature_parse(fk_task_signature(task), &signatures[i], NULL), 0);
		hashes[i] = signature_hash(tasks[i], fk_task_signature(task));
	}
	server = protocol_server(&port);
	ck_assert_msg(server > 0, "gearmand does not start: %s", strerror(-server));
	(void)snprintf(option, sizeof(option), "--server=127.0.0.1:%u", port);
	(void)snprintf(max_size, sizeof(max_size), "--max-size=%u", MAX_SIZE);
	gateway = daemon_spawn(&d, "gateway.log",
			       (const char *const[]){ "forkd-gearman", option, max_size, journal,
						      NULL });
	ck_assert_int_eq(protocol_open(&protocol, port), 0);
}

static void teardown(void)
{
	protocol_close(&protocol);
	(void)kill(gateway, SIGTERM);
	ck_assert_int_eq(daemon_reap(gateway), 0);
	protocol_kill(server);
	ck_assert_int_eq(daemon_stop(&d), 0);
	free(payload);
}

START_TEST(each_payload_gets_an_answer_or_a_clear_exception)
{
	static struct job jobs[FLIGHT];
	uint64_t runs = from_environment("FUZZ_RUNS", 5000);
	pid_t pool = daemon_pool(&d);

	seed = from_environment("FUZZ_SEED", 1);
	for (uint64_t left = runs; left > 0;) {
		size_t n = (size_t)min(left, (uint64_t)FLIGHT);

		for (size_t i = 0; i < n; i++)
			submit(&jobs[i]);
		collect(jobs, n);
		left -= n;
	}
	for (size_t i = 0; i < ARRAY_SIZE(outcomes) && outcomes[i].n; i++)
		printf("%s %llu\n", outcomes[i].word, (unsigned long long)outcomes[i].n);
	ck_assert(!daemon_has_ended(gateway));
	ck_assert_int_eq(daemon_pool(&d), pool);
	ck_assert_uint_eq(daemon_crashes(&d), 0);
}
END_TEST

CHECK_MAIN("gateway_fuzz")
