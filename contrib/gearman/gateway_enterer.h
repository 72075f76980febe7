/* SPDX-License-Identifier: MIT */
/* gateway_enterer.h - a thread of a connection that enters jobs in the journal */
#pragma once

struct connection;
struct gateway_job;

/* context: the connection. Returns NULL when is_done is set. */
void *enterer_run(void *context);

/* Passes a job to an enterer, which starts or answers it. */
void enterer_add(struct connection *connection, struct gateway_job *job);
