/* SPDX-License-Identifier: MIT */
/* events_list.c - the lists of watched jobs; the invariants are in events.c */
#include "client/lib/events_list.h"

#include <sys/eventfd.h>

#include "client/lib/client_state.h"
#include "common/list.h"

void events_unlink(struct events *events, struct events_entry *entry)
{
	if (entry->list == EVENTS_NONE)
		return;
	list_remove(&entry->link);
	events->n[entry->list]--;
	entry->list = EVENTS_NONE;
}

void events_link(struct events *events, struct events_entry *entry, enum events_list list)
{
	events_unlink(events, entry);
	list_add(&events->lists[list], &entry->link);
	events->n[list]++;
	entry->list = list;
}

enum events_list events_list_of(const struct events_entry *entry)
{
	return entry->ended ? EVENTS_CALL : EVENTS_FETCH;
}

void events_level(struct fk_client *client)
{
	struct events *events = &client->events;
	int raised = events->n[EVENTS_FETCH] || events->n[EVENTS_CALL] || client_is_gone(client);
	eventfd_t value;

	if (events->fd < 0 || raised == events->raised)
		return;
	if (raised)
		(void)eventfd_write(events->fd, 1);
	else
		(void)eventfd_read(events->fd, &value);
	events->raised = raised;
}

void events_drop(struct fk_client *client, struct events_entry *entry)
{
	if (entry->list == EVENTS_NONE)
		return;
	events_unlink(&client->events, entry);
	events_level(client);
}

void events_move(struct fk_client *client, fk_job job, struct events_entry *to)
{
	struct events *events = &client->events;
	struct events_entry *from = events->entries ? &events->entries[job & 0xffffu] : NULL;

	if (!from || from->list == EVENTS_NONE || from->job != job)
		return;
	*to = *from;
	list_add(&from->link, &to->link);
	list_remove(&from->link);
	from->list = EVENTS_NONE;
	/* A spilled job has ended. If its end was found before, the entry keeps its position. */
	if (to->list == EVENTS_WATCHED) {
		events_link(events, to, events_list_of(to));
		events_level(client);
	}
}
