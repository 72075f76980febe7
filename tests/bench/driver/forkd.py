# SPDX-License-Identifier: MIT
"""A client of forkd, by ctypes over libforkclient: for benchmarks with buffers of many megabytes."""

import ctypes
import os

FOREVER = 2**64 - 1
DONE = 2


class _Buffer(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("size", ctypes.c_size_t)]


class _Value(ctypes.Union):
    _fields_ = [
        ("i64", ctypes.c_int64),
        ("f64", ctypes.c_double),
        ("str", ctypes.c_char_p),
        ("buf", _Buffer),
    ]


class _Options(ctypes.Structure):
    _fields_ = [
        ("n_jobs", ctypes.c_uint32),
        ("reserved0", ctypes.c_uint32),
        ("heap_size", ctypes.c_uint64),
        ("reserved", ctypes.c_uint64 * 6),
    ]


class Failure(Exception):
    """A call of the library, or a job, that failed."""


class Client:
    """A connection to the forkd of $FORKD_SOCKET."""

    def __init__(self, library, heap_size):
        self.lib = ctypes.CDLL(library)
        self.lib.fk_strerror.restype = ctypes.c_char_p
        self.lib.fk_error_text.restype = ctypes.c_char_p
        self.client = ctypes.c_void_p()
        options = _Options(heap_size=heap_size)
        if self.lib.fk_open(None, ctypes.byref(options), ctypes.byref(self.client)):
            raise Failure(self.lib.fk_error_text().decode())
        self.tasks = {}

    def _must(self, err, what):
        if err:
            raise Failure(f"{what}: {self.lib.fk_strerror(err).decode()}")

    def alloc(self, size):
        """Returns a memoryview of memory that tasks use in place."""
        data = ctypes.c_void_p()
        self._must(self.lib.fk_alloc(self.client, ctypes.c_size_t(size), ctypes.byref(data)), "fk_alloc")
        return memoryview((ctypes.c_char * size).from_address(data.value)).cast("B")

    def call(self, task, *args):
        """Runs a task; its results are taken as integers."""
        if task not in self.tasks:
            found = ctypes.c_void_p()
            name = task.encode()
            self._must(self.lib.fk_task_find(self.client, name, ctypes.byref(found)), task)
            self.tasks[task] = found
        values = (_Value * max(len(args), 1))()
        for value, arg in zip(values, args):
            if isinstance(arg, int):
                value.i64 = arg
            elif isinstance(arg, float):
                value.f64 = arg
            elif isinstance(arg, bytes):
                value.str = arg
            else:
                value.buf.data = ctypes.addressof(ctypes.c_char.from_buffer(arg))
                value.buf.size = arg.nbytes
        job = ctypes.c_uint64()
        self._must(
            self.lib.fk_submit_values(
                self.client, self.tasks[task], values, ctypes.c_size_t(len(args)), 0, ctypes.byref(job)
            ),
            task,
        )
        self._must(self.lib.fk_wait(self.client, job, ctypes.c_uint64(FOREVER)), task)
        code = ctypes.c_int()
        outcome = self.lib.fk_outcome(self.client, job, ctypes.byref(code), None)
        if outcome != DONE:
            raise Failure(f"{task}: outcome {outcome}, code {code.value} ({os.strerror(abs(code.value))})")
        result = (ctypes.c_int64 * 8)()
        self._must(self.lib.fk_result(self.client, job, result, ctypes.c_size_t(64)), task)
        self._must(self.lib.fk_release(self.client, job), task)
        return list(result)
