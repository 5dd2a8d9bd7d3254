"""Pairs too similar to be negatives, parted by random swaps: what a margin means to batches chosen at random."""

from typing import Any

import numpy as np
from numba import njit

from ._epoch import search_generator
from ._inputs import Floats, Ints
from ._interrupt import interruptible
from ._request import Request
from ._score import Weighting

_TRIES = 32
_ROWS_AT_ONCE = 16_384
_options: dict[str, Any] = {"cache": True, "nogil": True}


def part_similar(request: Request, batches: Ints, weighting: Weighting) -> Ints:
    """Returns `batches` (K, B) after swaps that part pairs within the margin, where a few tries find room.

    A swap is made if it leaves both samples with fewer similar ones in all and puts no two of a group together.
    """
    if len(batches) < 2:
        return batches
    parted = batches.copy()
    pairs, bars = request.pairs, weighting.bars * np.float32(weighting.temperature)
    codes = np.arange(len(pairs)) if request.codes is None else request.codes
    rng = search_generator(request.seed, request.epoch)
    rows = max(1, _ROWS_AT_ONCE // batches.shape[1])
    for start in range(0, len(batches), rows):
        tries = rng.integers(0, batches.size, (min(rows, len(batches) - start), batches.shape[1], _TRIES))
        interruptible(_part_similar, pairs.u, pairs.v, bars, codes, parted, start, tries)
        request.report(start / len(batches))
    return parted


@njit(fastmath={"contract", "nsz", "reassoc"}, **_options)  # type: ignore[untyped-decorator]
def _dot(a: Floats, b: Floats) -> np.float32:
    total = np.float32(0)
    for k in range(len(a)):
        total += a[k] * b[k]
    return total


@njit(**_options)  # type: ignore[untyped-decorator]
def _clashes(
    u: Floats,
    v: Floats,
    bars: Floats,
    codes: Ints,
    row: Ints,
    sample: int,
    place: int,
) -> tuple[int, int]:
    """How many of a batch are of one group with `sample`, and how many similar to it, were it at `place`."""
    kin, similar = 0, 0
    for j in range(len(row)):
        other = row[j]
        if j == place or other < 0:
            continue
        kin += codes[other] == codes[sample]
        both = _dot(u[sample], v[other]) + _dot(u[other], v[sample])
        similar += both >= bars[sample] + bars[other]
    return kin, similar


@njit(**_options)  # type: ignore[untyped-decorator]
def _part_similar(
    u: Floats,
    v: Floats,
    bars: Floats,
    codes: Ints,
    batches: Ints,
    start: int,
    tries: Ints,
) -> None:
    """Tries, for each sample with a similar one in its batch, the places that `tries` (rows, B, T) names."""
    width = batches.shape[1]
    for a in range(start, start + len(tries)):
        for i in range(width):
            x = batches[a, i]
            if x < 0:
                continue
            kin, similar = _clashes(u, v, bars, codes, batches[a], x, i)
            for target in tries[a - start, i]:
                if similar == 0:
                    break
                b, j = target // width, target % width
                y = batches[b, j]
                if a == b or y < 0:
                    continue
                there_kin, there = _clashes(u, v, bars, codes, batches[b], x, j)
                if there >= similar:
                    continue
                y_kin, y_similar = _clashes(u, v, bars, codes, batches[b], y, j)
                back_kin, back = _clashes(u, v, bars, codes, batches[a], y, i)
                if there + back < similar + y_similar and there_kin + back_kin <= kin + y_kin:
                    batches[a, i], batches[b, j] = y, x
                    break
