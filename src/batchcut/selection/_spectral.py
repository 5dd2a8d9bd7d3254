"""`Spectral`: the paper's spectral clustering into batches of equal size."""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from batchcut._errors import check_choice
from batchcut._interrupts import interruptible

from ._epoch import check_pool, pool_bounds
from ._inputs import Doubles, Ints
from ._request import Request
from ._selector import Selector
from ._weights import graph

Variant = Literal["paper", "authors"]
_VARIANTS = ("paper", "authors")
_STARTS_OF_THE_AUTHORS = 10  # of k-means: what scikit-learn's SpectralClustering, which they build on, sets
_FLOOR = 1e-9  # of the largest weight: pairs without weight must not cut the graph in two, where eigenvectors mix


def even_spectral_clusters(
    weights: npt.NDArray[Any], sizes: Ints, *, variant: Variant, random_state: int
) -> list[Ints]:
    """Clusters a graph with `weights` (n, n) into parts of exactly `sizes` (k,): `alg:sc_appendix`.

    "paper" takes the first k eigenvectors of L = D − A with A = w and makes their rows unit. "authors", as in their
    published code, takes A = exp(w) and the symmetric normalised Laplacian, whose eigenvectors scikit-learn divides by
    √D, and leaves the rows alone. Then, in both, k-means gives centres, for "authors" the best of ten starts, and a
    matching of least total distance gives each centre its number of samples.
    """
    from scipy.optimize import (
        linear_sum_assignment,
    )  # here, because they take a second that other selectors save
    from scipy.spatial.distance import cdist
    from sklearn.cluster import KMeans

    rows = _eigenvector_rows(weights, len(sizes), variant, random_state)
    starts = 1 if variant == "paper" else _STARTS_OF_THE_AUTHORS
    centers = KMeans(len(sizes), n_init=starts, random_state=random_state).fit(rows).cluster_centers_
    owner = np.repeat(np.arange(len(sizes)), sizes)
    samples, places = linear_sum_assignment(cdist(rows, centers)[:, owner])
    return [samples[owner[places] == cluster] for cluster in range(len(sizes))]


def _eigenvector_rows(weights: npt.NDArray[Any], count: int, variant: Variant, random_state: int) -> Doubles:
    from sklearn.manifold import spectral_embedding

    paper = variant == "paper"
    largest = max(float(weights.max()), np.finfo(float).tiny)
    affinity = weights.astype(np.float64)
    if paper:
        np.maximum(affinity, _FLOOR * largest, out=affinity)
        affinity /= min(largest, 1.0)  # eigenvectors stay as they are; those of tiny eigenvalues are not found
    else:
        np.exp(affinity - largest, out=affinity)  # a common factor leaves the normalised Laplacian as it is
        np.maximum(affinity, np.finfo(float).tiny, out=affinity)
    np.fill_diagonal(affinity, 0)
    rows: Doubles = spectral_embedding(
        affinity, n_components=count, norm_laplacian=not paper, drop_first=False, random_state=random_state
    )
    if paper:
        rows /= np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), np.finfo(float).tiny)
    return rows


@dataclass(frozen=True, kw_only=True)
class Spectral(Selector):
    """The paper's SC: batches by even-sized spectral clustering of the graph w(k, l).

    Choosing a partition with the largest within-batch weight is choosing the least cut between batches
    (`subsec:spectral_clustering`); the eigenvectors of the graph's Laplacian solve a relaxation of it.
    Memory grows with n² and time with n³ for n samples in a pool.

    Attributes:
        variant: "paper" is `alg:sc_appendix` to the letter; "authors" is their published code: exp(w) instead of w,
            the symmetric normalised Laplacian, rows not normalised, ten starts of k-means.
        pool: How many random batches are clustered anew at a time, 40 in the paper; None: all. Where it does not
            divide the number of batches, the last pool is smaller.
        temperature: τ of the weights. None: that of the loss or the loader, see `Selector`.
        margin: Pairs whose two similarities come, on average, within it of their own positives get no weight: each
            could be the other's positive. None: all pairs have their weight.
    """

    variant: Variant = "paper"
    pool: int | None = None
    temperature: float | None = None
    margin: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("variant", self.variant, _VARIANTS)
        check_pool(self.pool)

    def choose(self, request: Request) -> Ints:
        """Clusters each pool of the shuffled partition."""
        bounds = pool_bounds(request.batch_count, self.pool)
        batches = request.shuffled()
        states = request.generator().integers(0, 2**31, len(bounds))
        for done, (start, stop) in enumerate(bounds):
            batches[start:stop] = interruptible(self._cluster, request, batches[start:stop], int(states[done]))
            request.report(done / len(bounds))
        return request.parted(batches)

    def _cluster(self, request: Request, batches: Ints, random_state: int) -> Ints:
        if len(batches) == 1:
            return batches
        pairs, weighting = request.pairs, request.weighting
        samples, sizes = batches[batches >= 0], (batches >= 0).sum(axis=1)
        bars = weighting.bars[samples] * np.float32(weighting.temperature)
        weights = graph(pairs.u[samples], pairs.v[samples], bars, weighting.batch_size, weighting.temperature)
        clustered = np.full_like(batches, -1)
        parts = even_spectral_clusters(weights, sizes, variant=self.variant, random_state=random_state)
        for row, part in zip(clustered, parts, strict=True):
            row[: len(part)] = samples[part]
        return clustered
