"""Batches drawn at random: independent subsets of B samples, and all C(N, B) of them."""

import math
from itertools import combinations, islice

import numpy as np

from batchcut._errors import invalid

from ._inputs import Flags, Ints
from .compute import kernel
from .groups import Groups

_MOST_BATCHES = 5_000_000


def draw_batches(samples: Ints, batch_size: int, count: int, rng: np.random.Generator, groups: Groups | None) -> Ints:
    """Draws `count` different subsets of B of the samples, each as likely as any other (`alg:sgd_w_replacement`).

    With `groups`, each is filled in a random order by samples that have no group in common with those before; others
    come in only where there are none left.
    """
    possible = math.comb(len(samples), batch_size)
    if count > possible:
        raise invalid("batches drawn in a step", f"be at most C({len(samples)}, {batch_size}) = {possible}", count)
    if groups is None and 2 * count > possible:  # too many of all there are to wait for new ones by chance
        return samples[all_batches(len(samples), batch_size)[np.sort(rng.choice(possible, count, replace=False))]]
    rows: list[Ints] = []
    seen: set[bytes] = set()
    misses = 0
    while len(rows) < count:
        row = _draw_one(samples, batch_size, rng, groups)
        key = np.sort(row).tobytes()
        if key not in seen or misses > 64 * count:  # groups may leave fewer subsets than were asked for
            rows.append(row)
        else:
            misses += 1
        seen.add(key)
    return np.stack(rows)


def all_batches(count: int, batch_size: int) -> Ints:
    """All C(N, B) subsets of B out of N, in lexical order: (C(N, B), B)."""
    possible = math.comb(count, batch_size)
    if possible > _MOST_BATCHES:
        raise invalid(
            "C(N, B)",
            f"be at most {_MOST_BATCHES} to go through all batches",
            f"C({count}, {batch_size}) = {possible}",
        )
    flat = (i for subset in combinations(range(count), batch_size) for i in subset)
    return np.fromiter(islice(flat, possible * batch_size), np.int64, possible * batch_size).reshape(
        possible, batch_size
    )


def _draw_one(samples: Ints, batch_size: int, rng: np.random.Generator, groups: Groups | None) -> Ints:
    if groups is None:
        return np.asarray(rng.choice(samples, batch_size, replace=False, shuffle=False))
    order = rng.permutation(samples)
    apart = _apart(order, batch_size, groups.starts, groups.codes, np.zeros(groups.number, np.bool_))
    rest = np.setdiff1d(np.arange(len(order)), apart, assume_unique=True)[: batch_size - len(apart)]
    return np.asarray(order[np.concatenate([apart, rest])])


@kernel
def _apart(order: Ints, most: int, starts: Ints, codes: Ints, taken: Flags) -> Ints:
    """Places of up to so many samples, the first that have no group in common with one before."""
    places, count = np.empty(most, np.int64), 0
    for place in range(len(order)):
        first, last, free = starts[order[place]], starts[order[place] + 1], True
        for at in range(first, last):
            free &= not taken[codes[at]]
        if free:
            for at in range(first, last):
                taken[codes[at]] = True
            places[count] = place
            count += 1
            if count == most:
                break
    return places[:count]
