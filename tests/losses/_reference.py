"""Slow, obvious versions of the losses, in plain Python, and pairs to try them on."""

import itertools
import math

import torch
import torch.nn.functional as F
from torch import Tensor


def pairs(
    n: int, d: int, *, seed: int = 0, dtype: torch.dtype = torch.float64, unit: bool = True
) -> tuple[Tensor, Tensor]:
    """Random pairs u: (n, d), v: (n, d), of unit length unless told otherwise; they require gradients."""
    generator = torch.Generator().manual_seed(seed)
    u = torch.randn(n, d, generator=generator, dtype=torch.float64)
    v = 0.5 * u + torch.randn(n, d, generator=generator, dtype=torch.float64)
    if unit:
        u, v = F.normalize(u, dim=1), F.normalize(v, dim=1)
    return u.to(dtype).requires_grad_(), v.to(dtype).requires_grad_()


def slow_contrastive_loss(u: list[list[float]], v: list[list[float]], temperature: float = 1.0) -> float:
    """`eq:full_CLIP_loss`, term by term."""
    n = len(u)
    forward = -sum(
        math.log(_e(u[i], v[i], temperature) / sum(_e(u[i], v[j], temperature) for j in range(n))) for i in range(n)
    )
    backward = -sum(
        math.log(_e(v[i], u[i], temperature) / sum(_e(v[i], u[j], temperature) for j in range(n))) for i in range(n)
    )
    return forward / n + backward / n


def slow_loss_of_batch(u: Tensor, v: Tensor, batch: tuple[int, ...] | list[int], temperature: float = 1.0) -> float:
    """The loss of the samples that a batch names."""
    left, right = u.tolist(), v.tolist()
    return slow_contrastive_loss([left[i] for i in batch], [right[i] for i in batch], temperature)


def all_batches(n: int, size: int) -> list[tuple[int, ...]]:
    """All subsets of a size, in lexicographic order."""
    return list(itertools.combinations(range(n), size))


def slow_nt_xent(u: list[list[float]], v: list[list[float]], temperature: float) -> float:
    """SimCLR's loss by the algorithm of its paper: l(2k-1, 2k) + l(2k, 2k-1) over all k, over 2n."""
    views = [x for pair in zip(u, v, strict=True) for x in pair]
    cosine = [[_dot(a, b) / math.sqrt(_dot(a, a) * _dot(b, b)) for b in views] for a in views]

    def loss(i: int, j: int) -> float:
        denominator = sum(math.exp(cosine[i][m] / temperature) for m in range(len(views)) if m != i)
        return -math.log(math.exp(cosine[i][j] / temperature) / denominator)

    return sum(loss(k, k + 1) + loss(k + 1, k) for k in range(0, len(views), 2)) / len(views)


def _e(a: list[float], b: list[float], temperature: float) -> float:
    return math.exp(_dot(a, b) / temperature)


def _dot(a: list[float], b: list[float]) -> float:
    return math.fsum(x * y for x, y in zip(a, b, strict=True))
