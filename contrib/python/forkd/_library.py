# SPDX-License-Identifier: MIT
"""libforkclient itself, by cffi."""
from __future__ import annotations

import errno

from forkd._native import ffi as ffi

SONAME = "libforkclient.so.1"

try:
    # For good: when modules go, at the end, threads may still be in it.
    lib = ffi.dlopen(SONAME, ffi.RTLD_NOW | ffi.RTLD_NODELETE)
except OSError as error:
    raise ImportError(
        f"forkd needs {SONAME}, of the Debian package libforkclient1 or of "
        f"forkd's `make install`: {error}") from error

# What functions return, under the names that errno(3) has for it.
EAGAIN, ECONNRESET = -errno.EAGAIN, -errno.ECONNRESET
EINVAL, ENOENT, ENOMEM = -errno.EINVAL, -errno.ENOENT, -errno.ENOMEM
EACCES, EKEYREVOKED = -errno.EACCES, -errno.EKEYREVOKED
E2BIG, EDQUOT, EUSERS = -errno.E2BIG, -errno.EDQUOT, -errno.EUSERS
ECONNREFUSED = -errno.ECONNREFUSED
ETIMEDOUT = -errno.ETIMEDOUT


def text_of(code: int) -> str:
    """What the library says of an errno."""
    text: bytes = ffi.string(lib.fk_strerror(code))
    return text.decode()
