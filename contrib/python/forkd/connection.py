# SPDX-License-Identifier: MIT
"""One connection to forkd, its jobs and its shared heap.

Lifetime goes by references alone: whoever is inside a call of the library, or
has memory of the heap, has the client, and fk_close() comes when nobody has it
any more. So no order of closing, collecting garbage and ending threads takes
memory away from somebody who looks at it. The library's functions are called
by weakref.finalize(), which keeps what it needs where the garbage collector
does not come; destructors of cffi's would be called in any order, and with
what was cleared already, if all of it is in one cycle.

The end of a job is found by its own thread, which waits for it (call()), or is
reported, if it is watched: to the thread of the connection, which there is as
long as somebody needs it, or to an event loop that has a job here. Whoever
takes a report takes the job's result, releases the job and delivers.
"""
from __future__ import annotations

import asyncio
import threading
import weakref
from collections import deque
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Callable

from forkd import errors
from forkd._library import ECONNRESET, ENOENT, ENOMEM, ffi, lib, text_of
from forkd.task import Task

if TYPE_CHECKING:
    from forkd.job import Job

# How long a call of the library may keep the interpreter from signal handlers.
SLICE_NS = 100_000_000
# Seconds after which a thread ends that has nothing to do.
_LINGER = 1.0
# Seconds between looks for room that comes free without a job of ours, in the
# rings of forkd; and where jobs of ours are under way.
_ROOM, _ROOM_LATE = 0.02, 1.0


class Connection:
    """A client of the library, with what Python needs beside it."""

    def __init__(self, socket: str | None, n_jobs: int,
                 heap_size: int) -> None:
        options = ffi.new("struct fk_open_options *",
                          {"n_jobs": n_jobs, "heap_size": heap_size})
        client = ffi.new("fk_client **")
        path = ffi.NULL if socket is None else socket.encode(
            "utf-8", "surrogateescape")
        code = lib.fk_open(path, options, client)
        if code:
            text: bytes = ffi.string(lib.fk_error_text())
            raise errors.connect_error(text.decode(), code)
        self.client = _owned(client[0], lib.fk_close)
        self.copied = 0
        # Memory that the user has, and jobs that were not released.
        self.memory: weakref.WeakSet[Any] = weakref.WeakSet()
        self.jobs: set[Job] = set()
        self._tasks: dict[Any, Task] = {}
        self._watched: dict[int, Job] = {}
        self._loops: dict[asyncio.AbstractEventLoop, int] = {}
        self._waiting: deque[Callable[[], object]] = deque()
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None

    def is_gone(self) -> bool:
        """Whether the daemon is, as far as one knows within half a second."""
        # Nobody has callbacks: all this does is to look.
        return bool(lib.fk_dispatch(self.client, 0) == ECONNRESET)

    # ------------------------------------------------------------- tasks

    def find(self, name: str) -> Task:
        """A task by its name, as it is now."""
        if not isinstance(name, str):
            raise TypeError(f"a task is called by its name, \"MODULE:TASK\", "
                            f"not by a {type(name).__name__}")
        found = ffi.new("const fk_task **")
        code = ENOENT if "\0" in name else lib.fk_task_find(
            self.client, name.encode("utf-8", "surrogateescape"), found)
        if code == ENOENT:
            raise errors.UnknownTask(
                f"no module has a task {name!r}: `forkctl tasks` has them all",
                code, name)
        if code:
            raise errors.Error(f"{name}: {text_of(code)}", code, name)
        task = self._tasks.get(found[0])
        if task is None:
            signature: bytes = ffi.string(lib.fk_task_signature(found[0]))
            task = Task(found[0], name, signature.decode())
            self._tasks[found[0]] = task
        return task

    # ------------------------------------------------------------- memory

    def allocate(self, size: int, what: str = "") -> Any:
        """Memory of the heap, which is given back with its last reference."""
        data = ffi.new("void **")
        code = lib.fk_alloc(self.client, size, data)
        if code == ENOMEM:
            raise errors.HeapFull(
                f"{what}the shared heap has no {size} bytes left: connect "
                "with a larger heap_size (heap-max in forkd.conf limits it)",
                code)
        if code:
            raise errors.Error(f"{what}{text_of(code)}", code)
        return _owned(data[0], lib.fk_free, self.client)

    # ------------------------------------------------------------- room

    def released(self) -> None:
        """A record is free: one of those who wait for one may have it."""
        with suppress(IndexError):
            self._waiting.popleft()()

    def _leave_queue(self, wake: Callable[[], object], woken: bool) -> None:
        """What was promised and is not used is the next one's."""
        try:
            self._waiting.remove(wake)
        except ValueError:
            if not woken:
                self.released()

    def submit_later(self, job: Job) -> bool:
        """Submits, or waits until it is worth while to try again: False."""
        room = threading.Event()
        woken = False
        if threading.current_thread() is self._thread:
            # In a callback of a future: another one takes the reports now.
            self._thread = None
        self.have_thread()
        self._waiting.append(room.set)
        try:
            # What came free before the queue had it has woken somebody else.
            if job.submit():
                return True
            woken = room.wait(min(_ROOM, job.left()))
            return False
        finally:
            self._leave_queue(room.set, woken)

    async def asubmit_later(self, job: Job,
                            loop: asyncio.AbstractEventLoop) -> bool:
        """The same for a coroutine."""
        room = loop.create_future()
        wake = partial(post, loop, room, None, None)
        woken = False
        self._waiting.append(wake)
        # With jobs of ours under way one of them will do so.
        late = _ROOM_LATE if self.jobs else _ROOM
        timer = loop.call_later(min(late, job.left()), wake)
        try:
            if job.submit():
                return True
            await room
            woken = True
            return False
        finally:
            timer.cancel()
            self._leave_queue(wake, woken)

    # ------------------------------------------------------------- reports

    def watch(self, job: Job) -> None:
        """Has the end of a job reported."""
        self._watched[job.handle] = job
        code = lib.fk_watch(self.client, job.handle, ffi.NULL, ffi.NULL)
        if code:
            del self._watched[job.handle]
            raise errors.Error(text_of(code), code)

    def have_thread(self) -> None:
        """Has the thread take reports, if there are any to come."""
        with self._changed:
            if self._watched and self._thread is None:
                self._thread = threading.Thread(
                    target=self._run, name="forkd", daemon=True)
                self._thread.start()
            self._changed.notify_all()

    def take(self, timeout_ns: int) -> bool:
        """Takes a report, if there is one, and delivers."""
        handle = ffi.new("fk_job *")
        if lib.fk_next_ended(self.client, timeout_ns, handle, ffi.NULL):
            return False
        job = self._watched.pop(handle[0], None)
        if job is not None:
            job.ended()
        return True

    def _run(self) -> None:
        while self._has_work():
            self.take(SLICE_NS)

    def _has_work(self) -> bool:
        with self._changed:
            if self._thread is not threading.current_thread():
                return False
            if not self._watched:
                self._changed.wait(_LINGER)
            if not self._watched:
                self._thread = None
            return bool(self._watched)

    # ------------------------------------------------------------- event loops

    def join_loop(self, loop: asyncio.AbstractEventLoop) -> None:
        """Has a loop take reports, for one job more."""
        n = self._loops.get(loop, 0)
        if not n:
            fd = ffi.new("int *")
            code = lib.fk_event_fd(self.client, fd)
            if code:
                raise errors.Error(text_of(code), code)
            loop.add_reader(fd[0], self._drain)
        self._loops[loop] = n + 1

    def leave_loop(self, loop: asyncio.AbstractEventLoop) -> None:
        """For one job less. Without jobs it does not look at the descriptor,
        which is readable for ever when the daemon is gone."""
        n = self._loops.pop(loop) - 1
        if n:
            self._loops[loop] = n
            return
        fd = ffi.new("int *")
        if not lib.fk_event_fd(self.client, fd):
            loop.remove_reader(fd[0])

    def _drain(self) -> None:
        while self.take(0):
            pass

    # ------------------------------------------------------------- the end

    def finish(self) -> None:
        """Waits until every job has ended and was released."""
        self.have_thread()
        with self._changed:
            while self.jobs:
                self._changed.wait()

    def leave(self, job: Job) -> None:
        """A job has its record no more."""
        with self._changed:
            self.jobs.discard(job)
            if not self.jobs:
                self._changed.notify_all()
        self.released()


def _owned(raw: Any, end: Callable[..., object], *before: Any) -> Any:
    """A pointer with whose last reference end(*before, pointer) is called; but
    not at the end of the program, when threads may still be in the library."""
    pointer = ffi.cast(ffi.typeof(raw), raw)
    weakref.finalize(pointer, end, *before, raw).atexit = False
    return pointer


def post(loop: asyncio.AbstractEventLoop, future: asyncio.Future[Any],
         result: Any, error: BaseException | None) -> None:
    """Gives a future of a loop its result, from whatever thread."""
    try:
        running = asyncio.get_running_loop() is loop
    except RuntimeError:
        running = False
    if running:
        _settle(future, result, error)
        return
    with suppress(RuntimeError):  # It was closed: nobody waits.
        loop.call_soon_threadsafe(_settle, future, result, error)


def _settle(future: asyncio.Future[Any], result: Any,
            error: BaseException | None) -> None:
    if future.done():
        return
    if error is not None:
        future.set_exception(error)
    else:
        future.set_result(result)
