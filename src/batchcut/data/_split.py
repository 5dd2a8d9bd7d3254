"""A set that comes without a test part gets one, at random by a seed."""

import numpy as np

from batchcut._errors import invalid

from ._records import Images, Ints, Pairs, Split

_SHARE = 5  # one in so many is for the test,
_MOST = 10_000  # but no more than this


def split_rows(count: int, *, seed: int) -> tuple[Ints, Ints]:
    """Which of N rows are to learn from and which are for the test, both ascending.

    The test part is a fifth of the rows, at most 10,000, drawn by the seed.
    """
    if count < 2 * _SHARE:
        raise invalid("a set without a test part", f"hold at least {2 * _SHARE} samples to be split", count)
    order = np.random.default_rng(seed).permutation(count)
    held_out = min(_MOST, count // _SHARE)
    return np.sort(order[held_out:]), np.sort(order[:held_out])


def split_images(images: Images, *, seed: int) -> Split:
    """Splits the images by `split_rows`."""
    train, test = (
        Images(images.name, images.pixels[rows], None if images.labels is None else images.labels[rows])
        for rows in split_rows(len(images), seed=seed)
    )
    return Split(train, test)


def split_pairs(pairs: Pairs, *, seed: int) -> Split:
    """Splits the pairs by `split_rows`; the parts are in memory, also where the pairs are mapped."""
    train, test = (Pairs(pairs.name, pairs.u[rows], pairs.v[rows]) for rows in split_rows(len(pairs), seed=seed))
    return Split(train, test)
