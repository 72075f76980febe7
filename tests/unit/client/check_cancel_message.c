/* SPDX-License-Identifier: MIT */
/* cancel_message: the messages of fk_cancel() on the client's socket; it never blocks. Uses
 * tests/support/fake.h; check_cancel.c has the effect on jobs. */
#include <errno.h>
#include <sys/socket.h>

#include "shm/proto.h"
#include "tests/support/check_unit.h"
#include "tests/support/fake.h"
#include "tests/support/local.h"

START_TEST(cancel_names_the_job_and_its_generation)
{
	union proto_message message;
	fk_job jobs[2] = { must_drop() };

	ck_assert_int_eq(fk_submit(client, must_find(client, "test:drop"), 0, &jobs[1]), 0);
	ck_assert_int_eq(fk_cancel(client, jobs[1]), 0);
	ck_assert_int_eq(fake_recv(0, &message, 0), sizeof(message.cancel));
	ck_assert_uint_eq(message.head.type, PROTO_CANCEL);
	ck_assert_uint_eq(message.cancel.job, jobs[1] & 0xffff);
	ck_assert_uint_eq(message.cancel.generation, jobs[1] >> 16);
	/* A job that has ended is not cancelled. */
	fake_end(jobs[1], JOB_CANCELLED);
	ck_assert_int_eq(fk_cancel(client, jobs[1]), 0);
	ck_assert_int_eq(fake_recv(0, &message, MSG_DONTWAIT), -EAGAIN);
	fake_hang_up();
	ck_assert_int_eq(fk_cancel(client, jobs[0]), -ECONNRESET);
	fake_close();
}
END_TEST

START_TEST(cancel_is_in_the_record_until_the_release)
{
	struct job *record;
	fk_job jobs[2] = { must_drop() };

	ck_assert_int_eq(fk_submit(client, must_find(client, "test:drop"), 0, &jobs[1]), 0);
	ck_assert_int_eq(fk_cancel(client, jobs[1]), 0);
	record = client_job(client, jobs[1]);
	ck_assert_uint_eq(atomic_load(&record->cancel), jobs[1] >> 16);
	ck_assert_uint_eq(atomic_load(&client_job(client, jobs[0])->cancel), 0);
	fake_end(jobs[1], JOB_CANCELLED);
	ck_assert_int_eq(fk_result(client, jobs[1], NULL, 0), -ECANCELED);
	ck_assert_int_eq(fk_release(client, jobs[1]), 0);
	ck_assert_uint_eq(atomic_load(&record->cancel), 0);
	ck_assert_int_eq(fk_cancel(client, jobs[1]), -ESTALE);
	ck_assert_int_eq(fk_cancel(client, 0), -ESTALE);
	fake_close();
}
END_TEST

START_TEST(cancel_never_blocks)
{
	union proto_message message;
	fk_job job = must_drop();
	uint64_t sent = 0;
	int err;

	LOCAL_REFUSE("the messages of a socket");
	/* The daemon does not read the messages. */
	while (!(err = fk_cancel(client, job)))
		sent++;
	ck_assert_int_eq(err, -FK_E_REQUESTS_FULL);
	ck_assert_uint_gt(sent, 0);
	for (uint64_t i = 0; i < sent; i++)
		ck_assert_int_eq(fake_recv(0, &message, MSG_DONTWAIT), sizeof(message.cancel));
	ck_assert_int_eq(fk_cancel(client, job), 0);
	fake_close();
}
END_TEST

CHECK_MAIN("cancel_message")
