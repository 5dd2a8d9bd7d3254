"""What ordered SGD minimises."""

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from batchcut._errors import check_integer, invalid

from ._minibatch import paper_minibatch_loss, readable
from ._validate import check_pair

MOST_WEIGHTS = 10**8
"""How many weights may be asked for at once."""

LARGEST_TOTAL = 10**300
"""Above this the weights leave float64."""

CHUNK = 2**20
"""How many chances are held at once."""


def order_weights(total: int, k: int, q: int, *, ranks: Sequence[int] | None = None) -> Tensor:
    """How often OSGD takes the batch of each rank: γ_j of `eq:osgd-loss`, as (len(ranks),) float64.

    OSGD draws k of `total` batches and takes the q with the highest loss. The batch with the j-th highest loss is taken
    with probability

        γ_j = Σ_{l=0..q−1} C(j−1, l) · C(total−j, k−l−1) / C(total, k),

    and they sum to q. The binomials overflow early and their logarithms cancel, so neither is used. All weights at once
    come from their differences, which are positive and follow from each other. Given ranks are computed one by one: the
    batch is drawn with probability k / total and the other k - 1 one after the other, keeping the probability that
    l < q of them rank above it. Nothing is subtracted, so nothing is lost, for a `total` like C(50000, 32) as well.

    Args:
        total: the number of batches, C(N, B).
        k: how many are drawn, at most `total`.
        q: how many are taken, at most k.
        ranks: which ranks, from 1 (the highest loss) to `total`; all of them if left out.
    """
    total, k, q = _check_draw(total, k, q)
    if ranks is None:
        if total > MOST_WEIGHTS:
            rule = f"be given where total is above {MOST_WEIGHTS:,}"
            raise invalid("ranks", rule, f"none for total = {readable(total)}")
        return _all_weights(total, k, q)
    chosen = [check_integer("ranks", rank, at_least=1, at_most=total) for rank in ranks]
    # Differences of Python's integers are exact; as floats they would not be.
    above = torch.tensor([float(rank - 1) for rank in chosen], dtype=torch.float64)
    below = torch.tensor([float(total - rank) for rank in chosen], dtype=torch.float64)
    step = max(1, CHUNK // q)
    chances = [_chance_in_top(total, k, q, *some) for some in zip(above.split(step), below.split(step), strict=True)]
    return torch.cat(chances) * (k / total)


def _all_weights(total: int, k: int, q: int) -> Tensor:
    """The weights of all ranks, from their differences.

        γ_j − γ_{j+1} = C(j−1, q−1) · C(total−j−1, k−q−1) / C(total, k)

    for q ≤ j ≤ total - k + q, and 0 elsewhere. Each follows from the one before by a ratio of small integers.
    """
    if k == q:
        return torch.full((total,), k / total, dtype=torch.float64)
    rank = torch.arange(q, total - k + q, dtype=torch.float64)
    ratio = rank / (rank - q + 1) * ((total - k + q - rank) / (total - 1 - rank))
    logarithm = torch.cat([ratio.new_zeros(1), ratio.log().cumsum(dim=0)])
    falls = (logarithm - logarithm.max()).exp()
    weights = torch.zeros(total, dtype=torch.float64)
    weights[q - 1 : total - k + q] = falls.flip(0).cumsum(dim=0).flip(0)
    weights[: q - 1] = weights[q - 1]
    return weights * (q / weights.sum())


def _check_draw(total: int, k: int, q: int) -> tuple[int, int, int]:
    total = check_integer("total", total, at_least=1)
    if total > LARGEST_TOTAL:
        raise invalid("total", "be at most 1e300, as the weights are float64", readable(total))
    k = check_integer("k", k, at_least=1, at_most=total)
    q = check_integer("q", q, at_least=1, at_most=k)
    return total, k, q


def _chance_in_top(total: int, k: int, q: int, above: Tensor, below: Tensor) -> Tensor:
    """The chance that fewer than q of k - 1 others rank above a batch, by how many `above` and `below` there are."""
    # chance[l]: so many of those drawn so far rank above.
    chance = torch.zeros(q, len(above), dtype=torch.float64)
    chance[0] = 1
    for drawn in range(k - 1):
        left = float(total - 1 - drawn)
        count = torch.arange(min(drawn + 1, q), dtype=torch.float64)[:, None]
        here = chance[: len(count)]
        higher = here * ((above - count).clamp(min=0) / left)
        here *= (below - (drawn - count)).clamp(min=0) / left
        stays = higher[: q - 1]
        chance[1 : 1 + len(stays)] += stays
    return chance.sum(dim=0)


def ordered_loss(u: Tensor, v: Tensor, *, batch_size: int, k: int, q: int, temperature: float | Tensor = 1.0) -> Tensor:
    """The objective that OSGD follows on u: (N, d), v: (N, d): all batches, weighted by the rank of their loss.

        L̃(U, V) = 1/q Σ_{j=1..C(N, B)} γ_j L(U_(j), V_(j))

    (`eq:osgd-loss`) with L of `paper.contrastive_loss`, where batch (j) has the j-th highest loss and γ are the
    `order_weights`. It is the expected mean loss of the q batches that a step takes. For k = q it is the mean over all
    batches, for q = 1 and k = C(N, B) the highest loss. Where two batches tie it is not differentiable, and the
    gradient is that of one of the two orders.
    """
    check_pair(u, v)
    total = math.comb(len(u), check_integer("batch_size", batch_size, at_least=2, at_most=len(u)))
    _check_draw(total, k, q)
    losses = paper_minibatch_loss(u, v, "all", batch_size=batch_size, temperature=temperature, reduction="none")
    weights = order_weights(total, k, q)
    return (weights.to(losses) * losses.sort(descending=True).values).sum() / q
