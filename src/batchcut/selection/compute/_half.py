"""Weights within pools in half precision: half the memory, and less to fetch of it; and their lower triangle.

Numba has no such numbers, so they are the 16 bits of one in an integer. They are 512 times the weight: no weight of the
fast formula is beyond 80 (see `Weighting.factors`), half precision ends at 65,504, and light weights need its low end.
"""

from typing import Any

import numpy as np
import numpy.typing as npt
from numba import types
from numba.extending import overload

from batchcut.selection._inputs import Floats

from ._kernel import kernel

HalfWeights = npt.NDArray[np.uint16]
PoolWeights = Floats | HalfWeights

_SCALE = 512.0
_EXPONENTS_APART = 127 - 15  # a half's bits, moved up into those of a float32, stand for 2^-112 times the number
_UP, _DOWN = np.float32(2.0**_EXPONENTS_APART / _SCALE), np.float32(_SCALE / 2.0**_EXPONENTS_APART)
_BITS_APART = np.int32(23 - 10)
_ROUND = np.int32(1 << 12)

_FIRST_AND_THIRD, _SECOND_AND_FOURTH = np.uint64(0x0000FFFF0000FFFF), np.uint64(0xFFFF0000FFFF0000)
_FORMER, _LATTER = np.uint64(0x00000000FFFFFFFF), np.uint64(0xFFFFFFFF00000000)
_ONE, _TWO = np.uint64(16), np.uint64(32)  # bits of a half, and of two


def weight_of(entry: Any) -> np.float32:
    """The weight that an entry of a pool's weights stands for, in whichever precision they are kept."""
    return (
        entry if isinstance(entry, np.float32) else np.float32(np.uint16(entry).view(np.float16)) / np.float32(_SCALE)
    )


def kept(weight: np.float32, row: PoolWeights) -> Any:
    """The entry by which a weight is kept in this row of a pool's weights; in half precision, right to 1 in 2,048."""
    return weight if row.dtype == np.float32 else np.float16(weight * _SCALE).view(np.uint16)


# The arguments of the functions below that are decorated by `overload` are types; what they return is compiled.
# ruff: noqa: ARG001


@overload(weight_of, inline="always")
def _compiled_weight_of(entry: Any) -> Any:
    def same(entry: Any) -> Any:
        return entry

    def widened(entry: Any) -> Any:
        return np.int32(np.int32(entry) << _BITS_APART).view(np.float32) * _UP

    return same if isinstance(entry, types.Float) else widened


@overload(kept, inline="always")
def _compiled_kept(weight: Any, row: Any) -> Any:
    def same(weight: Any, row: Any) -> Any:
        return weight

    def narrowed(weight: Any, row: Any) -> Any:
        return np.uint16((np.float32(weight * _DOWN).view(np.int32) + _ROUND) >> _BITS_APART)

    return same if isinstance(row.dtype, types.Float) else narrowed


def mirror(weights: PoolWeights, top: int, left: int, rows: int, columns: int) -> None:
    """Copies what lies right of the diagonal, in some rows and columns, across it; the diagonal becomes zero.

    The first row and the first column are multiples of four. Halves are copied four by four, as words of 64 bits: one
    by one, it would take a third of the time to make them.
    """
    for column in range(left, left + columns):
        for k in range(top, min(top + rows, column + 1)):
            weights[column, k] = weights[k, column] if k < column else 0


@kernel
def _one_by_one(weights: PoolWeights, top: int, left: int, rows: int, columns: int) -> None:
    for column in range(left, left + columns):
        target = weights[column]
        for k in range(top, min(top + rows, column)):
            target[k] = weights[k, column]
        if top <= column < top + rows:
            target[column] = 0


@kernel
def _four_by_four(weights: PoolWeights, top: int, left: int, rows: int, columns: int) -> None:
    words = weights.view(np.uint64)
    for word in range(left // 4, (left + columns) // 4):
        column, whole = 4 * word, max(top // 4, min((top + rows) // 4, word))
        for four in range(top // 4, whole):
            k = 4 * four
            a, b, c, d = words[k, word], words[k + 1, word], words[k + 2, word], words[k + 3, word]
            ab = (a & _FIRST_AND_THIRD) | ((b & _FIRST_AND_THIRD) << _ONE)
            cd = (c & _FIRST_AND_THIRD) | ((d & _FIRST_AND_THIRD) << _ONE)
            words[column, four] = (ab & _FORMER) | (cd << _TWO)
            words[column + 2, four] = (ab >> _TWO) | (cd & _LATTER)
            ab = ((a & _SECOND_AND_FOURTH) >> _ONE) | (b & _SECOND_AND_FOURTH)
            cd = ((c & _SECOND_AND_FOURTH) >> _ONE) | (d & _SECOND_AND_FOURTH)
            words[column + 1, four] = (ab & _FORMER) | (cd << _TWO)
            words[column + 3, four] = (ab >> _TWO) | (cd & _LATTER)
        _one_by_one(weights, 4 * whole, column, top + rows - 4 * whole, 4)
    rest = columns % 4
    _one_by_one(weights, top, left + columns - rest, rows, rest)


@overload(mirror)
def _compiled_mirror(weights: Any, top: Any, left: Any, rows: Any, columns: Any) -> Any:
    copied = _one_by_one if isinstance(weights.dtype, types.Float) else _four_by_four

    def compiled(weights: Any, top: Any, left: Any, rows: Any, columns: Any) -> None:
        copied(weights, top, left, rows, columns)

    return compiled
