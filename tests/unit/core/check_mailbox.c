/* SPDX-License-Identifier: MIT */
/* inbox: messages to a worker are delivered in order, and neither kind delays the other. */
#include "daemon/core/mailbox.h"

#include <forkd/frame.h>

#include "tests/support/check_unit.h"

static struct inbox inbox;
static struct fk_frame sent[100], put[100];

static void fill(uint32_t n_sent, uint32_t n_put)
{
	for (uint32_t i = 0; i < n_sent; i++)
		ck_assert_int_eq(inbox_push(&inbox, &sent[i]), 0);
	for (uint32_t i = 0; i < n_put; i++)
		inbox_put(&inbox, &put[i]);
}

START_TEST(each_kind_comes_out_in_order)
{
	inbox_init(&inbox);
	ck_assert_ptr_null(inbox_pop(&inbox));
	for (int round = 0; round < 3; round++) {
		fill(50, 0);
		for (uint32_t i = 0; i < 50; i++)
			ck_assert_ptr_eq(inbox_pop(&inbox), &sent[i]);
		fill(0, 50);
		for (uint32_t i = 0; i < 50; i++) {
			ck_assert(inbox_any(&inbox));
			ck_assert_ptr_eq(inbox_pop(&inbox), &put[i]);
			ck_assert_ptr_null(put[i].parent);
		}
		ck_assert(!inbox_any(&inbox));
		ck_assert_ptr_null(inbox_pop(&inbox));
	}
	inbox_fini(&inbox);
}
END_TEST

START_TEST(endless_sender_does_not_delay_fibers)
{
	inbox_init(&inbox);
	fill(50, 20);
	for (uint32_t i = 0; i < 20; i++) {
		ck_assert_ptr_eq(inbox_pop(&inbox), &sent[i]);
		ck_assert_ptr_eq(inbox_pop(&inbox), &put[i]);
	}
	for (uint32_t i = 20; i < 50; i++)
		ck_assert_ptr_eq(inbox_pop(&inbox), &sent[i]);
	/* The kind whose turn it is must not be empty. */
	fill(0, 2);
	ck_assert_ptr_eq(inbox_pop(&inbox), &put[0]);
	ck_assert_ptr_eq(inbox_pop(&inbox), &put[1]);
	ck_assert(!inbox_any(&inbox));
	inbox_fini(&inbox);
}
END_TEST

static bool may(const struct fk_frame *frame)
{
	return frame != &put[1];
}

START_TEST(first_fiber_is_stolen_if_it_may_be)
{
	inbox_init(&inbox);
	ck_assert_ptr_null(inbox_steal(&inbox, may));
	fill(2, 0);
	ck_assert_ptr_null(inbox_steal(&inbox, may));
	fill(0, 3);
	ck_assert_ptr_eq(inbox_steal(&inbox, may), &put[0]);
	ck_assert_ptr_null(put[0].parent);
	ck_assert_ptr_null(inbox_steal(&inbox, may));
	ck_assert_ptr_eq(inbox_pop(&inbox), &sent[0]);
	ck_assert_ptr_eq(inbox_pop(&inbox), &put[1]);
	pthread_mutex_lock(&inbox.lock);
	ck_assert_ptr_null(inbox_steal(&inbox, may));
	pthread_mutex_unlock(&inbox.lock);
	ck_assert_ptr_eq(inbox_steal(&inbox, may), &put[2]);
	/* It was the last one: the next one is the first. */
	fill(0, 1);
	ck_assert_ptr_eq(inbox_pop(&inbox), &sent[1]);
	ck_assert_ptr_eq(inbox_pop(&inbox), &put[0]);
	ck_assert(!inbox_any(&inbox));
	inbox_fini(&inbox);
}
END_TEST

CHECK_MAIN("inbox")
