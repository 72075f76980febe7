# SPDX-License-Identifier: MIT
# What build_native.py makes; cffi has no types for what is in it.
from typing import Any

ffi: Any
