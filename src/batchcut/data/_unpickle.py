"""Reads pickles of arrays and plain containers, and nothing else: no class or function of the file's is looked up.

A pickle is a program. This reader checks its instructions before it runs them, and hands it stand-ins in place of
NumPy's own constructors, which were not made for hostile input: dtypes come from a short list, and an array is made
here from its bytes and shape. It is made by hand because CIFAR is published as pickles, and no library reads those of
Python 2 without running what they say.
"""

import io
import math
import pickle
import pickletools
from collections.abc import Callable
from pathlib import Path
from typing import Any, final

import numpy as np

from batchcut._files import reading

_ALLOWED = frozenset({
    "PROTO", "FRAME", "STOP", "MARK", "POP", "POP_MARK", "NONE", "NEWTRUE", "NEWFALSE", "INT", "BININT", "BININT1",
    "BININT2", "LONG", "LONG1", "LONG4", "FLOAT", "BINFLOAT", "STRING", "BINSTRING", "SHORT_BINSTRING", "UNICODE",
    "BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8", "BINBYTES", "SHORT_BINBYTES", "BINBYTES8", "BYTEARRAY8",
    "EMPTY_LIST", "LIST", "APPEND", "APPENDS", "EMPTY_TUPLE", "TUPLE", "TUPLE1", "TUPLE2", "TUPLE3", "EMPTY_DICT",
    "DICT", "SETITEM", "SETITEMS", "PUT", "BINPUT", "LONG_BINPUT", "GET", "BINGET", "LONG_BINGET", "MEMOIZE",
    "GLOBAL", "STACK_GLOBAL", "REDUCE", "BUILD",
})  # fmt: skip
_MEMO = frozenset({"PUT", "BINPUT", "LONG_BINPUT"})
_DTYPES = frozenset({"b1", *(kind + size for kind in "iu" for size in "1248"), "f2", "f4", "f8"})
_DEEPEST = 16


def load_pickle(path: Path) -> object:
    """The object in a file written by `pickle` of Python 2 or 3, of arrays and plain containers only.

    Strings of Python 2 come back as bytes. Anything else in the file is a `ValueError`.
    """
    data = path.read_bytes()
    with reading(path, "be a pickle of arrays and plain containers, undamaged", found=""):
        _check_instructions(data)
        return _finished(_Unpickler(io.BytesIO(data), encoding="bytes").load(), 0, {})


def _check_instructions(data: bytes) -> None:
    end = 0
    for operation, argument, position in pickletools.genops(data):
        if operation.name not in _ALLOWED:
            raise pickle.UnpicklingError(f"the instruction {operation.name}")
        if operation.name in _MEMO and isinstance(argument, int) and argument > len(data):
            raise pickle.UnpicklingError(f"a memory cell numbered {argument}")  # would reserve that many cells
        end = (position or 0) + 1
    if end != len(data):
        raise pickle.UnpicklingError(f"{len(data) - end} bytes after the end")


@final
class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> object:
        found = _STAND_INS.get((module.replace("numpy._core", "numpy.core"), name))
        if found is None:
            raise pickle.UnpicklingError(f"the name {module}.{name}")
        return found


@final
class _Function:
    """A function that the pickle may call and can do nothing else with."""

    __slots__ = ("_call",)

    def __init__(self, call: Callable[..., object]) -> None:
        self._call = call

    def __call__(self, *arguments: object) -> object:
        return self._call(*arguments)

    def __setstate__(self, state: object) -> None:
        raise pickle.UnpicklingError("a function with a state")


@final
class _DType:
    """The type of an array's numbers: its code, and the byte order that comes after."""

    __slots__ = ("_code", "_order")

    def __init__(self, code: str) -> None:
        if code not in _DTYPES:
            raise pickle.UnpicklingError(f"an array of type {code!r}")
        self._code, self._order = code, "<"

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        order = _text(state[1])
        if order not in "<>|" or any(item is not None for item in state[2:5]):
            raise pickle.UnpicklingError("an array of a type with fields")
        self._order = order

    def make(self) -> np.dtype[Any]:
        return np.dtype(self._order + self._code)


@final
class _Array:
    """An array that is being read: it is made when its state is known."""

    __slots__ = ("made",)

    def __init__(self) -> None:
        self.made: object = None

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        _, shape, dtype, fortran, raw = state
        self.made = _from_bytes(raw, dtype, shape, "F" if fortran else "C")


def _from_bytes(raw: object, dtype: object, shape: object, order: object) -> object:
    if isinstance(raw, str):  # bytes of Python 2 that went through a text
        raw = raw.encode("latin-1")
    if not isinstance(dtype, _DType) or not isinstance(raw, bytes | bytearray) or not isinstance(shape, tuple):
        raise pickle.UnpicklingError("an array that is not numbers")
    if not all(isinstance(size, int) and size >= 0 for size in shape):
        raise pickle.UnpicklingError("an array without a shape")
    kind = dtype.make()
    if math.prod(shape) * kind.itemsize != len(raw):
        raise pickle.UnpicklingError(f"an array of shape {shape} in {len(raw)} bytes")
    return np.ndarray(shape, kind, bytes(raw), order="F" if _text(order) == "F" else "C")


def _text(value: object) -> str:
    return value.decode("ascii") if isinstance(value, bytes) else str(value)


def _start_array(*_: object) -> _Array:
    return _Array()


def _start_dtype(code: object, *_: object) -> _DType:
    return _DType(_text(code))


def _array_from_buffer(raw: object, dtype: object, shape: object, order: object) -> _Array:
    array = _Array()
    array.made = _from_bytes(raw, dtype, shape, order)
    return array


def _encode(text: object, encoding: object = "latin1") -> bytes:
    if not isinstance(text, str) or encoding != "latin1":  # what Python 3 writes for bytes in an old protocol
        raise pickle.UnpicklingError("an encoding")
    return text.encode("latin-1")


_STAND_INS = {
    ("numpy.core.multiarray", "_reconstruct"): _Function(_start_array),
    ("numpy.core.numeric", "_frombuffer"): _Function(_array_from_buffer),
    ("numpy", "ndarray"): _Function(_start_array),
    ("numpy", "dtype"): _Function(_start_dtype),
    ("_codecs", "encode"): _Function(_encode),
}


def _finished(value: object, depth: int, seen: dict[int, object]) -> object:
    """The value with each array in the place of what stood for it; what is shared is walked once."""
    if depth > _DEEPEST:
        raise pickle.UnpicklingError(f"containers more than {_DEEPEST} deep")
    if id(value) in seen:
        return seen[id(value)]
    result = value
    if isinstance(value, _Array):
        if value.made is None:
            raise pickle.UnpicklingError("an array without contents")
        result = value.made
    elif isinstance(value, _DType | _Function):
        raise pickle.UnpicklingError("a type or a function as a value")
    elif isinstance(value, dict):
        result = {_finished(k, depth + 1, seen): _finished(v, depth + 1, seen) for k, v in value.items()}
    elif isinstance(value, list | tuple):
        result = type(value)(_finished(item, depth + 1, seen) for item in value)
    else:
        return value
    seen[id(value)] = result
    return result
