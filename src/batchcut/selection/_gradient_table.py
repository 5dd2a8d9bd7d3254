"""All that batches can keep of the full-batch gradient, in tables: exact, and quadratic in N.

The slow, obvious counterpart of `_effective`, for small sets: to enumerate batches, to search among them, and for the
gradient in both roles, which takes the whole table.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from batchcut._errors import check_choice
from batchcut._random import Stream, generator

from ._effective import batch_sizes, rising, size_at, tangent
from ._epoch import deal
from ._inputs import Doubles, Ints, unit_pairs
from ._weights import check_temperature

_CELLS = 1 << 22


@dataclass(frozen=True, eq=False)
class GradientTable:
    """What each candidate brings to each anchor, all N samples being anchors on both sides.

    In a batch S, anchor i of side k keeps Σ_{j∈S} p_j t_j − t_i, with p the softmax of scores[k, i, S] and t the sum
    of moved[k, i]; over the anchors of the full batch these add up to 1.

    Attributes:
        scores: (2, N, N) similarities of anchor and candidate over τ; side 0 are the anchors u, side 1 the anchors v.
        moved: (2, N, N) how far along the full-batch gradient it moves the anchor to be pushed from a candidate; and
            the candidate, unless candidates are held fixed.
    """

    scores: Doubles
    moved: Doubles

    def kept_by_member(self, batches: Ints) -> Doubles:
        """(K, B) what each member of each batch keeps, both sides added; 0 in the empty places (-1) of a short one."""
        step = max(1, _CELLS // batches.shape[1] ** 2)
        parts = [batches[start : start + step] for start in range(0, len(batches), step)]
        return np.concatenate([self._kept_by_member(part) for part in parts])

    def _kept_by_member(self, batches: Ints) -> Doubles:
        member, kept = batches >= 0, np.zeros(batches.shape)
        for k in range(2):
            anchors, near = batches[:, :, None], batches[:, None, :]
            scores = np.where(member[:, None, :], self.scores[k][anchors, near], -np.inf)
            masses = np.exp(scores - scores.max(axis=2, keepdims=True))
            kept += (masses * self.moved[k][anchors, near]).sum(axis=2) / masses.sum(axis=2)
            kept -= self.moved[k][batches, batches]
        return np.asarray(np.where(member, kept, 0.0))

    def kept(self, batches: Ints) -> float:
        """The share of the full-batch gradient that batches keep which hold every sample, by the mean over its batches.

        Over all C(N, b) batches of one size it is f(b).
        """
        members = batches[batches >= 0]
        times = np.bincount(members, minlength=self.scores.shape[1])
        return float((self.kept_by_member(batches)[batches >= 0] / times[members]).sum())

    def size(self, kept: float, *, seed: int = 0) -> float:
        """The size of random batches that keep as much, by one random partition for each of some sizes."""
        count = self.scores.shape[1]
        rng, sizes = generator(Stream.EFFECTIVE_SIZE, seed), batch_sizes(count)
        curve = [self.kept(deal(rng.permutation(count), int(size))) for size in sizes]
        return size_at(kept, rising(np.array(curve)), sizes)


def gradient_table(
    u: object, v: object, *, temperature: float, roles: Literal["anchor", "both"] = "anchor"
) -> GradientTable:
    """The table of the embeddings u: (N, d), v: (N, d), by the definition that `effective_batch_size` estimates.

    Args:
        u: Embeddings of one side.
        v: Embeddings of the other side.
        temperature: τ.
        roles: "anchor": the gradient of each loss with respect to its anchor; "both": and to its candidates.
    """
    check_choice("roles", roles, ("anchor", "both"))
    pairs, tau = unit_pairs(u, v), check_temperature(temperature)
    sides = (pairs.u.astype(np.float64), pairs.v.astype(np.float64))
    wide = [np.column_stack([side, np.ones(len(side))]) for side in sides]
    similarities = np.stack([sides[0] @ sides[1].T, sides[1] @ sides[0].T])
    scores = similarities / tau
    pulls = np.exp(scores - scores.max(axis=2, keepdims=True))
    pulls = pulls / pulls.sum(axis=2, keepdims=True) - np.eye(len(sides[0]))
    gradients = [tangent(pulls[k] @ sides[1 - k] / tau, sides[k]) for k in range(2)]
    if roles == "both":
        gradients = [gradients[k] + tangent(pulls[1 - k].T @ sides[1 - k] / tau, sides[k]) for k in range(2)]
    layers = [gradients[k].T @ wide[k] for k in range(2)]
    whole = float(sum((layer**2).sum() for layer in layers))
    moves = [tangent(wide[k] @ layers[k].T, sides[k]) / (tau * whole) for k in range(2)]
    along = np.stack([moves[0] @ sides[1].T, moves[1] @ sides[0].T])
    return GradientTable(scores, along + along[::-1].mT if roles == "both" else along)
