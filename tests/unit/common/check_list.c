/* SPDX-License-Identifier: MIT */
/* list: the order of elements, zeroed heads and links, and removal while a list is walked. */
#include "common/list.h"

#include "tests/support/check_unit.h"

#define ELEMENTS 4

struct element {
	int n;
	struct list_link link;
};

static struct element elements[ELEMENTS];

/* Returns the numbers of a list's elements, the first one in the highest digit. */
static int digits(const struct list_link *list)
{
	const struct element *e;
	int n = 0;

	list_for_each (e, list, link)
		n = 10 * n + e->n;
	ck_assert_ptr_null(e);
	return n;
}

static void fill(struct list_link *list)
{
	for (int i = 0; i < ELEMENTS; i++) {
		elements[i] = (struct element){ .n = i + 1 };
		list_add(list, &elements[i].link);
	}
}

START_TEST(zeroed_head_and_initialized_head_are_empty)
{
	struct list_link zeroed = { 0 }, ready;

	list_init(&ready);
	ck_assert(list_is_empty(&zeroed));
	ck_assert(list_is_empty(&ready));
	ck_assert_ptr_null(list_first(&zeroed, struct element, link));
	ck_assert_ptr_null(list_last(&ready, struct element, link));
	ck_assert_int_eq(digits(&zeroed), 0);
	ck_assert_int_eq(digits(&ready), 0);
}
END_TEST

START_TEST(elements_stay_in_the_order_in_which_they_were_added)
{
	struct list_link list = { 0 };
	struct element first = { .n = 5 }, middle = { .n = 6 };

	fill(&list);
	ck_assert(!list_is_empty(&list));
	ck_assert_int_eq(digits(&list), 1234);
	list_add_first(&list, &first.link);
	list_add(&elements[2].link, &middle.link);
	ck_assert_int_eq(digits(&list), 512634);
	ck_assert_ptr_eq(list_first(&list, struct element, link), &first);
	ck_assert_ptr_eq(list_last(&list, struct element, link), &elements[3]);
}
END_TEST

START_TEST(first_element_may_be_added_to_a_zeroed_head_at_either_end)
{
	struct list_link list = { 0 };
	struct element e = { .n = 7 };

	list_add_first(&list, &e.link);
	ck_assert_int_eq(digits(&list), 7);
	list_remove(&e.link);
	ck_assert_ptr_null(e.link.next);
	ck_assert(list_is_empty(&list));
	list_add(&list, &e.link);
	ck_assert_int_eq(digits(&list), 7);
}
END_TEST

START_TEST(loop_may_remove_the_element_that_it_is_at)
{
	struct list_link list = { 0 };
	struct element *e;

	fill(&list);
	list_for_each (e, &list, link)
		if (e->n % 2)
			list_remove(&e->link);
	ck_assert_int_eq(digits(&list), 24);
	list_for_each (e, &list, link)
		list_remove(&e->link);
	ck_assert(list_is_empty(&list));
}
END_TEST

CHECK_MAIN("list")
