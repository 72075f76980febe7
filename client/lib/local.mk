# SPDX-License-Identifier: MIT
# The client library.

libclientcore_la_SOURCES = \
	client/lib/batch.c \
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
	client/lib/lasting.h \
	client/lib/liveness.c \
	client/lib/many.c \
	client/lib/outcome.c \
	client/lib/pack.c \
	client/lib/publish.c \
	client/lib/publish.h \
	client/lib/record_wait.c \
	client/lib/slot_stack.h \
	client/lib/slots.c \
	client/lib/slots.h \
	client/lib/spill.c \
	client/lib/spill.h \
	client/lib/submit.c \
	client/lib/submit.h \
	client/lib/task.c \
	client/lib/wait.c \
	client/lib/wake_worker.c \
	client/lib/wake_worker.h
