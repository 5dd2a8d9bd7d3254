"""Which rows of a table of texts must not share a batch."""

import hashlib
import pickle
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from scipy.sparse import csr_array


def texts_of_rows(rows: Iterable[Sequence[Any]]) -> csr_array:
    """(N, T) which of T different texts, or images, each row holds, in any column: the groups of a plan.

    So two rows share a batch only if they must where they have a text in common, and a chain of rows, as mined
    negatives make of nearly all, keeps nobody apart who has none.
    """
    numbers: dict[str, int] = {}
    texts: list[int] = []
    starts = [0]
    for row in rows:
        texts += [numbers.setdefault(name_of(text), len(numbers)) for text in row]
        starts.append(len(texts))
    ones = np.ones(len(texts), np.int8)
    return csr_array((ones, np.array(texts, np.int64), np.array(starts)), shape=(len(starts) - 1, len(numbers)))


def name_of(value: Any) -> str:
    """A text itself; of an image, a sound or a list, a digest of what it holds."""
    return value if isinstance(value, str) else f"sha256 {hashlib.sha256(pickle.dumps(value)).hexdigest()}"
