# SPDX-License-Identifier: MIT
# The client library.

libclientcore_la_SOURCES = \
	client/lib/arguments.c \
	client/lib/batch.c \
	client/lib/call.c \
	client/lib/call_each.c \
	client/lib/cancel.c \
	client/lib/client.c \
	client/lib/client.h \
	client/lib/client_state.h \
	client/lib/connect.c \
	client/lib/connect.h \
	client/lib/error.c \
	client/lib/events.c \
	client/lib/events.h \
	client/lib/events_list.c \
	client/lib/events_list.h \
	client/lib/group.c \
	client/lib/heap.c \
	client/lib/heap.h \
	client/lib/heap_api.c \
	client/lib/import.c \
	client/lib/liveness.c \
	client/lib/long_job_hint.h \
	client/lib/open.c \
	client/lib/outcome.c \
	client/lib/plugin.c \
	client/lib/plugin.h \
	client/lib/pool_info.c \
	client/lib/publish.c \
	client/lib/publish.h \
	client/lib/record_pool.c \
	client/lib/record_pool.h \
	client/lib/record_wait.c \
	client/lib/slot_stack.h \
	client/lib/spill.c \
	client/lib/spill.h \
	client/lib/submit.c \
	client/lib/submit.h \
	client/lib/task.c \
	client/lib/wait.c \
	client/lib/wait_many.c \
	client/lib/wake_worker.c \
	client/lib/wake_worker.h
