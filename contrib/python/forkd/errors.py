# SPDX-License-Identifier: MIT
"""The exceptions of forkd.

    Error
        ConnectError     no connection; also a ConnectionError
            NotRunning   no forkd listens on the socket
            AccessDenied this user may not connect; also a PermissionError
            LimitReached the limit on connections, jobs or memory is reached
        Disconnected     the connection was lost; also a ConnectionError
        UnknownTask      no module has the task; also a LookupError
        HeapFull         the shared heap is full; also a MemoryError
        JobError         a job has ended without a result
            Failed       the task failed, or the pool could not start it
                Forbidden    this user may not call the task
                Quarantined  the task is in quarantine for this user
                             Both are also a PermissionError.
            Cancelled    also a concurrent.futures.CancelledError
            Expired      its timeout has expired; also a TimeoutError
            Crashed      the task crashed or hung
            Lost         the pool ended during the job, and the task is
                         not known to be the cause

Arguments that do not fit a task's signature raise TypeError, OverflowError or
ValueError before the job is submitted.
"""
from __future__ import annotations

import concurrent.futures
import enum
import errno
import os
import signal as signals

from forkd._library import (
    E2BIG, EACCES, ECONNREFUSED, ECONNRESET, EDQUOT, EKEYREVOKED,
    EUSERS, errno_of, lib, text_of)


class Outcome(enum.IntEnum):
    """How a job has ended. Each job has exactly one outcome."""

    PENDING = lib.FK_PENDING
    DONE = lib.FK_DONE
    FAILED = lib.FK_FAILED
    CANCELLED = lib.FK_CANCELLED
    EXPIRED = lib.FK_EXPIRED
    CRASHED = lib.FK_CRASHED
    LOST = lib.FK_LOST


class Error(Exception):
    """Base class of forkd's exceptions.

    code: the negative error of the C library (libforkclient(3)), or 0.
    errno: the errno that is nearest to code, or None.
    task: the name of the task, or "" if the error concerns no task.
    """

    def __init__(self, message: str, code: int = 0, task: str = "") -> None:
        super().__init__(message)
        self.code = code
        self.errno = int(lib.fk_errno(code)) if code < 0 else None
        self.task = task


class ConnectError(Error, ConnectionError):
    """No connection to forkd could be made; the text says what to do."""


class NotRunning(ConnectError):
    """No forkd listens on the socket."""


class AccessDenied(ConnectError, PermissionError):
    """forkd.conf does not allow this user to connect."""


class LimitReached(ConnectError):
    """A limit of forkd.conf on connections, jobs or memory is reached."""


class Disconnected(Error, ConnectionError):
    """The connection was lost before the outcome of the job was known.

    The job may have run. The next call connects again.
    """


class UnknownTask(Error, LookupError):
    """No module has a task of that name."""


class HeapFull(Error, MemoryError):
    """The shared heap has no room for a buffer or a str."""


class JobError(Error):
    """A job has ended without a result.

    outcome: how the job has ended. code: for FAILED a negative error or the
    task's own number; for other outcomes the negative errno of fk_result(3).
    """

    outcome = Outcome.PENDING


class Failed(JobError):
    """The task failed with a code, or the pool could not start it."""

    outcome = Outcome.FAILED


class Forbidden(Failed, PermissionError):
    """The option allow-tasks does not allow this user to call the task."""


class Quarantined(Failed, PermissionError):
    """The task is in quarantine for this user: see forkctl quarantine."""


class Cancelled(JobError, concurrent.futures.CancelledError):
    """The job was cancelled, or forkd was stopped."""

    outcome = Outcome.CANCELLED


class Expired(JobError, TimeoutError):
    """The deadline of the job has passed, or its CPU time (job-cpu-max)."""

    outcome = Outcome.EXPIRED


class Crashed(JobError):
    """The task received a fatal signal, ended its process, or hung.

    signal: the number of the signal, or None if there was none.
    """

    outcome = Outcome.CRASHED
    signal: int | None = None

    @property
    def module(self) -> str:
        """The name of the task's module."""
        return self.task.partition(":")[0]


class Lost(JobError):
    """The pool ended while the job was running.

    Its task is not known to be the cause: another task may have crashed, or
    forkd was restarted.
    """

    outcome = Outcome.LOST


_SIGNALS = {s.value: s.name for s in signals.Signals}


def connect_error(message: str, code: int) -> ConnectError:
    """Returns the error for a failure of fk_open()."""
    kind = _CONNECT.get(code) or _CONNECT.get(errno_of(code), ConnectError)
    return kind(message, code)


def disconnected(task: str) -> Disconnected:
    """Returns the error for a job whose outcome is not known."""
    return Disconnected(f"{task}: {text_of(ECONNRESET)}", ECONNRESET, task)


def job_error(task: str, outcome: int, code: int, signo: int,
              refusal: str) -> Error:
    """Returns the error for a job whose outcome is not DONE.

    outcome: an outcome, or a negative errno of fk_outcome(). refusal: the
    library's text for a job that is not known to have begun, otherwise "".
    """
    if outcome == ECONNRESET:
        return disconnected(task)
    if outcome < 0:
        return Error(f"{task}: {text_of(outcome)}", outcome, task)
    if outcome == Outcome.FAILED:
        if refusal:
            kind = _REFUSALS.get(errno_of(code), Failed)
            return kind(f"{task}: {refusal}", code, task)
        return Failed(f"{task}: FAILED: {_reason(code)}", code, task)
    if outcome == Outcome.CRASHED:
        name = _SIGNALS.get(signo, f"signal {signo}")
        crashed = Crashed(f"{task}: CRASHED" + (f": {name}" if signo else ""),
                          -errno.ENOTRECOVERABLE, task)
        crashed.signal = signo or None
        return crashed
    other, error = _OTHERS[Outcome(outcome)]
    name = other.outcome.name
    if refusal.startswith(f"{name}: "):  # of a cluster
        return other(f"{task}: {refusal}", error, task)
    why = ": more CPU time than job-cpu-max" if code == EDQUOT else ""
    return other(f"{task}: {name}{why}", error, task)


# What a job fails with if the pool has not started it.
_REFUSALS: dict[int, type[Failed]] = {
    EACCES: Forbidden, EKEYREVOKED: Quarantined}

_CONNECT: dict[int, type[ConnectError]] = {
    ECONNREFUSED: NotRunning, EACCES: AccessDenied,
    E2BIG: LimitReached, EDQUOT: LimitReached, EUSERS: LimitReached,
    -lib.FK_E_SHARED_MEMORY: LimitReached}

_OTHERS: dict[Outcome, tuple[type[JobError], int]] = {
    Outcome.CANCELLED: (Cancelled, -errno.ECANCELED),
    Outcome.EXPIRED: (Expired, -errno.ETIME),
    Outcome.LOST: (Lost, -errno.EOWNERDEAD),
}


def _reason(code: int) -> str:
    if code < 0:
        # The task's meaning, which can differ from the library's.
        return f"{errno.errorcode.get(-code, code)} ({os.strerror(-code)})"
    return f"code {code}"
