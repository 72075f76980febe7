# SPDX-License-Identifier: MIT
"""One connection to forkd, its jobs and its shared heap.

References alone determine lifetimes. Calls of the library and memory of the
heap hold references to the client, and fk_close() runs when the last one is
gone. So memory stays valid while it is used, in whatever order a program
closes pools, collects garbage and ends threads. weakref.finalize() calls
fk_close() and fk_free(), because it keeps their arguments outside of the
garbage collector's reach. In a reference cycle, destructors of cffi would run
in any order, with arguments that have been cleared already.

call() waits for the end of its job in its own thread. The ends of all other
jobs are reported to an event loop that has a job on this connection, or to the
connection's thread. That thread runs only while there are such jobs. The
thread or loop that takes a report takes the job's result, releases the job and
delivers the result.
"""
from __future__ import annotations

import asyncio
import threading
import weakref
from collections import deque
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Callable, NamedTuple

from forkd import errors
from forkd._library import (
    ECONNRESET, EDQUOT, ENOMEM, errno_of, ffi, last_text, lib, text_of)
from forkd.task import Task

if TYPE_CHECKING:
    from forkd.job import Job

# Nanoseconds for which a call of the library may delay signal handlers.
SLICE_NS = 100_000_000
# Seconds after which an idle thread ends.
_LINGER = 1.0
# Seconds between two attempts to submit when there is no room. The first
# applies if this connection has no jobs: then only forkd makes room, in its
# rings. Otherwise the second applies, because the end of a job wakes a waiter.
_ROOM, _ROOM_LATE = 0.02, 1.0


class PoolInfo(NamedTuple):
    """Numbers about the pool and this connection, at the time of the call.

    version: forkd's. workers: threads that run tasks; at most this number of
    tasks run at a time. nodes: NUMA nodes with a worker. scheduler: "lazy" or
    "busy". modules, tasks: loaded. connections, users: of all programs.
    pools: pool processes started so far. n_jobs: maximum number of jobs in
    flight on this connection. heap_size: bytes of its shared heap.
    """

    version: str
    workers: int
    nodes: int
    scheduler: str
    modules: int
    tasks: int
    connections: int
    users: int
    pools: int
    n_jobs: int
    heap_size: int


class Connection:
    """A client of the library, with the state that Python adds."""

    def __init__(self, socket: str | None, n_jobs: int,
                 heap_size: int) -> None:
        options = ffi.new("struct fk_open_options *",
                          {"n_jobs": n_jobs, "heap_size": heap_size})
        client = ffi.new("fk_client **")
        path = ffi.NULL if socket is None else socket.encode(
            "utf-8", "surrogateescape")
        code = lib.fk_open(path, options, client)
        if code:
            raise errors.connect_error(last_text(), code)
        self.client = _owned(client[0], lib.fk_close)
        self.copied = 0
        # Memory that the program uses, and jobs that were not released.
        self.memory: weakref.WeakSet[Any] = weakref.WeakSet()
        self.jobs: set[Job] = set()
        self._tasks: dict[Any, Task] = {}
        self._watched: dict[int, Job] = {}
        self._loops: dict[asyncio.AbstractEventLoop, int] = {}
        self._waiting: deque[Callable[[], object]] = deque()
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None

    def is_gone(self) -> bool:
        """Returns whether the connection is lost; found out within 0.5 s."""
        # No job has a callback, so this only checks the connection.
        return bool(lib.fk_dispatch(self.client, 0) == ECONNRESET)

    # ------------------------------------------------------------- tasks

    def find(self, name: str) -> Task:
        """Returns the task that has this name now."""
        if not isinstance(name, str):
            raise TypeError(
                "forkd runs tasks of its modules, by name (\"MODULE:TASK\"), "
                f"and no Python objects: got a {type(name).__name__}")
        found = ffi.new("const fk_task **")
        if "\0" in name:
            raise errors.UnknownTask(
                f"no module has a task {name!r}: `forkctl tasks` lists all "
                "tasks", -lib.FK_E_NO_TASK, name)
        code = lib.fk_task_find(
            self.client, name.encode("utf-8", "surrogateescape"), found)
        if code:
            kind = (errors.UnknownTask if code == -lib.FK_E_NO_TASK
                    else errors.Error)
            raise kind(last_text(), code, name)
        return self._task(found[0])

    def tasks(self) -> list[Task]:
        """Returns the tasks of all modules, sorted by name."""
        found = ffi.new("const fk_task **")
        tasks = []
        while not (code := lib.fk_task_next(self.client, found)):
            tasks.append(self._task(found[0]))
        if code != -lib.FK_E_NO_MORE_TASKS:
            raise errors.Error(last_text(), code)
        return sorted(tasks, key=lambda task: task.name)

    def _task(self, handle: Any) -> Task:
        task = self._tasks.get(handle)
        if task is None:
            task = self._tasks[handle] = Task(handle)
        return task

    def info(self) -> PoolInfo:
        """Returns numbers about the pool and this connection."""
        info = ffi.new("struct fk_pool_info *")
        code = lib.fk_pool_info(self.client, info)
        if code:
            raise errors.Disconnected(text_of(code), code)
        version: bytes = ffi.string(info.version)
        return PoolInfo(
            version.decode(), info.workers, info.nodes,
            "busy" if info.scheduler == lib.FK_SCHEDULER_BUSY else "lazy",
            info.modules, info.tasks, info.connections, info.users, info.pools,
            info.n_jobs, info.heap_size)

    # ------------------------------------------------------------- memory

    def allocate(self, size: int, what: str = "") -> Any:
        """Returns memory of the heap, which its last reference frees."""
        data = ffi.new("void **")
        code = lib.fk_alloc(self.client, size, data)
        if errno_of(code) in (ENOMEM, EDQUOT):
            raise errors.HeapFull(f"{what}{last_text()}", code)
        if code:
            raise errors.Error(f"{what}{text_of(code)}", code)
        return _owned(data[0], lib.fk_free, self.client)

    # ------------------------------------------------------------- room

    def released(self) -> None:
        """Wakes one of the threads and coroutines that wait for a record."""
        with suppress(IndexError):
            self._waiting.popleft()()

    def _leave_queue(self, wake: Callable[[], object], woken: bool) -> None:
        """Leaves the queue; passes a wake-up that was not used to the next."""
        try:
            self._waiting.remove(wake)
        except ValueError:
            if not woken:
                self.released()

    def submit_later(self, job: Job) -> bool:
        """Submits the job, or waits for room and returns False."""
        room = threading.Event()
        woken = False
        if threading.current_thread() is self._thread:
            # This is a callback of a future: another thread takes the reports.
            self._thread = None
        self.have_thread()
        self._waiting.append(room.set)
        try:
            # A record that was released before the append woke another waiter.
            if job.submit():
                return True
            woken = room.wait(min(_ROOM, job.left()))
            return False
        finally:
            self._leave_queue(room.set, woken)

    async def asubmit_later(self, job: Job,
                            loop: asyncio.AbstractEventLoop) -> bool:
        """Does the same for a coroutine."""
        room = loop.create_future()
        wake = partial(post, loop, room, None, None)
        woken = False
        self._waiting.append(wake)
        # The end of a job of this connection makes room and wakes a waiter.
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
        """Requests a report of the end of a job."""
        self._watched[job.handle] = job
        code = lib.fk_watch(self.client, job.handle, ffi.NULL, ffi.NULL)
        if code:
            del self._watched[job.handle]
            raise errors.Error(text_of(code), code)

    def have_thread(self) -> None:
        """Starts the thread if there are reports to take."""
        with self._changed:
            if self._watched and self._thread is None:
                self._thread = threading.Thread(
                    target=self._run, name="forkd", daemon=True)
                self._thread.start()
            self._changed.notify_all()

    def take(self, timeout_ns: int) -> bool:
        """Takes one report and delivers its result. Returns False for none."""
        handle = ffi.new("fk_job *")
        if lib.fk_next_completion(self.client, timeout_ns, handle, ffi.NULL):
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
        """Lets a loop take reports, for one more job."""
        n = self._loops.get(loop, 0)
        if not n:
            fd = ffi.new("int *")
            code = lib.fk_event_fd(self.client, fd)
            if code:
                raise errors.Error(text_of(code), code)
            loop.add_reader(fd[0], self._drain)
        self._loops[loop] = n + 1

    def leave_loop(self, loop: asyncio.AbstractEventLoop) -> None:
        """Ends this for one job. A loop without jobs does not poll the
        descriptor, which stays readable after the connection was lost."""
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
        """Waits until all jobs have ended and were released."""
        self.have_thread()
        with self._changed:
            while self.jobs:
                self._changed.wait()

    def leave(self, job: Job) -> None:
        """Notes that a job was released."""
        with self._changed:
            self.jobs.discard(job)
            if not self.jobs:
                self._changed.notify_all()
        self.released()


def _owned(raw: Any, end: Callable[..., object], *before: Any) -> Any:
    """Returns a pointer whose last reference calls end(*before, pointer).

    When the program exits, end() is not called: threads may still run
    functions of the library.
    """
    pointer = ffi.cast(ffi.typeof(raw), raw)
    weakref.finalize(pointer, end, *before, raw).atexit = False
    return pointer


def post(loop: asyncio.AbstractEventLoop, future: asyncio.Future[Any],
         result: Any, error: BaseException | None) -> None:
    """Sets the result of a loop's future, from any thread."""
    try:
        running = asyncio.get_running_loop() is loop
    except RuntimeError:
        running = False
    if running:
        _settle(future, result, error)
        return
    with suppress(RuntimeError):  # The loop was closed.
        loop.call_soon_threadsafe(_settle, future, result, error)


def _settle(future: asyncio.Future[Any], result: Any,
            error: BaseException | None) -> None:
    if future.done():
        return
    if error is not None:
        future.set_exception(error)
    else:
        future.set_result(result)
