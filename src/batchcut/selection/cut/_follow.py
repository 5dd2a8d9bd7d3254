"""Step 2, Follow: balanced k-means, in which every centre has exactly as many samples as before."""

import numpy as np

from batchcut.selection._inputs import Floats, Ints, Pairs
from batchcut.selection.compute import add_rows, kernel, most_similar, unit

from . import _tuning as tuning

_LEVELS = 65_535


def follow_centers(pairs: Pairs, batches: Ints, steps: int) -> Ints:
    """Returns the samples of some rows (m, B) dealt out anew, `steps` times, to the centres of the rows.

    The centre of a batch is the unit vector along its mean of u + v. Of all samples with the centres that each finds
    most similar, the most similar two come together first, as long as there is room.
    """
    filled = batches >= 0
    sizes, samples = filled.sum(axis=1), batches[filled]
    x = pairs.sums(samples)
    home = np.repeat(np.arange(len(batches)), sizes)
    for _ in range(steps):
        similarity = x @ unit_centers(x, home, len(sizes)).T
        named, closeness = most_similar(similarity, min(tuning.CENTERS_NAMED, len(batches)))
        low, high = float(closeness.min()), float(closeness.max())
        rank = (high - closeness.ravel()) * np.float32(_LEVELS / max(high - low, 1e-12))
        order = np.argsort(np.minimum(rank, _LEVELS).astype(np.uint16), kind="stable")  # 16 bits are sorted by radix
        home = assign(named, order, sizes, home)
    dealt = np.full_like(batches, -1)
    dealt[filled] = samples[np.argsort(home, kind="stable")]
    return dealt


def unit_centers(x: Floats, home: Ints, count: int) -> Floats:
    """The unit vectors (count, d) along the sums of the rows of x that have the same home."""
    total = np.zeros((count, x.shape[1]), np.float32)
    add_rows(x, home, total)
    return unit(total)


@kernel
def assign(named: Ints, order: Ints, sizes: Ints, home: Ints) -> Ints:
    """Gives each sample the first batch in `order` that it names and that has room; `order` runs over `named`, flat.

    Samples without one fill the rooms left, in the order of their old homes.
    """
    count, width = named.shape
    room, given = sizes.copy(), np.full(count, -1)
    for entry in order:
        i, b = entry // width, named[entry // width, entry % width]
        if given[i] < 0 and room[b] > 0:
            given[i] = b
            room[b] -= 1
    free = 0
    for i in np.argsort(home, kind="mergesort"):
        if given[i] < 0:
            while room[free] == 0:
                free += 1
            given[i] = free
            room[free] -= 1
    return given
