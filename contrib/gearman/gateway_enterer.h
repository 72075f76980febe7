/* SPDX-License-Identifier: MIT */
/* gateway_enterer.h - the thread of a connection that enters its jobs in the journal */
#pragma once

struct connection;
struct gateway_job;

/* context: the connection. Returns NULL when is_done is set. */
void *enterer_run(void *context);

/* Passes a job to the enterer, which starts or answers it. */
void enterer_add(struct connection *connection, struct gateway_job *job);
