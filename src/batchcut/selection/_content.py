"""An order of the samples by what they are, so that a plan need not depend on where they stand."""

import numpy as np

from ._inputs import Doubles, Floats, Ints, Pairs


def content_order(pairs: Pairs, samples: Ints, codes: Ints | None) -> Ints:
    """`samples` sorted by how far they lie in a fixed direction: the same samples in any order give the same.

    Rounding of the embeddings moves those alone that lie equally far but for it. Where there is no telling even then,
    bytes and then groups decide. Copies of one group are left as they stand; it does not matter which of them is which.
    """
    rows = np.concatenate([pairs.u[samples], pairs.v[samples]], axis=1)
    bytes_of_rows = rows.view(np.dtype((np.bytes_, rows.shape[1] * rows.itemsize)))[:, 0]
    groups = np.zeros(len(samples), np.int64) if codes is None else codes[samples]
    return samples[np.lexsort((groups, bytes_of_rows, _distance(rows)))]


def _distance(rows: Floats) -> Doubles:
    """(n,) products with a fixed random vector, each a sum over its own row alone: BLAS would round by place."""
    direction = np.random.default_rng(0).standard_normal(rows.shape[1])
    return np.asarray((rows * direction).sum(axis=1))
