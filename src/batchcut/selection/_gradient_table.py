"""All that batches can keep of the full-batch gradient, in one table: exact, and quadratic in N.

The slow, obvious counterpart of `_effective`, for small sets: to enumerate batches, and to search among them.
"""

from dataclasses import dataclass

import numpy as np

from ._effective import Extra, tangent
from ._inputs import Doubles, Ints, unit_pairs
from ._weights import check_temperature


@dataclass(frozen=True, eq=False)
class GradientTable:
    """What each candidate brings to each anchor, all N samples being anchors on both sides.

    In a batch S, the anchor i of side k keeps Σ_{j∈S} p_j along[k, i, j] − along[k, i, i] with p the softmax of
    scores[k, i, S]; over the anchors of the full batch these add up to 1.

    Attributes:
        scores: (2, N, N) similarities of anchor and candidate over τ; side 0 are the anchors u, side 1 the anchors v.
        along: (2, N, N) how far each candidate points along the full-batch gradient.
    """

    scores: Doubles
    along: Doubles

    def kept_by_member(self, batches: Ints, background: Extra | None = None) -> Doubles:
        """(K, B) what each member of each batch keeps, both sides added; 0 in the empty places (-1) of a short one.

        Args:
            batches: (K, B) indices.
            background: As for `effective_batch_size`.
        """
        member = batches >= 0
        kept = np.zeros(batches.shape)
        for k in range(2):
            scores = self.scores[k][batches[:, :, None], batches[:, None, :]]
            scores = np.where(member[:, None, :], scores, -np.inf)
            along = self.along[k][batches[:, :, None], batches[:, None, :]]
            if background is not None:
                samples, log_weights = background
                anchors, further = batches[:, :, None], samples[batches]
                scores = np.concatenate([scores, self.scores[k][anchors, further] + log_weights[k][batches]], axis=2)
                along = np.concatenate([along, self.along[k][anchors, further]], axis=2)
            masses = np.exp(scores - scores.max(axis=2, keepdims=True))
            kept += (masses * along).sum(axis=2) / masses.sum(axis=2) - self.along[k][batches, batches]
        return np.asarray(np.where(member, kept, 0.0))

    def kept(self, batches: Ints, background: Extra | None = None) -> float:
        """The share of the full-batch gradient that batches keep which hold every sample, by the mean over its batches.

        Over all C(N, b) batches of one size it is f(b).
        """
        members = batches[batches >= 0]
        times = np.bincount(members, minlength=self.scores.shape[1])
        return float((self.kept_by_member(batches, background)[batches >= 0] / times[members]).sum())


def gradient_table(u: object, v: object, *, temperature: float) -> GradientTable:
    """The table of the embeddings u: (N, d), v: (N, d), by the definition that `effective_batch_size` estimates."""
    pairs, tau = unit_pairs(u, v), check_temperature(temperature)
    sides = (pairs.u.astype(np.float64), pairs.v.astype(np.float64))
    scores = np.stack([sides[k] @ sides[1 - k].T / tau for k in range(2)])
    softmax = np.exp(scores - scores.max(axis=2, keepdims=True))
    softmax /= softmax.sum(axis=2, keepdims=True)
    along = np.empty_like(scores)
    whole = 0.0
    for k, (rows, candidates) in enumerate((sides, sides[::-1])):
        gradients = tangent((softmax[k] @ candidates - candidates) / tau, rows)
        layer = gradients.T @ np.column_stack([rows, np.ones(len(rows))])
        along[k] = tangent(rows @ layer[:, :-1].T + layer[:, -1], rows) @ candidates.T / tau
        whole += float((layer**2).sum())
    return GradientTable(scores, along / whole)
