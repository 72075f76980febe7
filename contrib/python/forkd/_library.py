# SPDX-License-Identifier: MIT
"""Loads libforkclient with cffi."""
from __future__ import annotations

import errno

from forkd._native import ffi as ffi

SONAME = "libforkclient.so.1"

try:
    # The library is never unloaded: when the interpreter exits, threads may
    # still run its functions.
    lib = ffi.dlopen(SONAME, ffi.RTLD_NOW | ffi.RTLD_NODELETE)
except OSError as error:
    raise ImportError(
        f"forkd needs {SONAME}, of the Debian package libforkclient1 or of "
        f"forkd's `make install`: {error}") from error

# Return values of the library, under the names of errno(3).
EAGAIN, ECONNRESET = -errno.EAGAIN, -errno.ECONNRESET
EINVAL, ENOMEM = -errno.EINVAL, -errno.ENOMEM
EDQUOT = -errno.EDQUOT
EACCES, EKEYREVOKED = -errno.EACCES, -errno.EKEYREVOKED
E2BIG, EDQUOT, EUSERS = -errno.E2BIG, -errno.EDQUOT, -errno.EUSERS
ECONNREFUSED = -errno.ECONNREFUSED
ETIMEDOUT = -errno.ETIMEDOUT


def errno_of(code: int) -> int:
    """Returns the negative errno that is nearest to an error of the library."""
    return -int(lib.fk_errno(code))


def text_of(code: int) -> str:
    """Returns the text of the library for an error."""
    text: bytes = ffi.string(lib.fk_strerror(code))
    return text.decode()


def last_text() -> str:
    """Returns the details of this thread's last error: fk_error_text()."""
    text: bytes = ffi.string(lib.fk_error_text())
    # A text of a cluster's machine can have any bytes.
    return text.decode("utf-8", "replace")
