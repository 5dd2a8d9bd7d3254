"""What changes from epoch to epoch: the random streams, and which samples sit out where N is not a multiple of B."""

from collections.abc import Callable
from typing import Literal

import numpy as np

from batchcut._errors import invalid

from ._inputs import Ints

Leftover = Literal["rotate", "short"]
Progress = Callable[[float], None]

_LEFTOVER_STREAM = 0
_ORDER_STREAM = 1
_SEARCH_STREAM = 2


def order_generator(seed: int, epoch: int) -> np.random.Generator:
    """The stream that shuffles: a function of (seed, epoch) alone, and the same for every selector."""
    return np.random.default_rng([_ORDER_STREAM, seed, epoch])


def search_generator(seed: int, epoch: int) -> np.random.Generator:
    """The stream for a selector's own choices, apart from the shuffle so that neither shifts the other."""
    return np.random.default_rng([_SEARCH_STREAM, seed, epoch])


def check_leftover(leftover: str) -> Leftover:
    """Returns the policy, if it is one of the two."""
    if leftover == "rotate":
        return "rotate"
    if leftover == "short":
        return "short"
    raise invalid("leftover", 'be "rotate" or "short"', repr(leftover))


def split_off_leftover(count: int, batch_size: int, *, leftover: Leftover, seed: int, epoch: int) -> tuple[Ints, Ints]:
    """Which samples an epoch uses and which sit out, both ascending.

    With "rotate", the R = N mod B that sit out are a window of one fixed permutation which moves by R each epoch.
    Since N ≥ B + R > 2R, two windows in a row never overlap: none is left out twice running.
    """
    out = count % batch_size if leftover == "rotate" else 0
    if out == 0:
        return np.arange(count), np.empty(0, np.int64)
    fixed = np.random.default_rng([_LEFTOVER_STREAM, seed]).permutation(count)
    resting = np.sort(fixed[(np.arange(out) + int(epoch) * out % count) % count])
    return np.setdiff1d(np.arange(count), resting, assume_unique=True), resting


def deal(order: Ints, batch_size: int) -> Ints:
    """Cuts an order of samples into rows of B; the last row is filled up with -1 where it is short."""
    rows = -(-len(order) // batch_size)
    batches = np.full(rows * batch_size, -1, np.int64)
    batches[: len(order)] = order
    return batches.reshape(rows, batch_size)
