"""A selector of a user's own, as the documents show it."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from batchcut.selection import Request, Selector


@dataclass(frozen=True, kw_only=True)
class ByNumber(Selector):
    """Batches of samples whose numbers, in a fixed random order, are near each other: what it knows is by sample."""

    seed: int = 0

    def choose(self, request: Request) -> NDArray[np.int64]:
        """Sorted by a table that embeddings say nothing of."""
        table = np.random.default_rng(self.seed).permutation(int(request.samples.max()) + 1)
        order = np.argsort(table[request.samples[request.used]], kind="stable")
        return request.parted(request.deal(request.used[order]))
