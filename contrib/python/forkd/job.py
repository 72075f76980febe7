# SPDX-License-Identifier: MIT
"""A job: its arguments, its record and its result."""
from __future__ import annotations

import asyncio
import math
import time
from typing import Any, Callable, NamedTuple, TypedDict

from forkd import errors
from forkd._library import (
    EAGAIN, ECONNRESET, EDQUOT, EINVAL, ENOMEM, ETIMEDOUT, errno_of,
    ffi, last_text, lib, text_of)
from forkd.connection import SLICE_NS, Connection
from forkd.task import Place, Task, check_elements, misfit


# FK_FOREVER, which is no number to cffi.
_FOREVER = 2**64 - 1


class Options(TypedDict, total=False):
    """Options of a job, as keyword arguments.

    timeout: seconds after which the job ends as EXPIRED; None for the option
    default-deadline of forkd.conf, math.inf for no limit.
    weight: share of CPU time among the jobs of this pool; 0 for the default.
    idempotent: whether the job may run again if its pool process crashes.
    worker, node: number of the worker or NUMA node to start on; a hint.
    strict: whether the job must start there, however long it waits.
    """

    timeout: float | None
    weight: int
    idempotent: bool
    worker: int | None
    node: int | None
    strict: bool


class Timings(NamedTuple):
    """Seconds from submission to start, and from start to end."""

    wait: float
    run: float


# Receives the result of a job, or the exception to raise.
Deliver = Callable[[Any, "BaseException | None"], None]


class Job:
    """A job of a task. It is submitted once, and its result is taken once.

    The memory of its buffers is kept until the job has ended, even if no
    caller waits for it: the task may still use it.
    """

    def __init__(self, connection: Connection, task: Task,
                 arguments: tuple[Any, ...], options: Options) -> None:
        self.connection = connection
        self.task = task
        # The future's or coroutine's way to get the result, and to cancel.
        self.deliver: Deliver | None = None
        self.stop: Callable[[], object] | None = None
        self.timings: Timings | None = None
        self._watched = False
        self._handle = ffi.new("fk_job *")
        self._held: list[Any] = []
        self._copies: list[tuple[Any, Any]] = []
        self._request = ffi.new("struct fk_request *")
        self._request.task = task.handle
        self._request.values = task.pack(arguments, self._refer, self._held)
        self._request.size = len(arguments)
        self._deadline = self._set(**options)

    def _set(self, *, timeout: float | None = None, weight: int = 0,
             idempotent: bool = False, worker: int | None = None,
             node: int | None = None, strict: bool = False) -> float:
        """Puts the options into the request. Returns the deadline."""
        options = self._request.options
        options.weight = weight
        options.flags = ((lib.FK_IDEMPOTENT if idempotent else 0)
                         | (lib.FK_STRICT if strict else 0))
        if timeout == math.inf:
            options.timeout_ns = _FOREVER
        if worker is not None and node is not None:
            raise ValueError("worker and node are mutually exclusive")
        if worker is not None:
            options.place = lib.FK_PLACE_WORKER
            options.place_index = worker
        elif node is not None:
            options.place = lib.FK_PLACE_NODE
            options.place_index = node
        elif strict:
            raise ValueError("strict requires worker or node")
        return math.inf if timeout is None else time.monotonic() + timeout

    # ------------------------------------------------------------- buffers

    def _refer(self, value: Any, writes: bool, place: Place) -> Any:
        """Returns the struct fk_buffer of an argument or of its copy."""
        try:
            view = memoryview(value)
        except TypeError:
            raise misfit(place, "a buffer (bytes, memoryview, array)",
                         value) from None
        if writes and view.readonly:
            raise misfit(place, "a writable buffer", value)
        if not view.c_contiguous:
            raise ValueError(f"{place} must be contiguous: pass a copy")
        check_elements(view, place)
        if not view.nbytes:
            return (ffi.NULL, 0)
        memory = ffi.from_buffer("char[]", view)
        self._held.append(memory)
        if not lib.fk_buffer_ref(self.connection.client, (memory, view.nbytes),
                                 ffi.new("struct fk_ref *")):
            return (memory, view.nbytes)
        copy = self.connection.allocate(view.nbytes, f"{place}: ")
        self._held.append(copy)
        ffi.memmove(copy, memory, view.nbytes)
        self.connection.copied += view.nbytes
        if writes:
            self._copies.append((memory, copy))
        return (copy, view.nbytes)

    def _copy_back(self) -> None:
        for memory, copy in self._copies:
            ffi.memmove(memory, copy, len(memory))
            self.connection.copied += len(memory)

    # ------------------------------------------------------------- states

    @property
    def handle(self) -> int:
        """The library's handle, or 0 while the job has no record."""
        return int(self._handle[0])

    def left(self) -> float:
        """Returns the seconds until the job expires."""
        return self._deadline - time.monotonic()

    def submit(self) -> bool:
        """Submits the job. Returns False if there is no room."""
        left = self.left()
        if left < math.inf:
            self._request.options.timeout_ns = min(max(int(left * 1e9), 1), 2**63)
        code = lib.fk_submit_batch(self.connection.client, self._request, 1, 0,
                                   self._handle)
        if not code:
            self.connection.jobs.add(self)
            return True
        if errno_of(code) != EAGAIN:
            raise self._refusal(code)
        if left < 0:
            raise errors.Expired(f"{self.task.name}: EXPIRED before there was "
                                 "room for it", task=self.task.name)
        return False

    def _refusal(self, code: int) -> Exception:
        """Returns the exception for a failed submission."""
        name = self.task.name
        if code == ECONNRESET:
            return errors.disconnected(name)
        if code == -lib.FK_E_TASK_GONE:
            return errors.UnknownTask(
                f"{name}: its module was unloaded or replaced", code, name)
        if errno_of(code) in (ENOMEM, EDQUOT):
            return errors.HeapFull(last_text(), code, name)
        if errno_of(code) == EINVAL:
            return ValueError(last_text())
        return errors.Error(f"{name}: {text_of(code)}", code, name)

    def start(self) -> None:
        """Submits the job; waits for room if there is none."""
        while not (self.submit() or self.connection.submit_later(self)):
            pass

    async def astart(self, loop: asyncio.AbstractEventLoop) -> None:
        """Does the same for a coroutine."""
        while not (self.submit()
                   or await self.connection.asubmit_later(self, loop)):
            pass

    def wait(self) -> None:
        """Waits until the job has ended or the connection is lost."""
        # Signal handlers run between these short waits.
        while lib.fk_wait(self.connection.client, self._handle[0],
                          SLICE_NS) == ETIMEDOUT:
            pass

    def watch(self) -> None:
        """Requests a report of the job's end, which calls ended()."""
        self._watched = True
        self.connection.watch(self)

    def cancel(self) -> None:
        """Requests the end of the job."""
        # forkd has not read earlier requests yet.
        while (lib.fk_cancel(self.connection.client, self._handle[0])
               == -lib.FK_E_REQUESTS_FULL):
            time.sleep(0.001)

    def give_up(self) -> None:
        """Cancels the job. Nothing is copied back, even if it is DONE."""
        self._copies.clear()
        self.cancel()

    def abandon(self) -> None:
        """Gives up a job that was submitted, and releases it at its end."""
        self.deliver = self.stop = None
        if not self.handle:
            return
        self.connection.jobs.add(self)
        self.give_up()
        if not self._watched:
            self.watch()
        self.connection.have_thread()

    def result(self) -> Any:
        """Releases a job that has ended. Returns its result, or raises."""
        client = self.connection.client
        code, signo = ffi.new("int *"), ffi.new("int *")
        outcome = lib.fk_outcome(client, self._handle[0], code, signo)
        try:
            packed = ffi.new("char[64]")
            lib.fk_result(client, self._handle[0], packed, len(packed))
            if outcome != errors.Outcome.DONE:
                raise errors.job_error(self.task.name, outcome, code[0],
                                       signo[0], self._refusal_text())
            self._copy_back()
            return self.task.unpack(ffi.buffer(packed))
        finally:
            self._release()

    def _refusal_text(self) -> str:
        """Returns the text of a job that is not known to have begun, or "".

        Called after fk_result().
        """
        timings = ffi.new("struct fk_timings *")
        lib.fk_timings(self.connection.client, self._handle[0], timings)
        return "" if timings.run_ns else last_text()

    def _release(self) -> None:
        handle, self._handle[0] = self._handle[0], 0
        lib.fk_release(self.connection.client, handle)
        self._held.clear()
        self._copies.clear()
        self.connection.leave(self)

    def ended(self) -> None:
        """Takes the result and delivers it. Raises nothing."""
        timings = ffi.new("struct fk_timings *")
        if not lib.fk_timings(self.connection.client, self._handle[0],
                              timings):
            self.timings = Timings(timings.wait_ns / 1e9, timings.run_ns / 1e9)
        result, error = None, None
        try:
            result = self.result()
        except BaseException as e:
            # The traceback would keep the connection alive.
            error = e.with_traceback(None)
        deliver = self.deliver
        self.deliver = self.stop = None
        if deliver is not None:
            deliver(result, error)
