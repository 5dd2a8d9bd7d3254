"""`pairs:FILE`: two aligned arrays of features, memory-mapped where the format allows it."""

import numpy as np

from ._arrays import PARTS, SIDES, SIDES_OF_PARTS, Array, Arrays, names_of_sides, open_arrays
from ._records import Pairs, Split, split_at_random

_ROWS_AT_ONCE = 65_536


def load_pairs(address: str, *, seed: int) -> Split:
    """The pairs at `address`, which `open_arrays` takes.

    The arrays are named `train_u`, `train_v`, `test_u` and `test_v`, or `u` and `v`, or are just two, of other
    names; those without parts are split at random by the seed, and copied into memory.
    """
    arrays = open_arrays(address)
    if all(name in arrays for name in SIDES_OF_PARTS):
        train, test = (_checked(address, arrays, f"{part}_u", f"{part}_v") for part in PARTS)
        return Split(train, test)
    sides = names_of_sides(arrays)
    if sides is not None and not set(sides) & set(SIDES_OF_PARTS):  # of which some are missing
        return split_at_random(_checked(address, arrays, *sides), seed=seed)
    raise ValueError(
        f"{address} must hold arrays named {', '.join(SIDES_OF_PARTS)}, or {' and '.join(SIDES)}, or just two; "
        f"got {', '.join(sorted(arrays)) or 'none'}"
    )


def _checked(address: str, arrays: Arrays, side_u: str, side_v: str) -> Pairs:
    try:
        pairs = Pairs(f"pairs:{address}", arrays[side_u], arrays[side_v])
        for side in (side_u, side_v):
            _check_finite(side, arrays[side])
    except (TypeError, ValueError) as error:
        raise ValueError(f"{address}, {side_u} and {side_v}: {error}") from error
    return pairs


def _check_finite(name: str, values: Array) -> None:
    for start in range(0, len(values), _ROWS_AT_ONCE):
        with np.errstate(over="ignore"):
            rows = values[start : start + _ROWS_AT_ONCE].astype(np.float32, copy=False)
        bad = ~np.isfinite(rows).all(axis=1)
        if bad.any():
            row = start + int(bad.argmax())
            raise ValueError(f"{name} must hold numbers that are finite in single precision; got others in row {row}")
