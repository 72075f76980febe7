# SPDX-License-Identifier: MIT
# The pool's threads: main, workers, dispatcher.

libpool_la_SOURCES += \
	daemon/pool/dispatcher.c \
	daemon/pool/dispatcher.h \
	daemon/pool/arena_layout.c \
	daemon/pool/arena_layout.h \
	daemon/pool/pool.c \
	daemon/pool/pool.h \
	daemon/pool/schedule_fuzz.c \
	daemon/pool/schedule_fuzz.h \
	daemon/pool/slice_signal.c \
	daemon/pool/slice_signal.h \
	daemon/pool/idle_trim.c \
	daemon/pool/idle_trim.h \
	daemon/pool/work_search.c \
	daemon/pool/work_search.h \
	daemon/pool/worker_signal.c \
	daemon/pool/worker_signal.h \
	daemon/pool/worker_sleep.c \
	daemon/pool/worker_sleep.h \
	daemon/pool/worker_thread.c \
	daemon/pool/worker_thread.h

# What only the machine's pool has, which is a process of its own.
libprocess_la_SOURCES += \
	daemon/pool/manager_requests.c \
	daemon/pool/manager_requests.h \
	daemon/pool/module_memory.c \
	daemon/pool/module_memory.h \
	daemon/pool/process.c \
	daemon/pool/process.h
