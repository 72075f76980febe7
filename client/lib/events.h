/* SPDX-License-Identifier: MIT */
/* events.h - the thread of the library that feeds an eventfd */
#pragma once

#include <forkd/client.h>

void events_init(struct fk_client *client);

/* Ends the thread, and frees what there is. */
void events_fini(struct fk_client *client);

/* In a child of fork(): its copy of the descriptor. */
void events_forget(struct fk_client *client);
