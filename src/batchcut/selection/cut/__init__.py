"""`Cut`: batches by a search for the least cut, over the whole set.

A map of the search; README.md beside this file says it in a page, with the field's words:

    search      _search.py    small sets as one pool, random pools, or the four steps over the whole set
    1. Order    _order.py     samples in k-means cells, a chain of similar cells; pools of batches that are alike
    2. Follow   _follow.py    balanced k-means: samples are dealt out anew to the centres of batches
    3. Refine   _refine.py    local search by swap gains in pools, with kicks; kernels in _refine_kernels.py
    4. Seek     _seek.py      sweeps by estimated gains among hundreds of batches; kernels in _seek_kernels.py
    constants   _tuning.py    each with its reason
"""

from dataclasses import dataclass

from batchcut._errors import check_integer
from batchcut.selection._epoch import check_pool
from batchcut.selection._inputs import Ints
from batchcut.selection._request import Request
from batchcut.selection._score import Chosen
from batchcut.selection._selector import Selector

from ._order import center_count as center_count
from ._order import centers_in_chain as centers_in_chain
from ._order import nearest_centers as nearest_centers
from ._search import search


@dataclass(frozen=True, kw_only=True)
class Cut(Selector):
    """Batches with the largest within-batch weight that a search by swaps finds: the default choice.

    Maximises Σ_b Σ_{k<l in b} w(k, l) over partitions into batches of B, which is the least cut of
    `subsec:spectral_clustering` and, divided by B(B−1)K, a lower bound of twice the mean batch loss. The plan's weight
    is never below that of the batches of `Shuffle()` with the same seed and epoch, weighed with the same margin and
    temperature, but for rounding. Memory above the embeddings is at most about 70 MB per thread for batches of 64 in
    128 dimensions, and time grows in proportion to N. In pools of P = pool · B samples it is 4 P² (1 + 2 / B) bytes
    per thread, and time grows with the pool.

    Attributes:
        pool: How many random batches are chosen anew at a time: small pools give easier batches. None: the whole set,
            by a search that does not look at all pairs. A pool of all batches does, for somewhat harder ones. Where
            it does not divide the number of batches, the last pool is smaller.
        rounds: How often the search comes back to each sample; in pools, after a kick. None: one or four over the
            whole set, as seems to pay, and four in pools. One is a quick search, for trainings whose steps take
            milliseconds.
        temperature: τ of the weights. None: that of the loss or the loader, see `Selector`.
        margin: Pairs whose two similarities come, on average, within it of their own positives get no weight: each
            could be the other's positive, and so a false negative. None: all pairs have their weight.
        threads: How many threads work; None: one per processor. The plan does not depend on it.
    """

    pool: int | None = None
    rounds: int | None = None
    temperature: float | None = None
    margin: float | None = 0.05
    threads: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        check_pool(self.pool)
        if self.rounds is not None:
            check_integer("rounds", self.rounds, at_least=1)

    def choose(self, request: Request) -> Ints | Chosen:
        """Searches; see README.md of this package."""
        return search(request, pool=self.pool, rounds=self.rounds)
