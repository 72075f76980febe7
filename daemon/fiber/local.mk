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
	daemon/fiber/fiber_berth.c \
	daemon/fiber/fiber_berth.h \
	daemon/fiber/fiber_block.c \
	daemon/fiber/fiber_block.h \
	daemon/fiber/fiber_call.c \
	daemon/fiber/fiber_call.h \
	daemon/fiber/fiber_counter.h \
	daemon/fiber/fiber_family.c \
	daemon/fiber/fiber_family.h \
	daemon/fiber/fiber_io.c \
	daemon/fiber/fiber_io.h \
	daemon/fiber/fiber_local.c \
	daemon/fiber/fiber_local.h \
	daemon/fiber/fiber_memory.c \
	daemon/fiber/fiber_memory.h \
	daemon/fiber/fiber_park.h \
	daemon/fiber/fiber_time.c \
	daemon/fiber/fiber_time.h \
	daemon/fiber/fiber_types.h \
	daemon/fiber/fiber_wait.c \
	daemon/fiber/parked.c \
	daemon/fiber/parked.h \
	daemon/fiber/poller.c \
	daemon/fiber/poller.h \
	daemon/fiber/ready.c \
	daemon/fiber/ready.h \
	daemon/fiber/self.c \
	daemon/fiber/self.h \
	daemon/fiber/spawn.c \
	daemon/fiber/stuck.c \
	daemon/fiber/stuck.h \
	daemon/fiber/timer_heap.c \
	daemon/fiber/timer_heap.h
