"""Similarities of some samples before and after training, and how far they are from the optimum."""

from dataclasses import dataclass

import numpy as np

from ._compare import Comparison
from ._pictures import similarity_picture
from ._run import Array, Run
from ._samples import Samples

_MOST = 64


@dataclass(frozen=True, kw_only=True, eq=False)
class Gram:
    """The matrix U Vᵀ of n samples and what it says.

    Attributes:
        picture: the matrix as a data URI.
        distance: ‖U Vᵀ − G*‖_F to the matrix G* of the simplex ETF.
        own: the mean similarity of a sample's two sides; 1 at the optimum.
        others: that of different samples; −1 / (n − 1) at the optimum.
    """

    picture: str
    distance: float
    own: float
    others: float


@dataclass(frozen=True, kw_only=True, eq=False)
class Geometry:
    """A group's matrices before and after; of the first run."""

    label: str
    samples: int
    before: Gram
    after: Gram

    @property
    def optimal_others(self) -> float:
        """The similarity of different samples at the optimum."""
        return -1 / (self.samples - 1)


def geometries(comparison: Comparison, samples: Samples) -> list[Geometry]:
    """Those of the groups whose first run has kept embeddings from before and after."""
    found = (_geometry(group.runs[0], group.label, samples) for group in comparison.groups)
    return [one for one in found if one is not None]


def _geometry(run: Run, label: str, samples: Samples) -> Geometry | None:
    before, after = run.embeddings("initial"), run.embeddings("final")
    if before is None or after is None:
        return None
    with run.reading_embeddings("initial"):
        there = _with_direction(before)
        most = min(_MOST, before["u"].shape[1] + 1)
    with run.reading_embeddings("final"):
        there = there & _with_direction(after)
    with run.reading_embeddings("initial"):
        chosen = _chosen(np.flatnonzero(there), before["index"], most, samples.labels)
        if len(chosen) < 2:
            return None
        first = _gram(before["u"][chosen], before["v"][chosen])
    with run.reading_embeddings("final"):
        last = _gram(after["u"][chosen], after["v"][chosen])
    return Geometry(label=label, samples=len(chosen), before=first, after=last)


def _with_direction(kept: dict[str, Array]) -> Array:
    """(n,) which samples have no zero vector: an encoder that has learnt nothing gives some."""
    return np.asarray(kept["u"].any(axis=1) & kept["v"].any(axis=1))


def _chosen(places: Array, index: Array, most: int, labels: Array | None) -> Array:
    """At most so many of the places in the index, spread over them, and by class where classes are known."""
    rows = places[np.unique(np.linspace(0, len(places) - 1, min(most, len(places))).round().astype(int))]
    return rows if labels is None else np.asarray(rows[np.argsort(labels[index[rows]], kind="stable")])


def _gram(u: Array, v: Array) -> Gram:
    import torch

    from batchcut.theory import distance_to_optimum

    left, right = (torch.nn.functional.normalize(torch.from_numpy(side.astype(np.float64)), dim=1) for side in (u, v))
    products = (left @ right.T).numpy()
    off = ~np.eye(len(products), dtype=bool)
    return Gram(
        picture=similarity_picture(products),
        distance=distance_to_optimum(left, right),
        own=float(products.diagonal().mean()),
        others=float(products[off].mean()),
    )
