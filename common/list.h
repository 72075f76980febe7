/* SPDX-License-Identifier: MIT */
/* list.h - intrusive doubly linked lists; a zeroed head is an empty list, a zeroed link in none */
#pragma once

#include <stdbool.h>

#include "common/util.h"

struct list_link {
	struct list_link *prev, *next;
};

static inline void list_init(struct list_link *list)
{
	list->prev = list->next = list;
}

static inline bool list_is_empty(const struct list_link *list)
{
	return !list->next || list->next == list;
}

/* Puts a link that is in no list at the end of a list, or before a link that is in a list. */
static inline void list_add(struct list_link *list, struct list_link *link)
{
	if (!list->next)
		list_init(list);
	*link = (struct list_link){ list->prev, list };
	list->prev->next = link;
	list->prev = link;
}

/* Puts a link that is in no list at the front of a list. */
static inline void list_add_first(struct list_link *list, struct list_link *link)
{
	list_add(list->next ? list->next : list, link);
}

static inline void list_remove(struct list_link *link)
{
	link->prev->next = link->next;
	link->next->prev = link->prev;
	*link = (struct list_link){ 0 };
}

/* Returns the element of this type at a link; NULL if the link is the list's head or NULL. */
#define list_element(list, link, type, member)                                                     \
	((link) && (link) != (list) ? container_of(link, type, member) : NULL)
#define list_first(list, type, member) list_element(list, (list)->next, type, member)
#define list_last(list, type, member)  list_element(list, (list)->prev, type, member)

/* For each element p, a variable, which the body may remove from the list; NULL after the last. */
#define list_for_each(p, list, member)                                                             \
	for (struct list_link *p##_at = (list)->next, *p##_next = NULL;                            \
	     ((p) = list_element(list, p##_at, __typeof__(*(p)), member)) &&                       \
	     (p##_next = p##_at->next, true);                                                      \
	     p##_at = p##_next)
