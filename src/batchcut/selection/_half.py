"""Weights within pools in half precision: half the memory, and less to fetch of it.

Numba has no such numbers, so they are the 16 bits of one in an integer. They are 512 times the weight: no weight of the
fast formula is beyond 80 (see `Weighting.factors`), half precision ends at 65,504, and light weights need its low end.
"""

from typing import Any

import numpy as np
import numpy.typing as npt
from numba import types
from numba.extending import overload

from ._inputs import Floats

HalfWeights = npt.NDArray[np.uint16]
PoolWeights = Floats | HalfWeights

_SCALE = 512.0
_EXPONENTS_APART = 127 - 15  # a half's bits, moved up into those of a float32, stand for 2^-112 times the number
_UP, _DOWN = np.float32(2.0**_EXPONENTS_APART / _SCALE), np.float32(_SCALE / 2.0**_EXPONENTS_APART)
_BITS_APART = np.int32(23 - 10)
_ROUND = np.int32(1 << 12)


def weight_of(entry: Any) -> np.float32:
    """The weight that an entry of a pool's weights stands for, in whichever precision they are kept."""
    return (
        entry if isinstance(entry, np.float32) else np.float32(np.uint16(entry).view(np.float16)) / np.float32(_SCALE)
    )


def kept(weight: np.float32, row: PoolWeights) -> Any:
    """The entry by which a weight is kept in this row of a pool's weights; in half precision, right to 1 in 2,048."""
    return weight if row.dtype == np.float32 else np.float16(weight * _SCALE).view(np.uint16)


# The arguments of the two functions below are types; what they return is compiled.
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
