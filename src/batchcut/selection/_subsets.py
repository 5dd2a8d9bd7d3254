"""Batches drawn at random: independent subsets of B samples, and all C(N, B) of them."""

import math
from itertools import combinations, islice

import numpy as np

from batchcut._errors import invalid

from ._inputs import Ints

_MOST_BATCHES = 5_000_000


def draw_batches(samples: Ints, batch_size: int, count: int, rng: np.random.Generator, codes: Ints | None) -> Ints:
    """Draws `count` different subsets of B of the samples, each as likely as any other (`alg:sgd_w_replacement`).

    With `codes`, a subset holds two samples of one group only where there are fewer than B groups.
    """
    groups = len(samples) if codes is None else len(np.unique(codes[samples]))
    possible = math.comb(len(samples), batch_size)
    if count > possible:
        raise invalid("batches drawn in a step", f"be at most C({len(samples)}, {batch_size}) = {possible}", count)
    if groups == len(samples) and 2 * count > possible:  # too many of all there are to wait for new ones by chance
        return samples[all_batches(len(samples), batch_size)[np.sort(rng.choice(possible, count, replace=False))]]
    rows: list[Ints] = []
    seen: set[bytes] = set()
    misses = 0
    while len(rows) < count:
        row = _draw_one(samples, batch_size, rng, codes, min(groups, batch_size))
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


def _draw_one(samples: Ints, batch_size: int, rng: np.random.Generator, codes: Ints | None, distinct: int) -> Ints:
    if codes is None:
        return np.asarray(rng.choice(samples, batch_size, replace=False, shuffle=False))
    order = rng.permutation(samples)
    first = np.sort(np.unique(codes[order], return_index=True)[1])[:distinct]
    rest = np.setdiff1d(np.arange(len(order)), first, assume_unique=True)[: batch_size - distinct]
    return np.asarray(order[np.concatenate([first, rest])])
