# SPDX-License-Identifier: MIT
# The pool's threads: main, workers, dispatcher.

libpool_la_SOURCES += \
	daemon/pool/allowance.c \
	daemon/pool/allowance.h \
	daemon/pool/dispatcher.c \
	daemon/pool/dispatcher.h \
	daemon/pool/layout.c \
	daemon/pool/layout.h \
	daemon/pool/manager_requests.c \
	daemon/pool/manager_requests.h \
	daemon/pool/pool.c \
	daemon/pool/pool.h \
	daemon/pool/shake.c \
	daemon/pool/shake.h \
	daemon/pool/slice_signal.c \
	daemon/pool/slice_signal.h \
	daemon/pool/trim.c \
	daemon/pool/trim.h \
	daemon/pool/work_search.c \
	daemon/pool/work_search.h \
	daemon/pool/worker_sleep.c \
	daemon/pool/worker_sleep.h \
	daemon/pool/worker_thread.c \
	daemon/pool/worker_thread.h
