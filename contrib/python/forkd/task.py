# SPDX-License-Identifier: MIT
"""Tasks and their signatures; converts arguments and results."""
from __future__ import annotations

import operator
import struct
import sys
from collections import namedtuple
from typing import Any, Callable, NamedTuple

from forkd._library import ffi, lib

# Formats of the module struct for the types of results.
_FORMATS = {"i64": "q", "f64": "d"}

# Types of a buffer's elements, by the suffix of the name of its argument or
# task.
_ELEMENTS = {"i64": "int64", "f64": "float64"}

# Kinds of elements, and their letters in the format of a memoryview.
_KINDS = {"int": "bhilqn", "uint": "BHILQN", "float": "efdg"}

# The fields are known only at run time: hidden from type checkers.
_namedtuple: Any = namedtuple


class Item(NamedTuple):
    """An argument or a result of a task; name is "" if it has none."""

    name: str
    type: str


class Place(NamedTuple):
    """An argument, as error messages name it."""

    task: Task
    number: int

    def __str__(self) -> str:
        name, kind = self.task.arguments[self.number - 1]
        named = f"{name}:{kind}" if name else kind
        return f"{self.task.name}: argument {self.number} ({named})"

    @property
    def elements(self) -> tuple[str, ...]:
        """Types of elements that the task takes in this buffer, besides bytes.

        The suffix of the argument's name decides, or else of the task's name.
        """
        for name in (self.task.arguments[self.number - 1].name, self.task.name):
            end = name.replace(":", "_").rpartition("_")[2]
            if end in _ELEMENTS:
                return (_ELEMENTS[end],)
        return tuple(_ELEMENTS.values())


def _decoded(text: Any) -> str:
    encoded: bytes = ffi.string(text)
    return encoded.decode("utf-8", "replace")


def _items(text: str) -> tuple[Item, ...]:
    words = [word.strip() for word in text.split(",") if word.strip()]
    parts = [word.rpartition(":") for word in words]
    return tuple(Item(name.strip(), kind.strip()) for name, _, kind in parts)


class Task:
    """A task of a module.

    name: "MODULE:TASK". signature: its text, such as "n:i64 -> i64". help: one
    line by the author of the module, or "". arguments, results: the name and
    type of each.
    """

    def __init__(self, handle: Any) -> None:
        self.name = _decoded(lib.fk_task_name(handle))
        self.signature = _decoded(lib.fk_task_signature(handle))
        self.help = _decoded(lib.fk_task_help(handle))
        arguments, _, results = self.signature.partition("->")
        self.arguments = _items(arguments)
        self.results = _items(results)
        self._handle = handle
        self._struct = struct.Struct(
            "=" + "".join(_FORMATS[item.type] for item in self.results))
        # Results without a name, or with a keyword as name, are _0, _1, ...
        self._tuple = _namedtuple(
            "Result", [item.name for item in self.results], rename=True)

    def __repr__(self) -> str:
        return f"<forkd.Task {self.name} ({self.signature})>"

    @property
    def handle(self) -> Any:
        """The const fk_task *, valid as long as the connection."""
        return self._handle

    def unpack(self, packed: Any) -> Any:
        """Returns a packed result as None, a number or a named tuple."""
        values = self._struct.unpack_from(packed)
        if len(values) > 1:
            return self._tuple._make(values)
        return values[0] if values else None

    def pack(self, values: tuple[Any, ...], refer: Refer,
             held: list[Any]) -> Any:
        """Returns the array of union fk_value for these arguments.

        refer: returns the struct fk_buffer of a buffer. held: receives the
        objects that must live until the job has ended.
        """
        if len(values) != len(self.arguments):
            n = len(self.arguments)
            raise TypeError(
                f"{self.name} takes {n} argument{'s' * (n != 1)} "
                f"({self.signature}), not {len(values)}")
        packed = ffi.new("union fk_value[]", len(values))
        held.append(packed)
        for i, (item, value) in enumerate(zip(self.arguments, values)):
            place = Place(self, i + 1)
            if item.type == "i64":
                packed[i].i64 = _integer(value, place)
            elif item.type == "f64":
                packed[i].f64 = _real(value, place)
            elif item.type == "str":
                text = ffi.new("char[]", _text(value, place))
                held.append(text)
                packed[i].str = text
            else:
                packed[i].buf = refer(value, item.type == "iobuf", place)
        return packed


# Takes the argument, whether the task writes to it, and its place.
Refer = Callable[[Any, bool, Place], Any]


def _integer(value: Any, place: Place) -> int:
    try:
        number = operator.index(value)
    except TypeError:
        raise misfit(place, "an integer", value) from None
    if not -2**63 <= number < 2**63:
        raise OverflowError(
            f"{place} must fit into a signed 64-bit integer: {number} does "
            "not")
    return number


def _real(value: Any, place: Place) -> float:
    # float() would also convert text.
    if not isinstance(value, (str, bytes, bytearray)):
        try:
            return float(value)
        except TypeError:
            pass
        except OverflowError as error:
            raise OverflowError(f"{place}: {error}") from None
    raise misfit(place, "a number", value)


def _text(value: Any, place: Place) -> bytes:
    if not isinstance(value, str):
        raise misfit(place, "a str", value)
    if "\0" in value:
        raise ValueError(f"{place} must not contain a NUL character")
    return value.encode("utf-8", "surrogateescape")


def _elements_of(view: memoryview) -> str:
    """Returns the type of elements: "bytes", "int64", "float32", ..."""
    order, letter = view.format[:-1], view.format[-1:]
    if view.itemsize == 1:
        return "bytes"
    if order in ("", "@", "=", "<" if sys.byteorder == "little" else ">"):
        for kind, letters in _KINDS.items():
            if letter in letters:
                return f"{kind}{8 * view.itemsize}"
    return f"elements of format {view.format!r}"


def check_elements(view: memoryview, place: Place) -> None:
    """Raises TypeError if the task would misread the elements."""
    has, wants = _elements_of(view), place.elements
    if has != "bytes" and has not in wants:
        raise TypeError(
            f"{place} must have elements of {' or '.join(wants)}, not {has}: "
            "convert them, or cast the buffer to bytes to pass them unchanged")


def misfit(place: Place, what: str, value: object) -> TypeError:
    """Returns the error for an argument of a wrong type."""
    return TypeError(f"{place} must be {what}, not {type(value).__name__}")
