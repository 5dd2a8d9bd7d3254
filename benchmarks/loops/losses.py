"""What rivals of planned batches do in a step, as pure functions of embeddings."""

import torch
from torch import Tensor

_ROWS_AT_ONCE = 1024


def loss_with_negatives(
    u: Tensor, v: Tensor, far_u: Tensor, far_v: Tensor, closed: tuple[Tensor, Tensor], *, temperature: float
) -> Tensor:
    r"""Two-sided InfoNCE of unit rows u, v: (n, d) in which each anchor has further negatives.

    .. math::
        \frac1{2n} \sum_i \Big( \log \big( \sum_j e^{u_i \cdot v_j / \tau} + \sum_k e^{u_i \cdot v'_k / \tau} \big)
            - u_i \cdot v_i / \tau \Big)

    and the same with the sides exchanged.

    Args:
        u: embeddings of one side.
        v: embeddings of the other side.
        far_u: (m, d) further candidates of the rows of v.
        far_v: (m, d) further candidates of the rows of u.
        closed: where a row of u must not see a row of far_v, and a row of v one of far_u: (n, m) each.
        temperature: τ.
    """
    near = u @ v.T / temperature
    more_v = (u @ far_v.T / temperature).masked_fill(closed[0], -torch.inf)
    more_u = (v @ far_u.T / temperature).masked_fill(closed[1], -torch.inf)
    there = torch.logsumexp(torch.cat([near, more_v], dim=1), dim=1)
    back = torch.logsumexp(torch.cat([near.T, more_u], dim=1), dim=1)
    return ((there + back) / 2 - near.diagonal()).mean()


class Memory:
    """The last so many embeddings of both sides, first in, first out (Wang et al. 2020, cross-batch memory).

    Attributes:
        index: (m,) the samples.
        u: (m, d) their embeddings of one side, without gradient.
        v: (m, d) those of the other side.
    """

    def __init__(self, size: int, dim: int) -> None:
        self.size = size
        self.index = torch.zeros(0, dtype=torch.long)
        self.u, self.v = torch.zeros(0, dim), torch.zeros(0, dim)

    def add(self, index: Tensor, u: Tensor, v: Tensor) -> None:
        """Takes in a batch and lets the oldest rows go."""
        self.index = torch.cat([self.index, index])[-self.size :]
        self.u, self.v = (torch.cat([old, new.detach()])[-self.size :] for old, new in ((self.u, u), (self.v, v)))


def hardest_negatives(anchors: Tensor, candidates: Tensor, *, relative_margin: float) -> Tensor:
    r"""(N,) for each unit row of anchors: (N, d) the most similar other row of candidates: (N, d) that is allowed.

    With :math:`p_i = a_i \cdot c_i` the similarity of the positive, j is allowed where
    :math:`a_i \cdot c_j \le p_i - m |p_i|`: what is nearer than that may be a positive, too. -1 where none is.
    """
    positive = (anchors * candidates).sum(dim=1)
    most = positive - relative_margin * positive.abs()
    found = []
    for start in range(0, len(anchors), _ROWS_AT_ONCE):
        rows = slice(start, start + _ROWS_AT_ONCE)
        scores = anchors[rows] @ candidates.T
        scores[torch.arange(len(scores)), torch.arange(start, start + len(scores))] = -torch.inf
        best = scores.masked_fill_(scores > most[rows, None], -torch.inf).max(dim=1)
        found.append(best.indices.masked_fill(best.values == -torch.inf, -1))
    return torch.cat(found)
