# SPDX-License-Identifier: MIT
# Fibers.

libengine_la_SOURCES += \
	daemon/fiber/cancel.c \
	daemon/fiber/cancel.h \
	daemon/fiber/counter.c \
	daemon/fiber/counter.h \
	daemon/fiber/create.c \
	daemon/fiber/create.h \
	daemon/fiber/fiber.c \
	daemon/fiber/fiber.h \
	daemon/fiber/shared_stack.c \
	daemon/fiber/shared_stack.h \
	daemon/fiber/blocking_section.c \
	daemon/fiber/blocking_section.h \
	daemon/fiber/call_frame.c \
	daemon/fiber/call_frame.h \
	daemon/fiber/wait_counter.h \
	daemon/fiber/scope.c \
	daemon/fiber/scope.h \
	daemon/fiber/io.c \
	daemon/fiber/io.h \
	daemon/fiber/fiber_local.c \
	daemon/fiber/fiber_local.h \
	daemon/fiber/slab.c \
	daemon/fiber/slab.h \
	daemon/fiber/park_word.h \
	daemon/fiber/timer.c \
	daemon/fiber/timer.h \
	daemon/fiber/fiber_types.h \
	daemon/fiber/wait.c \
	daemon/fiber/parked.c \
	daemon/fiber/parked.h \
	daemon/fiber/io_poller.c \
	daemon/fiber/io_poller.h \
	daemon/fiber/ready.c \
	daemon/fiber/ready.h \
	daemon/fiber/self.c \
	daemon/fiber/self.h \
	daemon/fiber/spawn.c \
	daemon/fiber/stuck.c \
	daemon/fiber/stuck.h \
	daemon/fiber/timer_heap.c \
	daemon/fiber/timer_heap.h
