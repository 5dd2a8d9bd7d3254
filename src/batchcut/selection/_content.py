"""An order of the samples by what they are, so that a plan need not depend on where they stand."""

import numpy as np

from ._inputs import Ints, Pairs


def content_order(pairs: Pairs, samples: Ints, codes: Ints | None) -> Ints:
    """`samples` sorted by the bytes of their rows and then by group: the same samples in any order give the same.

    Copies of one group are left as they stand; it does not matter which of them is which.
    """
    rows = np.concatenate([pairs.u[samples], pairs.v[samples]], axis=1)
    keys = rows.view(np.dtype((np.bytes_, rows.shape[1] * rows.itemsize)))[:, 0]
    return samples[np.argsort(keys, kind="stable") if codes is None else np.lexsort((codes[samples], keys))]
