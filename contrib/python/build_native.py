# SPDX-License-Identifier: MIT
"""Makes forkd/_native.py: what <forkd/client.h> declares, for cffi.

The library is used in cffi's ABI mode: nothing is compiled, so one package
serves each Python and needs neither a compiler nor Python's headers. What this
mode has against it is a second copy of the declarations which may differ from
the library; there is none here, the header itself is read. That the library
goes by that header is its ABI, which tests/source/check-abi keeps.

setup.py has this done by cffi; `build_native.py FILE` writes FILE.
"""
import re
import subprocess
import sys
from pathlib import Path

from cffi import FFI


def header() -> Path:
    """That of the tree this stands in, or that of libforkclient-dev."""
    tree = Path(__file__).resolve().parents[2] / "client/forkd/client.h"
    if tree.exists():
        return tree
    found = subprocess.run(
        ["pkg-config", "--variable=includedir", "forkd-client"],
        check=True, stdout=subprocess.PIPE, text=True)
    return Path(found.stdout.strip()) / "forkd/client.h"


def declarations(text: str) -> str:
    """The part of the header that cffi understands."""
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
