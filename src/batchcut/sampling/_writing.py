"""The compiled loop that records a batch: a step of training may take only a few milliseconds."""

import math

import numpy as np
from numba import njit
from numpy.typing import NDArray

Rows = NDArray[np.float32]
Numbers = NDArray[np.int64]


@njit(cache=True, nogil=True, fastmath={"contract", "nsz", "reassoc"})
def write_rows(index: Numbers, u: Rows, v: Rows, to_u: Rows, to_v: Rows, recorded_at: Numbers, clock: int) -> bool:
    """Writes the rows u, v: (b, d) to places index: (b,), and the clock; or nothing, and returns False.

    Nothing is written if a row is not finite or is zero, if its square is beyond float32, or if two have one place.
    """
    places = np.sort(index)
    for i in range(1, len(places)):
        if places[i] == places[i - 1]:
            return False
    for side in (u, v):
        for i in range(len(side)):
            total = np.float32(0)
            for k in range(side.shape[1]):
                total += side[i, k] * side[i, k]
            if not 0 < total < math.inf:  # which NaN is not either
                return False
    for i in range(len(index)):
        to_u[index[i]], to_v[index[i]], recorded_at[index[i]] = u[i], v[i], clock
    return True
