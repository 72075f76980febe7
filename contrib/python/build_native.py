# SPDX-License-Identifier: MIT
"""Makes forkd/_native.py: the declarations of <forkd/client.h>, for cffi.

The package uses the library in cffi's ABI mode. Nothing is compiled: one
package serves all versions of Python, without a compiler or Python's headers.
In this mode the declarations must match the library. So they are read from the
header itself, and tests/source/check-abi keeps the library's ABI.

setup.py calls this through cffi; `build_native.py FILE` writes FILE.
"""
import re
import subprocess
import sys
from pathlib import Path

from cffi import FFI


def header() -> Path:
    """Returns the header of this source tree, or of libforkclient-dev."""
    tree = Path(__file__).resolve().parents[2] / "client/forkd/client.h"
    if tree.exists():
        return tree
    found = subprocess.run(
        ["pkg-config", "--variable=includedir", "forkd-client"],
        check=True, stdout=subprocess.PIPE, text=True)
    return Path(found.stdout.strip()) / "forkd/client.h"


def declarations(text: str) -> str:
    """Returns the declarations that cffi understands."""
    text = re.sub(r"/\*.*?\*/", " ", text, flags=re.DOTALL)
    constants = re.findall(r"^#define (FK_\w+)\s+(\d+)u\b", text, re.MULTILINE)
    text = re.sub(r"^#ifdef (__cplusplus|FKC_DOCUMENTATION)$.*?^#endif$", "", text,
                  flags=re.DOTALL | re.MULTILINE)
    text = re.sub(r"^#.*$", "", text, flags=re.MULTILINE)
    return text + "".join(f"#define {name} {n}\n" for name, n in constants)


ffibuilder = FFI()
ffibuilder.cdef(declarations(header().read_text()))
ffibuilder.set_source("forkd._native", None)

if __name__ == "__main__":
    ffibuilder.emit_python_code(sys.argv[1])
