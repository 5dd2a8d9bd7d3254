"""The weights of a pool below the diagonal, copied from above it.

Halves are copied four by four, as words of 64 bits: one by one, it would take a third of the time to make them.
"""

from typing import Any

import numpy as np
from numba import njit, types
from numba.extending import overload

from ._half import PoolWeights

_options: dict[str, Any] = {"cache": True, "nogil": True, "error_model": "numpy"}

_FIRST_AND_THIRD, _SECOND_AND_FOURTH = np.uint64(0x0000FFFF0000FFFF), np.uint64(0xFFFF0000FFFF0000)
_FORMER, _LATTER = np.uint64(0x00000000FFFFFFFF), np.uint64(0xFFFFFFFF00000000)
_ONE, _TWO = np.uint64(16), np.uint64(32)  # bits of a half, and of two


def mirror(weights: PoolWeights, top: int, left: int, rows: int, columns: int) -> None:
    """Copies what lies right of the diagonal, in some rows and columns, across it; the diagonal becomes zero.

    The first row and the first column are multiples of four.
    """
    for column in range(left, left + columns):
        for k in range(top, min(top + rows, column + 1)):
            weights[column, k] = weights[k, column] if k < column else 0


@njit(**_options)  # type: ignore[untyped-decorator]
def _one_by_one(weights: PoolWeights, top: int, left: int, rows: int, columns: int) -> None:
    for column in range(left, left + columns):
        target = weights[column]
        for k in range(top, min(top + rows, column)):
            target[k] = weights[k, column]
        if top <= column < top + rows:
            target[column] = 0


@njit(**_options)  # type: ignore[untyped-decorator]
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
def _compiled_mirror(weights: Any, top: Any, left: Any, rows: Any, columns: Any) -> Any:  # noqa: ARG001
    copied = _one_by_one if isinstance(weights.dtype, types.Float) else _four_by_four

    def compiled(weights: Any, top: Any, left: Any, rows: Any, columns: Any) -> None:
        copied(weights, top, left, rows, columns)

    return compiled
